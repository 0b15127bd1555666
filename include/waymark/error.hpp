//! What can go wrong, as `std::error_code` for async functions and as an exception for blocking ones.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace waymark {

//! The ways in which an operation of Waymark fails. Absence is not among them: a load that finds nothing
//! succeeds with `std::nullopt`.
enum class errc {
    invalid_argument = 1, //!< the input was refused before anything was written
    not_found,            //!< something that the call depends on does not exist (a fork's origin, say)
    conflict,             //!< `create_only` or `expect_head` did not hold, or an id is ambiguous
    corrupt,              //!< stored data is damaged; nothing is guessed
    busy,                 //!< others hold the store for too long, or change it faster than it can be read
    unavailable,          //!< the database server cannot be reached; a save has written nothing
    closed,               //!< the store has been closed
    overloaded,           //!< the queue and its waiting room are full; nothing was queued
    unsupported_format,   //!< written by a newer version of the library; left untouched
    outcome_unknown,      //!< it is not known whether it took place: the checkpoint is whole or absent
    step_in_doubt,        //!< a side effect began and its end was never recorded
    vetoed,               //!< a `before_save` hook refused the save; nothing was written
    callback_threw,       //!< a function of the caller's, a hook or a strategy, threw an exception
    io,                   //!< the operating system or the database reported an error
    api_busy,             //!< a model's API cannot answer now, see waymark/wire.hpp
    api_refused,          //!< a model's API has refused the request
};

//! The category of `errc`; its messages say what to do next. Conditions: `invalid_argument`, `busy` (device
//! or resource busy), `overloaded`, `unavailable` and `api_busy` (resource unavailable, try again) and `io`
//! equal their `std::errc` kin.
const std::error_category& category() noexcept;

std::error_code make_error_code(errc code) noexcept;

//! What happened beyond the error code: which checkpoint, which member, which limit.
//!
//! `with_diagnostics(details, token)` has an async function fill one, beside an error code.
class diagnostics {
public:
    diagnostics() = default;
    explicit diagnostics(std::string message) : message_(std::move(message)) {}

    //! A sentence for people and logs; empty after a success. Look at the error code to tell the two apart.
    const std::string& message() const& noexcept { return message_; }
    std::string message() && { return std::move(message_); }
    bool empty() const noexcept { return message_.empty(); }
    void clear() noexcept { message_.clear(); }

private:
    std::string message_;
};

//! What the blocking functions throw, and the async ones with `with_diagnostics`, which is their default.
//! `code()` is for programs, `what()` for people.
class error : public std::system_error {
public:
    error(errc code, std::string details);
    error(std::error_code code, std::string details);

    //! The details without the category's general remedy.
    const diagnostics& details() const& noexcept { return details_; }
    diagnostics details() && { return std::move(details_); }

private:
    diagnostics details_;
};

} // namespace waymark

namespace std {

template <>
struct is_error_code_enum<waymark::errc> : true_type {};

} // namespace std
