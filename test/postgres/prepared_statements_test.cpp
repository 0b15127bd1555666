//! Statements that the server is to remember, and what happens where it does not.
#include "catch.hpp"
#include "postgres_probe.hpp"

#include <waymark/postgres_store.hpp>

using namespace waymark;
using namespace std::chrono_literals;

namespace {

//! A schema, a store that keeps its statements on the server, and another program.
struct remembering_server {
    postgres_options options() const
    {
        return postgres_options().with_schema(schema.name()).with_prepared_statements();
    }

    std::string conninfo = *test::postgres_for_tests();
    test::leased_schema schema{conninfo, 0};
    test::server_connection sql{conninfo};
};

checkpoint numbered_turn(const std::string& agent, int number)
{
    conversation chat;
    chat.push(message::user("question " + std::to_string(number)));
    return checkpoint(agent, chat, number)
        .with_id("c" + std::to_string(number))
        .with_state({{"document", std::string(5'000, 'a') + std::to_string(number)}});
}

} // namespace

TEST_CASE("a statement that could not be prepared is prepared the next time")
{
    if (!test::postgres_for_tests())
        return;
    remembering_server server;
    for (const std::string table : {"agents", "scopes", "checkpoints", "messages", "objects"}) {
        CAPTURE(table);
        // Its first connection is the only one: nobody else is served by it meanwhile.
        postgres_store store(server.conninfo, server.options().with_statement_timeout(200ms));
        server.sql.run("BEGIN");
        server.sql.run("LOCK TABLE " + server.schema.name() + "." + table + " IN ACCESS EXCLUSIVE MODE");
        const auto refused = [&] {
            try {
                store.save(numbered_turn("agent of " + table, 1));
            } catch (const error& failure) {
                return failure.code();
            }
            return std::error_code();
        };
        CHECK(refused() == errc::busy);
        CHECK(refused() == errc::busy); // not prepared, and not taken for it
        server.sql.run("ROLLBACK");
        for (int number = 1; number <= 2; ++number)
            CHECK_NOTHROW(store.save(numbered_turn("agent of " + table, number)));
        CHECK(store.count(query("agent of " + table)) == 2);
    }
}

TEST_CASE("where the server has forgotten its prepared statements, nothing fails")
{
    if (!test::postgres_for_tests())
        return;
    remembering_server server;
    const auto schema = server.schema.name();
    postgres_store store(server.conninfo, server.options());
    store.save(numbered_turn("planner", 1));
    store.save(numbered_turn("planner", 2));
    CHECK(store.load_latest("planner")->iteration() == 2);

    // In the middle of a transaction, as a pooler would between two of them.
    struct drop_at_end { // the schema is used again
        test::server_connection& sql;
        const std::string& schema;
        ~drop_at_end()
        {
            sql.run("DROP FUNCTION IF EXISTS " + schema + ".forget CASCADE");
            sql.run("DROP SEQUENCE " + schema + ".forgotten");
        }
    } const at_end{server.sql, schema};
    server.sql.run("CREATE SEQUENCE " + schema + ".forgotten");
    server.sql.run("CREATE FUNCTION " + schema +
                   ".forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('" + schema +
                   ".forgotten') = 1 THEN DEALLOCATE ALL; END IF; RETURN NEW; END $$");
    server.sql.run("CREATE TRIGGER forget BEFORE INSERT ON " + schema +
                   ".checkpoints FOR EACH ROW EXECUTE FUNCTION " + schema + ".forget()");
    CHECK_NOTHROW(store.save(numbered_turn("planner", 3)));
    CHECK(server.sql.number("SELECT last_value FROM " + schema + ".forgotten") == 2); // tried twice
    CHECK_NOTHROW(store.save(numbered_turn("planner", 4)));
    CHECK(store.load_latest("planner")->iteration() == 4);
    CHECK(store.count(query("planner")) == 4);
    CHECK(store.verify().ok());
}

TEST_CASE("a prepared statement is named after its text, so that no other one is run in its place")
{
    if (!test::postgres_for_tests())
        return;
    remembering_server server;
    // What the server knows on the connection that has just saved, seen from within.
    const auto schema = server.schema.name();
    struct drop_at_end {
        test::server_connection& sql;
        const std::string& schema;
        ~drop_at_end()
        {
            sql.run("DROP FUNCTION IF EXISTS " + schema + ".see CASCADE");
            sql.run("DROP TABLE " + schema + ".seen");
        }
    } const at_end{server.sql, schema};
    server.sql.run("CREATE TABLE " + schema + ".seen (name text, statement text)");
    server.sql.run("CREATE FUNCTION " + schema +
                   ".see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO " + schema +
                   ".seen SELECT name, statement FROM pg_prepared_statements; RETURN NEW; END $$");
    server.sql.run("CREATE TRIGGER see BEFORE INSERT ON " + schema +
                   ".checkpoints FOR EACH ROW EXECUTE FUNCTION " + schema + ".see()");
    for (const bool begins_with_a_load : {false, true}) { // two connections, in another order
        postgres_store store(server.conninfo, server.options());
        if (begins_with_a_load)
            CHECK(store.load_latest("planner"));
        store.save(numbered_turn("planner", begins_with_a_load ? 2 : 1));
    }
    CHECK(server.sql.number("SELECT count(*) FROM (SELECT name FROM " + schema +
                            ".seen GROUP BY name HAVING count(DISTINCT statement) > 1) twice") == 0);
    CHECK(server.sql.number("SELECT count(*) FROM (SELECT statement FROM " + schema +
                            ".seen GROUP BY statement HAVING count(DISTINCT name) > 1) twice") == 0);
    CHECK(server.sql.number("SELECT count(*) FROM " + schema + ".seen") > 10);
}
