//! A fresh process that loads a long conversation: opening, reading, checking, parsing.
#include "contender.hpp"
#include "measure.hpp"
#include "workload.hpp"

#include <boost/json/parse.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace waymark::bench {

namespace fs = std::filesystem;

namespace {

//! The time that it takes to parse that JSON from memory, and nothing else; as for the load, in a process
//! that has used no memory yet.
double parse_milliseconds(const fs::path& file, std::size_t messages)
{
    int ends[2];
    if (::pipe(ends) != 0)
        throw std::system_error(errno, std::system_category(), "pipe");
    const auto child = ::fork();
    if (child < 0)
        throw std::system_error(errno, std::system_category(), "fork");
    if (child == 0) {
        std::string text(fs::file_size(file), ' ');
        std::ifstream(file, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()));
        const auto begin = wall_seconds();
        const auto parsed = boost::json::parse(text);
        const auto milliseconds = (wall_seconds() - begin) * 1e3;
        const bool is_whole = parsed.as_array().size() == messages &&
                              ::write(ends[1], &milliseconds, sizeof milliseconds) == sizeof milliseconds;
        ::_exit(is_whole ? 0 : 1);
    }
    double milliseconds = 0;
    ::close(ends[1]);
    const bool is_told = ::read(ends[0], &milliseconds, sizeof milliseconds) == sizeof milliseconds;
    ::close(ends[0]);
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0 || !is_told)
        throw std::runtime_error("the JSON could not be parsed");
    return milliseconds;
}

void prepare(const arguments& given, const std::string& agent, std::size_t messages, const fs::path& file)
{
    auto source = source_of(given);
    asio::io_context io;
    const auto opened = open_contender(given, io);
    given.refuse_others();
    conversation chat;
    boost::json::array all;
    for (std::size_t i = 0; i < messages; ++i) {
        chat.push(message::user(source.next(1'024)));
        all.push_back(boost::json::value_from(chat.back()));
    }
    opened->save(checkpoint(agent, chat, 1), [](std::size_t) {});
    io.run();
    opened->close_and_measure();
    std::ofstream(file, std::ios::binary) << boost::json::serialize(all);
}

} // namespace

void run_first_load(const arguments& given)
{
    const auto messages = given.count("messages", 10'000);
    const fs::path file = fs::path(given.required("folder")) / "messages.json";
    const std::string agent = "planner";
    if (given.flag("prepare"))
        return prepare(given, agent, messages, file);

    given.text("texts");
    const auto parse = parse_milliseconds(file, messages); // before there is a thread, which fork would lose
    const auto begin = wall_seconds();
    asio::io_context io;
    const auto opened = open_contender(given, io);
    std::size_t found = 0;
    opened->load_latest(agent, [&](std::size_t count) { found = count; });
    io.run();
    const auto seconds = wall_seconds() - begin;
    given.refuse_others();
    if (found != messages)
        throw std::runtime_error("a load gave " + std::to_string(found) + " messages");

    auto result = result_of(given);
    result["messages"] = messages;
    result["load_ms"] = seconds * 1e3;
    result["parse_ms"] = parse;
    print(result);
}

} // namespace waymark::bench
