//! What the server is asked, how often, and by how many at once.
#include "backends.hpp"
#include "catch.hpp"
#include "postgres_probe.hpp"
#include "postgres_proxy.hpp"
#include "temporary_folder.hpp"

#include <waymark/async_store.hpp>
#include <waymark/postgres_store.hpp>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>

using namespace waymark;

namespace {

struct counted_server {
    counted_server()
        : schema(*test::postgres_for_tests(), 0), proxy(folder.path(), std::getenv("WAYMARK_POSTGRES_FOLDER"))
    {
    }

    postgres_options options() const { return postgres_options().with_schema(schema.name()); }

    //! How many round trips it takes.
    int trips_of(const std::function<void()>& call)
    {
        proxy.take_round_trips();
        call();
        return proxy.take_round_trips();
    }

    test::temporary_folder folder;
    test::leased_schema schema;
    test::postgres_proxy proxy;
};

void save_all(store& to, const std::vector<save_request>& batch)
{
    for (const auto& outcome : to.save(batch))
        REQUIRE(!outcome.code());
}

std::string agent_name(std::size_t i)
{
    return "agent " + std::to_string(i);
}

//! A turn more for each of so many agents.
std::vector<save_request> next_turns(std::vector<conversation>& chats, std::size_t count, bool with_documents)
{
    chats.resize(std::max(chats.size(), count));
    std::vector<save_request> batch;
    for (std::size_t i = 0; i < count; ++i) {
        chats[i].push(message::user("question " + std::to_string(chats[i].size())));
        checkpoint next(agent_name(i), chats[i]);
        if (with_documents)
            next.with_state({{"first", std::string(5'000, 'a')},
                             {"second", std::string(5'000, 'b') + std::to_string(chats[i].size())}});
        batch.emplace_back(next);
    }
    return batch;
}

} // namespace

TEST_CASE("a batch takes as many round trips as one save")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    postgres_store store(server.proxy.conninfo(), server.options());
    for (const bool with_documents : {false, true}) {
        std::vector<conversation> chats;
        save_all(store, next_turns(chats, 64, with_documents)); // the agents are there
        const auto one = next_turns(chats, 1, with_documents);
        const auto many = next_turns(chats, 64, with_documents);
        const auto for_one = server.trips_of([&] { save_all(store, one); });
        CHECK(server.trips_of([&] { save_all(store, many); }) == for_one);
        CHECK(for_one <= (with_documents ? 4 : 2));
    }
}

TEST_CASE("a batch of new agents, and one of conversations that nobody remembers, takes as many")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    postgres_store store(server.proxy.conninfo(), server.options());
    std::vector<conversation> chats;
    const auto first = next_turns(chats, 64, false);
    CHECK(server.trips_of([&] { save_all(store, first); }) == 2);

    // Built again, as from JSON.
    const auto built_again = [&](std::size_t count, int more) {
        std::vector<save_request> batch;
        for (std::size_t i = 0; i < count; ++i) {
            conversation chat;
            for (const auto& known : chats[i])
                chat.push(known);
            for (int j = 0; j < more; ++j)
                chat.push(message::assistant("answer " + std::to_string(j)));
            batch.emplace_back(checkpoint(agent_name(i), chat));
        }
        return batch;
    };
    const auto one = built_again(1, 1);
    const auto many = built_again(64, 2);
    const auto for_one = server.trips_of([&] { save_all(store, one); });
    CHECK(for_one <= 4);
    CHECK(server.trips_of([&] { save_all(store, many); }) == for_one);

    // A new scope of agents that exist, with conditions.
    std::vector<save_request> scoped;
    for (std::size_t i = 0; i < 64; ++i)
        scoped.emplace_back(checkpoint(agent_name(i)).with_scope("sub"),
                            save_options().create_only().expect_head(std::nullopt));
    CHECK(server.trips_of([&] { save_all(store, scoped); }) <= 3);
}

TEST_CASE("a load takes as many round trips for a long conversation as for a short one")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    postgres_store store(server.proxy.conninfo(), server.options());
    conversation chat;
    std::string first;
    for (int i = 0; i < 300; ++i) {
        chat.push(message::user("question " + std::to_string(i)));
        const checkpoint next("planner", chat, i);
        if (i == 0)
            first = next.id();
        store.save(next);
    }
    CHECK(server.trips_of([&] { REQUIRE(store.load_latest("planner")->conversation().size() == 300); }) == 2);
    CHECK(server.trips_of([&] { REQUIRE(store.load("planner", "", first).has_value()); }) == 2);

    // Many checkpoints: pages, not checkpoints, are what counts.
    CHECK(server.trips_of([&] { REQUIRE(store.load_all(query("planner")).size() == 300); }) < 20);
}

TEST_CASE("every statement of saves and loads is keyed by the agent")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    postgres_store store(server.proxy.conninfo(), server.options());
    server.proxy.take_statements();
    std::vector<conversation> chats;
    for (int i = 0; i < 3; ++i)
        save_all(store, next_turns(chats, 4, true));
    const auto batch = next_turns(chats, 4, true);
    save_all(store, batch);
    save_all(store, batch); // again
    CHECK(store.load_latest(agent_name(0)));
    CHECK(store.load(agent_name(1), "", batch[1].checkpoint().id()));
    CHECK(store.load_all(query(agent_name(2))).size() == 4);
    CHECK(store.list(query(agent_name(2))).size() == 4);

    int about_tables = 0;
    for (const auto& sql : server.proxy.take_statements()) {
        if (sql.find(server.schema.name()) == std::string::npos)
            continue; // BEGIN, COMMIT, settings
        ++about_tables;
        CAPTURE(sql);
        if (sql.starts_with("INSERT"))
            CHECK(sql.find("(agent_id, ") != std::string::npos);
        else
            CHECK(sql.find("WHERE agent_id = $1") != std::string::npos);
        // What distributed databases do not have, or have in other words.
        for (const auto* word : {"nextval", "RETURNING", "MERGE", "LATERAL", "ctid", "unnest", "::"})
            CHECK(sql.find(word) == std::string::npos);
    }
    CHECK(about_tables > 20);
}

TEST_CASE("writers of the same agents, in any order, do not block each other for ever")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    constexpr int threads = 4, batches = 25, agents = 10, per_batch = 6;
    std::vector<std::thread> writers;
    std::atomic<int> failures = 0;
    for (int t = 0; t < threads; ++t)
        writers.emplace_back([&, t] {
            postgres_store store(*test::postgres_for_tests(), server.options());
            std::minstd_rand random(static_cast<unsigned>(t + 1));
            for (int b = 0; b < batches; ++b) {
                std::vector<std::size_t> order(agents);
                for (std::size_t i = 0; i < order.size(); ++i)
                    order[i] = i;
                std::shuffle(order.begin(), order.end(), random);
                std::vector<save_request> batch;
                for (int i = 0; i < per_batch; ++i)
                    batch.emplace_back(checkpoint(agent_name(order[static_cast<std::size_t>(i)])));
                for (const auto& outcome : store.save(batch))
                    failures += outcome.code() ? 1 : 0;
            }
        });
    for (auto& writer : writers)
        writer.join();
    CHECK(failures == 0);
    postgres_store store(*test::postgres_for_tests(), server.options());
    CHECK(store.count(query::all_agents()) == threads * batches * per_batch);
    CHECK(store.verify().ok());
}

TEST_CASE("of two that expect the same head, one wins")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    postgres_store first(*test::postgres_for_tests(), server.options());
    first.save(checkpoint("planner").with_id("0"));
    constexpr int rounds = 40;
    std::atomic<int> wins = 0, conflicts = 0;
    for (int round = 1; round <= rounds; ++round) {
        const auto head = first.load_latest("planner")->id();
        std::vector<std::thread> rivals;
        for (const std::string name : {"a", "b"})
            rivals.emplace_back([&, name] {
                const save_request request(checkpoint("planner").with_id(name + std::to_string(round)),
                                           save_options().expect_head(head));
                const auto outcome = first.save(std::span(&request, 1)).at(0);
                (outcome.code() == errc::conflict ? conflicts : wins) += 1;
            });
        for (auto& rival : rivals)
            rival.join();
    }
    CHECK(wins == rounds);
    CHECK(conflicts == rounds);
    CHECK(first.count(query("planner")) == rounds + 1);
}

TEST_CASE("an async_store writes on several connections and keeps the order of each agent")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    const auto backend =
        std::make_shared<postgres_store>(*test::postgres_for_tests() + "&application_name=several_lanes",
                                         server.options().with_write_lanes(4));
    CHECK(backend->write_lanes() == 4);
    asio::thread_pool pool(1);
    async_store store(pool.get_executor(), backend);
    std::vector<std::future<save_receipt>> results;
    constexpr int agents = 16, turns = 20;
    for (int number = 0; number < turns; ++number)
        for (std::size_t i = 0; i < agents; ++i)
            results.push_back(store.async_save(checkpoint(agent_name(i), {}, number), asio::use_future));
    for (auto& result : results)
        result.get();
    test::server_connection sql(*test::postgres_for_tests());
    for (std::size_t i = 0; i < agents; ++i) {
        const auto list = backend->list(query(agent_name(i)).oldest_first());
        REQUIRE(list.size() == turns);
        for (int number = 0; number < turns; ++number)
            CHECK(list[static_cast<std::size_t>(number)].iteration() == number);
    }
    CHECK(sql.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'several_lanes'") >= 2);
}

TEST_CASE("with prepared statements kept on the server, the promises are the same")
{
    if (!test::postgres_for_tests())
        return;
    std::vector<std::shared_ptr<test::leased_schema>> schemas;
    const testing::backend_under_test backend("PostgreSQL, prepared", [&]() -> std::shared_ptr<store> {
        schemas.push_back(std::make_shared<test::leased_schema>(*test::postgres_for_tests(), 0));
        return std::make_shared<postgres_store>(
            *test::postgres_for_tests(),
            postgres_options().with_schema(schemas.back()->name()).with_prepared_statements());
    });
    testing::compare_with_model(backend, 1, 300);

    // The same statements again and again in one trip, with others between them.
    const auto fresh = backend.make_empty();
    for (int round = 0; round < 3; ++round) {
        std::vector<save_request> batch;
        for (int i = 0; i < 6; ++i)
            batch.emplace_back(checkpoint("planner", {}, round)
                                   .with_id(i % 2 == 0 ? "same" : "c" + std::to_string(10 * round + i)));
        save_all(*fresh, batch);
    }
    CHECK(fresh->count(query("planner")) == 10);
}

TEST_CASE("the messages behind a long conversation are read without going through it")
{
    if (!test::postgres_for_tests())
        return;
    constexpr int turns = 600;
    counted_server server;
    test::server_connection sql(*test::postgres_for_tests());
    // Of an index that the server knows nothing about yet: the tables are new, and nobody has analysed them.
    const auto schema = server.schema.name() + "_new";
    sql.run("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
    const auto counter = [&](const std::string& what) {
        return sql.number("SELECT coalesce(sum(" + what +
                          "), 0) FROM pg_stat_user_indexes WHERE schemaname = '" + schema +
                          "' AND relname LIKE 'messages%'");
    };
    std::vector<checkpoint_key> keys;
    {
        postgres_store store(server.proxy.conninfo(), server.options().with_schema(schema));
        std::vector<save_request> batch;
        conversation chat;
        for (int i = 0; i < turns; ++i) {
            chat.push(message::user("message " + std::to_string(i)));
            batch.emplace_back(checkpoint("agent", chat, i));
            keys.push_back(batch.back().checkpoint().key());
        }
        save_all(store, batch);
        CHECK(store.load_some(keys, {}, 1'000'000'000).size() == turns);
    }
    // A connection says what it has read when it is closed, and that takes a moment.
    while (counter("idx_scan") < turns)
        std::this_thread::yield();
    CHECK(counter("idx_tup_read") < 10 * turns);
    sql.run("DROP SCHEMA " + schema + " CASCADE");
}

TEST_CASE("a summary in front of kept messages takes two round trips, whatever came before")
{
    if (!test::postgres_for_tests())
        return;
    for (const int count : {100, 400}) {
        counted_server server;
        postgres_store store(server.proxy.conninfo(), server.options());
        conversation chat;
        for (int i = 0; i < count; ++i) {
            chat.push(message::user("message " + std::to_string(i)));
            store.save(checkpoint("agent", chat).with_id(std::to_string(i)));
        }
        const auto compacted = [&] {
            conversation result;
            result.push(message::user("What happened so far: little."));
            for (auto i = chat.size() - 20; i < chat.size(); ++i)
                result.push(chat[i]);
            return result;
        };
        auto next =
            checkpoint("agent", compacted()).with_id("compacted").with_parent(std::to_string(count - 1));
        CHECK(server.trips_of([&] { CHECK(store.save(next).bytes_written() < 700); }) <= 3);
        CHECK(store.load("agent", "", "compacted") == next);

        // Others have written: what is remembered is asked for together.
        postgres_store other(server.proxy.conninfo(), server.options());
        other.save(checkpoint("agent").with_scope("other"));
        next = checkpoint("agent", compacted()).with_id("again").with_parent("compacted");
        CHECK(server.trips_of([&] { CHECK(store.save(next).bytes_written() < 700); }) <= 4);
        CHECK(store.load("agent", "", "again") == next);
        CHECK(store.verify().ok());
    }
}

TEST_CASE("the large parts of a message are looked up together, and read together")
{
    if (!test::postgres_for_tests())
        return;
    counted_server server;
    postgres_store store(server.proxy.conninfo(), server.options());
    store.save(checkpoint("agent").with_id("first"));
    boost::json::array images;
    for (int i = 0; i < 6; ++i)
        images.push_back(boost::json::value(std::string(20'000, static_cast<char>('a' + i))));
    conversation chat;
    chat.push(message::from({{"role", "user"}, {"content", "look"}, {"images", images}}));
    const auto next = checkpoint("agent", chat).with_id("images");
    CHECK(server.trips_of([&] { store.save(next); }) <= 4);
    chat.push(message::from({{"role", "user"}, {"content", "look again"}, {"images", images}}));
    CHECK(server.trips_of([&] {
        CHECK(store.save(checkpoint("agent", chat).with_id("more")).bytes_written() < 1'500);
    }) <= 4);
    postgres_store fresh(server.proxy.conninfo(), server.options());
    fresh.load("agent", "", "first");
    CHECK(server.trips_of([&] { CHECK(fresh.load("agent", "", "images") == next); }) <= 4);
}
