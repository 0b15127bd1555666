//! A backend with a gate before it that fails now and then, in every way in which a store can fail.
#pragma once

#include "forwarding_store.hpp"

#include <waymark/error.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <random>
#include <stdexcept>
#include <type_traits>

namespace waymark::faults::schedules {

class moody_store final : public test::forwarding_store {
public:
    //! One call in `one_in` fails; 0: none.
    moody_store(std::shared_ptr<store> inner, std::size_t lanes, std::uint64_t one_in, std::uint64_t seed)
        : forwarding_store(std::move(inner)), lanes_(lanes), one_in_(one_in), random_(seed)
    {
    }

    void close_gate()
    {
        const std::lock_guard lock(mutex_);
        gate_ = gate::closed;
    }
    void open_gate()
    {
        const std::lock_guard lock(mutex_);
        gate_ = gate::open;
        changed_.notify_all();
    }
    //! It opens by itself in a moment, so that whoever waits for the calls that stand there can go on.
    void open_gate_soon()
    {
        const std::lock_guard lock(mutex_);
        if (gate_ == gate::closed)
            gate_ = gate::opening;
        changed_.notify_all();
    }

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        return write([&] { return save_most(batch); });
    }
    std::optional<checkpoint> load(std::string_view agent, std::string_view scope,
                                   std::string_view id) override
    {
        return read([&] { return forwarding_store::load(agent, scope, id); });
    }
    std::optional<checkpoint> load(std::string_view id) override
    {
        return read([&] { return forwarding_store::load(id); });
    }
    std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope) override
    {
        return read([&] { return forwarding_store::load_latest(agent, scope); });
    }
    std::vector<checkpoint_header> list(const query& query) override
    {
        return read([&] { return forwarding_store::list(query); });
    }
    std::vector<checkpoint> load_all(const query& query) override
    {
        return read([&] { return forwarding_store::load_all(query); });
    }
    bool erase(std::string_view agent, std::string_view scope, std::string_view id) override
    {
        return write([&] { return forwarding_store::erase(agent, scope, id); });
    }
    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control) override
    {
        return write([&] { return forwarding_store::copy_agent(from, to, control); });
    }
    prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                       const upkeep_control& control) override
    {
        return write([&] { return forwarding_store::prune(agent, policies, dry, control); });
    }
    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        return write([&] { return forwarding_store::put_steps(batch); });
    }
    bool erase_step(std::string_view agent, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt) override
    {
        return write([&] { return forwarding_store::erase_step(agent, scope, key, attempt); });
    }
    verify_report verify(const upkeep_control& control) override
    {
        return read([&] { return forwarding_store::verify(control); });
    }
    std::size_t write_lanes() const noexcept override { return lanes_; }

private:
    enum class gate { open, opening, closed };

    template <class Call>
    std::invoke_result_t<Call&> read(Call call)
    {
        pass_gate();
        if (is_due())
            fail();
        return call();
    }

    //! Fails before anything is written, or when it is, and then nobody may be told that it was not.
    template <class Call>
    std::invoke_result_t<Call&> write(Call call)
    {
        pass_gate();
        if (is_due())
            fail();
        auto result = call();
        if (is_due())
            fail_after_commit();
        return result;
    }

    //! Some entries of a batch fail alone.
    std::vector<save_outcome> save_most(std::span<const save_request> batch)
    {
        std::vector<save_outcome> outcomes;
        for (const auto& each : batch)
            if (is_due())
                outcomes.emplace_back(error(errc::io, "this one could not be written"));
            else
                outcomes.push_back(forwarding_store::save({&each, 1}).front());
        return outcomes;
    }

    void pass_gate()
    {
        constexpr auto moment = std::chrono::microseconds(200);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return gate_ != gate::closed; });
        changed_.wait_for(lock, moment, [&] { return gate_ == gate::open; });
        gate_ = gate_ == gate::opening ? gate::open : gate_;
    }

    std::uint64_t draw()
    {
        const std::lock_guard lock(mutex_);
        return random_();
    }
    bool is_due() { return one_in_ != 0 && draw() % one_in_ == 0; }

    [[noreturn]] void fail()
    {
        switch (draw() % 16) {
        case 0:
            throw error(errc::busy, "someone else holds it"); // seldom: steps wait and try again
        case 1:
        case 2:
        case 3:
            throw std::bad_alloc();
        case 4:
        case 5:
        case 6:
            throw std::runtime_error("a driver's own exception");
        case 7:
            throw 7; // NOLINT(hicpp-exception-baseclass): a backend may do that, too
        case 8:
        case 9:
            throw error(errc::corrupt, "damaged");
        default:
            throw error(errc::io, "not written");
        }
    }

    [[noreturn]] void fail_after_commit()
    {
        switch (draw() % 4) {
        case 0:
            throw std::bad_alloc();
        case 1:
            throw std::runtime_error("the connection was lost");
        default:
            throw error(errc::outcome_unknown, "the commit was not answered");
        }
    }

    const std::size_t lanes_;
    const std::uint64_t one_in_;
    std::mutex mutex_;
    std::condition_variable changed_;
    gate gate_ = gate::open;
    std::mt19937_64 random_;
};

} // namespace waymark::faults::schedules
