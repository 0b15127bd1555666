#include "request_queue.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace waymark::detail {

//! Stands for a request where its second agent's turn is, in another lane or in the same.
class request_queue::second_agent final : public request {
public:
    explicit second_agent(request& whole)
        : request(schedule::background, whole.what(), whole.other_agent_id()), stands_for(whole)
    {
    }
    void run(const request_target& /*in*/,
             std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
    }

    request& stands_for;
};

request_queue::request_queue(std::size_t lanes, const scheduler_limits& limits)
    : limits_(limits), lanes_(lanes)
{
}

std::size_t request_queue::lane_of(const std::string& agent_id) const noexcept
{
    return std::hash<std::string>{}(agent_id) % lanes_.size();
}

request_queue::side& request_queue::side_of(const request& one) noexcept
{
    switch (one.scheduled()) {
    case request::schedule::read:
        return reads_;
    case request::schedule::survey:
        return upkeep_;
    case request::schedule::background:
        return one.agent_id().empty() ? upkeep_ : writes_; // in nobody's order, or in its agent's
    default:
        return writes_;
    }
}

// Admission

bool request_queue::has_slot_for(const request& candidate, const side& where) const noexcept
{
    if (where.figures.queued_operations == 0)
        return true; // one that exceeds the bound on bytes all by itself must get through at some time
    return where.figures.queued_operations < limits_.queued_operations &&
           where.figures.queued_bytes + candidate.bytes() <= limits_.queued_bytes;
}

request_queue::admission request_queue::push(const std::shared_ptr<request>& arrived)
{
    if (arrived->scheduled() == request::schedule::flush)
        return push_flush(arrived);
    if (std::exchange(arrived->is_held_by_session_, false))
        --held_by_sessions_;
    auto& where = side_of(*arrived);
    const bool enters = where.waiting.empty() && has_slot_for(*arrived, where);
    if (!enters) {
        const bool fits = where.figures.waiting_bytes + arrived->bytes() <= limits_.waiting_bytes;
        if (where.waiting.size() >= limits_.waiting_operations || (!fits && !where.waiting.empty()))
            return admission::refused;
    }
    if (holds_agents(*arrived))
        announce_holds(*arrived); // takes memory; what follows does not
    if (&where == &writes_ && !arrived->is_announced_)
        count(*arrived);
    if (enters) {
        admit(arrived);
        return admission::queued;
    }
    where.waiting.push_back(arrived);
    ++where.figures.waiting_operations;
    where.figures.waiting_bytes += arrived->bytes();
    return admission::waiting;
}

//! It takes no slot: the writes that it waits for may be yet to get one.
request_queue::admission request_queue::push_flush(const std::shared_ptr<request>& arrived) noexcept
{
    if (unended_writes_ == 0)
        return admission::done;
    if (flushes_.size() >= most_flushes)
        return admission::refused;
    arrived->number_ = ++last_number_;
    arrived->to_wait_for_ = unended_writes_;
    flushes_.push_back(arrived);
    return admission::queued;
}

void request_queue::admit(std::shared_ptr<request> admitted) noexcept
{
    auto& where = side_of(*admitted);
    ++where.figures.queued_operations;
    where.figures.queued_bytes += admitted->bytes();
    if (&where != &writes_)
        return where.ready.push_back(std::move(admitted));
    admitted->to_wait_for_ = 1;
    if (admitted->stand_in_ != nullptr) {
        admitted->to_wait_for_ = 2;
        lanes_[lane_of(admitted->other_agent_id())].push_back(admitted->stand_in_);
    }
    auto& lane = lanes_[lane_of(admitted->agent_id())];
    lane.push_back(std::move(admitted));
}

void request_queue::admit_waiting(side& where) noexcept
{
    while (!where.waiting.empty() && has_slot_for(where.waiting.front(), where)) {
        auto next = where.waiting.pop_front();
        --where.figures.waiting_operations;
        where.figures.waiting_bytes -= next->bytes();
        admit(std::move(next));
    }
}

// Agents that are held

bool request_queue::holds_agents(const request& one) noexcept
{
    return !one.agent_id().empty() &&
           (one.scheduled() == request::schedule::background || !one.other_agent_id().empty());
}

void request_queue::announce_holds(request& holder)
{
    auto& first = holds_[holder.agent_id()]; // if memory runs out behind it, it is empty, and harmless
    if (!holder.other_agent_id().empty()) {
        auto& second = holds_[holder.other_agent_id()];
        holder.stand_in_ = std::make_shared<second_agent>(holder);
        ++second.wanted_by;
    }
    ++first.wanted_by;
}

template <class Visit>
void request_queue::for_each_hold(const request& holder, Visit visit) noexcept
{
    for (const auto* agent : {&holder.agent_id(), &holder.other_agent_id()})
        if (!agent->empty())
            visit(holds_.find(*agent));
}

//! Null if its agent is not held.
request_queue::hold* request_queue::hold_on(const request& next) noexcept
{
    if (holds_.empty())
        return nullptr;
    const auto found = holds_.find(next.agent_id());
    return found != holds_.end() && found->second.holder != nullptr ? &found->second : nullptr;
}

//! A lane has come to a request that is carried out beside the lanes: from now on its agent is held.
void request_queue::reach(std::shared_ptr<request> reached) noexcept
{
    auto* const stand_in = dynamic_cast<second_agent*>(reached.get());
    auto& whole = stand_in != nullptr ? stand_in->stands_for : *reached;
    holds_.find(reached->agent_id())->second.holder = &whole;
    const bool is_ready = --whole.to_wait_for_ == 0;
    if (stand_in == nullptr)
        (is_ready ? reached_ : parked_).push_back(std::move(reached));
    else if (is_ready)
        reached_.push_back(parked_.remove(whole));
}

void request_queue::let_go(const request& holder) noexcept
{
    for_each_hold(holder, [&](holds::iterator held) {
        auto& on_agent = held->second;
        if (on_agent.holder == &holder) {
            on_agent.holder = nullptr;
            lanes_[lane_of(held->first)].prepend(std::move(on_agent.waiting));
        }
        if (--on_agent.wanted_by == 0)
            holds_.erase(held);
    });
}

// From the lanes to the end

namespace {

//! Whether it may be committed with those that are before it in the lane. A shared commit makes its saves
//! first: a save does not overtake a step of its own agent.
bool may_join(const request_batch& batch, const request& next) noexcept
{
    if (batch.front()->scheduled() != request::schedule::batched ||
        next.scheduled() != request::schedule::batched)
        return false;
    return next.is_step() || std::none_of(batch.begin(), batch.end(), [&](const auto& each) {
               return each->is_step() && each->agent_id() == next.agent_id();
           });
}

} // namespace

void request_queue::take(std::size_t lane, request_batch& taken) noexcept
{
    auto& queue = lanes_[lane];
    while (!queue.empty() && taken.size() < limits_.batch_operations) {
        auto& next = queue.front();
        if (auto* const held = hold_on(next)) {
            held->waiting.push_back(queue.pop_front());
            continue;
        }
        const bool is_beside = holds_agents(next);
        if (!taken.empty() && (is_beside || !may_join(taken, next)))
            return;
        if (is_beside)
            reach(queue.pop_front());
        else
            taken.push_back(queue.pop_front());
    }
}

void request_queue::count(request& write) noexcept
{
    write.number_ = ++last_number_;
    ++unended_writes_;
}

void request_queue::announce(request& taken) noexcept
{
    taken.is_announced_ = taken.is_held_by_session_ = true;
    ++held_by_sessions_;
    count(taken);
}

void request_queue::retire(const request& ended, request_list& flushed) noexcept
{
    if (ended.is_held_by_session_)
        --held_by_sessions_;
    --unended_writes_;
    flushes_.remove_if(
        [&](request& flush) { return ended.number_ < flush.number_ && --flush.to_wait_for_ == 0; }, flushed);
}

//! Gives up what it held, and its slot. Flushes that are done with it are added to `flushed`.
void request_queue::leave(const request& leaving, request_list& flushed) noexcept
{
    auto& where = side_of(leaving);
    --where.figures.queued_operations;
    where.figures.queued_bytes -= leaving.bytes();
    if (holds_agents(leaving))
        let_go(leaving);
    if (&where == &writes_ && !leaving.is_announced_)
        retire(leaving, flushed);
    admit_waiting(where);
}

void request_queue::release(const request_batch& ended, request_list& flushed) noexcept
{
    for (const auto& each : ended)
        leave(*each, flushed);
}

std::shared_ptr<request> request_queue::remove(request& wanted, request_list& flushed) noexcept
{
    if (wanted.scheduled() == request::schedule::flush)
        return flushes_.remove(wanted);
    auto& where = side_of(wanted);
    if (auto waited = where.waiting.remove(wanted)) {
        --where.figures.waiting_operations;
        where.figures.waiting_bytes -= wanted.bytes();
        if (holds_agents(wanted))
            let_go(wanted);
        if (&where == &writes_ && !wanted.is_announced_)
            retire(wanted, flushed);
        admit_waiting(where); // the one behind it may be smaller
        return waited;
    }
    auto removed = take_out(wanted);
    if (removed != nullptr)
        leave(wanted, flushed);
    return removed;
}

//! Of where it stands after its admission.
std::shared_ptr<request> request_queue::take_out(request& wanted) noexcept
{
    if (wanted.stand_in_ != nullptr) {
        lanes_[lane_of(wanted.other_agent_id())].remove(*wanted.stand_in_);
        if (const auto held = holds_.find(wanted.other_agent_id()); held != holds_.end())
            held->second.waiting.remove(*wanted.stand_in_);
    }
    for (auto* list : {&reads_.ready, &upkeep_.ready, &reached_, &parked_})
        if (auto found = list->remove(wanted))
            return found;
    if (&side_of(wanted) != &writes_)
        return nullptr;
    if (auto found = lanes_[lane_of(wanted.agent_id())].remove(wanted))
        return found;
    const auto held = holds_.find(wanted.agent_id());
    return held == holds_.end() ? nullptr : held->second.waiting.remove(wanted);
}

request_list request_queue::remove_all() noexcept
{
    request_list removed;
    const auto take_all = [&](request_list& list) {
        while (!list.empty()) {
            auto each = list.pop_front();
            if (dynamic_cast<second_agent*>(each.get()) == nullptr)
                removed.push_back(std::move(each));
        }
    };
    for (auto& lane : lanes_)
        take_all(lane);
    for (auto& held : holds_)
        take_all(held.second.waiting);
    for (auto* each : {&writes_, &reads_, &upkeep_}) {
        take_all(each->ready);
        take_all(each->waiting);
    }
    take_all(reached_);
    take_all(parked_);
    take_all(flushes_);
    return removed;
}

} // namespace waymark::detail
