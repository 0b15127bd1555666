//! A store that passes everything on to another one; tests change what they need.
#pragma once

#include <waymark/memory_store.hpp>

namespace waymark::test {

class forwarding_store : public store {
public:
    forwarding_store() : forwarding_store(std::make_shared<memory_store>()) {}
    explicit forwarding_store(std::shared_ptr<store> inner) : inner_(std::move(inner)) {}

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        return inner_->save(batch);
    }
    std::optional<checkpoint> load(std::string_view agent, std::string_view scope,
                                   std::string_view id) override
    {
        return inner_->load(agent, scope, id);
    }
    std::optional<checkpoint> load(std::string_view id) override { return inner_->load(id); }
    std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope = {}) override
    {
        return inner_->load_latest(agent, scope);
    }
    std::vector<checkpoint_header> list(const query& query) override { return inner_->list(query); }
    std::vector<checkpoint> load_all(const query& query) override { return inner_->load_all(query); }
    std::uint64_t count(const query& query) override { return inner_->count(query); }
    std::vector<std::string> list_agents(std::string_view after = {}, std::size_t limit = 1000) override
    {
        return inner_->list_agents(after, limit);
    }
    bool erase(std::string_view agent, std::string_view scope, std::string_view id) override
    {
        return inner_->erase(agent, scope, id);
    }
    std::uint64_t erase_scope(std::string_view agent, std::string_view scope,
                              const upkeep_control& control = {}) override
    {
        return inner_->erase_scope(agent, scope, control);
    }
    std::uint64_t erase_agent(std::string_view agent) override { return inner_->erase_agent(agent); }
    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control = {}) override
    {
        return inner_->copy_agent(from, to, control);
    }
    prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                       const upkeep_control& control = {}) override
    {
        return inner_->prune(agent, policies, dry, control);
    }
    bool pin(std::string_view agent, std::string_view scope, std::string_view id, bool pinned) override
    {
        return inner_->pin(agent, scope, id, pinned);
    }
    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        return inner_->put_steps(batch);
    }
    std::vector<step> load_steps(const step_query& query) override { return inner_->load_steps(query); }
    bool erase_step(std::string_view agent, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt = std::nullopt) override
    {
        return inner_->erase_step(agent, scope, key, attempt);
    }
    void await_outcome(std::string_view agent) override { inner_->await_outcome(agent); }
    verify_report verify(const upkeep_control& control = {}) override { return inner_->verify(control); }
    std::uint64_t compact(const upkeep_control& control = {}) override { return inner_->compact(control); }
    void sweep(std::string_view agent, const upkeep_control& control = {}) override
    {
        inner_->sweep(agent, control);
    }
    store_stats stats() override { return inner_->stats(); }
    store_stats stats(std::string_view agent) override { return inner_->stats(agent); }
    std::size_t write_lanes() const noexcept override { return inner_->write_lanes(); }
    const waymark::limits& accepted_limits() const noexcept override { return inner_->accepted_limits(); }

protected:
    store& inner() const noexcept { return *inner_; }

private:
    std::shared_ptr<store> inner_;
};

} // namespace waymark::test
