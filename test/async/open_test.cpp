//! Opening a store beside everything else.
#include "catch.hpp"
#include "gated_fixture.hpp"
#include "run_coroutine.hpp"
#include "temporary_folder.hpp"

#include <waymark/async_open.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>

#include <future>
#include <thread>

using namespace waymark;

TEST_CASE("a store is opened on another thread, and can be used")
{
    test::temporary_folder folder;
    asio::io_context io;
    std::thread::id opened_on;
    test::run_coroutine(io, [&]() -> asio::awaitable<void> {
        const auto open = [&] {
            opened_on = std::this_thread::get_id();
            return std::make_shared<sqlite_store>(folder.path() / "agents.db");
        };
        const auto store = co_await async_open(io.get_executor(), open);
        co_await store->async_save(checkpoint("agent").with_id("c1"));
        const auto head = co_await store->async_load_latest("agent");
        CHECK(head->id() == "c1");
        CHECK(store->get_executor() == io.get_executor());
    }());
    CHECK(opened_on != std::this_thread::get_id());
}

TEST_CASE("a store is opened on the pool that it will use")
{
    asio::io_context io;
    asio::thread_pool pool(1);
    std::promise<std::thread::id> thread_of_pool;
    asio::post(pool, [&] { thread_of_pool.set_value(std::this_thread::get_id()); });
    const auto expected = thread_of_pool.get_future().get();
    test::run_coroutine(io, [&]() -> asio::awaitable<void> {
        const auto open = [&] {
            CHECK(std::this_thread::get_id() == expected);
            return std::make_shared<memory_store>();
        };
        const auto store =
            co_await async_open(io.get_executor(), open, async_options().with_pool(pool.get_executor()));
        co_await store->async_save(checkpoint("agent"));
    }());
}

TEST_CASE("a store that cannot be opened says why")
{
    asio::io_context io;
    test::run_coroutine(io, [&]() -> asio::awaitable<void> {
        const auto open = [] { return std::make_shared<sqlite_store>(":memory:"); };
        try {
            co_await async_open(io.get_executor(), open);
            FAIL("it was opened");
        } catch (const error& failure) {
            CHECK(failure.code() == errc::invalid_argument);
            CHECK(std::string(failure.what()).find("in_memory()") != std::string::npos);
        }
        const auto nothing = [] { return std::shared_ptr<store>(); };
        try {
            co_await async_open(io.get_executor(), nothing);
            FAIL("it was opened");
        } catch (const error& failure) {
            CHECK(failure.code() == errc::invalid_argument);
        }
    }());
}

TEST_CASE("an opening that its caller leaves ends at once, and closes what it makes")
{
    asio::io_context io;
    std::promise<void> go_on;
    std::promise<void> closed;
    class closing_store : public test::forwarding_store {
    public:
        explicit closing_store(std::promise<void>& closed) : closed_(closed) {}
        ~closing_store() override { closed_.set_value(); }

    private:
        std::promise<void>& closed_;
    };
    std::promise<void> begun;
    const auto open = [&] {
        begun.set_value();
        go_on.get_future().wait();
        return std::make_shared<closing_store>(closed);
    };
    asio::cancellation_signal cancel;
    std::error_code code;
    bool is_null = false;
    const auto note = [&](std::error_code result, std::unique_ptr<async_store> store) {
        code = result;
        is_null = store == nullptr;
    };
    async_open(io.get_executor(), open, asio::bind_cancellation_slot(cancel.slot(), note));
    begun.get_future().wait();
    cancel.emit(asio::cancellation_type::total); // waits for the outcome
    CHECK(io.poll() == 0);
    cancel.emit(asio::cancellation_type::terminal);
    io.run();
    CHECK(code == asio::error::operation_aborted);
    CHECK(is_null);
    go_on.set_value();
    closed.get_future().wait();
}

TEST_CASE("an observer sees that a store was opened, or why not")
{
    asio::io_context io;
    auto observer = std::make_shared<store_observer>();
    std::vector<std::string> lines;
    observer->on_log(log_level::info,
                     [&](const log_record& record) { lines.emplace_back(record.message()); });
    std::error_code code;
    const auto options = async_options().with_observer(observer);
    const auto good = [] { return std::make_shared<memory_store>(); };
    const auto bad = [] { return std::make_shared<sqlite_store>("/"); };
    async_open(io.get_executor(), good, options, test::into(code));
    io.run();
    io.restart();
    CHECK_FALSE(code);
    async_open(io.get_executor(), bad, options, test::into(code));
    io.run();
    CHECK(code == errc::invalid_argument);
    CHECK(observer->figures().of(store_operation::open).succeeded == 1);
    CHECK(observer->figures().of(store_operation::open).failed == 1);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("slash") != std::string::npos);
}
