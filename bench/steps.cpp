//! Steps a second beside saves a second, with one agent in flight and with many: what it costs to make a
//! side effect once. A step is a record of its beginning, an action that does nothing, and one of its end.
#include "contender.hpp"
#include "measure.hpp"
#include "workload.hpp"

#include <waymark/waymark.hpp>

#include <asio/io_context.hpp>

#include <functional>
#include <list>

namespace waymark::bench {

namespace {

struct rate {
    std::vector<double> milliseconds;
    double seconds = 0;
    double per_second() const { return static_cast<double>(milliseconds.size()) / seconds; }
};

//! Runs `begin(agent, done)` for `total` operations, each agent's one after the other, on `in_flight` agents
//! that take turns.
class rounds {
public:
    using begin_function = std::function<void(std::size_t agent, std::function<void()> done)>;

    static rate run(asio::io_context& io, std::size_t agents, std::size_t in_flight, std::size_t total,
                    begin_function begin)
    {
        rounds all(agents, total, std::move(begin));
        const auto start = wall_seconds();
        for (std::size_t i = 0; i < in_flight; ++i)
            all.begin_next();
        io.restart();
        io.run();
        all.result_.seconds = wall_seconds() - start;
        return std::move(all.result_);
    }

private:
    rounds(std::size_t agents, std::size_t total, begin_function begin)
        : total_(total), begin_(std::move(begin))
    {
        for (std::size_t agent = 0; agent < agents; ++agent)
            free_.push_back(agent);
    }

    void begin_next()
    {
        if (begun_ == total_)
            return;
        ++begun_;
        const auto agent = free_.front();
        free_.pop_front();
        begin_(agent, [this, agent, start = wall_seconds()] {
            result_.milliseconds.push_back((wall_seconds() - start) * 1e3);
            free_.push_back(agent);
            begin_next();
        });
    }

    const std::size_t total_;
    const begin_function begin_;
    std::list<std::size_t> free_;
    std::size_t begun_ = 0;
    rate result_;
};

asio::awaitable<boost::json::value> do_nothing()
{
    co_return nullptr;
}

} // namespace

void run_steps(const arguments& given)
{
    const auto agents = given.count("agents", 64);
    const auto in_flight = std::min(given.count("in-flight", 64), agents);
    const auto total = given.count("saves", in_flight == 1 ? 1'000 : 10'000); // and as many steps
    const auto message_bytes = given.count("message-bytes", 2'048);           // two a save
    auto source = source_of(given);
    asio::io_context io;
    async_store store(io.get_executor(), open_store(given, "steps"));
    given.refuse_others();

    std::vector<growing_agent> histories;
    std::vector<session> sessions;
    for (std::size_t i = 0; i < agents; ++i) {
        const auto name = "agent-" + std::to_string(i);
        histories.emplace_back(name, source, message_bytes);
        sessions.emplace_back(store, name);
    }
    const auto save = [&](std::size_t agent, std::function<void()> done) {
        store.async_save(histories[agent].next(),
                         [done = std::move(done)](std::error_code code, save_receipt) {
                             if (code)
                                 throw std::system_error(code, "a save failed");
                             done();
                         });
    };
    std::size_t keys = 0;
    const auto step = [&](std::size_t agent, std::function<void()> done) {
        sessions[agent].async_step("call-" + std::to_string(++keys), do_nothing,
                                   [done = std::move(done)](std::exception_ptr failure, boost::json::value) {
                                       if (failure)
                                           std::rethrow_exception(failure);
                                       done();
                                   });
    };

    // In turns, since what the disk gives changes from moment to moment.
    constexpr std::size_t turns = 5;
    rate saves, steps;
    const auto add = [](rate& to, rate more) {
        to.milliseconds.insert(to.milliseconds.end(), more.milliseconds.begin(), more.milliseconds.end());
        to.seconds += more.seconds;
    };
    rounds::run(io, agents, in_flight, agents, save); // the first save of each, and its first step
    rounds::run(io, agents, in_flight, agents, step);
    for (std::size_t turn = 0; turn < turns; ++turn) {
        add(saves, rounds::run(io, agents, in_flight, total / turns, save));
        add(steps, rounds::run(io, agents, in_flight, total / turns, step));
    }

    auto result = result_of(given);
    result["agents"] = agents;
    result["in_flight"] = in_flight;
    result["saves_per_second"] = saves.per_second();
    result["steps_per_second"] = steps.per_second();
    result["steps_to_saves"] = steps.per_second() / saves.per_second();
    result["save_ms"] = latencies(saves.milliseconds);
    result["step_ms"] = latencies(steps.milliseconds);
    print(result);
}

} // namespace waymark::bench
