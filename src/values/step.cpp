#include "json_document.hpp"
#include "text.hpp"
#include "timestamp.hpp"

#include <waymark/error.hpp>
#include <waymark/step.hpp>

namespace waymark {

namespace json = boost::json;

step::step(std::string agent_id, std::string scope, std::string key)
    : agent_id_(std::move(agent_id)),
      scope_(std::move(scope)),
      key_(std::move(key)),
      attempt_(random_id()),
      started_at_(now())
{
}

std::size_t step::bytes() const noexcept
{
    constexpr std::size_t numbers = 8;
    return agent_id_.size() + scope_.size() + key_.size() + attempt_.size() +
           (checkpoint_id_ ? checkpoint_id_->size() : 0) + (failure_ ? failure_->size() : 0) +
           (result_ ? detail::payload_bytes(*result_) : 0) + numbers;
}

step& step::with_agent(std::string agent_id) &
{
    agent_id_ = std::move(agent_id);
    return *this;
}

step&& step::with_agent(std::string agent_id) &&
{
    return std::move(with_agent(std::move(agent_id)));
}

step& step::with_attempt(std::string attempt) &
{
    attempt_ = std::move(attempt);
    return *this;
}

step&& step::with_attempt(std::string attempt) &&
{
    return std::move(with_attempt(std::move(attempt)));
}

step& step::with_result(json_input result) &
{
    result_ = std::move(result).take();
    failure_.reset();
    return *this;
}

step&& step::with_result(json_input result) &&
{
    return std::move(with_result(std::move(result)));
}

step& step::with_failure(std::optional<std::string> text) &
{
    failure_ = std::move(text);
    return *this;
}

step&& step::with_failure(std::optional<std::string> text) &&
{
    return std::move(with_failure(std::move(text)));
}

step& step::with_checkpoint(std::optional<std::string> checkpoint_id) &
{
    checkpoint_id_ = std::move(checkpoint_id);
    return *this;
}

step&& step::with_checkpoint(std::optional<std::string> checkpoint_id) &&
{
    return std::move(with_checkpoint(std::move(checkpoint_id)));
}

step& step::with_started_at(timestamp time) & noexcept
{
    started_at_ = time;
    return *this;
}

step&& step::with_started_at(timestamp time) && noexcept
{
    return std::move(with_started_at(time));
}

bool operator==(const step& left, const step& right) noexcept
{
    return left.agent_id() == right.agent_id() && left.scope() == right.scope() &&
           left.key() == right.key() && left.attempt() == right.attempt() && left.done() == right.done() &&
           (!left.done() || detail::same_content(*left.result(), *right.result())) &&
           left.failure() == right.failure() && left.checkpoint_id() == right.checkpoint_id() &&
           left.started_at() == right.started_at();
}

void validate(const step& step, const limits& bounds)
{
    validate_id(step.agent_id(), "the agent id");
    validate_label(step.scope(), "the scope");
    validate_id(step.key(), "the step's key");
    validate_label(step.attempt(), "the step's attempt");
    if (step.checkpoint_id())
        validate_id(*step.checkpoint_id(), "the step's checkpoint id");
    if (!detail::is_printable(step.started_at()))
        throw error(errc::invalid_argument, "started_at is outside the years 0 to 9999");
    if (step.failure()) {
        if (step.done())
            throw error(errc::invalid_argument, "a step that is done has no failure");
        detail::require_utf8(*step.failure(), "the step's failure");
        if (step.failure()->size() > bounds.max_message_bytes())
            throw error(errc::invalid_argument, "the step's failure is larger than "
                                                "limits::max_message_bytes (" +
                                                    std::to_string(bounds.max_message_bytes()) + ")");
    }
    if (!step.done())
        return;
    detail::check_json(*step.result(), bounds.max_depth(), "the step's result");
    if (detail::payload_bytes(*step.result()) > bounds.max_message_bytes())
        throw error(errc::invalid_argument, "the step's result is larger than limits::max_message_bytes (" +
                                                std::to_string(bounds.max_message_bytes()) +
                                                "); store a reference to it instead");
}

step_query::step_query(std::string agent_id) : agent_id_(std::move(agent_id))
{
    validate_id(agent_id_, "the agent id");
}

step_query& step_query::scope(std::string scope)
{
    validate_label(scope, "the scope");
    scope_ = std::move(scope);
    return *this;
}

step_query& step_query::key(std::string key)
{
    validate_id(key, "the step's key");
    key_ = std::move(key);
    return *this;
}

bool step_query::matches(const step& step) const
{
    return step.agent_id() == agent_id_ && (!scope_ || step.scope() == *scope_) &&
           (!key_ || step.key() == *key_) && (!pending_only_ || !step.done());
}

void tag_invoke(json::value_from_tag, json::value& to, const step& from)
{
    auto& object = to.emplace_object();
    object["agent_id"] = from.agent_id();
    object["scope"] = from.scope();
    object["key"] = from.key();
    if (!from.attempt().empty())
        object["attempt"] = from.attempt();
    object["checkpoint_id"] =
        from.checkpoint_id() ? json::value(*from.checkpoint_id()) : json::value(nullptr);
    object["started_at"] = detail::to_rfc3339(from.started_at());
    if (from.done())
        object["result"] = *from.result();
    if (from.failure())
        object["failure"] = *from.failure();
}

step tag_invoke(json::value_to_tag<step>, const json::value& from)
{
    const detail::object_reader reader(from, "step");
    reader.refuse_others(
        {"agent_id", "scope", "key", "attempt", "checkpoint_id", "started_at", "result", "failure"},
        "a step has none such");
    step result(reader.string("agent_id"), reader.string_or("scope", ""), reader.string("key"));
    result.with_attempt(reader.string_or("attempt", ""))
        .with_checkpoint(reader.optional_string("checkpoint_id"))
        .with_started_at(reader.time("started_at"));
    if (const auto* value = reader.find("result"))
        result.with_result(*value);
    if (auto text = reader.optional_string("failure"))
        result.with_failure(std::move(text));
    return result;
}

} // namespace waymark
