//! How a session behaves, and what a step may do.
#pragma once

#include <waymark/retention.hpp>
#include <waymark/strategy.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace waymark {

class session_options {
public:
    session_options() = default;

    //! The part of the agent that the session is about; the default scope unless told.
    session_options& with_scope(std::string scope) &;
    session_options&& with_scope(std::string scope) &&;
    //! When `async_notify` saves; `strategy::after_tool_call()` unless told.
    session_options& with_strategy(waymark::strategy strategy) &;
    session_options&& with_strategy(waymark::strategy strategy) &&;
    //! Lets go of old checkpoints of the session's scope by itself after saves (or of the scope that the
    //! policies name). It runs beside the saves: none fails with it, and none stands behind it in a queue.
    session_options& with_retention(waymark::retention policies) &;
    session_options&& with_retention(waymark::retention policies) &&;
    //! It prunes after its first save, and then after every so many; 16 unless told. In between an agent may
    //! have that many checkpoints more than its policies keep.
    //! @throws waymark::error `invalid_argument` if it is 0.
    session_options& prune_every(std::size_t saves) &;
    session_options&& prune_every(std::size_t saves) &&;
    //! Every save expects that the head is still the one that this session saved or resumed. If another
    //! process runs the same agent, one of the two gets `errc::conflict`.
    session_options& exclusive() & noexcept;
    session_options&& exclusive() && noexcept;
    //! A name for who saves (a host and process, say). Written into the member "writer" of the metadata, and
    //! named when two writers are in conflict.
    session_options& with_writer(std::string name) &;
    session_options&& with_writer(std::string name) &&;
    //! How many operations may wait for their turn in the session, beyond which they complete with
    //! `errc::overloaded`; 1,000 unless told.
    //! @throws waymark::error `invalid_argument` if it is 0.
    session_options& with_max_pending(std::size_t operations) &;
    session_options&& with_max_pending(std::size_t operations) &&;

    const std::string& scope() const noexcept { return scope_; }
    const waymark::strategy& strategy() const noexcept { return strategy_; }
    const std::optional<waymark::retention>& retention() const noexcept { return retention_; }
    std::size_t prune_every() const noexcept { return prune_every_; }
    bool is_exclusive() const noexcept { return exclusive_; }
    const std::string& writer() const noexcept { return writer_; }
    std::size_t max_pending() const noexcept { return max_pending_; }

private:
    std::string scope_;
    waymark::strategy strategy_;
    std::optional<waymark::retention> retention_;
    std::size_t prune_every_ = 16;
    bool exclusive_ = false;
    std::string writer_;
    std::size_t max_pending_ = 1000;
};

class step_options {
public:
    step_options() = default;

    //! The action may be run again if it is not known how it ended: asking, or what the other side recognises
    //! as a repetition. Without it, such a step is `errc::step_in_doubt`.
    step_options& safe_to_repeat() & noexcept;
    step_options&& safe_to_repeat() && noexcept;

    bool is_safe_to_repeat() const noexcept { return safe_to_repeat_; }

private:
    bool safe_to_repeat_ = false;
};

} // namespace waymark
