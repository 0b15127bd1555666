//! What an asynchronous save ends with.
#pragma once

#include <waymark/store.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace waymark {

//! What an `async_save` did, and how it went.
class save_receipt {
public:
    save_receipt() = default;
    save_receipt(save_result result, std::size_t batch_size, std::size_t queue_depth,
                 std::chrono::nanoseconds latency) noexcept
        : result_(result), batch_size_(batch_size), queue_depth_(queue_depth), latency_(latency)
    {
    }

    //! The checkpoint's number in the order of its agent.
    std::int64_t sequence() const noexcept { return result_.sequence(); }
    //! What it added to the store; 0 if the same content was there already.
    std::uint64_t bytes_written() const noexcept { return result_.bytes_written(); }
    //! How many saves shared the commit.
    std::size_t batch_size() const noexcept { return batch_size_; }
    //! How many writes were queued or under way when it was started.
    std::size_t queue_depth() const noexcept { return queue_depth_; }
    //! From the start of the operation until it was durable.
    std::chrono::nanoseconds latency() const noexcept { return latency_; }

private:
    save_result result_;
    std::size_t batch_size_ = 0;
    std::size_t queue_depth_ = 0;
    std::chrono::nanoseconds latency_{};
};

} // namespace waymark
