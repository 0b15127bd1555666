//! Who may enter, who waits, and who is next: the decisions of a scheduler, without threads or locks.
#pragma once

#include <waymark/detail/scheduler.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace waymark::detail {

using request_batch = std::vector<std::shared_ptr<request>>;

//! Requests from their arrival until they have ended.
//!
//! Writes stand in lanes: those of one agent in the same one, in the order of their arrival. A request that
//! is carried out beside the lanes (upkeep, or one that concerns two agents) holds its agents from the moment
//! when a lane reaches it until it has ended: what else these agents want waits behind it, and the lane goes
//! on with others.
//!
//! The number of requests is bounded; past that they wait in a room before the lanes, which is bounded, too,
//! and are admitted strictly in order. Those under way count: they are not stored yet. Flushes stand in
//! neither place: what they wait for may have yet to find room.
class request_queue {
public:
    request_queue(std::size_t lanes, const scheduler_limits& limits);

    //! Flushes that wait at once. They hold next to nothing.
    static constexpr std::size_t most_flushes = 4'096;

    enum class admission { queued, waiting, refused, done }; // done: a flush with nothing to wait for
    //! @throws std::bad_alloc; then it is not here.
    admission push(const std::shared_ptr<request>& arrived);

    // How many can be taken.
    std::size_t writes(std::size_t lane) const noexcept { return lanes_[lane].size(); }
    std::size_t reads() const noexcept { return reads_.ready.size(); }
    //! What is carried out beside the lanes, in the order of its agents.
    std::size_t beside() const noexcept { return reached_.size(); }
    //! What is carried out beside all of these.
    std::size_t upkeep() const noexcept { return upkeep_.ready.size(); }

    //! Takes the next of a lane, and those behind it that may share its commit. None if nothing in the lane
    //! can be done now; it is empty then. `taken` has room for a whole batch.
    void take(std::size_t lane, request_batch& taken) noexcept;
    void take_read(request_batch& taken) noexcept { taken.push_back(reads_.ready.pop_front()); }
    void take_beside(request_batch& taken) noexcept { taken.push_back(reached_.pop_front()); }
    void take_upkeep(request_batch& taken) noexcept { taken.push_back(upkeep_.ready.pop_front()); }

    //! A session holds a write, which it will push later. Flushes that come after this wait until it is
    //! retired; where it stands meanwhile does not matter to them.
    void announce(request& taken) noexcept;
    void retire(const request& ended, request_list& flushed) noexcept;

    //! These have ended. Flushes that waited for nothing else are added to `flushed`.
    void release(const request_batch& ended, request_list& flushed) noexcept;
    //! Removes one that has not been taken; null if it has, or is not here.
    std::shared_ptr<request> remove(request& wanted, request_list& flushed) noexcept;
    //! Removes everything that has not been taken.
    request_list remove_all() noexcept;

    queue_figures figures() const noexcept
    {
        return {writes_.figures, reads_.figures, upkeep_.figures, held_by_sessions_};
    }
    const queue_figures::side& figures_for(const request& one) noexcept { return side_of(one).figures; }
    std::size_t lane_of(const std::string& agent_id) const noexcept;

private:
    struct side {
        queue_figures::side figures;
        request_list waiting; // for a slot
        request_list ready;   // to be taken; writes stand in lanes
    };
    //! An agent that a request will hold, or does.
    struct hold {
        std::size_t wanted_by = 0;       // requests that hold it now or will
        const request* holder = nullptr; // null: no lane has reached one
        request_list waiting;            // what came behind the holder
    };
    using holds = std::map<std::string, hold, std::less<>>;
    class second_agent;

    side& side_of(const request& one) noexcept;
    bool has_slot_for(const request& candidate, const side& where) const noexcept;
    admission push_flush(const std::shared_ptr<request>& arrived) noexcept;
    void admit(std::shared_ptr<request> admitted) noexcept;
    void admit_waiting(side& where) noexcept;
    void leave(const request& leaving, request_list& flushed) noexcept;

    static bool holds_agents(const request& one) noexcept;
    void announce_holds(request& holder);
    template <class Visit>
    void for_each_hold(const request& holder, Visit visit) noexcept;
    hold* hold_on(const request& next) noexcept;
    void reach(std::shared_ptr<request> reached) noexcept;
    void let_go(const request& holder) noexcept;
    void count(request& write) noexcept;
    std::shared_ptr<request> take_out(request& wanted) noexcept;

    const scheduler_limits limits_;
    std::vector<request_list> lanes_;
    request_list reached_; // by all their lanes
    request_list parked_;  // reached by one of two lanes
    request_list flushes_; // wait for what came before them
    side writes_;
    side reads_;
    side upkeep_; // what is in no agent's order
    holds holds_;
    std::uint64_t last_number_ = 0;
    std::size_t held_by_sessions_ = 0;
    std::size_t unended_writes_ = 0; // pushed or announced, without flushes
};

} // namespace waymark::detail
