//! An event-driven agent with a scripted model and three tools, one of which has a side effect that must
//! happen once: booking a room. It may be killed at any moment.
//!
//!     4_event_driven_agent FILE [--postgres CONNECTION] [--agent ID] [--strategy NAME] [--crash-at N]
//!     [--history]
//!
//!     FILE         the checkpoints, in SQLite; the hotel's books are beside it
//!     --postgres   keep the checkpoints in PostgreSQL instead: postgresql://user@host/database
//!     --agent      whose checkpoints; "traveller" unless told
//!     --strategy   after_tool_call (the default), after_llm_response, every_n:N or never
//!     --crash-at   kill the process in the middle of the Nth tool call
//!     --history    print the checkpoints as a tree, and nothing else
//!
//! `crash_and_resume`, beside this file, runs it, lets it crash and runs it again.
#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <string_view>
#include <unistd.h>

namespace {

namespace json = boost::json;

struct arguments {
    std::string file;
    std::string postgres;
    std::string agent = "traveller";
    waymark::strategy strategy;
    std::int64_t crash_at = 0;
    bool history = false;
};

//! The other side: a hotel with books of its own, which do not know about checkpoints.
class hotel {
public:
    explicit hotel(std::string books) : books_(std::move(books)) {}

    //! Writes a booking into the books, each time that it is asked to.
    asio::awaitable<json::value> book(std::string reference, std::string city, bool crash)
    {
        const auto line = reference + ": a room in " + city + "\n";
        const int books = ::open(books_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (books < 0 || ::write(books, line.data(), line.size()) < 0 || ::fsync(books) != 0)
            throw std::runtime_error("the hotel cannot write to " + books_);
        ::close(books);
        if (crash)
            std::raise(SIGKILL); // the worst moment: the room is booked, and nobody has been told
        co_return json::value("booked a room in " + city);
    }

    bool knows(const std::string& reference) const
    {
        std::ifstream books(books_);
        for (std::string line; std::getline(books, line);)
            if (line.starts_with(reference + ":"))
                return true;
        return false;
    }

private:
    std::string books_;
};

//! Stands for a model: it reads the conversation, and says what comes next. The same conversation gets the
//! same answer, with the same ids of tool calls.
waymark::message ask_model(const waymark::conversation& chat)
{
    static const std::vector<std::pair<std::string, std::string>> script = {
        {"weather", "Lisbon"}, {"find_hotel", "Lisbon"}, {"book_hotel", "Lisbon"},
        {"weather", "Porto"},  {"find_hotel", "Porto"},  {"book_hotel", "Porto"}};
    std::size_t said = 0;
    for (const auto& message : chat)
        said += message.role() == waymark::role::assistant ? 1 : 0;
    if (said == script.size())
        return waymark::message::assistant("Two nights in Lisbon and two in Porto are booked. Bom dia!");
    const auto& [tool, city] = script[said];
    const waymark::tool_call call("call-" + std::to_string(said + 1), tool, {{"city", city}});
    return waymark::message::assistant("", {call});
}

class agent {
public:
    agent(waymark::async_store& store, const arguments& given)
        : session_(store, given.agent, waymark::session_options().with_strategy(given.strategy).exclusive()),
          hotel_(given.file + ".bookings"),
          crash_at_(given.crash_at)
    {
        session_.on_checkpoint([](const waymark::checkpoint_saved& saved) {
            std::cout << "    saved #" << saved.header().sequence() << ": " << saved.bytes_written()
                      << " bytes are new" << std::endl;
        });
        session_.on_error([](const waymark::session_error& failure) {
            std::cout << "    not saved: " << failure.message() << std::endl;
        });
    }

    asio::awaitable<void> run()
    {
        if (const auto head = co_await session_.async_resume()) {
            chat_ = head->conversation();
            iteration_ = head->iteration();
            std::cout << "resumed at iteration " << iteration_ << " with " << chat_.size() << " messages"
                      << std::endl;
        } else {
            chat_.with_system_prompt("You plan trips.");
            chat_.push(waymark::message::user("Two nights in Lisbon and two in Porto, please."));
            co_await session_.async_checkpoint("asked", iteration_, chat_);
        }
        // What was asked for before a crash is done first; then the model is asked for more.
        for (;;) {
            for (const auto& call : chat_.unanswered_tool_calls()) {
                auto result = co_await run_tool(call);
                std::cout << call.id() << ": " << result << std::endl;
                chat_.push(waymark::message::tool_result(call.id(), std::move(result)));
                co_await session_.async_notify(waymark::event::tool_call_complete, iteration_, chat_);
            }
            if (chat_.back().role() == waymark::role::assistant)
                break; // nothing was asked for: this is the answer
            ++iteration_;
            chat_.push(ask_model(chat_));
            co_await session_.async_notify(waymark::event::llm_response, iteration_, chat_);
        }
        std::cout << chat_.back().text() << std::endl;
        co_await session_.async_checkpoint("answered", iteration_, chat_);
    }

    asio::awaitable<void> print_history()
    {
        const auto history = co_await session_.async_history();
        std::cout << history.to_text();
    }

private:
    asio::awaitable<std::string> run_tool(const waymark::tool_call& call)
    {
        const bool crash = call.id() == "call-" + std::to_string(crash_at_);
        const std::string city(call.arguments().at("city").as_string());
        if (call.name() == "book_hotel")
            co_return co_await book(call.id(), city, crash);
        if (crash)
            std::raise(SIGKILL);
        co_return call.name() == "weather" ? "sunny in " + city
                                           : "the Hotel Central in " + city + " has rooms";
    }

    //! A side effect that happens once. A crash leaves three possibilities: it never began (it is made now),
    //! its end was recorded (the result is handed out), or nobody knows. Then the hotel is asked.
    asio::awaitable<std::string> book(std::string reference, std::string city, bool crash)
    {
        try {
            const auto receipt = co_await session_.async_step(reference, hotel_.book(reference, city, crash));
            co_return std::string(receipt.as_string());
        } catch (const waymark::error& failure) {
            if (failure.code() != waymark::errc::step_in_doubt)
                throw; // what is to be done about a doubt stands below: a handler cannot co_await
        }
        std::cout << "    " << reference << " is in doubt; asking the hotel" << std::endl;
        if (hotel_.knows(reference))
            co_await session_.async_settle_step(reference, "booked a room in " + city);
        else
            co_await session_.async_forget_step(reference);
        const auto receipt = co_await session_.async_step(reference, hotel_.book(reference, city, crash));
        co_return std::string(receipt.as_string());
    }

    waymark::session session_;
    hotel hotel_;
    std::int64_t crash_at_;
    waymark::conversation chat_{8'000};
    std::int64_t iteration_ = 0;
};

waymark::strategy strategy_named(std::string_view name)
{
    if (name == "after_tool_call")
        return waymark::strategy::after_tool_call();
    if (name == "after_llm_response")
        return waymark::strategy::after_llm_response();
    if (name == "never")
        return waymark::strategy::never();
    if (name.starts_with("every_n:"))
        return waymark::strategy::every_n(std::stoul(std::string(name.substr(8))));
    throw std::invalid_argument("no strategy is called '" + std::string(name) +
                                "'; there are after_tool_call, after_llm_response, every_n:N and never");
}

arguments read(int argc, char** argv)
{
    arguments given;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--history")
            given.history = true;
        else if (word == "--strategy" && i + 1 < argc)
            given.strategy = strategy_named(argv[++i]);
        else if (word == "--crash-at" && i + 1 < argc)
            given.crash_at = std::stol(argv[++i]);
        else if (word == "--postgres" && i + 1 < argc)
            given.postgres = argv[++i];
        else if (word == "--agent" && i + 1 < argc)
            given.agent = argv[++i];
        else if (given.file.empty() && !word.starts_with("--"))
            given.file = word;
        else
            throw std::invalid_argument("what is '" + std::string(word) + "'?");
    }
    if (given.file.empty())
        throw std::invalid_argument(
            "usage: 4_event_driven_agent FILE [--postgres CONNECTION] [--agent ID] [--strategy NAME] "
            "[--crash-at N] [--history]");
    return given;
}

//! The only line that knows where checkpoints are kept.
std::shared_ptr<waymark::store> open_store(const arguments& given)
{
    if (given.postgres.empty())
        return std::make_shared<waymark::sqlite_store>(given.file);
#ifdef WITH_POSTGRES // links waymark::postgres
    return std::make_shared<waymark::postgres_store>(given.postgres);
#else
    throw std::invalid_argument("this program was built without libpq");
#endif
}

} // namespace

int main(int argc, char** argv)
{
    try {
        const auto given = read(argc, argv);
        asio::io_context io;
        waymark::async_store store{io.get_executor(), open_store(given)};
        agent traveller{store, given};
        std::exception_ptr failure;
        asio::co_spawn(io, given.history ? traveller.print_history() : traveller.run(),
                       [&](std::exception_ptr thrown) { failure = thrown; });
        io.run();
        if (failure)
            std::rethrow_exception(failure);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
