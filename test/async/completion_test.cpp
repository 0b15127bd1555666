//! How a handler is called: once, never inline, where, with whose memory, and what keeps its context alive.
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "tracking_executor.hpp"

#include <waymark/async_store.hpp>
#include <waymark/memory_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>

#include <thread>

using namespace waymark;
using test::gated_fixture;
using test::tracking_executor;

namespace {

//! Memory that is counted, and that must not be touched by the store's threads.
struct arena {
    std::size_t allocated = 0;
    std::size_t in_use = 0;
    std::thread::id owner = std::this_thread::get_id();
    bool foreign = false;
};

template <class T>
class arena_allocator {
public:
    using value_type = T;
    explicit arena_allocator(arena& where) noexcept : arena_(&where) {}
    template <class U>
    arena_allocator(const arena_allocator<U>& other) noexcept : arena_(other.arena_)
    {
    }
    T* allocate(std::size_t count)
    {
        arena_->foreign |= std::this_thread::get_id() != arena_->owner;
        ++arena_->allocated;
        ++arena_->in_use;
        return std::allocator<T>().allocate(count);
    }
    void deallocate(T* memory, std::size_t count) noexcept
    {
        arena_->foreign |= std::this_thread::get_id() != arena_->owner;
        --arena_->in_use;
        std::allocator<T>().deallocate(memory, count);
    }
    friend bool operator==(const arena_allocator& a, const arena_allocator& b) noexcept
    {
        return a.arena_ == b.arena_;
    }
    template <class>
    friend class arena_allocator;

private:
    arena* arena_;
};

//! A handler with an allocator and an executor of its own.
template <class Executor>
class equipped_handler {
public:
    using allocator_type = arena_allocator<void>;
    using executor_type = Executor;

    equipped_handler(arena& memory, Executor executor, std::function<void(std::error_code)> body)
        : memory_(&memory), executor_(std::move(executor)), body_(std::move(body))
    {
    }
    equipped_handler(equipped_handler&&) = default;

    allocator_type get_allocator() const noexcept { return allocator_type(*memory_); }
    executor_type get_executor() const noexcept { return executor_; }

    template <class... Values>
    void operator()(std::error_code code, Values&&...)
    {
        body_(code);
    }

private:
    arena* memory_;
    Executor executor_;
    std::function<void(std::error_code)> body_;
};

} // namespace

TEST_CASE_METHOD(gated_fixture,
                 "a handler runs once, after the initiating function, on its associated executor")
{
    const tracking_executor mine(io.get_executor(), 42);
    int calls = 0;
    const auto note = [&](std::error_code, auto&&...) {
        ++calls;
        CHECK(tracking_executor::current() == 42);
    };
    store.async_save(checkpoint("agent"), asio::bind_executor(mine, note));
    store.async_load_latest("agent", asio::bind_executor(mine, note));
    store.async_erase_agent("agent", asio::bind_executor(mine, note));
    store.async_flush(asio::bind_executor(mine, note));
    CHECK(calls == 0);
    io.run();
    CHECK(calls == 4);
}

TEST_CASE("a handler without an executor runs on the store's")
{
    asio::io_context io;
    async_store store{tracking_executor(io.get_executor(), 7), std::make_shared<memory_store>()};
    int where = 0;
    store.async_save(checkpoint("agent"),
                     [&](std::error_code, save_receipt) { where = tracking_executor::current(); });
    io.run();
    CHECK(where == 7);
}

TEST_CASE("immediate failures are not delivered inline either")
{
    asio::io_context io;
    auto backend = std::make_shared<test::gated_store>();
    backend->close_gate();
    async_store store{
        io.get_executor(), backend,
        async_options().with_max_queued_operations(1).with_max_waiting_operations(1).with_concurrent_reads(
            1)};
    const tracking_executor mine(io.get_executor(), 5);
    store.async_save(checkpoint("agent"), [](std::error_code, save_receipt) {});
    backend->wait_for_calls(1);
    store.async_save(checkpoint("agent"), [](std::error_code, save_receipt) {}); // waits for a place
    std::error_code refused;
    store.async_save(checkpoint("agent"), asio::bind_executor(mine, [&](std::error_code code, save_receipt) {
                         CHECK(tracking_executor::current() == 5);
                         refused = code;
                     }));
    CHECK_FALSE(refused);
    io.poll();
    CHECK(refused == errc::overloaded);
    // Nor when it is started, or cancelled, on the very executor of its handler.
    asio::cancellation_signal signal;
    int calls = 0;
    bool inside = false;
    const auto note = [&](std::error_code, auto&&...) {
        CHECK_FALSE(inside);
        ++calls;
    };
    store.async_load_latest("agent", [](std::error_code, auto&&) {});
    backend->wait_for_calls(2); // the reader is busy
    asio::post(io, [&] {
        inside = true;
        store.async_save(checkpoint("agent"), note); // refused
        store.async_stats(asio::bind_cancellation_slot(signal.slot(), note));
        signal.emit(asio::cancellation_type::total);
        inside = false;
    });
    io.restart();
    io.poll();
    CHECK(calls == 2);
    backend->open_gate();
    io.run();
}

TEST_CASE_METHOD(gated_fixture,
                 "the operation's memory comes from the handler's allocator and is freed before the call")
{
    arena for_save, for_flush;
    int calls = 0;
    const auto note = [&](const arena& memory) {
        return [&](std::error_code code) {
            CHECK_FALSE(code);
            CHECK(memory.in_use == 0);
            ++calls;
        };
    };
    const tracking_executor mine(io.get_executor(), 1);
    store.async_save(checkpoint("agent"), equipped_handler(for_save, mine, note(for_save)));
    store.async_flush(equipped_handler(for_flush, io.get_executor(), note(for_flush)));
    io.run();
    CHECK(calls == 2);
    for (const auto* memory : {&for_save, &for_flush}) {
        CHECK(memory->allocated == 1);
        CHECK(memory->in_use == 0);
        CHECK_FALSE(memory->foreign); // never on a thread of the store
    }
}

TEST_CASE_METHOD(gated_fixture, "an operation keeps the context of its handler running")
{
    asio::io_context other;
    backend->close_gate();
    bool called = false;
    store.async_save(checkpoint("agent"),
                     asio::bind_executor(other, [&](std::error_code, save_receipt) { called = true; }));
    backend->wait_for_calls(1);
    CHECK(io.run() == 0); // nobody asked for the store's own context
    other.poll();
    CHECK_FALSE(other.stopped());
    std::jthread opener([&] { backend->open_gate(); });
    CHECK(other.run() >= 1);
    CHECK(called);
}

TEST_CASE_METHOD(gated_fixture, "a handler that throws ends run() and nothing else")
{
    store.async_save(checkpoint("agent"),
                     [](std::error_code, save_receipt) { throw std::runtime_error("mine"); });
    CHECK_THROWS_WITH(io.run(), "mine");
    int calls = 0;
    store.async_save(checkpoint("agent"), [&](std::error_code code, save_receipt) { calls += code ? 0 : 1; });
    io.restart();
    io.run();
    CHECK(calls == 1);
    CHECK(backend->count(query("agent")) == 2);
}

TEST_CASE_METHOD(gated_fixture, "a handler may start the next operation")
{
    int left = 100;
    std::function<void(std::error_code, save_receipt)> next = [&](std::error_code code, save_receipt) {
        CHECK_FALSE(code);
        if (--left > 0)
            store.async_save(checkpoint("agent"), next);
    };
    store.async_save(checkpoint("agent"), next);
    io.run();
    CHECK(left == 0);
    CHECK(backend->count(query("agent")) == 100);
}

TEST_CASE("handlers of one strand do not overlap")
{
    asio::thread_pool pool(4);
    auto strand = asio::make_strand(pool.get_executor());
    int unguarded = 0; // the thread sanitizer would see a race
    {
        async_store store{pool.get_executor(), std::make_shared<memory_store>()};
        for (int i = 0; i < 200; ++i)
            store.async_save(
                checkpoint("agent"),
                asio::bind_executor(strand, [&](std::error_code, save_receipt) { ++unguarded; }));
        // Destroyed with most of them queued: those handlers run all the same.
    }
    pool.join();
    CHECK(unguarded == 200);
}
