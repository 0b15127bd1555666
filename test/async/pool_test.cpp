//! Where the blocking work is done: on a pool of the store's own, or on one that others use, too.
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "run_coroutine.hpp"

#include <waymark/memory_store.hpp>

#include <asio/bind_executor.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>

#include <atomic>
#include <filesystem>
#include <future>
#include <mutex>

using namespace waymark;
using test::into;
using test::numbered;

namespace {

std::size_t threads_of_process()
{
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/task"))
        ++count;
    return count;
}

//! Agents in all lanes, each with saves, steps, reads, upkeep and a copy in the order in which they are
//! started.
void use(async_store& store, std::atomic<int>& ended)
{
    const auto note = [&ended](std::error_code code, auto&&...) { ended += code ? 0 : 1; };
    for (int round = 0; round < 20; ++round)
        for (int a = 0; a < 8; ++a) {
            const auto agent = "agent-" + std::to_string(a);
            store.async_save(numbered(agent, round), note);
            store.async_put_steps({step_request(step(agent, "", std::to_string(round)))}, note);
            store.async_load_latest(agent, note);
            store.async_pin(agent, "", std::to_string(round), true, note);
            store.async_prune(agent, retention().keep_last(1000), note);
            if (round == 19)
                store.async_copy_agent(agent, "copy-" + std::to_string(a), note);
        }
    store.async_verify(note);
    store.async_flush(note);
}
constexpr int operations = 8 * 20 * 5 + 8 + 2;

void check_contents(store& backend)
{
    for (int a = 0; a < 8; ++a)
        for (const char* kind : {"agent-", "copy-"}) {
            const auto list = backend.list(query(kind + std::to_string(a)).oldest_first());
            REQUIRE(list.size() == 20);
            for (int i = 0; i < 20; ++i)
                CHECK(list[static_cast<std::size_t>(i)].iteration() == i);
        }
}

} // namespace

TEST_CASE("a pool of one thread serves two stores and other blocking work, and nothing waits for another")
{
    asio::io_context io;
    asio::thread_pool pool(1);
    const auto first = std::make_shared<test::gated_store>(4),
               second = std::make_shared<test::gated_store>(2);
    std::atomic<int> ended = 0, others = 0;
    {
        const auto shared = async_options().with_pool(pool.get_executor());
        async_store one{io.get_executor(), first, shared}, two{io.get_executor(), second, shared};
        use(one, ended);
        for (int i = 0; i < 100; ++i)
            asio::post(pool, [&] { ++others; });
        use(two, ended);
        io.run();
        CHECK(ended == 2 * operations);
        // Also with their handlers on that very thread.
        std::promise<void> done;
        one.async_save(numbered("agent-0", 20), asio::bind_executor(pool, [&](std::error_code, save_receipt) {
                           two.async_flush(
                               asio::bind_executor(pool, [&](std::error_code) { done.set_value(); }));
                       }));
        done.get_future().get();
    }
    pool.join();
    CHECK(others == 100);
    first->erase("agent-0", "", "20");
    check_contents(*first);
    check_contents(*second);
}

TEST_CASE("a store on a pool of others has no thread of its own")
{
    asio::io_context io;
    asio::thread_pool pool(1);
    const auto before = threads_of_process();
    const async_store shared{io.get_executor(), std::make_shared<memory_store>(),
                             async_options().with_pool(pool.get_executor())};
    CHECK(threads_of_process() == before);
    auto own = std::make_unique<async_store>(io.get_executor(), std::make_shared<memory_store>(),
                                             async_options().with_concurrent_reads(3));
    CHECK(threads_of_process() > before + 3);
    own.reset();
    CHECK(threads_of_process() == before);
}

TEST_CASE("a store may be destroyed on the only thread of its pool, with work that the pool has yet to begin")
{
    for (int round = 0; round < 50; ++round) {
        asio::io_context io;
        asio::thread_pool pool(1);
        auto store = std::make_unique<async_store>(io.get_executor(), std::make_shared<test::gated_store>(2),
                                                   async_options().with_pool(pool.get_executor()));
        std::atomic<int> ended = 0;
        asio::post(pool, [&] {
            for (int i = 0; i < 10; ++i)
                store->async_save(numbered("agent-" + std::to_string(i), 0),
                                  [&](std::error_code code, save_receipt) {
                                      CHECK(code == asio::error::operation_aborted);
                                      ++ended;
                                  });
            store.reset(); // waits for running work only, and there is none
        });
        pool.join();
        io.run();
        CHECK(ended == 10);
    }
}

TEST_CASE("a pool that is stopped under its store ends what waits")
{
    asio::io_context io;
    auto pool = std::make_unique<asio::thread_pool>(1);
    const auto backend = std::make_shared<test::gated_store>();
    async_store store{io.get_executor(), backend, async_options().with_pool(pool->get_executor())};
    std::promise<void> go_on;
    asio::post(*pool, [done = go_on.get_future().share()] { done.get(); }); // the only thread is busy
    std::error_code waiting, late;
    store.async_save(numbered("agent", 0), into(waiting));
    pool->stop();
    go_on.set_value();
    pool.reset();
    store.async_save(numbered("agent", 1), into(late));
    io.run();
    CHECK(waiting == asio::error::operation_aborted);
    CHECK(late == errc::closed);
    CHECK(backend->count(query("agent")) == 0);
}

TEST_CASE("an empty executor is refused by name")
{
    try {
        async_store store{asio::any_io_executor(), std::make_shared<memory_store>()};
        FAIL("accepted");
    } catch (const error& refusal) {
        CHECK(refusal.code() == errc::invalid_argument);
        CHECK(refusal.details().message().find("executor") != std::string::npos);
    }
}

namespace {

//! Notes what it was asked, in order.
class noting_store final : public test::gated_store {
public:
    noting_store() : gated_store(4) {}

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        for (const auto& each : batch)
            note("save " + each.checkpoint().agent_id());
        return gated_store::save(batch);
    }
    prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                       const upkeep_control& control) override
    {
        note("prune " + std::string(agent));
        return gated_store::prune(agent, policies, dry, control);
    }
    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control) override
    {
        note("copy " + std::string(from));
        return gated_store::copy_agent(from, to, control);
    }
    std::uint64_t erase_agent(std::string_view agent) override
    {
        note("erase " + std::string(agent));
        return gated_store::erase_agent(agent);
    }

    std::vector<std::string> take_notes()
    {
        const std::lock_guard lock(mutex_);
        return std::exchange(notes_, {});
    }

private:
    void note(std::string what)
    {
        const std::lock_guard lock(mutex_);
        notes_.push_back(std::move(what));
    }

    std::mutex mutex_;
    std::vector<std::string> notes_;
};

} // namespace

TEST_CASE("writes of an agent keep their order, whatever their kind")
{
    asio::io_context io;
    const auto backend = std::make_shared<noting_store>();
    async_store store{io.get_executor(), backend};
    const auto ignore = [](std::error_code code, auto&&...) { CHECK_FALSE(code); };
    for (int round = 0; round < 100; ++round) {
        store.async_save(numbered("a", round), ignore);
        store.async_prune("a", retention().keep_last(1), ignore);
        store.async_save(numbered("a", round + 1'000), ignore);
        store.async_copy_agent("a", "b", ignore);
        store.async_erase_agent("a", ignore);
        store.async_save(numbered("b", 9'999), ignore);
        io.run();
        io.restart();
        const auto order = backend->take_notes();
        REQUIRE(order.size() == 6);
        const std::vector<std::string> first(order.begin(), order.begin() + 4);
        CHECK(first == std::vector<std::string>{"save a", "prune a", "save a", "copy a"});
        CHECK(backend->count(query("a")) == 0);
        CHECK(backend->count(query("b")) == 3);
        backend->erase_agent("b");
        backend->take_notes();
    }
}

TEST_CASE("upkeep of one agent holds up no save of another")
{
    test::gated_fixture f;
    f.backend->save(numbered("old", 0));
    f.backend->close_gate();
    std::error_code copied, behind;
    f.store.async_copy_agent("old", "new", into(copied));
    f.backend->wait_for_calls(1 + 1); // the save above, and the copy at the gate
    f.store.async_erase("old", "", "0", into(behind));
    f.store.async_pin("other", "", "x", true, [](std::error_code, bool) {});
    CHECK(f.io.run_one() == 1); // only that of the other agent can have ended
    CHECK(copied == std::errc::operation_in_progress);
    CHECK(behind == std::errc::operation_in_progress);
    f.backend->open_gate();
    f.io.run();
    CHECK_FALSE(copied);
    CHECK_FALSE(behind);
    CHECK(f.backend->count(query("new")) == 1);
}

TEST_CASE("a flush waits for no unordered upkeep")
{
    class slow_store final : public test::gated_store {
    public:
        verify_report verify(const upkeep_control& control) override
        {
            load_latest("x"); // stands at the gate
            return gated_store::verify(control);
        }
    };
    asio::io_context io;
    const auto backend = std::make_shared<slow_store>();
    async_store store{io.get_executor(), backend};
    backend->close_gate();
    std::error_code verified, flushed;
    store.async_verify(into(verified));
    backend->wait_for_calls(1);
    store.async_flush(into(flushed));
    CHECK(flushed == std::errc::operation_in_progress); // not inline
    CHECK(io.run_one() == 1);
    CHECK_FALSE(flushed);
    // Nor does upkeep of an agent, and what the agent saves behind it.
    std::error_code pruned, saved;
    store.async_prune("y", retention().keep_last(1), into(pruned));
    store.async_pin("y", "", "none", true, into(saved));
    while (saved == std::errc::operation_in_progress || pruned == std::errc::operation_in_progress)
        io.run_one();
    CHECK_FALSE(pruned);
    CHECK(verified == std::errc::operation_in_progress);
    backend->open_gate();
    io.run();
    CHECK_FALSE(verified);
}
