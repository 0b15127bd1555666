//! How a step is made: begun durably, run, and ended durably before its result is handed out.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/operation.hpp>
#include <waymark/detail/session_calls.hpp>
#include <waymark/detail/session_tasks.hpp>
#include <waymark/detail/store_calls.hpp>

#include <asio/cancellation_state.hpp>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/this_coro.hpp>

#include <concepts>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace waymark {

//! What `session::async_step` runs: a function without arguments that returns an awaitable of JSON.
template <class Action>
concept step_action = requires(Action& action) {
    {
        action()
    } -> std::same_as<asio::awaitable<boost::json::value>>;
};

namespace detail {

//! g++ 12 destroys a lambda twice that captures by value and is written inside a `co_await` expression. One
//! whose destructor does nothing survives that.
template <class Action>
concept safe_in_co_await =
    std::is_lvalue_reference_v<Action> || std::is_trivially_destructible_v<std::remove_cvref_t<Action>>;

//! The parts of a session that its steps use. They may go on when the session is gone.
class step_maker {
public:
    step_maker(std::shared_ptr<session_core> session, std::shared_ptr<engine> store,
               asio::any_io_executor executor, std::string key, step_options options)
        : session_(std::move(session)),
          engine_(std::move(store)),
          executor_(std::move(executor)),
          key_(std::move(key)),
          options_(options)
    {
    }
    step_maker(step_maker&&) = default;

    template <class Action>
    static asio::awaitable<boost::json::value> make(step_maker self, Action action)
    {
        const running mine(self.session_, self.key_);
        auto record = co_await self.begin();
        if (record.done())
            co_return *record.result();

        const auto state = co_await asio::this_coro::cancellation_state;
        if (state.cancelled() != asio::cancellation_type::none) {
            co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
            co_await self.withdraw();
            throw error(asio::error::operation_aborted,
                        "step '" + self.key_ + "' was cancelled before it ran");
        }
        boost::json::value result;
        std::exception_ptr failure;
        bool outcome_is_known = true;
        try {
            if constexpr (std::is_same_v<Action, asio::awaitable<boost::json::value>>)
                result = co_await std::move(action);
            else
                result = co_await action();
        } catch (const std::system_error& thrown) {
            failure = std::current_exception();
            // What was cancelled half-way may have taken effect.
            outcome_is_known = thrown.code() != asio::error::operation_aborted;
        } catch (...) {
            failure = std::current_exception();
        }
        // How it ended is recorded, whether or not anyone waits for it any more.
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        if (failure) {
            if (outcome_is_known)
                co_await self.withdraw();
            std::rethrow_exception(failure);
        }
        co_await self.end(record.with_result(result));
        co_return result;
    }

private:
    //! One key is made by one caller at a time.
    class running {
    public:
        running(std::shared_ptr<session_core> session, std::string key)
            : session_(std::move(session)), key_(std::move(key))
        {
            if (!session_->enter_step(key_))
                throw error(errc::conflict, "step '" + key_ + "' is being made by another caller");
        }
        running(const running&) = delete;
        running& operator=(const running&) = delete;
        ~running() { session_->leave_step(key_); }

    private:
        std::shared_ptr<session_core> session_;
        std::string key_;
    };

    asio::awaitable<step> begin()
    {
        auto wanted = step(session_->agent_id(), session_->options().scope(), key_);
        session_call<std::optional<step>> begun(
            job::kind::write,
            [wanted = std::move(wanted), options = options_, exclusive = session_->options().is_exclusive()](
                store& in, const session_position& position) mutable {
                wanted.with_checkpoint(position.parent);
                return std::optional(
                    begin_step(in, wanted, options, exclusive ? std::optional(position) : std::nullopt));
            });
        std::error_code code;
        diagnostics details;
        auto token = asio::redirect_error(asio::use_awaitable, code);
        auto record =
            co_await asio::async_initiate<decltype(token), void(std::error_code, std::optional<step>)>(
                initiation<call_task<std::optional<step>>, session_core>(session_, executor_), token,
                std::move(begun), &details);
        if (code)
            throw error(code, details.message());
        co_return std::move(*record);
    }

    asio::awaitable<void> end(step record)
    {
        auto wanted = put_steps_call({step_request(std::move(record))});
        std::error_code code;
        diagnostics details;
        auto token = asio::redirect_error(asio::use_awaitable, code);
        auto outcomes =
            co_await asio::async_initiate<decltype(token), void(std::error_code, std::vector<step_outcome>)>(
                initiation<call_job<std::vector<step_outcome>>>(engine_, executor_), token, std::move(wanted),
                &details);
        if (code)
            throw error(code, "step '" + key_ + "' took effect, but its result could not be recorded: " +
                                  details.message());
        if (const auto& outcome = outcomes.at(0); outcome.code())
            throw error(outcome.code(), "step '" + key_ +
                                            "' took effect, but its result could not be recorded: " +
                                            outcome.details().message());
    }

    //! As if it had never begun. If that cannot be written, it stays in doubt.
    asio::awaitable<void> withdraw()
    {
        auto wanted = erase_step_call(session_->agent_id(), session_->options().scope(), key_);
        std::error_code ignored;
        auto token = asio::redirect_error(asio::use_awaitable, ignored);
        co_await asio::async_initiate<decltype(token), void(std::error_code, bool)>(
            initiation<call_job<bool>>(engine_, executor_), token, std::move(wanted),
            static_cast<diagnostics*>(nullptr));
    }

    std::shared_ptr<session_core> session_;
    std::shared_ptr<engine> engine_;
    asio::any_io_executor executor_;
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
    void operator()(Handler&& handler, step_maker maker, Action action) const
    {
        const auto associated = asio::get_associated_executor(handler, executor_);
        auto where = executor_;
        if constexpr (std::is_convertible_v<decltype(associated), executor_type>)
            where = associated;
        asio::co_spawn(where, step_maker::make(std::move(maker), std::move(action)),
                       std::forward<Handler>(handler));
    }

private:
    executor_type executor_;
};

} // namespace detail

} // namespace waymark
