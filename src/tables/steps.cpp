#include "steps.hpp"

#include "../store/request_checks.hpp"
#include "../values/json_document.hpp"
#include "../values/text.hpp"
#include "checkpoints.hpp"
#include "checksums.hpp"

#include <boost/json/serialize.hpp>

namespace waymark::tables {

namespace json = boost::json;
using detail::quoted;

step read_step(const step_row& row, const agent_row& agent)
{
    const auto fail = [&](const std::string& why) {
        throw error(errc::corrupt,
                    "step " + quoted(row.key) + " of agent " + quoted(agent.id) + " is damaged: " + why);
    };
    if (!is_intact(row))
        fail("the checksum of its row differs");
    step result(agent.id, row.scope, row.key);
    result.with_attempt(row.attempt)
        .with_started_at(to_timestamp(row.started_at))
        .with_checkpoint(row.checkpoint)
        .with_failure(row.failure);
    try {
        if (row.result)
            result.with_result(detail::parse_json(*row.result, limits::highest_max_depth, "its result"));
    } catch (const error& failure) {
        fail(failure.details().message());
    }
    return result;
}

namespace {

//! Most steps are made on the head, which is known then.
std::optional<std::string> head_id(const agent_row* agent, const scope_row* scope,
                                   const std::optional<checkpoint_row>& made_on, transaction& in)
{
    if (scope == nullptr || scope->head == 0)
        return std::nullopt;
    if (made_on && made_on->sequence == scope->head)
        return made_on->id;
    const auto head = in.checkpoint_at(agent->number, scope->head);
    if (!head)
        throw error(errc::corrupt, "the newest checkpoint of agent " + quoted(agent->id) + ", scope " +
                                       quoted(scope->scope) + " is missing");
    return head->id;
}

} // namespace

void put_step(const step_request& request, agent_records& records, transaction& in, std::size_t largest_value)
{
    const auto& wanted = request.step();
    const auto* known_agent = records.find_agent(wanted.agent_id());
    // A damaged record is noticed before anything is written.
    const auto* scope = known_agent == nullptr ? nullptr : records.find_scope(*known_agent, wanted.scope());
    const auto existing = known_agent == nullptr
                              ? std::nullopt
                              : in.find_step(known_agent->number, wanted.scope(), wanted.key());
    std::optional<step> found;
    // What replaces a damaged record need not read it, unless that depends on what it is.
    if (existing && (is_intact(*existing) || request.replaced()))
        found = read_step(*existing, *known_agent);
    if (found == wanted)
        return;
    detail::require_condition(request, found ? &*found : existing ? &wanted : nullptr);

    step_row row;
    const auto made_on =
        known_agent == nullptr || !wanted.checkpoint_id()
            ? std::nullopt
            : in.find_checkpoint(known_agent->number, wanted.scope(), *wanted.checkpoint_id());
    if (request.expects_head())
        detail::require_head(request, head_id(known_agent, scope, made_on, in));
    if (wanted.checkpoint_id()) {
        if (made_on)
            row.made_on = made_on->sequence;
        else if (existing && existing->checkpoint == wanted.checkpoint_id())
            row.made_on = existing->made_on;
        else if (!request.is_restored())
            detail::fail_without_checkpoint(wanted);
    }
    if (wanted.result()) {
        row.result = json::serialize(*wanted.result());
        if (row.result->size() > largest_value)
            throw error(errc::invalid_argument, "the result of step " + quoted(wanted.key()) + " takes " +
                                                    std::to_string(row.result->size()) +
                                                    " bytes as JSON, and the database holds at most " +
                                                    std::to_string(largest_value));
    }
    auto& agent = records.change_agent(wanted.agent_id());
    row.agent = agent.number;
    row.scope = wanted.scope();
    row.key = wanted.key();
    row.checkpoint = wanted.checkpoint_id();
    row.attempt = wanted.attempt();
    row.failure = wanted.failure();
    row.started_at = to_number(wanted.started_at());
    in.put_step(seal(row));
    if (!existing)
        ++records.change_scope(agent, wanted.scope()).steps;
}

bool remove_step(transaction& in, std::string_view agent_id, std::string_view scope, std::string_view key,
                 const std::optional<std::string>& attempt)
{
    agent_records records(in);
    const auto* known_agent = records.find_agent(agent_id);
    if (known_agent == nullptr)
        return false;
    if (attempt) {
        const auto found = in.find_step(known_agent->number, scope, key);
        if (!found || !detail::may_be_erased(read_step(*found, *known_agent), attempt))
            return false;
    }
    auto& agent = records.change_agent(agent_id);
    if (!in.remove_step(agent.number, scope, key))
        return false;
    --records.change_scope(agent, scope).steps;
    records.write();
    return true;
}

} // namespace waymark::tables
