//! Partitioned tables: what a save locks, and what happens when the server has no room for locks.
#include "catch.hpp"
#include "postgres_probe.hpp"
#include "postgres_server.hpp"
#include "temporary_folder.hpp"

#include <waymark/postgres_store.hpp>

using namespace waymark;
using namespace std::chrono_literals;

namespace {

//! Notes how many tables and indices of a schema a transaction has locked when it commits.
class lock_counter {
public:
    lock_counter(const std::string& conninfo, std::string schema) : sql_(conninfo), schema_(std::move(schema))
    {
        sql_.run("CREATE TABLE " + schema_ + ".locked (relations int8)");
        sql_.run("CREATE FUNCTION " + schema_ +
                 ".count_locks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO " + schema_ +
                 ".locked SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE "
                 "l.pid = pg_backend_pid() AND c.relnamespace = '" +
                 schema_ + "'::regnamespace AND c.relname <> 'locked'; RETURN NULL; END $$");
        sql_.run("CREATE CONSTRAINT TRIGGER count_locks AFTER INSERT ON " + schema_ +
                 ".checkpoints DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + schema_ +
                 ".count_locks()");
    }
    ~lock_counter()
    {
        sql_.run("DROP FUNCTION " + schema_ + ".count_locks CASCADE");
        sql_.run("DROP TABLE " + schema_ + ".locked");
    }
    lock_counter(const lock_counter&) = delete;
    lock_counter& operator=(const lock_counter&) = delete;

    //! Of the transactions since the last call.
    std::int64_t take_most()
    {
        const auto most = sql_.number("SELECT coalesce(max(relations), 0) FROM " + schema_ + ".locked");
        sql_.run("DELETE FROM " + schema_ + ".locked");
        return most;
    }

private:
    test::server_connection sql_;
    std::string schema_;
};

//! So many turns of one agent.
void save_turns(store& to, const std::string& agent, int count)
{
    conversation chat;
    for (int i = 0; i < count; ++i) {
        chat.push(message::user("question " + std::to_string(i)));
        to.save(checkpoint(agent, chat, i));
    }
}

} // namespace

TEST_CASE("a save locks the partitions of its agent, and not all of them")
{
    if (!test::postgres_for_tests())
        return;
    const auto conninfo = *test::postgres_for_tests();
    for (const bool prepared : {false, true}) {
        CAPTURE(prepared);
        std::vector<std::int64_t> locked;
        for (const std::size_t partitions : {0U, 16U}) {
            const test::leased_schema schema(conninfo, partitions);
            lock_counter locks(conninfo, schema.name());
            // The tables are there: nobody says how they were made.
            postgres_store store(
                conninfo, postgres_options().with_schema(schema.name()).with_prepared_statements(prepared));
            save_turns(store, "planner", 3);
            locks.take_most();
            save_turns(store, "planner", 10);
            std::vector<save_request> batch; // more checkpoints than partitions, all of one agent
            for (int i = 0; i < 20; ++i)
                batch.emplace_back(checkpoint("planner", {}, i));
            store.save(batch);
            locked.push_back(locks.take_most());
        }
        INFO("without partitions " << locked.at(0) << ", with 16 " << locked.at(1));
        CHECK(locked.at(0) > 0);
        // The partitioned tables themselves, and a partition of each with its indices.
        CHECK(locked.at(1) <= 2 * locked.at(0));
    }
}

TEST_CASE("tables that someone else has partitioned are noticed")
{
    if (!test::postgres_for_tests())
        return;
    const auto conninfo = *test::postgres_for_tests();
    test::server_connection sql(conninfo);
    const std::string schema = "partitioned_by_hand";
    sql.run("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
    struct drop_at_end {
        test::server_connection& sql;
        const std::string& schema;
        ~drop_at_end() { sql.run("DROP SCHEMA " + schema + " CASCADE"); }
    } const at_end{sql, schema};
    sql.run(postgres_store::ddl(postgres_options().with_schema(schema)));
    // One table, by range, with names of their own.
    sql.run("ALTER TABLE " + schema + ".agents RENAME TO old_agents");
    sql.run("CREATE TABLE " + schema + ".agents (LIKE " + schema +
            ".old_agents, PRIMARY KEY (agent_id)) PARTITION BY RANGE "
            "(agent_id)");
    sql.run("DROP TABLE " + schema + ".old_agents");
    for (char letter = 'a'; letter < 'z'; ++letter)
        sql.run("CREATE TABLE " + schema + ".letter_" + letter + " PARTITION OF " + schema +
                ".agents FOR VALUES FROM ('" + letter + "') TO ('" + static_cast<char>(letter + 1) + "')");
    lock_counter locks(conninfo, schema);
    postgres_store store(conninfo, postgres_options().with_schema(schema).with_migration(migration::never));
    save_turns(store, "planner", 5);
    CHECK(locks.take_most() < 30); // there are 25 partitions, each with an index
    CHECK(store.load_latest("planner")->conversation().size() == 5);
}

TEST_CASE("a server without room for locks is tried again, and the error names the setting")
{
    if (!test::postgres_for_tests())
        return;
    const test::temporary_folder folder;
    test::postgres_server server(
        {folder.path(), {"max_locks_per_transaction = 10", "max_connections = 20"}, ""});
    test::server_connection sql(server.conninfo());
    postgres_store store(server.conninfo(), postgres_options().with_retry_for(200ms));
    store.save(checkpoint("planner").with_id("1"));

    // Another program takes all of them.
    sql.run("BEGIN");
    int taken = 0;
    for (bool is_room = true; is_room;) {
        sql.run("SAVEPOINT room");
        try {
            sql.run("SELECT pg_advisory_xact_lock(" + std::to_string(taken) + ")");
            ++taken;
        } catch (const std::exception&) {
            sql.run("ROLLBACK TO room");
            is_room = false;
        }
    }
    CHECK(taken > 100);
    std::string what;
    try {
        store.save(checkpoint("planner").with_id("2"));
    } catch (const error& failure) {
        CHECK(failure.code() == errc::busy);
        what = failure.what();
    }
    CHECK(what.find("53200") != std::string::npos);
    CHECK(what.find("max_locks_per_transaction") != std::string::npos);
    CHECK(what.find("tried") != std::string::npos); // more than once
    sql.run("ROLLBACK");
    store.save(checkpoint("planner").with_id("2"));
    CHECK(store.count(query("planner")) == 2);
}
