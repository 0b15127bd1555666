#include "../store/thread_name.hpp"
#include "../values/storage_memory.hpp"
#include "request_queue.hpp"

#include <waymark/detail/scheduler.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace waymark::detail {

namespace {

using clock = std::chrono::steady_clock;

//! A lane has memory for a whole batch from the beginning.
constexpr std::size_t most_in_a_batch = 16'384;

std::string describe(const queue_figures::side& full)
{
    return "operations that are queued: " + std::to_string(full.queued_operations) + ", with " +
           std::to_string(full.queued_bytes) +
           " bytes; that wait: " + std::to_string(full.waiting_operations) + ", with " +
           std::to_string(full.waiting_bytes) + " bytes";
}

//! In conversations that the backend itself leaves nothing in.
class queue_mark final : public stored_prefix {
public:
    explicit queue_mark(std::uint64_t store) noexcept : stored_prefix({store, 0}) {}
};

std::size_t at_least_one(std::size_t number, const char* name)
{
    if (number == 0)
        throw error(errc::invalid_argument, std::string("async_options::with_") + name +
                                                "(0) would let nothing through; use at least 1");
    return number;
}

} // namespace

class scheduler::impl : public std::enable_shared_from_this<impl> {
public:
    impl(std::shared_ptr<store> chosen, const scheduler_limits& limits, std::error_code code_of_aborted,
         std::shared_ptr<store_observer> observed_by);
    ~impl() { stored_prefix::release(mark_); }
    impl(const impl&) = delete;
    impl& operator=(const impl&) = delete;

    std::size_t concurrency() const noexcept { return strands_.size(); }
    queue_figures queues() const;
    void submit(const std::shared_ptr<request>& submitted) noexcept;
    void cancel(request& wanted, departure how) noexcept;
    void announce(request& taken) noexcept;
    void retire(const request& ended) noexcept;
    void close() noexcept;
    void note(const request& ended, clock::duration took) const noexcept;

    std::shared_ptr<store> backend; // let go when it is closed
    const std::error_code aborted;
    const std::shared_ptr<store_observer> observer; // null: nobody observes
    std::unique_ptr<work_executor> pool;            // let go when it is closed

private:
    using lock = std::unique_lock<std::mutex>;

    //! Carries out requests one after the other, or batch by batch. It is posted to the pool while there is
    //! something to do, and again after each batch, so that others who share the pool have their turn. There
    //! is one for each lane of writes, and some for reads and upkeep. All members are guarded by the mutex,
    //! except while it carries something out.
    class strand final : public pooled_work {
    public:
        enum class kind : std::size_t { lane, beside, reads, upkeep };
        strand(impl& owner, kind what, std::size_t lane) : owner_(owner), kind_(what), lane_(lane)
        {
            batch_.reserve(what == kind::lane ? owner.batch_operations_ : 1);
        }

        void run() noexcept override;
        void drop() noexcept override;

        //! Whether it is to be posted.
        bool is_wanted() const noexcept { return self_ == nullptr && has_work(); }
        void set_posted(bool posted);
        //! Something has come into the queue.
        void look_up() noexcept;
        //! Ends upkeep that it is carrying out.
        void stop() noexcept
        {
            if (running_ != nullptr)
                running_->stop();
        }

    private:
        bool has_work() const noexcept;
        void take(lock& held) noexcept;
        void gather(lock& held) noexcept;
        void carry_out(lock& held) noexcept;

        impl& owner_;
        const kind kind_;
        const std::size_t lane_;
        std::shared_ptr<impl> self_; // while it is posted or runs: it may outlive the store
        request_batch batch_;        // kept for its memory
        request* running_ = nullptr; // the first of them, while it is being carried out
        // How the last batch went, to guess whether more saves are about to come.
        std::size_t population_ = 0; // those that were in it, and those that waited when it was done
        clock::duration took_{};
        unsigned to_skip_ = 0; // after waits in vain
        unsigned last_skip_ = 0;
        std::size_t awaited_ = 0; // how many it waits for; 0: it does not
        std::condition_variable arrived_;
    };

    void wake(lock& held);
    void wake_without_fail(lock& held) noexcept;
    bool is_woken(lock& held, request& queued, request_list& flushed) noexcept;
    void abort(request_list unended) const noexcept;
    void end(std::shared_ptr<request> ended) const noexcept;
    void end_all(request_list& ended) const noexcept;

    const waymark::limits limits_; // the backend's, as is the identity
    const std::uint64_t identity_;
    const std::size_t batch_operations_;
    const stored_prefix* const mark_; // owns one reference

    mutable std::mutex mutex_; // guards what follows
    request_queue queue_;
    bool closing_ = false;
    std::size_t using_pool_ = 0;          // threads that run a strand or post one
    std::array<std::size_t, 4> posted_{}; // strands of a kind that are about to take something
    std::condition_variable idle_;
    std::deque<strand> strands_; // the lanes first
};

// Strands

bool scheduler::impl::strand::has_work() const noexcept
{
    const auto posted = owner_.posted_[static_cast<std::size_t>(kind_)];
    switch (kind_) {
    case kind::beside:
        return owner_.queue_.beside() > posted;
    case kind::reads:
        return owner_.queue_.reads() > posted;
    case kind::upkeep:
        return owner_.queue_.upkeep() > posted;
    case kind::lane:
        break;
    }
    return owner_.queue_.writes(lane_) != 0;
}

void scheduler::impl::strand::set_posted(bool posted)
{
    if (posted) {
        self_ = owner_.shared_from_this();
        ++owner_.posted_[static_cast<std::size_t>(kind_)];
    } else {
        self_.reset();
        --owner_.posted_[static_cast<std::size_t>(kind_)];
    }
}

void scheduler::impl::strand::run() noexcept
{
    const auto owner = self_; // it may be all that is left of the scheduler
    lock held(owner->mutex_);
    thread_local bool is_named = false;
    if (!is_named && owner->pool != nullptr && owner->pool->is_private()) { // null: the store is closed
        name_this_thread("waymark-work");
        is_named = true;
    }
    ++owner->using_pool_;
    --owner->posted_[static_cast<std::size_t>(kind_)];
    for (bool is_posted = false; !is_posted;) {
        if (!owner->closing_)
            carry_out(held);
        if (owner->closing_ || !has_work()) {
            self_.reset();
            break;
        }
        ++owner->posted_[static_cast<std::size_t>(kind_)];
        held.unlock(); // whoever runs it wants that at once
        try {
            owner->pool->post(*this);
            is_posted = true;             // and no longer ours
        } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): then others have no turn between
        }
        held.lock();
        if (!is_posted)
            --owner->posted_[static_cast<std::size_t>(kind_)];
    }
    if (--owner->using_pool_ == 0)
        owner->idle_.notify_all();
}

//! The pool was stopped or destroyed under the store. Nothing will be carried out any more.
void scheduler::impl::strand::drop() noexcept
{
    std::shared_ptr<impl> owner;
    request_list unended;
    {
        const lock held(owner_.mutex_);
        owner = std::move(self_);
        --owner->posted_[static_cast<std::size_t>(kind_)];
        if (!std::exchange(owner->closing_, true))
            unended = owner->queue_.remove_all();
    }
    owner->abort(std::move(unended));
}

void scheduler::impl::strand::take(lock& held) noexcept
{
    switch (kind_) {
    case kind::lane:
        gather(held);
        if (!owner_.closing_)
            owner_.queue_.take(lane_, batch_);
        return;
    case kind::beside:
        if (owner_.queue_.beside() != 0)
            owner_.queue_.take_beside(batch_);
        return;
    case kind::reads:
        if (owner_.queue_.reads() != 0)
            owner_.queue_.take_read(batch_);
        return;
    case kind::upkeep:
        if (owner_.queue_.upkeep() != 0)
            owner_.queue_.take_upkeep(batch_);
        return;
    }
}

void scheduler::impl::strand::carry_out(lock& held) noexcept
{
    take(held);
    if (owner_.queue_.beside() != 0) // a lane has reached something that is done beside it
        owner_.wake_without_fail(held);
    if (batch_.empty())
        return;
    running_ = batch_.front().get();
    held.unlock();
    const auto begin = clock::now();
    batch_.front()->run(request_target(*owner_.backend, *owner_.mark_, owner_.aborted), batch_);
    took_ = clock::now() - begin;
    request_list flushed;
    held.lock();
    running_ = nullptr;
    if (kind_ == kind::lane)
        population_ = batch_.size() + owner_.queue_.writes(lane_);
    owner_.queue_.release(batch_, flushed);
    owner_.wake_without_fail(held);
    held.unlock();
    if (owner_.observer && kind_ == kind::lane)
        owner_.observer->batch_ended(batch_.size(), took_);
    for (auto& each : batch_)
        owner_.end(std::move(each));
    batch_.clear();
    owner_.end_all(flushed);
    held.lock();
}

//! Those whose saves were just committed are likely to save again at once. Without this, the two halves of a
//! fleet would take turns, each waiting while the other is synced. The wait is a fraction of what a commit
//! takes, and is given up for a while when it was in vain. On a pool that others use, nobody waits.
void scheduler::impl::strand::gather(lock& held) noexcept
{
    constexpr auto longest = std::chrono::microseconds(500);
    constexpr unsigned most_skipped = 64;
    const auto before = owner_.queue_.writes(lane_);
    const auto expected = std::min(std::exchange(population_, 0), owner_.batch_operations_);
    if (before >= expected || !owner_.pool->is_private())
        return;
    if (to_skip_ > 0) {
        --to_skip_;
        return;
    }
    awaited_ = expected;
    arrived_.wait_for(held, std::min<clock::duration>(took_ / 8, longest),
                      [&] { return owner_.closing_ || owner_.queue_.writes(lane_) >= expected; });
    awaited_ = 0;
    const bool paid = owner_.queue_.writes(lane_) >= before + (expected - before + 1) / 2;
    last_skip_ = paid ? 0 : std::min(2 * last_skip_ + 1, most_skipped);
    to_skip_ = last_skip_;
}

void scheduler::impl::strand::look_up() noexcept
{
    if (awaited_ != 0 && (owner_.closing_ || owner_.queue_.writes(lane_) >= awaited_))
        arrived_.notify_one();
}

// Waking them

//! Posts the strands that have something to do. The mutex is free meanwhile. @throws std::bad_alloc
void scheduler::impl::wake(lock& held)
{
    ++using_pool_;
    const auto done = [&] {
        if (--using_pool_ == 0)
            idle_.notify_all();
    };
    for (auto& each : strands_) {
        each.look_up();
        if (closing_ || !each.is_wanted())
            continue;
        each.set_posted(true);
        held.unlock();
        try {
            pool->post(each);
            held.lock();
        } catch (...) {
            held.lock();
            each.set_posted(false);
            done();
            throw;
        }
    }
    done();
}

void scheduler::impl::wake_without_fail(lock& held) noexcept
{
    for (;;) {
        try {
            return wake(held);
        } catch (const std::bad_alloc&) { // what nobody carries out would never end
            held.unlock();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            held.lock();
        }
    }
}

// Requests

scheduler::impl::impl(std::shared_ptr<store> chosen, const scheduler_limits& limits,
                      std::error_code code_of_aborted, std::shared_ptr<store_observer> observed_by)
    : backend(std::move(chosen)),
      aborted(code_of_aborted),
      observer(std::move(observed_by)),
      limits_(backend->accepted_limits()),
      identity_(backend->identity()),
      batch_operations_(limits.batch_operations),
      mark_(new queue_mark(identity_)),
      queue_(std::max<std::size_t>(1, backend->write_lanes()), limits)
{
    for (std::size_t lane = 0; lane < std::max<std::size_t>(1, backend->write_lanes()); ++lane)
        strands_.emplace_back(*this, strand::kind::lane, lane);
    for (std::size_t i = 0; i < limits.concurrent_reads; ++i)
        strands_.emplace_back(*this, strand::kind::reads, 0);
    for (std::size_t i = 0; i < limits.concurrent_beside; ++i)
        strands_.emplace_back(*this, strand::kind::beside, 0);
    strands_.emplace_back(*this, strand::kind::upkeep, 0);
}

queue_figures scheduler::impl::queues() const
{
    const lock held(mutex_);
    return queue_.figures();
}

void scheduler::impl::submit(const std::shared_ptr<request>& submitted) noexcept
{
    request_list flushed;
    try {
        submitted->measure(limits_, identity_);
        lock held(mutex_);
        const auto full = queue_.figures_for(*submitted);
        submitted->started(full.queued_operations);
        if (observer && !submitted->is_read())
            observer->write_started(full.queued_operations);
        if (closing_)
            submitted->fail(errc::closed, "the async_store was destroyed before the operation could begin");
        else {
            const auto how = queue_.push(submitted);
            if (how == request_queue::admission::refused)
                submitted->fail(errc::overloaded,
                                submitted->scheduled() == request::schedule::flush
                                    ? std::to_string(request_queue::most_flushes) + " flushes wait already"
                                    : describe(full));
            else if (how != request_queue::admission::done && is_woken(held, *submitted, flushed))
                return; // it may have ended by now
        }
    } catch (...) {
        submitted->refuse_with_current_exception(); // nothing was queued
    }
    end(submitted);
    end_all(flushed);
}

//! Wakes whoever carries it out. If there is no memory for that, takes it back and returns false.
bool scheduler::impl::is_woken(lock& held, request& queued, request_list& flushed) noexcept
{
    try {
        wake(held);
        return true;
    } catch (const std::bad_alloc&) {
        if (queue_.remove(queued, flushed) == nullptr)
            return true; // another thread has begun it
        queued.refuse_with_current_exception();
        return false;
    }
}

void scheduler::impl::cancel(request& wanted, departure how) noexcept
{
    request_list unended, flushed;
    {
        lock held(mutex_);
        if (auto removed = queue_.remove(wanted, flushed)) {
            unended.push_back(std::move(removed));
            wake_without_fail(held);
        }
    }
    if (unended.empty() && how == departure::leaves) {
        wanted.stop();
        const bool writes = !wanted.is_read() && wanted.scheduled() != request::schedule::flush;
        wanted.let_waiter_go(writes ? make_error_code(errc::outcome_unknown) : aborted);
    }
    abort(std::move(unended));
    end_all(flushed);
}

void scheduler::impl::announce(request& taken) noexcept
{
    const lock held(mutex_);
    queue_.announce(taken);
}

void scheduler::impl::retire(const request& ended) noexcept
{
    request_list flushed;
    {
        const lock held(mutex_);
        queue_.retire(ended, flushed);
    }
    end_all(flushed);
}

void scheduler::impl::abort(request_list unended) const noexcept
{
    while (!unended.empty()) {
        auto each = unended.pop_front();
        each->abort(aborted);
        end(std::move(each));
    }
}

//! Everything that was submitted ends here.
void scheduler::impl::end(std::shared_ptr<request> ended) const noexcept
{
    const auto took = observer ? clock::now() - ended->start() : clock::duration();
    note(*ended, took);
    request::end(std::move(ended));
}

void scheduler::impl::note(const request& ended, clock::duration took) const noexcept
{
    if (observer == nullptr)
        return;
    if (ended.code() == aborted)
        return observer->aborted(ended.what());
    observer->wrote(ended.bytes_written());
    observer->ended(ended.what(), ended.agent_id(), took, ended.code(), ended.details());
}

void scheduler::impl::end_all(request_list& ended) const noexcept
{
    while (!ended.empty())
        end(ended.pop_front());
}

void scheduler::impl::close() noexcept
{
    request_list unended;
    {
        const lock held(mutex_);
        if (!std::exchange(closing_, true))
            unended = queue_.remove_all();
        for (auto& each : strands_) {
            each.look_up();
            each.stop();
        }
    }
    abort(std::move(unended));
    std::unique_ptr<work_executor> done;
    {
        lock held(mutex_);
        idle_.wait(held, [&] { return using_pool_ == 0; });
        done = std::move(pool);
        backend.reset(); // a deferred operation may keep this object, but no database open
    }
}

// The interface

scheduler::scheduler(std::shared_ptr<store> backend, const scheduler_limits& limits, std::error_code aborted,
                     std::shared_ptr<store_observer> observer)
{
    if (backend == nullptr)
        throw error(errc::invalid_argument, "an async_store needs a store; the pointer is null");
    at_least_one(limits.queued_operations, "max_queued_operations");
    at_least_one(limits.batch_operations, "max_batch_operations");
    at_least_one(limits.concurrent_reads, "concurrent_reads");
    auto bounded = limits;
    bounded.batch_operations = std::min(limits.batch_operations, most_in_a_batch);
    impl_ = std::make_shared<impl>(std::move(backend), bounded, aborted, std::move(observer));
}

scheduler::~scheduler()
{
    close();
}

std::size_t scheduler::concurrency() const noexcept
{
    return impl_->concurrency();
}

void scheduler::run_on(std::unique_ptr<work_executor> pool) noexcept
{
    impl_->pool = std::move(pool);
}

const std::shared_ptr<store>& scheduler::backend() const noexcept
{
    return impl_->backend;
}

queue_figures scheduler::queues() const
{
    return impl_->queues();
}

std::error_code scheduler::aborted() const noexcept
{
    return impl_->aborted;
}

void scheduler::submit(const std::shared_ptr<request>& submitted) noexcept
{
    impl_->submit(submitted);
}

void scheduler::cancel(request& wanted, departure how) noexcept
{
    impl_->cancel(wanted, how);
}

void scheduler::announce(request& taken) noexcept
{
    impl_->announce(taken);
}

void scheduler::retire(const request& ended) noexcept
{
    impl_->retire(ended);
}

void scheduler::note_unsubmitted(const request& ended) const noexcept
{
    impl_->note(ended, {});
}

const std::shared_ptr<store_observer>& scheduler::observer() const noexcept
{
    return impl_->observer;
}

void scheduler::close() noexcept
{
    impl_->close();
}

void sweeper::sweep(const std::string& agent_id) const noexcept
{
    const auto alive = scheduler_.lock();
    if (alive == nullptr)
        return;
    try {
        auto sweep = [agent_id](store& in, const upkeep_control& control) { in.sweep(agent_id, control); };
        alive->submit(std::make_shared<upkeep_request<decltype(sweep)>>(request::schedule::background,
                                                                        store_operation::sweep, std::string(),
                                                                        upkeep_control(), std::move(sweep)));
    } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): see above
    }
}

} // namespace waymark::detail
