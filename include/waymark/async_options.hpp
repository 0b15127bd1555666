//! The bounds and threads of an async_store.
#pragma once

#include <cstddef>

namespace waymark {

//! Options of async_store. Writes and reads have a queue each, and the bounds apply to each of them.
class async_options {
public:
    async_options() = default;

    //! Operations that are queued or being carried out. Past that they wait for a place. Default 1,024.
    async_options& with_max_queued_operations(std::size_t count) & noexcept;
    async_options&& with_max_queued_operations(std::size_t count) && noexcept;
    //! What those operations hold that is not stored yet. A larger operation is admitted when it is alone.
    //! Default 64 MiB.
    async_options& with_max_queued_bytes(std::size_t bytes) & noexcept;
    async_options&& with_max_queued_bytes(std::size_t bytes) && noexcept;
    //! Operations that wait for a place. Past that they fail with `errc::overloaded`. Default 4,096.
    async_options& with_max_waiting_operations(std::size_t count) & noexcept;
    async_options&& with_max_waiting_operations(std::size_t count) && noexcept;
    //! What those operations hold that is not stored yet. Default 64 MiB.
    async_options& with_max_waiting_bytes(std::size_t bytes) & noexcept;
    async_options&& with_max_waiting_bytes(std::size_t bytes) && noexcept;
    //! How many saves are committed together at most. Default 256.
    async_options& with_max_batch_operations(std::size_t count) & noexcept;
    async_options&& with_max_batch_operations(std::size_t count) && noexcept;
    //! How many threads read. Writes have a thread for each of the backend's `write_lanes()`. Default 2.
    async_options& with_read_threads(std::size_t count) & noexcept;
    async_options&& with_read_threads(std::size_t count) && noexcept;

    std::size_t max_queued_operations() const noexcept { return max_queued_operations_; }
    std::size_t max_queued_bytes() const noexcept { return max_queued_bytes_; }
    std::size_t max_waiting_operations() const noexcept { return max_waiting_operations_; }
    std::size_t max_waiting_bytes() const noexcept { return max_waiting_bytes_; }
    std::size_t max_batch_operations() const noexcept { return max_batch_operations_; }
    std::size_t read_threads() const noexcept { return read_threads_; }

    //! @throws waymark::error `invalid_argument` if a number that must not be 0 is.
    void validate() const;

private:
    std::size_t max_queued_operations_ = 1024;
    std::size_t max_queued_bytes_ = std::size_t{64} << 20;
    std::size_t max_waiting_operations_ = 4096;
    std::size_t max_waiting_bytes_ = std::size_t{64} << 20;
    std::size_t max_batch_operations_ = 256;
    std::size_t read_threads_ = 2;
};

//! How full the queues are at a moment.
struct queue_figures {
    struct side {
        std::size_t queued_operations = 0; //!< queued or being carried out
        std::size_t queued_bytes = 0;
        std::size_t waiting_operations = 0;
        std::size_t waiting_bytes = 0;
    };
    side writes;
    side reads;
};

} // namespace waymark
