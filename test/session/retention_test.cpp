//! Retention by hand and by itself.
#include "forwarding_store.hpp"
#include "on_every_store.hpp"

#include <semaphore>

using namespace waymark;
using test::chat_of;
using test::on_every_store;
using test::run_coroutine;

namespace {

asio::awaitable<void> retention_by_itself(async_store& store)
{
    session session{store, "agent",
                    session_options().with_retention(retention().keep_last(3)).prune_every(1)};
    for (int i = 0; i < 10; ++i) {
        co_await session.async_checkpoint("turn", i, chat_of(i));
        if (i == 1) {
            const auto oldest = co_await session.async_list(session.query().oldest_first().limit(1));
            const auto pinned = co_await session.async_pin(oldest.at(0).id());
            CHECK(pinned);
        }
    }
    co_await test::eventually(store, [&] { return store.backend()->count(query("agent")) == 4; });
    const auto left = co_await session.async_list(session.query().oldest_first());
    REQUIRE(left.size() == 4); // one is pinned
    CHECK(left.front().iteration() == 0);
    CHECK(left.back().iteration() == 9);
}

asio::awaitable<void> retention_by_hand(async_store& store)
{
    session session{store, "agent"};
    for (int i = 0; i < 5; ++i)
        co_await session.async_checkpoint("turn", i, chat_of(i));
    const auto all = co_await session.async_list(session.query().oldest_first());
    const auto pinned = co_await session.async_pin(all.at(0).id());
    CHECK(pinned);
    const auto unknown = co_await session.async_pin("nobody");
    CHECK_FALSE(unknown);
    const auto planned = co_await session.async_prune(retention().keep_last(1), dry_run::yes);
    CHECK(planned.count() == 3);
    CHECK(planned.bytes() > 0);
    const auto unpinned = co_await session.async_unpin(all.at(0).id());
    CHECK(unpinned);
    const auto pruned = co_await session.async_prune(retention().keep_last(1));
    CHECK(pruned.count() == 4);
    const auto count = co_await session.async_count();
    CHECK(count == 1);
}

} // namespace

TEST_CASE("retention runs by itself after saves", "[stores]")
{
    on_every_store(retention_by_itself);
}

TEST_CASE("retention runs by hand, with a dry run, and spares what is pinned", "[stores]")
{
    on_every_store(retention_by_hand);
}

TEST_CASE("no save waits for a prune, and a prune concerns the session's scope")
{
    //! A prune that does not end before it is told to.
    class slow final : public test::forwarding_store {
    public:
        prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                           const upkeep_control& control) override
        {
            ++prunes;
            released.acquire();
            return forwarding_store::prune(agent, policies, dry, control);
        }
        std::atomic<int> prunes = 0;
        std::binary_semaphore released{0};
    };
    asio::io_context io;
    const auto backend = std::make_shared<slow>();
    async_store store(io.get_executor(), backend);
    const auto body = [&]() -> asio::awaitable<void> {
        session main{store, "agent"};
        for (int i = 0; i < 3; ++i)
            co_await main.async_checkpoint("main", i, chat_of(i));
        session sub{
            store, "agent",
            session_options().with_scope("sub").with_retention(retention().keep_last(1)).prune_every(1)};
        for (int i = 0; i < 5; ++i)
            co_await sub.async_checkpoint("sub", i, chat_of(i));
        // All five saves are done, and it runs: its thread may only just have been woken.
        const auto runs = co_await test::eventually(store, [&] { return backend->prunes == 1; });
        CHECK(runs);
        backend->released.release();
        co_await test::eventually(store, [&] { return backend->prunes == 2; });
        backend->released.release(); // the second one sees what came meanwhile
        const auto pruned = co_await test::eventually(
            store, [&] { return backend->count(query("agent").scope("sub")) == 1; });
        CHECK(pruned);
        const auto others = co_await main.async_count();
        CHECK(others == 3);
    };
    run_coroutine(io, body());
}

TEST_CASE("a failing prune fails no save")
{
    class unwilling final : public test::forwarding_store {
    public:
        prune_result prune(std::string_view, const retention&, dry_run, const upkeep_control&) override
        {
            throw error(errc::busy, "not now");
        }
    };
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<unwilling>());
    std::vector<session_error::source> errors;
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent",
                        session_options().with_retention(retention().keep_last(1)).prune_every(2)};
        session.on_error([&](const session_error& error) {
            CHECK(error.code() == errc::busy);
            errors.push_back(error.from());
        });
        for (int i = 0; i < 6; ++i) { // after the first save, and every second from then
            co_await session.async_checkpoint("turn", i, chat_of(i));
            co_await test::eventually(store,
                                      [&] { return errors.size() == static_cast<std::size_t>(i / 2 + 1); });
        }
    };
    run_coroutine(io, body());
    CHECK(errors == std::vector(3, session_error::source::retention));
}
