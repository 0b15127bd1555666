#include "model_server.hpp"

#include "model_api_rules.hpp"
#include "scripted_model.hpp"

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/read.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace model_api {

namespace {

using namespace asio::experimental::awaitable_operators;
using namespace std::chrono_literals;
namespace json = boost::json;
using asio::ip::tcp;

constexpr std::size_t max_connections = 64;
constexpr std::size_t max_head_bytes = 65'536;
constexpr std::size_t max_body_bytes = std::size_t{32} << 20U;
constexpr std::size_t chunk_bytes = 61; // cuts lines, and characters of several bytes
constexpr auto max_idle = 30s;          // for a client to send a request, or to read an answer

// What is asked for

struct endpoint {
    api which;
    std::string model; // Gemini has it in the path
    bool is_streamed = false;
    bool is_sse = true; // else Gemini streams an array
};

std::optional<endpoint> find_endpoint(const std::string& target)
{
    const auto path = target.substr(0, target.find('?'));
    if (path == "/v1/chat/completions")
        return endpoint{api::chat_completions, {}};
    if (path == "/v1/responses")
        return endpoint{api::responses, {}};
    if (path == "/v1/messages")
        return endpoint{api::anthropic, {}};
    const std::string models = "/v1beta/models/";
    const auto colon = path.rfind(':');
    if (!path.starts_with(models) || colon == path.npos || colon <= models.size())
        return {};
    const auto method = path.substr(colon);
    if (method != ":generateContent" && method != ":streamGenerateContent")
        return {};
    return endpoint{api::gemini, path.substr(models.size(), colon - models.size()),
                    method == ":streamGenerateContent", target.find("alt=sse") != target.npos};
}

bool has_field(const http_request& request, const std::string& name)
{
    const auto found = request.fields.find(name);
    return found != request.fields.end() && !found->second.empty();
}

// Refusals, each in the words of its API

http_answer refuse(api which, int status, const std::string& why, std::string_view code = {})
{
    http_answer answer;
    answer.status = status;
    answer.decision = "refused: " + why;
    json::object body;
    if (which == api::anthropic) {
        const auto* type = status == 401 ? "authentication_error" : "invalid_request_error";
        body = {{"type", "error"},
                {"error", {{"type", type}, {"message", why}}},
                {"request_id", "req_011CSHoEeqs5C35K2UUqR7Fy"}};
    } else if (which == api::gemini) {
        const auto* name = status == 403 ? "PERMISSION_DENIED" : "INVALID_ARGUMENT";
        body = {{"error", {{"code", status}, {"message", why}, {"status", name}}}};
    } else {
        json::object error{
            {"message", why}, {"type", "invalid_request_error"}, {"param", nullptr}, {"code", nullptr}};
        if (!code.empty())
            error["code"] = code;
        body = {{"error", error}};
    }
    answer.body = json::serialize(body);
    return answer;
}

std::optional<http_answer> refusal_of_fields(api which, const http_request& request)
{
    if (which == api::anthropic && !has_field(request, "x-api-key"))
        return refuse(which, 401, "x-api-key header is required");
    if (which == api::anthropic && !has_field(request, "anthropic-version"))
        return refuse(which, 400, "anthropic-version: header is required");
    if (which == api::gemini && !has_field(request, "x-goog-api-key") &&
        request.target.find("key=") == std::string::npos)
        return refuse(
            which, 403,
            "Method doesn't allow unregistered callers (callers without established identity). Please "
            "use API Key or other form of API consumer identity to call this API.");
    return {};
}

//! What the rules do not look at: everything beside the conversation.
std::string wrong_setting(api which, const json::object& request)
{
    const auto is_string = [](const json::object& in, std::string_view name) {
        const auto* found = in.if_contains(name);
        return found != nullptr && found->is_string() && !found->get_string().empty();
    };
    const auto has_schema = [](const json::object& in, std::string_view name) {
        const auto* found = in.if_contains(name);
        return found != nullptr && found->is_object() && found->get_object().contains("type");
    };
    if (which != api::gemini && !is_string(request, "model"))
        return "model: Field required";
    if (which == api::anthropic) {
        const auto* limit = request.if_contains("max_tokens");
        if (limit == nullptr || !limit->is_int64() || limit->get_int64() < 1)
            return "max_tokens: Field required";
    }
    const auto* tools = request.if_contains("tools");
    for (const auto& value : tools == nullptr ? json::array() : tools->as_array()) {
        const auto& tool = value.as_object();
        if (which == api::anthropic) {
            if (!is_string(tool, "name") || !has_schema(tool, "input_schema"))
                return "tools: name and input_schema: Field required";
        } else if (which == api::gemini) {
            for (const auto& function : tool.at("functionDeclarations").as_array())
                if (!is_string(function.as_object(), "name") ||
                    !has_schema(function.as_object(), "parameters"))
                    return "Invalid JSON payload received: a declaration needs name and parameters";
        } else {
            const auto& function = which == api::responses ? tool : tool.at("function").as_object();
            if (tool.at("type") != "function" || !is_string(function, "name") ||
                !has_schema(function, "parameters"))
                return "Missing required parameter: 'tools[0]': type, name and parameters";
        }
    }
    return {};
}

std::optional<http_answer> refusal_of_body(const endpoint& to, const json::object& request)
{
    if (const auto wrong = wrong_setting(to.which, request); !wrong.empty())
        return refuse(to.which, 400, wrong);
    if (const auto wrong = violations(to.which, request); !wrong.empty())
        return refuse(to.which, 400, wrong.front());
    const bool strict = to.model.find("gemini-3") != std::string::npos;
    if (const auto broken = broken_seals(to.which, request, strict); !broken.empty()) {
        const bool is_encrypted = broken.front().starts_with("The encrypted content");
        return refuse(to.which, 400, broken.front(),
                      is_encrypted ? "invalid_encrypted_content" : std::string_view());
    }
    return {};
}

// Answers

std::string event_stream(const endpoint& to, const events& all)
{
    const std::string_view line = to.which == api::gemini ? "\r\n" : "\n"; // both are allowed
    std::string text;
    for (const auto& [type, data] : all) {
        if (!type.empty())
            text.append("event: ").append(type).append(line);
        text.append("data: ").append(json::serialize(data)).append(line).append(line);
    }
    if (to.which == api::chat_completions)
        text += "data: [DONE]\n\n";
    return text;
}

http_answer answer_of_model(const endpoint& to, const json::object& request)
{
    const auto said = next_turn(to.which, request);
    http_answer answer;
    answer.decision = describe(said);
    if (!to.is_streamed) {
        answer.body = json::serialize(response(to.which, said, to.model));
        return answer;
    }
    answer.decision = "streamed: " + answer.decision;
    answer.is_chunked = true;
    const auto all = stream(to.which, said, to.model);
    if (to.is_sse) {
        answer.type = "text/event-stream";
        answer.body = event_stream(to, all);
    } else {
        json::array list;
        for (const auto& event : all)
            list.push_back(event.second);
        answer.body = json::serialize(list);
    }
    return answer;
}

// HTTP

std::string lower(std::string text)
{
    for (auto& c : text)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return text;
}

http_request parse_head(const std::string& head)
{
    http_request request;
    std::istringstream lines(head);
    std::string version;
    lines >> request.method >> request.target >> version;
    if (version != "HTTP/1.1" && version != "HTTP/1.0")
        throw std::runtime_error("no HTTP/1.1");
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && line != "\r") {
        const auto colon = line.find(':');
        if (colon == line.npos)
            throw std::runtime_error("a malformed header field");
        const auto begin = std::min(line.find_first_not_of(" \t", colon + 1), line.size() - 1);
        request.fields[lower(line.substr(0, colon))] = line.substr(begin, line.size() - 1 - begin);
    }
    request.keeps_alive = version == "HTTP/1.1" && lower(request.fields["connection"]) != "close";
    return request;
}

std::string text_of(const http_answer& answer, bool keeps_alive)
{
    static const std::map<int, std::string> phrases = {{200, "OK"},
                                                       {400, "Bad Request"},
                                                       {401, "Unauthorized"},
                                                       {403, "Forbidden"},
                                                       {404, "Not Found"},
                                                       {405, "Method Not Allowed"},
                                                       {411, "Length Required"},
                                                       {413, "Content Too Large"}};
    auto text = "HTTP/1.1 " + std::to_string(answer.status) + " " + phrases.at(answer.status) +
                "\r\nContent-Type: " + answer.type + (keeps_alive ? "\r\n" : "\r\nConnection: close\r\n");
    if (!answer.is_chunked)
        return text + "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
    text += "Transfer-Encoding: chunked\r\n\r\n";
    std::ostringstream chunks;
    for (std::size_t at = 0; at < answer.body.size(); at += chunk_bytes) {
        const auto chunk = std::string_view(answer.body).substr(at, chunk_bytes);
        chunks << std::hex << chunk.size() << "\r\n" << chunk << "\r\n";
    }
    return text + chunks.str() + "0\r\n\r\n";
}

//! Waits for an operation of a client. @throws std::runtime_error if it takes too long.
asio::awaitable<std::size_t> in_time(asio::awaitable<std::size_t> operation)
{
    asio::steady_timer timer(co_await asio::this_coro::executor, max_idle);
    const auto first = co_await (std::move(operation) || timer.async_wait(asio::use_awaitable));
    if (first.index() != 0)
        throw std::runtime_error("the client is too slow");
    co_return std::get<0>(first);
}

//! False if the client is gone; `||` waits for a success, so a failure of `operation` must be one.
asio::awaitable<std::size_t> read_head(tcp::socket& socket, std::string& buffer)
{
    std::error_code failure;
    co_return co_await asio::async_read_until(socket, asio::dynamic_buffer(buffer, max_head_bytes),
                                              "\r\n\r\n", asio::redirect_error(asio::use_awaitable, failure));
}

asio::awaitable<std::size_t> read_rest(tcp::socket& socket, std::string& buffer, std::size_t bytes)
{
    std::error_code failure;
    co_return co_await asio::async_read(socket, asio::dynamic_buffer(buffer), asio::transfer_exactly(bytes),
                                        asio::redirect_error(asio::use_awaitable, failure));
}

asio::awaitable<std::size_t> write(tcp::socket& socket, const std::string& text)
{
    std::error_code failure;
    co_return co_await asio::async_write(socket, asio::buffer(text),
                                         asio::redirect_error(asio::use_awaitable, failure));
}

//! The length of the body, or how it is refused.
std::size_t body_length(const http_request& request, std::optional<http_answer>& refusal)
{
    const auto found = request.fields.find("content-length");
    std::size_t length = 0;
    if (found == request.fields.end()) {
        if (request.method == "POST")
            refusal = refuse(api::chat_completions, 411, "a body needs a Content-Length here");
        return 0;
    }
    const auto& text = found->second;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (failure != std::errc() || end != text.data() + text.size())
        refusal = refuse(api::chat_completions, 400, "Content-Length is no number");
    else if (length > max_body_bytes)
        refusal = refuse(api::chat_completions, 413, "the body is too large");
    return refusal ? 0 : length;
}

} // namespace

http_answer answer(const http_request& request)
{
    auto to = find_endpoint(request.target);
    if (!to)
        return refuse(api::chat_completions, 404,
                      "Invalid URL (" + request.method + " " + request.target + ")");
    if (request.method != "POST")
        return refuse(to->which, 405, "Not allowed to " + request.method + " on " + request.target);
    if (auto refusal = refusal_of_fields(to->which, request))
        return *refusal;
    json::parse_options options;
    options.max_depth = 128;
    json::error_code bad;
    const auto body = json::parse(request.body, bad, {}, options);
    if (bad || !body.is_object())
        return refuse(to->which, 400, "We could not parse the JSON body of your request.");
    const auto& object = body.get_object();
    if (const auto* model = object.if_contains("model"); model != nullptr && model->is_string())
        to->model = std::string(model->get_string());
    if (const auto* wanted = object.if_contains("stream"); wanted != nullptr && to->which != api::gemini)
        to->is_streamed = wanted->is_bool() && wanted->get_bool();
    try {
        if (auto refusal = refusal_of_body(*to, object))
            return *refusal;
        return answer_of_model(*to, object);
    } catch (const std::exception& failure) { // the rules have not seen it
        return refuse(to->which, 400, std::string("Invalid request: ") + failure.what());
    }
}

model_server::model_server(asio::io_context& io, std::uint16_t port, log_sink log)
    : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), port)), log_(std::move(log))
{
}

asio::awaitable<void> model_server::run()
{
    for (;;) {
        auto socket = co_await acceptor_.async_accept(asio::use_awaitable);
        if (connections_ < max_connections) // others find their connection closed
            asio::co_spawn(acceptor_.get_executor(), serve(std::move(socket)), asio::detached);
    }
}

asio::awaitable<void> model_server::serve(tcp::socket socket)
{
    ++connections_;
    try {
        co_await converse(socket);
    } catch (const std::exception& failure) {
        log_(std::string("a connection ended: ") + failure.what());
    }
    --connections_;
}

asio::awaitable<void> model_server::converse(tcp::socket& socket)
{
    std::string buffer;
    for (bool goes_on = true; goes_on;) {
        const auto head = co_await in_time(read_head(socket, buffer));
        if (head == 0 && buffer.empty())
            co_return; // the client has what it wanted
        if (head == 0)
            throw std::runtime_error("in the middle of a request, or its head is too large");
        auto request = parse_head(buffer.substr(0, head));
        buffer.erase(0, head);

        std::optional<http_answer> refusal;
        const auto length = body_length(request, refusal);
        if (lower(request.fields["expect"]) == "100-continue" && !refusal) {
            const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
            co_await in_time(write(socket, go_on));
        }
        if (buffer.size() < length)
            co_await in_time(read_rest(socket, buffer, length - buffer.size()));
        if (buffer.size() < length)
            throw std::runtime_error("in the middle of a request");
        request.body = buffer.substr(0, length);
        buffer.erase(0, length);

        const auto given = refusal ? *refusal : answer(request);
        goes_on = request.keeps_alive && !refusal; // after a refusal the body may still be on its way
        const auto path = request.target.substr(0, request.target.find('?')); // without a key
        log_(request.method + " " + path + " " + std::to_string(given.status) + " " + given.decision);
        const auto text = text_of(given, goes_on);
        const auto written = co_await in_time(write(socket, text));
        if (written < text.size())
            throw std::runtime_error("in the middle of an answer");
    }
}

} // namespace model_api
