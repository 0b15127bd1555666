//! A completion handler that waits for a request: what joins the library to Asio.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/asio_work.hpp>
#include <waymark/detail/request.hpp>
#include <waymark/detail/scheduler.hpp>
#include <waymark/with_diagnostics.hpp>

#include <asio/awaitable.hpp>
#include <boost/json/value.hpp>

#include <chrono>
#include <concepts>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

namespace waymark::detail {

//! g++ 12 destroys a lambda twice that captures by value and is written inside a `co_await` expression. One
//! whose destructor does nothing survives that, and so does a class with constructors, as an awaitable is.
template <class Action>
concept safe_in_co_await =
    std::is_lvalue_reference_v<Action> || std::is_trivially_destructible_v<std::remove_cvref_t<Action>> ||
    std::same_as<Action, asio::awaitable<boost::json::value>>;

//! Calls `Handler` with an error code, and a value unless that is void, when a request has ended. It lives in
//! memory of the handler's allocator, which is used on the handler's executor only.
template <class Request, class Handler>
class operation final : public waiter, private work {
public:
    using executor_type = asio::associated_executor_t<Handler, asio::any_io_executor>;

    static_assert(asio::execution::is_executor<executor_type>::value,
                  "the handler's executor must model Asio's executor requirements (not those of the older "
                  "Networking TS)");

    //! @throws std::bad_alloc, or what copying the handler's executor throws.
    static operation& make(Handler&& handler, std::shared_ptr<Request> wanted,
                           const asio::any_io_executor& fallback)
    {
        allocator from(asio::get_associated_allocator(handler));
        auto* const memory = traits::allocate(from, 1);
        try {
            return *new (static_cast<void*>(memory))
                operation(std::move(handler), std::move(wanted), fallback);
        } catch (...) {
            traits::deallocate(from, memory, 1);
            throw;
        }
    }

    const Handler& handler() const noexcept { return handler_; }

    //! Posts itself to the handler's executor. Everything that is needed for that is taken along first: the
    //! handler may run, and this object and the context be gone, before `post` returns.
    void ended() noexcept override
    {
        const post_gate::visit visit(gate_);
        const auto executor = std::move(executor_);
        while (!is_posted(executor))
            std::this_thread::sleep_for(std::chrono::milliseconds(1)); // better late than never
    }

    //! The same with an error, while the request goes on. On any thread, but the handler runs once all the
    //! same: nobody else completes this any more.
    void left(std::error_code code) noexcept override
    {
        left_with_ = code;
        ended();
    }

    void dropped() noexcept override { destroy(handler_); }

private:
    using allocator = typename std::allocator_traits<
        asio::associated_allocator_t<Handler>>::template rebind_alloc<operation>;
    using traits = std::allocator_traits<allocator>;

    operation(Handler&& handler, std::shared_ptr<Request> wanted, const asio::any_io_executor& fallback)
        : handler_(std::move(handler)),
          request_(std::move(wanted)),
          executor_(asio::get_associated_executor(handler_, fallback)),
          work_(asio::prefer(executor_, asio::execution::outstanding_work.tracked)),
          gate_(post_gate::of(executor_))
    {
    }

    bool is_posted(const executor_type& executor) noexcept
    {
        try {
            post_work(executor, static_cast<work&>(*this));
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    //! On the handler's executor. The memory is free, and everything else gone, before the handler is called.
    void run() override
    {
        if (auto slot = asio::get_associated_cancellation_slot(handler_); slot.is_connected())
            slot.clear();
        const auto left_with = left_with_; // the request is not ours to look at then
        const auto code = left_with ? left_with : request_->code();
        if (auto* const details = associated_diagnostics<Handler>::get(handler_))
            *details =
                diagnostics(left_with ? request_->describe_departure(left_with) : request_->take_details());
        if constexpr (std::is_void_v<typename Request::result_type>) {
            auto handler = std::move(handler_);
            destroy(handler);
            std::move(handler)(code);
        } else {
            auto result = left_with ? typename Request::result_type() : request_->take_result();
            auto handler = std::move(handler_);
            destroy(handler);
            std::move(handler)(code, std::move(result));
        }
    }

    void drop() noexcept override { destroy(handler_); }

    //! With the allocator of `owner`: the handler, wherever it is by now.
    void destroy(const Handler& owner) noexcept
    {
        allocator memory(asio::get_associated_allocator(owner));
        this->~operation();
        traits::deallocate(memory, this, 1);
    }

    Handler handler_;
    std::shared_ptr<Request> request_;
    executor_type executor_;
    tracked_executor<executor_type> work_; // keeps the context running until the handler is called
    post_gate* gate_;
    std::error_code left_with_; // before the request has ended
};

//! Cancels a request where it waits or is carried out: in a scheduler or a session. Whoever asks for total
//! cancellation wants no effect, or the outcome; the other types want to go on, whatever becomes of it.
template <class Queue>
class cancel_request {
public:
    cancel_request(std::weak_ptr<Queue> where, std::shared_ptr<request> wanted) noexcept
        : queue_(std::move(where)), request_(std::move(wanted))
    {
    }

    void operator()(asio::cancellation_type type) const noexcept
    {
        using types = asio::cancellation_type;
        const bool leaves = (type & (types::terminal | types::partial)) != types::none;
        if (const auto alive = queue_.lock())
            alive->cancel(*request_, leaves ? departure::leaves : departure::stays);
    }

private:
    std::weak_ptr<Queue> queue_;
    std::shared_ptr<request> request_;
};

//! Makes a request and submits it to a queue. Keeps the memory of the queue (not the threads behind it), so
//! that a deferred operation that is started after its store is gone ends with `errc::closed`.
template <class Request, class Queue>
class initiation {
public:
    using executor_type = asio::any_io_executor;

    initiation(std::shared_ptr<Queue> where, executor_type executor) noexcept
        : queue_(std::move(where)), executor_(std::move(executor))
    {
    }

    executor_type get_executor() const noexcept { return executor_; }

    template <class Handler, class... Arguments>
    void operator()(Handler&& handler, Arguments&&... arguments) const
    {
        start(std::decay_t<Handler>(std::forward<Handler>(handler)),
              std::make_shared<Request>(std::forward<Arguments>(arguments)...));
    }

protected:
    const std::shared_ptr<Queue>& queue() const noexcept { return queue_; }

    template <class Handler>
    void start(Handler handler, const std::shared_ptr<Request>& wanted) const
    {
        using waiting = operation<typename Request::awaited, Handler>;
        auto& started = waiting::make(std::move(handler), wanted, executor_);
        wanted->set_waiter(started);
        try {
            // Before it is submitted: then it may complete on another thread at any time.
            if (auto slot = asio::get_associated_cancellation_slot(started.handler()); slot.is_connected())
                slot.template emplace<cancel_request<Queue>>(queue_, wanted);
            queue_->submit(wanted);
        } catch (...) { // without memory to start with
            started.dropped();
            throw;
        }
    }

private:
    std::shared_ptr<Queue> queue_;
    executor_type executor_;
};

//! The signature of the handler of a request.
template <class Result>
struct signature_of {
    using type = void(std::error_code, Result);
};
template <>
struct signature_of<void> {
    using type = void(std::error_code);
};

//! Starts a request with whatever the token says.
template <class Request, class Queue, class Token, class... Arguments>
auto start_request(const std::shared_ptr<Queue>& where, const asio::any_io_executor& executor, Token&& token,
                   Arguments&&... arguments)
{
    return asio::async_initiate<Token, typename signature_of<typename Request::result_type>::type>(
        initiation<Request, Queue>(where, executor), token, std::forward<Arguments>(arguments)...);
}

} // namespace waymark::detail
