#include "whole_agents.hpp"

#include "../store/request_checks.hpp"
#include "agent_records.hpp"
#include "checksums.hpp"

#include <algorithm>

namespace waymark::tables {

store_stats measure(transaction& from, const agent_row& agent)
{
    store_stats result;
    std::int64_t bytes = 0;
    for (const auto& scope : from.scopes_of(agent.number)) {
        result.checkpoints += static_cast<std::uint64_t>(scope.checkpoints);
        result.steps += static_cast<std::uint64_t>(scope.steps);
    }
    result.agents = result.checkpoints + result.steps == 0 ? 0 : 1;
    from.scan_checkpoints(agent.number, {}, [&](checkpoint_row&& row) {
        bytes += row_bytes(row);
        return true;
    });
    const extent all_messages{1, agent.next_message};
    from.message_sizes(agent.number, std::span(&all_messages, 1),
                       [&](std::size_t, transaction::message_size row) { bytes += row.bytes; });
    from.object_sizes(agent.number, [&](transaction::object_size&& row) {
        bytes += row.bytes;
        return true;
    });
    result.bytes = static_cast<std::uint64_t>(bytes);
    return result;
}

std::optional<erased_agent> erase_agent(transaction& in, std::string_view agent_id,
                                        std::uint64_t& checkpoints)
{
    checkpoints = 0;
    const auto agent = intact_agent(in.find_agent(agent_id));
    if (!agent)
        return std::nullopt;
    for (const auto& scope : in.scopes_of(agent->number))
        checkpoints += static_cast<std::uint64_t>(scope.checkpoints);
    return in.erase_agent(*agent);
}

std::uint64_t copy_agent(transaction& in, std::string_view from, std::string_view to)
{
    const auto origin = intact_agent(in.find_agent(from));
    const auto scopes = origin ? in.scopes_of(origin->number) : std::vector<scope_row>();
    if (scopes.empty())
        detail::fail_nothing_to_copy(from);
    auto copy = *origin;
    if (const auto target = intact_agent(in.find_agent(to))) {
        if (!in.scopes_of(target->number).empty())
            detail::fail_copy_onto(to);
        // It was there once: its sequences are not used again. Its rows may still wait to be swept.
        copy.last_sequence = std::max(copy.last_sequence, target->last_sequence);
        in.erase_agent(*target);
    }
    copy.number = in.add_agent(to);
    copy.id = to;
    copy.stamp = new_mark();
    in.put_agent(seal(copy));
    in.copy_content(origin->number, copy.number);

    std::uint64_t count = 0;
    for (auto scope : scopes) {
        intact_scope(scope);
        count += static_cast<std::uint64_t>(scope.checkpoints);
        scope.agent = copy.number;
        in.put_scope(seal(scope));
    }
    // A damaged row is copied as it is: sealing it anew would hide the damage.
    in.scan_checkpoints(origin->number, {}, [&](checkpoint_row&& row) {
        const bool intact = is_intact(row);
        row.agent = copy.number;
        in.insert_checkpoint(intact ? seal(row) : row);
        return true;
    });
    in.scan_steps(origin->number, std::nullopt, [&](step_row&& row) {
        const bool intact = is_intact(row);
        row.agent = copy.number;
        in.put_step(intact ? seal(row) : row);
        return true;
    });
    return count;
}

} // namespace waymark::tables
