//! What a store_observer sees, and what it tells its log.
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>
#include <waymark/store_observer.hpp>

#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

using namespace waymark;
using test::into;
using test::numbered;

namespace {

struct observed_fixture : test::gated_fixture {
    explicit observed_fixture(std::shared_ptr<store_observer> by = std::make_shared<store_observer>())
        : gated_fixture(1, async_options().with_observer(by)), observer(std::move(by))
    {
    }

    std::shared_ptr<store_observer> observer;
};

//! Keeps the lines of a log.
class kept_log {
public:
    explicit kept_log(log_level least) : observer(std::make_shared<store_observer>())
    {
        observer->on_log(least, [this](const log_record& record) {
            std::ostringstream line;
            line << record;
            const std::lock_guard lock(mutex_);
            lines_.push_back(line.str());
        });
    }

    std::vector<std::string> lines() const
    {
        const std::lock_guard lock(mutex_);
        return lines_;
    }

    std::shared_ptr<store_observer> observer;

private:
    mutable std::mutex mutex_;
    std::vector<std::string> lines_;
};

} // namespace

TEST_CASE("a histogram counts small values exactly, and others within a quarter")
{
    for (std::uint64_t value = 0; value < 8; ++value)
        CHECK(histogram::upper_bound(histogram::bucket_of(value)) == value);
    std::size_t last = 0;
    for (std::uint64_t value = 1; value < (std::uint64_t{1} << 62); value += value / 7 + 1) {
        const auto bucket = histogram::bucket_of(value);
        REQUIRE(bucket < histogram::buckets);
        REQUIRE(bucket >= last);
        REQUIRE(histogram::upper_bound(bucket) >= value);
        REQUIRE(histogram::upper_bound(bucket) - value <= value / 4);
        if (bucket > 0)
            REQUIRE(histogram::upper_bound(bucket - 1) < value);
        last = bucket;
    }
    CHECK(histogram::bucket_of(~std::uint64_t{0}) == histogram::buckets - 1);
    CHECK(histogram::upper_bound(histogram::buckets - 1) == ~std::uint64_t{0});
    CHECK(histogram().quantile(0.5) == 0);
}

TEST_CASE("quantiles are at most a quarter too high, and never above the largest value")
{
    store_observer observer;
    for (std::size_t i = 1; i <= 1000; ++i)
        observer.write_started(i);
    const auto depths = observer.figures().queue_depths;
    CHECK(depths.count() == 1000);
    CHECK(depths.sum() == 500'500);
    CHECK(depths.largest() == 1000);
    for (const auto& [fraction, exact] : {std::pair{0.0, 1U}, {0.5, 500U}, {0.9, 900U}, {0.99, 990U}}) {
        CHECK(depths.quantile(fraction) >= exact);
        CHECK(depths.quantile(fraction) <= exact + exact / 4);
    }
    CHECK(depths.quantile(1.0) == 1000);
}

TEST_CASE("the difference of two looks is what came between them")
{
    store_observer observer;
    observer.write_started(1'000);
    observer.ended(store_operation::save, "agent", std::chrono::milliseconds(90), {}, {});
    const auto before = observer.figures();
    observer.write_started(3);
    observer.write_started(5);
    observer.ended(store_operation::save, "agent", std::chrono::microseconds(7), {}, {});
    observer.ended(store_operation::load, "agent", std::chrono::microseconds(7), errc::io, {});
    const auto between = observer.figures() - before;
    CHECK(between.queue_depths.count() == 2);
    CHECK(between.queue_depths.sum() == 8);
    CHECK(between.queue_depths.largest() == 5);
    CHECK(between.of(store_operation::save).succeeded == 1);
    CHECK(between.of(store_operation::save).latency.quantile(1) < 10'000);
    CHECK(between.of(store_operation::load).failed == 1);
    CHECK((before - before).of(store_operation::save).latency.largest() == 0);
}

TEST_CASE("an observer counts what succeeded, failed and was cancelled, by operation")
{
    observed_fixture f;
    std::error_code code;
    f.store.async_save(numbered("agent", 1), into(code));
    f.store.async_load_latest("agent", into(code));
    f.store.async_load_latest("nobody", into(code)); // absence is no failure
    f.store.async_list(query("agent"), into(code));
    f.store.async_pin("agent", "", "1", true, into(code));
    f.store.async_verify(into(code));
    f.store.async_flush(into(code));
    f.io.run();
    f.io.restart();
    f.store.async_save(numbered("agent", 1).with_iteration(7), save_options().create_only(), into(code));
    f.io.run();
    f.io.restart();
    CHECK(code == errc::conflict);
    f.hold_a_save();
    asio::cancellation_signal cancel;
    f.store.async_save(numbered("agent", 2), asio::bind_cancellation_slot(cancel.slot(), into(code)));
    cancel.emit(asio::cancellation_type::total);
    f.backend->open_gate();
    f.io.run();
    CHECK(code == asio::error::operation_aborted);

    const auto seen = f.observer->figures();
    const auto& saves = seen.of(store_operation::save);
    CHECK(saves.succeeded == 2);
    CHECK(saves.failed == 1);
    CHECK(saves.aborted == 1);
    CHECK(saves.latency.count() == 3);
    CHECK(saves.latency.quantile(0.5) > 0);
    CHECK(seen.of(store_operation::load).succeeded == 2);
    CHECK(seen.of(store_operation::list).succeeded == 1);
    CHECK(seen.of(store_operation::pin).succeeded == 1);
    CHECK(seen.of(store_operation::verify).succeeded == 1);
    CHECK(seen.of(store_operation::flush).succeeded == 1);
    CHECK(seen.of(store_operation::erase).succeeded == 0);
    CHECK(seen.batches.count() == seen.commits.count());
    CHECK(seen.batches.count() >= 3); // two saves that succeeded, one that failed, a pin
}

TEST_CASE("an observer sees how many saves share a commit, and how many waited")
{
    observed_fixture f;
    std::error_code code;
    f.hold_a_save();
    for (int i = 0; i < 9; ++i)
        f.store.async_save(numbered("agent", i), into(code));
    f.backend->open_gate();
    f.io.run();
    const auto seen = f.observer->figures();
    CHECK(seen.batches.largest() == 9);
    CHECK(seen.batches.sum() == 10);
    CHECK(seen.queue_depths.largest() == 9); // the ninth came behind the one that is held, and eight others
    CHECK(seen.of(store_operation::save).succeeded == 10);
}

TEST_CASE("an observer counts what found no room")
{
    auto observer = std::make_shared<store_observer>();
    test::gated_fixture f(
        1,
        async_options().with_observer(observer).with_max_queued_operations(1).with_max_waiting_operations(0));
    std::error_code code;
    f.hold_a_save();
    f.store.async_save(numbered("agent", 1), into(code));
    f.backend->open_gate();
    f.io.run();
    CHECK(code == errc::overloaded);
    CHECK(observer->figures().overloaded == 1);
    CHECK(observer->figures().of(store_operation::save).failed == 1);
}

TEST_CASE("the log names operation, agent and reason, and never what is saved")
{
    kept_log log(log_level::debug);
    observed_fixture f(log.observer);
    std::error_code code;
    const auto secret = [](int iteration) {
        conversation chat;
        chat.push(message::user("the password is swordfish"));
        return checkpoint("agent", chat, iteration)
            .with_id("c1")
            .with_state({{"key", "swordfish"}})
            .with_metadata("note", "swordfish");
    };
    f.store.async_save(secret(1), into(code));
    f.io.run();
    f.io.restart();
    f.store.async_save(secret(2), save_options().create_only(), into(code));
    f.io.run();
    REQUIRE(code == errc::conflict);
    const auto lines = log.lines();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].starts_with("debug: save of agent 'agent': done in "));
    CHECK(lines[1].starts_with("info: save of agent 'agent': "));
    CHECK(lines[1].find("c1") != std::string::npos);
    for (const auto& line : lines)
        CHECK(line.find("swordfish") == std::string::npos);
}

TEST_CASE("a log is told nothing below its level, and may throw")
{
    auto observer = std::make_shared<store_observer>();
    int calls = 0;
    observer->on_log(log_level::error, [&](const log_record&) {
        ++calls;
        throw std::runtime_error("a log that fails");
    });
    observed_fixture f(observer);
    std::error_code code;
    f.store.async_save(numbered("agent", 1), into(code));
    f.io.run();
    f.io.restart();
    CHECK(calls == 0);
    f.backend->fail_with(error(errc::io, "the disk is gone"));
    f.store.async_save(numbered("agent", 2), into(code));
    f.io.run();
    CHECK(code == errc::io);
    CHECK(calls == 1);
    CHECK_THROWS_AS(observer->on_log(log_level::error, {}), error);
}

TEST_CASE("an observer of a SQLite store sees waits for others, and that the store is out of use")
{
    test::temporary_folder folder;
    const auto file = folder.path() / "agents.db";
    kept_log log(log_level::warning);
    sqlite_store store(file, sqlite_options().with_observer(log.observer));
    store.save(checkpoint("agent"));
    CHECK(log.observer->figures().busy_waits.count() == 0);
    {
        test::other_connection other(file);
        other.run("BEGIN IMMEDIATE");
        std::jthread saves([&] { store.save(checkpoint("agent")); });
        std::this_thread::sleep_for(std::chrono::milliseconds(400)); // what is measured is a time
        other.run("COMMIT");
    }
    const auto waits = log.observer->figures().busy_waits;
    CHECK(waits.count() == 1);
    REQUIRE(log.lines().size() == 1);
    CHECK(log.lines()[0].starts_with("warning: waited "));

    std::filesystem::rename(file, folder.path() / "elsewhere.db");
    CHECK_THROWS_AS(store.save(checkpoint("agent")), error);
    REQUIRE(log.lines().size() == 2);
    CHECK(log.lines()[1].starts_with("error: "));
    CHECK(log.lines()[1].find("agents.db") != std::string::npos);
}

#if defined(__linux__)
TEST_CASE("the threads of a store have names")
{
    test::temporary_folder folder;
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<sqlite_store>(folder.path() / "agents.db"));
    std::error_code code;
    store.async_save(checkpoint("agent"), into(code));
    io.run();
    REQUIRE_FALSE(code);
    std::set<std::string> names;
    while (!names.contains("waymark-work") || !names.contains("waymark-log")) // a thread names itself
        for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
            std::string name;
            std::getline(std::ifstream(each.path() / "comm"), name);
            names.insert(name);
        }
    SUCCEED();
}
#endif
