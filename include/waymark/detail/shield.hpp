//! Waiting for a coroutine that must not be cut short.
#pragma once

#include <waymark/detail/asio.hpp>

#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

namespace waymark::detail {

//! Who waits for the coroutine, until one of two has told them: the coroutine, or a cancellation.
template <class Handler, class Result>
class shielded_wait {
public:
    shielded_wait(Handler handler, asio::any_io_executor executor, std::exception_ptr when_left)
        : handler_(std::move(handler)), executor_(std::move(executor)), when_left_(std::move(when_left))
    {
    }

    const Handler& handler() const noexcept { return handler_; }
    //! Whether the caller is the one who tells.
    bool claim() noexcept { return !is_claimed_.exchange(true, std::memory_order_acq_rel); }

    void complete(std::exception_ptr failure, Result result)
    {
        if (auto slot = asio::get_associated_cancellation_slot(handler_); slot.is_connected())
            slot.clear();
        auto handler = std::move(handler_);
        std::move(handler)(std::move(failure), std::move(result));
    }
    static void leave(const std::shared_ptr<shielded_wait>& wait)
    {
        asio::post(wait->executor_, [wait] { wait->complete(std::move(wait->when_left_), Result()); });
    }

private:
    Handler handler_;
    asio::any_io_executor executor_;
    std::exception_ptr when_left_;
    std::atomic<bool> is_claimed_ = false;
};

//! What terminal and partial cancellation do: whoever waits goes, and the coroutine goes on. It stands in a
//! signal that may outlive the context, and so holds nothing of it.
template <class Handler, class Result>
class leave_shielded {
public:
    explicit leave_shielded(std::weak_ptr<shielded_wait<Handler, Result>> wait) : wait_(std::move(wait)) {}

    void operator()(asio::cancellation_type type)
    {
        using types = asio::cancellation_type;
        const auto wait = wait_.lock();
        if ((type & (types::terminal | types::partial)) != types::none && wait && wait->claim())
            wait->leave(wait);
    }

private:
    std::weak_ptr<shielded_wait<Handler, Result>> wait_;
};

//! Runs the coroutine on that executor, and waits for it. One who is cancelled while waiting gets
//! `when_left`.
template <class Result, class Token>
auto shield(const asio::any_io_executor& executor, asio::awaitable<Result> inner,
            std::exception_ptr when_left, Token&& token)
{
    return asio::async_initiate<Token, void(std::exception_ptr, Result)>(
        [executor](auto handler, asio::awaitable<Result> started, std::exception_ptr left_with) {
            using handler_type = std::decay_t<decltype(handler)>;
            using wait_type = shielded_wait<handler_type, Result>;
            const auto wait = std::make_shared<wait_type>(std::move(handler), executor, std::move(left_with));
            if (auto slot = asio::get_associated_cancellation_slot(wait->handler()); slot.is_connected())
                slot.template emplace<leave_shielded<handler_type, Result>>(wait);
            asio::co_spawn(executor, std::move(started), [wait](std::exception_ptr failure, Result result) {
                if (wait->claim())
                    wait->complete(std::move(failure), std::move(result));
            });
        },
        token, std::move(inner), std::move(when_left));
}

} // namespace waymark::detail
