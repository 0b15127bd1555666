//! Flushing what sessions hold.
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "run_coroutine.hpp"
#include "temporary_folder.hpp"

#include <waymark/session.hpp>
#include <waymark/sqlite_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/detached.hpp>

using namespace waymark;

namespace {

constexpr int saves = 10;

void start_saves(session& in)
{
    for (int i = 0; i < saves; ++i)
        in.async_checkpoint("turn", i, conversation(), asio::detached);
}

} // namespace

TEST_CASE("a flush of the store covers what its sessions hold")
{
    const test::temporary_folder folder;
    asio::io_context io;
    const auto backend = std::make_shared<sqlite_store>(folder.path() / "store.db");
    async_store store(io.get_executor(), backend);
    test::run_coroutine(io, [](async_store& in, waymark::store& stored) -> asio::awaitable<void> {
        session first(in, "first");
        session second(in, "second");
        start_saves(first);
        start_saves(second);
        co_await in.async_flush();
        CHECK(stored.count(query("first")) == saves);
        CHECK(stored.count(query("second")) == saves);
        co_await in.async_flush(); // with nothing to wait for
    }(store, *backend));
}

TEST_CASE("a flush of a session covers what that session holds")
{
    const test::temporary_folder folder;
    asio::io_context io;
    const auto backend = std::make_shared<sqlite_store>(folder.path() / "store.db");
    async_store store(io.get_executor(), backend);
    test::run_coroutine(io, [](async_store& in, waymark::store& stored) -> asio::awaitable<void> {
        session session(in, "agent");
        start_saves(session);
        co_await session.async_flush();
        CHECK(stored.count(query("agent")) == saves);
    }(store, *backend));
}

TEST_CASE("a flush ends also if what it waits for is cancelled, fails or goes with its session")
{
    test::gated_fixture f;
    auto session =
        std::make_unique<waymark::session>(f.store, "agent", session_options().with_max_pending(2));
    f.backend->close_gate();
    std::error_code begun, cancelled, waiting, refused, flushed;
    asio::cancellation_signal signal;
    session->async_checkpoint("begun", 1, conversation(), test::into(begun));
    f.run_until_calls(1);
    session->async_checkpoint("cancelled", 2, conversation(),
                              asio::bind_cancellation_slot(signal.slot(), test::into(cancelled)));
    session->async_checkpoint("waiting", 3, conversation(), test::into(waiting));
    session->async_checkpoint("refused", 4, conversation(), test::into(refused));
    f.store.async_flush(test::into(flushed));
    signal.emit(asio::cancellation_type::total);
    session.reset();
    f.io.poll();
    CHECK(cancelled == asio::error::operation_aborted);
    CHECK(waiting == asio::error::operation_aborted);
    CHECK(refused == errc::overloaded);
    CHECK(flushed == std::errc::operation_in_progress); // one is being written
    f.backend->open_gate();
    f.io.run();
    CHECK_FALSE(begun);
    CHECK_FALSE(flushed);
}

TEST_CASE("a flush does not wait for what a session is asked for after it")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    std::error_code first, second, flushed;
    session.async_checkpoint("first", 1, conversation(), test::into(first));
    f.store.async_flush(test::into(flushed));
    f.backend->close_gate();
    session.async_checkpoint("second", 2, conversation(), test::into(second));
    f.run_until_calls(1); // the first or the second: it stands at the gate
    if (f.backend->count(query("agent")) == 0) {
        f.backend->open_gate();
        while (f.backend->count(query("agent")) == 0)
            f.io.run_one();
    }
    while (flushed == std::errc::operation_in_progress)
        f.io.run_one_for(std::chrono::milliseconds(1));
    CHECK_FALSE(flushed);
    f.backend->open_gate();
    f.io.run();
    CHECK_FALSE(second);
}

TEST_CASE("a flush finds room in a session that is full, and covers what is there")
{
    test::gated_fixture f;
    session session(f.store, "agent", session_options().with_max_pending(2));
    f.backend->close_gate();
    std::vector<std::error_code> kept(3);
    std::error_code refused, flushed;
    session.async_checkpoint("begun", 1, conversation(), test::into(kept[0]));
    f.run_until_calls(1);
    session.async_checkpoint("waits", 2, conversation(), test::into(kept[1]));
    session.async_checkpoint("waits, too", 3, conversation(), test::into(kept[2]));
    session.async_checkpoint("no room", 4, conversation(), test::into(refused));
    session.async_flush(test::into(flushed));
    f.io.poll();
    CHECK(refused == errc::overloaded);
    CHECK(flushed == std::errc::operation_in_progress);
    CHECK(f.store.queues().held_by_sessions == 2);
    f.backend->open_gate();
    f.io.run();
    CHECK_FALSE(flushed);
    for (const auto& code : kept)
        CHECK_FALSE(code);
    CHECK(f.store.queues().held_by_sessions == 0);
    CHECK(f.backend->count(query("agent")) == 3);
}

TEST_CASE("saves that a session refuses or drops are counted, logged and told to on_error")
{
    const auto observer = std::make_shared<store_observer>();
    std::vector<std::string> lines;
    observer->on_log(log_level::warning,
                     [&](const log_record& record) { lines.emplace_back(record.message()); });
    test::gated_fixture f(1, async_options().with_observer(observer));
    std::optional<session> session(std::in_place, f.store, "agent", session_options().with_max_pending(1));
    std::vector<std::string> told;
    session->on_error([&](const session_error& event) {
        CHECK(event.code() == errc::overloaded);
        told.push_back(event.message());
    });
    f.backend->close_gate();
    session->async_checkpoint("begun", 1, conversation(), asio::detached);
    f.run_until_calls(1);
    for (int i = 0; i < 4; ++i) // the first of them waits
        session->async_checkpoint("detached", i, conversation(), asio::detached);
    CHECK(told.empty()); // hooks are not called by whoever asks
    f.io.poll();
    REQUIRE(told.size() == 1);
    CHECK(told[0].find("3 saves found no room in the session of agent 'agent'") != std::string::npos);
    CHECK(observer->figures().overloaded == 3);
    CHECK(lines.size() == 3);

    session.reset();
    CHECK(observer->figures().of(store_operation::save).aborted == 1);
    REQUIRE(lines.size() == 4);
    CHECK(lines[3].find("'agent'") != std::string::npos);
    CHECK(lines[3].find("flush it first") != std::string::npos);
    f.backend->open_gate();
    f.io.run();
    CHECK(f.backend->count(query("agent")) == 1);
}
