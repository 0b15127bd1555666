#include "../values/random_bits.hpp"
#include "job_queue.hpp"

#include <waymark/detail/engine.hpp>
#include <waymark/detail/save_job.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace waymark::detail {

namespace {

//! An error without its details is still an error; without memory there is no other.
template <class Text>
void set_if_possible(std::string& details, const Text& text) noexcept
{
    try {
        details = text;
    } catch (const std::bad_alloc&) {
        details.clear();
    }
}

} // namespace

std::error_code current_failure(job::kind what, std::string& details) noexcept
{
    std::error_code code = errc::io;
    try {
        throw;
    } catch (const error& failure) {
        set_if_possible(details, failure.details().message());
        return failure.code();
    } catch (const std::system_error& failure) {
        set_if_possible(details, failure.what());
        code = failure.code();
    } catch (const std::bad_alloc&) {
        set_if_possible(details, "memory ran out");
        code = std::make_error_code(std::errc::not_enough_memory);
    } catch (const std::exception& failure) {
        set_if_possible(details, failure.what());
    } catch (...) {
        set_if_possible(details, "the store threw something that is no exception");
    }
    return what == job::kind::read ? code : make_error_code(errc::outcome_unknown);
}

std::string why_aborted() noexcept
{
    std::string details;
    set_if_possible(details, "it was cancelled, or its store or session destroyed, before it began");
    return details;
}

void mark_loaded(const checkpoint& loaded, std::uint64_t place) noexcept
{
    mark_stored(loaded.conversation(), place);
}

namespace {

std::string describe(const queue_figures::side& full)
{
    return std::to_string(full.queued_operations) + " operations with " + std::to_string(full.queued_bytes) +
           " bytes are queued and " + std::to_string(full.waiting_operations) + " with " +
           std::to_string(full.waiting_bytes) + " bytes wait";
}

} // namespace

//! How a lane's last batch went, to guess whether more saves are about to come.
struct pace {
    std::size_t population = 0; // those that were in the batch, and those that waited when it was done
    std::chrono::steady_clock::duration took{};
    unsigned to_skip = 0; // after waits in vain
    unsigned last_skip = 0;
};

struct engine::impl {
    impl(std::shared_ptr<store> chosen, const async_options& chosen_options, std::size_t lanes)
        : backend(std::move(chosen)),
          bounds(backend->bounds()),
          options(chosen_options),
          writes(lanes, chosen_options),
          reads(1, chosen_options),
          wanted(lanes, 1),
          lane_ready(lanes)
    {
        try {
            for (std::size_t lane = 0; lane < lane_ready.size(); ++lane)
                threads.emplace_back([this, lane] { write_lane(lane); });
            for (std::size_t i = 0; i < options.read_threads(); ++i)
                threads.emplace_back([this] { read_lane(); });
        } catch (...) { // no more threads to be had: end those that run
            close();
            throw;
        }
    }

    void write_lane(std::size_t lane) noexcept;
    void read_lane() noexcept;
    void gather(std::unique_lock<std::mutex>& lock, std::size_t lane, pace& last);
    void carry_out(const std::vector<job*>& batch) noexcept;
    void commit(const std::vector<job*>& batch) noexcept;
    void finish(job_queue& queue, const std::vector<job*>& batch) noexcept;
    void wait_for_other_lanes(std::unique_lock<std::mutex>& lock, const job& reached);
    void pass_fence(std::uint64_t ticket);
    void wake_lanes();
    void close() noexcept;

    std::shared_ptr<store> backend; // let go when the engine is closed
    const limits bounds;            // the backend's
    const async_options options;
    const std::uint64_t place = random_bits(); // 0 means: not stored
    std::atomic<std::uint64_t> last_ticket = 0;

    mutable std::mutex mutex; // guards what follows
    job_queue writes;
    job_queue reads;
    bool closing = false;
    //! For each lane, how many jobs wake it.
    std::vector<std::size_t> wanted;
    //! Writes that concern two lanes: the lane that reaches one first waits here for the other.
    std::set<std::uint64_t> fences;

    std::deque<std::condition_variable> lane_ready; // one a lane
    std::condition_variable read_ready;
    std::condition_variable fence_passed;
    std::vector<std::thread> threads; // last: they use everything above
};

// The threads

void engine::impl::write_lane(std::size_t lane) noexcept
{
    pace last;
    std::unique_lock lock(mutex);
    for (;;) {
        lane_ready[lane].wait(lock, [&] { return closing || writes.has_work(lane); });
        if (!closing)
            gather(lock, lane, last);
        if (closing)
            return;
        if (!writes.has_work(lane))
            continue; // cancelled meanwhile
        const auto batch = writes.take(lane, options.max_batch_operations());
        if (batch.front()->lanes_to_reach > 0) {
            wait_for_other_lanes(lock, *batch.front());
            continue;
        }
        lock.unlock();
        const auto begin = std::chrono::steady_clock::now();
        carry_out(batch);
        last.took = std::chrono::steady_clock::now() - begin;
        lock.lock();
        last.population = batch.size() + writes.waiting_in(lane);
        lock.unlock();
        finish(writes, batch);
        lock.lock();
    }
}

//! Those whose saves were just committed are likely to save again at once. Without this, the two halves of a
//! fleet would take turns, each waiting while the other is synced. The wait is a fraction of what a commit
//! takes, and is given up for a while when it was in vain.
void engine::impl::gather(std::unique_lock<std::mutex>& lock, std::size_t lane, pace& last)
{
    constexpr auto longest = std::chrono::microseconds(500);
    constexpr unsigned most_skipped = 64;
    const auto before = writes.waiting_in(lane);
    const auto expected = std::min(std::exchange(last.population, 0), options.max_batch_operations());
    if (before >= expected)
        return;
    if (last.to_skip > 0) {
        --last.to_skip;
        return;
    }
    wanted[lane] = expected;
    lane_ready[lane].wait_for(lock, std::min<std::chrono::steady_clock::duration>(last.took / 8, longest),
                              [&] { return closing || writes.waiting_in(lane) >= expected; });
    wanted[lane] = 1;
    const bool paid = writes.waiting_in(lane) >= before + (expected - before + 1) / 2;
    last.last_skip = paid ? 0 : std::min(2 * last.last_skip + 1, most_skipped);
    last.to_skip = last.last_skip;
}

void engine::impl::read_lane() noexcept
{
    std::unique_lock lock(mutex);
    for (;;) {
        read_ready.wait(lock, [&] { return closing || reads.has_work(0); });
        if (closing)
            return;
        const auto batch = reads.take(0, 1);
        lock.unlock();
        carry_out(batch);
        finish(reads, batch);
        lock.lock();
    }
}

//! Afterwards this lane has nothing more to do with the job: another one has carried it out, or it was
//! cancelled. A flush holds nobody up.
void engine::impl::wait_for_other_lanes(std::unique_lock<std::mutex>& lock, const job& reached)
{
    if (reached.what == job::kind::flush)
        return;
    const auto ticket = reached.ticket; // the job itself may be gone when we wake up
    fences.insert(ticket);
    fence_passed.wait(lock, [&] { return !fences.contains(ticket); });
}

void engine::impl::pass_fence(std::uint64_t ticket)
{
    if (fences.erase(ticket) != 0)
        fence_passed.notify_all();
}

void engine::impl::carry_out(const std::vector<job*>& batch) noexcept
{
    if (batch.front()->what == job::kind::save)
        commit(batch);
    else
        batch.front()->run(*backend);
}

void engine::impl::commit(const std::vector<job*>& batch) noexcept
{
    const auto fail_all = [&](std::error_code code, const std::string& details) {
        for (auto* entry : batch) {
            std::string own;
            set_if_possible(own, details);
            entry->fail(code, std::move(own));
        }
    };
    std::vector<save_request> requests;
    try {
        requests.reserve(batch.size());
    } catch (const std::bad_alloc&) {
        return fail_all(std::make_error_code(std::errc::not_enough_memory), {}); // before anything is written
    }
    for (auto* entry : batch)
        requests.push_back(static_cast<save_job*>(entry)->take_request());

    std::vector<save_outcome> outcomes;
    try {
        outcomes = backend->save(requests);
        if (outcomes.size() != batch.size())
            throw error(errc::outcome_unknown, "the store gave " + std::to_string(outcomes.size()) +
                                                   " outcomes for " + std::to_string(batch.size()) +
                                                   " saves; its save() is wrong");
    } catch (...) {
        std::string details;
        const auto code = current_failure(job::kind::save, details);
        return fail_all(code, details);
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
        auto& entry = static_cast<save_job&>(*batch[i]);
        if (outcomes[i].code()) {
            entry.fail(outcomes[i].code(), std::move(outcomes[i]).details().message());
            continue;
        }
        mark_stored(requests[i].checkpoint().conversation(), place);
        entry.succeed(outcomes[i].value(), batch.size());
    }
}

void engine::impl::finish(job_queue& queue, const std::vector<job*>& batch) noexcept
{
    {
        const std::lock_guard lock(mutex);
        std::size_t bytes = 0;
        for (const auto* entry : batch)
            bytes += entry->bytes;
        queue.release(batch.size(), bytes);
        pass_fence(batch.front()->ticket);
        wake_lanes();
    }
    for (auto* entry : batch)
        entry->complete();
}

void engine::impl::wake_lanes()
{
    for (std::size_t lane = 0; lane < lane_ready.size(); ++lane)
        if (writes.has_work(lane) && writes.waiting_in(lane) >= wanted[lane])
            lane_ready[lane].notify_one();
    if (reads.has_work(0))
        read_ready.notify_one();
}

void engine::impl::close() noexcept
{
    std::vector<job*> unfinished;
    {
        const std::lock_guard lock(mutex);
        closing = true;
        unfinished = writes.remove_all();
        const auto unfinished_reads = reads.remove_all();
        unfinished.insert(unfinished.end(), unfinished_reads.begin(), unfinished_reads.end());
        for (const auto* entry : unfinished)
            pass_fence(entry->ticket);
        for (auto& ready : lane_ready)
            ready.notify_all();
        read_ready.notify_all();
    }
    for (auto* entry : unfinished) {
        entry->abort();
        entry->complete();
    }
    for (auto& thread : threads)
        thread.join();
    threads.clear();
    backend.reset(); // a deferred operation may keep this object, but no database open
}

// The interface

engine::engine(std::shared_ptr<store> backend, const async_options& options)
{
    if (backend == nullptr)
        throw error(errc::invalid_argument, "an async_store needs a store; the pointer is null");
    options.validate();
    const auto lanes = std::max<std::size_t>(1, backend->write_lanes());
    impl_ = std::make_unique<impl>(std::move(backend), options, lanes);
}

engine::~engine()
{
    close();
}

const std::shared_ptr<store>& engine::backend() const noexcept
{
    return impl_->backend;
}

queue_figures engine::queues() const
{
    const std::lock_guard lock(impl_->mutex);
    return {impl_->writes.figures(), impl_->reads.figures()};
}

std::uint64_t engine::next_ticket() noexcept
{
    return ++impl_->last_ticket;
}

void engine::submit(job& submitted) noexcept
{
    std::error_code refusal;
    std::string details;
    submitted.place = impl_->place;
    try {
        if (submitted.what == job::kind::save) {
            const auto& wanted = static_cast<save_job&>(submitted).request().checkpoint();
            validate_sizes(wanted, impl_->bounds);
            submitted.bytes =
                unstored_bytes(wanted.conversation(), impl_->place) + wanted.bytes_besides_conversation();
        }
        const std::lock_guard lock(impl_->mutex);
        auto& queue = submitted.what == job::kind::read ? impl_->reads : impl_->writes;
        if (submitted.what == job::kind::save)
            static_cast<save_job&>(submitted).started(queue.figures().queued_operations);
        if (impl_->closing) {
            refusal = errc::closed;
            details = "the async_store was destroyed before the operation was started";
        } else if (queue.push(submitted) == job_queue::admission::refused) {
            refusal = errc::overloaded;
            details = describe(queue.figures());
        } else
            impl_->wake_lanes();
    } catch (...) {
        refusal = current_failure(job::kind::read, details); // nothing was queued
    }
    if (!refusal)
        return; // the job may be gone by now
    submitted.fail(refusal, std::move(details));
    submitted.complete();
}

void engine::cancel(std::uint64_t ticket) noexcept
{
    job* removed = nullptr;
    {
        const std::lock_guard lock(impl_->mutex);
        removed = impl_->writes.remove(ticket);
        if (removed == nullptr)
            removed = impl_->reads.remove(ticket);
        if (removed == nullptr)
            return;
        impl_->pass_fence(ticket);
        impl_->wake_lanes();
    }
    removed->abort();
    removed->complete();
}

void engine::close() noexcept
{
    impl_->close();
}

} // namespace waymark::detail
