#include "selection.hpp"

#include "../store/request_checks.hpp"
#include "../values/text.hpp"
#include "checkpoints.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace waymark::tables {

using namespace detail;

std::optional<agent_row> find_agent(transaction& from, std::string_view id)
{
    return intact_agent(from.find_agent(id));
}

void require_complete(transaction& from, const agent_row& agent, std::string_view scope)
{
    const auto record = intact_scope(from, agent, scope);
    if (!record)
        return;
    const auto expected = record->checkpoints;
    const auto actual = from.count_checkpoints(agent.number, scope);
    if (expected != actual)
        throw error(errc::corrupt, "scope " + quoted(scope) + " of agent " + quoted(agent.id) +
                                       " should have " + std::to_string(expected) + " checkpoints and has " +
                                       std::to_string(actual));
}

namespace {

//! The sequence that `before(id)` stands for.
std::int64_t resolve_before(transaction& from, const agent_row* agent, const query& wanted)
{
    std::optional<std::int64_t> found;
    if (agent != nullptr)
        for (const auto& row : from.checkpoints_of(agent->number, *wanted.before())) {
            if (wanted.scope() && row.scope != *wanted.scope())
                continue;
            if (found)
                fail_ambiguous_before(wanted);
            found = row.sequence;
        }
    if (!found)
        fail_unknown_before(wanted);
    return *found;
}

//! The first of a list that begins with the newest.
void require_head(transaction& from, const agent_row& agent, const query& wanted, std::int64_t first)
{
    std::int64_t head = 0;
    for (const auto& scope : from.scopes_of(agent.number))
        if (!wanted.scope() || scope.scope == *wanted.scope())
            head = std::max(head, scope.head);
    if (head != first)
        throw error(errc::corrupt, "the newest checkpoint of agent " + quoted(agent.id) + " should be #" +
                                       std::to_string(head) + " and is #" + std::to_string(first));
}

//! A list that ends is a list of all there should be.
void require_complete_scopes(transaction& from, const agent_row& agent, const query& wanted,
                             std::map<std::string, std::int64_t>& seen)
{
    const auto scopes = from.scopes_of(agent.number);
    if (static_cast<std::int64_t>(scopes.size()) != agent.scopes)
        throw error(errc::corrupt, "agent " + quoted(agent.id) + " should have " +
                                       std::to_string(agent.scopes) + " scopes and has " +
                                       std::to_string(scopes.size()));
    for (const auto& scope : scopes) {
        if (wanted.scope() && scope.scope != *wanted.scope())
            continue;
        intact_scope(scope);
        if (seen[scope.scope] != scope.checkpoints)
            throw error(errc::corrupt, "scope " + quoted(scope.scope) + " of agent " + quoted(agent.id) +
                                           " should have " + std::to_string(scope.checkpoints) +
                                           " checkpoints and has " + std::to_string(seen[scope.scope]));
    }
}

void select_of(transaction& from, const agent_row& agent, const query& wanted,
               std::optional<std::int64_t> before, std::size_t& left, const selection_visitor& visit)
{
    if (left == 0)
        return;
    scan_range range;
    range.scope = wanted.scope();
    range.newest_first = !wanted.is_oldest_first();
    range.below = before;
    if (wanted.after() && wanted.after()->agent_id() == agent.id) {
        if (range.newest_first)
            range.below = std::min(before.value_or(std::numeric_limits<std::int64_t>::max()),
                                   wanted.after()->sequence());
        else
            range.above = wanted.after()->sequence();
    }
    std::map<std::string, std::int64_t> seen;
    bool reached_end = true;
    from.scan_checkpoints(agent.number, range, [&](checkpoint_row&& row) {
        if (seen.empty() && range.newest_first && !range.below)
            require_head(from, agent, wanted, row.sequence);
        if (left == 0) {
            reached_end = false;
            return false;
        }
        ++seen[row.scope];
        auto header = read_header(row, agent);
        if (!header.damage() && !wanted.matches(header))
            return true;
        --left;
        visit(agent, std::move(row), std::move(header));
        return true;
    });
    if (!reached_end)
        return;
    if (range.above || range.below) // the rest of a list that was begun before
        for (const auto& scope : from.scopes_of(agent.number))
            seen[scope.scope] = !wanted.scope() || scope.scope == *wanted.scope()
                                    ? from.count_checkpoints(agent.number, scope.scope)
                                    : 0;
    require_complete_scopes(from, agent, wanted, seen);
}

} // namespace

void select(transaction& from, const query& wanted, const selection_visitor& visit)
{
    auto left = wanted.limit().value_or(std::numeric_limits<std::size_t>::max());
    if (wanted.agent_id()) {
        const auto agent = find_agent(from, *wanted.agent_id());
        const auto before = wanted.before()
                                ? std::optional(resolve_before(from, agent ? &*agent : nullptr, wanted))
                                : std::nullopt;
        if (agent)
            select_of(from, *agent, wanted, before, left, visit);
        return;
    }
    std::string last;
    if (wanted.after()) { // agents before the cursor's have been listed
        last = wanted.after()->agent_id();
        if (const auto agent = find_agent(from, last))
            select_of(from, *agent, wanted, std::nullopt, left, visit);
    }
    while (left > 0) {
        const auto page = from.agents_after(last, 100);
        if (page.empty())
            return;
        for (const auto& agent : page) {
            intact_agent(agent);
            if (agent.id <= last)
                throw error(errc::corrupt,
                            "the id of agent " + quoted(agent.id) + " is damaged: it is out of order");
            select_of(from, agent, wanted, std::nullopt, left, visit);
            last = agent.id;
        }
    }
}

} // namespace waymark::tables
