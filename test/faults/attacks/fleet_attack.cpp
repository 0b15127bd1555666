//! Two thousand agents save, resume, roll back, fork and prune at once; memory and descriptors stay flat.
#include "allocations.hpp"
#include "attack.hpp"
#include "broken_stores.hpp"
#include "fast_folder.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <waymark/session.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <malloc.h>
#include <random>
#include <thread>

namespace waymark::faults {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t agents = 2'000;
constexpr int seconds_of_a_round = 6;
constexpr std::size_t longest_chat = 40;
constexpr std::string_view copied = "copy of a large one";
constexpr std::uint64_t size_of_a_copy = 400;

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
    //! The store on that one is what everybody works with.
    using wrapping = std::function<std::shared_ptr<store>(std::shared_ptr<store>)>;

    explicit fleet(const wrapping& wrap = [](std::shared_ptr<store> plain) { return plain; })
        : backend_(wrap(open_store(store_kind::sqlite, folder_.path()))),
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
        std::vector<std::string> found, seen;
        {
            const std::jthread keeper([&] { keep_up(until, found); });
            const std::jthread watcher([&] { watch_copy(until, seen); });
            io_.run();
        }
        wrong_.insert(wrong_.end(), found.begin(), found.end());
        wrong_.insert(wrong_.end(), seen.begin(), seen.end());
        io_.restart();
    }

    store& backend() noexcept { return *backend_; }
    std::vector<std::string> take_wrong() { return std::exchange(wrong_, {}); }
    std::uint64_t operations() const noexcept { return operations_; }
    std::uint64_t upkeep() const noexcept { return upkeep_; }

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

    //! Upkeep of all kinds, all the time, beside what the sessions prune.
    void keep_up(clock::time_point until, std::vector<std::string>& wrong)
    try {
        const std::string large("large");
        if (backend_->count(query(large)) == 0)
            backend_->save(history_of(large));
        while (clock::now() < until) {
            const auto count = backend_->copy_agent(large, copied);
            if (count != size_of_a_copy)
                wrong.push_back("a copy has " + std::to_string(count) + " checkpoints");
            backend_->erase_agent(copied);
            backend_->sweep(copied);
            backend_->prune("agent-0", retention{}.keep_last(3), dry_run::no);
            backend_->compact();
            ++upkeep_;
        }
    } catch (const std::exception& failure) {
        wrong.emplace_back(failure.what());
    }

    //! All of the copy is there, or nothing.
    void watch_copy(clock::time_point until, std::vector<std::string>& wrong)
    try {
        while (clock::now() < until)
            if (const auto count = backend_->count(query(std::string(copied)));
                count != 0 && count != size_of_a_copy)
                wrong.push_back("a part of a copy is there: " + std::to_string(count) + " checkpoints");
    } catch (const std::exception& failure) {
        wrong.emplace_back(failure.what());
    }

    static std::vector<save_request> history_of(const std::string& agent)
    {
        std::vector<save_request> batch;
        conversation chat;
        for (std::uint64_t i = 0; i < size_of_a_copy; ++i) {
            chat.push(message::user("turn " + std::to_string(i) + std::string(500, 't')));
            batch.emplace_back(checkpoint(agent, chat, static_cast<std::int64_t>(i)));
        }
        return batch;
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
    std::uint64_t upkeep_ = 0;
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
        fleet piecemeal(
            [](std::shared_ptr<store> plain) { return std::make_shared<piecemeal_store>(std::move(plain)); });
        piecemeal.live(1, clock::now() + std::chrono::seconds(1));
        to.self_check("a store that copies and erases agents piece by piece",
                      !piecemeal.take_wrong().empty());
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
        to.note(std::to_string(fleet_->operations()) + " saves by " + std::to_string(agents) +
                " agents beside " + std::to_string(fleet_->upkeep()) + " rounds of upkeep, " +
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
