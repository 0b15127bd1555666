//! What the two implementations that Waymark grew out of promised: each of their tests, and each function of
//! Breakpilot's manager, on every store.
#include "on_every_store.hpp"
#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <boost/json/parse.hpp>

#include <fstream>

using namespace waymark;
using test::on_every_store;
namespace json = boost::json;

namespace {

checkpoint test_checkpoint(const std::string& agent, std::int64_t iteration)
{
    return checkpoint(agent, conversation{100'000}.with_system_prompt("test"), iteration);
}

using shared_store = std::shared_ptr<store>;

template <class Body>
void on_each(Body body)
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            body(backend.make_empty());
        }
}

} // namespace

// smooth-operator: checkpoints and strategies

TEST_CASE("seed: checkpoint_creation")
{
    const auto point = test_checkpoint("agent-1", 5);
    CHECK(point.agent_id() == "agent-1");
    CHECK(point.iteration() == 5);
    CHECK_FALSE(point.id().empty());
}

TEST_CASE("seed: checkpoint_with_metadata")
{
    const auto point = test_checkpoint("agent-1", 1)
                           .with_metadata("phase", "execute")
                           .with_metadata("bead_id", "smooth-abc");
    CHECK(point.metadata().at("phase") == "execute");
    CHECK(point.metadata().at("bead_id") == "smooth-abc");
}

TEST_CASE("seed: checkpoint_serialization")
{
    const auto restored = checkpoint::from_bytes(test_checkpoint("agent-1", 3).to_bytes());
    CHECK(restored.agent_id() == "agent-1");
    CHECK(restored.iteration() == 3);
}

TEST_CASE("seed: strategy_every_n, strategy_after_tool_call, strategy_never")
{
    const auto every_third = strategy::every_n(3);
    CHECK_FALSE(every_third.should_checkpoint(1, event::iteration));
    CHECK_FALSE(every_third.should_checkpoint(2, event::iteration));
    CHECK(every_third.should_checkpoint(3, event::iteration));
    CHECK(every_third.should_checkpoint(6, event::iteration));
    const auto after_tool = strategy::after_tool_call();
    CHECK(after_tool.should_checkpoint(1, event::tool_call_complete));
    CHECK_FALSE(after_tool.should_checkpoint(1, event::llm_response));
    CHECK_FALSE(strategy::never().should_checkpoint(1, event::tool_call_complete));
    CHECK_FALSE(strategy::never().should_checkpoint(1, event::llm_response));
}

// smooth-operator: stores

TEST_CASE("seed: save_and_load, save_load_latest_roundtrip, in_memory_works")
{
    on_each([](const shared_store& store) {
        store->save(test_checkpoint("agent-1", 5));
        const auto latest = store->load_latest("agent-1").value();
        CHECK(latest.agent_id() == "agent-1");
        CHECK(latest.iteration() == 5);
    });
}

TEST_CASE("seed: load_by_id, load_roundtrip")
{
    on_each([](const shared_store& store) {
        const auto point = test_checkpoint("agent-1", 42);
        store->save(point);
        const auto loaded = store->load(point.id()).value();
        CHECK(loaded.id() == point.id());
        CHECK(loaded.agent_id() == "agent-1");
        CHECK(loaded.iteration() == 42);
    });
}

TEST_CASE("seed: load_nonexistent, nonexistent_returns_none")
{
    on_each([](const shared_store& store) {
        CHECK_FALSE(store->load_latest("nonexistent"));
        CHECK_FALSE(store->load("bad-id"));
    });
}

TEST_CASE("seed: list_ordered, list_scans_directory, list_newest_first")
{
    on_each([](const shared_store& store) {
        const auto start = now();
        for (int i = 0; i < 5; ++i)
            store->save(test_checkpoint("agent-1", i).with_created_at(start + std::chrono::seconds(i)));
        store->save(test_checkpoint("agent-2", 0));
        const auto list = store->list(query("agent-1"));
        REQUIRE(list.size() == 5);
        for (std::size_t i = 0; i + 1 < list.size(); ++i)
            CHECK(list[i].created_at() > list[i + 1].created_at());
    });
}

TEST_CASE("seed: prune, prune_deletes_old, prune_keeps_n")
{
    on_each([](const shared_store& store) {
        for (int i = 0; i < 10; ++i)
            store->save(test_checkpoint("agent-1", i));
        CHECK(store->prune("agent-1", retention().keep_last(3), dry_run::no).count() == 7);
        const auto left = store->list(query("agent-1"));
        REQUIRE(left.size() == 3);
        CHECK(left.back().iteration() == 7);
    });
}

TEST_CASE("seed: prune_different_agents, prune_isolates_agents")
{
    on_each([](const shared_store& store) {
        for (int i = 0; i < 5; ++i) {
            store->save(test_checkpoint("agent-1", i));
            store->save(test_checkpoint("agent-2", i));
        }
        store->prune("agent-1", retention().keep_last(2), dry_run::no);
        CHECK(store->count(query("agent-1")) == 2);
        CHECK(store->count(query("agent-2")) == 5);
    });
}

TEST_CASE("seed: concurrent_saves", "[stores]")
{
    on_every_store([](async_store& store) -> asio::awaitable<void> {
        int left = 50; // the seed saved one after the other; here they are under way at once
        for (int i = 0; i < 50; ++i)
            store.async_save(test_checkpoint("agent-1", i), [&](std::error_code code, save_receipt) {
                CHECK_FALSE(code);
                --left;
            });
        co_await store.async_flush();
        const auto count = co_await store.async_count(query("agent-1"));
        CHECK(count == 50);
        CHECK(left == 0);
    });
}

TEST_CASE("seed: save_creates_file, nested_agent_dirs")
{
    const test::temporary_folder folder;
    file_store store(folder.path());
    const auto point = test_checkpoint("agent-a", 1).with_id("c1");
    store.save(point);
    store.save(test_checkpoint("agent-b", 1));
    CHECK(std::filesystem::exists(folder.path() / "agent-a" / "c1.json"));
    CHECK(std::filesystem::is_directory(folder.path() / "agent-b"));
}

TEST_CASE("seed: missing_dir_created, open_creates_schema")
{
    const test::temporary_folder folder;
    const auto nested = folder.path() / "deep" / "nested";
    file_store files(nested / "store");
    files.save(test_checkpoint("agent-1", 1));
    CHECK(files.count(query("agent-1")) == 1);
    sqlite_store database(nested / "more" / "test.db");
    database.save(test_checkpoint("agent-1", 1));
    CHECK(database.count(query("agent-1")) == 1);
}

// Breakpilot's CheckpointManager, function by function

namespace {

json::object data(int number)
{
    json::object object;
    object["n"] = number;
    return object;
}

asio::awaitable<void> use_as_manager(async_store& store)
{
    session manager{store, "session-7"};
    std::vector<std::string> called;
    manager.on_checkpoint([&](const checkpoint_saved& saved) { called.push_back(saved.header().name()); });

    // create(name, data, metadata)
    const auto create = [&](std::string name, int number) -> asio::awaitable<checkpoint_header> {
        co_return co_await manager.async_checkpoint(
            manager.draft({}, number).with_name(name).with_state(data(number)).with_metadata("grader", "a"));
    };
    const auto started = co_await create("task_started", 1);
    co_await create("essay_graded", 2);
    const auto middle = now();
    co_await create("essay_graded", 3);
    CHECK(called == std::vector<std::string>{"task_started", "essay_graded", "essay_graded"});

    // get
    const auto by_id = co_await manager.async_load(started.id());
    CHECK(by_id->state() == data(1));
    CHECK(by_id->metadata().at("grader") == "a");
    const auto none = co_await manager.async_load("nobody");
    CHECK_FALSE(none);
    // get_by_name: newest first
    const auto by_name = co_await manager.async_list(manager.query().named("essay_graded"));
    REQUIRE(by_name.size() == 2);
    CHECK(by_name.front().iteration() == 3);
    // get_latest, with and without a name
    const auto latest = co_await manager.async_load_latest();
    CHECK(latest->iteration() == 3);
    const auto latest_start = co_await manager.async_load_latest("task_started");
    CHECK(latest_start->iteration() == 1);
    // get_all, __iter__: oldest first; __len__
    const auto all = co_await manager.async_load_all(manager.query().oldest_first());
    REQUIRE(all.size() == 3);
    CHECK(all.front().iteration() == 1);
    const auto length = co_await manager.async_count();
    CHECK(length == 3);
    // get_since, get_between
    const auto since = co_await manager.async_list(manager.query().since(middle));
    CHECK(since.size() == 1);
    const auto between = co_await manager.async_list(manager.query().between(started.created_at(), middle));
    CHECK(between.size() == 2);
    // rollback_to: here it does roll back
    const auto back = co_await manager.async_rollback_to(started.id());
    CHECK(back.state() == data(1));
    // get_summary
    const auto summary = co_await manager.async_summary();
    CHECK(summary.checkpoints() == 4);
    CHECK(summary.names().at("essay_graded") == 2);
    CHECK(summary.first()->id() == started.id());
    CHECK(summary.last()->id() == back.id());
    CHECK(summary.duration().count() > 0);
    // export, import_checkpoints
    const auto exported = co_await manager.async_export();
    session copy{store, "copy"};
    const auto imported = co_await copy.async_import(exported);
    CHECK(imported.checkpoints() == 4);
    // clear
    const auto cleared = co_await manager.async_clear();
    CHECK(cleared == 4);
    const auto left = co_await manager.async_count();
    CHECK(left == 0);
    const auto empty = co_await manager.async_summary();
    CHECK(empty.checkpoints() == 0);
}

asio::awaitable<void> enforce_its_numbers(async_store& store)
{
    // max_checkpoints, which the seed never enforced
    session bounded{store, "bounded",
                    session_options().with_retention(retention().keep_last(10)).prune_every(1)};
    for (int i = 0; i < 25; ++i)
        co_await bounded.async_checkpoint("turn", i, {});
    const auto enforced =
        co_await test::eventually(store, [&] { return store.backend()->count(query("bounded")) == 10; });
    CHECK(enforced);

    // compress_after: the first, the newest 20, and the newest of each name between
    session thinned{store, "thinned",
                    session_options().with_retention(retention().thin_after(50)).prune_every(1)};
    for (int i = 0; i < 51; ++i)
        co_await thinned.async_checkpoint(i == 10 ? "rare" : i % 2 == 0 ? "even" : "odd", i, {});
    co_await test::eventually(store, [&] { return store.backend()->count(query("thinned")) == 24; });
    const auto left = co_await thinned.async_list(thinned.query().oldest_first());
    std::vector<std::int64_t> iterations;
    for (const auto& header : left)
        iterations.push_back(header.iteration());
    std::vector<std::int64_t> expected = {0, 10, 29, 30};
    for (std::int64_t i = 31; i < 51; ++i)
        expected.push_back(i);
    CHECK(iterations == expected);
}

} // namespace

TEST_CASE("seed: everything that Breakpilot's manager did, a session does", "[stores]")
{
    on_every_store(use_as_manager);
}

TEST_CASE("seed: max_checkpoints is keep_last, compress_after is thin_after", "[stores]")
{
    on_every_store(enforce_its_numbers);
}
