//! How long the caller's thread is held: the delay of a timer that ticks every millisecond while saves of a
//! long conversation are under way on the same io_context.
#include "contender.hpp"
#include "measure.hpp"
#include "workload.hpp"

#include <asio/steady_timer.hpp>

namespace waymark::bench {

namespace {

class ticker {
public:
    explicit ticker(asio::io_context& io) : timer_(io) {}

    void start(std::chrono::steady_clock::duration time)
    {
        end_ = clock::now() + time;
        delays_ms.clear();
        tick();
    }
    bool is_running() const { return clock::now() < end_; }

    std::vector<double> delays_ms;

private:
    using clock = std::chrono::steady_clock;

    void tick()
    {
        timer_.expires_after(std::chrono::milliseconds(1));
        timer_.async_wait([this](std::error_code) {
            delays_ms.push_back(
                std::chrono::duration<double, std::milli>(clock::now() - timer_.expiry()).count());
            if (is_running())
                tick();
        });
    }

    asio::steady_timer timer_;
    clock::time_point end_;
};

} // namespace

void run_event_loop(const arguments& given)
{
    const auto bytes = given.count("bytes", 10'000'000);
    const std::chrono::duration<double> time(given.number("seconds", 3));
    auto source = source_of(given);
    asio::io_context io;
    const auto opened = open_contender(given, io);
    given.refuse_others();

    growing_agent history("planner", source);
    checkpoint last = history.next();
    while (history.payload() < bytes)
        last = history.next();

    const auto conversation_bytes = history.payload();
    ticker clock(io);
    const auto duration = std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
    clock.start(duration);
    io.run();
    const auto idle = latencies(clock.delays_ms);

    // The whole conversation, then two messages more with each save.
    std::size_t saves = 0;
    std::function<void()> save = [&] {
        opened->save(last, [&](std::size_t) {
            ++saves;
            if (clock.is_running()) {
                last = history.next();
                save();
            }
        });
    };
    io.restart();
    clock.start(duration);
    save();
    io.run();
    const auto busy = latencies(clock.delays_ms);

    // The whole conversation again and again, each time for an agent that has nothing of it.
    std::size_t whole = 0;
    std::function<void()> save_whole = [&] {
        const auto agent = "agent-" + std::to_string(whole);
        opened->save(checkpoint(agent, history.chat(), 1), [&](std::size_t) {
            ++whole;
            if (clock.is_running())
                save_whole();
        });
    };
    io.restart();
    clock.start(duration);
    save_whole();
    io.run();

    auto result = result_of(given);
    result["conversation_bytes"] = conversation_bytes;
    result["saves"] = saves;
    result["idle_ms"] = idle;
    result["busy_ms"] = busy;
    result["whole_saves"] = whole;
    result["whole_ms"] = latencies(clock.delays_ms);
    print(result);
}

} // namespace waymark::bench
