//! Checkpoints in memory: for tests, for caches, and as the reference for other backends.
#pragma once

#include <waymark/store.hpp>

#include <memory>

namespace waymark {

//! Options of memory_store.
class memory_options {
public:
    memory_options() = default;

    memory_options& with_limits(waymark::limits bounds) noexcept
    {
        limits_ = bounds;
        return *this;
    }
    const waymark::limits& limits() const noexcept { return limits_; }

private:
    waymark::limits limits_;
};

//! A store that lasts as long as the object. Checkpoints of one growing conversation share its messages, so
//! that a thousand of them cost little more than the last.
class memory_store final : public store {
public:
    explicit memory_store(memory_options options = {});
    ~memory_store() override;

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override;
    std::optional<checkpoint> load(std::string_view agent_id, std::string_view scope,
                                   std::string_view id) override;
    std::optional<checkpoint> load(std::string_view id) override;
    std::optional<checkpoint> load_latest(std::string_view agent_id, std::string_view scope = {}) override;
    std::vector<checkpoint_header> list(const query& query) override;
    std::vector<checkpoint> load_all(const query& query) override;
    std::vector<load_outcome> load_some(std::span<const checkpoint_key> keys,
                                        std::span<const checkpoint> earlier,
                                        std::size_t about_bytes) override;
    std::uint64_t count(const query& query) override;
    std::vector<std::string> list_agents(std::string_view after = {}, std::size_t limit = 1000) override;
    bool erase(std::string_view agent_id, std::string_view scope, std::string_view id) override;
    std::uint64_t erase_scope(std::string_view agent_id, std::string_view scope,
                              const upkeep_control& control = {}) override;
    std::uint64_t erase_agent(std::string_view agent_id) override;
    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control = {}) override;
    prune_result prune(std::string_view agent_id, const retention& policies, dry_run dry,
                       const upkeep_control& control = {}) override;
    bool pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned) override;
    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override;
    std::vector<step> load_steps(const step_query& query) override;
    bool erase_step(std::string_view agent_id, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt = std::nullopt) override;
    verify_report verify(const upkeep_control& control = {}) override;
    std::uint64_t compact(const upkeep_control& control = {}) override;
    store_stats stats() override;
    store_stats stats(std::string_view agent_id) override;
    std::size_t write_lanes() const noexcept override;
    const waymark::limits& accepted_limits() const noexcept override;

private:
    class impl;
    std::unique_ptr<impl> impl_;
};

} // namespace waymark
