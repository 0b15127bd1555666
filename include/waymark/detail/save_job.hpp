//! A save on its way through the engine, and the receipt that it ends with.
#pragma once

#include <waymark/detail/job.hpp>

#include <chrono>

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

    //! The checkpoint's place in the order of its agent.
    std::int64_t sequence() const noexcept { return result_.sequence(); }
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

namespace detail {

class save_job : public ending_job {
public:
    using description = save_request;
    using result_type = save_receipt;

    explicit save_job(description wanted) : request_(std::move(wanted))
    {
        what = kind::save;
        agent_id = request_.checkpoint().agent_id();
    }

    const save_request& request() const noexcept { return request_; }
    //! Moves it out, into the batch that is handed to the store.
    save_request take_request() noexcept { return std::move(request_); }

    void started(std::size_t queue_depth) noexcept
    {
        queue_depth_ = queue_depth;
        start_ = std::chrono::steady_clock::now();
    }

    void run(store&) noexcept override {} // the engine commits saves as a batch

    //! What it was to save goes now: its handler may be called much later.
    void fail(std::error_code code, std::string details) noexcept override
    {
        ending_job::fail(code, std::move(details));
        [[maybe_unused]] const auto dropped = take_request();
    }

    void succeed(const save_result& result, std::size_t batch_size) noexcept
    {
        receipt_ = {result, batch_size, queue_depth_, std::chrono::steady_clock::now() - start_};
    }

    save_receipt take_result() noexcept { return receipt_; }

private:
    save_request request_;
    save_receipt receipt_;
    std::size_t queue_depth_ = 0;
    std::chrono::steady_clock::time_point start_;
};

} // namespace detail

} // namespace waymark
