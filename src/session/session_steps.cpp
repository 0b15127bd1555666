#include "session_words.hpp"

#include <waymark/detail/session_core.hpp>

#include <new>
#include <utility>

namespace waymark::detail {

step_begin::step_begin(step wanted, step_options options)
    : batched_steps(wanted.agent_id()), options_(options), begun_(std::move(wanted), true)
{
}

void session_core::begin_step(step_begin& wanted)
{
    wanted.position_ = position();
    wanted.begun_.record.with_checkpoint(wanted.position_.parent);
    // Where the head is damaged, it takes a look to know which one counts.
    if (options_.is_exclusive() && wanted.position_.past_damage)
        return look(&session_core::find_or_begin_step, &session_core::end_step_begin,
                    request::schedule::ordered);
    step_request record(wanted.begun_.record, true);
    if (options_.is_exclusive())
        record.expect_head(wanted.position_.head);
    wanted.wanted_.push_back(std::move(record));
    run_current();
}

void session_core::step_carried_out(step_begin& wanted) noexcept
{
    if (wanted.code() || wanted.result_.empty())
        return end_current();
    const auto outcome = std::move(wanted.result_.front());
    // It was begun before, or the head was moved, or the checkpoint that the session stands on was erased.
    if (outcome.code() == errc::conflict || outcome.code() == errc::not_found) {
        try {
            return look(&session_core::find_or_begin_step, &session_core::end_step_begin,
                        request::schedule::ordered);
        } catch (...) {
            wanted.refuse_with_current_exception();
        }
    } else if (outcome.code()) {
        wanted.fail(outcome.code(), if_memory_allows([&] { return outcome.details().message(); }));
    }
    end_current();
}

bool session_core::withdraws_step(step_begin& begun) noexcept
{
    if (!std::exchange(begun.begun_.is_new, false) || begun.begun_.record.done())
        return false;
    try {
        look(&session_core::withdraw_step, &session_core::end_step_begin, request::schedule::ordered);
        return true;
    } catch (const std::bad_alloc&) { // it stays in doubt
        return false;
    }
}

void session_core::withdraw_step(store& in)
{
    detail::withdraw_step(in, static_cast<step_begin&>(*current_).begun_.record);
}

void session_core::find_or_begin_step(store& in)
{
    auto& wanted = static_cast<step_begin&>(*current_);
    wanted.begun_ =
        detail::begin_step(in, wanted.begun_.record, wanted.options_,
                           options_.is_exclusive() ? std::optional(wanted.position_) : std::nullopt);
}

void session_core::end_step_begin() noexcept
{
    const auto ended = std::move(look_);
    if (ended->code())
        current_->fail(ended->code(), ended->take_details());
    end_current();
}

} // namespace waymark::detail
