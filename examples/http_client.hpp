//! A small HTTP/1.1 client: posts a body over TCP or TLS, and reads the answer, whole or as it comes.
//!
//! One connection for each request. Time and sizes are bounded. A certificate that does not belong to the
//! host is refused. TLS needs OpenSSL: link OpenSSL::SSL and define WITH_TLS.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/connect.hpp>
#include <asio/error.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#ifdef WITH_TLS
#include <asio/ssl/context.hpp>
#include <asio/ssl/host_name_verification.hpp>
#include <asio/ssl/stream.hpp>
#endif

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http {

//! A server, and what the paths on it begin with: "https://api.example.com", "http://[::1]:8080/models".
class url {
public:
    explicit url(std::string_view text)
    {
        const auto colon = text.find("://");
        const auto scheme = text.substr(0, colon);
        if (colon == text.npos || (scheme != "http" && scheme != "https"))
            throw std::invalid_argument("'" + std::string(text) +
                                        "' does not begin with http:// or https://");
        is_secure_ = scheme == "https";
        auto rest = text.substr(colon + 3);
        if (rest.find_first_of("?#@ \t\r\n") != rest.npos)
            throw std::invalid_argument("'" + std::string(text) +
                                        "' has more than scheme, host, port and path");
        const auto slash = std::min(rest.find('/'), rest.size());
        path_ = rest.substr(slash);
        while (path_.ends_with('/'))
            path_.pop_back();
        authority_ = rest.substr(0, slash);
        host_ = authority_;
        port_ = is_secure_ ? "443" : "80";
        const auto bracket = authority_.find(']'); // of an IPv6 address, which has colons of its own
        if (const auto at = authority_.find(':', bracket == authority_.npos ? 0 : bracket);
            at != authority_.npos) {
            port_ = authority_.substr(at + 1);
            host_ = authority_.substr(0, at);
        }
        if (host_.starts_with('[') && host_.ends_with(']'))
            host_ = host_.substr(1, host_.size() - 2);
        if (host_.empty() || port_.empty() || port_.find_first_not_of("0123456789") != port_.npos)
            throw std::invalid_argument("'" + std::string(text) +
                                        "' names no host, or a port that is no number");
    }

    bool is_secure() const noexcept { return is_secure_; }
    const std::string& host() const noexcept { return host_; }
    const std::string& port() const noexcept { return port_; }
    //! Host and port as they were given.
    const std::string& authority() const noexcept { return authority_; }
    //! Empty, or a path without a slash at its end.
    const std::string& path() const noexcept { return path_; }

private:
    bool is_secure_ = false;
    std::string authority_;
    std::string host_;
    std::string port_;
    std::string path_;
};

//! The server answered with something else than 2xx.
class status_error : public std::runtime_error {
public:
    status_error(int status, const std::string& where, std::string body)
        : std::runtime_error("HTTP " + std::to_string(status) + " from " + where + ": " +
                             body.substr(0, 1'000)),
          status_(status),
          body_(std::move(body))
    {
    }

    int status() const noexcept { return status_; }
    const std::string& body() const noexcept { return body_; }

private:
    int status_;
    std::string body_;
};

//! Names and values of header fields.
using fields = std::vector<std::pair<std::string, std::string>>;

//! Takes the pieces of a body, cut anywhere.
using body_sink = std::function<void(std::string_view)>;

inline constexpr auto max_connect_time = std::chrono::seconds(10);
inline constexpr auto max_answer_time = std::chrono::minutes(5); // models think
inline constexpr std::size_t max_line_bytes = 16'384;
inline constexpr std::size_t max_head_lines = 200;
inline constexpr std::size_t max_body_bytes = std::size_t{64} << 20U;

namespace detail {

using asio::ip::tcp;

inline asio::awaitable<void> keep_failure(asio::awaitable<void> operation, std::exception_ptr& failure)
{
    try {
        co_await std::move(operation);
    } catch (...) {
        failure = std::current_exception();
    }
}

//! Waits for an operation, and cancels it when it takes too long. (A look-up of a name ends in its own time.)
inline asio::awaitable<void> within(asio::steady_timer::duration longest, std::string too_late,
                                    asio::awaitable<void> operation)
{
    using namespace asio::experimental::awaitable_operators;
    asio::steady_timer timer(co_await asio::this_coro::executor, longest);
    std::exception_ptr failure;
    auto kept = keep_failure(std::move(operation), failure); // `||` waits for a success
    const auto first = co_await (std::move(kept) || timer.async_wait(asio::use_awaitable));
    if (first.index() == 1)
        throw std::runtime_error(too_late);
    if (failure)
        std::rethrow_exception(failure);
}

//! What stands before a body.
struct response_head {
    int status = 0;
    std::map<std::string, std::string> fields; // names in lower case

    const std::string& field(const std::string& name) const
    {
        static const std::string none;
        const auto found = fields.find(name);
        return found == fields.end() ? none : found->second;
    }
};

inline std::string lower(std::string text)
{
    for (auto& c : text)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return text;
}

inline std::string trimmed(std::string_view text)
{
    const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
    const auto end = text.find_last_not_of(" \t") + 1; // npos + 1 is 0
    return std::string(text.substr(begin, end > begin ? end - begin : 0));
}

//! A whole number that may take up the text, and nothing else.
inline std::size_t number(std::string_view text, int base)
{
    std::size_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (failure != std::errc() || end != text.data() + text.size())
        throw std::runtime_error("the server's answer has '" + std::string(text) +
                                 "' where a size should be");
    return value;
}

//! Reads an answer from a socket or a TLS stream.
template <class Stream>
class response_reader {
public:
    explicit response_reader(Stream& stream) : stream_(stream) {}

    asio::awaitable<response_head> read_head()
    {
        response_head head;
        do { // 1xx only announces the answer
            head = response_head();
            const auto status = co_await read_line();
            if (!status.starts_with("HTTP/1.") || status.size() < 12)
                throw std::runtime_error("this is no HTTP/1.1 server: '" + status.substr(0, 80) + "'");
            head.status = static_cast<int>(number(std::string_view(status).substr(9, 3), 10));
            for (std::size_t lines = 0;; ++lines) {
                const auto line = co_await read_line();
                if (line.empty())
                    break;
                const auto colon = line.find(':');
                if (colon == line.npos || lines == max_head_lines)
                    throw std::runtime_error("the head of the server's answer is malformed");
                head.fields[lower(line.substr(0, colon))] = trimmed(std::string_view(line).substr(colon + 1));
            }
        } while (head.status / 100 == 1);
        co_return head;
    }

    asio::awaitable<void> read_body(response_head head, body_sink sink)
    {
        if (head.status == 204 || head.status == 304)
            co_return;
        if (lower(head.field("transfer-encoding")).ends_with("chunked"))
            co_await read_chunks(sink);
        else if (const auto& length = head.field("content-length"); !length.empty())
            co_await pass_on(number(length, 10), sink);
        else
            co_await read_to_end(sink);
    }

private:
    asio::awaitable<void> read_chunks(const body_sink& sink)
    {
        for (;;) {
            const auto line = co_await read_line(); // a size, and perhaps an extension that nobody uses
            const auto size = number(trimmed(line.substr(0, line.find(';'))), 16);
            if (size == 0)
                break;
            co_await pass_on(size, sink);
            const auto end = co_await read_line();
            if (!end.empty())
                throw std::runtime_error("the server's answer has a chunk of another size than it says");
        }
        for (std::size_t lines = 0; lines < max_head_lines; ++lines) {
            const auto trailer = co_await read_line();
            if (trailer.empty())
                break;
        }
    }

    asio::awaitable<void> read_to_end(const body_sink& sink)
    {
        bool goes_on = true;
        while (goes_on) {
            co_await pass_on(buffer_.size(), sink); // some may have come with the head
            goes_on = co_await fill();
        }
    }

    //! Gives the sink that many bytes, as they come.
    asio::awaitable<void> pass_on(std::size_t bytes, const body_sink& sink)
    {
        if (bytes > max_body_bytes - passed_on_)
            throw std::runtime_error("the server's answer is too large");
        passed_on_ += bytes;
        while (bytes > 0) {
            if (buffer_.empty() && !co_await fill())
                throw std::runtime_error("the server closed the connection in the middle of its answer");
            const auto piece = std::min(bytes, buffer_.size());
            sink(std::string_view(buffer_).substr(0, piece));
            buffer_.erase(0, piece);
            bytes -= piece;
        }
    }

    asio::awaitable<std::string> read_line()
    {
        std::size_t end = buffer_.find('\n');
        while (end == buffer_.npos) {
            if (buffer_.size() > max_line_bytes)
                throw std::runtime_error("the server's answer has a line that is too long");
            const bool more = co_await fill();
            if (!more)
                throw std::runtime_error("the server closed the connection before its answer was complete");
            end = buffer_.find('\n');
        }
        auto line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        if (line.ends_with('\r'))
            line.pop_back();
        co_return line;
    }

    //! Reads some more. False at the end; a TLS stream that was cut off is an error.
    asio::awaitable<bool> fill()
    {
        const auto before = buffer_.size();
        buffer_.resize(before + 16'384);
        std::error_code failure;
        const auto count =
            co_await stream_.async_read_some(asio::buffer(buffer_.data() + before, 16'384),
                                             asio::redirect_error(asio::use_awaitable, failure));
        buffer_.resize(before + count);
        if (failure && failure != asio::error::eof)
            throw std::system_error(failure, "reading the server's answer");
        co_return !failure;
    }

    Stream& stream_;
    std::string buffer_;
    std::size_t passed_on_ = 0;
};

template <class Stream>
asio::awaitable<void> exchange(Stream& stream, const std::string& where, const std::string& request,
                               const body_sink& sink)
{
    co_await asio::async_write(stream, asio::buffer(request), asio::use_awaitable);
    response_reader<Stream> reader(stream);
    const auto head = co_await reader.read_head();
    if (head.status / 100 == 2) {
        co_await reader.read_body(head, sink);
    } else {
        std::string refusal;
        const body_sink collect = [&refusal](std::string_view piece) { refusal += piece; };
        co_await reader.read_body(head, collect);
        throw status_error(head.status, where, refusal);
    }
}

inline asio::awaitable<void> connect(tcp::socket& socket, const url& server)
{
    try {
        tcp::resolver resolver(socket.get_executor());
        const auto found = co_await resolver.async_resolve(server.host(), server.port(), asio::use_awaitable);
        co_await asio::async_connect(socket, found, asio::use_awaitable);
        socket.set_option(tcp::no_delay(true));
    } catch (const std::system_error& failure) {
        throw std::system_error(failure.code(), "connecting to " + server.authority());
    }
}

inline asio::awaitable<void> exchange_in_time(tcp::socket& socket, const url& server,
                                              const std::string& where, const std::string& request,
                                              const body_sink& sink)
{
    if (server.is_secure()) {
#ifdef WITH_TLS
        asio::ssl::context context(asio::ssl::context::tls_client);
        context.set_default_verify_paths();
        asio::ssl::stream<tcp::socket&> stream(socket, context);
        stream.set_verify_mode(asio::ssl::verify_peer);
        stream.set_verify_callback(asio::ssl::host_name_verification(server.host()));
        std::error_code not_an_address;
        asio::ip::make_address(server.host(), not_an_address);
        if (not_an_address) // one server may have many names
            SSL_set_tlsext_host_name(stream.native_handle(), server.host().c_str());
        std::error_code failure;
        co_await stream.async_handshake(asio::ssl::stream_base::client,
                                        asio::redirect_error(asio::use_awaitable, failure));
        if (failure)
            throw std::system_error(failure, "TLS with " + server.authority());
        co_await exchange(stream, where, request, sink);
#else
        throw std::runtime_error("this program was built without TLS: https:// needs OpenSSL");
#endif
    } else {
        co_await exchange(socket, where, request, sink);
    }
}

inline std::string request_text(const url& server, const std::string& path, const fields& extra,
                                const std::string& body)
{
    auto text = "POST " + server.path() + path + " HTTP/1.1\r\nHost: " + server.authority() +
                "\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n";
    for (const auto& [name, value] : extra)
        text.append(name).append(": ").append(value).append("\r\n");
    if (path.find_first_of(" \r\n") != path.npos ||
        std::count(text.begin(), text.end(), '\n') != static_cast<std::ptrdiff_t>(5 + extra.size()))
        throw std::invalid_argument("a path or a header field with a line break or a space");
    return text + "\r\n" + body;
}

} // namespace detail

//! Posts JSON; the sink gets the body of the answer as it comes. Arguments are copied, so that this may be
//! spawned, too. @throws status_error, std::system_error, std::runtime_error
inline asio::awaitable<void> post(url server, std::string path, fields extra, std::string body,
                                  body_sink sink)
{
    const auto request = detail::request_text(server, path, extra, body);
    const auto where = server.authority() + server.path() + path;
    asio::ip::tcp::socket socket(co_await asio::this_coro::executor);
    co_await detail::within(max_connect_time, server.authority() + " cannot be reached in time",
                            detail::connect(socket, server));
    co_await detail::within(max_answer_time, server.authority() + " did not answer in time",
                            detail::exchange_in_time(socket, server, where, request, sink));
}

//! The same, with the whole body at once.
inline asio::awaitable<std::string> post(url server, std::string path, fields extra, std::string body)
{
    std::string answer;
    const body_sink collect = [&answer](std::string_view piece) { answer += piece; };
    co_await post(std::move(server), std::move(path), std::move(extra), std::move(body), collect);
    co_return answer;
}

} // namespace http
