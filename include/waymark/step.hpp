//! The durable record of one side effect.
#pragma once

#include <waymark/checkpoint.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace waymark {

//! What the action of a step throws if it is certain that nothing has happened: no request was sent, an
//! argument is wrong. The step counts as not begun, and may be made again. After any other exception it is in
//! doubt.
class not_begun : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

//! A side effect (a tool call) that is made once per (agent, scope, key): begun, then done with a result.
class step {
public:
    //! A step that begins now and is pending, with an attempt id of its own.
    step(std::string agent_id, std::string scope, std::string key);

    const std::string& agent_id() const& noexcept { return agent_id_; }
    std::string agent_id() && noexcept { return std::move(agent_id_); }
    const std::string& scope() const& noexcept { return scope_; }
    std::string scope() && noexcept { return std::move(scope_); }
    //! Normally the id of the tool call.
    const std::string& key() const& noexcept { return key_; }
    std::string key() && noexcept { return std::move(key_); }
    //! A random id of this try. Two who begin the same step at the same moment differ in it, so that a record
    //! that is equal is one's own. Records of versions that had none have an empty one.
    const std::string& attempt() const& noexcept { return attempt_; }
    std::string attempt() && noexcept { return std::move(attempt_); }
    bool done() const noexcept { return result_.has_value(); }
    //! What the action returned; none while the step is pending.
    const std::optional<boost::json::value>& result() const& noexcept { return result_; }
    std::optional<boost::json::value> result() && noexcept { return std::move(result_); }
    //! What is known of a try that ended with an exception: its text. The step is pending, and in doubt: the
    //! exception does not say whether the action took effect.
    const std::optional<std::string>& failure() const& noexcept { return failure_; }
    std::optional<std::string> failure() && noexcept { return std::move(failure_); }
    //! The checkpoint that it was made on, of the same agent and scope. Retention keeps it while the step
    //! is pending.
    const std::optional<std::string>& checkpoint_id() const& noexcept { return checkpoint_id_; }
    std::optional<std::string> checkpoint_id() && noexcept { return std::move(checkpoint_id_); }
    timestamp started_at() const noexcept { return started_at_; }

    //! The payload, as counted by `limits` and by queues.
    std::size_t bytes() const noexcept;

    step& with_agent(std::string agent_id) &;
    step&& with_agent(std::string agent_id) &&;
    step& with_attempt(std::string attempt) &;
    step&& with_attempt(std::string attempt) &&;
    //! A step with a result has no failure.
    step& with_result(json_input result) &;
    step&& with_result(json_input result) &&;
    step& with_failure(std::optional<std::string> text) &;
    step&& with_failure(std::optional<std::string> text) &&;
    step& with_checkpoint(std::optional<std::string> checkpoint_id) &;
    step&& with_checkpoint(std::optional<std::string> checkpoint_id) &&;
    step& with_started_at(timestamp time) & noexcept;
    step&& with_started_at(timestamp time) && noexcept;

    //! The same content, as for `message`.
    friend bool operator==(const step& left, const step& right) noexcept;

private:
    std::string agent_id_;
    std::string scope_;
    std::string key_;
    std::string attempt_;
    std::optional<boost::json::value> result_;
    std::optional<std::string> failure_;
    std::optional<std::string> checkpoint_id_;
    timestamp started_at_;
};

//! Refuses what no store may hold. @throws waymark::error `invalid_argument`, naming the member.
void validate(const step& step, const limits& bounds = {});

//! Which steps to load.
class step_query {
public:
    //! The steps of one agent, all scopes, ordered by scope and key.
    //! @throws waymark::error `invalid_argument` if the id is not valid.
    explicit step_query(std::string agent_id);

    //! Only the steps of this scope.
    //! @throws waymark::error `invalid_argument` if it is not valid.
    step_query& scope(std::string scope);
    //! Only the steps with this key.
    //! @throws waymark::error `invalid_argument` if it is not valid.
    step_query& key(std::string key);
    //! Only the steps that have no result.
    step_query& pending_only() noexcept
    {
        pending_only_ = true;
        return *this;
    }

    const std::string& agent_id() const noexcept { return agent_id_; }
    const std::optional<std::string>& scope() const noexcept { return scope_; }
    const std::optional<std::string>& key() const noexcept { return key_; }
    bool is_pending_only() const noexcept { return pending_only_; }

    //! For backends.
    bool matches(const step& step) const;

private:
    std::string agent_id_;
    std::optional<std::string> scope_;
    std::optional<std::string> key_;
    bool pending_only_ = false;
};

void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const step& from);
step tag_invoke(boost::json::value_to_tag<step>, const boost::json::value& from);

} // namespace waymark
