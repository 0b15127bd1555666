#include "removals.hpp"

#include "checksums.hpp"

namespace waymark::tables {

void remove_row(transaction& in, agent_records& records, agent_row& agent, const checkpoint_row& row)
{
    in.remove_checkpoint(agent.number, row.scope, row.id);
    agent.changes = new_mark();
    agent.has_garbage = true;
    auto& scope = records.change_scope(agent, row.scope);
    --scope.checkpoints;
    if (scope.head == row.sequence)
        scope.head = in.newest_sequence(agent.number, row.scope);
}

bool remove_checkpoint(transaction& in, std::string_view agent_id, std::string_view scope,
                       std::string_view id)
{
    agent_records records(in);
    if (records.find_agent(agent_id) == nullptr)
        return false;
    auto& agent = records.change_agent(agent_id);
    const auto row = in.find_checkpoint(agent.number, scope, id);
    if (!row) {
        in.confirm_absence(agent.number, scope, id);
        return false;
    }
    remove_row(in, records, agent, *row);
    auto& record = records.change_scope(agent, scope);
    // Steps of scopes without checkpoints are on sequence 0 at least.
    record.steps -= in.remove_steps_after(agent.number, scope, record.head == 0 ? -1 : record.head);
    records.write();
    return true;
}

std::size_t remove_some_of_scope(transaction& in, std::string_view agent_id, std::string_view scope)
{
    agent_records records(in);
    if (records.find_agent(agent_id) == nullptr)
        return 0;
    auto& agent = records.change_agent(agent_id);
    if (records.find_scope(agent, scope) == nullptr)
        return 0;
    std::vector<checkpoint_row> oldest;
    scan_range range;
    range.scope = scope;
    in.scan_checkpoints(agent.number, range, [&](checkpoint_row&& row) {
        oldest.push_back(std::move(row));
        return oldest.size() < rows_per_transaction;
    });
    for (const auto& row : oldest)
        remove_row(in, records, agent, row);
    auto& record = records.change_scope(agent, scope);
    if (record.head == 0) { // nothing is left that a step could belong to
        in.remove_steps_after(agent.number, scope, -1);
        record.steps = 0;
    }
    records.write();
    return oldest.size();
}

} // namespace waymark::tables
