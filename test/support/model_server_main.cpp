//! The model server of tests, as a program.
//!
//!     model_server [--port N] [--log FILE]
//!
//! Prints "listening on 127.0.0.1:PORT", and serves until SIGTERM or SIGINT. The log has a line for each
//! request.
#include "model_server.hpp"

#include <asio/co_spawn.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/signal_set.hpp>
#include <asio/use_awaitable.hpp>

#include <csignal>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

asio::awaitable<void> serve_until_signal(model_api::model_server& server, asio::signal_set& signals)
{
    using namespace asio::experimental::awaitable_operators;
    co_await (server.run() || signals.async_wait(asio::use_awaitable));
}

} // namespace

int main(int argc, char** argv)
{
    try {
        std::uint16_t port = 0;
        std::ofstream log;
        for (int i = 1; i < argc; ++i) {
            const std::string_view word = argv[i];
            if (word == "--port" && i + 1 < argc)
                port = static_cast<std::uint16_t>(std::stoul(argv[++i]));
            else if (word == "--log" && i + 1 < argc)
                log.open(argv[++i], std::ios::app);
            else
                throw std::invalid_argument("usage: model_server [--port N] [--log FILE]");
        }
        asio::io_context io(1);
        asio::signal_set signals(io, SIGINT, SIGTERM); // before the port is told
        model_api::model_server server(io, port,
                                       [&log](const std::string& line) { log << line << std::endl; });
        std::cout << "listening on 127.0.0.1:" << server.port() << std::endl;
        std::exception_ptr failure;
        asio::co_spawn(io, serve_until_signal(server, signals), [&](std::exception_ptr thrown) {
            failure = thrown;
            io.stop(); // connections that wait for a request end with it
        });
        io.run();
        if (failure)
            std::rethrow_exception(failure);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
