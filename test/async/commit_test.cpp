//! Group commit, order, back-pressure, cancellation.
#include "async/job_queue.hpp"
#include "catch.hpp"
#include "gated_store.hpp"

#include <waymark/async_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>

#include <thread>

using namespace waymark;

namespace {

struct fixture {
    explicit fixture(std::size_t lanes = 1, const async_options& options = {})
        : backend(std::make_shared<test::gated_store>(lanes)), store(io.get_executor(), backend, options)
    {
    }

    asio::io_context io;
    std::shared_ptr<test::gated_store> backend;
    async_store store;
};

auto into(std::error_code& code)
{
    code = make_error_code(std::errc::operation_in_progress);
    return [&code](std::error_code result, auto&&...) { code = result; };
}

checkpoint numbered(const std::string& agent, int i)
{
    return checkpoint(agent).with_id(std::to_string(i)).with_iteration(i);
}

} // namespace

TEST_CASE_METHOD(fixture, "saves that wait at the same time share a commit")
{
    backend->close_gate();
    int done = 0;
    std::size_t largest_batch = 0;
    const auto note = [&](std::error_code code, save_receipt receipt) {
        CHECK_FALSE(code);
        largest_batch = std::max(largest_batch, receipt.batch_size());
        ++done;
    };
    store.async_save(numbered("agent", 0), note);
    backend->wait_for_calls(1); // one commit is under way; the others gather behind it
    for (int i = 1; i <= 100; ++i)
        store.async_save(numbered("agent-" + std::to_string(i % 10), i), note);
    backend->open_gate();
    io.run();
    CHECK(done == 101);
    CHECK(backend->batch_sizes() == std::vector<std::size_t>{1, 100});
    CHECK(largest_batch == 100);
}

TEST_CASE("the size of a batch is bounded")
{
    fixture f(1, async_options().with_max_batch_operations(10));
    f.backend->close_gate();
    for (int i = 0; i < 25; ++i)
        f.store.async_save(numbered("agent", i), [](std::error_code, save_receipt) {});
    f.backend->wait_for_calls(1);
    f.backend->open_gate();
    f.io.run();
    std::size_t sum = 0;
    for (const auto size : f.backend->batch_sizes()) {
        CHECK(size <= 10);
        sum += size;
    }
    CHECK(sum == 25);
}

TEST_CASE("the order of one agent's writes is kept, with several lanes and operations of all kinds")
{
    fixture f(4);
    f.backend->close_gate();
    constexpr int agents = 12;
    for (int i = 0; i < 20; ++i)
        for (int a = 0; a < agents; ++a)
            f.store.async_save(numbered("agent-" + std::to_string(a), i),
                               [](std::error_code code, save_receipt) { CHECK_FALSE(code); });
    // Behind all saves of its agent, before the next ones.
    std::uint64_t erased = 0, copied = 0;
    f.store.async_erase_agent("agent-0", [&](std::error_code, std::uint64_t count) { erased = count; });
    f.store.async_save(numbered("agent-0", 100), [](std::error_code, save_receipt) {});
    f.store.async_copy_agent("agent-1", "copy", [&](std::error_code code, std::uint64_t count) {
        CHECK_FALSE(code);
        copied = count;
    });
    f.store.async_save(numbered("agent-1", 100), [](std::error_code, save_receipt) {});
    f.store.async_save(numbered("copy", 100), [](std::error_code code, save_receipt) { CHECK_FALSE(code); });
    f.backend->open_gate();
    f.io.run();

    CHECK(erased == 20);
    CHECK(copied == 20);
    CHECK(f.backend->count(query("agent-0")) == 1);
    CHECK(f.backend->count(query("agent-1")) == 21);
    CHECK(f.backend->load_latest("copy")->iteration() == 100);
    CHECK(f.backend->count(query("copy")) == 21);
    for (int a = 1; a < agents; ++a) {
        const auto list = f.backend->list(query("agent-" + std::to_string(a)).oldest_first());
        for (std::size_t i = 0; i < 20; ++i)
            CHECK(list[i].iteration() == static_cast<std::int64_t>(i));
    }
}

TEST_CASE("copies across lanes in both directions do not block each other")
{
    for (int round = 0; round < 20; ++round) {
        fixture f(8);
        std::atomic<int> done = 0;
        for (int i = 0; i < 10; ++i) {
            const auto a = "a" + std::to_string(i), b = "b" + std::to_string(i);
            f.store.async_save(numbered(a, 1), [&](std::error_code, save_receipt) { ++done; });
            f.store.async_save(numbered(b, 1), [&](std::error_code, save_receipt) { ++done; });
            f.store.async_copy_agent(a, b, [&](std::error_code code, std::uint64_t) {
                CHECK(code == errc::conflict);
                ++done;
            });
            f.store.async_copy_agent(b, a, [&](std::error_code code, std::uint64_t) {
                CHECK(code == errc::conflict);
                ++done;
            });
        }
        f.io.run();
        CHECK(done == 40);
    }
}

TEST_CASE_METHOD(fixture, "a save's failure is its own")
{
    backend->close_gate();
    std::vector<std::error_code> codes(5);
    store.async_save(numbered("agent", 0), into(codes[0]));
    backend->wait_for_calls(1);
    diagnostics details;
    store.async_save(numbered("agent", 1), into(codes[1]));
    store.async_save(checkpoint(""), details, into(codes[2]));
    store.async_save(numbered("agent", 2), save_options().expect_head("ghost"), into(codes[3]));
    store.async_save(numbered("agent", 3), into(codes[4]));
    backend->open_gate();
    io.run();
    CHECK(backend->batch_sizes() == std::vector<std::size_t>{1, 4});
    CHECK_FALSE(codes[1]);
    CHECK(codes[2] == errc::invalid_argument);
    CHECK(details.message().find("agent id") != std::string::npos);
    CHECK(codes[3] == errc::conflict);
    CHECK_FALSE(codes[4]);
    CHECK(backend->count(query("agent")) == 3);
}

TEST_CASE_METHOD(fixture, "a commit that fails fails its whole batch, and the next one may succeed")
{
    backend->fail_with(error(errc::io, "the disk is on fire"));
    backend->close_gate();
    std::error_code before, first, second;
    diagnostics details;
    store.async_save(numbered("agent", 9), into(before));
    backend->wait_for_calls(1);
    store.async_save(numbered("agent", 0), into(first));
    store.async_save(numbered("agent", 1), details, into(second));
    backend->open_gate();
    io.run();
    CHECK(backend->batch_sizes() == std::vector<std::size_t>{1, 2});
    CHECK(first == errc::io);
    CHECK(second == errc::io);
    CHECK(details.message() == "the disk is on fire");
    backend->fail_with(std::nullopt);
    store.async_save(numbered("agent", 2), into(first));
    io.restart();
    io.run();
    CHECK_FALSE(first);
}

TEST_CASE("a backend that throws what it should not is an error, not the end")
{
    class careless final : public test::forwarding_store {
    public:
        std::vector<save_outcome> save(std::span<const save_request> batch) override
        {
            if (batch.front().checkpoint().agent_id() == "throw")
                throw std::bad_alloc();
            return {};
        }
        std::uint64_t erase_agent(std::string_view) override { throw std::runtime_error("half-way"); }
        std::optional<checkpoint> load_latest(std::string_view, std::string_view) override
        {
            throw std::runtime_error("surprise");
        }
        std::uint64_t count(const query&) override { throw 7; }
        store_stats stats() override { throw std::bad_alloc(); }
    };
    asio::io_context io;
    async_store store{io.get_executor(), std::make_shared<careless>()};
    std::error_code saved, thrown, erased, loaded, counted, statistics;
    diagnostics details;
    store.async_save(checkpoint("a"), into(saved));
    store.async_flush([](std::error_code) {}); // a batch of its own for each
    store.async_save(checkpoint("throw"), into(thrown));
    store.async_erase_agent("a", into(erased));
    store.async_load_latest("a", details, into(loaded));
    store.async_count(query("a"), into(counted));
    store.async_stats(into(statistics));
    io.run();
    // Only the store could say whether a write was committed before it failed in this way.
    CHECK(saved == errc::outcome_unknown);
    CHECK(thrown == errc::outcome_unknown);
    CHECK(erased == errc::outcome_unknown);
    CHECK(loaded == errc::io);
    CHECK(details.message() == "surprise");
    CHECK(counted == errc::io);
    CHECK(statistics == std::errc::not_enough_memory);
}

TEST_CASE("queue and waiting room are bounded in operations")
{
    fixture f(1, async_options().with_max_queued_operations(3).with_max_waiting_operations(4));
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
    fixture f(1, async_options().with_max_queued_bytes(10'000).with_max_waiting_bytes(5'000));
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
    f.store.async_save(checkpoint("agent", other), details, into(refused));
    f.io.poll();
    CHECK(refused == errc::overloaded);
    CHECK(details.message().find("1 with 9") != std::string::npos); // what waits: 1 operation, 9,0xx bytes
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
         {async_options().with_max_queued_operations(0), async_options().with_read_threads(0),
          async_options().with_max_batch_operations(0)})
        CHECK_THROWS_AS(async_store(io.get_executor(), backend, bad), error);
}

TEST_CASE_METHOD(fixture, "a queued save can be cancelled and is then not in the store")
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

TEST_CASE_METHOD(fixture, "a save that is being written completes with its real outcome")
{
    backend->close_gate();
    std::error_code code;
    asio::cancellation_signal signal;
    store.async_save(numbered("agent", 0), asio::bind_cancellation_slot(signal.slot(), into(code)));
    backend->wait_for_calls(1);
    signal.emit(asio::cancellation_type::terminal);
    io.poll();
    CHECK(code == std::errc::operation_in_progress);
    backend->open_gate();
    io.run();
    CHECK_FALSE(code);
    CHECK(backend->count(query("agent")) == 1);
}

TEST_CASE("waiting saves, reads, copies and flushes can be cancelled")
{
    fixture f(4, async_options().with_max_queued_operations(6).with_read_threads(1));
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
    const detail::job_queue lanes(2, async_options());
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

TEST_CASE("a flush waits for everything before it")
{
    fixture f(4);
    f.backend->close_gate();
    int saved = 0;
    bool flushed = false;
    for (int i = 0; i < 50; ++i)
        f.store.async_save(numbered("agent-" + std::to_string(i), i),
                           [&](std::error_code, save_receipt) { ++saved; });
    f.store.async_flush([&](std::error_code code) {
        CHECK_FALSE(code);
        CHECK(f.backend->count(query::all_agents()) >= 50);
        flushed = true;
    });
    f.io.poll();
    CHECK_FALSE(flushed);
    f.backend->open_gate();
    f.io.run();
    CHECK(flushed);
    CHECK(saved == 50);
}

TEST_CASE_METHOD(fixture, "reads are not held up by writes")
{
    backend->close_gate();
    std::error_code saved, listed;
    store.async_save(numbered("agent", 0), into(saved));
    backend->wait_for_calls(1);
    store.async_list(query("agent"), into(listed));
    while (listed == std::errc::operation_in_progress)
        io.run_one();
    CHECK_FALSE(listed);
    CHECK(saved == std::errc::operation_in_progress);
    backend->open_gate();
    io.run();
}
