//! Sessions that make the same steps on threads of their own.
#include "claims.hpp"
#include "forwarding_store.hpp"
#include "races.hpp"
#include "run_coroutine.hpp"

#include <waymark/session.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <thread>

namespace waymark::faults {

namespace {

//! Steps begin in the same microsecond, as they do now and then by chance, and often where clocks are coarse.
class coarse_clock_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        std::vector<step_request> changed(batch.begin(), batch.end());
        for (auto& request : changed)
            if (request.is_create_only())
                request = step_request(
                    step(request.step()).with_started_at(timestamp(std::chrono::hours(400'000))), true);
        return forwarding_store::put_steps(changed);
    }
};

class session_race {
public:
    session_race(shared_database& database, const store_change& change)
    {
        for (auto& object : objects_) {
            if (database.has_one_writer() && &object != &objects_[0])
                object = objects_[0];
            else
                object =
                    std::make_shared<coarse_clock_store>(change ? change(database.open()) : database.open());
        }
    }

    std::vector<std::string> run()
    {
        {
            std::vector<std::jthread> threads;
            for (const auto& object : objects_)
                threads.emplace_back([this, &object] { live(object); });
        }
        for (std::size_t i = 0; i < runs_.size(); ++i)
            if (runs_[i] != 1)
                claims_.fail("sessions at once: the action of step " + std::to_string(i) + " ran " +
                             std::to_string(runs_[i]) + " times");
        return claims_.take();
    }

private:
    static constexpr std::size_t steps = 6;

    void live(const std::shared_ptr<store>& object)
    {
        asio::io_context io;
        async_store opened(io.get_executor(), object);
        session own{opened, "sessions"};
        for (std::size_t i = 0; i < steps; ++i) {
            start_.arrive_and_wait();
            claims_.expect("a session", [&] { test::run_coroutine(io, make(own, i)); });
        }
    }

    asio::awaitable<void> make(session& own, std::size_t number)
    {
        try {
            const auto result = co_await own.async_step("step" + std::to_string(number), act(number));
            if (result != "made")
                claims_.fail("a session was given a result that nobody has made");
        } catch (const error& failure) {
            if (failure.code() != errc::step_in_doubt) // someone else is at it
                claims_.fail(std::string("a session: ") + failure.what());
        }
    }

    asio::awaitable<boost::json::value> act(std::size_t number)
    {
        ++runs_[number];
        co_return "made";
    }

    std::array<std::shared_ptr<store>, 3> objects_;
    std::barrier<> start_{3};
    std::array<std::atomic<int>, steps> runs_{};
    claims claims_;
};

} // namespace

std::vector<std::string> run_sessions(shared_database& database, const store_change& change)
{
    return session_race(database, change).run();
}

} // namespace waymark::faults
