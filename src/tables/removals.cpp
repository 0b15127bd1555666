#include "removals.hpp"

#include "checksums.hpp"
#include "transactions.hpp"

#include <algorithm>
#include <string>
#include <vector>

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

namespace {

void remove_some_steps(transaction& in, const agent_row& agent, scope_row& scope,
                       const transaction_budget& budget)
{
    std::vector<std::string> keys;
    in.scan_steps(agent.number, scope.scope, [&](step_row&& row) {
        keys.push_back(std::move(row.key));
        return keys.size() < rows_per_transaction;
    });
    std::size_t removed = 0;
    for (; removed < keys.size() && (removed == 0 || !budget.is_spent()); ++removed)
        in.remove_step(agent.number, scope.scope, keys[removed]);
    // Where some are missing, none is left all the same.
    scope.steps = removed == keys.size() && keys.size() < rows_per_transaction
                      ? 0
                      : std::max<std::int64_t>(scope.steps - static_cast<std::int64_t>(removed), 1);
}

} // namespace

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

scope_removal remove_some_of_scope(transaction& in, std::string_view agent_id, std::string_view scope)
{
    const transaction_budget budget(in);
    agent_records records(in);
    if (records.find_agent(agent_id) == nullptr)
        return {};
    auto& agent = records.change_agent(agent_id);
    if (records.find_scope(agent, scope) == nullptr)
        return {};
    std::vector<checkpoint_row> oldest;
    scan_range range;
    range.scope = scope;
    in.scan_checkpoints(agent.number, range, [&](checkpoint_row&& row) {
        oldest.push_back(std::move(row));
        return oldest.size() < rows_per_transaction && !budget.is_spent();
    });
    scope_removal result;
    for (; result.checkpoints < oldest.size() && (result.checkpoints == 0 || !budget.is_spent());
         ++result.checkpoints)
        remove_row(in, records, agent, oldest[result.checkpoints]);
    auto& record = records.change_scope(agent, scope);
    if (record.head == 0) // nothing is left that a step could belong to
        remove_some_steps(in, agent, record, budget);
    result.is_done = record.head == 0 && record.steps == 0;
    records.write();
    return result;
}

} // namespace waymark::tables
