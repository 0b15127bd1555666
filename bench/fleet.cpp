//! Many agents: what is saved and loaded a second with so many operations in flight.
#include "contender.hpp"
#include "measure.hpp"
#include "workload.hpp"

#include <random>

namespace waymark::bench {

namespace {

std::string name_of(std::size_t agent)
{
    return "agent-" + std::to_string(agent);
}

} // namespace

void run_fleet(const arguments& given)
{
    const auto agents = given.count("agents", 1'000), turns = given.count("turns", 20);
    const auto in_flight = std::min(given.count("in-flight", 64), agents);
    const auto limit = given.number("limit", 1e9);
    const auto message_bytes = given.count("message-bytes", 2'048);
    given.text("keep");
    auto source = source_of(given);
    asio::io_context io;
    const auto opened = open_contender(given, io);
    given.refuse_others();

    std::uint64_t payload = 0;
    std::vector<checkpoint> saves; // turn by turn
    {
        std::vector<growing_agent> histories;
        for (std::size_t i = 0; i < agents; ++i)
            histories.emplace_back(name_of(i), source, message_bytes);
        for (std::size_t turn = 0; turn < turns; ++turn)
            for (auto& history : histories)
                saves.push_back(history.next());
        for (const auto& history : histories)
            payload += history.payload();
    }

    std::vector<double> milliseconds;
    std::vector<bool> is_busy(agents);
    double batches = 0;
    std::size_t next = 0;
    const auto begin = wall_seconds(), cpu_before = cpu_seconds();
    std::function<void()> fill = [&] {
        while (next < saves.size() && next - milliseconds.size() < in_flight && !is_busy[next % agents] &&
               wall_seconds() - begin < limit) {
            const auto agent = next % agents;
            is_busy[agent] = true;
            const auto start = wall_seconds();
            opened->save(saves[next++], [&, agent, start](std::size_t batch) {
                milliseconds.push_back((wall_seconds() - start) * 1e3);
                batches += 1.0 / static_cast<double>(batch);
                is_busy[agent] = false;
                fill();
            });
        }
    };
    fill();
    io.run();
    const auto seconds = wall_seconds() - begin;
    const auto cpu = cpu_seconds() - cpu_before;

    const auto done = static_cast<double>(milliseconds.size());
    auto result = result_of(given);
    result["agents"] = agents;
    result["turns"] = turns;
    result["in_flight"] = in_flight;
    result["saves"] = saves.size();
    result["saves_done"] = milliseconds.size();
    result["wall_s"] = seconds;
    result["saves_per_second"] = done / seconds;
    result["cpu_us_per_save"] = cpu * 1e6 / done;
    result["batch_mean"] = opened->has_batches() ? boost::json::value(done / batches) : nullptr;
    result["latency_ms"] = latencies(milliseconds);
    result["payload_bytes"] = payload;
    if (const auto bytes = opened->close_and_measure())
        result["bytes"] = *bytes;
    print(result);
}

void run_resume(const arguments& given)
{
    const auto agents = given.count("agents", 1'000), turns = given.count("turns", 20);
    const auto loads = given.count("loads", 20'000), in_flight = given.count("in-flight", 64);
    const auto limit = given.number("limit", 1e9);
    asio::io_context io;
    const auto opened = open_contender(given, io);
    given.refuse_others();

    std::mt19937_64 random(1);
    std::vector<double> milliseconds;
    std::size_t begun = 0;
    const auto begin = wall_seconds();
    std::function<void()> load = [&] {
        if (begun == loads || wall_seconds() - begin > limit)
            return;
        ++begun;
        const auto start = wall_seconds();
        opened->load_latest(name_of(random() % agents), [&, start](std::size_t messages) {
            milliseconds.push_back((wall_seconds() - start) * 1e3);
            if (messages != 2 * turns)
                throw std::runtime_error("a load gave " + std::to_string(messages) + " messages");
            load();
        });
    };
    for (std::size_t i = 0; i < in_flight; ++i)
        load();
    io.run();
    const auto seconds = wall_seconds() - begin;

    auto result = result_of(given);
    result["agents"] = agents;
    result["in_flight"] = in_flight;
    result["loads"] = milliseconds.size();
    result["loads_per_second"] = static_cast<double>(milliseconds.size()) / seconds;
    result["latency_ms"] = latencies(milliseconds);
    print(result);
}

} // namespace waymark::bench
