//! The threads of an async_store and the queues before them. Contains no Asio, so that a compiled Waymark
//! works with whatever version and settings of Asio its user has.
#pragma once

#include <waymark/async_options.hpp>
#include <waymark/detail/job.hpp>
#include <waymark/store.hpp>

#include <cstdint>
#include <memory>

namespace waymark::detail {

//! Carries out jobs. Saves of one lane that wait at the same time are committed together.
//!
//! Every job that was submitted is completed exactly once: with its outcome, or without having run, with
//! `operation_aborted` (cancelled, or the engine was closed), `errc::overloaded` or `errc::closed`.
class engine {
public:
    //! @throws waymark::error `invalid_argument` without a backend or with options that make no sense.
    engine(std::shared_ptr<store> backend, const async_options& options);
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    //! Closes it, if that has not been done.
    ~engine();

    const std::shared_ptr<store>& backend() const noexcept;
    queue_figures queues() const;

    //! A ticket for a job that is about to be submitted.
    std::uint64_t next_ticket() noexcept;
    //! Takes over the job. May complete it at once if there is no place for it.
    void submit(job& submitted) noexcept;
    //! Completes the job with `operation_aborted` if no thread has begun it; does nothing otherwise.
    void cancel(std::uint64_t ticket) noexcept;

    //! Finishes what is being carried out, completes the rest with `operation_aborted`, ends the threads.
    //! Must not be called from a thread of the engine.
    void close() noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace waymark::detail
