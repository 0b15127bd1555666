//! How a step is made: begun durably, run, and ended durably before its result is handed out.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/operation.hpp>
#include <waymark/detail/session_core.hpp>
#include <waymark/detail/session_functions.hpp>
#include <waymark/detail/shield.hpp>
#include <waymark/with_diagnostics.hpp>

#include <asio/basic_waitable_timer.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <asio/system_executor.hpp>
#include <asio/this_coro.hpp>

#include <chrono>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace waymark::detail {

//! The parts of a session that its steps use. They may go on when the session is gone.
//!
//! A template, so that its coroutines are compiled only where steps are made.
template <class Executor>
class step_maker {
public:
    step_maker(std::shared_ptr<session_core> session, Executor executor, std::string key,
               step_options options)
        : session_(std::move(session)),
          executor_(std::move(executor)),
          key_(std::move(key)),
          options_(options)
    {
    }

    template <class Action>
    static asio::awaitable<boost::json::value> make(step_maker self, Action action)
    {
        const auto mine = std::make_shared<const running>(self.session_, self.key_);
        auto begun = co_await self.begin();
        if (begun.record.done())
            co_return *begun.record.result();

        const auto before = co_await asio::this_coro::cancellation_state;
        if (before.cancelled() != asio::cancellation_type::none) {
            co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
            co_await self.withdraw(begun);
            throw error(asio::error::operation_aborted,
                        self.describe() + " was cancelled before it ran; nothing happened");
        }
        ending how;
        try {
            if constexpr (std::is_same_v<Action, asio::awaitable<boost::json::value>>)
                how.result = co_await std::move(action);
            else
                how.result = co_await action();
        } catch (...) {
            how.set_failure();
        }
        // How it ended is recorded, whether or not anyone waits for it any more. What cancelled the action
        // does not count any more; what comes from now on ends the waiting.
        co_await asio::this_coro::reset_cancellation_state(asio::enable_partial_cancellation());
        const asio::any_io_executor here = co_await asio::this_coro::executor;
        if (how.is_aborted) { // which says nothing of the step; whoever cancelled it does not wait for more
            auto noting = note_cancellation(self, begun.record);
            asio::co_spawn(here, std::move(noting), asio::detached);
            throw error(asio::error::operation_aborted,
                        self.describe() +
                            " was cancelled while it ran, so that it is in doubt; look whether it took "
                            "effect, then call async_settle_step (it did) or async_forget_step (it did "
                            "not)");
        }
        const auto left = how.failure ? how.failure : self.left_too_early();
        auto recording = record(std::move(self), mine, std::move(begun), std::move(how));
        auto token = asio::use_awaitable;
        auto recorded = co_await shield(here, std::move(recording), left, token);
        co_return recorded;
    }

private:
    // Named before it is used in a co_await expression: see safe_in_co_await.
    using store_write = std::function<std::optional<step>(store&)>;
    using clock = std::chrono::steady_clock;
    using timer = asio::basic_waitable_timer<clock, asio::wait_traits<clock>, Executor>;

    //! How the action ended.
    struct ending {
        ending() = default;

        //! With the exception that is being handled.
        void set_failure()
        {
            failure = std::current_exception();
            try {
                throw;
            } catch (const not_begun&) {
                is_withdrawn = true;
            } catch (const std::system_error& thrown) {
                is_aborted = thrown.code() == asio::error::operation_aborted;
                said = failure_text(thrown.what());
            } catch (const std::exception& thrown) {
                said = failure_text(thrown.what());
            } catch (...) {
                said = "something that is no std::exception";
            }
        }

        boost::json::value result;
        std::exception_ptr failure;
        bool is_aborted = false;
        bool is_withdrawn = false; // it knows that nothing has happened
        std::string said;
    };

    //! One key is made by one caller at a time.
    class running {
    public:
        running(std::shared_ptr<session_core> session, std::string key)
            : session_(std::move(session)), key_(std::move(key))
        {
            if (!session_->enter_step(key_))
                throw error(errc::conflict,
                            "step '" + key_ + "' of agent '" + session_->agent_id() +
                                "' is being made by another caller of this session, or its end is still "
                                "being recorded; await that caller, or async_flush of the store");
        }
        running(const running&) = delete;
        running& operator=(const running&) = delete;
        ~running() { session_->leave_step(key_); }

    private:
        std::shared_ptr<session_core> session_;
        std::string key_;
    };

    asio::awaitable<begun_step> begin()
    {
        auto token = with_diagnostics(asio::use_awaitable);
        step wanted(session_->agent_id(), session_->options().scope(), key_);
        auto begun =
            co_await start_request<step_begin>(session_, executor_, token, std::move(wanted), options_);
        co_return std::move(*begun);
    }

    std::string describe() const { return "step '" + key_ + "' of agent '" + session_->agent_id() + "'"; }

    std::exception_ptr left_too_early() const
    {
        return std::make_exception_ptr(error(
            errc::outcome_unknown, describe() + " took effect, and was cancelled while its result was "
                                                "being recorded, which goes on; after async_flush of the "
                                                "store, make it again to get the result"));
    }

    //! Goes on with copies of its own when nobody waits for it any more.
    static asio::awaitable<boost::json::value> record(step_maker self,
                                                      [[maybe_unused]] std::shared_ptr<const running> mine,
                                                      begun_step begun, ending how)
    {
        if (!how.failure) {
            auto ended = co_await self.end(begun.record.with_result(how.result));
            co_return ended;
        }
        if (how.is_withdrawn)
            co_await self.withdraw(begun);
        else // it may have taken effect
            co_await self.note_failure(begun.record, how.said);
        std::rethrow_exception(how.failure);
    }

    asio::awaitable<boost::json::value> end(step record)
    {
        std::error_code code;
        diagnostics details;
        // The checkpoint that it was made on, and its record with it, may have been removed meanwhile. It
        // took effect all the same.
        auto ended = step_request(record).replacing(record.attempt()).restored();
        if (co_await put(std::move(ended), code, details))
            co_return *record.result();
        if (code == errc::conflict) { // someone else has ended it, or begins it anew
            const store_write write = [&record](store& in) { return std::optional(end_step(in, record)); };
            auto found = co_await persist(write, code, details);
            if (!code)
                co_return *found->result();
        }
        throw error(code, "step '" + key_ +
                              "' took effect, but its result could not be recorded: " + details.message());
    }

    //! What is known of a step that is in doubt. It is in doubt without that, too.
    asio::awaitable<void> note_failure(step record, std::string text)
    {
        std::error_code ignored;
        diagnostics details;
        record.with_failure(std::move(text));
        auto noted = step_request(record).replacing(record.attempt());
        co_await put(std::move(noted), ignored, details);
    }

    //! Goes on with copies of its own. If the step was settled or forgotten meanwhile, it changes nothing.
    static asio::awaitable<void> note_cancellation(step_maker self, step record)
    {
        co_await self.note_failure(std::move(record), "it was cancelled while it ran");
    }

    //! Writes a record with whatever saves wait. Returns whether it is written.
    asio::awaitable<bool> put(step_request record, std::error_code& code, diagnostics& details)
    {
        const std::vector<step_request> wanted{std::move(record)};
        step_outcome outcome;
        const auto write = [&]() -> asio::awaitable<void> {
            auto token = with_diagnostics(details, asio::redirect_error(asio::use_awaitable, code));
            auto copy = wanted;
            auto outcomes = co_await start_request<batched_steps>(session_->store_scheduler(), executor_,
                                                                  token, std::move(copy));
            if (code)
                co_return;
            outcome = std::move(outcomes.front());
            code = outcome.code();
            details = std::move(outcome).details();
        };
        co_await until_through(write, code);
        co_return !code;
    }

    //! As if it had never begun, if this call began it. If that cannot be written, it stays in doubt.
    asio::awaitable<void> withdraw(const begun_step& begun)
    {
        if (!begun.is_new)
            co_return;
        std::error_code ignored;
        diagnostics details;
        const store_write write = [record = begun.record](store& in) {
            withdraw_step(in, record);
            return std::optional<step>();
        };
        co_await persist(write, ignored, details);
    }

    asio::awaitable<std::optional<step>> persist(const store_write& wanted, std::error_code& code,
                                                 diagnostics& details)
    {
        std::optional<step> written;
        const auto write = [&]() -> asio::awaitable<void> {
            auto token = with_diagnostics(details, asio::redirect_error(asio::use_awaitable, code));
            written = co_await start_request<function_request<store_write>>(
                session_->store_scheduler(), executor_, token, request::schedule::ordered,
                store_operation::step, session_->agent_id(), wanted);
        };
        co_await until_through(write, code);
        co_return written;
    }

    //! Writes something that must not be lost to a queue that is full for a moment.
    template <class Write>
    static asio::awaitable<void> until_through(const Write& write, std::error_code& code)
    {
        constexpr int attempts = 8; // two and a half seconds together
        timer pause(co_await asio::this_coro::executor);
        for (int attempt = 1;; ++attempt) {
            co_await write();
            const bool may_pass = code == errc::overloaded || code == errc::busy || code == errc::unavailable;
            if (!may_pass || attempt == attempts)
                co_return;
            pause.expires_after(std::chrono::milliseconds(10 << attempt));
            std::error_code ignored;
            auto rest = asio::redirect_error(asio::use_awaitable, ignored);
            co_await pause.async_wait(rest);
        }
    }

    std::shared_ptr<session_core> session_;
    Executor executor_;
    std::string key_;
    step_options options_;
};

//! Starts a step on the executor of its handler, where the caller would have run the action itself.
class step_initiation {
public:
    using executor_type = asio::any_io_executor;

    explicit step_initiation(executor_type fallback) : executor_(std::move(fallback)) {}

    executor_type get_executor() const noexcept { return executor_; }

    template <class Handler, class Action>
    void operator()(Handler&& handler, step_maker<executor_type> maker, Action action) const
    {
        const auto associated = asio::get_associated_executor(handler, executor_);
        auto where = executor_;
        // A future has the system's executor, which would run the action wherever its step was begun.
        if constexpr (std::is_convertible_v<decltype(associated), executor_type>)
            if (context_of(associated) != context_of(asio::system_executor()))
                where = associated;
        asio::co_spawn(where, step_maker<executor_type>::make(std::move(maker), std::move(action)),
                       std::forward<Handler>(handler));
    }

private:
    static const asio::execution_context* context_of(const executor_type& executor)
    {
        return &asio::query(executor, asio::execution::context_as<asio::execution_context&>);
    }

    executor_type executor_;
};

} // namespace waymark::detail
