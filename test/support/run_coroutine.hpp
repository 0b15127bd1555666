//! Runs a coroutine on an io_context until everything is done; what it throws, this throws.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <exception>

namespace waymark::test {

inline void run_coroutine(asio::io_context& io, asio::awaitable<void> body)
{
    std::exception_ptr failure;
    bool finished = false;
    asio::co_spawn(io, std::move(body), [&](std::exception_ptr thrown) {
        failure = thrown;
        finished = true;
    });
    io.run();
    io.restart();
    if (failure)
        std::rethrow_exception(failure);
    if (!finished)
        throw std::logic_error("the io_context ran out of work before the coroutine was finished");
}

} // namespace waymark::test
