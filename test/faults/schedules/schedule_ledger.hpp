//! The books on the operations of one schedule: what was started, how it ended, and whether it may end so.
#pragma once

#include "tracking_executor.hpp"

#include <waymark/session.hpp>

#include <asio/cancellation_signal.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace waymark::faults::schedules {

//! What a handler throws when told to; caught where its context is run.
struct thrown_by_handler {};
//! What the action of a step throws when told to.
struct failed_action {};

//! What an operation ends with whose action failed as told, and what nobody expects.
const auto action_failed = std::make_error_code(std::errc::interrupted);
const auto unexpected_exception = std::make_error_code(std::errc::state_not_recoverable);

inline std::error_code code_of(const std::exception_ptr& thrown)
{
    try {
        if (thrown)
            std::rethrow_exception(thrown);
        return {};
    } catch (const std::system_error& failure) {
        return failure.code();
    } catch (const failed_action&) {
        return action_failed;
    } catch (...) {
        return unexpected_exception;
    }
}

//! What has been done to the store. Each is noted before it is done, so that what follows finds it noted.
struct circumstances {
    std::atomic<bool> store_gone = false;
    std::atomic<bool> session_gone = false;
    bool contexts_gone = false;
    bool small_queues = false;
    bool starts_in_order = false; // by one thread: what is started first is in the ledger first
    bool faulty = false;          // the backend throws now and then
};

//! One operation.
struct operation {
    std::string what = {};
    int executor = 0; // where its handler has to run; 0: that cannot be told
    bool of_session = false;
    bool is_plain_save = false;                 // of a session, which makes its id
    std::vector<std::error_code> natural = {};  // errors that it may end with although nothing is wrong
    bool must_fail = false;                     // its arguments are bad
    std::optional<checkpoint_key> saves = {};   // what it saves
    std::optional<checkpoint_key> records = {}; // the step that it makes
    bool removable = false;                     // other operations may remove that again
    std::shared_ptr<operation> inside_of = {};  // the coroutine that awaits it

    asio::any_io_executor where = {};
    asio::cancellation_signal signal = {};
    std::atomic<bool> has_signal = false; // it may be emitted
    diagnostics details = {};
    std::function<void()> afterwards = {}; // what the handler does
    std::function<void()> settle = {};     // asks a future how it ended

    std::atomic<bool> cancelled = false;
    std::atomic<bool> left = false; // by a cancellation that does not wait for the outcome
    std::shared_ptr<int> witness = std::make_shared<int>(); // each handler that exists holds it
    int calls = 0;
    std::error_code code = {};
    std::optional<checkpoint_key> saved = {}; // what it says that it saved

    bool was_cancelled() const { return cancelled || (inside_of && inside_of->was_cancelled()); }
    bool was_left() const { return left || (inside_of && inside_of->was_left()); }
};

//! The operation whose initiating function is running on this thread.
inline const operation*& being_started() noexcept
{
    static thread_local const operation* current = nullptr;
    return current;
}

// clang keeps the address of a thread's variable over the suspension of a coroutine, which may go on on
// another thread: what coroutines call must not be inlined.
[[gnu::noinline]] inline bool is_being_started(const operation& asked) noexcept
{
    return being_started() == &asked;
}
//! The number of the executor that this code runs on.
[[gnu::noinline]] inline int executor_here() noexcept
{
    return test::tracking_executor::current();
}

class starting {
public:
    explicit starting(const operation& of) noexcept : before_(std::exchange(being_started(), &of)) {}
    starting(const starting&) = delete;
    starting& operator=(const starting&) = delete;
    ~starting() { being_started() = before_; }

private:
    const operation* before_;
};

//! How many operations ended how, over all schedules.
struct tally {
    std::uint64_t done = 0;
    std::uint64_t aborted = 0;
    std::uint64_t overloaded = 0;
    std::uint64_t failed = 0;
    std::uint64_t unrun = 0;

    std::uint64_t all() const noexcept { return done + aborted + overloaded + failed + unrun; }
};

//! All members may be called from several threads but those for the end.
class operation_ledger {
public:
    circumstances around;

    void start(const std::shared_ptr<operation>& started)
    {
        const std::lock_guard lock(mutex_);
        operations_.push_back(started);
        ++running_;
    }

    //! One with a future, which is asked at the end; nobody waits for its handler.
    void start_future(const std::shared_ptr<operation>& started)
    {
        const std::lock_guard lock(mutex_);
        operations_.push_back(started);
    }

    void violation(const std::string& text)
    {
        const std::lock_guard lock(mutex_);
        violations_.push_back(text);
    }

    //! Called by the handler of an operation, first of all.
    void complete(operation& ended, std::error_code code, std::optional<checkpoint_key> saved)
    {
        if (is_being_started(ended))
            violation(ended.what + " called its handler from within the initiating function");
        const auto where = executor_here();
        if (ended.executor != 0 && where != ended.executor)
            violation(ended.what + " ran on executor " + std::to_string(where) + " instead of " +
                      std::to_string(ended.executor));
        if (!may_end_with(ended, code))
            violation(ended.what + " ended with '" + code.message() + "' (" + code.category().name() +
                      "), which nothing explains; " + ended.details.message());
        const std::lock_guard lock(mutex_);
        if (++ended.calls > 1)
            violations_.push_back(ended.what + " was completed " + std::to_string(ended.calls) + " times");
        ended.code = code;
        ended.saved = std::move(saved);
        if (!ended.settle)
            --running_;
        ended_.notify_all();
    }

    //! The side effect of a step. One that was made must not be made again.
    void acted(const std::string& step_key)
    {
        const std::lock_guard lock(mutex_);
        if (++effects_[step_key] > 1)
            violations_.push_back("the side effect of step " + step_key + " was made twice");
    }

    //! Some operation that can be cancelled, or null.
    std::shared_ptr<operation> pick(std::uint64_t number) const
    {
        const std::lock_guard lock(mutex_);
        if (operations_.empty())
            return nullptr;
        const auto& found = operations_[number % operations_.size()];
        return found->has_signal ? found : nullptr;
    }

    std::size_t started() const
    {
        const std::lock_guard lock(mutex_);
        return operations_.size();
    }
    bool all_ended() const
    {
        const std::lock_guard lock(mutex_);
        return running_ == 0;
    }
    bool wait_for_all(std::chrono::seconds limit)
    {
        std::unique_lock lock(mutex_);
        return ended_.wait_for(lock, limit, [&] { return running_ == 0; });
    }

    //! At the end: has every operation ended as it may, and does the store hold what it was told?
    std::vector<std::string> verdict(store& backend)
    {
        for (const auto& each : operations_) {
            check_end(*each);
            check_save(*each, backend);
            check_step(*each, backend);
        }
        check_order(backend);
        return violations_;
    }

    //! A strand must not outlive its context.
    void release_executors()
    {
        for (const auto& each : operations_)
            each->where = {};
    }

    //! Futures are asked when everything else has ended.
    void settle_futures()
    {
        for (const auto& each : operations_)
            if (each->settle)
                each->settle();
    }

    void add_to(tally& sum) const
    {
        for (const auto& each : operations_)
            ++(each->calls == 0                                  ? sum.unrun
               : !each->code                                     ? sum.done
               : each->code == asio::error::operation_aborted    ? sum.aborted
               : each->code == make_error_code(errc::overloaded) ? sum.overloaded
                                                                 : sum.failed);
    }

private:
    bool may_end_with(const operation& ended, std::error_code code) const
    {
        const bool ended_before = around.store_gone || (ended.of_session && around.session_gone);
        if (!code)
            return !ended.must_fail;
        if (code == asio::error::operation_aborted)
            return ended_before || ended.was_cancelled();
        if (code == errc::outcome_unknown && ended.was_left())
            return true; // the work went on
        if (code == errc::closed)
            return ended_before;
        if (code == errc::overloaded)
            return around.small_queues;
        if (std::find(ended.natural.begin(), ended.natural.end(), code) != ended.natural.end())
            return true;
        return around.faulty && is_fault(code);
    }

    static bool is_fault(std::error_code code)
    {
        return code == errc::io || code == errc::busy || code == errc::corrupt ||
               code == errc::outcome_unknown || code == std::make_error_code(std::errc::not_enough_memory);
    }

    void check_end(const operation& ended)
    {
        if (ended.witness.use_count() != 1)
            violations_.push_back(ended.what + " left a handler behind");
        else if (ended.calls == 0 && !around.contexts_gone)
            violations_.push_back(ended.what + " never called its handler");
    }

    void check_save(const operation& ended, store& backend)
    {
        const auto is_there = [&](const checkpoint_key& key) {
            return backend.load(key.agent_id(), key.scope(), key.id()).has_value();
        };
        if (ended.calls == 0)
            return;
        if (!ended.code && ended.saved && !ended.removable && !is_there(*ended.saved))
            violations_.push_back(ended.what + " was acknowledged, but is not in the store");
        // Whoever has left finds it whole, or not at all: what is there is loaded.
        if (ended.code && ended.saves && is_there(*ended.saves) && ended.code != errc::outcome_unknown)
            violations_.push_back(ended.what + " ended with '" + ended.code.message() +
                                  "', but is in the store");
    }

    //! Saves of a session are stored in the order in which they were asked for, whoever has left meanwhile.
    void check_order(store& backend)
    {
        if (!around.starts_in_order)
            return;
        std::int64_t last = 0;
        for (const auto& each : operations_) {
            if (!each->of_session || !each->is_plain_save || each->code || !each->saved)
                continue;
            const auto& key = *each->saved;
            const auto found = backend.load(key.agent_id(), key.scope(), key.id());
            if (!found)
                continue; // removed
            if (found->sequence() <= last)
                violations_.push_back(each->what + " was stored before what was asked for earlier");
            last = found->sequence();
        }
    }

    void check_step(const operation& ended, store& backend)
    {
        if (ended.calls == 0 || ended.code || !ended.records || ended.removable)
            return;
        const auto found = backend.load_steps(
            step_query(ended.records->agent_id()).scope(ended.records->scope()).key(ended.records->id()));
        if (found.empty() || !found[0].done())
            violations_.push_back(ended.what + " handed out a result that is not recorded");
    }

    mutable std::mutex mutex_;
    std::condition_variable ended_;
    std::vector<std::shared_ptr<operation>> operations_;
    std::size_t running_ = 0;
    std::map<std::string, int> effects_;
    std::vector<std::string> violations_;
};

//! What a value says has been saved.
inline std::optional<checkpoint_key> saved_by(const operation& of, const save_receipt&)
{
    return of.saves;
}
inline std::optional<checkpoint_key> saved_by(const operation&, const std::optional<checkpoint_header>& made)
{
    return made ? std::optional(made->key()) : std::nullopt;
}
inline std::optional<checkpoint_key> saved_by(const operation&, const checkpoint_header& made)
{
    return made.key();
}
inline std::optional<checkpoint_key> saved_by(const operation&, const checkpoint& made)
{
    return made.key();
}
inline std::optional<checkpoint_key> saved_by(const operation&, const checkpoint_key& made)
{
    return made;
}
template <class Other>
std::optional<checkpoint_key> saved_by(const operation&, const Other&)
{
    return std::nullopt;
}

//! A plain handler. It can only be moved, and the ledger knows whether it still exists.
class handler {
public:
    handler(operation_ledger& ledger, std::shared_ptr<operation> of)
        : ledger_(&ledger), operation_(std::move(of)), witness_(operation_->witness)
    {
    }
    handler(handler&&) noexcept = default;

    void operator()(std::error_code code) { end(code, std::nullopt); }
    template <class Value>
    void operator()(std::error_code code, const Value& value)
    {
        end(code, saved_by(*operation_, value));
    }
    void operator()(const std::exception_ptr& thrown) { end(code_of(thrown), std::nullopt); }
    void operator()(const std::exception_ptr& thrown, const boost::json::value&)
    {
        end(code_of(thrown), std::nullopt);
    }

private:
    void end(std::error_code code, std::optional<checkpoint_key> saved)
    {
        const bool inside = being_started() != nullptr; // wrong; and locks are held there
        ledger_->complete(*operation_, code, std::move(saved));
        if (operation_->afterwards && !inside)
            operation_->afterwards();
    }

    operation_ledger* ledger_;
    std::shared_ptr<operation> operation_;
    std::shared_ptr<int> witness_;
};

//! An operation that a coroutine awaits. It counts as started when the coroutine has come to it.
template <class Value>
asio::awaitable<void> awaited(operation_ledger& ledger, std::shared_ptr<operation> of,
                              asio::awaitable<Value> wanted)
{
    const auto witness = of->witness;
    ledger.start(of);
    std::error_code code;
    std::optional<checkpoint_key> saved;
    try {
        if constexpr (std::is_void_v<Value>) {
            co_await std::move(wanted);
        } else {
            const Value value = co_await std::move(wanted);
            saved = saved_by(*of, value);
        }
    } catch (...) {
        code = code_of(std::current_exception());
    }
    ledger.complete(*of, code, std::move(saved));
}

//! For `use_future`: an error becomes a value as well. The thread sanitizer does not see how the library
//! counts who holds an exception, and reports those that go from one thread to another.
struct as_values {
    template <class... Values>
    std::tuple<std::error_code, Values...> operator()(std::error_code code, Values... values) const
    {
        return {code, std::move(values)...};
    }
};

//! Asks a future how its operation ended, when everything else has.
template <class... Values>
void settle_future(operation_ledger& ledger, operation& of,
                   std::future<std::tuple<std::error_code, Values...>>& from)
{
    if (from.wait_for(std::chrono::seconds(30)) != std::future_status::ready)
        return; // it counts as lost
    try {
        const auto values = from.get();
        std::optional<checkpoint_key> saved;
        if constexpr (sizeof...(Values) == 1)
            saved = saved_by(of, std::get<1>(values));
        ledger.complete(of, std::get<0>(values), std::move(saved));
    } catch (const std::future_error&) { // NOLINT(bugprone-empty-catch): its handler was destroyed
    }
}

} // namespace waymark::faults::schedules
