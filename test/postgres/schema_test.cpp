//! Tables and who may make them, connection strings, passwords, TLS.
#include "catch.hpp"
#include "postgres_probe.hpp"
#include "postgres_server.hpp"
#include "temporary_folder.hpp"

#include <waymark/postgres_store.hpp>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

using namespace waymark;
using namespace std::chrono_literals;
using test::postgres_server;

namespace {

//! A schema that is gone before and after.
struct empty_schema {
    explicit empty_schema(std::string schema_name)
        : name(std::move(schema_name)), sql(*test::postgres_for_tests())
    {
        sql.run("DROP SCHEMA IF EXISTS " + name + " CASCADE");
    }
    ~empty_schema() { sql.run("DROP SCHEMA IF EXISTS " + name + " CASCADE"); }

    postgres_options options() const { return postgres_options().with_schema(name); }

    std::string name;
    test::server_connection sql;
};

std::string message_of(const std::function<void()>& call, errc expected)
{
    try {
        call();
    } catch (const error& failure) {
        CHECK(failure.code() == expected);
        return failure.what();
    }
    FAIL("nothing was thrown");
    return {};
}

bool says(const std::string& message, std::string_view part)
{
    return message.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("ten may start at once in an empty database")
{
    if (!test::postgres_for_tests())
        return;
    empty_schema schema("ten_at_once");
    std::vector<std::thread> starting;
    std::atomic<int> started = 0;
    for (int i = 0; i < 10; ++i)
        starting.emplace_back([&, i] {
            postgres_store store(*test::postgres_for_tests(), schema.options());
            store.save(checkpoint("agent " + std::to_string(i % 3)));
            ++started;
        });
    for (auto& thread : starting)
        thread.join();
    CHECK(started == 10);
    CHECK(postgres_store(*test::postgres_for_tests(), schema.options()).count(query::all_agents()) == 10);
}

TEST_CASE("a role that may not make tables uses those that were made with the printed SQL")
{
    if (!test::postgres_for_tests())
        return;
    empty_schema schema("made_by_hand");
    schema.sql.run("DROP ROLE IF EXISTS worker");
    schema.sql.run("CREATE ROLE worker LOGIN");
    const auto conninfo = *test::postgres_for_tests() + "&user=worker";
    const auto never = schema.options().with_migration(migration::never);

    auto message = message_of([&] { postgres_store(conninfo, never); }, errc::invalid_argument);
    CHECK(says(message, "there are no tables in schema 'made_by_hand'"));
    CHECK(says(message, "postgres_store::ddl()"));
    message = message_of([&] { postgres_store(conninfo, schema.options()); }, errc::invalid_argument);
    CHECK(says(message, "may not make or change tables"));
    CHECK(schema.sql.number("SELECT count(*) FROM pg_namespace WHERE nspname = 'made_by_hand'") == 0);

    schema.sql.run(postgres_store::ddl(never));
    schema.sql.run("GRANT USAGE ON SCHEMA made_by_hand TO worker");
    schema.sql.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA made_by_hand TO worker");
    {
        postgres_store store(conninfo, never);
        store.save(checkpoint("planner"));
        CHECK(store.load_latest("planner"));
        CHECK(store.erase_agent("planner") == 1);
        CHECK(store.verify().ok());
        CHECK(store.stats().bytes > 0);
    }
    schema.sql.run("DROP OWNED BY worker");
    schema.sql.run("DROP ROLE worker");
}

TEST_CASE("the printed SQL and the store make the same tables")
{
    if (!test::postgres_for_tests())
        return;
    for (const std::size_t partitions : {0U, 16U}) {
        empty_schema by_hand("by_hand"), by_store("by_store");
        by_hand.sql.run(postgres_store::ddl(by_hand.options().with_partitions(partitions)));
        postgres_store(*test::postgres_for_tests(), by_store.options().with_partitions(partitions));
        const auto columns_of = [&](const std::string& name) {
            return by_hand.sql.run("SELECT table_name || '.' || column_name || ' ' || data_type FROM "
                                   "information_schema.columns WHERE table_schema = '" +
                                   name + "' ORDER BY 1");
        };
        const auto columns = columns_of("by_hand");
        CHECK(columns.size() >= 50);
        CHECK(columns == columns_of("by_store"));
        for (const auto& column : columns)
            CHECK_FALSE(says(column, "json")); // payloads are bytes
    }
}

TEST_CASE("the key of every table begins with the agent")
{
    if (!test::postgres_for_tests())
        return;
    const test::leased_schema schema(*test::postgres_for_tests(), 0);
    test::server_connection sql(*test::postgres_for_tests());
    const auto first_columns =
        sql.run("SELECT c.relname || '.' || a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
                "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND "
                "a.attnum = i.indkey[0] WHERE i.indisprimary AND n.nspname = '" +
                schema.name() + "' ORDER BY 1");
    CHECK(first_columns == std::vector<std::string>{"agents.agent_id", "checkpoints.agent_id",
                                                    "erased_agents.agent_id", "format.version",
                                                    "messages.agent_id", "objects.agent_id",
                                                    "scopes.agent_id", "steps.agent_id"});
    CHECK(sql.number("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
                     "c.relkind = 'S' AND n.nspname = '" +
                     schema.name() + "'") == 0); // no sequences
}

TEST_CASE("tables of an older format become those of the present one, with what they hold")
{
    if (!test::postgres_for_tests())
        return;
    empty_schema schema("format_1");
    std::ifstream file(WAYMARK_TEST_DATA "/postgres_format_1.sql");
    schema.sql.run(std::string(std::istreambuf_iterator<char>(file), {}));
    const auto never = schema.options().with_migration(migration::never);
    const auto message =
        message_of([&] { postgres_store(*test::postgres_for_tests(), never); }, errc::invalid_argument);
    CHECK(says(message, "have format 1, which is older"));
    CHECK(says(message, "postgres_store::upgrade_ddl(1)"));
    const bool by_hand = GENERATE(false, true);
    if (by_hand)
        schema.sql.run(postgres_store::upgrade_ddl(1, never));

    postgres_store store(*test::postgres_for_tests(), by_hand ? never : schema.options());
    CHECK(store.verify().ok());
    auto chat = store.load_latest("planner")->conversation();
    REQUIRE(chat.size() == 2);
    CHECK(chat.back().text() == "Noon.");
    const auto steps = store.load_steps(step_query("planner"));
    REQUIRE(steps.size() == 2);
    CHECK((steps[0].done() && steps[0].attempt().empty()));
    const auto settled = step_request(step(steps[1]).with_result("late")).replacing("");
    CHECK_FALSE(store.put_steps(std::span(&settled, 1)).at(0).code());
    chat.push(message::user("And now?"));
    const auto next = checkpoint("planner", chat);
    CHECK(store.save(next).bytes_written() < 700); // the old messages are known by their digests
    CHECK(store.load_latest("planner") == next);
    CHECK(store.prune("planner", retention().keep_last(1), dry_run::no).count() == 2);
    CHECK(store.verify().ok());

    empty_schema fresh("as_new");
    postgres_store(*test::postgres_for_tests(), fresh.options());
    const auto shape_of = [&](const std::string& name) {
        auto shape = fresh.sql.run("SELECT table_name || '.' || column_name || ' ' || data_type FROM "
                                   "information_schema.columns WHERE table_schema = '" +
                                   name + "' ORDER BY 1");
        for (const auto& index :
             fresh.sql.run("SELECT indexname FROM pg_indexes WHERE schemaname = '" + name + "' ORDER BY 1"))
            shape.push_back(index);
        return shape;
    };
    CHECK(shape_of("format_1") == shape_of("as_new"));
    CHECK(postgres_store::upgrade_ddl(4).empty());
    CHECK_THROWS_AS(postgres_store::upgrade_ddl(0), error);
}

TEST_CASE("tables of format 3 are upgraded, and large parts that their messages hold stay where they are")
{
    if (!test::postgres_for_tests())
        return;
    empty_schema schema("format_3");
    std::ifstream file(WAYMARK_TEST_DATA "/postgres_format_3.sql");
    schema.sql.run(std::string(std::istreambuf_iterator<char>(file), {}));
    const auto never = schema.options().with_migration(migration::never);
    const bool by_hand = GENERATE(false, true);
    if (by_hand)
        schema.sql.run(postgres_store::upgrade_ddl(3, never));
    std::string large;
    for (int i = 0; large.size() < 20'000; ++i)
        large += "line " + std::to_string(i) + " of a \"long\" result\n";

    postgres_store store(*test::postgres_for_tests(), by_hand ? never : schema.options());
    CHECK(store.verify().ok());
    CHECK(store.list(query("planner")).size() == 5);
    const auto head = store.load_latest("planner").value();
    const auto& chat = head.conversation();
    REQUIRE(chat.size() == 7);
    CHECK(chat[2].tool_calls().at(0).name() == "read_file");
    CHECK(chat[4].item().at("content").at(1).at("source").at("data") == "aWNvbg==");
    CHECK(chat[5].text() == large);
    CHECK(store.load("planner", "side", "branch")->conversation().back().text() == "Another way.");

    auto longer = chat;
    longer.push(message::user("Go on."));
    CHECK(store.save(checkpoint("planner", longer).with_parent("c4")).bytes_written() < 700);
    conversation rebuilt;
    rebuilt.push(message::user("What happened so far: much."));
    for (std::size_t i = 4; i < chat.size(); ++i)
        rebuilt.push(chat[i]);
    const auto saved = checkpoint("planner", rebuilt).with_id("rebuilt");
    store.save(saved);
    CHECK(store.load("planner", "", "rebuilt") == saved);
    CHECK(schema.sql.number("SELECT count(*) FROM format_3.messages WHERE parts IS NOT NULL") == 1);
    CHECK(store.prune("planner", retention().keep_last(1), dry_run::no).count() > 0);
    CHECK(store.load("planner", "", "rebuilt") == saved);
    CHECK(store.verify().ok());
    // Damage is named.
    schema.sql.run("UPDATE format_3.messages SET parts = NULL");
    CHECK(says(message_of([&] { store.load("planner", "", "rebuilt"); }, errc::corrupt), "stored message"));
    CHECK_FALSE(store.verify().ok());
}

TEST_CASE("pending steps are found by their index, whatever the number of the others")
{
    if (!test::postgres_for_tests())
        return;
    empty_schema schema("pending");
    postgres_store store(*test::postgres_for_tests(), schema.options());
    std::vector<step_request> steps;
    for (int i = 0; i < 3'000; ++i)
        steps.emplace_back(step("planner", "", "call " + std::to_string(i)).with_result("done"));
    steps.emplace_back(step("planner", "", "pending"));
    for (const auto& outcome : store.put_steps(steps))
        REQUIRE_FALSE(outcome.code());
    schema.sql.run("ANALYZE pending.steps");
    std::string plan;
    for (const auto& line :
         schema.sql.run("EXPLAIN SELECT * FROM pending.steps WHERE agent_id = 'planner' AND agent = "
                        "(SELECT number FROM pending.agents) AND scope = '' AND result IS NULL"))
        plan += line;
    CHECK(says(plan, "pending_steps"));
    CHECK(store.load_steps(step_query("planner").pending_only()).size() == 1);
}

TEST_CASE("tables of others, and of a newer version, are left untouched")
{
    if (!test::postgres_for_tests())
        return;
    empty_schema schema("strangers");
    schema.sql.run("CREATE SCHEMA strangers");
    schema.sql.run("CREATE TABLE strangers.checkpoints (mine int)");
    auto message = message_of([&] { postgres_store(*test::postgres_for_tests(), schema.options()); },
                              errc::invalid_argument);
    CHECK(says(message, "has tables that are not Waymark's"));
    CHECK(schema.sql.number("SELECT count(*) FROM pg_tables WHERE schemaname = 'strangers'") == 1);

    schema.sql.run("DROP SCHEMA strangers CASCADE");
    postgres_store(*test::postgres_for_tests(), schema.options()).save(checkpoint("planner"));
    schema.sql.run("UPDATE strangers.format SET version = 99");
    message = message_of([&] { postgres_store(*test::postgres_for_tests(), schema.options()); },
                         errc::unsupported_format);
    CHECK(says(message, "have format 99"));
    CHECK(schema.sql.number("SELECT count(*) FROM strangers.checkpoints") == 1);
}

TEST_CASE("names of schemas are data")
{
    if (!test::postgres_for_tests())
        return;
    test::server_connection sql(*test::postgres_for_tests());
    const std::string name = "we\"ird; DROP TABLE waymark.agents --";
    {
        postgres_store store(*test::postgres_for_tests(), postgres_options().with_schema(name));
        store.save(checkpoint("planner"));
        CHECK(store.load_latest("planner"));
    }
    sql.run("DROP SCHEMA \"we\"\"ird; DROP TABLE waymark.agents --\" CASCADE");
    CHECK_THROWS_AS(postgres_options().with_schema(""), error);
    CHECK_THROWS_AS(postgres_options().with_schema(std::string(64, 'x')), error);
    CHECK_THROWS_AS(postgres_options().with_write_lanes(0), error);
    CHECK_THROWS_AS(postgres_options().with_statement_timeout(0ms), error);
}

TEST_CASE("a database in another encoding is refused")
{
    if (!test::postgres_for_tests())
        return;
    test::server_connection sql(*test::postgres_for_tests());
    sql.run("DROP DATABASE IF EXISTS latin");
    sql.run("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    const auto message = message_of([&] { postgres_store(*test::postgres_for_tests() + "&dbname=latin"); },
                                    errc::invalid_argument);
    CHECK(says(message, "ENCODING 'UTF8'"));
    sql.run("DROP DATABASE latin");
}

TEST_CASE("no error shows a password")
{
    if (!test::postgres_for_tests())
        return;
    const std::string secret = "hunter2-Xyzzy";
    for (const std::string& bad : {"postgresql://waymark:" + secret + "@[::1/db",
                                   "password=" + secret + " nonsense", "password='" + secret, secret,
                                   "hostt=x password=" + secret, std::string("password=") + secret + '\0'}) {
        const auto message = message_of([&] { postgres_store store(bad); }, errc::invalid_argument);
        CHECK_FALSE(says(message, secret));
        CHECK(says(message, "postgresql://user@host/database"));
    }

    const test::temporary_folder folder;
    postgres_server server({folder.path(), {}, "", secret});
    const auto quick = postgres_options().with_retry_for(0ms);
    const auto message = message_of(
        [&] { postgres_store(server.conninfo("password=wrong-" + secret), quick); }, errc::unavailable);
    CHECK_FALSE(says(message, secret));
    CHECK(says(message, "password authentication failed"));
    // Even one that is a part of what the server says.
    CHECK_FALSE(says(message_of([&] { postgres_store(server.conninfo("password=authentication"), quick); },
                                errc::unavailable),
                     "authentication"));
    postgres_store store(server.conninfo("password=" + secret));
    store.save(checkpoint("planner"));
    CHECK(store.load_latest("planner"));
}

TEST_CASE("TLS is what sslmode says")
{
    if (!test::postgres_for_tests())
        return;
    if (!test::has_program("openssl")) {
        std::cout << "this test is skipped: there is no openssl to make certificates with\n";
        return;
    }
    const test::temporary_folder folder, keys;
    asio::io_context io;
    const auto port = std::to_string(asio::ip::tcp::acceptor(io, {asio::ip::address_v4::loopback(), 0})
                                         .local_endpoint()
                                         .port()); // a free one
    for (const std::string name : {"server", "other"})
        test::run_command("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
                          "-addext subjectAltName=DNS:localhost -keyout " +
                          (keys.path() / (name + ".key")).native() + " -out " +
                          (keys.path() / (name + ".crt")).native());
    test::run_command("chmod 755 " + keys.path().native() + " && cp " +
                      (keys.path() / "server.key").native() + " " + (folder.path() / "server.key").native() +
                      " && chmod 600 " + (folder.path() / "server.key").native() + " && (chown postgres " +
                      (folder.path() / "server.key").native() + " || true)");
    postgres_server server({folder.path(),
                            {"listen_addresses = '127.0.0.1'", "port = " + port, "ssl = on",
                             "ssl_cert_file = '" + (keys.path() / "server.crt").native() + "'",
                             "ssl_key_file = '" + (folder.path() / "server.key").native() + "'"},
                            ""});
    const auto over_tls = [&](const std::string& root) {
        return "host=localhost hostaddr=127.0.0.1 port=" + port +
               " user=waymark dbname=postgres "
               "sslmode=verify-full "
               "sslrootcert=" +
               (keys.path() / (root + ".crt")).native();
    };
    postgres_store store(over_tls("server"), postgres_options().with_retry_for(0ms));
    store.save(checkpoint("planner"));
    test::server_connection sql(server.conninfo("port=" + port + ""));
    CHECK(sql.number("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND "
                     "application_name = 'waymark'") == 1);
    const auto message =
        message_of([&] { postgres_store(over_tls("other"), postgres_options().with_retry_for(0ms)); },
                   errc::unavailable);
    CHECK(says(message, "certificate"));
}

TEST_CASE("verify() reports an agent of PostgreSQL whose record has vanished")
{
    if (!test::postgres_for_tests())
        return;
    const auto conninfo = *test::postgres_for_tests();
    const test::leased_schema schema(conninfo, 0);
    postgres_store store(conninfo, postgres_options().with_schema(schema.name()));
    store.save(checkpoint("lost"));
    store.save(checkpoint("kept"));
    store.save(checkpoint("erased"));
    store.erase_agent("erased");
    CHECK(store.verify().ok());
    test::server_connection(conninfo).run("DELETE FROM " + schema.name() + ".agents WHERE agent_id = 'lost'");
    const auto report = store.verify();
    REQUIRE(report.damages().size() == 1);
    CHECK(report.damages().front().what.find("'lost'") != std::string::npos);
}
