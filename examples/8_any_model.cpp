//! An agent that works with any of four model APIs, and survives a kill in the middle of a tool call.
//!
//!     8_any_model --api chat|responses|anthropic|gemini --url URL --model NAME [--store FILE] [--stream]
//!
//!     --api      what the server speaks; chat is OpenAI's Chat Completions, which many others speak, too
//!     --url      where it is, without the version in the path: http://127.0.0.1:8080 (a local llama.cpp),
//!                https://api.openai.com, https://api.anthropic.com,
//!                https://generativelanguage.googleapis.com
//!     --store    the checkpoints, in SQLite, "8_any_model.db" unless told; the hotel's ledger is beside it
//!     --stream   reads the answers as they come
//!
//! The API's key is read from WAYMARK_API_KEY, or over https from OPENAI_API_KEY, ANTHROPIC_API_KEY or
//! GEMINI_API_KEY. A task that one API has begun can be finished with another.
//!
//! `kill_and_resume_any_model`, beside this file, runs it, kills it with SIGKILL and runs it again.
#include "http_client.hpp"

#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace {

namespace json = boost::json;
namespace wire = waymark::wire;
using namespace std::chrono_literals;

constexpr auto task = "Book 5 nights in Lisbon, from night 1 to night 5, each with a call of book_night.";

struct arguments {
    std::optional<wire::api> api;
    std::optional<http::url> url;
    std::string model;
    std::string store = "8_any_model.db";
    bool stream = false;
};

//! What each API wants beside the conversation: the one tool, in its words.
std::string_view settings_of(wire::api api)
{
    switch (api) {
    case wire::api::chat_completions:
        return R"({"tools": [{"type": "function", "function": {
                "name": "book_night", "description": "Books a room for one night", "parameters":
                {"type": "object", "properties": {"night": {"type": "integer"}}, "required": ["night"]}}}]})";
    case wire::api::responses: // the server keeps nothing: its reasoning is ours to keep, encrypted
        return R"({"store": false, "include": ["reasoning.encrypted_content"], "tools": [{"type": "function",
                "name": "book_night", "description": "Books a room for one night", "parameters":
                {"type": "object", "properties": {"night": {"type": "integer"}}, "required": ["night"]}}]})";
    case wire::api::anthropic:
        return R"({"max_tokens": 4096, "tools": [{
                "name": "book_night", "description": "Books a room for one night", "input_schema":
                {"type": "object", "properties": {"night": {"type": "integer"}}, "required": ["night"]}}]})";
    case wire::api::gemini:
        return R"({"tools": [{"functionDeclarations": [{
                "name": "book_night", "description": "Books a room for one night", "parameters":
                {"type": "object", "properties": {"night": {"type": "integer"}}, "required": ["night"]}}]}]})";
    }
    throw std::invalid_argument("no such API");
}

//! The model: a conversation goes in, and has an answer more when it comes out.
class model {
public:
    explicit model(const arguments& given)
        : api_(*given.api), url_(*given.url), name_(given.model), stream_(given.stream)
    {
    }

    asio::awaitable<void> answer(waymark::conversation& chat)
    {
        for (;;) {
            const auto response = co_await ask(chat);
            const auto answer = wire::append(api_, chat, response);
            const auto how = answer.ending();
            if (how == wire::ending::paused)
                continue;
            if (answer.messages() == 0 || how == wire::ending::refused || how == wire::ending::cut_off)
                throw std::runtime_error("the model has not answered: " + answer.stop_reason());
            co_return;
        }
    }

private:
    asio::awaitable<json::object> ask(const waymark::conversation& chat)
    {
        auto request = wire::make_request(api_, chat.window());
        for (const auto& left_out : request.left_out())
            std::cout << "not sent: " << left_out.what() << std::endl;
        add_settings(request.body());
        const auto body = json::serialize(request.body());
        if (stream_) {
            wire::accumulator pieces(api_);
            const http::body_sink show = [&pieces](std::string_view bytes) {
                std::cout << pieces.feed(bytes) << std::flush;
            };
            co_await http::post(url_, path(), fields(), body, show);
            std::cout << std::endl;
            co_return pieces.response();
        }
        const auto text = co_await http::post(url_, path(), fields(), body);
        json::error_code failure;
        const auto response = json::parse(text, failure);
        if (failure || !response.is_object())
            throw std::runtime_error("the server's answer is no JSON object: " + text.substr(0, 200));
        co_return response.get_object();
    }

    void add_settings(json::object& body) const
    {
        const auto settings = json::parse(settings_of(api_)).as_object();
        for (const auto& setting : settings)
            body[setting.key()] = setting.value();
        if (api_ == wire::api::gemini)
            return; // which has them in its path
        body["model"] = name_;
        body["stream"] = stream_;
    }

    std::string path() const
    {
        switch (api_) {
        case wire::api::chat_completions:
            return "/v1/chat/completions";
        case wire::api::responses:
            return "/v1/responses";
        case wire::api::anthropic:
            return "/v1/messages";
        case wire::api::gemini:
            break;
        }
        return "/v1beta/models/" + name_ + (stream_ ? ":streamGenerateContent?alt=sse" : ":generateContent");
    }

    http::fields fields() const
    {
        if (api_ == wire::api::anthropic)
            return {{"anthropic-version", "2023-06-01"}, {"x-api-key", key("ANTHROPIC_API_KEY")}};
        if (api_ == wire::api::gemini)
            return {{"x-goog-api-key", key("GEMINI_API_KEY")}};
        const auto token = key("OPENAI_API_KEY");
        return token.empty() ? http::fields() : http::fields{{"Authorization", "Bearer " + token}};
    }

    //! A provider's own key is not for whoever listens on an unencrypted connection.
    std::string key(const char* providers) const
    {
        const auto own = variable("WAYMARK_API_KEY");
        return own.empty() && url_.is_secure() ? variable(providers) : own;
    }

    static std::string variable(const char* name)
    {
        const char* found = std::getenv(name); // NOLINT(concurrency-mt-unsafe): nobody sets any
        return found != nullptr ? found : "";
    }

    wire::api api_;
    http::url url_;
    std::string name_;
    bool stream_;
};

//! The other side: a hotel that writes each booking into its ledger, a line for each, as often as it is
//! asked.
class hotel {
public:
    explicit hotel(std::string ledger) : ledger_(std::move(ledger)) {}

    asio::awaitable<json::value> book(std::string reference, std::int64_t night)
    {
        asio::steady_timer pause(co_await asio::this_coro::executor, 500ms);
        std::cout << "booking night " << night << " ..." << std::endl;
        co_await pause.async_wait(asio::use_awaitable); // who is killed here has booked nothing
        const auto line = reference + ": night " + std::to_string(night) + "\n";
        const int ledger = ::open(ledger_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (ledger < 0 || ::write(ledger, line.data(), line.size()) < 0 || ::fsync(ledger) != 0)
            throw std::runtime_error("the hotel cannot write to " + ledger_);
        ::close(ledger);
        std::cout << "night " << night << " is in the ledger ..." << std::endl;
        pause.expires_after(500ms);
        co_await pause.async_wait(asio::use_awaitable); // and here has booked, and was not told
        co_return receipt(night);
    }

    bool knows(const std::string& reference) const
    {
        std::ifstream ledger(ledger_);
        for (std::string line; std::getline(ledger, line);)
            if (line.starts_with(reference + ":"))
                return true;
        return false;
    }

    static json::value receipt(std::int64_t night)
    {
        return json::value("night " + std::to_string(night) + " is booked");
    }

private:
    std::string ledger_;
};

//! The argument of a call that is as it was declared. Models are not always exact.
std::optional<std::int64_t> night_of(const waymark::tool_call& call)
{
    const auto* arguments = call.arguments().if_object();
    const auto* night = arguments != nullptr ? arguments->if_contains("night") : nullptr;
    if (call.name() != "book_night" || night == nullptr || !night->is_int64())
        return {};
    return night->get_int64();
}

//! All of the above could be yours; this is how an agent uses Waymark.
class agent {
public:
    agent(waymark::async_store& store, model& asked, hotel& booked)
        : session_(
              store, "traveller",
              waymark::session_options().with_strategy(waymark::strategy::after_llm_response()).exclusive()),
          model_(asked),
          hotel_(booked)
    {
    }

    asio::awaitable<void> run()
    {
        if (const auto head = co_await session_.async_resume()) {
            chat_ = head->conversation();
            turn_ = head->iteration();
            std::cout << "resumed at turn " << turn_ << " with " << chat_.size() << " messages" << std::endl;
        } else {
            chat_.with_system_prompt("You book hotels. Call tools until the task is done, then say so.");
            chat_.push(waymark::message::user(task));
        }
        // What a process did not get done that was killed. It can be: the hotel can be asked. Where nobody
        // can tell what became of a call, resume with `resume_options().repair()`, which answers it as
        // interrupted.
        auto calls = chat_.unanswered_tool_calls();
        while (turn_ == 0 || !calls.empty()) {
            co_await run_tools(calls);
            co_await model_.answer(chat_);
            // Saved before its calls are run: after a crash they are found again, and are the same.
            ++turn_;
            co_await session_.async_notify(waymark::event::llm_response, turn_, chat_);
            calls = chat_.unanswered_tool_calls();
        }
        std::cout << "done: " << chat_.back().text() << std::endl;
    }

private:
    //! The results need no checkpoint of their own: each is in the record of its step.
    asio::awaitable<void> run_tools(std::vector<waymark::tool_call> calls)
    {
        // Not the ids of the calls: Gemini may give none, and some models begin anew in each answer.
        const auto answer_id = chat_.back().id();
        for (std::size_t i = 0; i < calls.size(); ++i) {
            waymark::tool_result result(calls[i], "there is only book_night, which wants a whole number");
            if (const auto night = night_of(calls[i])) {
                const auto receipt = co_await book(answer_id + "/" + std::to_string(i), *night);
                result = waymark::tool_result(calls[i], std::string(receipt.as_string()));
            } else {
                result.with_error(); // the model is told, and may try again
            }
            chat_.push(waymark::message::tool_result(result));
        }
    }

    //! Once, whatever happens. If the step was done, its result is handed out; if it never began, it is made
    //! now; if a crash left it in doubt, the hotel is asked which of the two it is.
    asio::awaitable<json::value> book(std::string key, std::int64_t night)
    {
        try {
            co_return co_await session_.async_step(key, hotel_.book(key, night));
        } catch (const waymark::error& failure) {
            if (failure.code() != waymark::errc::step_in_doubt)
                throw; // what is to be done about a doubt stands below: a handler cannot co_await
        }
        const bool happened = hotel_.knows(key);
        std::cout << "night " << night << " was in doubt: the hotel says " << (happened ? "yes" : "no")
                  << std::endl;
        if (happened)
            co_await session_.async_settle_step(key, hotel::receipt(night));
        else
            co_await session_.async_forget_step(key);
        co_return co_await session_.async_step(key, hotel_.book(key, night));
    }

    waymark::session session_;
    model& model_;
    hotel& hotel_;
    waymark::conversation chat_{32'000};
    std::int64_t turn_ = 0; // answers of the model
};

wire::api api_named(std::string_view name)
{
    if (name == "chat")
        return wire::api::chat_completions;
    if (name == "responses")
        return wire::api::responses;
    if (name == "anthropic")
        return wire::api::anthropic;
    if (name == "gemini")
        return wire::api::gemini;
    throw std::invalid_argument("no API is called '" + std::string(name) +
                                "'; there are chat, responses, anthropic and gemini");
}

const std::string usage = "usage: 8_any_model --api chat|responses|anthropic|gemini --url URL --model NAME "
                          "[--store FILE] [--stream]";

arguments read(int argc, char** argv)
{
    arguments given;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--stream")
            given.stream = true;
        else if (word == "--api" && i + 1 < argc)
            given.api = api_named(argv[++i]);
        else if (word == "--url" && i + 1 < argc)
            given.url.emplace(argv[++i]);
        else if (word == "--model" && i + 1 < argc)
            given.model = argv[++i];
        else if (word == "--store" && i + 1 < argc)
            given.store = argv[++i];
        else
            throw std::invalid_argument("what is '" + std::string(word) + "', or its value?\n" + usage);
    }
    if (!given.api || !given.url || given.model.empty())
        throw std::invalid_argument(usage);
    return given;
}

asio::awaitable<void> book_nights(waymark::async_store& store, const arguments& given)
{
    model asked(given);
    hotel booked(given.store + ".ledger");
    agent traveller(store, asked, booked);
    co_await traveller.run();
}

} // namespace

int main(int argc, char** argv)
{
    arguments given;
    try {
        if (argc == 2 && std::string_view(argv[1]) == "--help") {
            std::cout << usage << '\n';
            return 0;
        }
        given = read(argc, argv);
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
    try {
        asio::io_context io;
        waymark::async_store store{io.get_executor(), std::make_shared<waymark::sqlite_store>(given.store)};
        std::exception_ptr failure;
        asio::co_spawn(io, book_nights(store, given), [&](std::exception_ptr thrown) { failure = thrown; });
        io.run();
        if (failure)
            std::rethrow_exception(failure);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
