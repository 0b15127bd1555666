//! How a session resumes, and what it resumed from.
#pragma once

#include <waymark/checkpoint.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace waymark {

class resume_options;
class resumed;
class store;

namespace detail {
struct session_position;
resumed resume(store&, const std::string&, const std::string&, const resume_options&);
session_position position_of(const resumed&);
} // namespace detail

//! Options of session::async_resume.
class resume_options {
public:
    resume_options() = default;

    // clang-format off
    //! Makes a conversation that model APIs accept, see `conversation::repair`: answers tool calls that have no
    //! result with an "interrupted" result, and drops what a broken stream has left. Default: leaves everything
    //! as it was saved.
    resume_options& repair() { repair_ = true; return *this; }
    //! The same, with this text as the result.
    resume_options& repair(std::string text) { repair_text_ = std::move(text); return repair(); }
    //! If the head is damaged, resumes from the newest checkpoint that can be read. Default: fails with
    //! `errc::corrupt`.
    resume_options& fall_back() noexcept { fall_back_ = true; return *this; }
    // clang-format on

    bool repairs() const noexcept { return repair_; }
    const std::optional<std::string>& repair_text() const noexcept { return repair_text_; }
    bool falls_back() const noexcept { return fall_back_; }

private:
    bool repair_ = false;
    std::optional<std::string> repair_text_;
    bool fall_back_ = false;
};

//! The checkpoint to go on from, or nothing if the agent has none; to be used like a
//! `std::optional<checkpoint>`. Says what was done to get there.
class resumed {
public:
    //! Nothing to resume.
    resumed() = default;
    resumed(checkpoint found, std::vector<tool_call> unanswered, std::vector<checkpoint_header> passed_over,
            std::optional<std::string> damage)
        : checkpoint_(std::move(found)),
          unanswered_(std::move(unanswered)),
          passed_over_(std::move(passed_over)),
          damage_(std::move(damage))
    {
    }

    explicit operator bool() const noexcept { return checkpoint_.has_value(); }
    bool has_value() const noexcept { return checkpoint_.has_value(); }
    //! @pre it has a value
    const checkpoint& operator*() const& noexcept { return *checkpoint_; }
    checkpoint operator*() && { return *std::move(checkpoint_); }
    const checkpoint* operator->() const noexcept { return &*checkpoint_; }
    //! @throws std::bad_optional_access if it has none.
    const checkpoint& value() const& { return checkpoint_.value(); }
    checkpoint value() && { return std::move(checkpoint_).value(); }

    //! The tool calls that had no result when the checkpoint was saved; with `repair` they have one now.
    const std::vector<tool_call>& unanswered_tool_calls() const& noexcept { return unanswered_; }
    std::vector<tool_call> unanswered_tool_calls() && { return std::move(unanswered_); }
    //! Why this is not the head: what was wrong with that. None if it is; not none only with `fall_back`.
    const std::optional<std::string>& damage() const& noexcept { return damage_; }
    std::optional<std::string> damage() && { return std::move(damage_); }
    //! Newer checkpoints that are damaged and were passed over, newest first; their `damage()` says how. One
    //! that vanished altogether is not among them.
    const std::vector<checkpoint_header>& passed_over() const& noexcept { return passed_over_; }
    std::vector<checkpoint_header> passed_over() && { return std::move(passed_over_); }

private:
    friend resumed detail::resume(store&, const std::string&, const std::string&, const resume_options&);
    friend detail::session_position detail::position_of(const resumed&);

    std::optional<checkpoint> checkpoint_;
    std::vector<tool_call> unanswered_;
    std::vector<checkpoint_header> passed_over_;
    std::optional<std::string> damage_;
    std::optional<std::string> readable_head_; // where an exclusive session goes on behind damage
};

} // namespace waymark
