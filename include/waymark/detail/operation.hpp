//! An operation with its completion handler: what joins the engine's jobs to Asio.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/engine.hpp>
#include <waymark/detail/save_job.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

namespace waymark::detail {

//! Something that is handed over to an executor, to be delivered there.
class deliverable {
public:
    deliverable(const deliverable&) = delete;
    deliverable& operator=(const deliverable&) = delete;

    //! On the executor.
    virtual void deliver() = 0;
    //! The executor will never run it: its context is shutting down.
    virtual void abandon() noexcept = 0;

protected:
    deliverable() = default;
    ~deliverable() = default; // destroyed through its own type only
};

//! The function that is posted. It owns what it delivers until it runs. It is no template, so that a user's
//! file compiles `post` once for each executor and not for each operation.
class delivery {
public:
    explicit delivery(deliverable& owned) noexcept : owned_(&owned) {}
    delivery(delivery&& other) noexcept : owned_(std::exchange(other.owned_, nullptr)) {}
    delivery(const delivery&) = delete;
    ~delivery()
    {
        if (owned_ != nullptr)
            owned_->abandon();
    }

    void operator()() { std::exchange(owned_, nullptr)->deliver(); }

private:
    deliverable* owned_;
};

//! On the stack around a `post`: if that throws, or the executor throws away what it was given, the
//! deliverable comes back to who posted it.
class posting {
public:
    explicit posting(const deliverable& posted) noexcept : posted_(&posted), outer_(innermost)
    {
        innermost = this;
    }
    posting(const posting&) = delete;
    posting& operator=(const posting&) = delete;
    ~posting() { innermost = outer_; }

    bool came_back() const noexcept { return came_back_; }

    //! Whether this thread is just posting it.
    static bool takes_back(const deliverable& abandoned) noexcept
    {
        for (auto* each = innermost; each != nullptr; each = each->outer_)
            if (each->posted_ == &abandoned)
                return each->came_back_ = true;
        return false;
    }

private:
    static inline thread_local posting* innermost = nullptr;

    const deliverable* posted_;
    posting* outer_;
    bool came_back_ = false;
};

//! A job of type `Job` that ends by calling `Handler` with an error code and, unless it is a flush, a value.
//!
//! How the handler is reached: a thread of the engine posts a `delivery` to the handler's executor. The
//! delivery lets the handler run only when that thread has left `post` altogether. The handler may be the
//! last thing that keeps its context alive, and a thread that is still on its way out of `post` would touch
//! the context's mutex, or drop the last copy of its executor, after it is gone.
template <class Job, class Handler>
class operation final : public Job, private deliverable {
public:
    using executor_type = asio::associated_executor_t<Handler, asio::any_io_executor>;
    using allocator_type = asio::associated_allocator_t<Handler>;

    static_assert(asio::execution::is_executor<executor_type>::value,
                  "the handler's executor must model Asio's executor requirements (not those of the older "
                  "Networking TS)");

    //! Makes an operation in the memory of the handler's allocator.
    static operation& make(Handler&& handler, typename Job::description&& wanted,
                           const asio::any_io_executor& fallback, diagnostics* details)
    {
        traits_allocator allocator(asio::get_associated_allocator(handler));
        auto* memory = traits::allocate(allocator, 1);
        try {
            return *new (static_cast<void*>(memory))
                operation(std::move(handler), std::move(wanted), fallback, details);
        } catch (...) {
            traits::deallocate(allocator, memory, 1);
            throw;
        }
    }

    Handler& handler() noexcept { return handler_; }

    void abort() noexcept override { Job::fail(asio::error::operation_aborted, why_aborted()); }

    void discard() noexcept override { destroy(handler_); }

    void complete() noexcept override
    {
        for (;;) {
            const posting now(*this);
            try {
                asio::post(executor_, delivery(*this));
            } catch (const std::bad_alloc&) {
                // Losing a handler is worse than waiting for some hundred bytes.
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                continue;
            }
            if (now.came_back())
                destroy(handler_); // the executor threw the delivery away: nobody will ever run the handler
            else
                handed_over_.store(true, std::memory_order_release); // nothing here may be touched after this
            return;
        }
    }

private:
    using traits_allocator = typename std::allocator_traits<allocator_type>::template rebind_alloc<operation>;
    using traits = std::allocator_traits<traits_allocator>;

    operation(Handler&& handler, typename Job::description&& wanted, const asio::any_io_executor& fallback,
              diagnostics* details)
        : Job(std::move(wanted)),
          handler_(std::move(handler)),
          executor_(asio::get_associated_executor(handler_, fallback)),
          work_(asio::prefer(executor_, asio::execution::outstanding_work.tracked)),
          details_(details)
    {
    }

    void deliver() override
    {
        for (;;) {
            // The poster may still be on its way out of `post`, mostly because it woke us on its own core and
            // has to get it back.
            for (int tries = 0; !is_handed_over() && tries < 16; ++tries)
                std::this_thread::yield();
            if (is_handed_over()) {
                invoke();
                return;
            }
            // It lost its core to someone else. Let other handlers have this thread rather than wait; the
            // sleep is for a poster of lower priority, which a yield would not let run.
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            const auto executor = executor_;
            const posting now(*this);
            try {
                asio::post(executor, delivery(*this));
            } catch (const std::bad_alloc&) {
                continue; // others have to wait, then
            }
            if (now.came_back())
                destroy_when_handed_over();
            return;
        }
    }

    bool is_handed_over() const noexcept { return handed_over_.load(std::memory_order_acquire); }

    void abandon() noexcept override
    {
        if (!posting::takes_back(*this))
            destroy_when_handed_over();
    }

    void destroy_when_handed_over() noexcept
    {
        while (!is_handed_over())
            std::this_thread::yield();
        destroy(handler_);
    }

    //! Frees the memory with the allocator of `owner`: the handler, wherever it is by now.
    void destroy(const Handler& owner) noexcept
    {
        traits_allocator allocator(asio::get_associated_allocator(owner));
        this->~operation();
        traits::deallocate(allocator, this, 1);
    }

    //! On the handler's executor.
    void invoke()
    {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected())
            slot.clear();
        auto handler = std::move(handler_);
        const auto code = Job::code();
        if (details_ != nullptr)
            *details_ = diagnostics(Job::take_details());
        if constexpr (std::is_void_v<typename Job::result_type>) {
            destroy(handler);
            std::move(handler)(code);
        } else {
            auto result = Job::take_result();
            destroy(handler);
            std::move(handler)(code, std::move(result));
        }
    }

    Handler handler_;
    executor_type executor_;
    tracked_executor<executor_type> work_; // keeps the context running until the handler is called
    diagnostics* details_;
    std::atomic<bool> handed_over_ = false;
};

//! Cancels by ticket, so that a signal which is emitted late finds nothing rather than freed memory.
template <class Queue>
class cancel_by_ticket {
public:
    cancel_by_ticket(std::weak_ptr<Queue> where, std::uint64_t ticket) noexcept
        : queue_(std::move(where)), ticket_(ticket)
    {
    }

    void operator()(asio::cancellation_type) const noexcept
    {
        if (const auto alive = queue_.lock())
            alive->cancel(ticket_);
    }

private:
    std::weak_ptr<Queue> queue_;
    std::uint64_t ticket_;
};

//! Starts an operation by submitting it to a queue: an engine, or a session's. Keeps the memory of the queue
//! (an engine's threads, it does not), so that a deferred operation that is started after its store is gone
//! ends with `errc::closed`.
template <class Job, class Queue = engine>
class initiation {
public:
    using executor_type = asio::any_io_executor;

    initiation(std::shared_ptr<Queue> where, executor_type executor) noexcept
        : queue_(std::move(where)), executor_(std::move(executor))
    {
    }

    executor_type get_executor() const noexcept { return executor_; }

    template <class Handler>
    void operator()(Handler&& handler, typename Job::description wanted, diagnostics* details) const
    {
        using operation_type = operation<Job, std::decay_t<Handler>>;
        std::decay_t<Handler> owned(std::forward<Handler>(handler));
        auto& started = operation_type::make(std::move(owned), std::move(wanted), executor_, details);
        started.ticket = queue_->next_ticket();
        // The slot first: once submitted, the operation may complete on another thread at any time.
        auto slot = asio::get_associated_cancellation_slot(started.handler());
        try {
            if (slot.is_connected())
                slot.template emplace<cancel_by_ticket<Queue>>(queue_, started.ticket);
        } catch (...) {
            started.discard();
            throw;
        }
        queue_->submit(started);
    }

private:
    std::shared_ptr<Queue> queue_;
    executor_type executor_;
};

//! Starts a call of the store.
template <class Result, class Token>
auto start_call(const std::shared_ptr<engine>& where, const asio::any_io_executor& executor,
                call<Result> wanted, diagnostics* details, Token&& token)
{
    return asio::async_initiate<Token, void(std::error_code, Result)>(
        initiation<call_job<Result>>(where, executor), token, std::move(wanted), details);
}

} // namespace waymark::detail
