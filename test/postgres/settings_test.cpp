//! Settings of the role, the database and the connection string that a promise must not depend on.
#include "catch.hpp"
#include "postgres_probe.hpp"
#include "postgres_server.hpp"
#include "temporary_folder.hpp"

#include <waymark/postgres_store.hpp>
#include <waymark/testing/conformance.hpp>
#include <waymark/testing/random_operations.hpp>

#include <atomic>
#include <sstream>
#include <thread>

using namespace waymark;
using namespace std::chrono_literals;

namespace {

//! What docs/postgres.md lists.
constexpr std::pair<const char*, const char*> hostile_settings[] = {
    {"client_min_messages", "error"},
    {"synchronous_commit", "off"},
    {"default_transaction_isolation", "serializable"},
    {"default_transaction_deferrable", "on"},
    {"statement_timeout", "250ms"},
    {"lock_timeout", "1ms"},
    {"idle_in_transaction_session_timeout", "1ms"},
    {"idle_session_timeout", "300ms"},
    {"plan_cache_mode", "force_custom_plan"},
    {"search_path", "shadows, pg_catalog"},
    {"row_security", "off"},
    {"client_encoding", "latin1"},
    {"standard_conforming_strings", "off"},
    {"backslash_quote", "off"},
    {"bytea_output", "escape"},
    {"array_nulls", "off"},
    {"transform_null_equals", "on"},
    {"quote_all_identifiers", "on"},
    {"DateStyle", "german"},
    {"IntervalStyle", "sql_standard"},
    {"TimeZone", "Asia/Kathmandu"},
    {"extra_float_digits", "-15"},
    {"enable_seqscan", "off"},
    {"default_toast_compression", "pglz"},
};

//! A server whose role for services has the settings above.
class hostile_server {
public:
    hostile_server() : server_({folder_.path(), {}, ""}), sql_(server_.conninfo())
    {
        sql_.run("CREATE ROLE service LOGIN");
        sql_.run("GRANT CREATE ON DATABASE postgres TO service");
        // Tables of the same names as ours, and a function that lies: they come first in the search path.
        sql_.run("CREATE SCHEMA shadows");
        for (const auto* table :
             {"agents", "scopes", "checkpoints", "messages", "objects", "steps", "format"})
            sql_.run(std::string("CREATE TABLE shadows.") + table + " (nothing int)");
        sql_.run("CREATE AGGREGATE shadows.max(int8) (SFUNC = int8smaller, STYPE = int8)");
        sql_.run("CREATE FUNCTION shadows.set_config(text, text, bool) RETURNS text LANGUAGE sql AS "
                 "'SELECT $2'");
        sql_.run("CREATE FUNCTION shadows.never(text, text) RETURNS bool LANGUAGE sql AS 'SELECT false'");
        sql_.run("CREATE OPERATOR shadows.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = shadows.never)");
        sql_.run("GRANT USAGE ON SCHEMA shadows TO service");
        for (const auto& [name, value] : hostile_settings)
            sql_.run(std::string("ALTER ROLE service SET ") + name + " = " +
                     (std::string_view(name) == "search_path" ? value : "'" + std::string(value) + "'"));
    }

    //! As a role and, once more, from the connection string.
    std::string conninfo() const
    {
        return "host=" + folder_.path().native() +
               " user=service dbname=postgres client_encoding=latin1 options='-c client_min_messages=error "
               "-c synchronous_commit=off -c lock_timeout=1 -c client_encoding=latin1'";
    }

    test::server_connection& sql() { return sql_; }

private:
    test::temporary_folder folder_;
    test::postgres_server server_;
    test::server_connection sql_;
};

} // namespace

TEST_CASE("no setting of the role, the database or the connection string changes a promise")
{
    if (!test::postgres_for_tests())
        return;
    hostile_server server;
    std::size_t stores = 0;
    const testing::backend_under_test backend("hostile settings", [&]() -> std::shared_ptr<store> {
        ++stores;
        return std::make_shared<postgres_store>(server.conninfo(),
                                                postgres_options()
                                                    .with_retry_for(2s)
                                                    .with_schema("waymark" + std::to_string(stores))
                                                    .with_partitions(stores % 2 == 0 ? 0 : 2));
    });
    std::ostringstream log;
    const auto failures = testing::run_conformance_suite(backend, log);
    CAPTURE(log.str());
    CHECK(failures == 0);
    testing::compare_with_model(backend, 1, 100);

    // A writer that has to wait does wait.
    const auto store = backend.make_empty();
    const std::string schema = "waymark" + std::to_string(stores);
    store->save(checkpoint("planner").with_id("größer 🦉").with_name("Zoë"));
    server.sql().run("BEGIN");
    server.sql().run("SELECT * FROM " + schema + ".agents FOR UPDATE");
    std::atomic<bool> done = false;
    std::jthread holder([&] {
        while (!done && server.sql().number(
                            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == 0)
            std::this_thread::sleep_for(5ms);
        server.sql().run("COMMIT");
    });
    CHECK_NOTHROW(store->save(checkpoint("planner").with_id("2")));
    done = true;
    holder.join();
    CHECK(store->load("planner", "", "größer 🦉")->name() == "Zoë");

    server.sql().run("CREATE TABLE public.seen (setting text)");
    server.sql().run("GRANT INSERT ON public.seen TO service");
    server.sql().run("CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "
                     "public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$");
    server.sql().run("CREATE TRIGGER note AFTER INSERT ON " + schema +
                     ".checkpoints FOR EACH ROW EXECUTE FUNCTION public.note()");
    store->save(checkpoint("planner").with_id("3"));
    CHECK(server.sql().run("SELECT setting FROM public.seen") == std::vector<std::string>{"on"});
}

TEST_CASE("a standby that lacks a commit is noticed, however quiet the server is told to be")
{
    if (!test::postgres_for_tests())
        return;
    hostile_server server;
    auto& sql = server.sql();
    postgres_store store(server.conninfo(), postgres_options().with_retry_for(0ms));
    store.save(checkpoint("planner").with_id("1"));
    sql.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    sql.run("SELECT pg_reload_conf()");
    while (sql.run("SHOW synchronous_standby_names").at(0) != "nobody")
        std::this_thread::sleep_for(5ms);

    std::atomic<bool> done = false;
    std::jthread canceller([&] { // also of each look-up
        while (!done) {
            sql.run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
            std::this_thread::sleep_for(5ms);
        }
    });
    std::error_code ended;
    try {
        store.save(checkpoint("planner").with_id("2"));
    } catch (const error& failure) {
        ended = failure.code();
    }
    done = true;
    canceller.join();
    CHECK(ended == errc::outcome_unknown);
}
