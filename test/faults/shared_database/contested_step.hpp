//! A step that several callers begin, end, withdraw and settle at once.
#pragma once

#include "claims.hpp"

#include <waymark/detail/session_functions.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace waymark::faults {

//! What sessions do with steps, so that it can be done wrong on purpose.
struct step_calls {
    std::function<detail::begun_step(store&, const step&)> begin = [](store& in, const step& wanted) {
        return detail::begin_step(in, wanted, step_options(), std::nullopt);
    };
    std::function<step(store&, const step&)> end = [](store& in, const step& made) {
        return detail::end_step(in, made);
    };
    std::function<void(store&, const step&)> withdraw = [](store& in, const step& begun) {
        detail::withdraw_step(in, begun);
    };
    std::function<bool(store&, const step&, const boost::json::value&)> settle =
        [](store& in, const step& of, const boost::json::value& result) {
            return detail::settle_step(in, of.agent_id(), of.scope(), of.key(), result);
        };
};

enum class step_role { begin, create, end, withdraw, settle, begin_again };
inline constexpr std::array roles_on_new = {step_role::begin, step_role::create};
inline constexpr std::array roles_on_pending = {step_role::end, step_role::withdraw, step_role::settle,
                                                step_role::begin_again};

inline std::string name_of(step_role role)
{
    return std::array{
        "begin", "create", "end", "withdraw", "settle", "begin again"}[static_cast<std::size_t>(role)];
}

//! One step, and what each of its callers was told.
class contested_step {
public:
    //! If it is pending, someone who is gone has begun it.
    contested_step(store& in, const std::string& key, bool is_pending, const step_calls& calls, claims& judge)
        : key_(key), calls_(calls), judge_(judge), begun_(attempt())
    {
        if (is_pending)
            judge_.expect("a step begins", [&] { begun_ = calls_.begin(in, begun_).record; });
    }

    void play(step_role role, store& in)
    {
        try {
            switch (role) {
            case step_role::begin:
                return begin(in);
            case step_role::create: // without a look before
                return create(in);
            case step_role::end:
                return claim_result(role, calls_.end(in, step(begun_).with_result("ended")).result());
            case step_role::withdraw:
                return calls_.withdraw(in, begun_);
            case step_role::settle:
                if (calls_.settle(in, begun_, "settled"))
                    claim_result(role, boost::json::value("settled"));
                return;
            case step_role::begin_again: // someone has found out that it had no effect
                calls_.withdraw(in, begun_);
                return begin(in);
            }
        } catch (const error& failure) {
            // Someone else was first. Whoever is told so claims nothing.
            const auto code = failure.code();
            if (code != errc::step_in_doubt && code != errc::conflict && code != errc::not_found)
                judge_.fail(name_of(role) + ": " + failure.what());
        }
    }

    void judge(store& in, const std::string& story, bool was_pending)
    {
        const auto found = detail::find_step(in, begun_);
        const auto recorded = found ? found->result() : std::nullopt;
        for (const auto& [role, result] : results_)
            if (recorded != result)
                judge_.fail(story + ": '" + name_of(role) +
                            "' was told that its result is recorded; there is " +
                            (found ? (recorded ? "another one" : "none") : "no step"));
        if (runs_ > 0 && !found)
            judge_.fail(story + ": an action runs and the record of its beginning is gone");
        if (!was_pending && runs_ != 1)
            judge_.fail(story + ": the action ran " + std::to_string(runs_) + " times");
    }

private:
    //! As several machines make it in the same microsecond.
    step attempt() const
    {
        return step("stepper", "", key_).with_started_at(timestamp(std::chrono::hours(400'000)));
    }

    void begin(store& in)
    {
        const auto begun = calls_.begin(in, attempt());
        const std::lock_guard lock(mutex_);
        if (begun.record.done())
            results_.emplace_back(step_role::begin, *begun.record.result());
        else
            ++runs_;
    }

    void create(store& in)
    {
        const step_request request(attempt(), true);
        in.put_steps(std::span(&request, 1)).at(0).value_or_throw();
        const std::lock_guard lock(mutex_);
        ++runs_;
    }

    //! Nothing is claimed by who was told that it is pending.
    void claim_result(step_role role, const std::optional<boost::json::value>& result)
    {
        const std::lock_guard lock(mutex_);
        if (result)
            results_.emplace_back(role, *result);
    }

    std::string key_;
    const step_calls& calls_;
    claims& judge_;
    step begun_;
    std::mutex mutex_; // guards what follows
    std::vector<std::pair<step_role, boost::json::value>> results_;
    int runs_ = 0;
};

} // namespace waymark::faults
