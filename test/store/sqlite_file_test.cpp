//! sqlite_store and its file: making, refusing, sharing, failing.
#include "catch.hpp"
#include "refusal.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

#include <fstream>
#include <functional>
#include <future>
#include <optional>
#include <sstream>

using namespace waymark;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

checkpoint numbered(int number, const std::string& agent = "agent")
{
    conversation chat;
    chat.push(message::user("turn " + std::to_string(number)));
    return checkpoint(agent, chat, number).with_id(std::to_string(number));
}

std::string content_of(const fs::path& file)
{
    std::ifstream in(file, std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
}

template <class Action>
error failure_of(Action action)
{
    try {
        action();
    } catch (const error& failure) {
        return failure;
    }
    FAIL("nothing failed");
    return {errc::io, ""};
}

bool is_for_owner_alone(const fs::path& path)
{
    return (fs::status(path).permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
           fs::perms::none;
}

} // namespace

TEST_CASE("missing folders are made, and everything is for the owner alone")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "a" / "b" / "store.db";
    const auto saved = numbered(1);
    {
        sqlite_store store(file);
        store.save(saved);
        for (const auto* companion : {"", "-wal", "-shm"})
            CHECK(is_for_owner_alone(file.native() + companion));
        CHECK(is_for_owner_alone(file.parent_path()));
        CHECK(is_for_owner_alone(folder.path() / "a"));
    }
    CHECK(sqlite_store(file).load("agent", "", "1") == saved);
}

TEST_CASE("a file that is not ours is refused with what it is, and left as it was")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "file";

    SECTION("a text")
    {
        std::ofstream(file) << "{\"some\": \"JSON text that is long enough to be looked at\"}";
        const auto before = content_of(file);
        const auto failure = failure_of([&] { sqlite_store store(file); });
        CHECK(failure.code() == errc::invalid_argument);
        CHECK(failure.details().message().find("is no SQLite database; it begins with '{\"some\"") !=
              std::string::npos);
        CHECK(content_of(file) == before);
    }
    SECTION("a database of another program")
    {
        test::other_connection(file).run("CREATE TABLE songs (title); INSERT INTO songs VALUES ('x')");
        const auto before = content_of(file);
        const auto failure = failure_of([&] { sqlite_store store(file); });
        CHECK(failure.code() == errc::invalid_argument);
        CHECK(failure.details().message().find("songs") != std::string::npos);
        CHECK(content_of(file) == before);
    }
    SECTION("a newer format")
    {
        sqlite_store(file).save(numbered(1));
        test::other_connection(file).run("PRAGMA user_version = 99");
        const auto before = content_of(file);
        const auto failure = failure_of([&] { sqlite_store store(file); });
        CHECK(failure.code() == errc::unsupported_format);
        CHECK(failure.details().message().find("format 99") != std::string::npos);
        CHECK(content_of(file) == before);
    }
    SECTION("a trigger or a view of someone else")
    {
        const auto* sql =
            GENERATE("CREATE TRIGGER spy AFTER INSERT ON checkpoints BEGIN DELETE FROM messages; END",
                     "CREATE VIEW spy AS SELECT 1");
        sqlite_store(file).save(numbered(1));
        test::other_connection(file).run(sql);
        const auto failure = failure_of([&] { sqlite_store store(file); });
        CHECK(failure.code() == errc::corrupt);
        CHECK(failure.details().message().find("spy") != std::string::npos);
    }
    SECTION("a folder, or nothing")
    {
        CHECK(failure_of([&] { sqlite_store store(folder.path()); }).code() == errc::invalid_argument);
        CHECK(failure_of([&] { sqlite_store store(""); }).code() == errc::invalid_argument);
        std::ofstream(file) << "";
        sqlite_store store(file); // an empty file may become a database
        store.save(numbered(1));
    }
}

TEST_CASE("stores in memory are apart")
{
    const auto one = sqlite_store::in_memory();
    const auto two = sqlite_store::in_memory();
    one->save(numbered(1));
    CHECK(one->count(query("agent")) == 1);
    CHECK(two->count(query("agent")) == 0);
}

TEST_CASE("a reader waits for no writer, and a writer for no reader")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    sqlite_store store(file, sqlite_options{}.with_busy_timeout(50ms));
    store.save(numbered(1));
    test::other_connection other(file);

    other.run("BEGIN IMMEDIATE");
    CHECK(store.load("agent", "", "1"));
    CHECK(store.list(query("agent")).size() == 1);
    CHECK(failure_of([&] { store.save(numbered(2)); }).code() == errc::busy);
    CHECK_FALSE(store.load("agent", "", "2"));
    other.run("ROLLBACK");

    other.run("BEGIN; SELECT count(*) FROM checkpoints");
    store.save(numbered(2));
    CHECK(store.compact() == 0);
    CHECK(other.number("SELECT count(*) FROM checkpoints") == 1);
    other.run("COMMIT");
    CHECK(store.load_latest("agent")->id() == "2");
}

TEST_CASE("a save waits for a writer that is soon done")
{
    const test::temporary_folder folder;
    sqlite_store store(folder.path() / "store.db");
    store.save(numbered(1));
    test::other_connection other(folder.path() / "store.db");
    other.run("BEGIN IMMEDIATE");
    auto saved = std::async(std::launch::async, [&] { store.save(numbered(2)); });
    CHECK(saved.wait_for(20ms) == std::future_status::timeout);
    other.run("ROLLBACK");
    saved.get();
    CHECK(store.count(query("agent")) == 2);
}

TEST_CASE("after a failed sync the outcome is unknown and the store out of use until it is reopened")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    test::failing_files files;
    {
        sqlite_store store(file);
        store.save(numbered(1));
        files.fail_syncs(true);
        const auto failure = failure_of([&] { store.save(numbered(2)); });
        CHECK(failure.code() == errc::outcome_unknown);
        files.fail_syncs(false);
        const auto later = failure_of([&] { store.save(numbered(3)); });
        CHECK(later.code() == errc::io);
        CHECK(later.details().message().find("opened again") != std::string::npos);
        CHECK(failure_of([&] { store.load_latest("agent"); }).code() == errc::io);
    }
    sqlite_store again(file);
    CHECK(again.load("agent", "", "1"));
    CHECK_FALSE(again.load("agent", "", "3"));
    CHECK(again.verify().ok());
    again.save(numbered(3));
}

TEST_CASE("a store whose file was deleted or replaced is out of use until it is opened again")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    const auto other = folder.path() / "other.db";
    sqlite_store(other).save(numbered(7, "other"));
    std::optional<sqlite_store> store(file);
    store->save(numbered(1));
    CHECK(store->load("agent", "", "1")); // a connection that reads waits for its next use
    const auto log = fs::path(file.native() + "-wal");

    const auto require_out_of_use = [&] {
        const std::vector<std::function<void()>> calls = {
            [&] { store->save(numbered(2)); },
            [&] { store->load("agent", "", "1"); },
            [&] { store->list(query("agent")); },
            [&] { store->prune("agent", retention{}.keep_last(1), dry_run::no); },
            [&] { store->erase_agent("agent"); },
            [&] { store->verify(); },
            [&] { store->stats(); },
            [&] { store->compact(); },
        };
        for (const auto& call : calls) {
            const auto failure = failure_of(call);
            CHECK(failure.code() == errc::io);
            const auto& text = failure.details().message();
            CHECK(text.find("'" + file.native() + "' was deleted, moved or replaced") != std::string::npos);
            CHECK(text.find("open the store again") != std::string::npos);
        }
    };

    SECTION("deleted")
    {
        fs::remove(file);
        require_out_of_use();
        store.reset();
        CHECK_FALSE(fs::exists(file));
        // The log has the newest saves, and belongs to the file.
        const auto failure = failure_of([&] { sqlite_store anew(file); });
        CHECK(failure.code() == errc::corrupt);
        CHECK(failure.details().message().find("remove the log to begin anew") != std::string::npos);
        CHECK(fs::file_size(log) > 0);
        fs::remove(log);
        store.emplace(file);
        CHECK(store->list_agents().empty());
        store->save(numbered(2));
        CHECK(store->load("agent", "", "2"));
    }
    SECTION("replaced by another store")
    {
        const auto others = content_of(other);
        const auto logged = content_of(log);
        fs::rename(other, file);
        require_out_of_use();
        store.reset();
        CHECK(content_of(file) == others); // nothing of ours was written into it, by closing neither
        CHECK(content_of(log) == logged);
        for (const auto* companion : {"-wal", "-shm"})
            fs::remove(file.native() + companion);
        store.emplace(file);
        CHECK(store->list_agents() == std::vector<std::string>{"other"});
        CHECK(store->verify().ok());
    }
    SECTION("moved away, and back")
    {
        const auto elsewhere = folder.path() / "elsewhere.db";
        fs::rename(file, elsewhere);
        CHECK(failure_of([&] { store->save(numbered(2)); }).code() == errc::io);
        fs::rename(elsewhere, file);
        require_out_of_use();
        store.emplace(file);
        CHECK(store->load("agent", "", "1"));
        CHECK(store->count(query("agent")) == 1);
        CHECK(store->verify().ok());
    }
    SECTION("but not one that was reached by a link that leads elsewhere now")
    {
        const auto link = folder.path() / "link.db";
        fs::create_symlink(file, link);
        sqlite_store linked(link);
        CHECK(linked.load("agent", "", "1"));
        fs::remove(link);
        fs::create_symlink(other, link);
        linked.save(numbered(2)); // it was resolved once, and stays where it was opened
        CHECK(store->load("agent", "", "2"));
        CHECK(sqlite_store(link).list_agents() == std::vector<std::string>{"other"});
    }
}

TEST_CASE("a store whose log was deleted saves nothing into it")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    sqlite_store store(file);
    store.save(numbered(1));
    fs::remove(file.native() + "-wal");
    const auto failure = failure_of([&] { store.save(numbered(2)); });
    CHECK(failure.code() == errc::io);
    CHECK(failure.details().message().find("store.db-wal' was deleted or replaced") != std::string::npos);
}

TEST_CASE("verification of a file with a damaged id of an agent comes to an end")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    sqlite_store(file).save(numbered(1));
    test::other_connection(file).run("UPDATE agents SET id = CAST(id AS BLOB)"); // behind every text
    sqlite_store store(file);
    CHECK_FALSE(store.verify().ok());
    CHECK(failure_of([&] { store.list(query::all_agents()); }).code() == errc::corrupt);
}

TEST_CASE("a file that is damaged where it begins is named")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    {
        sqlite_store store(file);
        store.save(numbered(1));
    }
    fs::resize_file(file, 5'000); // within the second page
    const auto failure = failure_of([&] { sqlite_store store(file); });
    CHECK(failure.code() == errc::corrupt);
    CHECK(failure.details().message().find("store.db") != std::string::npos);
}

TEST_CASE("a save that waited for its turn does not go into a file that was deleted meanwhile")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    sqlite_store store(file);
    store.save(numbered(1));
    test::other_connection other(file);
    other.run("BEGIN IMMEDIATE");
    auto saved = std::async(std::launch::async, [&] { store.save(numbered(2)); });
    CHECK(saved.wait_for(20ms) == std::future_status::timeout);
    fs::remove(file);
    other.run("ROLLBACK");
    CHECK(failure_of([&] { saved.get(); }).code() == errc::io);
    CHECK(other.number("SELECT count(*) FROM checkpoints") == 1);
}

TEST_CASE("a full disk fails the batch, changes nothing, and is got over")
{
    const test::temporary_folder folder;
    test::failing_files files;
    sqlite_store store(folder.path() / "store.db");
    store.save(numbered(1));
    auto chat = store.load("agent", "", "1")->conversation();
    chat.push(message::assistant("more"));
    const auto next = checkpoint("agent", chat, 2).with_id("2");
    files.fail_writes_as_full(true);
    const auto failure = failure_of([&] { store.save(next); });
    CHECK(failure.code() == errc::io);
    CHECK(failure.details().message().find("make room") != std::string::npos);
    files.fail_writes_as_full(false);
    CHECK_FALSE(store.load("agent", "", "2"));
    store.save(next); // the conversation must not believe that its message was stored
    CHECK(store.load("agent", "", "2") == next);
    CHECK(store.verify().ok());
}

TEST_CASE("full durability syncs each save, relaxed does not")
{
    const test::temporary_folder folder;
    test::failing_files files;
    {
        sqlite_store store(folder.path() / "full.db");
        store.save(numbered(1));
        files.take_syncs();
        for (int i = 2; i < 12; ++i)
            store.save(numbered(i));
        CHECK(files.take_syncs() >= 10);
    }
    sqlite_store store(folder.path() / "relaxed.db", sqlite_options{}.with_durability(durability::relaxed));
    store.save(numbered(1));
    files.take_syncs();
    for (int i = 2; i < 12; ++i)
        store.save(numbered(i));
    CHECK(files.take_syncs() == 0);
}

TEST_CASE("what a database cannot hold is refused alone, before anything is written")
{
    const test::statement_counter bounded(100'000);
    const test::temporary_folder folder;
    sqlite_store store(folder.path() / "store.db");
    conversation chat;
    chat.push(message::user(std::string(60'000, '\n'))); // two bytes each in JSON
    const std::vector<save_request> batch = {
        numbered(1),
        checkpoint("agent", chat).with_id("long message"),
        checkpoint("agent").with_id("long state").with_state({{"file", std::string(60'000, '\n')}}),
        numbered(2),
    };
    const auto outcomes = store.save(batch);
    CHECK_FALSE(outcomes[0].code());
    CHECK(outcomes[1].code() == errc::invalid_argument);
    CHECK(outcomes[1].details().message().find("120") != std::string::npos);
    CHECK(outcomes[2].code() == errc::invalid_argument);
    CHECK_FALSE(outcomes[3].code());
    CHECK(store.accepted_limits().max_message_bytes() < 100'000); // what async_store looks at
    CHECK(store.verify().ok());
}

TEST_CASE("with secure erase nothing of an erased agent is left in the file")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    const std::string secret = "the launch code is 0000, do not tell anyone";
    {
        sqlite_store store(file, sqlite_options{}.with_secure_erase());
        conversation chat;
        for (int i = 0; i < 50; ++i)
            chat.push(message::user(secret + std::to_string(i)));
        store.save(checkpoint("agent", chat).with_state({{"secret", std::string(5'000, 'x') + secret}}));
        store.save(numbered(1, "other"));
        store.erase_agent("agent");
        store.sweep("agent");
    }
    CHECK(content_of(file).find(secret) == std::string::npos);
    CHECK(sqlite_store(file).load("other", "", "1"));
}

TEST_CASE("the log is emptied when nothing is saved for a while, and does not grow without bound")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    sqlite_store store(file);
    for (int i = 0; i < 1'200; ++i) // about 70 MB of log, were it not begun anew
        store.save(numbered(i));
    const auto log = file.native() + "-wal";
    CHECK(fs::file_size(log) < 32'000'000);
    for (int i = 0; i < 200 && fs::file_size(log) != 0; ++i)
        std::this_thread::sleep_for(50ms); // it is emptied after a second without a save
    CHECK(fs::file_size(log) == 0);
    CHECK(store.count(query("agent")) == 1'200);
}

TEST_CASE("a file of format 1 is migrated when it is opened, and nothing in it changes")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "old.db";
    std::filesystem::copy_file(std::filesystem::path(WAYMARK_TEST_DATA) / "format_1.sqlite", file);
    std::filesystem::permissions(file,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    {
        sqlite_store store(file);
        const auto headers = store.list(query("traveller").oldest_first());
        REQUIRE(headers.size() == 6);
        CHECK(headers.front().content_bytes() == 0); // it was not noted then
        const auto head = store.load_latest("traveller").value();
        CHECK(head.iteration() == 6);
        CHECK(head.conversation().size() == 14);
        CHECK(head.state().size() == 6);
        CHECK(store.verify().ok());
        auto chat = head.conversation();
        chat.push(message::user("Go on."));
        store.save(checkpoint("traveller", chat, 7).with_parent(head.id()));
    }
    sqlite_store again(file);
    CHECK(again.verify().ok());
    CHECK(again.list(query("traveller")).front().content_bytes() > 0);
    CHECK(again.load_latest("traveller")->conversation().size() == 15);
}

TEST_CASE("a file of format 4 is migrated, and large parts that its messages hold stay where they are")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "old.db";
    std::filesystem::copy_file(std::filesystem::path(WAYMARK_TEST_DATA) / "format_4.sqlite", file);
    std::filesystem::permissions(file,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    std::string large;
    for (int i = 0; large.size() < 20'000; ++i)
        large += "line " + std::to_string(i) + " of a \"long\" result\n";
    sqlite_store store(file);
    CHECK(test::other_connection(file).number("PRAGMA user_version") == 5);
    CHECK(store.verify().ok());
    REQUIRE(store.list(query("planner")).size() == 5);
    const auto head = store.load_latest("planner").value();
    CHECK(head.id() == "c4");
    CHECK(head.state().at("count") == 5);
    CHECK(head.state().at("files").at("a.txt") == boost::json::string(2'000, 'a'));
    const auto& chat = head.conversation();
    REQUIRE(chat.size() == 7);
    CHECK(chat.max_tokens() == 8'000);
    CHECK(chat.extra().at("model") == "large");
    for (std::size_t i = 0; i < 6; ++i)
        CHECK(chat[i].id() == "m" + std::to_string(i + 1));
    CHECK(chat[0].text() == "You are a planner.");
    CHECK(chat[1].text() == "What is in the picture? \"quoted\", \\ and \xc3\xa9\xf0\x9f\x98\x80\n");
    REQUIRE(chat[2].tool_calls().size() == 2);
    CHECK(chat[2].tool_calls()[0].name() == "read_file");
    CHECK(chat[2].item().at("tool_calls").at(0).at("type") == "function");
    CHECK(chat[3].tool_results().at(0).call_id() == "call-1");
    CHECK(chat[4].item().at("content").at(1).at("source").at("data") == "aWNvbg==");
    CHECK(chat[4].item().at("provider").at("usage").at("input_tokens") == 12);
    CHECK(chat[5].text() == large);
    CHECK(chat[6].text() == "Done.");
    CHECK(store.load("planner", "side", "branch")->conversation().back().text() == "Another way.");
    CHECK(store.load_steps(step_query("planner")).size() == 2);

    // What is saved now is stored in the new way, beside it.
    auto longer = chat;
    longer.push(message::user("Go on."));
    CHECK(store.save(checkpoint("planner", longer).with_parent("c4")).bytes_written() < 700);
    const auto objects = test::other_connection(file).number("SELECT count(*) FROM objects");
    for (const auto& agent : {"planner", "other"}) { // the old row holds it whole, so it is stored once more
        conversation rebuilt;
        rebuilt.push(message::user("What happened so far: much."));
        for (std::size_t i = 4; i < chat.size(); ++i)
            rebuilt.push(chat[i]);
        const auto saved = checkpoint(agent, rebuilt).with_id("rebuilt");
        store.save(saved);
        CHECK(store.load(agent, "", "rebuilt") == saved);
        rebuilt.push(message::user("And on."));
        const auto next = checkpoint(agent, rebuilt).with_id("next");
        CHECK(store.save(next).bytes_written() < 700);
        CHECK(store.load(agent, "", "next") == next);
    }
    CHECK(test::other_connection(file).number("SELECT count(*) FROM objects") == objects + 2);
    CHECK(store.verify().ok());
    store.prune("planner", retention().keep_last(1), dry_run::no);
    CHECK(store.load_latest("planner")->conversation()[2].text() == large);
    CHECK(store.load("planner", "side", "branch").has_value());
    CHECK(store.verify().ok());
}

TEST_CASE("a database that is named through links is the one that the system means")
{
    const test::temporary_folder folder;
    const auto root = fs::canonical(folder.path());
    fs::create_directories(root / "release" / "1");
    fs::create_directory_symlink("release/1", root / "current");
    fs::create_symlink("release/made.db", root / "linked.db");
    fs::create_symlink("linked.db", root / "again.db");
    const auto [named_as, is_at] = GENERATE(table<std::string, std::string>({
        {"current/../shared/store.db", "release/shared/store.db"},
        {"linked.db", "release/made.db"},
        {"again.db", "release/made.db"},
        {"none/../store.db", "store.db"},
    }));
    {
        sqlite_store store(root / named_as);
        store.save(numbered(1));
        CHECK(fs::exists((root / is_at).native() + "-wal"));
        CHECK_FALSE(fs::exists(root / "shared"));
        CHECK_FALSE(fs::exists(root / "none"));
        CHECK(store.stats().bytes > fs::file_size(root / is_at)); // with the log
    }
    CHECK(sqlite_store(root / is_at).load("agent", "", "1"));
}

TEST_CASE("links in a circle, and a name with a slash at its end, are no database")
{
    const test::temporary_folder folder;
    fs::create_symlink("round.db", folder.path() / "round.db");
    CHECK(failure_of([&] { sqlite_store store(folder.path() / "round.db"); }).code() == errc::io);
    CHECK(failure_of([&] { sqlite_store store(folder.path() / "store.db/"); }).code() ==
          errc::invalid_argument);
    CHECK_FALSE(fs::exists(folder.path() / "store.db"));
}

TEST_CASE("the log that a killed process left is written again, also if the file is opened through a link")
{
    const test::temporary_folder folder;
    const auto left = folder.path() / "left.db";
    {
        sqlite_store store(folder.path() / "store.db");
        store.save(numbered(1));
        for (const auto* companion : {"", "-wal"}) // as if it had been killed now
            fs::copy_file((folder.path() / "store.db").native() + companion, left.native() + companion);
    }
    const auto log = left.native() + "-wal";
    const auto before = fs::file_time_type::clock::now() - 24h;
    fs::last_write_time(log, before);
    fs::create_symlink("left.db", folder.path() / "link.db");
    sqlite_store store(folder.path() / (GENERATE(true, false) ? "link.db" : "left.db"));
    CHECK(fs::last_write_time(log) > before + 1h);
    CHECK(store.load("agent", "", "1"));
}

TEST_CASE("a store that must exist is not made, nor are folders")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "no" / "store.db";
    const auto said =
        test::refusal([&] { sqlite_store(file, sqlite_options().must_exist()); }, errc::not_found);
    CHECK(said.find("store.db") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "no"));
    sqlite_store(file).save(checkpoint("agent"));
    CHECK(sqlite_store(file, sqlite_options().must_exist()).count(query("agent")) == 1);
}

TEST_CASE("what looks like a path to SQLite alone is refused")
{
    for (const auto* name : {":memory:", "file:store.db?mode=ro"}) {
        const auto said = test::refusal([&] { sqlite_store{name}; }, errc::invalid_argument);
        CHECK(said.find(name) != std::string::npos);
        CHECK_FALSE(std::filesystem::exists(name));
    }
}
