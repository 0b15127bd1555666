//! What a file store does to the files of its folder. Callers hold the folder's lock.
#pragma once

#include "../../store/request_checks.hpp"
#include "locked_folder.hpp"

#include <waymark/store.hpp>

#include <functional>
#include <span>

namespace waymark::file {

//! "checkpoint 'c7' of agent 'planner' is damaged: '…/c7.json': …"
[[noreturn]] void fail_damaged(const checkpoint_file& found);
[[noreturn]] void fail_damaged(const step_file& found);
//! For functions that look again. @throws files::vanished if it is gone
[[noreturn]] void fail_if_there(const checkpoint_file& found);

class checkpoint_folder : public locked_folder {
public:
    using locked_folder::locked_folder;

    checkpoint read(const checkpoint_file& found, const fs::path& path) const;
    //! The matches, in the order of the query. Damaged ones are shown unless their place is known to be
    //! outside.
    std::vector<const checkpoint_file*> select(const query& wanted);
    save_result save(const save_request& request, file_changes& changes);
    void put_step(const step_request& request, file_changes& changes);
    //! Applies each request and publishes what they wrote.
    template <class Outcome, class Request, class Apply, class AgentOf>
    std::vector<Outcome> apply_batch(std::span<const Request> batch, Apply apply, AgentOf agent_of)
    {
        file_changes changes(root, aside(), known_folders);
        std::vector<Outcome> outcomes;
        std::vector<std::string> touched;
        try {
            for (const auto& request : batch) {
                try {
                    touched.push_back(agent_of(request));
                    outcomes.push_back(apply(request, changes));
                } catch (const error& failure) {
                    if (!detail::concerns_one_request(failure))
                        throw;
                    outcomes.push_back(failure);
                }
            }
        } catch (...) { // nothing is visible
            forget(touched);
            throw;
        }
        publish(changes, touched);
        return outcomes;
    }

    //! Takes away checkpoints of a scope.
    void remove(agent_files& agent, const std::string& scope_name, const std::vector<std::string>& ids);
    void remove_steps(agent_files& agent, scope_files& scope,
                      const std::function<bool(const step_file&)>& chosen);
    void drop_steps_without_checkpoint(agent_files& agent, scope_files& scope);
    //! Takes the folders of an agent out of sight, then removes them. What is not ours in them stays.
    void remove_folders(const agent_files& agent);
    //! `old`: what is left of an agent of that name, which has no content; or null.
    std::uint64_t copy(agent_files& origin, std::string_view to, const agent_files* old);
    prune_result prune(agent_files& agent, const retention& policies, dry_run dry);
    void write_record(agent_files& agent);
    //! Pins, and sequences of what was erased, are in the record.
    static void require_record(const agent_files& agent);

private:
    bool holds_same(const checkpoint_file& existing, const checkpoint& wanted,
                    const file_changes& changes) const;
    //! A shortened name does not tell whose folder it is.
    void write_record_of_new(agent_files& agent, file_changes& changes);
    //! The sequence that `before(id)` stands for.
    std::int64_t resolve_before(const query& wanted);
    static bool matches_query(const query& wanted, const checkpoint_file& entry);
};

} // namespace waymark::file
