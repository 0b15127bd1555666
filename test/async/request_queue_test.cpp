//! The queue behind a scheduler, without threads.
#include "async/request_queue.hpp"
#include "catch.hpp"

using namespace waymark;
using detail::request_queue;
using detail::scheduler_limits;

namespace {

class plain_request final : public detail::request {
public:
    plain_request(schedule when, std::string agent, std::size_t size, std::string other = {})
        : request(when, store_operation::save, std::move(agent), std::move(other)), size_(size)
    {
        measure({}, 0);
    }
    void run(const detail::request_target&, std::span<const std::shared_ptr<request>>) noexcept override {}

protected:
    std::size_t unstored_bytes(const limits&, std::uint64_t) const override { return size_; }

private:
    std::size_t size_;
};

using schedule = detail::request::schedule;
using one = std::shared_ptr<detail::request>;
using several = std::vector<one>;

one save(std::string agent, std::size_t size = 1)
{
    return std::make_shared<plain_request>(schedule::batched, std::move(agent), size);
}
one of(schedule when, std::string agent = {}, std::string other = {})
{
    return std::make_shared<plain_request>(when, std::move(agent), 0, std::move(other));
}

//! A queue, and what comes out of it.
struct fixture {
    explicit fixture(std::size_t lanes = 1, scheduler_limits limits = {}) : queue(lanes, limits) {}

    several take(std::size_t lane = 0)
    {
        detail::request_batch taken;
        taken.reserve(64);
        queue.take(lane, taken);
        return taken;
    }
    //! What is carried out beside the lanes.
    several take_beside()
    {
        detail::request_batch taken;
        while (queue.beside() != 0)
            queue.take_beside(taken);
        return taken;
    }
    //! Returns the flushes that ended with them.
    several retire(const one& ended)
    {
        detail::request_list flushed;
        queue.retire(*ended, flushed);
        return listed(std::move(flushed));
    }
    several release(const several& ended)
    {
        detail::request_list flushed;
        queue.release(ended, flushed);
        return listed(std::move(flushed));
    }
    one remove(const one& wanted)
    {
        detail::request_list flushed;
        auto removed = queue.remove(*wanted, flushed);
        flushed_by_removal = listed(std::move(flushed));
        return removed;
    }
    static several listed(detail::request_list list)
    {
        several all;
        while (!list.empty())
            all.push_back(list.pop_front());
        return all;
    }
    //! An agent id that falls into this lane.
    std::string agent_in(std::size_t lane, int which = 0) const
    {
        for (int i = 0;; ++i)
            if (queue.lane_of(std::to_string(i)) == lane && which-- == 0)
                return std::to_string(i);
    }

    request_queue queue;
    several flushed_by_removal;
};

constexpr auto queued = request_queue::admission::queued;
constexpr auto waiting = request_queue::admission::waiting;
constexpr auto refused = request_queue::admission::refused;

} // namespace

TEST_CASE("saves are taken together, up to the next write")
{
    fixture f;
    const auto a = save("a"), b = save("b"), c = of(schedule::ordered, "c"), d = save("d");
    for (const auto& next : {a, b, c, d})
        CHECK(f.queue.push(next) == queued);
    CHECK(f.take() == several{a, b});
    CHECK(f.take() == several{c});
    CHECK(f.take() == several{d});
    CHECK(f.queue.writes(0) == 0);
    CHECK(f.queue.figures().writes.queued_operations == 4); // taken is not done
    f.release({a, b, c, d});
    CHECK(f.queue.figures().writes.queued_operations == 0);
    CHECK(f.queue.figures().writes.queued_bytes == 0);
}

TEST_CASE("a batch has at most so many")
{
    fixture f(1, {.batch_operations = 2});
    const auto a = save("a"), b = save("b"), c = save("c");
    for (const auto& next : {a, b, c})
        f.queue.push(next);
    CHECK(f.take() == several{a, b});
    CHECK(f.take() == several{c});
}

TEST_CASE("those that wait are admitted in order")
{
    fixture f(1, {.queued_bytes = 10, .waiting_operations = 3});
    const auto a = save("a", 8), large = save("b", 9), small = save("c", 1), last = save("d", 1),
               past = save("e", 0);
    CHECK(f.queue.push(a) == queued);
    CHECK(f.queue.push(large) == waiting);
    CHECK(f.queue.push(small) == waiting); // would fit, but may not overtake
    CHECK(f.queue.push(last) == waiting);
    CHECK(f.queue.push(past) == refused);
    CHECK(f.queue.figures().writes.waiting_bytes == 11);
    CHECK(f.take() == several{a});
    f.release({a});
    CHECK(f.take() == several{large, small}); // 9 + 1 fit, the last does not
    CHECK(f.remove(last) == last);
    CHECK(f.remove(last) == nullptr);
    f.release({large, small});
    CHECK(f.queue.figures().writes.waiting_operations == 0);
    CHECK(f.queue.figures().writes.queued_operations == 0);
}

TEST_CASE("removing one that waits lets smaller ones pass")
{
    fixture f(1, {.queued_bytes = 10});
    const auto a = save("a", 5), large = save("b", 9), small = save("c", 5);
    for (const auto& next : {a, large, small})
        f.queue.push(next);
    CHECK(f.remove(large) == large);
    CHECK(f.take() == several{a, small});
}

TEST_CASE("one that exceeds a bound by itself gets through when it is alone")
{
    fixture f(1, {.queued_bytes = 10, .waiting_bytes = 10});
    const auto huge = save("a", 1'000), next = save("b", 1'000), third = save("c", 1);
    CHECK(f.queue.push(huge) == queued);
    CHECK(f.queue.push(next) == waiting);
    CHECK(f.queue.push(third) == refused); // the waiting room is full of bytes
    f.take();
    f.release({huge});
    CHECK(f.take() == several{next});
}

TEST_CASE("reads and upkeep have slots of their own")
{
    fixture f(1, {.queued_operations = 1});
    CHECK(f.queue.push(save("a")) == queued);
    CHECK(f.queue.push(of(schedule::read, "a")) == queued);
    CHECK(f.queue.push(of(schedule::survey)) == queued);
    CHECK(f.queue.push(of(schedule::background)) == waiting); // behind the survey
    CHECK(f.queue.push(of(schedule::ordered, "a")) == waiting);
    CHECK(f.queue.reads() == 1);
    CHECK(f.queue.upkeep() == 1);
}

TEST_CASE("upkeep of an agent holds up that agent only")
{
    fixture f;
    const auto before = save("a"), prune = of(schedule::background, "a"), behind = save("a"),
               beside = save("b"), last = of(schedule::ordered, "a");
    for (const auto& next : {before, prune, behind, beside, last})
        f.queue.push(next);
    CHECK(f.take() == several{before});
    CHECK(f.queue.beside() == 0); // what came before it is not done
    f.release({before});
    CHECK(f.take() == several{beside}); // and not the one that is of the same agent
    CHECK(f.take_beside() == several{prune});
    CHECK(f.take().empty());
    f.release({prune});
    CHECK(f.take() == several{behind});
    CHECK(f.take() == several{last});
}

TEST_CASE("two that hold one agent come one after the other")
{
    fixture f;
    const auto first = of(schedule::background, "a"), second = of(schedule::background, "a"),
               behind = save("a");
    for (const auto& next : {first, second, behind})
        f.queue.push(next);
    CHECK(f.take().empty());
    CHECK(f.take_beside() == several{first});
    f.release({first});
    CHECK(f.take().empty());
    CHECK(f.take_beside() == several{second});
    f.release({second});
    CHECK(f.take() == several{behind});
}

TEST_CASE("one of two agents waits for both, in one lane or in two")
{
    const bool in_one_lane = GENERATE(true, false);
    fixture f(2);
    const auto a = f.agent_in(0), b = f.agent_in(in_one_lane ? 0 : 1, 1);
    const auto prune = of(schedule::background, b), copy = of(schedule::background, a, b), of_a = save(a),
               of_b = save(b);
    for (const auto& next : {prune, copy, of_a, of_b})
        f.queue.push(next);
    CHECK(f.take(0).empty()); // the first agent is reached, and held
    CHECK(f.take(1).empty());
    CHECK(f.take_beside() == several{prune});
    CHECK(f.take(0).empty());
    f.release({prune});
    CHECK(f.take(0).empty());
    CHECK(f.take(1).empty());
    CHECK(f.take_beside() == several{copy});
    f.release({copy});
    CHECK(f.take(0) == (in_one_lane ? several{of_b, of_a} : several{of_a}));
    CHECK(f.take(1) == (in_one_lane ? several{} : several{of_b}));
}

TEST_CASE("two that hold the same two agents do not wait for each other")
{
    fixture f(2);
    const auto a = f.agent_in(0), b = f.agent_in(1);
    const auto there = of(schedule::background, a, b), back = of(schedule::background, b, a);
    f.queue.push(there);
    f.queue.push(back);
    for (const std::size_t lane : {1u, 0u})
        CHECK(f.take(lane).empty());
    CHECK(f.take_beside() == several{there});
    f.release({there});
    for (const std::size_t lane : {1u, 0u})
        CHECK(f.take(lane).empty());
    CHECK(f.take_beside() == several{back});
}

TEST_CASE("one that holds agents can be removed until it is taken, and lets them go")
{
    fixture f(2);
    const auto a = f.agent_in(0), b = f.agent_in(1);
    const auto copy = of(schedule::background, a, b), of_a = save(a), of_b = save(b);
    const int reached_by = GENERATE(0, 1, 2);
    for (const auto& next : {copy, of_a, of_b})
        f.queue.push(next);
    if (reached_by >= 1)
        CHECK(f.take(0).empty());
    if (reached_by >= 2)
        CHECK(f.take(1).empty());
    CHECK(f.remove(copy) == copy);
    CHECK(f.remove(copy) == nullptr);
    CHECK(f.queue.beside() == 0);
    CHECK(f.take(0) == several{of_a});
    CHECK(f.take(1) == several{of_b});
    f.release({of_a, of_b});
    CHECK(f.queue.figures().writes.queued_operations == 0);
    // Nothing is left behind.
    const auto again = save(a);
    f.queue.push(again);
    CHECK(f.take(0) == several{again});
}

TEST_CASE("a flush waits for the writes that came before it, and for no others")
{
    fixture f(2);
    const auto first = save(f.agent_in(0)), second = save(f.agent_in(1)), flush = of(schedule::flush),
               later = save(f.agent_in(0));
    for (const auto& next : {first, second, flush, later})
        f.queue.push(next);
    CHECK(f.take(0) == several{first, later});
    CHECK(f.release({later}).empty());
    CHECK(f.release({first}).empty());
    SECTION("which end")
    {
        CHECK(f.take(1) == several{second});
        CHECK(f.release({second}) == several{flush});
    }
    SECTION("or are removed")
    {
        CHECK(f.remove(second) == second);
        CHECK(f.flushed_by_removal == several{flush});
    }
    CHECK(f.queue.figures().writes.queued_operations == 0);
    CHECK(f.queue.push(of(schedule::flush)) == request_queue::admission::done); // nothing to wait for
    CHECK(f.queue.figures().writes.queued_operations == 0);
}

TEST_CASE("a flush takes no slot, so that what it waits for can have it")
{
    fixture f(1, {.queued_operations = 1});
    const auto first = save("a"), held_by_a_session = save("b"), waits = save("c");
    f.queue.announce(*held_by_a_session);
    const auto flush = of(schedule::flush), late = of(schedule::flush);
    CHECK(f.queue.push(flush) == queued);
    CHECK(f.queue.push(first) == queued);
    CHECK(f.queue.push(held_by_a_session) == waiting);
    CHECK(f.queue.push(waits) == waiting);
    CHECK(f.queue.push(late) == queued);
    CHECK(f.take() == several{first});
    CHECK(f.release({first}).empty());
    CHECK(f.take() == several{held_by_a_session});
    CHECK(f.release({held_by_a_session}).empty()); // the session has yet to say that it has ended
    CHECK(f.retire(held_by_a_session) == several{flush});
    CHECK(f.remove(waits) == waits);
    CHECK(f.flushed_by_removal == several{late});
    CHECK(f.queue.figures().writes.queued_operations == 0);
    CHECK(f.queue.figures().writes.waiting_operations == 0);
}

TEST_CASE("flushes are bounded")
{
    fixture f(1, {.queued_operations = 1, .waiting_operations = 0}); // whatever the bounds of others are
    f.queue.push(save("a"));
    for (std::size_t i = 0; i < detail::request_queue::most_flushes; ++i)
        REQUIRE(f.queue.push(of(schedule::flush)) == queued);
    CHECK(f.queue.push(of(schedule::flush)) == request_queue::admission::refused);
}

TEST_CASE("all that was not taken is removed, each once")
{
    fixture f(2, {.queued_operations = 4});
    const auto a = f.agent_in(0), b = f.agent_in(1);
    several all;
    for (const auto& next :
         {of(schedule::background, a, b), save(a), save(b), of(schedule::flush), of(schedule::background, b),
          save("waits"), of(schedule::read), of(schedule::survey)}) {
        f.queue.push(next);
        all.push_back(next);
    }
    f.take(0); // the copy is half reached, and what is behind it parked
    auto removed = fixture::listed(f.queue.remove_all());
    std::sort(all.begin(), all.end());
    std::sort(removed.begin(), removed.end());
    CHECK(removed == all);
    for (const std::size_t lane : {0u, 1u})
        CHECK(f.queue.writes(lane) == 0);
}
