//! A server that has forgotten what it committed: a standby took over that did not have it. And what is not
//! committed yet.
#include "../../src/tables/stored_conversation.hpp"
#include "catch.hpp"
#include "postgres_probe.hpp"
#include "postgres_proxy.hpp"
#include "postgres_server.hpp"
#include "temporary_folder.hpp"

#include <waymark/postgres_store.hpp>
#include <waymark/session.hpp>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

using namespace waymark;

namespace {

//! Takes a schema back to an earlier moment, behind the back of its stores.
class time_machine {
public:
    //! `name` is the application_name of the stores whose connections it ends.
    time_machine(std::string schema, std::string name)
        : schema_(std::move(schema)), name_(std::move(name)), sql_(*test::postgres_for_tests())
    {
        for (const auto* table : tables)
            sql_.run("CREATE TEMP TABLE before_" + std::string(table) + " AS SELECT * FROM " + schema_ + "." +
                     table);
    }

    void go_back()
    {
        for (const auto* table : tables) {
            sql_.run("DELETE FROM " + schema_ + "." + table);
            sql_.run("INSERT INTO " + schema_ + "." + table + " SELECT * FROM before_" + table);
        }
    }

    //! As a failover does.
    void end_connections()
    {
        sql_.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '" + name_ +
                 "'");
    }

private:
    static constexpr const char* tables[] = {"agents",   "scopes",  "checkpoints",
                                             "messages", "objects", "steps"};

    std::string schema_;
    std::string name_;
    test::server_connection sql_;
};

//! Connections that can be told from those of tests that run beside this one.
std::string conninfo_named(const std::string& name)
{
    return *test::postgres_for_tests() + "&application_name=" + name;
}

void add_turn(conversation& chat)
{
    chat.push(message::user("question " + std::to_string(chat.size())));
}

//! A session whose calls block.
class blocking_session {
public:
    blocking_session(const std::string& conninfo, const postgres_options& options)
        : backend_(std::make_shared<postgres_store>(conninfo, options)),
          store_(pool_.get_executor(), backend_),
          session_(store_, "planner")
    {
    }

    void resume() { session_.async_resume(asio::use_future).get(); }
    //! The parent of what was saved.
    std::optional<std::string> save(const std::string& name)
    {
        return session_.async_checkpoint(name, 1, {}, asio::use_future).get().parent_id();
    }
    //! By its code: an exception that goes from thread to thread is counted where no sanitizer sees it.
    std::error_code failure_of(const checkpoint& draft)
    {
        const auto ended = std::make_shared<std::promise<std::error_code>>();
        auto code = ended->get_future();
        session_.async_checkpoint(draft,
                                  [ended](std::error_code how, const auto&) { ended->set_value(how); });
        return code.get();
    }
    std::error_code failure_of(const std::string& name)
    {
        return failure_of(checkpoint("planner").with_name(name).with_id(name));
    }
    postgres_store& backend() { return *backend_; }

private:
    asio::thread_pool pool_{1};
    std::shared_ptr<postgres_store> backend_;
    async_store store_;
    session session_;
};

} // namespace

TEST_CASE("a session does not take a commit for lost that the server is still at")
{
    if (!test::postgres_for_tests())
        return;
    const test::temporary_folder folder, between;
    test::postgres_server server({folder.path(), {}, ""});
    test::server_connection sql(server.conninfo());
    const auto ask_for_standby = [&](const std::string& names) {
        sql.run("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'");
        sql.run("SELECT pg_reload_conf()");
        while (sql.run("SHOW synchronous_standby_names").at(0) != names)
            std::this_thread::yield();
    };
    //! Processes of the server learn one by one that there is a standby to wait for.
    const auto wait_until_commits_wait = [&] {
        std::atomic<bool> done = false;
        std::jthread writer([&] {
            test::server_connection other(server.conninfo());
            while (!done)
                other.run("SELECT pg_logical_emit_message(true, 'test', 'test')");
        });
        while (sql.run("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'").empty())
            std::this_thread::yield();
        done = true;
        sql.run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    };
    test::postgres_proxy proxy(between.path(), folder.path());
    blocking_session agent(proxy.conninfo(), postgres_options()
                                                 .with_statement_timeout(std::chrono::milliseconds(300))
                                                 .with_retry_for(std::chrono::milliseconds(0)));
    REQUIRE(!agent.failure_of("first"));

    // The lost commit waits for a standby that is not there: no time-out of the server ends that.
    ask_for_standby("nobody");
    wait_until_commits_wait();
    proxy.fail_next_commit(test::postgres_proxy::fault::cut_during);
    CHECK(agent.failure_of("second") == errc::outcome_unknown);
    CHECK_FALSE(agent.backend().load("planner", "", "second")); // not yet
    CHECK(agent.failure_of("third") == errc::busy);
    ask_for_standby("");
    CHECK(agent.save("fourth") == "second");
    CHECK(agent.backend().count(query("planner")) == 3);
}

TEST_CASE("a commit that reaches the server after a session has looked for it changes nothing")
{
    if (!test::postgres_for_tests())
        return;
    const test::temporary_folder folder;
    const test::leased_schema schema(*test::postgres_for_tests(), 0);
    test::postgres_proxy proxy(folder.path(), std::getenv("WAYMARK_POSTGRES_FOLDER"));
    blocking_session agent(
        proxy.conninfo(),
        postgres_options().with_schema(schema.name()).with_retry_for(std::chrono::milliseconds(0)));

    // A new agent: there is no row yet that the lost transaction could have locked.
    agent.resume();
    // The end of a read is on its way when it returns; that of a write is awaited, and nothing is left then.
    CHECK_FALSE(agent.backend().erase("planner", "", "nothing"));
    proxy.fail_next_commit(test::postgres_proxy::fault::held_back, {});
    proxy.refuse_connections(true);
    CHECK(agent.failure_of("first") == errc::outcome_unknown);
    proxy.refuse_connections(false);
    CHECK(agent.failure_of(checkpoint("another")) == errc::invalid_argument); // after a look
    proxy.deliver_held();
    CHECK_FALSE(agent.save("second"));
    CHECK(agent.backend().count(query("planner")) == 1);
    CHECK(agent.backend().verify().ok());
}

TEST_CASE("a conversation whose messages were lost is stored again")
{
    if (!test::postgres_for_tests())
        return;
    enum class meanwhile { nothing, others_write, others_write_and_connections_end };
    for (const auto what :
         {meanwhile::nothing, meanwhile::others_write, meanwhile::others_write_and_connections_end}) {
        CAPTURE(what);
        const test::leased_schema schema(*test::postgres_for_tests(), 0);
        const auto options = postgres_options().with_schema(schema.name());
        postgres_store store(conninfo_named("forgetful"), options);
        conversation chat;
        for (int i = 0; i < 10; ++i) {
            add_turn(chat);
            store.save(checkpoint("planner", chat, i));
        }
        time_machine server(schema.name(), "forgetful");
        for (int i = 10; i < 20; ++i) {
            add_turn(chat);
            store.save(checkpoint("planner", chat, i));
        }
        server.go_back();
        if (what == meanwhile::others_write_and_connections_end)
            server.end_connections();     // behind a pooler, nobody would notice
        if (what != meanwhile::nothing) { // and give the numbers out again
            postgres_store other(*test::postgres_for_tests(), options);
            conversation their_chat;
            for (int i = 0; i < 30; ++i) {
                their_chat.push(message::user("another question " + std::to_string(i)));
                other.save(checkpoint("planner", their_chat, i));
            }
        }
        const auto before = chat;
        add_turn(chat);
        const checkpoint last("planner", chat, 20);
        store.save(last);
        CHECK(store.load_latest("planner") == last);
        for (std::size_t length = 9; length < before.size(); ++length) {
            auto branch = before;
            branch.truncate(length);
            branch.push(message::user("branch"));
            const checkpoint saved("planner", branch, 21);
            store.save(saved);
            CHECK(store.load("planner", "", saved.id()) == saved);
        }
        CHECK(store.verify().ok());
    }
}

TEST_CASE("a commit that is lost together with those before it is made again")
{
    if (!test::postgres_for_tests())
        return;
    const test::temporary_folder folder;
    const test::leased_schema schema(*test::postgres_for_tests(), 0);
    const auto options = postgres_options().with_schema(schema.name());
    test::postgres_proxy proxy(folder.path(), std::getenv("WAYMARK_POSTGRES_FOLDER"));
    postgres_store store(proxy.conninfo(), options);
    conversation chat;
    for (int i = 0; i < 5; ++i) {
        add_turn(chat);
        store.save(checkpoint("planner", chat, i));
    }
    time_machine server(schema.name(), "nobody");
    for (int i = 5; i < 10; ++i) {
        add_turn(chat);
        store.save(checkpoint("planner", chat, i));
    }
    proxy.fail_next_commit(test::postgres_proxy::fault::cut_after, [&] {
        server.go_back();
        postgres_store other(*test::postgres_for_tests(), options);
        conversation their_chat;
        for (int i = 0; i < 20; ++i) {
            their_chat.push(message::user("another question " + std::to_string(i)));
            other.save(checkpoint("planner", their_chat, i));
        }
    });
    add_turn(chat);
    const checkpoint last("planner", chat, 10);
    store.save(last);
    CHECK(store.load_latest("planner") == last);
    CHECK(store.verify().ok());
}

TEST_CASE("verification that is interrupted finds each damage once")
{
    if (!test::postgres_for_tests())
        return;
    const test::leased_schema schema(*test::postgres_for_tests(), 0);
    postgres_store store(conninfo_named("interrupted"), postgres_options().with_schema(schema.name()));
    std::vector<save_request> batch;
    for (const std::string agent : {"a", "b"}) {
        conversation chat;
        for (int i = 0; i < 300; ++i) {
            add_turn(chat);
            batch.emplace_back(checkpoint(agent, chat, i));
        }
    }
    for (const auto& outcome : store.save(batch))
        REQUIRE(!outcome.code());
    test::server_connection sql(*test::postgres_for_tests());
    sql.run("UPDATE " + schema.name() + ".checkpoints SET iteration = 999 WHERE iteration = 7");
    bool interrupted = false;
    const auto report = store.verify([&](const upkeep_progress& done) {
        if (!std::exchange(interrupted, done.done >= 512))
            sql.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                    "'interrupted'");
    });
    CHECK(interrupted);
    CHECK(report.damages().size() == 2);
    CHECK(report.checked() == 4 * 300);
}

TEST_CASE("what conversations remember of a transaction is for that one alone until it is committed")
{
    conversation chat;
    add_turn(chat);
    const detail::storage_place place{1, 2};
    const int transaction = 0, another = 0;
    tables::extent_list messages;
    messages.append({1, 1});
    const auto* prefix = new tables::remembered_prefix(place, &transaction, {tables::agent_row(), 1, {}},
                                                       nullptr, 0, messages, {{}});
    detail::conversation_access::remember(chat, *prefix, 0);
    CHECK(detail::conversation_access::find_stored(chat, place).prefix == nullptr);
    CHECK(detail::conversation_access::find_stored(chat, place, &another).prefix == nullptr);
    CHECK(detail::conversation_access::find_stored(chat, place, &transaction).prefix == prefix);
    prefix->confirm();
    CHECK(detail::conversation_access::find_stored(chat, place, &another).prefix == prefix);
    prefix->make_void();
    CHECK(detail::conversation_access::find_stored(chat, place, &another).prefix == nullptr);
    detail::stored_prefix::release(prefix);
}
