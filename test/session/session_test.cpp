//! Events, strategies, order, the session's place, resuming, exclusive sessions.
#include "gated_fixture.hpp"
#include "on_every_store.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/detached.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <semaphore>

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

TEST_CASE("async_notify saves when the strategy says so, with the last saved checkpoint as parent")
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
        co_await session.async_checkpoint(checkpoint("other"), how.details, how.token());
        CHECK(how.code == errc::invalid_argument);
        CHECK(how.says("the draft is of agent 'other'"));
        co_await session.async_checkpoint(checkpoint("agent").with_scope("elsewhere"), how.details,
                                          how.token());
        CHECK(how.code == errc::invalid_argument);
        co_await session.async_checkpoint(checkpoint("agent").with_id("one"), how.details, how.token());
        CHECK_FALSE(how.code);
        const auto saved = co_await store.async_load("agent", "sub", "one");
        CHECK(saved);
        co_await session.async_checkpoint(checkpoint("agent", {}, 9).with_id("one"), how.details,
                                          how.token());
        CHECK(how.code == errc::conflict);
        co_await session.async_checkpoint(*saved, how.details, how.token()); // a repetition is harmless
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

TEST_CASE("saves of a session never overtake each other, whoever waits for them")
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
        co_await session.async_checkpoint("lost", 2, chat_of(2), how.details, how.token());
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
            co_await session.async_checkpoint(doubtful, how.details, how.token());
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
    fixture.io.poll();
    fixture.backend->wait_for_calls(1);
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
        fixture.io.poll();
        fixture.backend->wait_for_calls(1);
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
    fixture.io.poll();
    fixture.backend->wait_for_calls(1);
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

// Resuming

namespace {

conversation interrupted_chat()
{
    auto chat = chat_of(1);
    std::vector<tool_call> calls;
    calls.emplace_back("call-1", "search");
    calls.emplace_back("call-2", "book");
    chat.push(message::assistant("Let me look.", calls));
    chat.push(message::tool_result("call-1", "found"));
    return chat;
}

asio::awaitable<void> resume_and_repair(async_store& store)
{
    session session{store, "agent"};
    const auto nothing = co_await session.async_resume();
    CHECK_FALSE(nothing);
    const auto nothing_with_options = co_await session.async_resume(resume_options().repair().fall_back());
    CHECK_FALSE(nothing_with_options);

    const auto saved = co_await session.async_checkpoint("before the crash", 7, interrupted_chat());
    waymark::session second{store, "agent"};
    const std::optional<checkpoint> head = co_await second.async_resume();
    REQUIRE(head);
    CHECK(head->id() == saved.id());
    CHECK(head->iteration() == 7);
    CHECK(head->conversation().unanswered_tool_calls().size() == 1);
    CHECK(second.position() == saved.id());

    const auto plain = co_await second.async_resume(resume_options());
    REQUIRE(plain);
    CHECK(plain->conversation() == head->conversation());
    CHECK(plain.unanswered_tool_calls().at(0).id() == "call-2");
    CHECK(plain.passed_over().empty());
    const auto repaired = co_await second.async_resume(resume_options().repair());
    CHECK(repaired.unanswered_tool_calls().size() == 1);
    CHECK(repaired->conversation().unanswered_tool_calls().empty());
    CHECK(repaired->conversation().back().tool_call_id() == "call-2");
    const auto with_text = co_await second.async_resume(resume_options().repair("lost in a crash"));
    CHECK(with_text->conversation().back().content() == "lost in a crash");

    auto chat = repaired->conversation();
    chat.push(message::user("Go on."));
    const auto next = co_await second.async_notify(event::tool_call_complete, 8, chat);
    CHECK(next->parent_id() == saved.id());
    const auto latest = co_await second.async_latest();
    CHECK(latest->conversation() == chat);
}

} // namespace

TEST_CASE("resuming hands out the head, and repairs tool calls if asked")
{
    on_every_store(resume_and_repair);
}

TEST_CASE("a damaged head is passed over only if asked, and that is said")
{
    //! The newest two checkpoints cannot be read.
    class damaged final : public test::forwarding_store {
    public:
        std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope) override
        {
            const auto head = list(query(std::string(agent)).scope(std::string(scope)).limit(1));
            return head.empty() ? std::nullopt : load(agent, scope, head.front().id());
        }
        std::optional<checkpoint> load(std::string_view agent, std::string_view scope,
                                       std::string_view id) override
        {
            if (id == "4" || id == "3" || all)
                throw error(errc::corrupt, "checkpoint '" + std::string(id) + "' is damaged");
            return forwarding_store::load(agent, scope, id);
        }
        std::vector<checkpoint_header> list(const query& query) override
        {
            auto headers = forwarding_store::list(query);
            for (auto& header : headers)
                if (header.id() == "3")
                    header.with_damage("the checksum of its row differs");
            return headers;
        }
        bool all = false;
    };
    asio::io_context io;
    const auto backend = std::make_shared<damaged>();
    async_store store(io.get_executor(), backend);
    for (int i = 1; i <= 4; ++i)
        backend->store::save(checkpoint("agent", chat_of(i), i).with_id(std::to_string(i)));
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent", session_options().exclusive()};
        failure how;
        co_await session.async_resume(how.details, how.token());
        CHECK(how.code == errc::corrupt);
        co_await session.async_resume(resume_options().repair(), how.details, how.token());
        CHECK(how.code == errc::corrupt);
        const auto found = co_await session.async_resume(resume_options().fall_back());
        REQUIRE(found);
        CHECK(found->id() == "2");
        REQUIRE(found.passed_over().size() == 2);
        CHECK(found.passed_over()[0].id() == "4");
        CHECK(found.passed_over()[0].damage() == "checkpoint '4' is damaged");
        CHECK(found.passed_over()[1].id() == "3");
        // The damaged one is still the head: saving goes on behind it, with the readable one as parent.
        const auto saved = co_await session.async_checkpoint("on", 5, chat_of(5));
        CHECK(saved.parent_id() == "2");
        backend->all = true;
        co_await session.async_resume(resume_options().fall_back(), how.details, how.token());
        CHECK(how.code == errc::corrupt); // nothing readable is not "nothing there"
    };
    run_coroutine(io, body());
}

// Exclusive sessions

namespace {

asio::awaitable<void> two_writers(async_store& store)
{
    session first{store, "agent", session_options().exclusive().with_writer("host-1")};
    session second{store, "agent", session_options().exclusive().with_writer("host-2")};
    co_await first.async_checkpoint("begin", 1, chat_of(1));
    co_await second.async_resume();
    const auto moved = co_await second.async_checkpoint("mine", 2, chat_of(2));
    CHECK(moved.metadata().at("writer") == "host-2");

    failure how;
    co_await first.async_checkpoint("mine, too", 2, chat_of(3), how.details, how.token());
    CHECK(how.code == errc::conflict);
    CHECK(how.says("host-2"));
    CHECK(how.says(moved.id()));
    CHECK(how.says("async_resume()"));
    co_await first.async_notify(event::tool_call_complete, 2, chat_of(3), how.details, how.token());
    CHECK(how.code == errc::conflict);
    co_await first.async_rollback_to(moved.id(), how.details, how.token());
    CHECK(how.code == errc::conflict);
    const auto count = co_await first.async_count();
    CHECK(count == 2);

    const auto head = co_await first.async_resume();
    CHECK(head->id() == moved.id());
    const auto again = co_await first.async_checkpoint("mine again", 3, chat_of(3));
    CHECK(again.parent_id() == moved.id());

    // Without a look at what is there, an exclusive session does not begin a second history.
    session third{store, "agent", session_options().exclusive()};
    co_await third.async_checkpoint("blind", 1, chat_of(1), how.details, how.token());
    CHECK(how.code == errc::conflict);
    CHECK(how.says("went on from nothing"));
}

} // namespace

TEST_CASE("of two exclusive sessions one gets a conflict that says who moved the head")
{
    on_every_store(two_writers);
}

// Retention

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

TEST_CASE("retention runs by itself after saves")
{
    on_every_store(retention_by_itself);
}

TEST_CASE("retention runs by hand, with a dry run, and spares what is pinned")
{
    on_every_store(retention_by_hand);
}

TEST_CASE("no save waits for a prune, and a prune concerns the session's scope")
{
    //! A prune that does not end before it is told to.
    class slow final : public test::forwarding_store {
    public:
        prune_result prune(std::string_view agent, const retention& policies, dry_run dry) override
        {
            ++prunes;
            released.acquire();
            return forwarding_store::prune(agent, policies, dry);
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
        CHECK(backend->prunes == 1); // it runs, and all five saves are done
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
    class stubborn final : public test::forwarding_store {
    public:
        prune_result prune(std::string_view, const retention&, dry_run) override
        {
            throw error(errc::busy, "not now");
        }
    };
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<stubborn>());
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

// Names, queries, clearing

namespace {

asio::awaitable<void> names_and_queries(async_store& store)
{
    session session{store, "agent"};
    waymark::session sub{store, "agent", session_options().with_scope("sub")};
    const auto start = now();
    for (int i = 0; i < 6; ++i)
        co_await session.async_checkpoint(session.draft(chat_of(i), i)
                                              .with_name(i % 2 == 0 ? "even" : "odd")
                                              .with_created_at(start + std::chrono::seconds(i)));
    co_await sub.async_checkpoint("even", 9, chat_of(1));

    const auto even = co_await session.async_list(session.query().named("even"));
    REQUIRE(even.size() == 3);
    CHECK(even.front().iteration() == 4); // newest first
    const auto latest = co_await session.async_latest();
    CHECK(latest->iteration() == 5);
    const auto latest_even = co_await session.async_latest("even");
    CHECK(latest_even->iteration() == 4);
    const auto latest_none = co_await session.async_latest("none");
    CHECK_FALSE(latest_none);
    const auto by_id = co_await session.async_load(even.front().id());
    CHECK(by_id->conversation().size() == 4);
    const auto unknown = co_await session.async_load("nobody");
    CHECK_FALSE(unknown);
    const auto all = co_await session.async_list();
    CHECK(all.size() == 6);
    const auto since = co_await session.async_list(session.query().since(start + std::chrono::seconds(3)));
    CHECK(since.size() == 2);
    const auto between = co_await session.async_load_all(
        session.query()
            .between(start + std::chrono::seconds(1), start + std::chrono::seconds(3))
            .oldest_first());
    REQUIRE(between.size() == 3);
    CHECK(between.front().iteration() == 1);
    const auto counted = co_await session.async_count(session.query().named("odd"));
    CHECK(counted == 3);
    const auto across = co_await session.async_count(query("agent"));
    CHECK(across == 7);

    std::vector<std::int64_t> paged;
    auto wanted = session.query().oldest_first().limit(4);
    for (;;) {
        const auto page = co_await session.async_list(wanted);
        for (const auto& header : page)
            paged.push_back(header.iteration());
        if (page.size() < 4)
            break;
        wanted.after(cursor(page.back()));
    }
    CHECK(paged == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});

    const auto cleared = co_await session.async_clear();
    CHECK(cleared == 6);
    CHECK_FALSE(session.position());
    const auto nothing = co_await session.async_clear();
    CHECK(nothing == 0);
    const auto of_sub = co_await sub.async_count();
    CHECK(of_sub == 1);
    const auto fresh = co_await session.async_checkpoint("fresh", 1, chat_of(1));
    CHECK_FALSE(fresh.parent_id());
}

asio::awaitable<void> summarize(async_store& store)
{
    session session{store, "agent"};
    const auto empty = co_await session.async_summary();
    CHECK(empty.checkpoints() == 0);
    CHECK_FALSE(empty.first());
    CHECK(empty.duration().count() == 0);

    const auto start = now();
    auto chat = chat_of(0);
    for (int i = 0; i < 40; ++i) {
        chat.push(message::user(std::string(1'000, 'x')));
        co_await session.async_checkpoint(session.draft(chat, i)
                                              .with_name(i % 4 == 0   ? "plan"
                                                         : i % 4 == 1 ? "act"
                                                                      : "")
                                              .with_created_at(start + std::chrono::seconds(i)));
    }
    const auto summary = co_await session.async_summary();
    CHECK(summary.checkpoints() == 40);
    CHECK(summary.unique_names() == 2);
    CHECK(summary.names().at("plan") == 10);
    CHECK(summary.first()->iteration() == 0);
    CHECK(summary.last()->iteration() == 39);
    CHECK(summary.duration() == std::chrono::seconds(39));
    CHECK(summary.bytes_stored() > 40'000);
    const auto json = boost::json::value_from(summary);
    CHECK(json.at("total_count") == 40);
    CHECK(json.at("duration_seconds") == 39.0);
}

} // namespace

TEST_CASE("checkpoints are found by id, name, time and page, and cleared by scope")
{
    on_every_store(names_and_queries);
}

TEST_CASE("a summary counts, and says what sharing saved")
{
    on_every_store(summarize);
}

TEST_CASE("sharing is counted where a store shares")
{
    asio::io_context io;
    async_store store(io.get_executor(), sqlite_store::in_memory());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        auto chat = chat_of(0);
        for (int i = 0; i < 40; ++i) {
            chat.push(message::user(std::string(1'000, 'x') + std::to_string(i)));
            co_await session.async_notify(event::tool_call_complete, i, chat);
        }
        const auto summary = co_await session.async_summary();
        CHECK(summary.bytes_stored() < 60'000);
        CHECK(summary.bytes_shared() > 700'000); // of 820,000
        co_await session.async_prune(retention().keep_last(1));
        const auto left = co_await session.async_summary();
        CHECK(left.bytes_shared() < 2'000); // there is nobody left to share with
    };
    run_coroutine(io, body());
}
