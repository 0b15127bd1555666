//! with_diagnostics goes with every completion token, and loses no sentence on the way.
#include "asio_names.hpp"
#include "catch.hpp"
#include "run_coroutine.hpp"
#include "tracking_executor.hpp"

#include <waymark/with_diagnostics.hpp>

#include <asio/bind_allocator.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/compose.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_future.hpp>

#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace waymark;
using test::run_coroutine;
using test::tracking_executor;

namespace {

const std::error_code conflict = errc::conflict;
const std::string sentence = "agent 'planner' has a newer checkpoint, 'c8', than the one that was expected";

//! Can be moved, and nothing else.
class movable {
public:
    explicit movable(int number) : number_(std::make_unique<int>(number)) {}
    int number() const { return *number_; }

private:
    std::unique_ptr<int> number_;
};

//! How an operation of Waymark ends.
template <class Handler, class... Results>
void complete(Handler&& handler, std::string said, Results&&... results)
{
    if (auto* wanted = associated_diagnostics<std::decay_t<Handler>>::get(handler))
        *wanted = diagnostics(std::move(said));
    std::forward<Handler>(handler)(std::forward<Results>(results)...);
}

//! An operation that ends with what it was given.
class answer {
public:
    using executor_type = asio::any_io_executor;

    explicit answer(executor_type executor) : executor_(std::move(executor)) {}
    executor_type get_executor() const noexcept { return executor_; }

    template <class Handler, class... Results>
    void operator()(Handler&& handler, std::string said, Results... results) const
    {
        auto executor = asio::get_associated_executor(handler, executor_);
        auto kept = std::allocate_shared<std::decay_t<Handler>>(asio::get_associated_allocator(handler),
                                                                std::forward<Handler>(handler));
        asio::post(executor, [kept = std::move(kept), said = std::move(said),
                              ... results = std::move(results)]() mutable {
            auto owned = std::move(*kept);
            kept.reset(); // the operation's memory is free before the handler is called
            complete(std::move(owned), std::move(said), std::move(results)...);
        });
    }

private:
    executor_type executor_;
};

//! An operation that ends when it is cancelled.
class hang {
public:
    using executor_type = asio::any_io_executor;

    explicit hang(executor_type executor) : executor_(std::move(executor)) {}
    executor_type get_executor() const noexcept { return executor_; }

    template <class Handler>
    void operator()(Handler&& handler) const
    {
        auto slot = asio::get_associated_cancellation_slot(handler);
        REQUIRE(slot.is_connected());
        auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
        auto executor = asio::get_associated_executor(*kept, executor_);
        slot.assign([slot, kept, executor](asio::cancellation_type) {
            asio::post(executor, [slot, kept]() mutable {
                auto owned = std::move(*kept);
                slot.clear();
                complete(std::move(owned), "cancelled by the test",
                         std::error_code(asio::error::operation_aborted), 0);
            });
        });
    }

private:
    executor_type executor_;
};

class oracle {
public:
    explicit oracle(asio::io_context& io) : io_(io) {}

    template <class Value, asio::completion_token_for<void(std::error_code, Value)> Token = default_token>
    auto async_answer(std::error_code code, std::string said, Value value, Token&& token = Token{})
    {
        return asio::async_initiate<Token, void(std::error_code, Value)>(
            answer(io_.get_executor()), token, std::move(said), code, std::move(value));
    }

    template <asio::completion_token_for<void(std::error_code)> Token = default_token>
    auto async_finish(std::error_code code, std::string said, Token&& token = Token{})
    {
        return asio::async_initiate<Token, void(std::error_code)>(answer(io_.get_executor()), token,
                                                                  std::move(said), code);
    }

    template <asio::completion_token_for<void(std::exception_ptr, int)> Token = default_token>
    auto async_throw(std::exception_ptr thrown, std::string said, Token&& token = Token{})
    {
        return asio::async_initiate<Token, void(std::exception_ptr, int)>(answer(io_.get_executor()), token,
                                                                          std::move(said), thrown, 7);
    }

    template <asio::completion_token_for<void(std::error_code, int)> Token = default_token>
    auto async_hang(Token&& token = Token{})
    {
        return asio::async_initiate<Token, void(std::error_code, int)>(hang(io_.get_executor()), token);
    }

private:
    asio::io_context& io_;
};

struct oracle_fixture {
    asio::io_context io;
    oracle shared{io};

    void run()
    {
        io.run();
        io.restart();
    }
};

//! Whether it is the error that the operation ended with, and all of it.
bool tells_all(const error& failure)
{
    return failure.code() == conflict && failure.details().message() == sentence &&
           std::string(failure.what()).find(sentence) != std::string::npos;
}

bool tells_all(const std::exception_ptr& failure)
{
    try {
        std::rethrow_exception(failure);
    } catch (const error& thrown) {
        return tells_all(thrown);
    }
}

//! Counts what is allocated with it.
template <class T>
class counting_allocator {
public:
    using value_type = T;

    explicit counting_allocator(int& count) noexcept : count_(&count) {}
    template <class U>
    counting_allocator(const counting_allocator<U>& other) noexcept : count_(other.count_)
    {
    }

    T* allocate(std::size_t n)
    {
        ++*count_;
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* memory, std::size_t n) { std::allocator<T>().deallocate(memory, n); }

    friend bool operator==(const counting_allocator&, const counting_allocator&) = default;

    int* count_;
};

//! A handler that counts its copies and calls.
class counting_handler {
public:
    counting_handler(int& copies, int& calls) : copies_(&copies), calls_(&calls) {}
    counting_handler(const counting_handler& other) : copies_(other.copies_), calls_(other.calls_)
    {
        ++*copies_;
    }
    counting_handler(counting_handler&&) = default;

    template <class... Results>
    void operator()(Results&&...) &&
    {
        ++*calls_;
    }

private:
    int* copies_;
    int* calls_;
};

} // namespace

TEST_CASE_METHOD(oracle_fixture, "without a token, an operation throws the whole sentence")
{
    run_coroutine(io, [](oracle& asked) -> asio::awaitable<void> {
        CHECK(co_await asked.async_answer({}, "", 42) == 42);
        co_await asked.async_finish({}, "");
        try {
            co_await asked.async_answer(conflict, sentence, 42);
            FAIL("did not throw");
        } catch (const error& failure) {
            CHECK(tells_all(failure));
        }
        try {
            co_await asked.async_finish(conflict, sentence);
            FAIL("did not throw");
        } catch (const error& failure) {
            CHECK(tells_all(failure));
        }
    }(shared));
}

#if defined(WAYMARK_TEST_AWAITS_DEFERRED)
TEST_CASE_METHOD(oracle_fixture, "without a token, an operation can be awaited on any type of executor")
{
    using executor_type = asio::io_context::executor_type;
    bool finished = false;
    asio::co_spawn(
        io.get_executor(),
        [](oracle& asked) -> asio::awaitable<void, executor_type> {
            CHECK((co_await asked.async_answer({}, "", movable(42))).number() == 42);
            try {
                co_await asked.async_answer(conflict, sentence, movable(42));
                FAIL("did not throw");
            } catch (const error& failure) {
                CHECK(tells_all(failure));
            }
        }(shared),
        [&](std::exception_ptr failure) { finished = !failure; });
    run();
    CHECK(finished);
}
#endif

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics(use_awaitable)")
{
    run_coroutine(io, [](oracle& asked) -> asio::awaitable<void> {
        const auto throwing = with_diagnostics(asio::use_awaitable);
        CHECK(co_await asked.async_answer({}, "", 42, throwing) == 42);
        co_await asked.async_finish({}, "", throwing);
        try {
            co_await asked.async_answer(conflict, sentence, 42, with_diagnostics(asio::use_awaitable));
            FAIL("did not throw");
        } catch (const error& failure) {
            CHECK(tells_all(failure));
        }
        diagnostics details;
        try {
            co_await asked.async_finish(conflict, sentence, with_diagnostics(details, asio::use_awaitable));
            FAIL("did not throw");
        } catch (const std::system_error& failure) {
            CHECK(failure.code() == conflict);
            CHECK(details.message() == sentence);
        }
    }(shared));
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics(deferred) starts when it is called")
{
    diagnostics details("untouched");
    auto throwing = shared.async_answer(conflict, sentence, 42, with_diagnostics(test::deferred));
    auto filling = shared.async_answer(conflict, sentence, 42, with_diagnostics(details, test::deferred));
    run();
    CHECK(details.message() == "untouched");
    int calls = 0;
    std::move(throwing)([&](std::exception_ptr failure, int value) {
        CHECK(tells_all(failure));
        CHECK(value == 42);
        ++calls;
    });
    std::move(filling)([&](std::error_code code, int value) {
        CHECK(code == conflict);
        CHECK(details.message() == sentence);
        CHECK(value == 42);
        ++calls;
    });
    run();
    CHECK(calls == 2);
}

TEST_CASE_METHOD(oracle_fixture, "a deferred operation takes with_diagnostics later")
{
    auto operation = shared.async_answer(conflict, sentence, 42, test::deferred);
    bool called = false;
    std::move(operation)(with_diagnostics([&](std::exception_ptr failure, int) {
        CHECK(tells_all(failure));
        called = true;
    }));
    run();
    CHECK(called);
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics(use_future)")
{
    diagnostics details;
    auto good = shared.async_answer({}, "", 42, with_diagnostics(asio::use_future));
    auto done = shared.async_finish({}, "", with_diagnostics(asio::use_future));
    auto bad = shared.async_answer(conflict, sentence, 42, with_diagnostics(asio::use_future));
    auto code = shared.async_finish(conflict, sentence, with_diagnostics(details, asio::use_future));
    run();
    CHECK(good.get() == 42);
    done.get();
    try {
        bad.get();
        FAIL("did not throw");
    } catch (const error& failure) {
        CHECK(tells_all(failure));
    }
    CHECK_THROWS_AS(code.get(), std::system_error);
    CHECK(details.message() == sentence);
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics(callback), also one that can only be moved")
{
    int calls = 0;
    shared.async_answer(conflict, sentence, movable(42),
                        with_diagnostics([&, owned = movable(7)](std::exception_ptr failure, movable value) {
                            CHECK(tells_all(failure));
                            CHECK(value.number() + owned.number() == 49);
                            ++calls;
                        }));
    shared.async_finish({}, "", with_diagnostics([&](std::exception_ptr failure) {
                            CHECK_FALSE(failure);
                            ++calls;
                        }));
    diagnostics details;
    shared.async_answer(
        conflict, sentence, movable(42),
        with_diagnostics(details, [&, owned = movable(7)](std::error_code code, movable value) {
            CHECK(code == conflict);
            CHECK(details.message() == sentence);
            CHECK(value.number() + owned.number() == 49);
            ++calls;
        }));
    CHECK(calls == 0);
    run();
    CHECK(calls == 3);
}

TEST_CASE_METHOD(oracle_fixture, "a token that has a name can be used again")
{
    const auto state = std::make_shared<int>(0);
    auto token = with_diagnostics([state](std::exception_ptr, int value) { *state += value; });
    const auto constant = token;
    shared.async_answer({}, "", 1, token);
    shared.async_answer({}, "", 10, token);
    shared.async_answer({}, "", 100, constant);
    shared.async_answer({}, "", 1000, constant);
    run();
    CHECK(*state == 1111);
}

TEST_CASE_METHOD(oracle_fixture, "a success clears the details")
{
    diagnostics details("of yesterday");
    shared.async_finish({}, "", with_diagnostics(details, asio::detached));
    CHECK(details.message() == "of yesterday"); // until the handler is called
    run();
    CHECK(details.empty());
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics and as_tuple")
{
    run_coroutine(io, [](oracle& asked) -> asio::awaitable<void> {
        const auto [failure, value] = co_await asked.async_answer(
            conflict, sentence, 42, with_diagnostics(test::as_tuple(asio::use_awaitable)));
        CHECK(tells_all(failure));
        CHECK(value == 42);

        diagnostics inside, outside;
        const auto [code, number] = co_await asked.async_answer(
            conflict, sentence, 42, with_diagnostics(inside, test::as_tuple(asio::use_awaitable)));
        CHECK(code == conflict);
        CHECK(number == 42);
        CHECK(inside.message() == sentence);
        const auto [same] = co_await asked.async_finish(
            conflict, sentence, test::as_tuple(with_diagnostics(outside, asio::use_awaitable)));
        CHECK(same == conflict);
        CHECK(outside.message() == sentence);

        // Around a token that throws, it takes the code first.
        const auto [taken] = co_await asked.async_finish(
            conflict, sentence, test::as_tuple(with_diagnostics(asio::use_awaitable)));
        CHECK(taken == conflict);
    }(shared));
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics and redirect_error")
{
    run_coroutine(io, [](oracle& asked) -> asio::awaitable<void> {
        std::error_code code;
        diagnostics details;
        CHECK(co_await asked.async_answer(
                  conflict, sentence, 42,
                  with_diagnostics(details, asio::redirect_error(asio::use_awaitable, code))) == 42);
        CHECK(code == conflict);
        CHECK(details.message() == sentence);
        co_await asked.async_finish(
            {}, "", asio::redirect_error(with_diagnostics(details, asio::use_awaitable), code));
        CHECK_FALSE(code);
        CHECK(details.empty());
        co_await asked.async_finish(
            conflict, sentence, asio::redirect_error(with_diagnostics(details, asio::use_awaitable), code));
        CHECK(code == conflict);
        CHECK(details.message() == sentence);

        // Inside a token that throws, it finds no code; around it, it takes the code first.
        code = errc::busy;
        try {
            co_await asked.async_finish(conflict, sentence,
                                        with_diagnostics(asio::redirect_error(asio::use_awaitable, code)));
            FAIL("did not throw");
        } catch (const error& failure) {
            CHECK(tells_all(failure));
        }
        CHECK(code == errc::busy);
        co_await asked.async_finish(conflict, sentence,
                                    asio::redirect_error(with_diagnostics(asio::use_awaitable), code));
        CHECK(code == conflict);
    }(shared));
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics(detached)")
{
    diagnostics details;
    shared.async_answer(conflict, sentence, 42, with_diagnostics(asio::detached));
    shared.async_answer(conflict, sentence, 42, with_diagnostics(details, asio::detached));
    run();
    CHECK(details.message() == sentence);
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics and bind_executor, around and inside")
{
    const tracking_executor mine(io.get_executor(), 5);
    std::vector<int> where;
    diagnostics details;
    const auto throwing = [&](std::exception_ptr failure, int) {
        CHECK(tells_all(failure));
        where.push_back(tracking_executor::current());
    };
    const auto filling = [&](std::error_code, int) {
        CHECK(std::exchange(details, {}).message() == sentence);
        where.push_back(tracking_executor::current());
    };
    shared.async_answer(conflict, sentence, 42, asio::bind_executor(mine, with_diagnostics(throwing)));
    shared.async_answer(conflict, sentence, 42, with_diagnostics(asio::bind_executor(mine, throwing)));
    shared.async_answer(conflict, sentence, 42,
                        asio::bind_executor(mine, with_diagnostics(details, filling)));
    shared.async_answer(conflict, sentence, 42,
                        with_diagnostics(details, asio::bind_executor(mine, filling)));
    run();
    CHECK(where == std::vector{5, 5, 5, 5});
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics and bind_allocator: no allocation more than without")
{
    int plain = 0, around = 0, inside = 0, filling = 0;
    diagnostics details;
    const auto ignore = [](auto&&...) {};
    const auto with = [](int& count) { return counting_allocator<int>(count); };
    shared.async_answer({}, "", 42, asio::bind_allocator(with(plain), ignore));
    shared.async_answer({}, "", 42, asio::bind_allocator(with(around), with_diagnostics(ignore)));
    shared.async_answer({}, "", 42, with_diagnostics(asio::bind_allocator(with(inside), ignore)));
    shared.async_answer({}, "", 42, with_diagnostics(details, asio::bind_allocator(with(filling), ignore)));
    run();
    CHECK(plain > 0);
    CHECK(std::array{around, inside, filling} == std::array{plain, plain, plain});
}

TEST_CASE_METHOD(oracle_fixture, "with_diagnostics and bind_cancellation_slot, around and inside")
{
    std::array<asio::cancellation_signal, 4> stop;
    diagnostics first, second;
    int calls = 0;
    const auto throwing = [&](std::exception_ptr failure, int) {
        try {
            std::rethrow_exception(failure);
        } catch (const error& thrown) {
            CHECK(thrown.code() == asio::error::operation_aborted);
            CHECK(thrown.details().message() == "cancelled by the test");
            ++calls;
        }
    };
    const auto filling = [&](std::error_code code, int) {
        CHECK(code == asio::error::operation_aborted);
        ++calls;
    };
    using asio::bind_cancellation_slot;
    shared.async_hang(bind_cancellation_slot(stop[0].slot(), with_diagnostics(throwing)));
    shared.async_hang(with_diagnostics(bind_cancellation_slot(stop[1].slot(), throwing)));
    shared.async_hang(bind_cancellation_slot(stop[2].slot(), with_diagnostics(first, filling)));
    shared.async_hang(with_diagnostics(second, bind_cancellation_slot(stop[3].slot(), filling)));
    for (auto& each : stop)
        each.emit(asio::cancellation_type::total);
    run();
    CHECK(calls == 4);
    CHECK(first.message() == "cancelled by the test");
    CHECK(second.message() == "cancelled by the test");
}

TEST_CASE_METHOD(oracle_fixture, "a parallel group of deferred operations")
{
    diagnostics details;
    bool called = false;
    asio::experimental::make_parallel_group(
        shared.async_answer(conflict, sentence, 1, with_diagnostics(test::deferred)),
        shared.async_answer({}, "", 2, with_diagnostics(test::deferred)),
        shared.async_answer(conflict, sentence, 3, with_diagnostics(details, test::deferred)))
        .async_wait(asio::experimental::wait_for_all(),
                    [&](std::array<std::size_t, 3>, std::exception_ptr first, int one,
                        std::exception_ptr second, int two, std::error_code third, int three) {
                        CHECK(tells_all(first));
                        CHECK_FALSE(second);
                        CHECK(third == conflict);
                        CHECK(details.message() == sentence);
                        CHECK(std::array{one, two, three} == std::array{1, 2, 3});
                        called = true;
                    });
    run();
    CHECK(called);
}

TEST_CASE_METHOD(oracle_fixture, "operations can be awaited together, if the token says use_awaitable")
{
    run_coroutine(io, [](oracle& asked, asio::io_context& context) -> asio::awaitable<void> {
        using namespace asio::experimental::awaitable_operators;
        const auto token = with_diagnostics(asio::use_awaitable);
        const auto [one, two] =
            co_await (asked.async_answer({}, "", 1, token) && asked.async_answer({}, "", 2, token));
        CHECK(one + two == 3);

        asio::steady_timer timer(context, std::chrono::hours(1));
        const auto first =
            co_await (asked.async_answer({}, "", 1, token) || timer.async_wait(asio::use_awaitable));
        CHECK(std::get<0>(first) == 1);
        timer.expires_after(std::chrono::milliseconds(1));
        const auto late = co_await (asked.async_hang(token) || timer.async_wait(asio::use_awaitable));
        CHECK(late.index() == 1);

        try {
            co_await (asked.async_answer(conflict, sentence, 1, token) &&
                      asked.async_answer({}, "", 2, token));
            FAIL("did not throw");
        } catch (const error& failure) {
            CHECK(tells_all(failure));
        }
    }(shared, io));
}

#if defined(WAYMARK_TEST_HAS_CANCEL_AFTER)
TEST_CASE_METHOD(oracle_fixture, "with_diagnostics and cancel_after, around and inside")
{
    run_coroutine(io, [](oracle& asked) -> asio::awaitable<void> {
        using namespace std::chrono_literals;
        CHECK(co_await asked.async_answer({}, "", 42, asio::cancel_after(1h, default_token())) == 42);
        CHECK(co_await asked.async_answer({}, "", 42,
                                          with_diagnostics(asio::cancel_after(1h, asio::deferred))) == 42);
        int told = 0;
        try {
            co_await asked.async_hang(asio::cancel_after(1ms, default_token()));
        } catch (const error& failure) {
            told += failure.details().message() == "cancelled by the test" ? 1 : 0;
        }
        try {
            co_await asked.async_hang(with_diagnostics(asio::cancel_after(1ms, asio::use_awaitable)));
        } catch (const error& failure) {
            told += failure.details().message() == "cancelled by the test" ? 1 : 0;
        }
        CHECK(told == 2);

        diagnostics around, inside;
        std::error_code code;
        const auto token = asio::redirect_error(asio::deferred, code);
        co_await asked.async_hang(asio::cancel_after(1ms, with_diagnostics(around, token)));
        CHECK(code == asio::error::operation_aborted);
        co_await asked.async_hang(with_diagnostics(inside, asio::cancel_after(1ms, token)));
        CHECK(around.message() == "cancelled by the test");
        CHECK(inside.message() == "cancelled by the test");
    }(shared));
}
#endif

#if defined(WAYMARK_TEST_HAS_USE_PROMISE)
TEST_CASE_METHOD(oracle_fixture, "with_diagnostics(use_promise)")
{
    auto promise =
        shared.async_answer(conflict, sentence, 42, with_diagnostics(asio::experimental::use_promise));
    run();
    REQUIRE(promise.completed());
    bool called = false;
    std::move(promise)([&](std::exception_ptr failure, int value) {
        CHECK(tells_all(failure));
        CHECK(value == 42);
        called = true;
    });
    run();
    CHECK(called);
}
#endif

TEST_CASE_METHOD(oracle_fixture, "a result need not be default constructible")
{
    run_coroutine(io, [](oracle& asked) -> asio::awaitable<void> {
        const auto token = with_diagnostics(asio::use_awaitable);
        CHECK((co_await asked.async_answer({}, "", movable(42))).number() == 42);
        CHECK((co_await asked.async_answer({}, "", movable(42), token)).number() == 42);
        try {
            co_await asked.async_answer(conflict, sentence, movable(42));
            FAIL("did not throw");
        } catch (const error& failure) {
            CHECK(tells_all(failure));
        }
    }(shared));
    auto future = shared.async_answer({}, "", movable(42), with_diagnostics(asio::use_future));
    run();
    CHECK(future.get().number() == 42);
}

TEST_CASE_METHOD(oracle_fixture, "what an operation throws by itself arrives as it is")
{
    run_coroutine(io, [](oracle& asked) -> asio::awaitable<void> {
        CHECK(co_await asked.async_throw(nullptr, "") == 7);
        try {
            co_await asked.async_throw(std::make_exception_ptr(error(conflict, sentence)), "not this one");
            FAIL("did not throw");
        } catch (const error& failure) {
            CHECK(tells_all(failure));
        }
        try {
            co_await asked.async_throw(std::make_exception_ptr(std::range_error("of the user's")), "");
            FAIL("did not throw");
        } catch (const std::range_error& failure) {
            CHECK(std::string(failure.what()) == "of the user's");
        }
        diagnostics details;
        const auto [failure, value] =
            co_await asked.async_throw(std::make_exception_ptr(error(conflict, sentence)), sentence,
                                       with_diagnostics(details, test::as_tuple(asio::use_awaitable)));
        CHECK(tells_all(failure));
        CHECK(value == 7);
        CHECK(details.message() == sentence);
    }(shared));
}

TEST_CASE_METHOD(oracle_fixture, "an operation of someone else has a code and no sentence")
{
    asio::steady_timer timer(io, std::chrono::hours(1));
    bool called = false;
    timer.async_wait(with_diagnostics([&](std::exception_ptr failure) {
        try {
            std::rethrow_exception(failure);
        } catch (const error& thrown) {
            CHECK(thrown.code() == asio::error::operation_aborted);
            CHECK(thrown.details().empty());
            called = true;
        }
    }));
    timer.cancel();
    run();
    CHECK(called);
}

TEST_CASE_METHOD(oracle_fixture, "a composed operation passes on what its steps say")
{
    diagnostics details;
    std::error_code ended;
    const auto token = with_diagnostics(details, [&](std::error_code code) { ended = code; });
    asio::async_compose<decltype(token), void(std::error_code)>(
        [&, begun = false](auto& self, std::error_code code = {}) mutable {
            if (std::exchange(begun, true))
                self.complete(code);
            else
                shared.async_finish(conflict, sentence, std::move(self));
        },
        token, io);
    run();
    CHECK(ended == conflict);
    CHECK(details.message() == sentence);
}

TEST_CASE_METHOD(oracle_fixture, "a handler is called once, and moved, not copied")
{
    int copies = 0, calls = 0;
    diagnostics details;
    shared.async_answer(conflict, sentence, 42, with_diagnostics(counting_handler(copies, calls)));
    shared.async_answer(conflict, sentence, 42, with_diagnostics(details, counting_handler(copies, calls)));
    shared.async_finish({}, "", with_diagnostics(counting_handler(copies, calls)));
    run();
    CHECK(copies == 0);
    CHECK(calls == 3);
}

TEST_CASE("what is written into a handler moves with it")
{
    std::exception_ptr failure;
    const auto use = [&](auto handler) {
        *associated_diagnostics<decltype(handler)>::get(handler) = diagnostics(sentence);
        auto moved = std::move(handler);
        std::move(moved)(conflict);
    };
    auto token = with_diagnostics([&](std::exception_ptr thrown) { failure = thrown; });
    asio::async_initiate<decltype(token), void(std::error_code)>(use, token);
    CHECK(tells_all(failure));
}

TEST_CASE("a handler without a place for details has none")
{
    const auto plain = [](std::error_code) {};
    const auto bound = asio::bind_executor(asio::system_executor(), plain);
    CHECK(associated_diagnostics<decltype(plain)>::get(plain) == nullptr);
    CHECK(associated_diagnostics<std::remove_const_t<decltype(bound)>>::get(bound) == nullptr);
}

TEST_CASE("the tokens are as trivial as the token inside, and satisfy Asio's concept")
{
    using future_token = with_diagnostics_t<asio::use_future_t<>>;
    using filling_token = decltype(with_diagnostics(std::declval<diagnostics&>(), asio::use_awaitable));
    static_assert(std::is_trivially_copyable_v<default_token>);
    static_assert(std::is_trivially_copyable_v<filling_token>);
    static_assert(detail::token_for<default_token, movable>);
    static_assert(detail::token_for<const default_token&, movable>);
    static_assert(detail::token_for<future_token, movable>);
    static_assert(detail::token_for<filling_token&, movable>);

    const auto takes_exception = [](std::exception_ptr, movable) {};
    const auto takes_code = [](std::error_code, movable) {};
    static_assert(detail::token_for<decltype(with_diagnostics(takes_exception)), movable>);
    static_assert(!detail::token_for<decltype(with_diagnostics(takes_code)), movable>);
    static_assert(!detail::token_for<with_diagnostics_t<std::string>, movable>);
    SUCCEED();
}
