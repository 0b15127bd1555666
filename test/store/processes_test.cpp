//! Several processes on one store, and processes that are killed.
#include "catch.hpp"
#include "child_process.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <set>

using namespace waymark;

namespace {

test::child_process worker(const std::string& kind, const std::filesystem::path& path,
                           const std::string& agent, int count)
{
    return test::child_process({WAYMARK_STORE_WORKER, kind, path.native(), agent, std::to_string(count)});
}

std::unique_ptr<store> open(const std::string& kind, const std::filesystem::path& path)
{
    if (kind == "sqlite")
        return std::make_unique<sqlite_store>(path);
    return std::make_unique<file_store>(path);
}

} // namespace

TEST_CASE("eight processes open the same new SQLite file at once")
{
    for (int round = 0; round < 5; ++round) {
        const test::temporary_folder folder;
        std::vector<test::child_process> processes;
        for (int i = 0; i < 8; ++i)
            processes.push_back(worker("sqlite", folder.path() / "new" / "store.db", "agent", 1));
        for (auto& process : processes)
            CHECK(process.wait() == 0);
        sqlite_store store(folder.path() / "new" / "store.db");
        CHECK(store.count(query("agent")) == 8);
        CHECK(store.verify().ok());
    }
}

TEST_CASE("four processes save and load on one SQLite file at once")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    constexpr int saves = 100;
    {
        std::vector<test::child_process> processes;
        for (const auto* agent : {"shared", "shared", "shared", "own"})
            processes.push_back(worker("sqlite", file, agent, saves));
        sqlite_store pruning(file); // and this one prunes meanwhile
        for (int i = 0; i < 20; ++i)
            pruning.prune("own", retention{}.keep_last(10), dry_run::no);
        for (auto& process : processes)
            CHECK(process.wait() == 0);
    }
    sqlite_store store(file);
    const auto headers = store.list(query("shared").oldest_first());
    CHECK(headers.size() == 3 * saves);
    std::set<std::int64_t> sequences;
    for (std::size_t i = 0; i < headers.size(); ++i) {
        sequences.insert(headers[i].sequence());
        if (i > 0)
            CHECK(headers[i - 1].sequence() < headers[i].sequence());
    }
    CHECK(sequences.size() == headers.size());
    for (const auto& saved : store.load_all(query("shared")))
        CHECK_FALSE(saved.conversation().empty());
    CHECK(store.load_latest("own")->conversation().size() == saves);
    CHECK(store.verify().ok());
}

TEST_CASE("a process that is killed loses no acknowledged save and leaves nothing half-written")
{
    const std::string kind = GENERATE("sqlite", "file");
    const test::temporary_folder folder;
    const auto path = folder.path() / "store";
    std::vector<std::string> acknowledged;
    for (int round = 0; round < 10; ++round) {
        auto process = worker(kind, path, "agent", 1'000'000);
        std::string line;
        REQUIRE(process.read_line(line));
        for (int i = 0; i < 5 + round && process.read_line(line); ++i)
            acknowledged.push_back(line);
        process.kill();
        while (process.read_line(line)) // said before it was killed
            acknowledged.push_back(line);

        const auto store = open(kind, path); // in a file store, the lock has died with the process
        CHECK(store->verify().ok());
        std::set<std::string> there;
        for (const auto& header : store->list(query("agent"))) {
            CHECK_FALSE(header.damage());
            there.insert(header.id());
        }
        for (const auto& id : acknowledged)
            CHECK(there.contains(id));
        CHECK(there.size() <= acknowledged.size() + static_cast<std::size_t>(round) + 1);
    }
    if (kind == "file")
        CHECK(std::filesystem::is_empty(path / ".waymark" / "temporary"));
}

TEST_CASE("a file store has one writer, and readers beside it")
{
    const test::temporary_folder folder;
    auto writer = worker("file", folder.path(), "agent", 1'000'000);
    std::string line;
    REQUIRE(writer.read_line(line));
    REQUIRE(writer.read_line(line)); // it has saved one
    try {
        file_store second(folder.path());
        FAIL("two writers");
    } catch (const error& failure) {
        CHECK(failure.code() == errc::busy);
        CHECK(failure.details().message().find("read_only") != std::string::npos);
    }
    file_store reader(folder.path(), file_options{}.read_only());
    CHECK(reader.load("agent", "", line));
    const auto before = reader.load_latest("agent")->sequence();
    while (reader.load_latest("agent")->sequence() <= before) // it sees what is saved meanwhile
        REQUIRE(writer.read_line(line));
    REQUIRE(writer.read_line(line));
    CHECK(reader.load("agent", "", line));
    CHECK_THROWS_AS(reader.save(checkpoint("agent")), error);
    writer.kill();
    file_store(folder.path()).save(checkpoint("agent"));
}

TEST_CASE("a process that is killed while it copies an agent leaves nothing that is seen, or that stays")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    conversation chat;
    {
        sqlite_store store(file);
        for (int i = 0; i < 600; ++i) {
            chat.push(message::user("turn " + std::to_string(i) + std::string(1'000, '.')));
            store.save(checkpoint("agent", chat, i)
                           .with_state({{"file", std::string(2'000, 'f') + std::to_string(i)}}));
        }
    }
    const auto rows = [&](const std::string& table) {
        return test::other_connection(file).number("SELECT count(*) FROM " + table);
    };
    const auto messages = rows("messages"), objects = rows("objects");
    int when = 1;
    for (; when < 1'000; ++when) {
        auto copying = worker("copy", file, "agent", when);
        if (copying.wait() == 0)
            break; // it was done before
        sqlite_store store(file);
        if (store.list_agents() != std::vector<std::string>{"agent"}) { // killed after the last transaction
            CHECK(store.count(query("copy")) == 600);
            store.erase_agent("copy");
        }
        CHECK_FALSE(store.load_latest("copy"));
        CHECK(store.stats().checkpoints == 600);
        CHECK(rows("agents") > 1);
        CHECK(store.verify().ok());

        // As long as it may be under way, it is left alone.
        store.compact();
        if (when == 3)
            CHECK(rows("agents") == 2);
        test::other_connection(file).run("UPDATE agents SET copied_at = copied_at - 3600000001 "
                                         "WHERE copied_at IS NOT NULL");
        if (when % 2 == 0)
            store.compact();
        else
            store.sweep("somebody");
        CHECK(rows("agents") == 1);
        CHECK(rows("messages") == messages);
        CHECK(rows("objects") == objects);
        CHECK(store.load_latest("agent")->conversation() == chat);
    }
    CHECK(when > 5);
    CHECK(sqlite_store(file).load_latest("copy")->conversation() == chat);
}
