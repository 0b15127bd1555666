//! A model server for tests: OpenAI's Chat Completions and Responses, Anthropic's Messages and Gemini, over
//! plain HTTP/1.1 on the loopback interface, streamed or not. It refuses what the real ones would refuse, in
//! their words.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace model_api {

//! What a client sent.
struct http_request {
    std::string method;
    std::string target;
    std::map<std::string, std::string> fields; // names in lower case
    std::string body;
    bool keeps_alive = true;
};

//! What it gets.
struct http_answer {
    int status = 200;
    std::string type = "application/json";
    std::string body;
    bool is_chunked = false; // sent in small chunks, cut anywhere
    std::string decision;    // for the log
};

//! The server's mind, without I/O.
http_answer answer(const http_request& request);

//! Its body. Runs on one thread. Connections, sizes and times are bounded.
class model_server {
public:
    //! Told of each request: "POST /v1/messages 200 streamed: book_night 2, 3".
    using log_sink = std::function<void(const std::string& line)>;

    //! @param port 0 takes a free one
    model_server(asio::io_context& io, std::uint16_t port, log_sink log);

    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
    //! Serves until it is cancelled. The server has to live as long as the context runs.
    asio::awaitable<void> run();

private:
    asio::awaitable<void> serve(asio::ip::tcp::socket socket);
    asio::awaitable<void> converse(asio::ip::tcp::socket& socket);

    asio::ip::tcp::acceptor acceptor_;
    log_sink log_;
    std::size_t connections_ = 0;
};

} // namespace model_api
