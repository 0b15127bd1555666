//! How a session behaves, and what a step may do.
#pragma once

#include <waymark/retention.hpp>
#include <waymark/strategy.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace waymark {

//! Options of session.
class session_options {
public:
    session_options() = default;

    // clang-format off
    //! The scope of the agent that the session saves to and resumes from. Default: `""`, the default scope.
    session_options& with_scope(std::string scope) { scope_ = std::move(scope); return *this; }
    //! At which events `async_notify` saves. Default: `strategy::after_tool_call()`.
    session_options& with_strategy(waymark::strategy strategy)
    { strategy_ = std::move(strategy); return *this; }
    //! Deletes the checkpoints that the policies do not keep, from time to time after a save, in the
    //! session's scope or the one that the policies name. This neither fails nor delays saves. Default:
    //! deletes nothing.
    session_options& with_retention(waymark::retention policies)
    { retention_ = std::move(policies); return *this; }
    //! With `with_retention`, prunes after the session's first save, then after every `saves` saves. In
    //! between an agent may have that many checkpoints more than its policies keep. Default: 16.
    //! @throws waymark::error `invalid_argument` if it is 0.
    session_options& prune_every(std::size_t saves);
    //! Every save expects the head to be the checkpoint that this session last saved or resumed. If another
    //! process runs the same agent, one of the two gets `errc::conflict`.
    session_options& exclusive() noexcept { exclusive_ = true; return *this; }
    //! A session that was not resumed goes on from the head all the same: its first save has that as its
    //! parent. With this option its first save has no parent, and becomes the head beside what is there.
    session_options& start_new_root() noexcept { starts_new_root_ = true; return *this; }
    //! A name for this writer, such as its host and process. It is saved as the metadata member "writer", and
    //! errors name it when two writers conflict.
    //! @throws waymark::error `invalid_argument` if no store can hold it.
    session_options& with_writer(std::string name);
    //! How many operations can wait for their turn in the session; further ones complete with
    //! `errc::overloaded`. Default: 1,000.
    //! @throws waymark::error `invalid_argument` if it is 0.
    session_options& with_max_pending(std::size_t operations);
    // clang-format on

    const std::string& scope() const noexcept { return scope_; }
    const waymark::strategy& strategy() const noexcept { return strategy_; }
    const std::optional<waymark::retention>& retention() const noexcept { return retention_; }
    std::size_t prune_every() const noexcept { return prune_every_; }
    bool is_exclusive() const noexcept { return exclusive_; }
    bool starts_new_root() const noexcept { return starts_new_root_; }
    const std::string& writer() const noexcept { return writer_; }
    std::size_t max_pending() const noexcept { return max_pending_; }

private:
    std::string scope_;
    waymark::strategy strategy_;
    std::optional<waymark::retention> retention_;
    std::size_t prune_every_ = 16;
    bool exclusive_ = false;
    bool starts_new_root_ = false;
    std::string writer_;
    std::size_t max_pending_ = 1000;
};

//! Options of a step.
class step_options {
public:
    step_options() = default;

    //! The action can run again if it is not known how it ended: it only reads, or the other side recognises
    //! a repetition. Default: such a step fails with `errc::step_in_doubt`.
    step_options& safe_to_repeat() noexcept
    {
        safe_to_repeat_ = true;
        return *this;
    }

    bool is_safe_to_repeat() const noexcept { return safe_to_repeat_; }

private:
    bool safe_to_repeat_ = false;
};

} // namespace waymark
