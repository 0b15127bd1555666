#include "asio_names.hpp"
#include "forwarding_store.hpp"
#include "on_every_store.hpp"

#include <waymark/memory_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/detached.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_future.hpp>

#include <semaphore>

using namespace waymark;
using test::chat_of;
using test::failure;
using test::on_every_store;
using test::run_coroutine;
namespace json = boost::json;

namespace {

asio::awaitable<json::value> count_up(int& runs, json::value result)
{
    ++runs;
    co_return result;
}

//! Nothing happens.
asio::awaitable<json::value> fail(int& runs)
{
    ++runs;
    throw not_begun("the hotel is full");
    co_return nullptr; // what makes it a coroutine
}

//! Something may have happened.
asio::awaitable<json::value> break_off(int& runs, std::string what = "the connection was closed")
{
    ++runs;
    throw std::runtime_error(what);
    co_return nullptr;
}

//! What a step throws, or the default error code.
asio::awaitable<std::error_code> code_of(asio::awaitable<json::value> made, std::string* what = nullptr)
{
    try {
        co_await std::move(made);
    } catch (const std::system_error& thrown) {
        if (what != nullptr)
            *what = thrown.what();
        co_return thrown.code();
    } catch (const std::exception& thrown) {
        if (what != nullptr)
            *what = thrown.what();
        co_return errc::callback_threw;
    }
    co_return std::error_code();
}

asio::awaitable<void> happen_once(async_store& store)
{
    session session{store, "agent"};
    int runs = 0;
    // Before the first checkpoint exists.
    const auto first = co_await session.async_step("call-1", count_up(runs, "booked"));
    CHECK(first == "booked");
    const auto replayed = co_await session.async_step("call-1", count_up(runs, "other"));
    CHECK(replayed == "booked");
    CHECK(runs == 1);

    // It is found again by another session, after the head has moved, and after a rollback.
    const auto start = co_await session.async_checkpoint("start", 1, chat_of(1));
    json::value receipt;
    receipt.emplace_object()["nights"] = 3;
    const auto made = co_await session.async_step("call-2", count_up(runs, receipt));
    CHECK(made == receipt);
    co_await session.async_checkpoint("later", 2, chat_of(2));
    co_await session.async_rollback_to(start.id());
    waymark::session again{store, "agent"};
    co_await again.async_resume();
    const auto found = co_await again.async_step("call-2", count_up(runs, nullptr));
    CHECK(found == receipt);
    CHECK(runs == 2);
    const auto steps = co_await again.async_load_steps();
    REQUIRE(steps.size() == 2);
    CHECK_FALSE(steps[0].checkpoint_id());
    CHECK(steps[1].checkpoint_id() == start.id());

    // Other keys, scopes and agents are others.
    waymark::session sub{store, "agent", session_options().with_scope("sub")};
    co_await sub.async_step("call-1", count_up(runs, 1));
    waymark::session other{store, "other"};
    co_await other.async_step("call-1", count_up(runs, 1));
    CHECK(runs == 4);
    // A null result is a result.
    co_await session.async_step("null", count_up(runs, nullptr));
    co_await session.async_step("null", count_up(runs, nullptr));
    CHECK(runs == 5);
}

asio::awaitable<void> fail_and_try_again(async_store& store)
{
    session session{store, "agent"};
    co_await session.async_checkpoint("start", 1, chat_of(1));
    int runs = 0;
    std::string what;
    try {
        co_await session.async_step("book", fail(runs));
    } catch (const std::runtime_error& thrown) {
        what = thrown.what();
    }
    CHECK(what == "the hotel is full"); // as it was thrown
    const auto none = co_await session.async_load_steps();
    CHECK(none.empty());
    const auto booked = co_await session.async_step("book", count_up(runs, true));
    CHECK(booked == true);
    CHECK(runs == 2);
}

asio::awaitable<void> break_off_and_try_again(async_store& store)
{
    session session{store, "agent"};
    co_await session.async_checkpoint("start", 1, chat_of(1));
    int runs = 0;
    std::string what;
    try {
        co_await session.async_step("book", break_off(runs));
    } catch (const std::runtime_error& thrown) {
        what = thrown.what();
    }
    CHECK(what == "the connection was closed"); // as it was thrown
    auto steps = co_await session.async_load_steps();
    REQUIRE(steps.size() == 1);
    CHECK_FALSE(steps[0].done());
    CHECK(steps[0].failure() == "the connection was closed");

    // It does not run again, and whoever asks is told what is known.
    waymark::session later{store, "agent"};
    co_await later.async_resume();
    const auto code =
        co_await code_of(later.async_step("book", count_up(runs, 1), asio::use_awaitable), &what);
    CHECK(code == errc::step_in_doubt);
    CHECK_THAT(what, Catch::Contains("its action threw 'the connection was closed'"));
    CHECK(runs == 1);

    // A repetition that is safe leaves nothing of it; nor does a settlement.
    const auto repeated =
        co_await later.async_step("book", count_up(runs, "booked"), step_options().safe_to_repeat());
    CHECK(repeated == "booked");
    const std::string odd("a\0b\xff\n", 5);
    co_await code_of(later.async_step("odd", break_off(runs, odd), asio::use_awaitable));
    steps = co_await later.async_load_steps();
    REQUIRE(steps.size() == 2);
    CHECK_FALSE(steps[0].failure());
    CHECK(steps[1].failure() == "a"); // what() ends there
    const bool settled = co_await later.async_settle_step("odd", "done");
    CHECK(settled);
    steps = co_await later.async_load_steps();
    CHECK_FALSE(steps.at(1).failure());
    const std::string bytes = "\xff\n" + std::string(5000, 'x');
    co_await code_of(later.async_step("long", break_off(runs, bytes), asio::use_awaitable));
    steps = co_await later.async_load_steps();
    REQUIRE(steps.at(1).failure());
    CHECK(steps[1].failure()->starts_with("\\xff\\x0axxx"));
    CHECK(steps[1].failure()->size() < 1100);
}

asio::awaitable<void> be_in_doubt(async_store& store)
{
    session session{store, "agent"};
    const auto start = co_await session.async_checkpoint("start", 1, chat_of(1));
    // A process that died between the beginning and the end.
    std::vector<step_request> begun;
    begun.emplace_back(step("agent", "", "a").with_checkpoint(start.id()));
    begun.emplace_back(step("agent", "", "b"));
    begun.emplace_back(step("agent", "", "c"));
    co_await store.async_put_steps(begun);

    int runs = 0;
    std::string what;
    const auto doubt =
        co_await code_of(session.async_step("a", count_up(runs, 1), asio::use_awaitable), &what);
    CHECK(doubt == errc::step_in_doubt);
    CHECK(what.find("step 'a' of agent 'agent' began at 20") != std::string::npos);
    CHECK(what.find("on checkpoint '" + start.id() + "'") != std::string::npos);
    CHECK(what.find("async_settle_step") != std::string::npos);
    CHECK(runs == 0);

    const auto harmless =
        co_await session.async_step("a", count_up(runs, "again"), step_options().safe_to_repeat());
    CHECK(harmless == "again");
    CHECK(runs == 1);
    const auto settled = co_await session.async_settle_step("b", "it had happened");
    CHECK(settled);
    const auto settled_again = co_await session.async_settle_step("b", "it had happened");
    CHECK_FALSE(settled_again);
    const auto known = co_await session.async_step("b", count_up(runs, nullptr));
    CHECK(known == "it had happened");
    const auto forgotten = co_await session.async_forget_step("c");
    CHECK(forgotten);
    co_await session.async_step("c", count_up(runs, 1));
    CHECK(runs == 2);

    failure how;
    co_await session.async_settle_step("b", "otherwise", how.token());
    CHECK(how.code == errc::conflict);
    co_await session.async_settle_step("nothing", 1, how.token());
    CHECK(how.code == errc::not_found);
    const auto unknown = co_await session.async_forget_step("nothing");
    CHECK_FALSE(unknown);
    // Whoever made it was only slow: what has happened is not forgotten.
    co_await session.async_forget_step("b", how.token());
    CHECK(how.code == errc::conflict);
    const auto kept = co_await session.async_step("b", count_up(runs, nullptr));
    CHECK(kept == "it had happened");
    const auto done = co_await store.async_erase_step("agent", "", "b", begun[1].step().attempt());
    CHECK_FALSE(done);
    std::vector<step_request> fourth;
    fourth.emplace_back(step("agent", "", "d").with_attempt("first"));
    co_await store.async_put_steps(fourth);
    const auto other = co_await store.async_erase_step("agent", "", "d", "second", how.token());
    CHECK_FALSE(other);
    const auto mine = co_await store.async_erase_step("agent", "", "d", "first");
    CHECK(mine);
}

asio::awaitable<void> go_with_their_checkpoints(async_store& store)
{
    session session{store, "agent"};
    int runs = 0;
    const auto first = co_await session.async_checkpoint("first", 1, chat_of(1));
    const auto second = co_await session.async_checkpoint("second", 2, chat_of(2));
    co_await session.async_step("on second", count_up(runs, 1));
    const auto third = co_await session.async_checkpoint("third", 3, chat_of(3));
    co_await store.async_erase("agent", "", second.id());
    auto steps = co_await session.async_load_steps();
    CHECK(steps.size() == 1); // the third is later
    co_await store.async_erase("agent", "", third.id());
    steps = co_await session.async_load_steps();
    CHECK(steps.empty());
    // The session stands on a checkpoint that is gone: a step is made all the same.
    co_await session.async_step("later", count_up(runs, 1));
    CHECK(runs == 2);
    co_await session.async_clear();
    steps = co_await session.async_load_steps();
    CHECK(steps.empty());
    static_cast<void>(first);
}

} // namespace

TEST_CASE("a step happens once", "[stores]")
{
    on_every_store(happen_once);
}

TEST_CASE("an action that throws leaves a doubt, and what it threw", "[stores]")
{
    on_every_store(break_off_and_try_again);
}

TEST_CASE("an action that says that it was not begun is not recorded, and can be tried again", "[stores]")
{
    on_every_store(fail_and_try_again);
}

TEST_CASE("a step that never ended is in doubt", "[stores]")
{
    on_every_store(be_in_doubt);
}

TEST_CASE("steps go with the last checkpoint that knows them", "[stores]")
{
    on_every_store(go_with_their_checkpoints);
}

TEST_CASE("a repetition that fails leaves the doubt, and one that is late keeps the first result")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        std::vector<step_request> begun;
        begun.emplace_back(step("agent", "", "a"));
        begun.emplace_back(step("agent", "", "b"));
        co_await store.async_put_steps(begun);
        int runs = 0;
        bool failed = false;
        try {
            co_await session.async_step("a", fail(runs), step_options().safe_to_repeat());
        } catch (const std::runtime_error&) {
            failed = true;
        }
        CHECK(failed);
        const auto doubt = co_await code_of(session.async_step("a", count_up(runs, 1), asio::use_awaitable));
        CHECK(doubt == errc::step_in_doubt); // the first attempt is as doubtful as before

        // Another process repeats it at the same time, and is faster.
        const auto slow = [&]() -> asio::awaitable<json::value> {
            ++runs;
            co_await session.async_settle_step("b", "first");
            co_return "second";
        };
        const auto made = co_await session.async_step("b", slow, step_options().safe_to_repeat());
        CHECK(made == "first");
        const auto again = co_await session.async_step("b", count_up(runs, 3));
        CHECK(again == "first");
    };
    run_coroutine(io, body());
}

namespace {

asio::awaitable<void> lose_the_record(async_store& store)
{
    session session{store, "agent"};
    co_await session.async_checkpoint("start", 1, chat_of(1));
    int runs = 0;
    const auto cleared_meanwhile = [&]() -> asio::awaitable<json::value> {
        ++runs;
        co_await session.async_clear();
        co_return "made";
    };
    const auto made = co_await session.async_step("call", cleared_meanwhile);
    CHECK(made == "made");
    const auto again = co_await session.async_step("call", count_up(runs, "again"));
    CHECK(again == "made");
    CHECK(runs == 1);
}

} // namespace

TEST_CASE("an effect whose record went while it was made is recorded all the same", "[stores]")
{
    on_every_store(lose_the_record);
}

TEST_CASE("a settlement that comes in before a withdrawal or an end is not lost")
{
    //! Another process settles the step when its record is about to be removed or replaced.
    class settled_meanwhile final : public test::forwarding_store {
    public:
        bool erase_step(std::string_view agent, std::string_view scope, std::string_view key,
                        const std::optional<std::string>& attempt) override
        {
            settle(key);
            return forwarding_store::erase_step(agent, scope, key, attempt);
        }
        std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
        {
            if (batch.front().step().done())
                settle(batch.front().step().key());
            return forwarding_store::put_steps(batch);
        }

        std::atomic<int> settled = 0;

    private:
        void settle(std::string_view key)
        {
            if (detail::settle_step(inner(), "agent", "", std::string(key), "settled"))
                ++settled;
        }
    };
    asio::io_context io;
    const auto backend = std::make_shared<settled_meanwhile>();
    async_store store(io.get_executor(), backend);
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        int runs = 0;
        bool failed = false;
        try {
            co_await session.async_step("withdrawn", fail(runs));
        } catch (const std::runtime_error&) {
            failed = true;
        }
        CHECK(failed);
        const auto after_withdrawal = co_await session.async_step("withdrawn", count_up(runs, 2));
        CHECK(after_withdrawal == "settled");
        const auto ended = co_await session.async_step("ended", count_up(runs, 3));
        CHECK(ended == "settled"); // what is recorded counts
        CHECK(runs == 2);
        CHECK(backend->settled == 2);
    };
    run_coroutine(io, body());
}

TEST_CASE("a step that was begun anew cannot be ended or withdrawn by who tried before")
{
    memory_store store;
    const auto first = detail::begin_step(store, step("agent", "", "call"), {}, {});
    REQUIRE(first.is_new);
    const auto second =
        detail::begin_step(store, step("agent", "", "call"), step_options().safe_to_repeat(), {});
    CHECK_FALSE(second.is_new);
    CHECK(second.record.attempt() != first.record.attempt());
    detail::withdraw_step(store, first.record);
    try {
        detail::end_step(store, step(first.record).with_result(1));
        FAIL("it is not its step any more");
    } catch (const error& failure) {
        CHECK(failure.code() == errc::conflict);
        CHECK(failure.details().message().find("begun anew") != std::string::npos);
    }
    CHECK(detail::end_step(store, step(second.record).with_result(2)).result() == json::value(2));
    CHECK(detail::end_step(store, step(first.record).with_result(1)).result() == json::value(2));
}

TEST_CASE("recording a step waits for a store that is busy for a moment")
{
    class busy final : public test::forwarding_store {
    public:
        std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
        {
            if (batch.front().step().done() && left-- > 0)
                throw error(errc::busy, "not now");
            return forwarding_store::put_steps(batch);
        }
        std::atomic<int> left = 2;
    };
    asio::io_context io;
    const auto backend = std::make_shared<busy>();
    async_store store(io.get_executor(), backend);
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        int runs = 0;
        const auto made = co_await session.async_step("call", count_up(runs, 1));
        CHECK(made == 1);
        CHECK(runs == 1);
        CHECK(backend->left == -1);
    };
    run_coroutine(io, body());
}

TEST_CASE("a pending step keeps its checkpoint from retention")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        const auto first = co_await session.async_checkpoint("first", 1, chat_of(1));
        const auto grow_and_prune = [&]() -> asio::awaitable<json::value> {
            for (int i = 2; i < 5; ++i)
                co_await session.async_checkpoint("more", i, chat_of(i));
            co_await session.async_prune(retention().keep_last(1));
            const auto left = co_await session.async_load(first.id());
            CHECK(left);
            co_return 1;
        };
        co_await session.async_step("call", grow_and_prune);
        co_await session.async_prune(retention().keep_last(1));
        const auto count = co_await session.async_count();
        CHECK(count == 1);
    };
    run_coroutine(io, body());
}

TEST_CASE("two callers do not make one step at the same time")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    session session(store, "agent");
    asio::steady_timer gate(io, asio::steady_timer::time_point::max());
    int runs = 0;
    const auto slow = [&]() -> asio::awaitable<json::value> {
        ++runs;
        std::error_code ignored;
        co_await gate.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
        co_return "slow";
    };
    json::value result;
    session.async_step("call", slow, [&](std::exception_ptr failure, const json::value& made) {
        CHECK_FALSE(failure);
        result = made;
    });
    const auto body = [&]() -> asio::awaitable<void> {
        const auto code =
            co_await code_of(session.async_step("call", count_up(runs, 1), asio::use_awaitable));
        CHECK(code == errc::conflict);
        const auto other = co_await session.async_step("other", count_up(runs, 2));
        CHECK(other == 2);
        gate.cancel();
    };
    run_coroutine(io, body());
    CHECK(result == "slow");
    CHECK(runs == 2);
}

TEST_CASE("a result is durable before it is handed out, and one that cannot be stored leaves a doubt")
{
    class failing final : public test::forwarding_store {
    public:
        std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
        {
            if (fails && batch.front().step().done())
                throw error(errc::io, "the disk is full");
            return forwarding_store::put_steps(batch);
        }
        std::atomic<bool> fails = true;
    };
    asio::io_context io;
    const auto backend = std::make_shared<failing>();
    async_store store(io.get_executor(), backend);
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        int runs = 0;
        std::string what;
        const auto failed =
            co_await code_of(session.async_step("call", count_up(runs, 1), asio::use_awaitable), &what);
        CHECK(failed == errc::io);
        CHECK(what.find("took effect, but its result could not be recorded") != std::string::npos);
        backend->fails = false;
        const auto doubt =
            co_await code_of(session.async_step("call", count_up(runs, 1), asio::use_awaitable));
        CHECK(doubt == errc::step_in_doubt);
        CHECK(runs == 1);
        const auto bad = co_await code_of(session.async_step(
            "nan", count_up(runs, std::numeric_limits<double>::quiet_NaN()), asio::use_awaitable));
        CHECK(bad == errc::invalid_argument);
        const auto empty = co_await code_of(session.async_step("", count_up(runs, 1), asio::use_awaitable));
        CHECK(empty == errc::invalid_argument);
        CHECK(runs == 2);
    };
    run_coroutine(io, body());
}

TEST_CASE("an exclusive session begins no step when someone else moved the head")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto body = [&]() -> asio::awaitable<void> {
        session first{store, "agent", session_options().exclusive()};
        session second{store, "agent", session_options().exclusive()};
        co_await first.async_checkpoint("a", 1, chat_of(1));
        co_await second.async_resume();
        co_await second.async_checkpoint("b", 2, chat_of(2));
        int runs = 0;
        const auto code = co_await code_of(first.async_step("call", count_up(runs, 1), asio::use_awaitable));
        CHECK(code == errc::conflict);
        CHECK(runs == 0);
        co_await second.async_step("call", count_up(runs, 1));
        CHECK(runs == 1);
    };
    run_coroutine(io, body());
}

TEST_CASE("a step that is cancelled while it runs is in doubt, and one that ended is recorded")
{
    asio::io_context io;
    const auto backend = std::make_shared<memory_store>();
    async_store store(io.get_executor(), backend);
    session session(store, "agent");
    asio::cancellation_signal cancel;
    bool started = false;
    const auto endless = [&]() -> asio::awaitable<json::value> {
        started = true;
        asio::steady_timer forever(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
        co_await forever.async_wait(asio::use_awaitable);
        co_return nullptr;
    };
    const auto finishing = [&]() -> asio::awaitable<json::value> {
        started = true;
        asio::steady_timer forever(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
        std::error_code ignored;
        co_await forever.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
        co_return "it had happened by then";
    };
    const auto make = [&](const std::string& key, auto action) {
        std::exception_ptr failure;
        bool ended = false;
        started = false;
        session.async_step(
            key, action,
            asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr thrown, const json::value&) {
                failure = thrown;
                ended = true;
            }));
        while (!started)
            io.run_one();
        cancel.emit(asio::cancellation_type::terminal);
        io.run();
        io.restart();
        CHECK(ended);
        return failure;
    };
    // Whatever it throws because of it.
    const auto disguised = [&]() -> asio::awaitable<json::value> {
        started = true;
        asio::steady_timer forever(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
        std::error_code code;
        co_await forever.async_wait(asio::redirect_error(asio::use_awaitable, code));
        throw std::runtime_error("the connection broke");
    };
    CHECK(make("disguised", disguised));
    CHECK(backend->load_steps(step_query("agent").key("disguised").pending_only()).size() == 1);
    CHECK(make("endless", endless));
    const auto pending = backend->load_steps(step_query("agent").key("endless"));
    REQUIRE(pending.size() == 1);
    CHECK_FALSE(pending[0].done());
    make("finishing", finishing);
    const auto done = backend->load_steps(step_query("agent").key("finishing"));
    REQUIRE(done.size() == 1);
    CHECK(done[0].result() == json::value("it had happened by then"));
}

TEST_CASE("a step that is cancelled before it ran leaves nothing behind")
{
    //! Beginning a step takes until it is told to end.
    class slow final : public test::forwarding_store {
    public:
        std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
        {
            reached.release();
            go_on.acquire();
            return forwarding_store::put_steps(batch);
        }
        std::binary_semaphore reached{0};
        std::binary_semaphore go_on{0};
    };
    asio::io_context io;
    const auto backend = std::make_shared<slow>();
    async_store store(io.get_executor(), backend);
    session session(store, "agent");
    asio::cancellation_signal cancel;
    int runs = 0;
    std::exception_ptr failure;
    const auto count = [&]() -> asio::awaitable<json::value> { co_return ++runs; };
    session.async_step(
        "call", count,
        asio::bind_cancellation_slot(
            cancel.slot(), [&](std::exception_ptr thrown, const json::value&) { failure = thrown; }));
    while (!backend->reached.try_acquire())
        io.poll();
    cancel.emit(asio::cancellation_type::terminal);
    io.poll();
    backend->go_on.release();
    io.restart();
    io.run();
    CHECK(failure);
    CHECK(runs == 0);
    CHECK(backend->load_steps(step_query("agent")).empty());
}

TEST_CASE("a step takes any completion token and runs on the caller's executor")
{
    asio::io_context io;
    asio::io_context callers;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    session session(store, "agent");
    std::optional<asio::any_io_executor> ran_on;
    const auto note = [&]() -> asio::awaitable<json::value> {
        ran_on = co_await asio::this_coro::executor;
        co_return 1;
    };
    const auto body = [&]() -> asio::awaitable<void> {
        const auto made = co_await session.async_step("a", note);
        CHECK(made == 1);
        CHECK(*ran_on == asio::any_io_executor(callers.get_executor()));
        io.stop();
    };
    asio::co_spawn(callers, body(), asio::detached);
    const auto work = asio::make_work_guard(io);
    std::thread other([&] { io.run(); });
    callers.run();
    other.join();
    io.restart();
    auto future = session.async_step("b", note, asio::use_future);
    const auto guard = asio::make_work_guard(io);
    std::thread again([&] { io.run(); });
    CHECK(future.get() == 1);
    CHECK(*ran_on == asio::any_io_executor(io.get_executor()));
    io.stop();
    again.join();
}

// Which forms compile: those that g++ 12 gets right inside a co_await expression.

template <class Action>
concept accepted = requires(session& session, Action action) {
    session.async_step("key", std::forward<Action>(action), asio::detached);
};

TEST_CASE("an action that g++ 12 would destroy twice does not compile")
{
    std::string text = "a text that is longer than a small string";
    int number = 0;
    auto by_value = [text]() -> asio::awaitable<json::value> { co_return text.c_str(); };
    auto by_reference = [&text]() -> asio::awaitable<json::value> { co_return text.c_str(); };
    auto trivial = [number]() -> asio::awaitable<json::value> { co_return number; };
    auto no_json = []() -> asio::awaitable<int> { co_return 1; };
    static_assert(!accepted<decltype(by_value)>);
    static_assert(accepted<decltype(by_value)&>);
    static_assert(accepted<decltype(std::ref(by_value))>);
    static_assert(accepted<decltype(by_reference)>);
    static_assert(accepted<decltype(trivial)>);
    static_assert(accepted<asio::awaitable<json::value>>);
    static_assert(!accepted<decltype(no_json)&>);

    // And those that do are right, as the address sanitizer sees.
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto later = [](std::string said) -> asio::awaitable<json::value> {
        asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::milliseconds(1));
        co_await timer.async_wait(asio::use_awaitable);
        co_return said.c_str();
    };
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        for (int round = 0; round < 2; ++round) {
            const auto key = "a key that is longer than a small string " + std::to_string(round);
            auto made = co_await session.async_step(key + "1", by_value);
            CHECK(made == text.c_str());
            made = co_await session.async_step(key + "2", std::ref(by_value));
            CHECK(made == text.c_str());
            made = co_await session.async_step(key + "3", later(text + " and more"));
            CHECK(made == json::value((text + " and more").c_str()));
            made = co_await session.async_step(key + "3", later(text), step_options().safe_to_repeat());
            CHECK(made == json::value((text + " and more").c_str()));
            made = co_await session.async_step(
                key + "4", [&text]() -> asio::awaitable<json::value> { co_return text.c_str(); });
            CHECK(made == text.c_str());
        }
    };
    run_coroutine(io, body());
}
