//! Connections that are lost, commits in doubt, servers that go and come back, full disks.
#include "catch.hpp"
#include "postgres_probe.hpp"
#include "postgres_proxy.hpp"
#include "postgres_server.hpp"
#include "temporary_folder.hpp"

#include <waymark/postgres_store.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>
#include <unistd.h>

using namespace waymark;
using namespace std::chrono_literals;
using test::postgres_proxy;
using test::postgres_server;

namespace {

//! The shared server, directly and through a proxy.
struct behind_proxy {
    behind_proxy()
        : schema(*test::postgres_for_tests(), 0),
          proxy(folder.path(), std::getenv("WAYMARK_POSTGRES_FOLDER")),
          direct(std::getenv("WAYMARK_POSTGRES"), options())
    {
    }

    postgres_options options() const { return postgres_options().with_schema(schema.name()); }

    test::temporary_folder folder;
    test::leased_schema schema;
    postgres_proxy proxy;
    postgres_store direct;
};

checkpoint turn(const std::string& agent, int number)
{
    conversation chat;
    chat.push(message::user("question " + std::to_string(number)));
    return checkpoint(agent, chat, number).with_id("c" + std::to_string(number));
}

std::error_code code_of(const std::function<void()>& call, std::string* what = nullptr)
{
    try {
        call();
    } catch (const error& failure) {
        if (what != nullptr)
            *what = failure.what();
        return failure.code();
    }
    return {};
}

} // namespace

TEST_CASE("a save whose acknowledgement is lost is looked up, and is there once")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    postgres_store store(between.proxy.conninfo(), between.options());
    store.save(turn("planner", 1));

    for (const auto how : {postgres_proxy::fault::cut_before, postgres_proxy::fault::cut_after})
        for (const bool is_new_agent : {false, true}) {
            const std::string agent =
                is_new_agent ? "agent " + std::to_string(static_cast<int>(how)) : "planner";
            const int number = 10 + static_cast<int>(how);
            between.proxy.fail_next_commit(how);
            const auto saved = store.save(turn(agent, number));
            CHECK(saved.sequence() == between.direct.load_latest(agent)->sequence());
            CHECK(between.direct.load(agent, "", "c" + std::to_string(number)).has_value());
        }
    CHECK(between.direct.count(query("planner")) == 3);
    CHECK(between.direct.verify().ok());
}

TEST_CASE("conditions hold for a save whose acknowledgement is lost")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    postgres_store store(between.proxy.conninfo(), between.options());
    store.save(turn("planner", 1));
    for (int number = 2; number < 6; ++number) {
        between.proxy.fail_next_commit(number % 2 == 0 ? postgres_proxy::fault::cut_after
                                                       : postgres_proxy::fault::cut_before);
        save_options options;
        options.create_only().expect_head("c" + std::to_string(number - 1));
        const save_request request(turn("planner", number), options);
        const auto outcomes = store.save(std::span(&request, 1));
        REQUIRE(!outcomes.at(0).code());
    }
    CHECK(between.direct.count(query("planner")) == 5);
}

TEST_CASE("a replacement whose acknowledgement is lost is looked up")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    postgres_store store(between.proxy.conninfo(), between.options());
    const auto first = store.save(turn("planner", 1));
    for (const auto how : {postgres_proxy::fault::cut_before, postgres_proxy::fault::cut_after}) {
        const auto name = std::to_string(static_cast<int>(how));
        between.proxy.fail_next_commit(how);
        CHECK(store.save(turn("planner", 1).with_name(name)).sequence() == first.sequence());
        CHECK(between.direct.load_latest("planner")->name() == name);
    }
}

TEST_CASE("where others have changed a checkpoint since, the outcome is unknown")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    postgres_store store(between.proxy.conninfo(), between.options());
    store.save(turn("planner", 1));
    between.proxy.fail_next_commit(postgres_proxy::fault::cut_after, [&] {
        between.direct.save(turn("planner", 3));
        between.direct.erase("planner", "", "c2");
    });
    CHECK(code_of([&] { store.save(turn("planner", 2)); }) == errc::outcome_unknown);
    CHECK_FALSE(between.direct.load("planner", "", "c2"));
    store.save(turn("planner", 4));
    CHECK(between.direct.count(query("planner")) == 3);
}

TEST_CASE("what cannot be repeated says that its outcome is unknown")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    postgres_store store(between.proxy.conninfo(), between.options());
    store.save(turn("planner", 1));
    store.save(turn("planner", 2));
    between.proxy.fail_next_commit(postgres_proxy::fault::cut_after);
    CHECK(code_of([&] { store.erase("planner", "", "c1"); }) == errc::outcome_unknown);
    CHECK_FALSE(store.load("planner", "", "c1"));
    CHECK(store.load("planner", "", "c2"));

    // Steps and pins may be repeated.
    between.proxy.fail_next_commit(postgres_proxy::fault::cut_after);
    const step_request begun(step("planner", "", "call_1"));
    CHECK(!store.put_steps(std::span(&begun, 1)).at(0).code());
    CHECK(store.load_steps(step_query("planner")).size() == 1);
    between.proxy.fail_next_commit(postgres_proxy::fault::cut_after);
    CHECK(store.pin("planner", "", "c2", true));
    CHECK(between.direct.verify().ok());
}

TEST_CASE("a server that is silent is given up after the time-out")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    postgres_store store(between.proxy.conninfo(), between.options().with_statement_timeout(200ms));
    store.save(turn("planner", 1));
    between.proxy.fail_next_commit(postgres_proxy::fault::silent_after);
    const auto begin = std::chrono::steady_clock::now();
    store.save(turn("planner", 2)); // looked up on another connection
    CHECK(std::chrono::steady_clock::now() - begin < 30s);
    CHECK(between.direct.count(query("planner")) == 2);
}

TEST_CASE("a load on a connection that went silent is made on another one")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    postgres_store store(between.proxy.conninfo(), between.options().with_statement_timeout(200ms));
    store.save(turn("planner", 1));
    between.proxy.fail_next_commit(postgres_proxy::fault::silent_after); // of the load that comes first
    CHECK(store.load_latest("planner"));
    CHECK(store.load_latest("planner"));
}

TEST_CASE("an agent that another writer holds for too long is busy")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    between.direct.save(turn("planner", 1));
    test::server_connection sql(*test::postgres_for_tests());
    sql.run("BEGIN");
    sql.run("SELECT * FROM " + between.schema.name() + ".agents WHERE agent_id = 'planner' FOR UPDATE");
    postgres_store impatient(*test::postgres_for_tests(), between.options().with_statement_timeout(200ms));
    std::string what;
    CHECK(code_of([&] { impatient.save(turn("planner", 2)); }, &what) == errc::busy);
    CHECK(what.find("another writer") != std::string::npos);
    impatient.save(turn("another", 1));                        // others are not held up
    CHECK(impatient.load_latest("planner")->iteration() == 1); // nor are loads
    sql.run("COMMIT");
    impatient.save(turn("planner", 2));
    CHECK(between.direct.count(query("planner")) == 2);
}

TEST_CASE("durability is what the option says, whatever the role's default")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    const auto schema = between.schema.name();
    test::server_connection sql(*test::postgres_for_tests());
    sql.run("CREATE TABLE " + schema + ".seen (level text)");
    sql.run("CREATE FUNCTION " + schema + ".see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO " +
            schema + ".seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$");
    sql.run("CREATE TRIGGER see BEFORE INSERT ON " + schema + ".checkpoints FOR EACH ROW EXECUTE FUNCTION " +
            schema + ".see()");
    struct drop_at_end {
        test::server_connection& sql;
        const std::string& schema;
        ~drop_at_end()
        {
            sql.run("DROP FUNCTION " + schema + ".see CASCADE");
            sql.run("DROP TABLE " + schema + ".seen");
        }
    } const at_end{sql, schema};
    for (const std::string level : {"off", "local", "on", "remote_apply"}) {
        const auto conninfo = *test::postgres_for_tests() + "&options=-csynchronous_commit%3D" + level;
        postgres_store(conninfo, between.options()).save(turn("full " + level, 1));
        postgres_store(conninfo, between.options().with_durability(durability::relaxed))
            .save(turn("relaxed " + level, 1));
    }
    CHECK(sql.run("SELECT level FROM " + schema + ".seen") ==
          std::vector<std::string>{"on", "off", "on", "off", "on", "off", "remote_apply", "off"});
}

TEST_CASE("serialization failures, deadlocks and a lack of locks are retried, within bounds")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    test::server_connection sql(*test::postgres_for_tests());
    const auto schema = between.schema.name();
    struct drop_at_end { // the schema is used again
        test::server_connection& sql;
        const std::string& schema;
        ~drop_at_end()
        {
            sql.run("DROP FUNCTION IF EXISTS " + schema + ".fail CASCADE");
            sql.run("DROP SEQUENCE " + schema + ".failures");
        }
    } const at_end{sql, schema};
    sql.run("CREATE SEQUENCE " + schema + ".failures");
    for (const std::string state : {"40001", "40P01", "53200"}) {
        sql.run("CREATE OR REPLACE FUNCTION " + schema +
                ".fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('" + schema +
                ".failures') % 4 <> 0 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '" + state +
                "'; END IF; RETURN NEW; END $$");
        sql.run("CREATE TRIGGER fail BEFORE INSERT ON " + schema +
                ".checkpoints FOR EACH ROW EXECUTE FUNCTION " + schema + ".fail()");
        CHECK(between.direct.save(turn("planner " + state, 1)).sequence() == 1);

        sql.run(
            "CREATE OR REPLACE FUNCTION " + schema +
            ".fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never' USING ERRCODE = '" +
            state + "'; END $$");
        postgres_store impatient(*test::postgres_for_tests(), between.options().with_retry_for(300ms));
        std::string what;
        CHECK(code_of([&] { impatient.save(turn("planner " + state, 2)); }, &what) == errc::busy);
        CHECK(what.find("tried") != std::string::npos);
        CHECK(what.find(state) != std::string::npos);
        sql.run("DROP TRIGGER fail ON " + schema + ".checkpoints");
        CHECK(between.direct.count(query("planner " + state)) == 1);
    }
}

TEST_CASE("connections that are ended all the time lose nothing")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    test::server_connection sql(*test::postgres_for_tests());
    std::atomic<bool> done = false;
    std::vector<std::thread> savers;
    constexpr int turns = 60;
    std::atomic<int> acknowledged = 0;
    for (int i = 0; i < 3; ++i)
        savers.emplace_back([&, i] {
            const std::string agent = "agent " + std::to_string(i);
            postgres_store store(*test::postgres_for_tests() + "&application_name=mortal", between.options());
            for (int number = 1; number <= turns; ++number) {
                store.save(turn(agent, number));
                ++acknowledged;
                std::this_thread::sleep_for(2ms);
            }
        });
    std::thread killer([&] {
        while (!done) {
            sql.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waymark' "
                "AND query LIKE '%" +
                between.schema.name() + "%'");
            std::this_thread::sleep_for(7ms);
        }
    });
    for (auto& saver : savers)
        saver.join();
    done = true;
    killer.join();
    CHECK(acknowledged == 3 * turns);
    for (int i = 0; i < 3; ++i)
        CHECK(between.direct.count(query("agent " + std::to_string(i))) == turns);
    CHECK(between.direct.verify().ok());
}

TEST_CASE("a restart of the server is waited for")
{
    if (!test::postgres_for_tests())
        return;
    const test::temporary_folder folder;
    postgres_server server({folder.path(), {}, ""});
    const auto observer = std::make_shared<store_observer>();
    postgres_store store(server.conninfo(), postgres_options().with_observer(observer));
    std::atomic<int> acknowledged = 0;
    std::atomic<bool> done = false;
    std::thread saver([&] {
        while (!done) {
            store.save(turn("planner", acknowledged + 1));
            ++acknowledged;
        }
    });
    for (const std::string mode : {"fast", "immediate"}) {
        std::this_thread::sleep_for(200ms);
        server.stop(mode);
        std::this_thread::sleep_for(200ms);
        server.start();
    }
    const int before = acknowledged;
    for (int patience = 0; patience < 600 && acknowledged == before; ++patience)
        std::this_thread::sleep_for(50ms);
    done = true;
    saver.join();
    CHECK(acknowledged > before);
    CHECK(observer->figures().retries > 0);
    CHECK(store.count(query("planner")) == static_cast<std::uint64_t>(acknowledged));
    CHECK(store.verify().ok());

    server.stop();
    std::string what;
    CHECK(code_of([&] { postgres_store(server.conninfo(), postgres_options().with_retry_for(100ms)); },
                  &what) == errc::unavailable);
    CHECK(what.find("there is no connection to PostgreSQL") != std::string::npos);
}

TEST_CASE("a wait for the standby that was cancelled is not taken for success")
{
    if (!test::postgres_for_tests())
        return;
    const test::temporary_folder folder;
    postgres_server server({folder.path(), {}, ""});
    test::server_connection sql(server.conninfo());
    postgres_store store(server.conninfo(),
                         postgres_options().with_statement_timeout(1'000ms).with_retry_for(0ms));
    store.save(turn("planner", 1));
    const auto wait_for_standby = [&](const std::string& names) {
        sql.run("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'");
        sql.run("SELECT pg_reload_conf()");
        for (int patience = 0; patience < 2'000 && sql.run("SHOW synchronous_standby_names").at(0) != names;
             ++patience)
            std::this_thread::sleep_for(5ms);
    };
    const auto cancel_one = [&](const std::atomic<bool>& enough) {
        while (!enough && sql.run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                                  "WHERE wait_event = 'SyncRep' LIMIT 1")
                              .empty())
            std::this_thread::sleep_for(5ms);
    };
    wait_for_standby("nobody");

    // Nobody ever says that the standby has it: each look-up waits for the standby, too.
    std::atomic<bool> done = false;
    std::jthread canceller([&] {
        while (!done)
            cancel_one(done);
    });
    CHECK(code_of([&] { store.save(turn("planner", 2)); }) == errc::outcome_unknown);
    done = true;
    canceller.join();

    // The standby is back, or is not asked for any more, before the look-up.
    done = false;
    std::jthread helper([&] {
        cancel_one(done);
        wait_for_standby("");
    });
    const auto saved = store.save(turn("planner", 3));
    helper.join();
    CHECK(saved.sequence() == store.load_latest("planner")->sequence());
    CHECK(store.count(query("planner")) == 3);
}

TEST_CASE("a full disk fails saves and loses nothing")
{
    if (!test::postgres_for_tests())
        return;
    if (::geteuid() != 0) {
        std::cout << "this test is skipped: only root can mount a small file system\n";
        return;
    }
    const test::temporary_folder folder;
    try {
        test::run_command("mount -t tmpfs -o size=100m tmpfs " + folder.path().native());
    } catch (const std::exception&) {
        std::cout << "this test is skipped: a small file system cannot be mounted\n";
        return;
    }
    struct unmount {
        const std::filesystem::path& path;
        ~unmount() { std::system(("umount -l " + path.native()).c_str()); }
    } const at_end{folder.path()};
    postgres_server server(
        {folder.path(), {"max_wal_size = 32MB", "min_wal_size = 32MB", "wal_recycle = off"}, ""});
    postgres_store store(server.conninfo(), postgres_options().with_retry_for(2'000ms));
    store.save(turn("planner", 1));

    const auto ballast = folder.path() / "ballast";
    {
        std::ofstream file(ballast, std::ios::binary);
        const std::string block(1 << 16, 'x');
        while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
        }
    }
    int acknowledged = 1;
    std::error_code failed;
    const std::string noise = [] {
        std::string text;
        std::uint32_t state = 1;
        for (int i = 0; i < 200'000; ++i)
            text += static_cast<char>('a' + (state = state * 1664525 + 1013904223) % 26);
        return text;
    }();
    for (int i = 2; i < 200 && !failed; ++i) {
        auto next = turn("planner", i);
        next.with_state({{"noise", noise.substr(static_cast<std::size_t>(i)) + std::to_string(i)}});
        failed = code_of([&] { store.save(next); });
        acknowledged += failed ? 0 : 1;
    }
    // The disk of the tables is full: an error. That of the log is: the server ends, and comes back.
    CHECK((failed == errc::io || failed == errc::unavailable || failed == errc::outcome_unknown));
    std::filesystem::remove(ballast);
    try {
        server.stop();
    } catch (const std::exception&) { // it has ended by itself
    }
    server.start();
    store.save(turn("planner", 1'000));
    const auto present = store.count(query("planner"));
    CHECK(present >= static_cast<std::uint64_t>(acknowledged + 1));
    CHECK(present <= static_cast<std::uint64_t>(acknowledged + 2)); // one may have been in doubt
    CHECK(store.verify().ok());
}

TEST_CASE("a large message takes the time that it needs")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    const auto schema = between.schema.name();
    // A server that is slow at large rows: each MiB takes it a tenth of a second.
    test::server_connection sql(*test::postgres_for_tests());
    struct drop_at_end { // the schema is used again
        test::server_connection& sql;
        const std::string& schema;
        ~drop_at_end() { sql.run("DROP FUNCTION IF EXISTS " + schema + ".dawdle CASCADE"); }
    } const at_end{sql, schema};
    sql.run("CREATE FUNCTION " + schema +
            ".dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(length(NEW.body) / "
            "10485760.0); RETURN NEW; END $$");
    sql.run("CREATE TRIGGER dawdle BEFORE INSERT ON " + schema + ".messages FOR EACH ROW EXECUTE FUNCTION " +
            schema + ".dawdle()");
    postgres_store store(*test::postgres_for_tests(),
                         between.options().with_statement_timeout(1'000ms).with_retry_for(0ms));
    conversation chat;
    chat.push(message::user(std::string(std::size_t{20} << 20, 'x')));
    const checkpoint large("planner", chat);
    std::string what;
    CHECK(!code_of([&] { store.save(large); }, &what));
    CAPTURE(what);
    between.proxy.take_statements();
    CHECK(postgres_store(between.proxy.conninfo(), between.options()).load_latest("planner") == large);
    const auto asked = between.proxy.take_statements();
    CHECK(std::count(asked.begin(), asked.end(),
                     "SELECT pg_catalog.set_config('statement_timeout', $1, true)") ==
          1); // also for the load

    // What is small does not wait for longer than before.
    CHECK(code_of([&] {
              sql.run("CREATE OR REPLACE FUNCTION " + schema +
                      ".dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(30); "
                      "RETURN NEW; END $$");
              store.save(turn("another", 1));
          }) == errc::busy);
}

TEST_CASE("a server that cannot be reached fails the constructor at the first try, by name")
{
    const auto observer = std::make_shared<store_observer>();
    const auto options = postgres_options().with_observer(observer);
    std::string what;
    const auto open = [&](const std::string& conninfo) {
        return code_of([&] { postgres_store(conninfo, options); }, &what);
    };
    CHECK(open("postgresql://user@no-such-host.invalid/agents") == errc::unavailable);
    CHECK(what.find("no-such-host.invalid") != std::string::npos);
    CHECK(open("host=/no/such/folder dbname=agents") == errc::unavailable);
    CHECK(what.find("/no/such/folder") != std::string::npos);
    CHECK(open("postgresql://user:secret@127.0.0.1:1/agents") == errc::unavailable);
    CHECK(what.find("secret") == std::string::npos);
    CHECK(observer->figures().retries == 0);
    CHECK(observer->figures().connections == 0);
}

TEST_CASE("a database that is not there fails the constructor at the first try, by name")
{
    if (!test::postgres_for_tests())
        return;
    const auto observer = std::make_shared<store_observer>();
    std::string what;
    auto wrong = std::string(std::getenv("WAYMARK_POSTGRES"));
    const std::string database = "///postgres";
    REQUIRE(wrong.find(database) != std::string::npos);
    wrong.replace(wrong.find(database), database.size(), "///no_such_database");
    CHECK(code_of([&] { postgres_store(wrong, postgres_options().with_observer(observer)); }, &what) ==
          errc::unavailable);
    INFO(what);
    CHECK(what.find("no_such_database") != std::string::npos);
    CHECK(observer->figures().retries == 0);
}

TEST_CASE("an observer sees connections that are opened and lost, and transactions that are in doubt")
{
    if (!test::postgres_for_tests())
        return;
    behind_proxy between;
    const auto observer = std::make_shared<store_observer>();
    std::vector<std::string> lines;
    observer->on_log(log_level::warning,
                     [&](const log_record& record) { lines.emplace_back(record.message()); });
    postgres_store store(between.proxy.conninfo(), between.options().with_observer(observer));
    store.save(turn("planner", 1));
    const auto before = observer->figures();
    CHECK(before.connections > 0);
    CHECK(before.connections_lost == 0);
    CHECK(before.retries == 0);
    CHECK(lines.empty());

    between.proxy.fail_next_commit(postgres_proxy::fault::cut_before);
    store.save(turn("planner", 2));
    const auto after = observer->figures();
    CHECK(after.connections > before.connections);
    CHECK(after.connections_lost > 0);
    CHECK(after.lost_commits == 1);
    CHECK(lines.size() == after.connections_lost + after.lost_commits + after.retries);
    for (const auto& line : lines)
        CHECK(line.find("question") == std::string::npos);
}
