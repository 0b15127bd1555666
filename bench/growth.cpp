//! One agent whose conversation grows: what a save costs at the beginning and at the end.
#include "contender.hpp"
#include "measure.hpp"
#include "workload.hpp"

namespace waymark::bench {

namespace {

std::vector<double> part(const std::vector<double>& values, std::size_t tenth)
{
    const auto at = [&](std::size_t share) {
        return values.begin() + static_cast<std::ptrdiff_t>(values.size() * share / 10);
    };
    return {at(tenth), at(tenth + 1)};
}

boost::json::object over_time(const std::vector<double>& milliseconds)
{
    const auto first = part(milliseconds, 0), last = part(milliseconds, 9);
    return {{"p50", median(milliseconds)}, {"p99", percentile(milliseconds, 0.99)},
            {"first_p50", median(first)},  {"first_p99", percentile(first, 0.99)},
            {"last_p50", median(last)},    {"last_p99", percentile(last, 0.99)}};
}

//! Saves one after the other, and the data made in between.
class one_by_one {
public:
    one_by_one(contender& to, asio::io_context& io) : to_(to), io_(io) {}

    void save(const checkpoint& next)
    {
        const auto cpu = cpu_seconds(), wall = wall_seconds();
        bool is_saved = false;
        to_.save(next, [&](std::size_t) {
            is_saved = true;
            wall_ms.push_back((wall_seconds() - wall) * 1e3);
            cpu_ms.push_back((cpu_seconds() - cpu) * 1e3);
        });
        while (!is_saved) {
            io_.restart();
            io_.run_one();
        }
    }

    std::vector<double> wall_ms, cpu_ms;

private:
    contender& to_;
    asio::io_context& io_;
};

double load_milliseconds(contender& from, asio::io_context& io, const std::string& agent,
                         std::size_t messages)
{
    std::vector<double> milliseconds;
    for (int i = 0; i < 5; ++i) {
        const auto begin = wall_seconds();
        from.load_latest(agent, [&](std::size_t found) {
            milliseconds.push_back((wall_seconds() - begin) * 1e3);
            if (found != messages)
                throw std::runtime_error("a load gave " + std::to_string(found) + " messages instead of " +
                                         std::to_string(messages));
        });
        io.restart();
        io.run();
    }
    return median(milliseconds);
}

} // namespace

void run_growth(const arguments& given)
{
    const auto turns = given.count("turns", 1'000);
    const auto limit = given.number("limit", 1e9) * 1e3;
    auto source = source_of(given);
    asio::io_context io;
    const auto opened = open_contender(given, io);
    given.refuse_others();

    const std::string agent = "planner";
    growing_agent history(agent, source);
    one_by_one saves(*opened, io);
    double spent = 0;
    for (std::size_t turn = 0; turn < turns && spent < limit; ++turn) {
        saves.save(history.next());
        spent += saves.wall_ms.back();
    }
    const auto peak = peak_memory();

    auto result = result_of(given);
    result["turns"] = turns;
    result["turns_done"] = saves.wall_ms.size();
    result["wall_s"] = spent / 1e3;
    result["cpu_s"] = sum(saves.cpu_ms) / 1e3;
    result["save_ms"] = over_time(saves.wall_ms);
    result["cpu_ms"] = over_time(saves.cpu_ms);
    auto& deciles = result["deciles_ms"].emplace_array();
    for (std::size_t tenth = 0; tenth < 10; ++tenth)
        if (const auto some = part(saves.wall_ms, tenth); !some.empty())
            deciles.push_back(median(some));
    result["peak_rss_bytes"] = peak;
    result["payload_bytes"] = history.payload();
    opened->describe(result);
    if (given.text("contender") != "bare-sqlite")
        result["load_ms"] = load_milliseconds(*opened, io, agent, history.chat().size());
    if (const auto bytes = opened->close_and_measure())
        result["bytes"] = *bytes;
    print(result);
}

void run_heavy(const arguments& given)
{
    const auto turns = given.count("turns", 200);
    const auto limit = given.number("limit", 1e9) * 1e3;
    auto source = source_of(given);
    asio::io_context io;
    const auto opened = open_contender(given, io);
    given.refuse_others();

    coding_agent agent("coder", source);
    one_by_one saves(*opened, io);
    double spent = 0;
    for (std::size_t turn = 0; turn < turns && spent < limit; ++turn) {
        saves.save(agent.next());
        spent += saves.wall_ms.back();
    }
    auto result = result_of(given);
    result["turns"] = turns;
    result["turns_done"] = saves.wall_ms.size();
    result["wall_s"] = spent / 1e3;
    result["payload_bytes"] = agent.payload();
    if (const auto bytes = opened->close_and_measure())
        result["bytes"] = *bytes;
    print(result);
}

} // namespace waymark::bench
