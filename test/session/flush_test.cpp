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
