//! Opening a store without blocking the caller.
#pragma once

#include <waymark/async_options.hpp>
#include <waymark/async_store.hpp>

#include <asio/post.hpp>
#include <asio/system_executor.hpp>

#include <chrono>
#include <concepts>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace waymark {

//! Makes a backend: `[] { return std::make_shared<sqlite_store>("agents.db"); }`.
template <class Function>
concept store_factory =
    std::invocable<Function&> && std::convertible_to<std::invoke_result_t<Function&>, std::shared_ptr<store>>;

namespace detail {

//! Opens a store. Nobody has one yet whose scheduler could carry it out.
template <class Factory>
class open_request final : public result_request<std::unique_ptr<async_store>> {
public:
    open_request(asio::any_io_executor executor, async_options options, Factory factory)
        : result_request(schedule::survey, store_operation::open, {}),
          executor_(std::move(executor)),
          options_(std::move(options)),
          factory_(std::move(factory))
    {
    }

    void open() noexcept
    {
        const auto start = std::chrono::steady_clock::now();
        try {
            result_ = std::make_unique<async_store>(executor_, (*factory_)(), options_);
        } catch (const std::system_error&) {
            refuse_with_current_exception();
        } catch (const std::bad_alloc&) {
            refuse_with_current_exception();
        } catch (const std::exception& thrown) {
            fail(errc::callback_threw, std::string("the factory of async_open threw: ") + thrown.what());
        } catch (...) {
            fail(errc::callback_threw, "the factory of async_open threw something that is no exception");
        }
        factory_.reset();
        if (const auto& observer = options_.observer())
            observer->ended(what(), {}, std::chrono::steady_clock::now() - start, code(), details());
    }
    void run(const request_target& /*in*/,
             std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
    }

private:
    const asio::any_io_executor executor_;
    const async_options options_;
    std::optional<Factory> factory_;
};

//! A queue for `initiation`: each request has a turn of its own on a pool.
template <class Factory>
class open_queue : public std::enable_shared_from_this<open_queue<Factory>> {
public:
    explicit open_queue(asio::any_io_executor pool) : pool_(std::move(pool)) {}

    void submit(const std::shared_ptr<open_request<Factory>>& wanted)
    {
        // The queue stays until then, so that the request can be cancelled.
        asio::post(pool_, [queue = this->shared_from_this(), wanted]() mutable {
            wanted->open();
            request::end(std::move(wanted));
        });
    }
    void cancel(request& wanted, departure how) noexcept
    {
        if (how == departure::leaves)
            wanted.let_waiter_go(asio::error::operation_aborted);
    }

private:
    asio::any_io_executor pool_;
};

} // namespace detail

//! Opens a store where that blocks nobody: `factory` is called on the pool of the options, or without one on
//! a thread of Asio's `system_context`, and an async_store is made of what it returns. To connect to a
//! server, or to bring an old file up to date, takes time.
//!
//!     const auto open = [file] { return std::make_shared<waymark::sqlite_store>(file); };
//!     const auto store = co_await waymark::async_open(executor, open);
//!     waymark::session session{*store, "planner"};
//!
//! Name the factory first, as above: g++ 12 destroys a lambda twice that captures by value and is written
//! inside a `co_await` expression, and here that does not compile.
//!
//! @par Handler signature
//! `void(std::error_code, std::unique_ptr<async_store>)`
//! @par Executor
//! `executor` becomes that of the store, and is where handlers run that have none of their own.
//! @par Cancellation
//! `total` cancellation waits for the outcome. `partial` and `terminal` complete with
//! `asio::error::operation_aborted` at once; the factory goes on, and what it makes is closed.
//! @par Errors
//! those of the backend's constructor; `errc::callback_threw` if the factory throws anything else;
//! `errc::invalid_argument` as the constructor of async_store
template <store_factory Factory, detail::token_for<std::unique_ptr<async_store>> Token = default_token>
    requires detail::safe_in_co_await<Factory>
auto async_open(asio::any_io_executor executor, Factory&& factory, async_options options,
                Token&& token = Token{})
{
    using function = std::decay_t<Factory>;
    const auto pool = options.pool() ? options.pool() : asio::any_io_executor(asio::system_executor());
    auto where = std::make_shared<detail::open_queue<function>>(pool);
    return detail::start_request<detail::open_request<function>>(where, executor, std::forward<Token>(token),
                                                                 executor, std::move(options),
                                                                 function(std::forward<Factory>(factory)));
}
//! The same without options. Handler signature: `void(std::error_code, std::unique_ptr<async_store>)`
template <store_factory Factory, detail::token_for<std::unique_ptr<async_store>> Token = default_token>
    requires detail::safe_in_co_await<Factory>
auto async_open(asio::any_io_executor executor, Factory&& factory, Token&& token = Token{})
{
    return async_open(std::move(executor), std::forward<Factory>(factory), async_options(),
                      std::forward<Token>(token));
}
//! Name the factory first: `const auto open = …; co_await async_open(executor, open);`
template <store_factory Factory, class... Rest>
    requires(!detail::safe_in_co_await<Factory>)
void async_open(asio::any_io_executor executor, Factory&& factory, Rest&&... rest) = delete;

} // namespace waymark
