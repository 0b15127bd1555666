//! The plain model: one list of checkpoints in the order of their sequence, one list of steps, searched from
//! end to end. It shares only values with the real backends, none of their code.
#include "expect.hpp"

#include <waymark/testing/random_operations.hpp>

#include <algorithm>

namespace waymark::testing {

namespace {

constexpr std::uint64_t bytes_of_each = 1; // the model does not measure

struct saved {
    checkpoint value;
    bool pinned = false;
};

class model_store final : public store {
public:
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        std::vector<save_outcome> outcomes;
        for (const auto& request : batch) {
            try {
                outcomes.push_back(save_one(request));
            } catch (const error& failure) {
                outcomes.push_back(failure);
            }
        }
        return outcomes;
    }

    std::optional<checkpoint> load(std::string_view agent, std::string_view scope,
                                   std::string_view id) override
    {
        const auto found = find(agent, scope, id);
        return found == all.end() ? std::nullopt : std::optional(found->value);
    }

    std::optional<checkpoint> load(std::string_view id) override
    {
        std::optional<checkpoint> found;
        for (const auto& entry : all)
            if (entry.value.id() == id) {
                if (found)
                    throw error(errc::conflict, "several");
                found = entry.value;
            }
        return found;
    }

    std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope) override
    {
        const auto* latest = head(agent, scope);
        return latest == nullptr ? std::nullopt : std::optional(latest->value);
    }

    std::vector<checkpoint_header> list(const query& query) override
    {
        std::vector<checkpoint_header> result;
        for (const auto* entry : select(query))
            result.push_back(
                checkpoint_header(entry->value).with_pinned(entry->pinned).with_stored_bytes(bytes_of_each));
        return result;
    }

    std::vector<checkpoint> load_all(const query& query) override
    {
        std::vector<checkpoint> result;
        for (const auto* entry : select(query))
            result.push_back(entry->value);
        return result;
    }

    std::uint64_t count(const query& query) override { return select(query).size(); }

    std::vector<std::string> list_agents(std::string_view after, std::size_t limit) override
    {
        std::vector<std::string> agents;
        for (const auto& entry : all)
            agents.push_back(entry.value.agent_id());
        for (const auto& entry : steps)
            agents.push_back(entry.value.agent_id());
        std::sort(agents.begin(), agents.end());
        agents.erase(std::unique(agents.begin(), agents.end()), agents.end());
        std::erase_if(agents, [&](const std::string& agent) { return agent <= after; });
        agents.resize(std::min(agents.size(), limit));
        return agents;
    }

    bool erase(std::string_view agent, std::string_view scope, std::string_view id) override
    {
        const auto found = find(agent, scope, id);
        if (found == all.end())
            return false;
        all.erase(found);
        const auto* latest = head(agent, scope);
        const auto newest = latest == nullptr ? -1 : latest->value.sequence();
        std::erase_if(steps, [&](const recorded& entry) {
            return entry.value.agent_id() == agent && entry.value.scope() == scope && entry.made_on > newest;
        });
        return true;
    }

    std::uint64_t erase_scope(std::string_view agent, std::string_view scope,
                              const upkeep_control& /*control*/) override
    {
        validate_id(agent, "the agent id");
        std::erase_if(steps, [&](const recorded& entry) {
            return entry.value.agent_id() == agent && entry.value.scope() == scope;
        });
        return std::erase_if(all, [&](const saved& entry) {
            return entry.value.agent_id() == agent && entry.value.scope() == scope;
        });
    }

    std::uint64_t erase_agent(std::string_view agent) override
    {
        std::erase_if(steps, [&](const recorded& entry) { return entry.value.agent_id() == agent; });
        return std::erase_if(all, [&](const saved& entry) { return entry.value.agent_id() == agent; });
    }

    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& /*control*/) override
    {
        const auto exists = [&](std::string_view agent) {
            const auto agents = list_agents({}, static_cast<std::size_t>(-1));
            return std::find(agents.begin(), agents.end(), agent) != agents.end();
        };
        if (!exists(from))
            throw error(errc::not_found, "no origin");
        if (exists(to))
            throw error(errc::conflict, "target exists");
        std::uint64_t copied = 0;
        for (auto entry : std::vector<saved>(all))
            if (entry.value.agent_id() == from) {
                entry.value.with_agent(std::string(to));
                all.push_back(entry);
                ++copied;
            }
        for (auto entry : std::vector<recorded>(steps))
            if (entry.value.agent_id() == from) {
                entry.value.with_agent(std::string(to));
                steps.push_back(entry);
            }
        std::stable_sort(all.begin(), all.end(), [](const saved& a, const saved& b) {
            return a.value.sequence() < b.value.sequence();
        });
        return copied;
    }

    prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                       const upkeep_control& /*control*/) override
    {
        std::vector<std::string> scopes;
        for (const auto& entry : all)
            if (entry.value.agent_id() == agent && policies.applies_to(entry.value.scope()))
                scopes.push_back(entry.value.scope());
        std::sort(scopes.begin(), scopes.end());
        scopes.erase(std::unique(scopes.begin(), scopes.end()), scopes.end());
        std::vector<checkpoint_key> removed;
        for (const auto& scope : scopes) {
            std::vector<retention_candidate> candidates;
            std::vector<checkpoint_key> keys;
            for (const auto& entry : all)
                if (entry.value.agent_id() == agent && entry.value.scope() == scope) {
                    candidates.push_back({entry.value.created_at(), entry.value.name(), bytes_of_each,
                                          entry.pinned || is_needed(entry.value)});
                    keys.push_back(entry.value.key());
                }
            for (const auto index : policies.select(candidates, now()))
                removed.push_back(keys[index]);
        }
        if (dry == dry_run::no)
            std::erase_if(all, [&](const saved& entry) {
                return std::find(removed.begin(), removed.end(), entry.value.key()) != removed.end();
            });
        return {removed, removed.size() * bytes_of_each};
    }

    bool pin(std::string_view agent, std::string_view scope, std::string_view id, bool pinned) override
    {
        const auto found = find(agent, scope, id);
        if (found == all.end())
            return false;
        found->pinned = pinned;
        return true;
    }

    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        std::vector<step_outcome> outcomes;
        for (const auto& request : batch) {
            try {
                put_step(request);
                outcomes.push_back(stored{});
            } catch (const error& failure) {
                outcomes.push_back(failure);
            }
        }
        return outcomes;
    }

    std::vector<step> load_steps(const step_query& query) override
    {
        std::vector<step> result;
        for (const auto& entry : steps)
            if (query.matches(entry.value))
                result.push_back(entry.value);
        std::sort(result.begin(), result.end(), [](const step& a, const step& b) {
            return std::pair(a.scope(), a.key()) < std::pair(b.scope(), b.key());
        });
        return result;
    }

    bool erase_step(std::string_view agent, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt) override
    {
        validate_id(key, "the step's key");
        return std::erase_if(steps, [&](const recorded& entry) {
                   return entry.value.agent_id() == agent && entry.value.scope() == scope &&
                          entry.value.key() == key &&
                          (!attempt || (!entry.value.done() && entry.value.attempt() == *attempt));
               }) != 0;
    }

    verify_report verify(const upkeep_control& control) override
    {
        control.report({all.size(), all.size()});
        return {all.size(), {}};
    }
    std::uint64_t compact(const upkeep_control& /*control*/) override { return 0; }
    store_stats stats() override
    {
        return {list_agents({}, static_cast<std::size_t>(-1)).size(), all.size(), steps.size(),
                all.size() * bytes_of_each};
    }
    store_stats stats(std::string_view agent) override
    {
        store_stats result;
        result.checkpoints = count(query(std::string(agent)));
        result.steps = load_steps(step_query(std::string(agent))).size();
        result.agents = result.checkpoints + result.steps == 0 ? 0 : 1;
        result.bytes = result.checkpoints * bytes_of_each;
        return result;
    }
    std::size_t write_lanes() const noexcept override { return 1; }

private:
    struct recorded {
        step value;
        std::int64_t made_on = 0;
    };

    std::vector<saved>::iterator find(std::string_view agent, std::string_view scope, std::string_view id)
    {
        return std::find_if(all.begin(), all.end(), [&](const saved& entry) {
            return entry.value.agent_id() == agent && entry.value.scope() == scope && entry.value.id() == id;
        });
    }

    const saved* head(std::string_view agent, std::string_view scope) const
    {
        const saved* latest = nullptr;
        for (const auto& entry : all)
            if (entry.value.agent_id() == agent && entry.value.scope() == scope)
                latest = &entry;
        return latest;
    }

    bool is_needed(const checkpoint& candidate) const
    {
        return std::any_of(steps.begin(), steps.end(), [&](const recorded& entry) {
            return !entry.value.done() && entry.value.agent_id() == candidate.agent_id() &&
                   entry.value.scope() == candidate.scope() && entry.value.checkpoint_id() == candidate.id();
        });
    }

    save_result save_one(const save_request& request)
    {
        const auto& wanted = request.checkpoint();
        validate(wanted);
        const auto existing = find(wanted.agent_id(), wanted.scope(), wanted.id());
        if (existing != all.end() && existing->value == wanted)
            return {existing->value.sequence(), 0};
        if (request.options().is_create_only() && existing != all.end())
            throw error(errc::conflict, "'" + wanted.id() + "' exists");
        const auto* latest = head(wanted.agent_id(), wanted.scope());
        const auto head_id = latest == nullptr ? std::nullopt : std::optional(latest->value.id());
        if (request.options().expects_head() && request.options().expected_head() != head_id)
            throw error(errc::conflict, "the head is '" + head_id.value_or("none") + "'");
        if (existing != all.end()) {
            const auto sequence = existing->value.sequence();
            existing->value = checkpoint(wanted).with_sequence(sequence);
            return {sequence, bytes_of_each};
        }
        all.push_back({checkpoint(wanted).with_sequence(++last_sequence)});
        return {last_sequence, bytes_of_each};
    }

    std::vector<const saved*> select(const query& query)
    {
        query.validate();
        auto limit_sequence = std::numeric_limits<std::int64_t>::max();
        if (query.before()) {
            const saved* found = nullptr;
            for (const auto& entry : all)
                if (entry.value.agent_id() == *query.agent_id() && entry.value.id() == *query.before() &&
                    (!query.scope() || entry.value.scope() == *query.scope())) {
                    if (found != nullptr)
                        throw error(errc::conflict, "several scopes");
                    found = &entry;
                }
            if (found == nullptr)
                throw error(errc::not_found, "no such checkpoint");
            limit_sequence = found->value.sequence();
        }
        std::vector<const saved*> result;
        for (const auto& entry : all)
            if (entry.value.sequence() < limit_sequence && query.matches(checkpoint_header(entry.value)))
                result.push_back(&entry);
        if (!query.is_oldest_first())
            std::reverse(result.begin(), result.end());
        std::stable_sort(result.begin(), result.end(), [](const saved* a, const saved* b) {
            return a->value.agent_id() < b->value.agent_id();
        });
        if (query.limit())
            result.resize(std::min(result.size(), *query.limit()));
        return result;
    }

    void put_step(const step_request& request)
    {
        const auto& wanted = request.step();
        validate(wanted);
        const auto existing = std::find_if(steps.begin(), steps.end(), [&](const recorded& entry) {
            return entry.value.agent_id() == wanted.agent_id() && entry.value.scope() == wanted.scope() &&
                   entry.value.key() == wanted.key();
        });
        if (existing != steps.end() && existing->value == wanted)
            return;
        if (existing != steps.end() && request.is_create_only())
            throw error(errc::conflict, "step '" + wanted.key() + "' was begun before");
        if (request.replaced()) {
            if (existing == steps.end() && !request.is_restored())
                throw error(errc::not_found, "there is no step '" + wanted.key() + "'");
            if (existing != steps.end() &&
                (existing->value.done() || existing->value.attempt() != *request.replaced()))
                throw error(errc::conflict, "step '" + wanted.key() + "' is done, or another attempt's");
        }
        if (request.expects_head()) {
            std::optional<std::string> head;
            for (const auto& entry : all) // by sequence
                if (entry.value.agent_id() == wanted.agent_id() && entry.value.scope() == wanted.scope())
                    head = entry.value.id();
            if (head != request.expected_head())
                throw error(errc::conflict, "step '" + wanted.key() + "' expects another head");
        }
        recorded next{wanted};
        if (wanted.checkpoint_id()) {
            const auto made_on = find(wanted.agent_id(), wanted.scope(), *wanted.checkpoint_id());
            if (made_on != all.end())
                next.made_on = made_on->value.sequence();
            else if (existing != steps.end() && existing->value.checkpoint_id() == wanted.checkpoint_id())
                next.made_on = existing->made_on;
            else if (!request.is_restored())
                throw error(errc::not_found, "step '" + wanted.key() + "' names checkpoint '" +
                                                 *wanted.checkpoint_id() + "', which is not there");
        }
        if (existing != steps.end())
            *existing = next;
        else
            steps.push_back(next);
    }

    std::vector<saved> all; // by sequence; the model has one counter for all agents
    std::vector<recorded> steps;
    std::int64_t last_sequence = 0;
};

} // namespace

std::shared_ptr<store> make_model_store()
{
    return std::make_shared<model_store>();
}

} // namespace waymark::testing
