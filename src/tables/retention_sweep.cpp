#include "retention_sweep.hpp"

#include "agent_copy.hpp"
#include "body.hpp"
#include "checkpoints.hpp"
#include "checksums.hpp"
#include "content_sizes.hpp"
#include "large_parts.hpp"
#include "questions.hpp"
#include "removals.hpp"
#include "transactions.hpp"

#include <algorithm>
#include <unordered_set>

namespace waymark::tables {

namespace {

struct prune_candidate {
    checkpoint_row row;
    body_references references;
    bool is_readable = true;
};

std::vector<prune_candidate> read_candidates(transaction& from, const agent_row& agent,
                                             const scope_row& scope)
{
    std::vector<prune_candidate> candidates; // oldest first
    object_map groups;
    scan_range range;
    range.scope = scope.scope;
    from.scan_checkpoints(agent.number, range, [&](checkpoint_row&& row) {
        prune_candidate next{std::move(row), {}, true};
        next.is_readable = is_intact(next.row);
        try {
            if (next.is_readable)
                next.references = read_references(next.row.body, from, agent.number, groups);
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            next.is_readable = false;
        }
        candidates.push_back(std::move(next));
        return true;
    });
    return candidates;
}

//! The checkpoints that pending steps were made on.
class needed_by_steps {
public:
    needed_by_steps(transaction& from, std::int64_t agent, const std::string& scope)
    {
        from.scan_pending_steps(agent, scope, [this](step_row&& row) {
            may_be_any_ = may_be_any_ || !is_intact(row);
            if (row.checkpoint)
                ids_.insert(std::move(*row.checkpoint));
            return true;
        });
    }

    //! A damaged step does not tell which one it needs.
    bool contains(const std::string& id) const { return may_be_any_ || ids_.contains(id); }

private:
    std::unordered_set<std::string> ids_;
    bool may_be_any_ = false;
};

} // namespace

prune_plan plan_prune(transaction& from, const agent_row& agent, const retention& policies)
{
    prune_plan plan;
    plan.agent = agent.number;
    std::int64_t bytes = 0;
    std::vector<prune_candidate> going;
    content_sizes left(from, agent.number);
    const auto at = now();
    for (const auto& scope : from.scopes_of(agent.number)) {
        auto candidates = read_candidates(from, agent, scope);
        const needed_by_steps needed(from, agent.number, scope.scope);
        std::vector<retention_candidate> looked_at(candidates.size());
        content_sizes held(from, agent.number);
        for (auto i = candidates.size(); i-- > 0;) { // newest first: it holds what it shares with older ones
            const auto& next = candidates[i];
            // One that cannot be read is kept for whoever repairs it.
            looked_at[i] = {to_timestamp(next.row.created_at), next.row.name,
                            static_cast<std::uint64_t>(row_bytes(next.row) + held.take(next.references)),
                            next.row.pinned || !next.is_readable || needed.contains(next.row.id)};
        }
        const auto selected =
            policies.applies_to(scope.scope) ? policies.select(looked_at, at) : std::vector<std::size_t>();
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            if (!std::binary_search(selected.begin(), selected.end(), i)) {
                left.take(candidates[i].references);
                continue;
            }
            plan.chosen.push_back({{agent.id, scope.scope, candidates[i].row.id}, candidates[i].row.check});
            going.push_back(std::move(candidates[i]));
        }
    }
    for (const auto& next : going)
        bytes += row_bytes(next.row) + left.take(next.references);
    plan.bytes = static_cast<std::uint64_t>(bytes);
    return plan;
}

pruned remove_pruned(transaction& in, std::string_view agent_id, const prune_plan& plan,
                     std::span<const prune_plan::entry> chosen)
{
    const transaction_budget budget(in);
    pruned result;
    agent_records records(in);
    if (const auto* known = records.find_agent(agent_id); known == nullptr || known->number != plan.agent) {
        result.looked_at = chosen.size(); // erased since, and perhaps made anew
        return result;
    }
    expect(in, [&] {
        questions wanted;
        for (const auto& [key, check] : chosen)
            wanted.emplace_back(question::kind::checkpoint, key.agent_id(), key.scope(), key.id());
        return wanted;
    });
    auto& agent = records.change_agent(agent_id);
    std::optional<std::string> scope;
    std::optional<needed_by_steps> needed;
    for (const auto& [key, check] : chosen) { // by scope
        if (result.looked_at++ > 0 && budget.is_spent()) {
            --result.looked_at;
            break;
        }
        if (scope != key.scope()) {
            scope = key.scope();
            needed.emplace(in, agent.number, *scope);
        }
        const auto row = in.find_checkpoint(agent.number, *scope, key.id());
        // Since it was chosen it may have been erased, replaced, pinned, or become the head or what a step
        // needs.
        const auto* record = records.find_scope(agent, *scope);
        if (!row || row->check != check || row->pinned || needed->contains(row->id) || record == nullptr ||
            record->head == row->sequence)
            continue;
        remove_row(in, records, agent, *row);
        result.removed.push_back(key);
    }
    records.write();
    return result;
}

namespace {

struct sweep_plan {
    std::string agent_id;
    std::int64_t agent = 0;
    std::int64_t last_sequence = 0;
    std::int64_t changes = 0;
    std::int64_t newest = 0; // the highest sequence of a checkpoint, and its checksum
    std::string newest_check;
    std::vector<extent> messages;
    std::vector<std::int64_t> objects;
};

//! None if a checkpoint, or the list of a message's large parts, cannot be read: what it needs is not known,
//! so nothing may go.
std::optional<sweep_plan> plan_sweep(transaction& from, const agent_row& agent)
{
    sweep_plan plan{agent.id, agent.number, agent.last_sequence, agent.changes, 0, {}, {}, {}};
    content_sizes content(from, agent.number);
    object_map groups;
    bool readable = true;
    from.scan_checkpoints(agent.number, {}, [&](checkpoint_row&& row) {
        readable = is_intact(row);
        plan.newest = row.sequence; // oldest first
        plan.newest_check = row.check;
        try {
            if (readable)
                content.take(read_references(row.body, from, agent.number, groups));
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            readable = false;
        }
        return readable;
    });
    if (!readable || !content.is_readable())
        return std::nullopt;
    plan.messages = content.messages_left();
    plan.objects = content.objects_left();
    return plan;
}

//! Takes out of the plan what checkpoints need that were saved after it was made.
void spare_what_was_saved(sweep_plan& plan, const agent_row& agent, transaction& in)
{
    if (agent.last_sequence == plan.last_sequence)
        return;
    number_set messages;
    std::unordered_set<std::int64_t> objects;
    object_map groups;
    scan_range range;
    range.above = plan.last_sequence;
    in.scan_checkpoints(agent.number, range, [&](checkpoint_row&& row) {
        if (!is_intact(row))
            throw error(errc::corrupt, describe(row, agent) + " is damaged");
        const auto needed = read_references(row.body, in, agent.number, groups);
        for (const auto& numbers : needed.messages.all())
            messages.insert(numbers);
        for (const auto& object : needed.objects)
            objects.insert(object.number);
        return true;
    });
    // The rows of these messages are there: what a plan removes of rows comes before its objects.
    const auto ranges = messages.all();
    in.large_parts(agent.number, ranges, [&](std::size_t, transaction::message_parts&& row) {
        const auto needed = read_parts(row.parts, row.numbers.first);
        objects.insert(needed.begin(), needed.end());
    });
    std::erase_if(plan.messages, [&](const extent& row) { return messages.intersects(row); });
    std::erase_if(plan.objects, [&](std::int64_t number) { return objects.contains(number); });
    plan.last_sequence = agent.last_sequence;
}

//! Whether the checkpoints that the plan was made from are all there. Not so after one was replaced or
//! removed, nor in a database that went back to a backup, or to a standby that did not have the newest:
//! others may have the same sequences there.
bool is_valid(const sweep_plan& plan, const agent_row& agent, transaction& in)
{
    if (agent.changes != plan.changes || agent.last_sequence < plan.last_sequence)
        return false;
    if (plan.newest == 0)
        return true;
    const auto newest = in.checkpoint_at(plan.agent, plan.newest);
    return newest && newest->check == plan.newest_check;
}

enum class sweep_state { more, done, outdated };

struct swept {
    sweep_state state = sweep_state::done;
    std::size_t messages = 0; // from the end of the plan
    std::size_t objects = 0;
};

swept sweep_some(transaction& in, sweep_plan& plan)
{
    auto agent = intact_agent(in.find_agent(plan.agent_id));
    if (!agent || agent->number != plan.agent)
        return {};
    if (!is_valid(plan, *agent, in))
        return {sweep_state::outdated};
    spare_what_was_saved(plan, *agent, in);
    swept result;
    if (!plan.messages.empty())
        agent->sweeps = new_mark();
    const transaction_budget budget(in);
    const auto is_full = [&] {
        const auto rows = result.messages + result.objects;
        return rows > 0 && (rows == rows_per_transaction || budget.is_spent());
    };
    // Objects go last: as long as a row is there, so are the large parts of its messages, and a save that
    // finds the row may refer to it.
    for (auto row = plan.messages.rbegin(); row != plan.messages.rend() && !is_full();
         ++row, ++result.messages)
        in.remove_messages(plan.agent, row->first);
    for (auto number = plan.objects.rbegin(); number != plan.objects.rend() && !is_full();
         ++number, ++result.objects)
        in.remove_object(plan.agent, *number);
    agent->has_garbage = result.messages < plan.messages.size() || result.objects < plan.objects.size();
    agent->stamp = new_mark();
    in.put_agent(seal(*agent));
    result.state = agent->has_garbage ? sweep_state::more : sweep_state::done;
    return result;
}

} // namespace

void sweep(database& in, std::string_view agent_id, const upkeep_control& control)
try {
    const agent_ids agents(&agent_id, 1);
    upkeep_progress now;
    // An agent whose checkpoints are replaced all the time may outdate every plan; it is swept another time.
    for (int attempt = 0; attempt < 8; ++attempt) {
        control.require_wanted();
        auto plan = read(in, agents, [&](transaction& from) {
            const auto agent = intact_agent(from.find_agent(agent_id));
            return agent && agent->has_garbage ? plan_sweep(from, *agent) : std::nullopt;
        });
        if (!plan)
            return;
        now.total = now.done + plan->messages.size() + plan->objects.size();
        swept last{sweep_state::more};
        while (last.state == sweep_state::more) {
            last = write(in, agents, [&](transaction& from) { return sweep_some(from, *plan); });
            plan->messages.resize(plan->messages.size() - last.messages);
            plan->objects.resize(plan->objects.size() - last.objects);
            now.done += last.messages + last.objects;
            control.report(now);
            if (last.state == sweep_state::more)
                control.give_way();
        }
        if (last.state == sweep_state::done)
            return;
    }
} catch (const error& failure) {
    if (failure.code() != errc::corrupt) // where something is damaged, nothing more is removed
        throw;
}

void remove_erased(database& in, const erased_agent& agent, const upkeep_control& control)
{
    for (bool more = true; more;) {
        more = write(in, {}, [&](transaction& from) {
            const transaction_budget budget(from);
            if (!from.condemn(agent))
                return false; // another process was faster
            bool is_left = from.remove_rows(agent);
            while (is_left && !from.asks_together() && !budget.is_spent())
                is_left = from.remove_rows(agent);
            if (!is_left)
                from.forget(agent);
            return is_left;
        });
        if (more)
            control.give_way();
    }
}

void remove_erased_agents(database& in, const upkeep_control& control)
{
    for (;;) {
        control.require_wanted();
        const auto page = read(in, {}, [](transaction& from) {
            return from.erased_agents(100, to_number(now() - longest_pause_of_a_copy));
        });
        if (page.empty())
            return;
        for (const auto& agent : page)
            remove_erased(in, agent, control);
    }
}

void sweep_all(database& in, const upkeep_control& control)
{
    for (std::string last;;) {
        const auto page =
            read(in, {}, [&](transaction& from) { return from.agents_with_garbage(last, 100); });
        if (page.empty())
            break;
        for (const auto& id : page)
            sweep(in, id, control);
        last = page.back();
    }
    remove_erased_agents(in, control);
}

} // namespace waymark::tables
