//! The bounds and threads of an async_store.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/scheduler.hpp>
#include <waymark/store_observer.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace waymark {

//! Options of async_store. Writes, reads and upkeep have a queue each, and the bounds apply to each of them.
class async_options {
public:
    async_options() = default;

    // clang-format off

    //! Operations that are queued or under way. Past that they wait for a slot. Default: 1,024.
    async_options& with_max_queued_operations(std::size_t count) noexcept { limits_.queued_operations = count; return *this; }
    //! What those operations hold that is not stored yet. A larger operation is admitted when it is alone.
    //! Default: 64 MiB.
    async_options& with_max_queued_bytes(std::size_t bytes) noexcept { limits_.queued_bytes = bytes; return *this; }
    //! Operations that wait for a slot. Past that they fail with `errc::overloaded`. Default: 4,096.
    async_options& with_max_waiting_operations(std::size_t count) noexcept { limits_.waiting_operations = count; return *this; }
    //! What those operations hold that is not stored yet. Default: 64 MiB.
    async_options& with_max_waiting_bytes(std::size_t bytes) noexcept { limits_.waiting_bytes = bytes; return *this; }
    //! How many saves are committed together at most; more than 16,384 never are. Default: 256.
    async_options& with_max_batch_operations(std::size_t count) noexcept { limits_.batch_operations = count; return *this; }
    //! How many loads and lists run at once. Default: 2.
    async_options& with_concurrent_reads(std::size_t count) noexcept { limits_.concurrent_reads = count; return *this; }
    //! Where the blocking work is done: an `asio::thread_pool`, say, that a service has for all of its
    //! blocking work. Default: a pool of the store's own, with a thread for each of the backend's
    //! `write_lanes()`, for each concurrent read, and three for what takes long.
    //!
    //! A pool of any size will do: what runs there blocks for I/O, and never for something else that the pool
    //! has yet to run. The pool must go on running until the store is destroyed.
    async_options& with_pool(asio::any_io_executor pool) noexcept { pool_ = std::move(pool); return *this; }
    //! Told what happens. Give it to the backend, too: it sees what this store does not. Default: none.
    async_options& with_observer(std::shared_ptr<store_observer> observer) noexcept { observer_ = std::move(observer); return *this; }

    // clang-format on

    const detail::scheduler_limits& limits() const noexcept { return limits_; }
    //! Empty: one of its own.
    const asio::any_io_executor& pool() const noexcept { return pool_; }
    const std::shared_ptr<store_observer>& observer() const noexcept { return observer_; }

private:
    detail::scheduler_limits limits_;
    asio::any_io_executor pool_;
    std::shared_ptr<store_observer> observer_;
};

} // namespace waymark
