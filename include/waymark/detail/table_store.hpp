//! The part that stores on databases have in common.
#pragma once

#include <waymark/limits.hpp>
#include <waymark/store.hpp>

#include <memory>

namespace waymark {

namespace tables {
class database;
}

namespace detail {

//! A store that keeps its checkpoints in the tables of a database. `sqlite_store` derives from it and says
//! which.
class table_store : public store {
public:
    ~table_store() override;

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) final;
    std::optional<checkpoint> load(std::string_view agent_id, std::string_view scope,
                                   std::string_view id) final;
    std::optional<checkpoint> load(std::string_view id) final;
    std::optional<checkpoint> load_latest(std::string_view agent_id, std::string_view scope = {}) final;
    std::vector<checkpoint_header> list(const query& query) final;
    std::vector<checkpoint> load_all(const query& query) final;
    std::vector<load_outcome> load_some(std::span<const checkpoint_key> keys,
                                        std::span<const checkpoint> earlier, std::size_t about_bytes) final;
    std::uint64_t count(const query& query) final;
    std::vector<std::string> list_agents(std::string_view after = {}, std::size_t limit = 1000) final;
    bool erase(std::string_view agent_id, std::string_view scope, std::string_view id) final;
    std::uint64_t erase_scope(std::string_view agent_id, std::string_view scope,
                              const upkeep_control& control = {}) final;
    std::uint64_t erase_agent(std::string_view agent_id) final;
    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control = {}) final;
    prune_result prune(std::string_view agent_id, const retention& policies, dry_run dry,
                       const upkeep_control& control = {}) final;
    bool pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned) final;
    std::vector<step_outcome> put_steps(std::span<const step_request> batch) final;
    commit_outcomes commit(std::span<const save_request> saves, std::span<const step_request> steps) final;
    std::vector<step> load_steps(const step_query& query) final;
    bool erase_step(std::string_view agent_id, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt = std::nullopt) final;
    void await_outcome(std::string_view agent_id) final;
    verify_report verify(const upkeep_control& control = {}) final;
    void sweep(std::string_view agent_id, const upkeep_control& control = {}) final;
    std::uint64_t compact(const upkeep_control& control = {}) final;
    store_stats stats() final;
    store_stats stats(std::string_view agent_id) final;
    std::size_t write_lanes() const noexcept final;
    const waymark::limits& accepted_limits() const noexcept final;

protected:
    table_store(std::unique_ptr<tables::database> database, waymark::limits bounds);

private:
    class impl;
    std::unique_ptr<impl> impl_;
};

} // namespace detail

} // namespace waymark
