//! What happens to operations that wait: back-pressure and cancellation.
#include "async/request_queue.hpp"
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "run_coroutine.hpp"

#include <waymark/memory_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/steady_timer.hpp>

#include <thread>

using namespace waymark;
using test::gated_fixture;
using test::into;
using test::numbered;

TEST_CASE_METHOD(gated_fixture, "what is too large for the store takes no place in the queue")
{
    hold_a_save();
    conversation chat;
    chat.push(message::user(std::string(backend->accepted_limits().max_message_bytes() + 1, 'x')));
    std::error_code refused;
    diagnostics details;
    store.async_save(checkpoint("agent", chat), with_diagnostics(details, into(refused)));
    CHECK(store.queues().writes.queued_operations == 1); // the one that is held
    while (refused == std::errc::operation_in_progress)
        io.run_one(); // never inline
    CHECK(refused == errc::invalid_argument);
    CHECK(details.message().find("max_message_bytes") != std::string::npos);
    backend->open_gate();
    io.run();
}

TEST_CASE("queue and waiting room are bounded in operations")
{
    gated_fixture f(1, async_options().with_max_queued_operations(3).with_max_waiting_operations(4));
    f.backend->close_gate();
    std::vector<std::error_code> codes(10);
    f.store.async_save(numbered("agent", 0), into(codes[0]));
    f.backend->wait_for_calls(1);
    for (std::size_t i = 1; i < codes.size(); ++i)
        f.store.async_save(numbered("agent", static_cast<int>(i)), into(codes[i]));
    const auto full = f.store.queues().writes;
    CHECK(full.queued_operations == 3); // what is being written counts: it is not stored yet
    CHECK(full.waiting_operations == 4);
    // Reads have places of their own.
    std::error_code counted;
    f.store.async_count(query("agent"), into(counted));
    while (counted == std::errc::operation_in_progress)
        f.io.run_one();
    CHECK_FALSE(counted);
    f.backend->open_gate();
    f.io.run();
    for (std::size_t i = 0; i < 7; ++i)
        CHECK_FALSE(codes[i]);
    for (std::size_t i = 7; i < 10; ++i)
        CHECK(codes[i] == errc::overloaded);
    // Those that waited kept their order.
    const auto list = f.backend->list(query("agent").oldest_first());
    REQUIRE(list.size() == 7);
    for (std::size_t i = 0; i < 7; ++i)
        CHECK(list[i].iteration() == static_cast<std::int64_t>(i));
    const auto empty = f.store.queues().writes;
    CHECK(empty.queued_operations + empty.waiting_operations + empty.queued_bytes + empty.waiting_bytes == 0);
}

TEST_CASE("queue and waiting room are bounded in bytes, and what is stored does not count")
{
    gated_fixture f(1, async_options().with_max_queued_bytes(10'000).with_max_waiting_bytes(5'000));
    conversation chat;
    for (int i = 0; i < 100; ++i)
        chat.push(message::user(std::string(1'000, 'x')));
    std::error_code alone;
    f.store.async_save(checkpoint("agent", chat), into(alone));
    f.io.run();
    CHECK_FALSE(alone); // larger than the bound, but nothing else was there

    // A conversation that the store's threads have not seen yet, as if read from a file.
    const auto copy = checkpoint::from_bytes(checkpoint("agent", chat).to_bytes());
    const auto copy_id = copy.id();
    f.backend->save(copy);

    f.backend->close_gate();
    std::vector<std::error_code> codes(20);
    f.store.async_save(numbered("agent", 0), into(codes[0]));
    f.backend->wait_for_calls(3);
    // 100 KB of history and a short message each: the history is stored already.
    for (std::size_t i = 1; i < codes.size(); ++i) {
        auto longer = chat;
        longer.push(message::user("new"));
        f.store.async_save(checkpoint("agent", longer), into(codes[i]));
    }
    const auto figures = f.store.queues().writes;
    CHECK(figures.queued_operations == 20);
    CHECK(figures.queued_bytes < 10'000);
    // Nor does what was loaded.
    std::optional<checkpoint> reloaded;
    f.store.async_load("agent", "", copy_id, [&](std::error_code, std::optional<checkpoint> found) {
        reloaded = std::move(found);
    });
    f.io.restart();
    while (!reloaded)
        f.io.run_one();
    const auto before = f.store.queues().writes.queued_bytes;
    std::error_code after_load;
    f.store.async_save(checkpoint("agent", reloaded->conversation()), into(after_load));
    CHECK(f.store.queues().writes.queued_bytes - before < 500);
    // New content does count.
    std::error_code waits, refused;
    diagnostics details;
    conversation other;
    other.push(message::user(std::string(9'000, 'y')));
    f.store.async_save(checkpoint("agent", other), into(waits));
    CHECK(f.store.queues().writes.waiting_operations == 1);
    f.store.async_save(checkpoint("agent", other), with_diagnostics(details, into(refused)));
    f.io.poll();
    CHECK(refused == errc::overloaded);
    CHECK(details.message().find("that wait: 1, with 9") !=
          std::string::npos); // what waits: 1 operation, 9,0xx bytes
    // So do the results of steps.
    std::error_code step_refused;
    std::vector<step_request> steps;
    steps.emplace_back(step("agent", "", "key").with_result(std::string(9'000, 'r')));
    f.store.async_put_steps(steps, into(step_refused));
    f.io.poll();
    CHECK(step_refused == errc::overloaded);
    f.backend->open_gate();
    f.io.run();
    CHECK_FALSE(waits);
    for (const auto& code : codes)
        CHECK_FALSE(code);
}

TEST_CASE("options that let nothing through are refused")
{
    asio::io_context io;
    const auto backend = std::make_shared<memory_store>();
    CHECK_THROWS_AS(async_store(io.get_executor(), nullptr), error);
    for (const auto& bad :
         {async_options().with_max_queued_operations(0), async_options().with_concurrent_reads(0),
          async_options().with_max_batch_operations(0)})
        CHECK_THROWS_AS(async_store(io.get_executor(), backend, bad), error);
}

TEST_CASE_METHOD(gated_fixture, "a queued save can be cancelled and is then not in the store")
{
    for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total}) {
        backend->close_gate();
        const auto before = backend->batch_sizes().size();
        std::error_code running, cancelled, behind;
        asio::cancellation_signal signal;
        store.async_save(numbered("running", 0), into(running));
        while (backend->batch_sizes().size() == before)
            std::this_thread::yield();
        store.async_save(numbered("cancelled", 0),
                         asio::bind_cancellation_slot(signal.slot(), into(cancelled)));
        store.async_save(numbered("behind", 0), into(behind));
        signal.emit(type);
        CHECK(cancelled == std::errc::operation_in_progress); // not inline
        io.restart();
        io.poll();
        CHECK(cancelled == asio::error::operation_aborted); // before the gate opens
        backend->open_gate();
        io.run();
        CHECK_FALSE(running);
        CHECK_FALSE(behind);
        CHECK(backend->count(query("cancelled")) == 0);
        signal.emit(type); // too late, and harmless
    }
}

TEST_CASE("waiting saves, reads, copies and flushes can be cancelled")
{
    gated_fixture f(4, async_options().with_max_queued_operations(5).with_concurrent_reads(1));
    f.backend->close_gate();
    std::vector<std::error_code> kept(7);
    std::vector<std::error_code> gone(4);
    std::vector<asio::cancellation_signal> signals(4);
    for (std::size_t i = 0; i < 4; ++i) // fills the lanes
        f.store.async_save(numbered("agent-" + std::to_string(i * 31), 0), into(kept[i]));
    f.store.async_load_latest("agent-0", into(kept[4])); // holds the reader
    f.backend->wait_for_calls(2);
    f.store.async_copy_agent("agent-0", "x", asio::bind_cancellation_slot(signals[0].slot(), into(gone[0])));
    f.store.async_flush(asio::bind_cancellation_slot(signals[1].slot(), into(gone[1])));
    f.store.async_save(numbered("waits", 0), asio::bind_cancellation_slot(signals[2].slot(), into(gone[2])));
    f.store.async_load_latest("agent-1", asio::bind_cancellation_slot(signals[3].slot(), into(gone[3])));
    f.store.async_save(numbered("waits too", 0), into(kept[5]));
    CHECK(f.store.queues().writes.waiting_operations == 2);
    for (auto& signal : signals)
        signal.emit(asio::cancellation_type::total);
    f.io.poll();
    for (const auto& code : gone)
        CHECK(code == asio::error::operation_aborted);
    f.store.async_flush(into(kept[6]));
    f.backend->open_gate();
    f.io.run();
    for (const auto& code : kept)
        CHECK_FALSE(code);
    CHECK(f.backend->count(query("waits")) == 0);
    CHECK(f.backend->count(query("waits too")) == 1);
    CHECK(f.backend->count(query("x")) == 0);
}

TEST_CASE(
    "a lane that waits for another one at a copy goes on when the copy is cancelled or the store destroyed")
{
    const detail::request_queue lanes(2, {});
    const auto agent_in = [&](std::size_t lane) {
        for (int i = 0;; ++i)
            if (lanes.lane_of("agent-" + std::to_string(i)) == lane)
                return "agent-" + std::to_string(i);
    };
    for (const bool cancel : {true, false}) {
        asio::io_context io;
        const auto backend = std::make_shared<test::gated_store>(2);
        auto store = std::make_unique<async_store>(io.get_executor(), backend);
        backend->close_gate();
        std::error_code held, copied, behind;
        asio::cancellation_signal signal;
        store->async_save(numbered(agent_in(0), 0), into(held)); // holds lane 0 at the gate
        backend->wait_for_calls(1);
        store->async_copy_agent(agent_in(0), agent_in(1),
                                asio::bind_cancellation_slot(signal.slot(), into(copied)));
        store->async_save(numbered(agent_in(1), 0), into(behind)); // lane 1 has it behind the copy
        if (cancel) {
            signal.emit(asio::cancellation_type::terminal);
            backend->wait_for_calls(2); // lane 1 went on to the save behind the copy
            backend->open_gate();
            io.run();
            CHECK_FALSE(behind);
        } else {
            std::jthread opener([&] {
                while (io.poll_one() == 0)
                    std::this_thread::yield();
                backend->open_gate();
            });
            store->async_flush([](std::error_code) {});
            store.reset();
            opener.join();
            io.run();
            CHECK(behind == asio::error::operation_aborted);
        }
        CHECK_FALSE(held);
        CHECK(copied == asio::error::operation_aborted);
    }
}

TEST_CASE_METHOD(gated_fixture, "a coroutine that is cancelled gives up its queued save")
{
    hold_a_save();
    // The coroutine is cancelled while its save waits behind the other one.
    asio::cancellation_signal signal;
    std::error_code seen;
    asio::co_spawn(
        io,
        [](async_store& where) -> asio::awaitable<void> {
            co_await where.async_save(checkpoint("agent").with_id("queued"));
        }(store),
        asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr failure) {
            try {
                if (failure)
                    std::rethrow_exception(failure);
            } catch (const std::system_error& error) {
                seen = error.code();
            }
        }));
    io.poll();
    signal.emit(asio::cancellation_type::terminal);
    io.poll();
    CHECK(seen == asio::error::operation_aborted);
    backend->open_gate();
    io.run();
    CHECK(backend->count(query("agent")) == 1);
}

TEST_CASE_METHOD(gated_fixture, "a save can be raced with a timer")
{
    hold_a_save();
    test::run_coroutine(io, [](async_store& where, test::gated_store& gate) -> asio::awaitable<void> {
        using namespace asio::experimental::awaitable_operators;
        asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::milliseconds(1));
        const auto first =
            co_await (where.async_save(checkpoint("agent").with_id("late"), asio::use_awaitable) ||
                      timer.async_wait(asio::use_awaitable));
        CHECK(first.index() == 1); // the timer; the save was given up
        gate.open_gate();
    }(store, *backend));
    CHECK(backend->count(query("agent")) == 1);
}
