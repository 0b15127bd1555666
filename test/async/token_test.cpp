//! Any completion token works.
#include "asio_names.hpp"
#include "catch.hpp"
#include "run_coroutine.hpp"

#include <waymark/async_store.hpp>
#include <waymark/memory_store.hpp>

#include <asio/experimental/awaitable_operators.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <thread>

using namespace waymark;
using test::run_coroutine;

namespace {

struct memory_fixture {
    asio::io_context io;
    async_store shared{io.get_executor(), std::make_shared<memory_store>()};
};

checkpoint sample(std::string id = "c1")
{
    return checkpoint("agent").with_id(std::move(id));
}

} // namespace

TEST_CASE_METHOD(memory_fixture, "co_await without a token")
{
    run_coroutine(io, [](async_store& store) -> asio::awaitable<void> {
        const auto receipt = co_await store.async_save(sample());
        CHECK(receipt.sequence() == 1);
        CHECK(receipt.batch_size() == 1);
        CHECK(receipt.bytes_written() > 0);
        CHECK(receipt.latency().count() > 0);
        const auto head = co_await store.async_load_latest("agent");
        CHECK(head->id() == "c1");
        co_await store.async_flush();
        // Errors are thrown as Asio does.
        try {
            co_await store.async_save(checkpoint(""));
            FAIL("accepted");
        } catch (const std::system_error& failure) {
            CHECK(failure.code() == errc::invalid_argument);
        }
    }(shared));
}

TEST_CASE_METHOD(memory_fixture, "use_awaitable, redirect_error and as_tuple")
{
    run_coroutine(io, [](async_store& store) -> asio::awaitable<void> {
        const auto receipt = co_await store.async_save(sample(), asio::use_awaitable);
        CHECK(receipt.sequence() == 1);

        std::error_code code;
        diagnostics details;
        co_await store.async_save(checkpoint(""),
                                  with_diagnostics(details, asio::redirect_error(asio::use_awaitable, code)));
        CHECK(code == errc::invalid_argument);
        CHECK(details.message().find("agent id") != std::string::npos);
        co_await store.async_save(sample("c2"),
                                  with_diagnostics(details, asio::redirect_error(asio::use_awaitable, code)));
        CHECK_FALSE(code);
        CHECK(details.empty()); // a success clears what was there

        const auto outcome = co_await store.async_load_latest("agent", test::as_tuple(asio::use_awaitable));
        CHECK_FALSE(std::get<0>(outcome));
        CHECK(std::get<1>(outcome)->id() == "c2");
        const auto flushed = co_await store.async_flush(test::as_tuple(asio::use_awaitable));
        CHECK_FALSE(std::get<0>(flushed));
    }(shared));
}

TEST_CASE_METHOD(memory_fixture, "callbacks, also such as can only be moved")
{
    int calls = 0;
    shared.async_save(sample(),
                      [&calls, owned = std::make_unique<int>(7)](std::error_code code, save_receipt receipt) {
                          CHECK_FALSE(code);
                          CHECK(receipt.sequence() == 1);
                          CHECK(*owned == 7);
                          ++calls;
                      });
    shared.async_flush([&calls, owned = std::make_unique<int>(8)](std::error_code code) {
        CHECK_FALSE(code);
        CHECK(*owned == 8);
        ++calls;
    });
    CHECK(calls == 0);
    io.run();
    CHECK(calls == 2);
    // One that is named and copied.
    const auto handler = [&calls](std::error_code, std::optional<checkpoint> found) {
        CHECK(found->id() == "c1");
        ++calls;
    };
    shared.async_load("agent", "", "c1", handler);
    io.restart();
    io.run();
    CHECK(calls == 3);
}

TEST_CASE_METHOD(memory_fixture, "use_future")
{
    auto saved = shared.async_save(sample(), asio::use_future);
    auto bad = shared.async_save(checkpoint(""), asio::use_future);
    auto flushed = shared.async_flush(asio::use_future);
    std::jthread runner([&] { io.run(); });
    CHECK(saved.get().sequence() == 1);
    CHECK_THROWS_AS(bad.get(), std::system_error);
    flushed.get();
}

TEST_CASE_METHOD(memory_fixture, "deferred starts when it is called")
{
    auto operation = shared.async_save(sample(), test::deferred);
    auto flush = shared.async_flush(test::deferred);
    io.run();
    CHECK(shared.backend()->count(query("agent")) == 0);
    int calls = 0;
    std::move(operation)([&](std::error_code code, save_receipt) { calls += code ? 0 : 1; });
    std::move(flush)([&](std::error_code code) { calls += code ? 0 : 1; });
    io.restart();
    io.run();
    CHECK(calls == 2);
    CHECK(shared.backend()->count(query("agent")) == 1);
}

TEST_CASE_METHOD(memory_fixture, "operations can be awaited together")
{
    run_coroutine(io, [](async_store& store) -> asio::awaitable<void> {
        using namespace asio::experimental::awaitable_operators;
        co_await (store.async_save(sample("a"), asio::use_awaitable) &&
                  store.async_save(sample("b"), asio::use_awaitable));
        CHECK(store.backend()->count(query("agent")) == 2);
    }(shared));
}

TEST_CASE("the token parameter takes tokens only")
{
    // An unconstrained parameter would swallow the literal and call the wrong overload.
    static_assert(!detail::token_for<const char(&)[2], std::optional<checkpoint>>);
    static_assert(!detail::token_for<std::string, std::optional<checkpoint>>);
    static_assert(!detail::token_for<diagnostics&, save_receipt>);
    static_assert(detail::token_for<asio::use_future_t<>, save_receipt>);
    SUCCEED();
}
