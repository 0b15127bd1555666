//! Carries out the requests of an async_store: in which order, how many at once, and which together. Contains
//! no Asio, so that a compiled Waymark works with whatever version and settings of Asio its user has.
#pragma once

#include <waymark/detail/request.hpp>
#include <waymark/detail/work.hpp>
#include <waymark/queue_figures.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace waymark::detail {

//! See async_options.
struct scheduler_limits {
    std::size_t queued_operations = 1024;
    std::size_t queued_bytes = std::size_t{64} << 20;
    std::size_t waiting_operations = 4096;
    std::size_t waiting_bytes = std::size_t{64} << 20;
    std::size_t batch_operations = 256;
    std::size_t concurrent_reads = 2;
    std::size_t concurrent_beside = 2; // what takes long, in the order of its agents
};

//! What a cancellation wants of a request that has begun.
enum class departure : bool {
    stays, //!< whoever waits gets the outcome
    leaves //!< whoever waits goes at once, and the request goes on
};

//! Every request that was submitted ends exactly once: with its outcome, or without having run, as cancelled,
//! overloaded or closed.
class scheduler {
public:
    //! `aborted` is what requests end with that are cancelled. Asio has an error category of its own for it.
    //! `observer` may be null.
    //! @throws waymark::error `invalid_argument` without a backend, or with a limit of 0 that must not be.
    scheduler(std::shared_ptr<store> backend, const scheduler_limits& limits, std::error_code aborted,
              std::shared_ptr<store_observer> observer = nullptr);
    scheduler(const scheduler&) = delete;
    scheduler& operator=(const scheduler&) = delete;
    ~scheduler();

    //! How many requests can be carried out at once.
    std::size_t concurrency() const noexcept;
    //! Where that is done. @pre it has not been called, and nothing was submitted
    void run_on(std::unique_ptr<work_executor> pool) noexcept;

    const std::shared_ptr<store>& backend() const noexcept;
    queue_figures queues() const;
    std::error_code aborted() const noexcept;

    //! May end the request at once if there is no room for it.
    void submit(const std::shared_ptr<request>& submitted) noexcept;
    //! Ends the request as cancelled if it has not begun. Otherwise it goes on, with or without its waiter.
    void cancel(request& wanted, departure how) noexcept;

    //! A session has taken the request, and will submit it when its turn comes: from now on flushes wait for
    //! it, until it is retired.
    void announce(request& taken) noexcept;
    void retire(const request& ended) noexcept;
    //! It has ended in its session, for the observer to know.
    void note_unsubmitted(const request& ended) const noexcept;
    //! Null: nobody observes.
    const std::shared_ptr<store_observer>& observer() const noexcept;

    //! Finishes what is under way, ends the rest as cancelled, and lets go of the backend and the pool. Waits
    //! for running work only, never for work that the pool has yet to begin.
    void close() noexcept;

private:
    class impl;
    std::shared_ptr<impl> impl_;
};

//! Has removed what an erasure left, in the background, when nobody waits for it.
class sweeper {
public:
    explicit sweeper(std::weak_ptr<scheduler> where) noexcept : scheduler_(std::move(where)) {}

    //! If there is no memory for it, the next one does it.
    void sweep(const std::string& agent_id) const noexcept;

private:
    std::weak_ptr<scheduler> scheduler_;
};

} // namespace waymark::detail
