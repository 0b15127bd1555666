//! A fresh process that loads a long conversation: opening, reading, checking, parsing.
#include "contender.hpp"
#include "measure.hpp"
#include "workload.hpp"

#include <boost/json/parse.hpp>

namespace waymark::bench {

namespace {

//! The time that it takes to parse that JSON from memory, and nothing else.
double parse_milliseconds(texts& source, std::size_t messages)
{
    boost::json::array all;
    for (std::size_t i = 0; i < messages; ++i)
        all.push_back(boost::json::value_from(message::user(source.next(1'024))));
    const auto text = boost::json::serialize(all);
    std::vector<double> milliseconds;
    for (int i = 0; i < 7; ++i) {
        const auto begin = wall_seconds();
        const auto parsed = boost::json::parse(text);
        milliseconds.push_back((wall_seconds() - begin) * 1e3);
        if (parsed.as_array().size() != messages)
            throw std::runtime_error("a parser lost messages");
    }
    return median(milliseconds);
}

} // namespace

void run_first_load(const arguments& given)
{
    const auto messages = given.count("messages", 10'000);
    const auto is_preparing = given.flag("prepare");
    auto source = source_of(given);
    const std::string agent = "planner";
    asio::io_context io;
    if (is_preparing) {
        const auto opened = open_contender(given, io);
        given.refuse_others();
        conversation chat;
        for (std::size_t i = 0; i < messages; ++i)
            chat.push(message::user(source.next(1'024)));
        opened->save(checkpoint(agent, chat, 1), [](std::size_t) {});
        io.run();
        opened->close_and_measure();
        return;
    }

    const auto begin = wall_seconds();
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
    result["parse_ms"] = parse_milliseconds(source, messages);
    print(result);
}

} // namespace waymark::bench
