//! What is decided before a schedule begins.
#pragma once

#include "schedule_stage.hpp"

#include <waymark/async_options.hpp>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

namespace waymark::faults::schedules {

//! Random numbers. The same seed gives the same ones on every platform.
class dice {
public:
    explicit dice(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15U + 1) {}

    std::uint64_t seed() { return random_(); }
    //! 0 to `bound` - 1.
    std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
    std::size_t between(std::size_t least, std::size_t most) { return least + below(most - least + 1); }
    bool one_in(std::size_t count) { return below(count) == 0; }

private:
    std::mt19937_64 random_;
};

//! What is decided before a life begins.
struct plan {
    explicit plan(dice& roll)
        : where(static_cast<stage_kind>(roll.below(3))),
          lanes(roll.between(1, 3)),
          faults(roll.one_in(3) ? roll.between(4, 20) : 0),
          gated(roll.one_in(2)),
          small_queues(!roll.one_in(3)),
          with_session(roll.one_in(2)),
          exclusive(roll.one_in(4)),
          removes(roll.one_in(2)),
          deadly(roll.one_in(2)),
          ends_contexts(roll.one_in(4)),
          session_place(roll.below(stage::executor_count)),
          operations(roll.between(5, 25))
    {
        options.with_concurrent_reads(roll.between(1, 2));
        if (small_queues)
            options.with_max_queued_operations(roll.between(1, 4))
                .with_max_waiting_operations(roll.below(6))
                .with_max_queued_bytes(roll.between(500, 6'000))
                .with_max_waiting_bytes(roll.between(500, 6'000))
                .with_max_batch_operations(roll.between(1, 4));
    }

    std::string describe() const
    {
        constexpr std::array names = {"one context", "two contexts", "a pool"};
        std::string text = names[static_cast<std::size_t>(where)];
        text += ", " + std::to_string(lanes) + " lanes";
        for (const auto& [holds, word] : {std::pair{faults != 0, "faulty"},
                                          {gated, "gated"},
                                          {small_queues, "small queues"},
                                          {with_session, "session"},
                                          {deadly, "ends early"},
                                          {ends_contexts, "contexts end"}})
            text += holds ? std::string(", ") + word : "";
        return text;
    }

    stage_kind where;
    std::size_t lanes;
    std::size_t faults; // one call in so many fails; 0: none
    bool gated;
    bool small_queues;
    bool with_session;
    bool exclusive;
    bool removes; // the session lets go of what it saved
    bool deadly;  // store and session may be destroyed at any time
    bool ends_contexts;
    std::size_t session_place;
    std::size_t operations;
    async_options options;
};

} // namespace waymark::faults::schedules
