#include "../../store/request_checks.hpp"
#include "../../values/text.hpp"
#include "../files.hpp"
#include "checkpoint_folder.hpp"
#include "file_names.hpp"

#include <waymark/file_store.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace waymark {

namespace fs = std::filesystem;
using file::agent_files;
using file::checkpoint_file;

class file_store::impl : public file::checkpoint_folder {
public:
    using checkpoint_folder::checkpoint_folder;
};

file_store::file_store(const fs::path& folder, file_options options)
    : impl_(std::make_unique<impl>(folder, std::move(options)))
{
}

file_store::~file_store() = default;

std::vector<save_outcome> file_store::save(std::span<const save_request> batch)
{
    const auto lock = impl_->lock_to_write();
    return impl_->apply_batch<save_outcome>(
        batch,
        [this](const save_request& request, file::file_changes& changes) {
            return impl_->save(request, changes);
        },
        [](const save_request& request) { return request.checkpoint().agent_id(); });
}

std::optional<checkpoint> file_store::load(std::string_view agent_id, std::string_view scope,
                                           std::string_view id)
{
    detail::validate_key(agent_id, scope, id);
    return impl_->answer([&] {
        auto* agent = impl_->files_in.find(agent_id);
        const auto* found = agent == nullptr ? nullptr : agent->find(scope, id);
        return found == nullptr ? std::nullopt : std::optional(impl_->read(*found, found->path));
    });
}

std::optional<checkpoint> file_store::load(std::string_view id)
{
    validate_id(id, "the checkpoint id");
    return impl_->answer([&] {
        const checkpoint_file* found = nullptr;
        for (const auto& agent_id : impl_->files_in.agents())
            for (auto& [name, scope] : impl_->files_in.find(agent_id)->scopes) {
                const auto* match = scope.find(id);
                if (match != nullptr && found != nullptr)
                    detail::fail_ambiguous_id(id);
                found = match != nullptr ? match : found;
            }
        return found == nullptr ? std::nullopt : std::optional(impl_->read(*found, found->path));
    });
}

std::optional<checkpoint> file_store::load_latest(std::string_view agent_id, std::string_view scope)
{
    validate_id(agent_id, "the agent id");
    validate_label(scope, "the scope");
    return impl_->answer([&]() -> std::optional<checkpoint> {
        auto* agent = impl_->files_in.find(agent_id);
        const auto* where = agent == nullptr ? nullptr : agent->find_scope(scope);
        if (where == nullptr)
            return std::nullopt;
        if (const auto* damaged = where->without_sequence())
            file::fail_if_there(*damaged); // it may be the newest: nothing is guessed
        const auto* head = where->head();
        return head == nullptr ? std::nullopt : std::optional(impl_->read(*head, head->path));
    });
}

std::vector<checkpoint_header> file_store::list(const query& query)
{
    return impl_->answer([&] {
        std::vector<checkpoint_header> result;
        for (const auto* match : impl_->select(query)) {
            impl_->require_record(*impl_->files_in.find(match->header.agent_id())); // it says what is pinned
            result.push_back(match->header);
        }
        return result;
    });
}

std::vector<checkpoint> file_store::load_all(const query& query)
{
    // What was read before something else was gone is not read again: beside a writer that removes one after
    // the other, it would never come to an end.
    std::map<fs::path, std::pair<file::file_stamp, checkpoint>> read;
    return impl_->answer([&] {
        std::vector<checkpoint> result;
        for (const auto* match : impl_->select(query)) {
            const auto known = read.find(match->path);
            if (known == read.end() || known->second.first != match->stamp)
                read.insert_or_assign(match->path, std::pair(match->stamp, impl_->read(*match, match->path)));
            result.push_back(read.at(match->path).second); // a copy shares its messages
        }
        return result;
    });
}

std::vector<load_outcome> file_store::load_some(std::span<const checkpoint_key> keys,
                                                std::span<const checkpoint> /*earlier*/,
                                                std::size_t about_bytes)
{
    for (const auto& key : keys)
        detail::validate_key(key.agent_id(), key.scope(), key.id());
    std::vector<load_outcome> outcomes; // those that were read before something else was gone stay
    std::size_t bytes = 0;
    impl_->answer([&] {
        while (outcomes.size() < keys.size() && (outcomes.empty() || bytes < about_bytes)) {
            const auto& key = keys[outcomes.size()];
            auto* agent = impl_->files_in.find(key.agent_id());
            const auto* found = agent == nullptr ? nullptr : agent->find(key.scope(), key.id());
            if (found == nullptr) {
                outcomes.emplace_back();
                continue;
            }
            try {
                outcomes.push_back(std::optional(impl_->read(*found, found->path)));
                bytes += found->header.stored_bytes();
            } catch (const files::vanished&) {
                throw;
            } catch (const error& failure) {
                if (!detail::concerns_one_request(failure))
                    throw;
                outcomes.push_back(failure);
            }
        }
    });
    return outcomes;
}

std::uint64_t file_store::count(const query& query)
{
    return impl_->answer([&] { return impl_->select(query).size(); });
}

std::vector<std::string> file_store::list_agents(std::string_view after, std::size_t limit)
{
    validate_label(after, "the agent id");
    return impl_->answer([&] {
        std::vector<std::string> result;
        for (auto& agent_id : impl_->files_in.agents()) {
            if (result.size() == limit)
                break;
            if (agent_id > after && !impl_->files_in.find(agent_id)->empty())
                result.push_back(std::move(agent_id));
        }
        return result;
    });
}

bool file_store::erase(std::string_view agent_id, std::string_view scope, std::string_view id)
{
    detail::validate_key(agent_id, scope, id);
    const auto lock = impl_->lock_to_write();
    auto* agent = impl_->files_in.find(agent_id);
    if (agent == nullptr || agent->find(scope, id) == nullptr)
        return false;
    impl_->remove(*agent, std::string(scope), {std::string(id)});
    impl_->drop_steps_without_checkpoint(*agent, *agent->find_scope(scope));
    return true;
}

std::uint64_t file_store::erase_scope(std::string_view agent_id, std::string_view scope,
                                      const upkeep_control& /*control*/)
{
    detail::validate_scope(agent_id, scope);
    const auto lock = impl_->lock_to_write();
    auto* agent = impl_->files_in.find(agent_id);
    auto* where = agent == nullptr ? nullptr : agent->find_scope(scope);
    if (where == nullptr)
        return 0;
    // Oldest first: if it is interrupted, the head and the steps that were made on it are still there.
    std::vector<std::string> ids;
    for (const auto* entry : where->in_order())
        ids.push_back(entry->header.id());
    for (const auto& [id, entry] : where->checkpoints()) // one of these may be the head
        if (!entry.has_sequence)
            ids.push_back(id);
    impl_->remove(*agent, std::string(scope), ids);
    impl_->remove_steps(*agent, *where, [](const file::step_file&) { return true; });
    return ids.size();
}

std::uint64_t file_store::erase_agent(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    const auto lock = impl_->lock_to_write();
    const auto* agent = impl_->files_in.find(agent_id);
    if (agent == nullptr)
        return 0;
    const auto count = agent->count();
    impl_->remove_folders(*agent);
    impl_->files_in.remove(agent_id);
    return count;
}

std::uint64_t file_store::copy_agent(std::string_view from, std::string_view to,
                                     const upkeep_control& /*control*/)
{
    validate_id(from, "the agent id");
    validate_id(to, "the new agent id");
    const auto lock = impl_->lock_to_write();
    auto* origin = impl_->files_in.find(from);
    if (origin == nullptr || origin->empty())
        detail::fail_nothing_to_copy(from);
    auto* target = impl_->files_in.find(to);
    if (target != nullptr && !target->empty())
        detail::fail_copy_onto(to);
    const auto folder = impl_->root / file::to_name(to);
    if (file::stamp_of(folder) && !file::holds_only_ours(folder))
        detail::fail_copy_onto(to); // with files of someone else
    return impl_->copy(*origin, to, target);
}

prune_result file_store::prune(std::string_view agent_id, const retention& policies, dry_run dry,
                               const upkeep_control& /*control*/)
{
    validate_id(agent_id, "the agent id");
    const auto decide = [&] {
        auto* agent = impl_->files_in.find(agent_id);
        return agent == nullptr ? prune_result() : impl_->prune(*agent, policies, dry);
    };
    if (dry == dry_run::yes)
        return impl_->answer(decide);
    const auto lock = impl_->lock_to_write();
    return decide();
}

bool file_store::pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned)
{
    detail::validate_key(agent_id, scope, id);
    const auto lock = impl_->lock_to_write();
    auto* agent = impl_->files_in.find(agent_id);
    auto* found = agent == nullptr ? nullptr : agent->find(scope, id);
    if (found == nullptr)
        return false;
    if (found->header.pinned() == pinned)
        return true;
    impl_->require_record(*agent);
    auto& pins = agent->record.pins;
    const std::pair<std::string, std::string> key(scope, id);
    if (pinned)
        pins.insert(key);
    else
        pins.erase(key);
    found->header.with_pinned(pinned);
    impl_->write_record(*agent);
    return true;
}

std::vector<step_outcome> file_store::put_steps(std::span<const step_request> batch)
{
    const auto lock = impl_->lock_to_write();
    return impl_->apply_batch<step_outcome>(
        batch,
        [this](const step_request& request, file::file_changes& changes) {
            impl_->put_step(request, changes);
            return stored{};
        },
        [](const step_request& request) { return request.step().agent_id(); });
}

std::vector<step> file_store::load_steps(const step_query& query)
{
    return impl_->answer([&] {
        std::vector<step> result;
        if (auto* agent = impl_->files_in.find(query.agent_id()))
            for (const auto& [name, scope] : agent->scopes)
                for (const auto& [key, entry] : scope.steps) {
                    if (entry.damage && (!query.scope() || *query.scope() == name))
                        file::fail_damaged(entry);
                    if (query.matches(entry.content.value))
                        result.push_back(entry.content.value);
                }
        return result;
    });
}

bool file_store::erase_step(std::string_view agent_id, std::string_view scope, std::string_view key,
                            const std::optional<std::string>& attempt)
{
    detail::validate_step_key(agent_id, scope, key);
    const auto lock = impl_->lock_to_write();
    auto* agent = impl_->files_in.find(agent_id);
    auto* where = agent == nullptr ? nullptr : agent->find_scope(scope);
    const auto* found = where == nullptr ? nullptr : where->find_step(key);
    if (found == nullptr)
        return false;
    if (attempt && found->damage)
        file::fail_damaged(*found); // it does not tell whose it is
    if (!detail::may_be_erased(found->content.value, attempt))
        return false;
    const auto path = found->path;
    impl_->remove_steps(*agent, *where, [&](const file::step_file& entry) { return entry.path == path; });
    return true;
}

namespace {

//! What verify() has found so far. It goes on where it was when something vanished meanwhile.
struct verification {
    upkeep_progress done;
    std::set<fs::path> checked;
    std::vector<verify_report::damage> damages;

    //! Calls `read` unless the file was read before. Returns whether it did.
    template <class Read>
    bool check(const fs::path& path, const checkpoint_key& key, const std::string& what, Read read)
    {
        if (checked.contains(path))
            return false;
        try {
            read();
        } catch (const files::vanished&) {
            throw;
        } catch (const error& failure) {
            damages.push_back({key, what + failure.details().message()});
        }
        checked.insert(path);
        return true;
    }
};

} // namespace

verify_report file_store::verify(const upkeep_control& control)
{
    verification so_far;
    auto& done = so_far.done;
    impl_->answer([&] {
        const auto everything = impl_->select(query::all_agents());
        done.total = done.done + static_cast<std::uint64_t>(std::count_if(
                                     everything.begin(), everything.end(), [&](const auto* entry) {
                                         return !so_far.checked.contains(entry->path);
                                     }));
        for (const auto* entry : everything) {
            if (!so_far.check(entry->path, entry->header.key(), "",
                              [&] { impl_->read(*entry, entry->path); }))
                continue;
            ++done.done;
            control.require_wanted();
            if (done.done < done.total)
                control.report(done);
        }
        for (const auto& agent_id : impl_->files_in.agents()) {
            const auto& agent = *impl_->files_in.find(agent_id);
            if (agent.record_damage)
                so_far.check(agent.record_path(), {agent_id, {}, {}}, "the record of the agent is damaged: ",
                             [&] { throw error(errc::corrupt, *agent.record_damage); });
            for (const auto& [name, scope] : agent.scopes)
                for (const auto& [key, entry] : scope.steps)
                    so_far.check(entry.path, {agent_id, name, {}},
                                 "step " + detail::quoted(key) + " is damaged: ", [&] {
                                     file::read_step(files::read_whole(entry.path));
                                 });
        }
    });
    control.report(done);
    return {done.done, std::move(so_far.damages)};
}

std::uint64_t file_store::compact(const upkeep_control& /*control*/)
{
    impl_->lock_to_write();
    return 0; // files take what they need
}

namespace {

void add_to(store_stats& sum, const file::agent_files& agent)
{
    sum.agents += agent.empty() ? 0 : 1;
    sum.checkpoints += agent.count();
    for (const auto& [name, scope] : agent.scopes) {
        sum.steps += scope.steps.size();
        for (const auto& [id, entry] : scope.checkpoints())
            sum.bytes += entry.header.stored_bytes();
    }
}

} // namespace

store_stats file_store::stats()
{
    return impl_->answer([&] {
        store_stats result;
        for (const auto& agent_id : impl_->files_in.agents()) {
            const auto& agent = *impl_->files_in.find(agent_id);
            add_to(result, agent);
            for (const auto& [name, scope] : agent.scopes)
                for (const auto& [key, entry] : scope.steps)
                    result.bytes += files::size_of(entry.path);
        }
        return result;
    });
}

store_stats file_store::stats(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    return impl_->answer([&] {
        store_stats result;
        if (const auto* agent = impl_->files_in.find(agent_id))
            add_to(result, *agent);
        return result;
    });
}

std::size_t file_store::write_lanes() const noexcept
{
    return 1;
}

const waymark::limits& file_store::accepted_limits() const noexcept
{
    return impl_->options.limits();
}

} // namespace waymark
