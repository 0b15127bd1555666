//! Two thousand agents save, resume, roll back, fork and prune at once; memory and descriptors stay flat.
#include "allocations.hpp"
#include "attack.hpp"
#include "fast_folder.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <waymark/session.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <malloc.h>
#include <random>

namespace waymark::faults {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t agents = 2'000;
constexpr int seconds_of_a_round = 6;
constexpr std::size_t longest_chat = 40;

struct use {
    std::size_t memory = 0;
    std::size_t descriptors = 0;
};

use measure()
{
    ::malloc_trim(0);
    const auto listing = std::filesystem::directory_iterator("/proc/self/fd");
    return {bytes_in_use(), static_cast<std::size_t>(std::distance(begin(listing), end(listing)))};
}

//! Whether the last third of the measurements is above the middle one by more than a tenth and a little.
std::string growth_in(const std::vector<use>& measured)
{
    if (measured.size() < 6)
        return {}; // too short to tell
    const auto median = [&](std::size_t from, std::size_t to, auto member) {
        std::vector<std::size_t> part;
        for (auto i = from; i < to; ++i)
            part.push_back(measured[i].*member);
        std::nth_element(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(part.size() / 2),
                         part.end());
        return part[part.size() / 2];
    };
    const auto third = measured.size() / 3;
    const auto grew = [&](auto member, std::size_t little) {
        const auto before = median(third, 2 * third, member);
        return median(2 * third, measured.size(), member) > before + before / 10 + little;
    };
    if (grew(&use::memory, std::size_t{1} << 20))
        return "memory grows";
    return grew(&use::descriptors, 2) ? "descriptors grow" : "";
}

class fleet {
public:
    fleet()
        : backend_(open_store(store_kind::sqlite, folder_.path())),
          store_(io_.get_executor(), backend_),
          last_(agents)
    {
    }

    //! All agents live until then.
    void live(std::uint64_t seed, clock::time_point until)
    {
        for (std::size_t number = 0; number < agents; ++number)
            asio::co_spawn(io_, life(number, seed * agents + number, until),
                           [this](const std::exception_ptr& thrown) { note(thrown); });
        io_.run();
        io_.restart();
    }

    store& backend() noexcept { return *backend_; }
    std::vector<std::string> take_wrong() { return std::exchange(wrong_, {}); }
    std::uint64_t operations() const noexcept { return operations_; }

private:
    void note(const std::exception_ptr& thrown)
    {
        try {
            if (thrown)
                std::rethrow_exception(thrown);
        } catch (const std::exception& failure) {
            wrong_.emplace_back(failure.what());
        }
    }

    asio::awaitable<void> life(std::size_t number, std::uint64_t seed, clock::time_point until)
    {
        std::mt19937_64 random(seed);
        const auto agent = "agent-" + std::to_string(number);
        while (clock::now() < until) {
            session own{store_, agent,
                        session_options()
                            .with_strategy(strategy::every_n(1))
                            .with_retention(retention{}.keep_last(5))
                            .prune_every(8)};
            const auto found = co_await own.async_resume();
            if (found ? found->iteration() != last_[number] : last_[number] != 0) {
                wrong_.push_back(agent + " does not go on where it was");
                co_return;
            }
            auto chat = found ? found->conversation() : conversation{};
            co_await work(own, chat, number, random);
        }
    }

    asio::awaitable<void> work(session& own, conversation& chat, std::size_t number, std::mt19937_64& random)
    {
        std::string newest;
        for (auto turns = 1 + random() % 6; turns > 0; --turns) {
            if (chat.size() >= longest_chat)
                chat.truncate(4);
            chat.push(message::user("turn " + std::string(random() % 800, 't')));
            const auto iteration = last_[number] + 1;
            const auto saved = co_await own.async_notify(event::iteration, iteration, chat);
            last_[number] = iteration;
            newest = saved->id();
            ++operations_;
        }
        if (random() % 8 == 0) {
            const auto back = co_await own.async_rollback_to(newest);
            last_[number] = back.iteration();
        }
        if (random() % 16 == 0) {
            const auto name = "fork-" + std::to_string(number);
            co_await store_.async_erase_agent(name);
            co_await own.async_fork(newest, name);
        }
    }

    test::temporary_folder folder_{fast_folder()};
    asio::io_context io_;
    std::shared_ptr<store> backend_;
    async_store store_;
    std::vector<std::int64_t> last_; // the iteration that was acknowledged last, by agent
    std::vector<std::string> wrong_;
    std::uint64_t operations_ = 0;
};

class fleet_attack final : public attack {
public:
    std::string_view name() const override { return "fleet"; }
    std::string_view promise() const override { return "a fleet holds: nothing is lost and nothing grows"; }
    std::string_view unit() const override { return "seconds"; }
    std::uint64_t full_size() const override { return 120; }

    void check_harness(report& to) override
    {
        std::vector<use> leaking, flat;
        std::vector<std::vector<char>> leaked;
        for (int i = 0; i < 12; ++i) {
            flat.push_back(measure());
            leaked.emplace_back(std::size_t{2} << 20);
            leaking.push_back(measure());
        }
        to.self_check("a leak of 2 MB a round", !growth_in(leaking).empty());
        leaked.clear();
        std::vector<std::shared_ptr<store>> left_open;
        const test::temporary_folder folder(fast_folder());
        std::vector<use> opening;
        for (int i = 0; i < 12; ++i) {
            left_open.push_back(open_store(store_kind::sqlite, folder.path() / std::to_string(i)));
            opening.push_back(measure());
            opening.back().memory = 0;
        }
        to.self_check("descriptors that stay open", growth_in(opening) == "descriptors grow");
    }

    void round(std::uint64_t seed, report& to) override
    {
        if (!fleet_)
            fleet_.emplace();
        fleet_->live(seed, clock::now() + std::chrono::seconds(seconds_of_a_round));
        for (const auto& wrong : fleet_->take_wrong())
            to.violation(wrong);
        measured_.push_back(measure());
        to.attacked(seconds_of_a_round);
    }

    void finish(report& to) override
    {
        if (!fleet_)
            return;
        if (const auto grows = growth_in(measured_); !grows.empty())
            to.violation(grows);
        const auto verified = fleet_->backend().verify();
        for (const auto& damage : verified.damages())
            to.violation("damage: " + damage.what);
        to.note(std::to_string(fleet_->operations()) + " saves by " + std::to_string(agents) + " agents, " +
                std::to_string(measured_.back().memory >> 10) + " KB and " +
                std::to_string(measured_.back().descriptors) + " descriptors at the end");
        fleet_.reset();
    }

private:
    std::optional<fleet> fleet_;
    std::vector<use> measured_;
};

} // namespace

std::unique_ptr<attack> make_fleet_attack()
{
    return std::make_unique<fleet_attack>();
}

} // namespace waymark::faults
