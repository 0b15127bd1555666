//! Events, strategies, order, the session's place, lifetimes and threads.
#include "gated_fixture.hpp"
#include "on_every_store.hpp"

#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/detached.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

using namespace waymark;
using test::chat_of;
using test::failure;
using test::on_every_store;
using test::run_coroutine;

namespace {

asio::awaitable<void> notify_as_the_strategy_says(async_store& store)
{
    session session{store, "agent"};
    const auto first = co_await session.async_notify(event::tool_call_complete, 1, chat_of(2));
    REQUIRE(first);
    CHECK(first->iteration() == 1);
    CHECK(first->message_count() == 2);
    CHECK(first->sequence() > 0);
    CHECK_FALSE(first->parent_id());
    const auto nothing = co_await session.async_notify(event::llm_response, 1, chat_of(3));
    CHECK_FALSE(nothing);

    session.set_strategy(strategy::after_llm_response());
    boost::json::object state;
    state["files"] = 3;
    const auto second = co_await session.async_notify(event::llm_response, 2, chat_of(4), state);
    REQUIRE(second);
    CHECK(second->parent_id() == first->id());
    CHECK(session.position() == second->id());
    session.set_strategy(strategy::never());
    const auto never = co_await session.async_notify(event::iteration, 2, chat_of(4));
    CHECK_FALSE(never);

    const auto named = co_await session.async_checkpoint("done", 3, chat_of(5));
    CHECK(named.name() == "done");
    CHECK(named.parent_id() == second->id());
    const auto drafted = co_await session.async_checkpoint(
        session.draft(chat_of(6), 4).with_name("drafted").with_metadata("phase", "end").with_id("mine"));
    CHECK(drafted.id() == "mine");
    CHECK(drafted.metadata().at("phase") == "end");
    const auto by_draft = co_await session.async_notify(event::iteration, session.draft(chat_of(6), 5));
    CHECK_FALSE(by_draft);

    const auto loaded = co_await session.async_load(second->id());
    CHECK(loaded->state().at("files") == 3);
    const auto count = co_await session.async_count();
    CHECK(count == 4);
}

} // namespace

TEST_CASE("async_notify saves when the strategy says so, with the last saved checkpoint as parent",
          "[stores]")
{
    on_every_store(notify_as_the_strategy_says);
}

TEST_CASE("a draft of another agent or scope is refused, and an id is not used twice")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent", session_options().with_scope("sub")};
        std::vector<std::string> errors;
        session.on_error([&](const session_error& error) {
            CHECK(error.from() == session_error::source::save);
            errors.push_back(error.message());
        });
        failure how;
        co_await session.async_checkpoint(checkpoint("other"), how.token());
        CHECK(how.code == errc::invalid_argument);
        CHECK(how.says("the draft is of agent 'other'"));
        co_await session.async_checkpoint(checkpoint("agent").with_scope("elsewhere"), how.token());
        CHECK(how.code == errc::invalid_argument);
        co_await session.async_checkpoint(checkpoint("agent").with_id("one"), how.token());
        CHECK_FALSE(how.code);
        const auto saved = co_await store.async_load("agent", "sub", "one");
        CHECK(saved);
        co_await session.async_checkpoint(checkpoint("agent", {}, 9).with_id("one"), how.token());
        CHECK(how.code == errc::conflict);
        co_await session.async_checkpoint(*saved, how.token()); // a repetition is harmless
        CHECK_FALSE(how.code);
        CHECK(errors.size() == 3);
    };
    run_coroutine(io, body());
}

TEST_CASE("a session refuses an agent or scope that no store can hold")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto refuses = [&](const std::string& agent, session_options options) {
        try {
            session session(store, agent, std::move(options));
        } catch (const error& refusal) {
            return refusal.code() == errc::invalid_argument;
        }
        return false;
    };
    CHECK(refuses("", {}));
    CHECK(refuses(std::string(256, 'a'), {}));
    CHECK(refuses("agent", session_options().with_scope("\xff")));
    CHECK_THROWS_AS(session_options().prune_every(0), error);
    CHECK_THROWS_AS(session_options().with_max_pending(0), error);
}

namespace {

asio::awaitable<void> many_in_flight(async_store& store)
{
    session session{store, "agent"};
    auto chat = chat_of(0);
    std::vector<std::string> completed;
    constexpr int count = 50;
    for (int i = 0; i < count; ++i) {
        chat.push(message::user("turn " + std::to_string(i)));
        session.async_notify(event::tool_call_complete, i, chat,
                             [&](std::error_code code, const std::optional<checkpoint_header>& saved) {
                                 CHECK_FALSE(code);
                                 completed.push_back(saved->id());
                             });
    }
    const auto last = co_await session.async_checkpoint("last", count, chat);
    CHECK(completed.size() == count);
    const auto all = co_await session.async_list(session.query().oldest_first());
    CHECK(all.size() == count + 1);
    std::optional<std::string> parent;
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].iteration() == static_cast<std::int64_t>(i));
        CHECK(all[i].parent_id() == parent);
        parent = all[i].id();
        if (i < count)
            CHECK(completed.at(i) == all[i].id());
    }
    CHECK(last.id() == parent);
}

} // namespace

TEST_CASE("saves of a session never overtake each other, whoever waits for them", "[stores]")
{
    on_every_store(many_in_flight);
}

TEST_CASE("a save that fails moves nothing, and the next one has the right parent")
{
    test::gated_fixture fixture;
    const auto body = [&]() -> asio::awaitable<void> {
        session session{fixture.store, "agent"};
        const auto first = co_await session.async_checkpoint("first", 1, chat_of(1));
        fixture.backend->fail_with(error(errc::io, "the disk is full"));
        failure how;
        co_await session.async_checkpoint("lost", 2, chat_of(2), how.token());
        CHECK(how.code == errc::io);
        CHECK(session.position() == first.id());
        fixture.backend->fail_with(std::nullopt);
        const auto second = co_await session.async_checkpoint("second", 3, chat_of(3));
        CHECK(second.parent_id() == first.id());
    };
    run_coroutine(fixture.io, body());
}

TEST_CASE("after a save with an unknown outcome the session finds out what became of it")
{
    //! Commits, and then reports that it does not know.
    class forgetful final : public test::forwarding_store {
    public:
        using store::save;
        std::vector<save_outcome> save(std::span<const save_request> batch) override
        {
            auto outcomes = commits || !fails ? forwarding_store::save(batch) : std::vector<save_outcome>();
            if (fails.exchange(false))
                throw error(errc::outcome_unknown, "the sync failed");
            return outcomes;
        }
        std::atomic<bool> fails = false;
        std::atomic<bool> commits = false;
    };
    for (const auto& [commits, repeats] :
         {std::pair(true, false), std::pair(false, false), std::pair(true, true), std::pair(false, true)}) {
        INFO((commits ? "committed" : "not committed") << (repeats ? ", repeated" : ""));
        asio::io_context io;
        const auto backend = std::make_shared<forgetful>();
        async_store store(io.get_executor(), backend);
        const auto body = [&, commits = commits, repeats = repeats]() -> asio::awaitable<void> {
            session session{store, "agent", session_options().exclusive()};
            const auto first = co_await session.async_checkpoint("first", 1, chat_of(1));
            backend->commits = commits;
            backend->fails = true;
            failure how;
            const auto doubtful = session.draft(chat_of(2), 2).with_id("doubtful");
            co_await session.async_checkpoint(doubtful, how.token());
            CHECK(how.code == errc::outcome_unknown);
            int made = 0; // a step, too, finds out first
            co_await session.async_step(
                "step", [&made]() -> asio::awaitable<boost::json::value> { co_return ++made; });
            CHECK(made == 1);
            if (repeats) {
                const auto repeated = co_await session.async_checkpoint(doubtful);
                CHECK(repeated.parent_id() == first.id());
            }
            const auto next = co_await session.async_checkpoint("next", 3, chat_of(3));
            CHECK(next.parent_id() == (commits || repeats ? "doubtful" : first.id()));
        };
        run_coroutine(io, body());
    }
}

TEST_CASE("what waits in the session can be cancelled, and is bounded")
{
    test::gated_fixture fixture;
    session session(fixture.store, "agent", session_options().with_max_pending(2));
    fixture.backend->close_gate();
    std::vector<std::error_code> codes(5);
    asio::cancellation_signal cancel;
    session.async_checkpoint("held", 1, chat_of(1), test::into(codes[0]));
    fixture.run_until_calls(1);
    session.async_checkpoint("cancelled", 2, chat_of(2),
                             asio::bind_cancellation_slot(cancel.slot(), test::into(codes[1])));
    session.async_checkpoint("waits", 3, chat_of(3), test::into(codes[2]));
    session.async_checkpoint("too many", 4, chat_of(4), test::into(codes[3]));
    cancel.emit(asio::cancellation_type::total);
    fixture.io.poll();
    CHECK(codes[1] == asio::error::operation_aborted);
    CHECK(codes[3] == errc::overloaded);
    fixture.backend->open_gate();
    fixture.io.run();
    CHECK_FALSE(codes[0]);
    CHECK_FALSE(codes[2]);
    const auto saved = fixture.backend->list(query("agent").oldest_first());
    REQUIRE(saved.size() == 2);
    CHECK(saved[1].parent_id() == saved[0].id());
}

TEST_CASE("what changes an agent comes behind the saves that its session still holds")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    f.backend->close_gate();
    std::error_code saved, pinned, forked, pruned, settled;
    bool was_there = false;
    std::uint64_t removed = 0;
    session.async_checkpoint(session.draft(chat_of(1), 1).with_id("c1"), test::into(saved));
    session.async_checkpoint(session.draft(chat_of(2), 2).with_id("c2"), test::into(saved));
    session.async_checkpoint(session.draft(chat_of(3), 3).with_id("c3"), test::into(saved));
    session.async_pin("c2", [&](std::error_code code, bool found) {
        pinned = code;
        was_there = found;
    });
    session.async_fork("c3", "branch", test::into(forked));
    session.async_prune(retention().keep_last(1), [&](std::error_code code, const prune_result& what) {
        pruned = code;
        removed = what.count();
    });
    session.async_settle_step("nothing", 1, test::into(settled));
    f.run_until_calls(1);
    f.backend->open_gate();
    f.io.run();
    CHECK_FALSE(saved);
    CHECK_FALSE(pinned);
    CHECK(was_there);
    CHECK_FALSE(forked);
    CHECK_FALSE(pruned);
    CHECK(removed == 1); // c1: the others are pinned, and the head
    CHECK(settled == errc::not_found);
    CHECK(f.backend->load_latest("branch")->iteration() == 3);
}

TEST_CASE("a session that would replace a checkpoint says that it does not, and what to do")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    diagnostics details;
    std::error_code code;
    const auto first = session.draft(chat_of(1), 1).with_id("A");
    const auto save = [&](const checkpoint& draft) {
        session.async_checkpoint(draft, with_diagnostics(details, test::into(code)));
        f.io.run();
        f.io.restart();
    };
    save(first);
    CHECK_FALSE(code);
    save(first); // the same draft, right away: a retry
    CHECK_FALSE(code);
    save(session.draft(chat_of(2), 2).with_id("A"));
    CHECK(code == errc::conflict);
    CHECK(details.message().find("checkpoint 'A' of agent 'agent' exists") != std::string::npos);
    CHECK(details.message().find("give the draft another id") != std::string::npos);
    CHECK(f.backend->count(query("agent")) == 1);
}

TEST_CASE("destroying a session aborts what waits and lets finish what has begun")
{
    test::gated_fixture fixture;
    std::error_code begun;
    std::error_code waiting;
    int hooks = 0;
    {
        session session(fixture.store, "agent");
        session.on_checkpoint([&](const checkpoint_saved&) { ++hooks; });
        fixture.backend->close_gate();
        session.async_checkpoint("begun", 1, chat_of(1), test::into(begun));
        fixture.run_until_calls(1);
        session.async_checkpoint("waiting", 2, chat_of(2), test::into(waiting));
    }
    fixture.io.poll();
    CHECK(waiting == asio::error::operation_aborted);
    fixture.backend->open_gate();
    fixture.io.run();
    CHECK_FALSE(begun);
    CHECK(hooks == 0);
    CHECK(fixture.backend->count(query("agent")) == 1);
}

TEST_CASE("a session whose store is gone says so")
{
    asio::io_context io;
    auto store = std::make_unique<async_store>(io.get_executor(), std::make_shared<memory_store>());
    session session(*store, "agent");
    store.reset();
    std::error_code code;
    session.async_checkpoint("late", 1, chat_of(1), test::into(code));
    io.run();
    CHECK(code == errc::closed);
}

TEST_CASE("several sessions on one store, on several threads, keep their histories apart")
{
    asio::thread_pool pool(4);
    async_store store(pool.get_executor(), sqlite_store::in_memory());
    constexpr int agents = 8;
    constexpr int turns = 30;
    std::vector<std::unique_ptr<session>> sessions;
    std::atomic<int> hooks = 0;
    for (int i = 0; i < agents; ++i) {
        sessions.push_back(std::make_unique<session>(store, "agent" + std::to_string(i)));
        sessions.back()->on_checkpoint([&hooks](const checkpoint_saved&) { ++hooks; });
    }
    const auto run = [](session& own) -> asio::awaitable<void> {
        auto chat = chat_of(0);
        for (int i = 0; i < turns; ++i) {
            chat.push(message::user("turn"));
            co_await own.async_notify(event::tool_call_complete, i, chat);
        }
    };
    std::vector<std::future<void>> ends;
    for (auto& own : sessions)
        ends.push_back(asio::co_spawn(pool, run(*own), asio::use_future));
    for (auto& end : ends)
        end.get();
    CHECK(hooks == agents * turns);
    for (auto& own : sessions) {
        const auto history = own->async_history(asio::use_future).get();
        CHECK(history.size() == turns);
        CHECK(history.branches().size() == 1);
    }
    pool.join();
}

TEST_CASE("a save of a session that waits at the store can be cancelled")
{
    test::gated_fixture f;
    session session(f.store, "planner");
    int errors = 0;
    session.on_error([&](const session_error&) { ++errors; });
    f.hold_a_save(); // of another agent, in the only lane
    std::error_code cancelled, behind;
    asio::cancellation_signal signal;
    session.async_checkpoint("x", 1, chat_of(1),
                             asio::bind_cancellation_slot(signal.slot(), test::into(cancelled)));
    session.async_checkpoint("y", 2, chat_of(2), test::into(behind));
    while (f.store.queues().writes.queued_operations < 2)
        f.io.run_one();
    signal.emit(asio::cancellation_type::terminal);
    while (cancelled == std::errc::operation_in_progress)
        f.io.run_one();
    CHECK(cancelled == asio::error::operation_aborted);
    f.backend->open_gate();
    f.io.run();
    CHECK_FALSE(behind);
    CHECK(errors == 0); // nothing failed
    CHECK(f.backend->count(query("planner")) == 1);
}

TEST_CASE("one session may be used from several threads at once")
{
    asio::thread_pool pool(4);
    async_store store(pool.get_executor(), std::make_shared<memory_store>());
    session session(store, "agent");
    int running = 0; // hooks run one at a time: no lock
    session.on_checkpoint([&](const checkpoint_saved&) { ++running; });
    std::vector<std::future<checkpoint_header>> saves;
    for (int i = 0; i < 100; ++i)
        saves.push_back(session.async_checkpoint("x", i, chat_of(1), asio::use_future));
    std::vector<std::thread> callers;
    std::atomic<int> done = 0;
    for (int t = 0; t < 4; ++t)
        callers.emplace_back([&] {
            for (int i = 0; i < 50; ++i) {
                session.async_checkpoint("y", i, chat_of(1), asio::use_future).get();
                session.set_strategy(strategy::every_n(2));
                session.position();
                ++done;
            }
        });
    for (auto& caller : callers)
        caller.join();
    for (auto& save : saves)
        save.get();
    CHECK(done == 200);
    CHECK(running == 300);
    const auto history = session.async_history(asio::use_future).get();
    CHECK(history.branches().size() == 1);
    CHECK(history.size() == 300);
    pool.join();
}

TEST_CASE("a strategy that throws fails its own notification, and nothing else")
{
    test::gated_fixture fixture;
    session session(fixture.store, "agent");
    fixture.backend->close_gate();
    std::vector<std::error_code> codes(4);
    session.async_checkpoint("held", 1, chat_of(1), test::into(codes[0]));
    fixture.run_until_calls(1);
    session.set_strategy(strategy::when([](std::int64_t, event) -> bool { throw std::runtime_error("no"); }));
    session.async_notify(event::iteration, 2, chat_of(2), test::into(codes[1]));
    session.async_checkpoint("second", 3, chat_of(3), test::into(codes[2]));
    session.async_checkpoint("third", 4, chat_of(4), test::into(codes[3]));
    fixture.io.poll();
    CHECK(codes[1] == errc::callback_threw);
    fixture.backend->open_gate();
    fixture.io.run();
    CHECK_FALSE(codes[0]);
    const auto saved = fixture.backend->list(query("agent").oldest_first());
    REQUIRE(saved.size() == 3);
    CHECK(saved[1].parent_id() == saved[0].id());
    CHECK(saved[2].parent_id() == saved[1].id());
}

TEST_CASE("a session can be moved, with its hooks and what is under way")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    int told = 0;
    std::error_code code;
    session first(store, "agent");
    first.on_checkpoint([&](const checkpoint_saved&) { ++told; });
    first.async_checkpoint("one", 1, chat_of(1), test::into(code));
    session second(std::move(first));
    io.run();
    io.restart();
    CHECK_FALSE(code);
    CHECK(told == 1);
    session third(store, "other");
    third = std::move(second);
    CHECK(third.agent_id() == "agent");
    third.async_checkpoint("two", 2, chat_of(2), test::into(code));
    io.run();
    CHECK_FALSE(code);
    CHECK(told == 2);
    CHECK(store.backend()->list(query("agent")).front().parent_id());
}

TEST_CASE("a session goes on after its agent was erased")
{
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        for (int i = 0; i < 5; ++i)
            co_await session.async_checkpoint("before", i, chat_of(i));
        co_await store.async_erase_agent("agent");
        std::optional<std::string> parent;
        for (int i = 0; i < 3; ++i) {
            const auto saved = co_await session.async_checkpoint("after", i, chat_of(i));
            if (i > 0)
                CHECK(saved.parent_id() == parent);
            parent = saved.id();
        }
        const auto history = co_await session.async_history();
        CHECK(history.roots().size() == 1);
    };
    run_coroutine(io, body());
}
