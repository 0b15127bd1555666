#include "whole_agents.hpp"

#include "agent_records.hpp"
#include "checksums.hpp"

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

std::uint64_t erase_agent(transaction& in, std::string_view agent_id)
{
    const auto agent = intact_agent(in.find_agent(agent_id));
    if (!agent)
        return 0;
    std::uint64_t checkpoints = 0;
    for (const auto& scope : in.scopes_of(agent->number))
        checkpoints += static_cast<std::uint64_t>(scope.checkpoints);
    in.erase_agent(*agent);
    return checkpoints;
}

} // namespace waymark::tables
