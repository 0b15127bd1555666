#include "request_checks.hpp"

#include "../values/text.hpp"

namespace waymark::detail {

namespace {

std::string describe(const std::optional<std::string>& head)
{
    return head ? quoted(*head) : "none";
}

} // namespace

void require_options(const save_request& request, bool exists, const std::optional<std::string>& head)
{
    const auto& wanted = request.checkpoint();
    const auto& options = request.options();
    if (options.is_create_only() && exists)
        throw error(errc::conflict,
                    "checkpoint " + quoted(wanted.id()) + " of agent " + quoted(wanted.agent_id()) +
                        " exists with other content; use another id, or save without create_only to "
                        "replace it");
    if (options.expects_head() && head != options.expected_head())
        throw error(errc::conflict, "the head of agent " + quoted(wanted.agent_id()) + ", scope " +
                                        quoted(wanted.scope()) + " is " + describe(head) + ", not " +
                                        describe(options.expected_head()));
}

void require_some_outcomes(std::size_t outcomes, std::size_t keys)
{
    if (outcomes == 0 || outcomes > keys)
        throw error(errc::io, "the store gave " + std::to_string(outcomes) + " outcomes for " +
                                  std::to_string(keys) + " keys; its load_some has to give at least one, " +
                                  "and at most one for each");
}

void require_one_outcome(std::size_t outcomes)
{
    if (outcomes != 1)
        throw error(errc::outcome_unknown,
                    "the store gave " + std::to_string(outcomes) + " outcomes for one request");
}

bool concerns_one_request(const error& failure) noexcept
{
    const auto& code = failure.code();
    return code == errc::invalid_argument || code == errc::conflict || code == errc::not_found ||
           code == errc::corrupt || code == errc::unsupported_format;
}

void validate_scope(std::string_view agent_id, std::string_view scope)
{
    validate_id(agent_id, "the agent id");
    validate_label(scope, "the scope");
}

void validate_key(std::string_view agent_id, std::string_view scope, std::string_view id)
{
    validate_scope(agent_id, scope);
    validate_id(id, "the checkpoint id");
}

void validate_step_key(std::string_view agent_id, std::string_view scope, std::string_view key)
{
    validate_scope(agent_id, scope);
    validate_id(key, "the step's key");
}

void require_condition(const step_request& request, const step* existing)
{
    const auto fail = [&](errc code, const char* what) {
        const auto& wanted = request.step();
        throw error(code,
                    "step " + quoted(wanted.key()) + " of agent " + quoted(wanted.agent_id()) + " " + what);
    };
    if (request.is_create_only() && existing != nullptr)
        fail(errc::conflict, "has been recorded before");
    if (!request.replaced())
        return;
    if (existing == nullptr) {
        if (!request.is_restored())
            fail(errc::not_found, "is not recorded any more");
    } else if (existing->done()) {
        fail(errc::conflict, "is done already");
    } else if (existing->attempt() != *request.replaced()) {
        fail(errc::conflict, "was begun anew by someone else");
    }
}

void require_head(const step_request& request, const std::optional<std::string>& head)
{
    if (!request.expects_head() || head == request.expected_head())
        return;
    const auto& wanted = request.step();
    const auto name = [](const std::optional<std::string>& id) { return id ? quoted(*id) : "nothing"; };
    throw error(errc::conflict, "step " + quoted(wanted.key()) + " of agent " + quoted(wanted.agent_id()) +
                                    " expects the head " + name(request.expected_head()) + ", which is " +
                                    name(head));
}

bool may_be_erased(const step& existing, const std::optional<std::string>& attempt) noexcept
{
    return !attempt || (!existing.done() && existing.attempt() == *attempt);
}

void fail_without_checkpoint(const step& wanted)
{
    throw error(errc::not_found, "step " + quoted(wanted.key()) + " names checkpoint " +
                                     quoted(wanted.checkpoint_id().value_or("")) + " of agent " +
                                     quoted(wanted.agent_id()) + ", which is not there");
}

void fail_ambiguous_before(const query& wanted)
{
    throw error(errc::conflict, "before(" + quoted(wanted.before().value_or("")) +
                                    "): the id exists in several scopes; name one");
}

void fail_unknown_before(const query& wanted)
{
    throw error(errc::not_found, "before(" + quoted(wanted.before().value_or("")) + "): agent " +
                                     quoted(wanted.agent_id().value_or("")) + " has no such checkpoint");
}

void fail_ambiguous_id(std::string_view id)
{
    throw error(errc::conflict,
                "checkpoint " + quoted(id) + " exists for several agents or scopes; name agent and scope");
}

void fail_nothing_to_copy(std::string_view from)
{
    throw error(errc::not_found, "agent " + quoted(from) + " does not exist");
}

void fail_copy_onto(std::string_view to)
{
    throw error(errc::conflict, "agent " + quoted(to) + " exists already; choose another name");
}

} // namespace waymark::detail
