//! What cancellation does, by phase and by type: the table of docs/async.md.
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "run_coroutine.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/steady_timer.hpp>

#include <string>

using namespace waymark;
using test::gated_fixture;
using test::into;
using test::numbered;

namespace {

using types = asio::cancellation_type;
constexpr auto in_progress = std::errc::operation_in_progress;

const std::error_code success;
const std::error_code aborted = asio::error::operation_aborted;
const std::error_code unknown = errc::outcome_unknown;

struct row {
    types type;
    std::error_code at_once; // what the caller gets before the gate opens; in_progress: it waits
    std::error_code later;
};

} // namespace

TEST_CASE("a write that waits for a slot or is queued is aborted by every type, and has no effect")
{
    for (const auto type : {types::terminal, types::partial, types::total, types::all})
        for (const auto slots : {std::size_t{1}, std::size_t{100}}) {
            gated_fixture f(1, async_options().with_max_queued_operations(slots));
            f.hold_a_save();
            asio::cancellation_signal signal;
            std::error_code code;
            f.store.async_save(numbered("agent", 1), asio::bind_cancellation_slot(signal.slot(), into(code)));
            CHECK(f.store.queues().writes.waiting_operations == (slots == 1 ? 1u : 0u));
            signal.emit(type);
            CHECK(code == in_progress); // never inline
            f.io.poll();
            CHECK(code == aborted);
            f.backend->open_gate();
            f.io.restart();
            f.io.run();
            CHECK_FALSE(f.backend->load("agent", "", "1"));
        }
}

TEST_CASE("a write that is being carried out goes on; total waits for it, the others leave")
{
    for (const auto& [type, at_once, later] :
         {row{types::total, make_error_code(in_progress), success}, row{types::partial, unknown, unknown},
          row{types::terminal, unknown, unknown}, row{types::all, unknown, unknown}}) {
        gated_fixture f;
        f.backend->close_gate();
        asio::cancellation_signal signal;
        std::error_code code;
        diagnostics details;
        f.store.async_save(numbered("agent", 1), with_diagnostics(details, asio::bind_cancellation_slot(
                                                                               signal.slot(), into(code))));
        f.backend->wait_for_calls(1);
        signal.emit(type);
        CHECK(code == in_progress); // never inline
        f.io.poll();
        CHECK(code == at_once);
        if (at_once == unknown)
            CHECK(details.message().find("agent 'agent'") != std::string::npos);
        f.backend->open_gate();
        std::error_code flushed;
        f.store.async_flush(into(flushed)); // the work of a caller who has left is among it
        f.io.restart();
        f.io.run();
        CHECK(code == later);
        CHECK_FALSE(flushed);
        CHECK(f.backend->load("agent", "", "1"));
        signal.emit(type); // too late, and harmless
    }
}

TEST_CASE("a read that is being carried out has no effect: who leaves it gets operation_aborted")
{
    for (const auto& [type, at_once, later] :
         {row{types::total, make_error_code(in_progress), success}, row{types::partial, aborted, aborted},
          row{types::terminal, aborted, aborted}}) {
        gated_fixture f;
        f.backend->close_gate();
        asio::cancellation_signal signal;
        std::error_code code;
        f.store.async_load_latest("agent", asio::bind_cancellation_slot(signal.slot(), into(code)));
        f.backend->wait_for_calls(1);
        signal.emit(type);
        f.io.poll();
        CHECK(code == at_once);
        f.backend->open_gate();
        f.io.restart();
        f.io.run();
        CHECK(code == later);
    }
}

TEST_CASE("an operation whose handler is about to be called is not cancelled any more")
{
    for (const auto type : {types::terminal, types::partial, types::total}) {
        gated_fixture f;
        asio::cancellation_signal signal;
        std::error_code code;
        f.store.async_save(numbered("agent", 1), asio::bind_cancellation_slot(signal.slot(), into(code)));
        while (!f.backend->load("agent", "", "1") || f.store.queues().writes.queued_operations != 0)
            std::this_thread::yield(); // it has ended; the handler may have been posted, or be just about to
        std::error_code flushed;
        f.store.async_flush(into(flushed));
        f.io.run_one(); // one of the two handlers
        signal.emit(type);
        f.io.run();
        CHECK((!code || code == unknown));
        CHECK(f.backend->load("agent", "", "1"));
    }
}

TEST_CASE("a deadline bounds how long a caller waits for a save")
{
    gated_fixture f;
    f.backend->close_gate();
    test::run_coroutine(f.io, [](gated_fixture& in) -> asio::awaitable<void> {
        using namespace asio::experimental::awaitable_operators;
        asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::milliseconds(20));
        auto token = with_diagnostics(asio::use_awaitable);
        const auto first = co_await (in.store.async_save(numbered("agent", 1), token) ||
                                     timer.async_wait(asio::use_awaitable));
        CHECK(first.index() == 1); // the timer, and the gate is still closed
        in.backend->open_gate();
        co_await in.store.async_flush();
        CHECK(in.backend->load("agent", "", "1"));
    }(f));
}

TEST_CASE("what a caller has left is freed, and its store may be destroyed")
{
    asio::io_context io;
    const auto backend = std::make_shared<test::gated_store>();
    std::error_code code;
    {
        async_store store(io.get_executor(), backend);
        backend->close_gate();
        asio::cancellation_signal signal;
        store.async_save(numbered("agent", 1), asio::bind_cancellation_slot(signal.slot(), into(code)));
        backend->wait_for_calls(1);
        signal.emit(types::terminal);
        io.run();
        CHECK(code == unknown);
        backend->open_gate();
    } // waits for the save
    CHECK(backend->load("agent", "", "1"));
}

TEST_CASE("a save does not overtake a step of its agent in a shared commit")
{
    gated_fixture f;
    f.backend->save(checkpoint("agent").with_id("head"));
    f.hold_a_save(); // becomes the head; everything else gathers behind it
    std::vector<step_request> steps;
    steps.push_back(
        step_request(step("agent", "", "call").with_checkpoint("held"), true).expect_head("held"));
    std::vector<step_outcome> outcomes;
    f.store.async_put_steps(std::move(steps), [&](std::error_code, std::vector<step_outcome> ended) {
        outcomes = std::move(ended);
    });
    std::error_code saved, other;
    f.store.async_save(numbered("agent", 1), into(saved));
    f.store.async_save(numbered("other", 1), into(other));
    f.backend->open_gate();
    f.io.run();
    REQUIRE(outcomes.size() == 1);
    CHECK_FALSE(outcomes[0].code());
    CHECK_FALSE(saved);
    CHECK_FALSE(other);
}
