//! What may end before what.
#include "asio_names.hpp"
#include "catch.hpp"
#include "gated_fixture.hpp"

#include <waymark/memory_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <latch>
#include <thread>

using namespace waymark;
using test::into;

TEST_CASE("destruction finishes what is being written and aborts what waits, at every phase")
{
    asio::io_context io;
    auto backend = std::make_shared<test::gated_store>(2);
    std::error_code running, queued, waiting, reading, queued_read, flushing, copying;
    std::jthread opener; // lets the destructor go on
    {
        async_store store{io.get_executor(), backend,
                          async_options().with_max_queued_operations(3).with_concurrent_reads(1)};
        backend->close_gate();
        store.async_save(checkpoint("agent").with_id("running"), into(running));
        backend->wait_for_calls(1);
        store.async_save(checkpoint("agent").with_id("queued"), into(queued));
        store.async_copy_agent("agent", "other lane?", into(copying));
        store.async_flush(into(flushing));
        store.async_save(checkpoint("agent").with_id("waiting"), into(waiting));
        store.async_load_latest("agent", into(reading));
        backend->wait_for_calls(2);
        store.async_load_latest("agent", into(queued_read));
        CHECK(store.queues().writes.waiting_operations == 1);
        opener = std::jthread([&] {
            while (io.poll_one() == 0) // the first abortion is delivered: the destructor is at work
                std::this_thread::yield();
            backend->open_gate();
        });
    }
    opener.join();
    io.run();
    CHECK_FALSE(running);
    CHECK_FALSE(reading);
    for (const auto& code : {queued, waiting, queued_read, flushing, copying})
        CHECK(code == asio::error::operation_aborted);
    CHECK(backend->load("agent", "", "running"));
    CHECK(backend->count(query::all_agents()) == 1);
    CHECK(backend.use_count() == 1); // nothing holds the backend any more
}

TEST_CASE("a store may be destroyed in a handler")
{
    asio::io_context io;
    auto store = std::make_unique<async_store>(io.get_executor(), std::make_shared<memory_store>());
    int calls = 0;
    for (int i = 0; i < 20; ++i)
        store->async_save(checkpoint("agent"), [&](std::error_code, save_receipt) {
            ++calls;
            store.reset();
        });
    io.run();
    CHECK(calls == 20);
}

TEST_CASE("the store's own context may end first")
{
    asio::io_context callers;
    auto own = std::make_unique<asio::io_context>();
    auto backend = std::make_shared<test::gated_store>();
    async_store store{own->get_executor(), backend};
    backend->close_gate();
    std::error_code first, second;
    store.async_save(checkpoint("agent"), asio::bind_executor(callers, into(first)));
    backend->wait_for_calls(1);
    store.async_save(checkpoint("agent"), asio::bind_executor(callers, into(second)));
    own.reset();
    backend->open_gate();
    callers.run();
    CHECK_FALSE(first);
    CHECK_FALSE(second);
}

TEST_CASE("a context may be destroyed with completions that nobody ran")
{
    auto backend = std::make_shared<memory_store>();
    auto witness = std::make_shared<int>(0);
    auto io = std::make_unique<asio::io_context>();
    asio::io_context other;
    async_store store{other.get_executor(), backend};
    asio::cancellation_signal signal;
    for (int i = 0; i < 10; ++i)
        store.async_save(checkpoint("agent"),
                         asio::bind_executor(*io, [witness](std::error_code, save_receipt) { ++*witness; }));
    store.async_save(checkpoint("agent"),
                     asio::bind_cancellation_slot(
                         signal.slot(),
                         asio::bind_executor(*io, [witness](std::error_code, save_receipt) { ++*witness; })));
    std::error_code flushed;
    store.async_flush(into(flushed)); // all are posted
    other.run();
    CHECK_FALSE(flushed);
    io.reset();
    CHECK(witness.use_count() == 1); // the handlers are gone, unrun
    CHECK(*witness == 0);
    signal.emit(asio::cancellation_type::terminal); // finds nothing
    CHECK(backend->count(query("agent")) == 11);
}

TEST_CASE("a coroutine may be destroyed before it is resumed")
{
    auto backend = std::make_shared<test::gated_store>();
    auto io = std::make_unique<asio::io_context>();
    asio::io_context other;
    async_store store{other.get_executor(), backend};
    backend->close_gate();
    asio::co_spawn(
        *io,
        [](async_store& where) -> asio::awaitable<void> {
            co_await where.async_save(checkpoint("agent"));
        }(store),
        asio::detached);
    io->poll();
    backend->wait_for_calls(1);
    backend->open_gate();
    std::error_code flushed;
    store.async_flush(into(flushed));
    other.run();
    io.reset();
    CHECK(backend->count(query("agent")) == 1);
}

TEST_CASE("the caller's pool may be destroyed right after the last completion")
{
    // Ends when the handler has run, whatever the store's thread is doing at that moment.
    async_store* current = nullptr;
    asio::io_context own;
    async_store store{own.get_executor(), std::make_shared<memory_store>()};
    current = &store;
    std::atomic<int> calls = 0;
    for (int round = 0; round < 1'000; ++round) {
        std::latch done(4);
        asio::thread_pool pool(2);
        const auto finish = [&](std::error_code, auto&&...) {
            ++calls;
            done.count_down();
        };
        const asio::any_io_executor any = pool.get_executor();
        current->async_save(checkpoint("agent").with_id("same"), asio::bind_executor(pool, finish));
        current->async_load_latest("agent", asio::bind_executor(any, finish));
        current->async_save(checkpoint("agent").with_id("same"),
                            asio::bind_executor(asio::make_strand(pool.get_executor()), finish));
        current->async_flush(asio::bind_executor(asio::make_strand(any), finish));
        done.wait();
    }
    CHECK(calls == 4'000);
}

TEST_CASE("the caller's io_context may be destroyed right after the last completion")
{
    asio::io_context own;
    async_store store{own.get_executor(), std::make_shared<memory_store>()};
    int calls = 0;
    for (int round = 0; round < 1'000; ++round) {
        asio::io_context io;
        auto strand = asio::make_strand(io);
        store.async_save(checkpoint("agent").with_id("same"),
                         asio::bind_executor(io, [&](auto, auto) { ++calls; }));
        store.async_save(checkpoint("agent").with_id("same"),
                         asio::bind_executor(strand, [&](std::error_code, save_receipt) {
                             ++calls;
                             io.stop();
                         }));
        io.run();
    }
    CHECK(calls >= 1'000);
}

TEST_CASE("a deferred operation that is started after its store is gone ends with closed")
{
    asio::io_context io;
    const auto backend = std::make_shared<memory_store>();
    const auto make = [&] {
        async_store store{io.get_executor(), backend};
        return store.async_save(checkpoint("agent"), test::deferred);
    };
    auto late = make();
    CHECK(backend.use_count() == 1); // what is left of the store keeps no database open
    std::error_code code;
    std::move(late)(into(code));
    CHECK(code == std::errc::operation_in_progress);
    io.run();
    CHECK(code == errc::closed);
}

TEST_CASE("stores come and go with operations in flight, from several threads")
{
    asio::thread_pool pool(2);
    std::atomic<int> started = 0, ended = 0;
    for (int round = 0; round < 50; ++round) {
        async_store store{pool.get_executor(), std::make_shared<memory_store>(),
                          async_options().with_max_queued_operations(8).with_max_waiting_operations(8)};
        std::vector<std::jthread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
                const auto agent = "agent-" + std::to_string(t);
                for (int i = 0; i < 20; ++i) {
                    started += 2;
                    store.async_save(checkpoint(agent), [&](std::error_code, save_receipt) { ++ended; });
                    store.async_list(query(agent).limit(1), [&](std::error_code, auto&&) { ++ended; });
                }
            });
        threads.clear(); // joined; operations are still on their way
    }
    pool.join();
    CHECK(started == ended);
}
