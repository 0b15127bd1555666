//! Runs a coroutine with an async_store over each backend, each in a section of its own.
#pragma once

#include "backends.hpp"
#include "catch.hpp"
#include "run_coroutine.hpp"

#include <waymark/session.hpp>

#include <asio/redirect_error.hpp>

namespace waymark::test {

template <class Body>
void on_every_store(Body body)
{
    for (const auto& backend : all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            asio::io_context io;
            async_store store(io.get_executor(), backend.make_empty());
            run_coroutine(io, body(store));
        }
}

//! How an awaited operation failed: `co_await session.async_x(…, with_diagnostics(how.token()))`.
struct failure {
    std::error_code code;
    diagnostics details;

    auto token() { return with_diagnostics(details, asio::redirect_error(asio::use_awaitable, code)); }
    //! Whether the details say this.
    bool says(std::string_view text) const { return details.message().find(text) != std::string::npos; }
};

//! Waits until something holds that happens beside the operations of a test, such as automatic retention.
template <class Condition>
asio::awaitable<bool> eventually(async_store& store, Condition holds)
{
    for (int patience = 0; patience < 5'000 && !holds(); ++patience)
        co_await store.async_stats(); // others get their turn meanwhile
    co_return holds();
}

//! A conversation of that many messages.
inline conversation chat_of(int messages)
{
    conversation chat{8'000};
    for (int i = 0; i < messages; ++i)
        chat.push(i % 2 == 0 ? message::user("question " + std::to_string(i))
                             : message::assistant("answer " + std::to_string(i)));
    return chat;
}

} // namespace waymark::test
