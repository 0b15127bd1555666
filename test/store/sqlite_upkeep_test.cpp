//! Removing what nobody needs, noticing what is damaged.
#include "../../bench/histories.hpp"
#include "catch.hpp"
#include "sqlite_probe.hpp"
#include "tables/quick_checksum.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

#include <set>
#include <thread>

using namespace waymark;

namespace {

conversation chat_of(std::initializer_list<const char*> texts)
{
    conversation chat;
    for (const auto* text : texts)
        chat.push(message::user(text));
    return chat;
}

checkpoint named(const std::string& id, const conversation& chat)
{
    return checkpoint("agent", chat).with_id(id);
}

//! The checkpoints that cannot be loaded.
std::set<std::string> unreadable(store& store)
{
    std::set<std::string> ids;
    for (const auto& header : store.list(query("agent"))) {
        try {
            store.load("agent", header.scope(), header.id());
        } catch (const error& failure) {
            CHECK(failure.code() == errc::corrupt);
            CHECK(failure.details().message().find("'" + header.id() + "'") != std::string::npos);
            ids.insert(header.id());
        }
    }
    return ids;
}

std::set<std::string> reported(const verify_report& report)
{
    std::set<std::string> ids;
    for (const auto& damage : report.damages())
        ids.insert(damage.key.id());
    return ids;
}

} // namespace

TEST_CASE("erasing a branch removes its messages and leaves what others share")
{
    test::sqlite_on_disk f;
    auto trunk = chat_of({"one", "two"});
    f.store.save(named("trunk", trunk));
    auto branch = trunk;
    branch.push(message::user("branch"));
    f.store.save(named("branch", branch).with_state({{"file", std::string(5'000, 'b')}}));
    trunk.push(message::user("three"));
    f.store.save(named("head", trunk).with_state({{"file", std::string(5'000, 'h')}}));
    REQUIRE(f.rows("messages") == 3);
    REQUIRE(f.rows("objects") == 2);

    f.store.erase("agent", "", "branch");
    f.store.sweep("agent");
    CHECK(f.rows("messages") == 2);
    CHECK(f.rows("objects") == 1);
    f.store.erase("agent", "", "trunk"); // the head still needs its messages
    f.store.sweep("agent");
    CHECK(f.rows("messages") == 2);
    CHECK(f.store.load("agent", "", "head")->conversation() == trunk);
    f.store.erase_agent("agent");
    f.store.sweep("agent");
    for (const auto* table : {"agents", "scopes", "checkpoints", "messages", "objects", "steps"})
        CHECK(f.rows(table) == 0);
    CHECK(f.store.verify().ok());
}

TEST_CASE("pruning frees what it says, and compact gives it back")
{
    test::sqlite_on_disk f;
    bench::texts source;
    bench::coding_agent agent("agent", source);
    for (int i = 0; i < 40; ++i)
        f.store.save(agent.next().with_id(std::to_string(i)));
    // Another agent whose files nobody shares.
    bench::texts texts;
    for (int i = 0; i < 100; ++i)
        f.store.save(checkpoint("big").with_state({{"file", texts.next(100'000)}}));
    const auto before = f.store.stats().bytes;
    const auto dry = f.store.prune("big", retention{}.keep_last(1), dry_run::yes);
    const auto real = f.store.prune("big", retention{}.keep_last(1), dry_run::no);
    CHECK(dry.bytes() == real.bytes());
    CHECK(real.bytes() > 99 * 100'000);
    CHECK(real.bytes() < 99 * 102'000);
    std::vector<upkeep_progress> seen;
    const upkeep_control control = [&](const upkeep_progress& now) { seen.push_back(now); };
    CHECK(f.store.compact(control) > 9'000'000);
    REQUIRE(seen.size() > 2);
    CHECK(seen.back().done == seen.back().total);
    CHECK(seen.back().done > 1000); // pages
    for (std::size_t i = 1; i < seen.size(); ++i)
        CHECK(seen[i].done >= seen[i - 1].done);
    CHECK(f.store.stats().bytes < before - 9'000'000);
    CHECK(f.store.prune("big", retention{}.keep_last(1), dry_run::no).count() == 0);

    // What the newest shares with the older ones does not become free.
    const auto shared = f.store.prune("agent", retention{}.keep_last(1), dry_run::no);
    CHECK(shared.count() == 39);
    CHECK(shared.bytes() < 39 * 3'000);
    CHECK(f.store.load_latest("agent")->conversation().size() == 80);
    CHECK(f.store.verify().ok());
}

TEST_CASE("a conversation does not rely on messages that were swept")
{
    test::sqlite_on_disk f;
    sqlite_store other(f.file); // as another process would
    auto chat = chat_of({"one", "two", "three"});
    f.store.save(named("a", chat));
    chat.push(message::user("four"));
    f.store.save(named("b", chat));

    other.erase("agent", "", "b");
    other.erase("agent", "", "a");
    other.sweep("agent");
    CHECK(f.rows("messages") == 0);
    chat.push(message::user("five"));
    f.store.save(named("c", chat)); // it remembers four messages that are gone
    CHECK(f.store.load("agent", "", "c")->conversation() == chat);
    CHECK(f.store.verify().ok());

    // Where a sweep removed something else, what is remembered still counts.
    auto branch = chat;
    branch.push(message::user("dropped"));
    f.store.save(named("d", branch));
    other.erase("agent", "", "d");
    chat.push(message::user("six"));
    CHECK(f.store.save(named("e", chat)).bytes_written() < 700);
    CHECK(f.store.verify().ok());

    // An agent of the same name is another agent.
    other.erase_agent("agent");
    chat.push(message::user("seven"));
    f.store.save(named("f", chat));
    CHECK(f.store.load("agent", "", "f")->conversation() == chat);
}

TEST_CASE("savers and sweeps of two stores get along")
{
    test::sqlite_on_disk f;
    std::atomic<bool> done = false;
    std::string problem;
    std::thread sweeper([&] {
        try {
            sqlite_store other(f.file);
            while (!done) {
                other.prune("agent", retention{}.keep_last(3), dry_run::no);
                for (const auto& header : other.list(query("agent").named("branch")))
                    other.erase("agent", "", header.id());
            }
        } catch (const std::exception& failure) {
            problem = failure.what();
        }
    });
    conversation chat;
    for (int i = 0; i < 150; ++i) {
        auto branch = chat;
        branch.push(message::user("branch " + std::to_string(i)));
        f.store.save(checkpoint("agent", branch)
                         .with_name("branch")
                         .with_state({{"file", std::string(2'000, static_cast<char>('a' + i % 26))}}));
        if (i % 7 == 0)
            chat = branch; // relies on what the sweeper may be removing
        chat.push(message::user("turn " + std::to_string(i)));
        const auto next = checkpoint("agent", chat).with_state({{"file", std::string(2'000, 'x')}});
        f.store.save(next);
        CHECK(f.store.load_latest("agent") == next);
    }
    done = true;
    sweeper.join();
    CHECK(problem.empty());
    CHECK(f.store.verify().ok());
}

TEST_CASE("damage makes exactly the checkpoints unreadable that need it")
{
    test::sqlite_on_disk f;
    auto chat = chat_of({"shared"});
    f.store.save(named("a", chat).with_state({{"file", std::string(5'000, 'a')}}));
    auto branch = chat;
    branch.push(message::user("only in b"));
    f.store.save(named("b", branch));
    chat.push(message::user("in c and d"));
    f.store.save(named("c", chat));
    f.store.save(named("d", chat).with_state({{"file", std::string(5'000, 'a')}}));
    f.store.save(checkpoint("other", chat).with_id("untouched"));
    REQUIRE(f.store.verify().ok());
    using ids = std::set<std::string>;

    SECTION("a message")
    {
        f.damage("UPDATE messages SET body = replace(body, 'only in b', 'Only in b') WHERE agent = 1");
        CHECK(unreadable(f.store) == ids{"b"});
        CHECK(reported(f.store.verify()) == ids{"b"});
    }
    SECTION("the hash of a message")
    {
        f.damage("UPDATE messages SET digests = zeroblob(length(digests)) WHERE body LIKE '%only in b%'");
        CHECK(unreadable(f.store) == ids{"b"});
        CHECK(reported(f.store.verify()) == ids{"b"});
    }
    SECTION("the checksum of a row whose messages are intact")
    {
        f.damage("UPDATE messages SET digests = CAST(substr(digests, 1, 32) || 'mistaken' AS BLOB) "
                 "WHERE body LIKE '%only in b%'");
        CHECK(unreadable(f.store) == ids{});
        CHECK_FALSE(f.store.verify().ok());
    }
    SECTION("a message that is gone")
    {
        f.damage("DELETE FROM messages WHERE agent = 1 AND body LIKE '%in c and d%'");
        CHECK(unreadable(f.store) == ids{"c", "d"});
        CHECK(reported(f.store.verify()) == ids{"c", "d"});
    }
    SECTION("messages that changed places")
    {
        f.damage("UPDATE messages SET first = -first WHERE agent = 1 AND first IN (2, 3);"
                 "UPDATE messages SET first = 5 + first WHERE agent = 1 AND first < 0");
        CHECK(unreadable(f.store) == ids{"b", "c", "d"});
        CHECK(reported(f.store.verify()) == ids{"b", "c", "d"});
    }
    SECTION("a part of the state")
    {
        f.damage("UPDATE objects SET body = CAST('\"short\"' AS BLOB) WHERE agent = 1");
        CHECK(unreadable(f.store) == ids{"a", "d"});
        CHECK(reported(f.store.verify()) == ids{"a", "d"});
    }
    SECTION("a part of the state, with a hash that fits")
    {
        sqlite_store(f.file).save(named("e", chat).with_state({{"file", std::string(5'000, 'e')}}));
        f.damage("UPDATE objects SET body = (SELECT body FROM objects WHERE number = 2 AND agent = 1), "
                 "hash = (SELECT hash FROM objects WHERE number = 2 AND agent = 1) WHERE number = 1 AND "
                 "agent = 1");
        CHECK(unreadable(f.store) == ids{"a", "d"});
        CHECK(reported(f.store.verify()) == ids{"a", "d"});
    }
    SECTION("a checkpoint's own row")
    {
        f.damage("UPDATE checkpoints SET name = 'x' WHERE id = 'c'");
        CHECK(unreadable(f.store) == ids{"c"});
        CHECK(reported(f.store.verify()) == ids{"c"});
        for (const auto& header : f.store.list(query("agent")))
            CHECK(header.damage().has_value() == (header.id() == "c"));
        CHECK_THROWS_AS(f.store.load_all(query("agent")), error);
        f.store.save(named("c", chat)); // saving it again mends it
        CHECK(f.store.verify().ok());
    }
    SECTION("a checkpoint that vanished")
    {
        f.damage("DELETE FROM checkpoints WHERE id = 'b'");
        CHECK_THROWS_AS(f.store.list(query("agent")), error);
        CHECK_THROWS_AS(f.store.load("agent", "", "b"), error); // not: there is none
        CHECK(f.store.load("agent", "", "a"));
        CHECK(f.store.load_latest("agent")->id() == "d");
        CHECK_FALSE(f.store.verify().ok());
    }
    SECTION("a head that vanished")
    {
        f.damage("DELETE FROM checkpoints WHERE id = 'd'");
        CHECK_THROWS_AS(f.store.load_latest("agent"), error); // not: an older one
        CHECK(f.store.load("agent", "", "c"));
        CHECK_FALSE(f.store.verify().ok());
    }
    SECTION("the record of a scope, or of an agent")
    {
        const auto* sql = GENERATE("UPDATE scopes SET head = head - 1 WHERE agent = 1",
                                   "UPDATE scopes SET checkpoints = checkpoints - 1 WHERE agent = 1",
                                   "DELETE FROM scopes WHERE agent = 1",
                                   "UPDATE agents SET next_message = 1 WHERE number = 1");
        f.damage(sql);
        CHECK_THROWS_AS(f.store.load_latest("agent"), error);
        CHECK_FALSE(f.store.verify().ok());
        sqlite_store again(f.file);
        CHECK_THROWS_AS(again.save(named("z", chat)), error);
    }
    CHECK(f.store.load("other", "", "untouched")->conversation() == chat);
}

TEST_CASE("rows without a checksum, which older files have, are read and checked by their hashes")
{
    test::sqlite_on_disk f;
    const auto saved = named("a", chat_of({"one", "two"}));
    f.store.save(saved);
    f.damage("UPDATE messages SET digests = substr(digests, 1, 64)");
    CHECK(f.store.load("agent", "", "a") == saved);
    CHECK(f.store.verify().ok());
    f.damage("UPDATE messages SET body = replace(body, 'two', 'TWO')");
    CHECK(unreadable(f.store) == std::set<std::string>{"a"});
}

TEST_CASE("the quick checksum is XXH64")
{
    CHECK(tables::quick_checksum("") == 0xEF46DB3751D8E999);
    CHECK(tables::quick_checksum("a") == 0xD24EC4F1A98C6E5B);
    CHECK(tables::quick_checksum("abc") == 0x44BC2CF5AD770999);
    CHECK(tables::quick_checksum("Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1);
    CHECK(tables::quick_checksum("xxhash", 20141025) == 0xB559B98D844E0635);
}

TEST_CASE("saving a damaged checkpoint again under its key repairs it")
{
    test::sqlite_on_disk f;
    const auto chat = chat_of({"one", "two"});
    const auto saved = named("a", chat).with_state({{"file", std::string(5'000, 'a')}});
    f.store.save(saved);
    f.damage(GENERATE("UPDATE messages SET body = replace(body, 'two', 'TWO')",
                      "UPDATE objects SET body = CAST('\"short\"' AS BLOB)", "DELETE FROM messages",
                      "DELETE FROM objects", "UPDATE checkpoints SET name = 'x'"));
    REQUIRE(unreadable(f.store) == std::set<std::string>{"a"});
    f.store.save(saved);
    CHECK(f.store.load("agent", "", "a") == saved);
    CHECK(f.store.verify().ok());
    CHECK(f.store.save(saved).bytes_written() == 0);
}

TEST_CASE("a part that is still there does not vouch for the rest")
{
    test::sqlite_on_disk f;
    auto chat = chat_of({"one", "two"});
    f.store.save(named("short", chat));
    chat.push(message::user("three"));
    f.store.save(named("long", chat));
    chat = f.store.load("agent", "", "long")->conversation();
    auto fork = chat;
    fork.truncate(2);
    f.store.erase("agent", "", "long"); // sweeps "three"
    fork.push(message::user("fork"));
    f.store.save(named("fork", fork));
    f.store.save(named("long again", chat));
    CHECK(f.store.load("agent", "", "long again")->conversation() == chat);
    CHECK(f.store.verify().ok());
}

TEST_CASE("what another process wrote is noticed after a transaction that failed, too")
{
    test::sqlite_on_disk f;
    sqlite_store other(f.file);
    const auto chat = chat_of({"one"});
    f.store.save(named("a", chat));
    other.erase_agent("agent");
    CHECK_THROWS_AS(f.store.copy_agent("nobody", "y"), error);
    f.store.save(named("b", chat)); // must not go to the agent that was erased
    CHECK(f.store.load("agent", "", "b"));
    CHECK(f.store.verify().ok());
}

TEST_CASE("pages notice what vanished")
{
    test::sqlite_on_disk f;
    for (int i = 0; i < 6; ++i)
        f.store.save(named(std::to_string(i), chat_of({"x"})));
    const auto page = f.store.list(query("agent").limit(3));
    SECTION("behind the first page")
    {
        f.damage("DELETE FROM checkpoints WHERE id = '1'");
        CHECK_THROWS_AS(f.store.list(query("agent").after(cursor(page.back()))), error);
    }
    SECTION("the newest")
    {
        f.damage("DELETE FROM checkpoints WHERE id = '5'");
        CHECK_THROWS_AS(f.store.list(query("agent").limit(1)), error);
        CHECK_THROWS_AS(f.store.save(named("z", {}), save_options{}.expect_head(std::nullopt)), error);
    }
}

TEST_CASE("a damaged step is an error, and a vanished one, too")
{
    test::sqlite_on_disk f;
    f.store.save(named("a", {}));
    const std::vector<step_request> batch = {step("agent", "", "call-1").with_result("sent"),
                                             step("agent", "", "call-2")};
    f.store.put_steps(batch);
    REQUIRE(f.store.load_steps(step_query("agent")).size() == 2);
    const auto* sql = GENERATE("UPDATE steps SET result = NULL WHERE key = 'call-1'",
                               "DELETE FROM steps WHERE key = 'call-1'");
    f.damage(sql);
    CHECK_THROWS_AS(f.store.load_steps(step_query("agent")), error);
    CHECK_THROWS_AS(f.store.load_steps(step_query("agent").scope("").key("call-1")), error);
    CHECK_FALSE(f.store.verify().ok());
}

TEST_CASE("verification reports its progress")
{
    test::sqlite_on_disk f;
    bench::texts source;
    bench::growing_agent agent("agent", source);
    for (int i = 0; i < 600; ++i)
        f.store.save(agent.next());
    std::vector<upkeep_progress> seen;
    const auto report = f.store.verify([&](const upkeep_progress& progress) { seen.push_back(progress); });
    CHECK(report.ok());
    CHECK(report.checked() == 1'800); // 600 checkpoints, and a row for each of 1,200 messages
    REQUIRE(seen.size() >= 3);
    CHECK(seen.front().done < seen.front().total);
    CHECK(seen.back().done == seen.back().total);
}

TEST_CASE("what an interrupted removal left is removed by compact")
{
    test::sqlite_on_disk f;
    f.store.save(named("a", chat_of({"one"})));
    f.store.save(named("a", chat_of({"two"}))); // replaced in place: "one" is not needed any more
    CHECK(f.rows("messages") == 2);
    f.store.compact();
    CHECK(f.rows("messages") == 1);
    CHECK(f.store.load("agent", "", "a")->conversation()[0].text() == "two");
    CHECK(f.store.verify().ok());
}

TEST_CASE("a damaged step keeps every checkpoint of its scope from retention, in rows, too")
{
    test::sqlite_on_disk shared;
    for (const std::string id : {"1", "2", "3"})
        shared.store.save(named(id, chat_of({"a"})));
    const step_request pending(step("agent", "", "call").with_checkpoint("1"));
    shared.store.put_steps(std::span(&pending, 1));
    shared.damage("UPDATE steps SET checkpoint = '2'");
    CHECK(shared.store.prune("agent", retention().keep_last(1), dry_run::no).count() == 0);
}

TEST_CASE("verify() reports an agent whose record has vanished")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "agents.db";
    sqlite_store store(file);
    store.save(checkpoint("lost"));
    store.save(checkpoint("kept"));
    store.save(checkpoint("erased"));
    store.erase_agent("erased");
    CHECK(store.verify().ok());
    test::other_connection(file).run("DELETE FROM agents WHERE id = 'lost'");
    const auto report = store.verify();
    REQUIRE(report.damages().size() == 1);
    CHECK(report.damages().front().what.find("record of the agent") != std::string::npos);
}
