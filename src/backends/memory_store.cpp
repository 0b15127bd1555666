#include "../store/request_checks.hpp"
#include "memory_records.hpp"

#include <waymark/memory_store.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace waymark {

namespace {

using detail::agent_data;
using detail::record;
using detail::scope_data;
using detail::step_record;

} // namespace

class memory_store::impl {
public:
    explicit impl(memory_options chosen) : options(std::move(chosen)) {}

    save_result save(const save_request& request)
    {
        const auto& wanted = request.checkpoint();
        auto* scope = find_scope(wanted.agent_id(), wanted.scope());
        auto* existing = scope == nullptr ? nullptr : scope->find(wanted.id());
        if (existing != nullptr && existing->value == wanted)
            return {existing->value.sequence(), 0};
        const auto* head = scope == nullptr ? nullptr : scope->head();
        detail::require_options(request, existing != nullptr,
                                head == nullptr ? std::nullopt : std::optional(head->value.id()));

        if (scope == nullptr)
            scope = &agents[wanted.agent_id()].scopes[wanted.scope()];
        auto& last_sequence = agents[wanted.agent_id()].last_sequence;
        const auto sequence = existing == nullptr ? last_sequence + 1 : existing->value.sequence();
        auto added = bytes_added(*scope, wanted, sequence);
        record next{checkpoint(wanted).with_sequence(sequence), added,
                    existing != nullptr && existing->pinned};
        if (existing != nullptr) {
            added = std::min(added, scope_data::bytes_besides(wanted, &existing->value));
            *existing = std::move(next);
            return {sequence, added};
        }
        scope->insert(std::move(next));
        last_sequence = sequence;
        return {sequence, added};
    }

    //! What a checkpoint adds to its parent and to the one before it.
    static std::uint64_t bytes_added(scope_data& scope, const checkpoint& wanted, std::int64_t sequence)
    {
        const auto* parent = wanted.parent_id() ? scope.find(*wanted.parent_id()) : nullptr;
        const auto position = scope.by_sequence.lower_bound(sequence);
        const auto* before = position == scope.by_sequence.begin() ? nullptr : &std::prev(position)->second;
        return std::min(scope_data::bytes_besides(wanted, parent == nullptr ? nullptr : &parent->value),
                        scope_data::bytes_besides(wanted, before == nullptr ? nullptr : &before->value));
    }

    void put_step(const step_request& request)
    {
        const auto& wanted = request.step();
        auto* scope = find_scope(wanted.agent_id(), wanted.scope());
        const auto* existing = scope == nullptr ? nullptr : scope->find_step(wanted.key());
        if (existing != nullptr && existing->value == wanted)
            return;
        detail::require_condition(request, existing == nullptr ? nullptr : &existing->value);
        const auto* head = scope == nullptr ? nullptr : scope->head();
        detail::require_head(request, head == nullptr ? std::nullopt : std::optional(head->value.id()));
        step_record next{wanted};
        if (wanted.checkpoint_id()) {
            const auto* made_on = scope == nullptr ? nullptr : scope->find(*wanted.checkpoint_id());
            if (made_on != nullptr)
                next.made_on = made_on->value.sequence();
            else if (existing != nullptr && existing->value.checkpoint_id() == wanted.checkpoint_id())
                next.made_on = existing->made_on;
            else if (!request.is_restored())
                detail::fail_without_checkpoint(wanted);
        }
        if (scope == nullptr)
            scope = &agents[wanted.agent_id()].scopes[wanted.scope()];
        scope->put_step(std::move(next));
    }

    agent_data* find_agent(std::string_view agent_id)
    {
        const auto found = agents.find(agent_id);
        return found == agents.end() ? nullptr : &found->second;
    }

    scope_data* find_scope(std::string_view agent_id, std::string_view scope)
    {
        auto* agent = find_agent(agent_id);
        if (agent == nullptr)
            return nullptr;
        const auto found = agent->scopes.find(scope);
        return found == agent->scopes.end() ? nullptr : &found->second;
    }

    record* find(std::string_view agent_id, std::string_view scope, std::string_view id)
    {
        auto* where = find_scope(agent_id, scope);
        return where == nullptr ? nullptr : where->find(id);
    }

    //! The sequence that `before(id)` stands for.
    std::int64_t resolve_before(const query& query)
    {
        const record* found = nullptr;
        if (auto* agent = find_agent(*query.agent_id()))
            for (auto& [name, scope] : agent->scopes) {
                if (query.scope() && name != *query.scope())
                    continue;
                const auto* match = scope.find(*query.before());
                if (match != nullptr && found != nullptr)
                    detail::fail_ambiguous_before(query);
                found = match != nullptr ? match : found;
            }
        if (found == nullptr)
            detail::fail_unknown_before(query);
        return found->value.sequence();
    }

    //! Calls `visit` for each match, in the order of the query.
    template <class Visit>
    void select(const query& query, Visit visit)
    {
        query.validate();
        const auto before = query.before() ? std::optional(resolve_before(query)) : std::nullopt;
        auto left = query.limit().value_or(static_cast<std::size_t>(-1));

        const auto visit_agent = [&](const std::string& id, const agent_data& agent) {
            if (left == 0)
                return;
            std::vector<const record*> matches;
            for (auto& [name, scope] : agent.scopes) {
                if (query.scope() && name != *query.scope())
                    continue;
                // As many of each scope as are asked for, so that a page of a long history costs a page.
                std::size_t found = 0;
                const auto look_at = [&](const auto& entry) {
                    if ((before && entry.first >= *before) || !query.matches(entry.second.header()))
                        return found < left;
                    matches.push_back(&entry.second);
                    return ++found < left;
                };
                const auto& records = scope.by_sequence;
                const bool goes_on = query.after() && query.after()->agent_id() == id;
                if (query.is_oldest_first())
                    std::all_of(goes_on ? records.upper_bound(query.after()->sequence()) : records.begin(),
                                records.end(), look_at);
                else
                    std::all_of(std::make_reverse_iterator(
                                    goes_on ? records.lower_bound(query.after()->sequence()) : records.end()),
                                records.rend(), look_at);
            }
            std::sort(matches.begin(), matches.end(), [&](const record* a, const record* b) {
                return query.is_oldest_first() ? a->value.sequence() < b->value.sequence()
                                               : a->value.sequence() > b->value.sequence();
            });
            for (const auto* match : matches) {
                if (left == 0)
                    return;
                --left;
                visit(*match);
            }
        };

        if (query.agent_id()) {
            if (const auto* agent = find_agent(*query.agent_id()))
                visit_agent(*query.agent_id(), *agent);
            return;
        }
        for (const auto& [id, agent] : agents)
            visit_agent(id, agent);
    }

    prune_result prune(std::string_view agent_id, const retention& policies, dry_run dry)
    {
        std::vector<checkpoint_key> removed;
        std::uint64_t bytes = 0;
        auto* agent = find_agent(agent_id);
        if (agent == nullptr)
            return {};
        const auto at = now();
        std::vector<std::pair<scope_data*, std::int64_t>> going; // removed at the end, when nothing can fail
        for (auto& [name, scope] : agent->scopes) {
            if (!policies.applies_to(name))
                continue;
            std::vector<retention_candidate> candidates;
            std::vector<std::int64_t> sequences;
            const auto needed = scope.needed_by_steps();
            for (auto where = scope.by_sequence.cbegin(); where != scope.by_sequence.cend(); ++where) {
                const auto& entry = where->second;
                candidates.push_back({entry.value.created_at(), entry.value.name(), scope.held_bytes(where),
                                      entry.pinned || needed.contains(entry.value.id())});
                sequences.push_back(where->first);
            }
            for (const auto index : policies.select(candidates, at)) {
                const auto where = scope.by_sequence.find(sequences[index]);
                removed.push_back(where->second.value.key());
                bytes += candidates[index].held_bytes;
                going.emplace_back(&scope, where->first);
            }
        }
        if (dry == dry_run::no)
            for (const auto& [scope, sequence] : going)
                scope->remove(sequence);
        return {std::move(removed), bytes};
    }

    const memory_options options;
    std::shared_mutex mutex; // guards what follows
    std::map<std::string, agent_data, std::less<>> agents;
};

memory_store::memory_store(memory_options options) : impl_(std::make_unique<impl>(std::move(options))) {}

memory_store::~memory_store() = default;

std::vector<save_outcome> memory_store::save(std::span<const save_request> batch)
{
    // A reader between two requests sees the first ones only: that is one of the states a crash may leave.
    return detail::apply_each<save_outcome>(batch, [this](const save_request& request) -> save_outcome {
        validate(request.checkpoint(), impl_->options.limits());
        const std::unique_lock lock(impl_->mutex);
        return impl_->save(request);
    });
}

std::optional<checkpoint> memory_store::load(std::string_view agent_id, std::string_view scope,
                                             std::string_view id)
{
    detail::validate_key(agent_id, scope, id);
    const std::shared_lock lock(impl_->mutex);
    const auto* found = impl_->find(agent_id, scope, id);
    return found == nullptr ? std::nullopt : std::optional(found->value);
}

std::optional<checkpoint> memory_store::load(std::string_view id)
{
    validate_id(id, "the checkpoint id");
    const std::shared_lock lock(impl_->mutex);
    const record* found = nullptr;
    for (auto& [agent_id, agent] : impl_->agents)
        for (auto& [name, scope] : agent.scopes) {
            const auto* match = scope.find(id);
            if (match != nullptr && found != nullptr)
                detail::fail_ambiguous_id(id);
            found = match != nullptr ? match : found;
        }
    return found == nullptr ? std::nullopt : std::optional(found->value);
}

std::optional<checkpoint> memory_store::load_latest(std::string_view agent_id, std::string_view scope)
{
    validate_id(agent_id, "the agent id");
    validate_label(scope, "the scope");
    const std::shared_lock lock(impl_->mutex);
    const auto* where = impl_->find_scope(agent_id, scope);
    const auto* head = where == nullptr ? nullptr : where->head();
    return head == nullptr ? std::nullopt : std::optional(head->value);
}

std::vector<checkpoint_header> memory_store::list(const query& query)
{
    const std::shared_lock lock(impl_->mutex);
    std::vector<checkpoint_header> result;
    impl_->select(query, [&](const record& match) { result.push_back(match.header()); });
    return result;
}

std::vector<checkpoint> memory_store::load_all(const query& query)
{
    const std::shared_lock lock(impl_->mutex);
    std::vector<checkpoint> result;
    impl_->select(query, [&](const record& match) { result.push_back(match.value); });
    return result;
}

std::vector<load_outcome> memory_store::load_some(std::span<const checkpoint_key> keys,
                                                  std::span<const checkpoint> /*earlier*/,
                                                  std::size_t /*about_bytes*/)
{
    for (const auto& key : keys)
        detail::validate_key(key.agent_id(), key.scope(), key.id());
    const std::shared_lock lock(impl_->mutex);
    std::vector<load_outcome> outcomes; // which share everything with what is stored
    outcomes.reserve(keys.size());
    for (const auto& key : keys) {
        const auto* found = impl_->find(key.agent_id(), key.scope(), key.id());
        if (found == nullptr)
            outcomes.emplace_back();
        else
            outcomes.push_back(std::optional(found->value));
    }
    return outcomes;
}

std::uint64_t memory_store::count(const query& query)
{
    const std::shared_lock lock(impl_->mutex);
    std::uint64_t result = 0;
    impl_->select(query, [&](const record&) { ++result; });
    return result;
}

std::vector<std::string> memory_store::list_agents(std::string_view after, std::size_t limit)
{
    validate_label(after, "the agent id");
    const std::shared_lock lock(impl_->mutex);
    std::vector<std::string> result;
    for (auto it = impl_->agents.upper_bound(after); it != impl_->agents.end() && result.size() < limit; ++it)
        if (!it->second.empty())
            result.push_back(it->first);
    return result;
}

bool memory_store::erase(std::string_view agent_id, std::string_view scope, std::string_view id)
{
    detail::validate_key(agent_id, scope, id);
    const std::unique_lock lock(impl_->mutex);
    auto* where = impl_->find_scope(agent_id, scope);
    const auto* found = where == nullptr ? nullptr : where->find(id);
    if (found == nullptr)
        return false;
    where->remove(found->value.sequence());
    where->drop_steps_without_checkpoint();
    return true;
}

std::uint64_t memory_store::erase_scope(std::string_view agent_id, std::string_view scope,
                                        const upkeep_control& /*control*/)
{
    detail::validate_scope(agent_id, scope);
    const std::unique_lock lock(impl_->mutex);
    auto* where = impl_->find_scope(agent_id, scope);
    if (where == nullptr)
        return 0;
    const auto count = where->by_sequence.size();
    *where = {};
    return count;
}

std::uint64_t memory_store::erase_agent(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    const std::unique_lock lock(impl_->mutex);
    const auto found = impl_->agents.find(agent_id);
    if (found == impl_->agents.end())
        return 0;
    const auto count = found->second.count();
    impl_->agents.erase(found);
    return count;
}

std::uint64_t memory_store::copy_agent(std::string_view from, std::string_view to,
                                       const upkeep_control& /*control*/)
{
    validate_id(from, "the agent id");
    validate_id(to, "the new agent id");
    const std::unique_lock lock(impl_->mutex);
    const auto* origin = impl_->find_agent(from);
    if (origin == nullptr || origin->empty())
        detail::fail_nothing_to_copy(from);
    const auto* target = impl_->find_agent(to);
    if (target != nullptr && !target->empty())
        detail::fail_copy_onto(to);

    auto copy = *origin;
    for (auto& [name, scope] : copy.scopes) {
        for (auto& [sequence, entry] : scope.by_sequence)
            entry.value.with_agent(std::string(to));
        for (auto& [key, entry] : scope.steps)
            entry.value.with_agent(std::string(to));
    }
    if (target != nullptr) // it was there once: its sequences are not used again
        copy.last_sequence = std::max(copy.last_sequence, target->last_sequence);
    const auto count = copy.count();
    impl_->agents.insert_or_assign(std::string(to), std::move(copy));
    return count;
}

prune_result memory_store::prune(std::string_view agent_id, const retention& policies, dry_run dry,
                                 const upkeep_control& /*control*/)
{
    validate_id(agent_id, "the agent id");
    const std::unique_lock lock(impl_->mutex);
    return impl_->prune(agent_id, policies, dry);
}

bool memory_store::pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned)
{
    detail::validate_key(agent_id, scope, id);
    const std::unique_lock lock(impl_->mutex);
    auto* found = impl_->find(agent_id, scope, id);
    if (found == nullptr)
        return false;
    found->pinned = pinned;
    return true;
}

std::vector<step_outcome> memory_store::put_steps(std::span<const step_request> batch)
{
    return detail::apply_each<step_outcome>(batch, [this](const step_request& request) -> step_outcome {
        validate(request.step(), impl_->options.limits());
        const std::unique_lock lock(impl_->mutex);
        impl_->put_step(request);
        return stored{};
    });
}

std::vector<step> memory_store::load_steps(const step_query& query)
{
    const std::shared_lock lock(impl_->mutex);
    std::vector<step> result;
    if (const auto* agent = impl_->find_agent(query.agent_id()))
        for (const auto& [name, scope] : agent->scopes)
            for (const auto& [key, entry] : scope.steps)
                if (query.matches(entry.value))
                    result.push_back(entry.value);
    return result;
}

bool memory_store::erase_step(std::string_view agent_id, std::string_view scope, std::string_view key,
                              const std::optional<std::string>& attempt)
{
    detail::validate_step_key(agent_id, scope, key);
    const std::unique_lock lock(impl_->mutex);
    auto* where = impl_->find_scope(agent_id, scope);
    const auto* found = where == nullptr ? nullptr : where->find_step(std::string(key));
    if (found == nullptr || !detail::may_be_erased(found->value, attempt))
        return false;
    where->erase_step(std::string(key));
    return true;
}

verify_report memory_store::verify(const upkeep_control& control)
{
    // Nothing here can rot, but what is held must be what a store may hold.
    const std::shared_lock lock(impl_->mutex);
    upkeep_progress done;
    for (const auto& [id, agent] : impl_->agents)
        done.total += agent.count();
    std::vector<verify_report::damage> damages;
    for (const auto& [id, agent] : impl_->agents)
        for (const auto& [name, scope] : agent.scopes)
            for (const auto& [sequence, entry] : scope.by_sequence) {
                try {
                    validate(entry.value, impl_->options.limits());
                } catch (const error& failure) {
                    damages.push_back({entry.value.key(), failure.details().message()});
                }
                ++done.done;
                control.require_wanted();
            }
    control.report(done);
    return {done.done, std::move(damages)};
}

std::uint64_t memory_store::compact(const upkeep_control& /*control*/)
{
    return 0;
}

store_stats memory_store::stats()
{
    const std::shared_lock lock(impl_->mutex);
    store_stats result;
    for (const auto& [id, agent] : impl_->agents)
        agent.add_to(result);
    for (const auto& [id, agent] : impl_->agents)
        for (const auto& [name, scope] : agent.scopes)
            for (const auto& [key, entry] : scope.steps)
                result.bytes += entry.value.bytes();
    return result;
}

store_stats memory_store::stats(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    const std::shared_lock lock(impl_->mutex);
    store_stats result;
    if (const auto* agent = impl_->find_agent(agent_id))
        agent->add_to(result);
    return result;
}

std::size_t memory_store::write_lanes() const noexcept
{
    return 1;
}

const waymark::limits& memory_store::accepted_limits() const noexcept
{
    return impl_->options.limits();
}

} // namespace waymark
