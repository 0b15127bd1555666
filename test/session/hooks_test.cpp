#include "on_every_store.hpp"
#include "tracking_executor.hpp"

#include <waymark/memory_store.hpp>

#include <asio/bind_executor.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

using namespace waymark;
using test::chat_of;
using test::failure;
using test::on_every_store;
using test::run_coroutine;

namespace {

asio::awaitable<void> hooks_are_told(async_store& store)
{
    session session{store, "agent"};
    std::vector<std::string> told;
    session.before_save([&](pending_save& pending) {
        told.push_back("before " + pending.checkpoint().name());
        pending.checkpoint().with_metadata("host", "a");
        pending.checkpoint().with_parent("nonsense").with_agent("other").with_scope("elsewhere"); // no effect
    });
    session.before_save([&](pending_save& pending) {
        CHECK(pending.checkpoint().metadata().at("host") == "a"); // what the one before it did
        pending.checkpoint().with_name(pending.checkpoint().name() + "!");
    });
    session.on_checkpoint([&](const checkpoint_saved& saved) {
        told.push_back("saved " + saved.header().name());
        CHECK(saved.header().sequence() > 0);
        CHECK(saved.bytes_written() > 0);
        CHECK(saved.bytes_written() == saved.header().stored_bytes());
        CHECK(saved.latency().count() > 0);
        CHECK(saved.batch_size() == 1);
        CHECK(saved.queue_depth() == 0);
    });
    session.on_checkpoint([&](const checkpoint_saved&) { told.push_back("and told"); });
    const auto saved = co_await session.async_checkpoint("a", 1, chat_of(1));
    CHECK(saved.name() == "a!");
    CHECK_FALSE(saved.parent_id());
    CHECK(saved.metadata().at("host") == "a");
    CHECK(told == std::vector<std::string>{"before a", "saved a!", "and told"});
}

} // namespace

TEST_CASE("hooks are told before and after a save, in the order in which they were connected", "[stores]")
{
    on_every_store(hooks_are_told);
}

TEST_CASE("a before_save hook can veto")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        int others = 0;
        auto veto = session.before_save([](pending_save& pending) { pending.veto("the quota is used up"); });
        session.before_save([&](pending_save&) { ++others; });
        const auto nothing = co_await session.async_notify(event::tool_call_complete, 1, chat_of(1));
        CHECK_FALSE(nothing);
        failure how;
        co_await session.async_checkpoint("x", 1, chat_of(1), how.token());
        CHECK(how.code == errc::vetoed);
        CHECK(how.says("the quota is used up"));
        CHECK(others == 0);
        const auto count = co_await session.async_count();
        CHECK(count == 0);
        veto.disconnect();
        co_await session.async_checkpoint("x", 1, chat_of(1));
        CHECK(others == 1);
    };
    run_coroutine(io, body());
}

TEST_CASE("a hook that throws is reported, loses no save and stops no other hook")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        std::vector<std::string> errors;
        int told = 0;
        session.on_error([](const session_error&) { throw std::runtime_error("ignored"); });
        session.on_error([&](const session_error& error) {
            CHECK(error.from() == session_error::source::hook);
            CHECK(error.code() == errc::callback_threw);
            errors.push_back(error.message());
        });
        session.before_save([](pending_save& pending) {
            pending.checkpoint().with_name("half-way");
            throw std::runtime_error("no idea");
        });
        session.on_checkpoint([](const checkpoint_saved&) { throw 7; });
        session.on_checkpoint([&](const checkpoint_saved&) { ++told; });
        const auto saved = co_await session.async_checkpoint("name", 1, chat_of(1));
        CHECK(saved.name() == "name"); // what the failed hook did is not used
        CHECK(told == 1);
        REQUIRE(errors.size() == 2);
        CHECK(errors[0] == "a hook of before_save of agent 'agent' threw: no idea");
        CHECK(errors[1].find("on_checkpoint") != std::string::npos);
    };
    run_coroutine(io, body());
}

namespace {

asio::awaitable<void> a_hook_saves(async_store& store)
{
    session session{store, "agent"};
    std::vector<std::string> completed;
    session.on_checkpoint([&](const checkpoint_saved& saved) {
        if (saved.header().name() == "main")
            session.async_checkpoint("from the hook", saved.header().iteration(), chat_of(2),
                                     [&](std::error_code code, const checkpoint_header& header) {
                                         CHECK_FALSE(code);
                                         completed.push_back(header.name());
                                     });
        session.position();
        session.set_strategy(strategy::never());
    });
    for (int i = 0; i < 3; ++i)
        co_await session.async_checkpoint("main", i, chat_of(1));
    co_await session.async_checkpoint("end", 9, chat_of(1)); // behind what the hooks started
    CHECK(completed.size() == 3);
    const auto history = co_await session.async_history();
    CHECK(history.size() == 7);
    CHECK(history.branches().size() == 1);
}

} // namespace

TEST_CASE("a hook may call the session and save", "[stores]")
{
    on_every_store(a_hook_saves);
}

TEST_CASE("hooks can be disconnected, by hand and by scope, also by a hook")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    connection left_over;
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        int plain = 0;
        int scoped = 0;
        int once = 0;
        auto by_hand = session.on_checkpoint([&](const checkpoint_saved&) { ++plain; });
        connection own;
        own = session.on_checkpoint([&](const checkpoint_saved&) {
            ++once;
            own.disconnect();
        });
        {
            const scoped_connection by_scope =
                session.on_checkpoint([&](const checkpoint_saved&) { ++scoped; });
            CHECK(by_scope.connected());
            co_await session.async_checkpoint("1", 1, chat_of(1));
        }
        CHECK_FALSE(own.connected());
        scoped_connection kept = session.on_checkpoint([&](const checkpoint_saved&) { ++scoped; });
        scoped_connection moved = std::move(kept);
        moved.release();
        co_await session.async_checkpoint("2", 2, chat_of(1));
        by_hand.disconnect();
        by_hand.disconnect();
        CHECK_FALSE(by_hand.connected());
        co_await session.async_checkpoint("3", 3, chat_of(1));
        CHECK(plain == 2);
        CHECK(once == 1);
        CHECK(scoped == 3);
        CHECK_THROWS_AS(session.on_error({}), error);
        left_over = session.on_error([](const session_error&) {});
        CHECK(left_over.connected());
    };
    run_coroutine(io, body());
    CHECK_FALSE(left_over.connected());
    left_over.disconnect();
}

TEST_CASE("a hook that destroys its session loses nothing")
{
    asio::io_context io;
    const auto backend = std::make_shared<memory_store>();
    async_store store(io.get_executor(), backend);
    auto owned = std::make_unique<session>(store, "agent");
    int after = 0;
    owned->on_checkpoint([&](const checkpoint_saved&) { owned.reset(); });
    std::error_code code = make_error_code(std::errc::operation_in_progress);
    owned->async_checkpoint("last", 1, chat_of(1), [&](std::error_code ended, const checkpoint_header&) {
        code = ended;
        ++after;
    });
    io.run();
    CHECK_FALSE(code);
    CHECK(after == 1);
    CHECK(backend->count(query("agent")) == 1);
}

TEST_CASE("hooks run on the session's executor, handlers on their own")
{
    asio::thread_pool hooks(1);
    asio::io_context io;
    const auto hook_thread =
        asio::post(hooks, asio::use_future([] { return std::this_thread::get_id(); })).get();
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    session session(hooks.get_executor(), store, "agent");
    CHECK(session.get_executor() == hooks.get_executor());
    std::thread::id ran_on;
    session.on_checkpoint([&](const checkpoint_saved&) { ran_on = std::this_thread::get_id(); });
    std::thread::id handled_on;
    session.async_checkpoint("x", 1, chat_of(1),
                             asio::bind_executor(io, [&](std::error_code code, const checkpoint_header&) {
                                 CHECK_FALSE(code);
                                 handled_on = std::this_thread::get_id();
                             }));
    io.run();
    CHECK(ran_on == hook_thread);
    CHECK(handled_on == std::this_thread::get_id());
    hooks.join();
}
