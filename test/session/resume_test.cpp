//! Resuming, repairing, falling back; two sessions that want the same agent.
#include "forwarding_store.hpp"
#include "on_every_store.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <fstream>

using namespace waymark;
using test::chat_of;
using test::failure;
using test::on_every_store;
using test::run_coroutine;

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
    CHECK(repaired->conversation().back().tool_results().at(0).call_id() == "call-2");
    const auto with_text = co_await second.async_resume(resume_options().repair("lost in a crash"));
    CHECK(with_text->conversation().back().text() == "lost in a crash");

    auto chat = repaired->conversation();
    chat.push(message::user("Go on."));
    const auto next = co_await second.async_notify(event::tool_call_complete, 8, chat);
    CHECK(next->parent_id() == saved.id());
    const auto latest = co_await second.async_load_latest();
    CHECK(latest->conversation() == chat);
}

} // namespace

TEST_CASE("resuming hands out the head, and repairs tool calls if asked", "[stores]")
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
        co_await session.async_resume(how.token());
        CHECK(how.code == errc::corrupt);
        co_await session.async_resume(resume_options().repair(), how.token());
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
        co_await session.async_resume(resume_options().fall_back(), how.token());
        CHECK(how.code == errc::corrupt); // nothing readable is not "nothing there"
    };
    run_coroutine(io, body());
}

// Exclusive sessions

namespace {

//! The head, checkpoint 3, is damaged or gone.
asio::awaitable<void> go_on_behind_damage(async_store& store)
{
    session fell_back{store, "agent", session_options().exclusive()};
    session other{store, "agent", session_options().exclusive()};
    failure how;
    co_await fell_back.async_resume(how.token());
    CHECK(how.code == errc::corrupt);
    for (auto* each : {&fell_back, &other}) {
        const auto found = co_await each->async_resume(resume_options().fall_back());
        REQUIRE(found);
        CHECK(found->id() == "2");
        CHECK(found.damage());
    }
    // More than one: the damage is still there after the first.
    const auto act = []() -> asio::awaitable<boost::json::value> { co_return "done"; };
    for (int i = 4; i < 7; ++i) {
        const auto made = co_await fell_back.async_step("step-" + std::to_string(i), act);
        CHECK(made == "done");
        const auto saved = co_await fell_back.async_checkpoint("on", i, chat_of(i));
        CHECK((i > 4 || saved.parent_id() == "2"));
    }
    // The other one fell back to the same, and is too late.
    std::error_code late;
    try {
        co_await other.async_step("late", act);
    } catch (const error& refused) {
        late = refused.code();
    }
    CHECK(late == errc::conflict);
    co_await other.async_checkpoint("late", 4, chat_of(4), how.token());
    CHECK(how.code == errc::conflict);
    CHECK(how.says("another writer moved the head"));
}

void save_three(store& in)
{
    for (int i = 1; i <= 3; ++i)
        in.save(checkpoint("agent", chat_of(i), i).with_id(std::to_string(i)));
}

} // namespace

TEST_CASE("an exclusive session that fell back saves, until somebody else does")
{
    const test::temporary_folder folder;
    asio::io_context io;
    std::shared_ptr<waymark::store> backend;
    SECTION("the row of the head has vanished")
    {
        const auto file = folder.path() / "agents.db";
        backend = std::make_shared<sqlite_store>(file);
        save_three(*backend);
        test::other_connection(file).run("DELETE FROM checkpoints WHERE id = '3'");
    }
    SECTION("the row of the head is damaged")
    {
        const auto file = folder.path() / "agents.db";
        backend = std::make_shared<sqlite_store>(file);
        save_three(*backend);
        test::other_connection(file).run("UPDATE checkpoints SET iteration = 7 WHERE id = '3'");
    }
    SECTION("messages of the head have vanished")
    {
        const auto file = folder.path() / "agents.db";
        backend = std::make_shared<sqlite_store>(file);
        save_three(*backend);
        test::other_connection(file).run(
            "DELETE FROM messages WHERE first = (SELECT max(first) FROM messages)");
    }
    SECTION("the file of the head is damaged")
    {
        backend = std::make_shared<file_store>(folder.path() / "agents");
        save_three(*backend);
        std::ofstream(folder.path() / "agents" / "agent" / "3.json", std::ios::app) << "{";
    }
    async_store store(io.get_executor(), backend);
    run_coroutine(io, go_on_behind_damage(store));
}

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
    co_await first.async_checkpoint("mine, too", 2, chat_of(3), how.token());
    CHECK(how.code == errc::conflict);
    CHECK(how.says("host-2"));
    CHECK(how.says(moved.id()));
    CHECK(how.says("async_resume()"));
    co_await first.async_notify(event::tool_call_complete, 2, chat_of(3), how.token());
    CHECK(how.code == errc::conflict);
    co_await first.async_rollback_to(moved.id(), how.token());
    CHECK(how.code == errc::conflict);
    const auto count = co_await first.async_count();
    CHECK(count == 2);

    const auto head = co_await first.async_resume();
    CHECK(head->id() == moved.id());
    const auto again = co_await first.async_checkpoint("mine again", 3, chat_of(3));
    CHECK(again.parent_id() == moved.id());

    // One that has seen nothing goes on from nothing.
    session other{store, "other", session_options().exclusive()};
    co_await other.async_resume();
    session faster{store, "other"};
    co_await faster.async_checkpoint("faster", 1, chat_of(1));
    co_await other.async_checkpoint("blind", 1, chat_of(1), how.token());
    CHECK(how.code == errc::conflict);
    CHECK(how.says("went on from nothing"));
}

//! A forgotten async_resume.
asio::awaitable<void> save_without_resume(async_store& store)
{
    session first{store, "agent"};
    co_await first.async_checkpoint("root", 1, chat_of(1));
    const auto head = co_await first.async_checkpoint("head", 2, chat_of(2));

    session forgetful{store, "agent"};
    const auto saved = co_await forgetful.async_checkpoint("goes on", 3, chat_of(3));
    CHECK(saved.parent_id() == head.id());
    session exclusive{store, "agent", session_options().exclusive()};
    const auto next = co_await exclusive.async_checkpoint("goes on", 4, chat_of(4));
    CHECK(next.parent_id() == saved.id());
    int runs = 0;
    session stepping{store, "agent", session_options().exclusive()};
    const auto count = [&runs]() -> asio::awaitable<boost::json::value> { co_return ++runs; };
    co_await stepping.async_step("step", count);
    const auto steps = co_await stepping.async_load_steps();
    REQUIRE(steps.size() == 1);
    CHECK(steps[0].checkpoint_id() == next.id());

    // Another root only if that is asked for, once, and whoever moved the head is noticed all the same.
    session anew{store, "agent", session_options().start_new_root().exclusive()};
    const auto root = co_await anew.async_checkpoint("anew", 1, chat_of(1));
    CHECK_FALSE(root.parent_id());
    const auto after = co_await anew.async_checkpoint("behind it", 2, chat_of(2));
    CHECK(after.parent_id() == root.id());
    session empty{store, "nobody yet", session_options().start_new_root()};
    const auto only = co_await empty.async_checkpoint("first", 1, chat_of(1));
    CHECK_FALSE(only.parent_id());
}

} // namespace

TEST_CASE("a session that was not resumed goes on from the head, or begins anew if it is told to", "[stores]")
{
    on_every_store(save_without_resume);
}

TEST_CASE("of two exclusive sessions one gets a conflict that says who moved the head", "[stores]")
{
    on_every_store(two_writers);
}
