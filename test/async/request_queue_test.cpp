//! The queue behind an engine, without threads.
#include "async/job_queue.hpp"
#include "catch.hpp"

using namespace waymark;
using detail::job;
using detail::job_queue;

namespace {

class plain_job final : public job {
public:
    plain_job(kind which, std::string agent, std::size_t size, std::uint64_t number, std::string second = {})
    {
        what = which;
        agent_id = std::move(agent);
        second_agent_id = std::move(second);
        bytes = size;
        ticket = number;
    }
    void run(store&) noexcept override {}
    void fail(std::error_code, std::string) noexcept override {}
    void abort() noexcept override {}
    void complete() noexcept override {}
    void discard() noexcept override {}
};

using jobs = std::vector<job*>;
constexpr auto save = job::kind::save;
constexpr auto alone = job::kind::write;

//! An agent id that falls into this lane.
std::string agent_in(const job_queue& queue, std::size_t lane)
{
    for (int i = 0;; ++i)
        if (queue.lane_of(std::to_string(i)) == lane)
            return std::to_string(i);
}

} // namespace

TEST_CASE("saves are taken together, up to the next write")
{
    job_queue queue(1, async_options());
    plain_job a(save, "a", 1, 1), b(save, "b", 1, 2), c(alone, "c", 0, 3), d(save, "d", 1, 4);
    for (auto* next : {&a, &b, &c, &d})
        CHECK(queue.push(*next) == job_queue::admission::queued);
    CHECK(queue.take(0, 10) == jobs{&a, &b});
    CHECK(queue.take(0, 10) == jobs{&c});
    CHECK(queue.take(0, 10) == jobs{&d});
    CHECK_FALSE(queue.has_work(0));
    CHECK(queue.figures().queued_operations == 4); // taken is not done
    queue.release(4, 3);
    CHECK(queue.figures().queued_operations == 0);
    CHECK(queue.figures().queued_bytes == 0);
}

TEST_CASE("those that wait are admitted in order")
{
    job_queue queue(1, async_options().with_max_queued_bytes(10).with_max_waiting_operations(3));
    plain_job a(save, "a", 8, 1), large(save, "b", 9, 2), small(save, "c", 1, 3), last(save, "d", 1, 4),
        refused(save, "e", 0, 5);
    CHECK(queue.push(a) == job_queue::admission::queued);
    CHECK(queue.push(large) == job_queue::admission::waiting);
    CHECK(queue.push(small) == job_queue::admission::waiting); // would fit, but may not overtake
    CHECK(queue.push(last) == job_queue::admission::waiting);
    CHECK(queue.push(refused) == job_queue::admission::refused);
    CHECK(queue.figures().waiting_bytes == 11);
    CHECK(queue.take(0, 10) == jobs{&a});
    queue.release(1, 8);
    CHECK(queue.take(0, 10) == jobs{&large, &small}); // 9 + 1 fit, the last does not
    CHECK(queue.remove(4) == &last);
    CHECK(queue.remove(4) == nullptr);
    queue.release(2, 10);
    CHECK(queue.figures().waiting_operations == 0);
    CHECK(queue.figures().queued_operations == 0);
}

TEST_CASE("removing one that waits lets smaller ones pass")
{
    job_queue queue(1, async_options().with_max_queued_bytes(10));
    plain_job a(save, "a", 5, 1), large(save, "b", 9, 2), small(save, "c", 5, 3);
    queue.push(a);
    queue.push(large);
    queue.push(small);
    CHECK(queue.remove(2) == &large);
    CHECK(queue.take(0, 10) == jobs{&a, &small});
}

TEST_CASE("one that exceeds a bound by itself gets through when it is alone")
{
    job_queue queue(1, async_options().with_max_queued_bytes(10).with_max_waiting_bytes(10));
    plain_job huge(save, "a", 1'000, 1), next(save, "b", 1'000, 2), third(save, "c", 1, 3);
    CHECK(queue.push(huge) == job_queue::admission::queued);
    CHECK(queue.push(next) == job_queue::admission::waiting);
    CHECK(queue.push(third) == job_queue::admission::refused); // the waiting room is full of bytes
    queue.take(0, 1);
    queue.release(1, 1'000);
    CHECK(queue.take(0, 1) == jobs{&next});
}

TEST_CASE("a job of several lanes stands in each of them and can be removed until all have reached it")
{
    job_queue queue(3, async_options());
    const auto first = agent_in(queue, 0), second = agent_in(queue, 2);
    plain_job copy(alone, first, 0, 1, second), flush(job::kind::flush, "", 0, 2);
    queue.push(copy);
    queue.push(flush);
    CHECK(copy.lanes_to_reach == 2);
    CHECK(flush.lanes_to_reach == 3);
    CHECK(queue.take(0, 9) == jobs{&copy});
    CHECK(copy.lanes_to_reach == 1);
    CHECK(queue.take(1, 9) == jobs{&flush});
    CHECK(queue.remove(1) == &copy);
    CHECK(queue.take(2, 9) == jobs{&flush});
    CHECK(queue.take(0, 9) == jobs{&flush});
    CHECK(flush.lanes_to_reach == 0);
    CHECK(queue.remove(2) == nullptr);

    plain_job same(alone, first, 0, 3, first), all(job::kind::flush, "", 0, 4);
    queue.push(same);
    queue.push(all);
    CHECK(same.lanes_to_reach == 1);
    CHECK(queue.remove_all() == jobs{&same, &all});
    for (std::size_t lane = 0; lane < 3; ++lane)
        CHECK_FALSE(queue.has_work(lane));
}
