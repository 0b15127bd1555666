//! When to checkpoint.
#pragma once

#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace waymark {

//! What just happened in an agent loop.
enum class event { tool_call_complete, llm_response, iteration };

//! Decides at which events a checkpoint is made. A value: copies are cheap and share nothing that changes.
class strategy {
public:
    using predicate = std::function<bool(std::int64_t iteration, event what)>;

    //! `after_tool_call()`
    strategy() noexcept = default;

    static strategy after_tool_call() noexcept;
    static strategy after_llm_response() noexcept;
    //! At every event of an iteration that `n` divides. For one checkpoint per iteration emit only
    //! `event::iteration`.
    //! @throws waymark::error `invalid_argument` if `n` is 0.
    static strategy every_n(std::uint64_t n);
    static strategy never() noexcept;
    //! Whatever `decide` says. It must be a pure function; it may be called on any thread.
    //! @throws waymark::error `invalid_argument` if `decide` is empty.
    static strategy when(predicate decide);

    bool should_checkpoint(std::int64_t iteration, event what) const;

private:
    enum class kind { after_tool_call, after_llm_response, every_n, never, when };
    explicit strategy(kind which, std::uint64_t n = 0) noexcept : kind_(which), n_(n) {}

    kind kind_ = kind::after_tool_call;
    std::uint64_t n_ = 0;
    std::shared_ptr<const predicate> decide_;

    friend void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const strategy& from);
};

//! JSON both ways, for configuration files: `"after_tool_call"`, `{"every_n": 5}`, and the names of events.
//! A strategy made with `when` has no JSON: writing it throws waymark::error with `invalid_argument`.
void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const strategy& from);
strategy tag_invoke(boost::json::value_to_tag<strategy>, const boost::json::value& from);
void tag_invoke(boost::json::value_from_tag, boost::json::value& to, event from);
event tag_invoke(boost::json::value_to_tag<event>, const boost::json::value& from);

} // namespace waymark
