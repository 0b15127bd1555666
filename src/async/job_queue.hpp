//! Who may enter, who waits, and who is next: the state behind an engine, without threads or locks.
#pragma once

#include <waymark/async_options.hpp>
#include <waymark/detail/job.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace waymark::detail {

//! Jobs in lanes, with a bounded number of places and a bounded waiting room.
//!
//! A job has a place from its admission until `release`: what is being carried out is not stored yet and
//! counts. Those that wait are admitted strictly in order, so that the order of each lane is the order of
//! arrival. A job that concerns several lanes stands in each of them.
class job_queue {
public:
    job_queue(std::size_t lanes, const async_options& bounds);

    enum class admission { queued, waiting, refused };
    admission push(job& arrived);

    bool has_work(std::size_t lane) const { return !lanes_[lane].empty(); }
    std::size_t waiting_in(std::size_t lane) const { return lanes_[lane].size(); }
    //! Takes the next job of a lane, or if it is a save all the saves behind it, up to `most`. A job that
    //! stands in other lanes too has one lane less to reach.
    std::vector<job*> take(std::size_t lane, std::size_t most);

    //! Gives up the places of jobs that are done and admits those that wait for one.
    void release(std::size_t count, std::size_t bytes);

    //! Removes a job that no lane has taken (or not all of its lanes), and its place. Null if there is none.
    job* remove(std::uint64_t ticket);
    //! Removes everything that has not been taken.
    std::vector<job*> remove_all();

    const queue_figures::side& figures() const noexcept { return figures_; }
    std::size_t lane_of(const std::string& agent_id) const;

private:
    bool has_place_for(const job& candidate) const;
    void admit(job& admitted);
    void stand_in_lanes(job& admitted);
    void admit_waiting();
    void take_out_of_lanes(const job& leaving);

    async_options bounds_;
    std::vector<std::deque<job*>> lanes_;
    std::deque<job*> waiting_;
    queue_figures::side figures_;
};

} // namespace waymark::detail
