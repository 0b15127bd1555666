#include "job_queue.hpp"

#include <algorithm>
#include <functional>

namespace waymark::detail {

job_queue::job_queue(std::size_t lanes, const async_options& bounds) : bounds_(bounds), lanes_(lanes) {}

std::size_t job_queue::lane_of(const std::string& agent_id) const
{
    return std::hash<std::string>{}(agent_id) % lanes_.size();
}

bool job_queue::has_place_for(const job& candidate) const
{
    if (figures_.queued_operations == 0)
        return true; // one that exceeds the bound on bytes all by itself must get through at some time
    return figures_.queued_operations < bounds_.max_queued_operations() &&
           figures_.queued_bytes + candidate.bytes <= bounds_.max_queued_bytes();
}

job_queue::admission job_queue::push(job& arrived)
{
    if (waiting_.empty() && has_place_for(arrived)) {
        admit(arrived);
        return admission::queued;
    }
    const bool fits = figures_.waiting_bytes + arrived.bytes <= bounds_.max_waiting_bytes();
    if (waiting_.size() >= bounds_.max_waiting_operations() || (!fits && !waiting_.empty()))
        return admission::refused;
    waiting_.push_back(&arrived);
    ++figures_.waiting_operations;
    figures_.waiting_bytes += arrived.bytes;
    return admission::waiting;
}

void job_queue::admit(job& admitted)
{
    try {
        stand_in_lanes(admitted);
    } catch (...) { // no memory: it must not be left in some of them
        take_out_of_lanes(admitted);
        throw;
    }
    ++figures_.queued_operations;
    figures_.queued_bytes += admitted.bytes;
}

void job_queue::stand_in_lanes(job& admitted)
{
    if (admitted.what == job::kind::flush) {
        for (auto& lane : lanes_)
            lane.push_back(&admitted);
        admitted.lanes_to_reach = lanes_.size();
    } else {
        const auto first = lane_of(admitted.agent_id);
        lanes_[first].push_back(&admitted);
        admitted.lanes_to_reach = 1;
        const auto second = admitted.second_agent_id.empty() ? first : lane_of(admitted.second_agent_id);
        if (second != first) {
            lanes_[second].push_back(&admitted);
            admitted.lanes_to_reach = 2;
        }
    }
}

void job_queue::admit_waiting()
{
    while (!waiting_.empty() && has_place_for(*waiting_.front())) {
        auto& next = *waiting_.front();
        waiting_.pop_front();
        --figures_.waiting_operations;
        figures_.waiting_bytes -= next.bytes;
        admit(next);
    }
}

std::vector<job*> job_queue::take(std::size_t lane, std::size_t most)
{
    auto& queue = lanes_[lane];
    const auto is_save = [](const job* candidate) { return candidate->what == job::kind::save; };
    const auto end_of_saves = std::find_if_not(queue.begin(), queue.end(), is_save);
    const auto saves = static_cast<std::size_t>(end_of_saves - queue.begin());
    const auto count = static_cast<std::ptrdiff_t>(saves == 0 ? 1 : std::min(saves, most));
    std::vector<job*> taken(queue.begin(), queue.begin() + count);
    queue.erase(queue.begin(), queue.begin() + count);
    for (auto* next : taken)
        --next->lanes_to_reach;
    return taken;
}

void job_queue::release(std::size_t count, std::size_t bytes)
{
    figures_.queued_operations -= count;
    figures_.queued_bytes -= bytes;
    admit_waiting();
}

void job_queue::take_out_of_lanes(const job& leaving)
{
    for (auto& lane : lanes_)
        std::erase(lane, &leaving);
}

job* job_queue::remove(std::uint64_t ticket)
{
    const auto has_ticket = [ticket](const job* candidate) { return candidate->ticket == ticket; };
    const auto waiter = std::find_if(waiting_.begin(), waiting_.end(), has_ticket);
    if (waiter != waiting_.end()) {
        auto* removed = *waiter;
        waiting_.erase(waiter);
        --figures_.waiting_operations;
        figures_.waiting_bytes -= removed->bytes;
        admit_waiting(); // the one behind it may be smaller
        return removed;
    }
    for (auto& lane : lanes_) {
        const auto found = std::find_if(lane.begin(), lane.end(), has_ticket);
        if (found != lane.end()) {
            auto* removed = *found;
            take_out_of_lanes(*removed);
            release(1, removed->bytes);
            return removed;
        }
    }
    return nullptr;
}

std::vector<job*> job_queue::remove_all()
{
    std::vector<job*> removed;
    for (auto& lane : lanes_)
        for (auto* queued : lane)
            if (queued->lanes_to_reach == 1 || // stands nowhere else
                std::find(removed.begin(), removed.end(), queued) == removed.end())
                removed.push_back(queued);
    for (auto& lane : lanes_)
        lane.clear();
    for (const auto* queued : removed) {
        --figures_.queued_operations;
        figures_.queued_bytes -= queued->bytes;
    }
    removed.insert(removed.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
    figures_.waiting_operations = 0;
    figures_.waiting_bytes = 0;
    return removed;
}

} // namespace waymark::detail
