//! Group commit, order, failures, flush.
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

#include <atomic>
#include <functional>

using namespace waymark;
using test::gated_fixture;
using test::into;
using test::numbered;

TEST_CASE_METHOD(gated_fixture, "saves that wait at the same time share a commit")
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

TEST_CASE("64 agents on SQLite share commits, 16 saves each at least")
{
    const test::temporary_folder folder;
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<sqlite_store>(folder.path() / "store.db"));
    constexpr int agents = 64, turns = 20;
    double commits = 0;
    std::function<void(int, int)> save = [&](int agent, int turn) {
        if (turn == turns)
            return;
        store.async_save(numbered("agent-" + std::to_string(agent), turn),
                         [&, agent, turn](std::error_code code, save_receipt receipt) {
                             REQUIRE_FALSE(code);
                             commits += 1.0 / static_cast<double>(receipt.batch_size());
                             save(agent, turn + 1); // one in flight for each agent
                         });
    };
    for (int agent = 0; agent < agents; ++agent)
        save(agent, 0);
    io.run();
    CHECK(agents * turns / commits >= 16);
}

TEST_CASE("the size of a batch is bounded")
{
    gated_fixture f(1, async_options().with_max_batch_operations(10));
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
    gated_fixture f(4);
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
        gated_fixture f(8);
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

TEST_CASE_METHOD(gated_fixture, "a save's failure is its own")
{
    backend->close_gate();
    std::vector<std::error_code> codes(5);
    store.async_save(numbered("agent", 0), into(codes[0]));
    backend->wait_for_calls(1);
    diagnostics details;
    store.async_save(numbered("agent", 1), into(codes[1]));
    store.async_save(checkpoint(""), with_diagnostics(details, into(codes[2])));
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

TEST_CASE_METHOD(gated_fixture, "a commit that fails fails its whole batch, and the next one may succeed")
{
    backend->fail_with(error(errc::io, "the disk is on fire"));
    backend->close_gate();
    std::error_code before, first, second;
    diagnostics details;
    store.async_save(numbered("agent", 9), into(before));
    backend->wait_for_calls(1);
    store.async_save(numbered("agent", 0), into(first));
    store.async_save(numbered("agent", 1), with_diagnostics(details, into(second)));
    backend->open_gate();
    io.run();
    CHECK(backend->batch_sizes() == std::vector<std::size_t>{1, 2});
    CHECK(first == errc::io);
    CHECK(second == errc::io);
    CHECK(details.message() == "agent 'agent': the disk is on fire"); // which the store did not say
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
    store.async_load_latest("a", with_diagnostics(details, into(loaded)));
    store.async_count(query("a"), into(counted));
    store.async_stats(into(statistics));
    io.run();
    // Only the store could say whether a write was committed before it failed in this way.
    CHECK(saved == errc::outcome_unknown);
    CHECK(thrown == errc::outcome_unknown);
    CHECK(erased == errc::outcome_unknown);
    CHECK(loaded == errc::io);
    CHECK(details.message() == "agent 'a': surprise");
    CHECK(counted == errc::io);
    CHECK(statistics == std::errc::not_enough_memory);
}

TEST_CASE("a flush waits for everything before it")
{
    gated_fixture f(4);
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

TEST_CASE_METHOD(gated_fixture, "reads are not held up by writes")
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
