//! Ten times the load that the queues of an async_store admit, while its backend stands still.
//!
//! What is counted: the payload of an operation that is not stored yet. A message that several waiting
//! checkpoints share is counted with each of them, so that the memory in use is below the bound by what they
//! share. An operation that was refused does not count, and gives its payload back at once; what is left of
//! it until its handler has run (less than `cost_of_refusal`) belongs to the caller, who has not run it.
#include "allocations.hpp"
#include "attack.hpp"
#include "gated_store.hpp"

#include <waymark/async_store.hpp>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <iomanip>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

namespace waymark::faults {

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t excess_factor = 10;        // the load, and the bounds of the broken store
constexpr std::size_t cost_of_read = 2 * kib;    // one that waits holds no payload
constexpr std::size_t cost_of_refusal = 2 * kib; // until its handler has run
constexpr std::size_t residue = 64 * kib;        // what queues and threads keep for the next time

//! What is offered to which store.
struct flood {
    enum class kind { saves, shared_saves, reads };

    explicit flood(std::uint64_t seed)
    {
        std::mt19937_64 random(seed);
        const auto between = [&](std::size_t least, std::size_t most) {
            return least + static_cast<std::size_t>(random() % (most - least + 1));
        };
        const auto drawn = between(0, 7);
        what = drawn == 0 ? kind::shared_saves : drawn == 1 ? kind::reads : kind::saves;
        by_operations = what == kind::reads || between(0, 1) == 0;
        payload = between(24, 64) * kib;
        queued = by_operations ? between(96, 192) : between(4, 8) * kib * kib;
        waiting = by_operations ? between(96, 192) : between(4, 8) * kib * kib;
        lanes = between(1, 3);
        producers = between(1, 3);
        runs_handlers = between(0, 2) != 0;
    }

    //! In bytes; what the promise is judged by.
    std::size_t bound() const
    {
        if (what == kind::reads)
            return (queued + waiting) * cost_of_read;
        return by_operations ? (queued + waiting) * payload : queued + waiting;
    }
    std::size_t admissible() const { return by_operations ? queued + waiting : (queued + waiting) / payload; }
    std::size_t offered() const { return excess_factor * admissible(); }

    async_options options(std::size_t factor) const
    {
        constexpr std::size_t unbounded = std::size_t{1} << 40;
        async_options result;
        result.with_max_queued_operations(by_operations ? factor * queued : unbounded)
            .with_max_waiting_operations(by_operations ? factor * waiting : unbounded)
            .with_max_queued_bytes(by_operations ? unbounded : factor * queued)
            .with_max_waiting_bytes(by_operations ? unbounded : factor * waiting);
        return result;
    }

    std::string describe() const
    {
        constexpr std::array names = {"saves", "saves of one conversation", "reads"};
        return std::to_string(offered()) + " " + names[static_cast<std::size_t>(what)] + " of " +
               std::to_string(payload) + " bytes, " + std::to_string(queued) + " + " +
               std::to_string(waiting) + (by_operations ? " operations" : " bytes") + " admitted, " +
               std::to_string(lanes) + " lanes, " + std::to_string(producers) + " producers, handlers run " +
               (runs_handlers ? "at once" : "afterwards");
    }

    kind what;
    bool by_operations;
    std::size_t payload;
    std::size_t queued;
    std::size_t waiting;
    std::size_t lanes;
    std::size_t producers;
    bool runs_handlers; // while the load is offered, not only when all of it was
};

//! How the operations ended.
struct endings {
    std::atomic<std::size_t> done = 0;
    std::atomic<std::size_t> refused = 0;
    std::atomic<std::size_t> others = 0;

    void add(std::error_code code)
    {
        ++(!code ? done : code == make_error_code(errc::overloaded) ? refused : others);
    }
};

//! Deliberate mistakes, for the self-checks.
struct mistakes {
    std::size_t bounds_factor = 1;
    bool keeps_everything = false;
};

class overload {
public:
    overload(const flood& wanted, mistakes wrong)
        : wanted_(wanted),
          wrong_(wrong),
          backend_(std::make_shared<test::gated_store>(wanted.lanes)),
          store_(std::make_unique<async_store>(io_.get_executor(), backend_,
                                               wanted.options(wrong.bounds_factor)))
    {
        shared_.push(message::user(std::string(wanted.payload, 's')));
    }

    //! What broke the promise.
    std::vector<std::string> run()
    {
        backend_->close_gate();
        const auto baseline = bytes_in_use();
        take_peak_bytes();
        offer_all();
        check_memory(take_peak_bytes() - baseline);
        check_queues();
        backend_->open_gate();
        run_handlers();
        check_endings();
        check_rest(baseline);
        return std::move(wrong_things_);
    }

    //! The memory that was in use at most, as a share of the bound.
    double ratio() const noexcept { return ratio_; }

private:
    void violation(const std::string& text) { wrong_things_.push_back(wanted_.describe() + ": " + text); }

    void offer_all()
    {
        const auto work = asio::make_work_guard(io_); // so that polling never stops the context
        std::vector<std::jthread> threads;
        for (std::size_t i = 1; i < wanted_.producers; ++i)
            threads.emplace_back([this, i] { offer_share(i); });
        offer_share(0);
    }

    void offer_share(std::size_t producer)
    {
        const auto agent = agent_of(producer);
        for (std::size_t i = producer; i < wanted_.offered(); i += wanted_.producers) {
            offer(agent);
            if (wanted_.runs_handlers)
                io_.poll();
        }
    }

    void offer(const std::string& agent)
    {
        const auto end = [this](std::error_code code, const auto&) { endings_.add(code); };
        if (wanted_.what == flood::kind::reads)
            return store_->async_load_latest(agent, end);
        if (wanted_.what == flood::kind::shared_saves)
            return store_->async_save(checkpoint(agent, shared_), end);
        conversation fresh;
        fresh.push(message::user(std::string(wanted_.payload, 'f')));
        store_->async_save(checkpoint(agent, std::move(fresh)), end);
    }

    static std::string agent_of(std::size_t producer) { return "agent-" + std::to_string(producer); }

    void run_handlers()
    {
        io_.restart();
        io_.run(); // until everything that was admitted has ended
    }

    void check_memory(std::size_t used)
    {
        const auto bound = static_cast<double>(wanted_.bound());
        const auto unrun = wanted_.runs_handlers ? 0 : wanted_.offered() - wanted_.admissible();
        const auto handlers = static_cast<double>(unrun * cost_of_refusal);
        ratio_ = std::max(0.0, static_cast<double>(used) - handlers) / bound;
        if (ratio_ > 1.1)
            violation(std::to_string(used) + " bytes are in use, and the bound is " +
                      std::to_string(wanted_.bound()) + " (and " + std::to_string(unrun) +
                      " handlers that were not run)");
    }

    //! While the backend stands still.
    void check_queues()
    {
        const auto all = store_->queues();
        const auto& side = wanted_.what == flood::kind::reads ? all.reads : all.writes;
        const auto queued = wanted_.by_operations ? side.queued_operations : side.queued_bytes;
        const auto waiting = wanted_.by_operations ? side.waiting_operations : side.waiting_bytes;
        if (queued > wanted_.queued || waiting > wanted_.waiting)
            violation(std::to_string(queued) + " are queued and " + std::to_string(waiting) + " wait");
        admitted_ = side.queued_operations + side.waiting_operations;
    }

    void check_endings()
    {
        if (endings_.done != admitted_ || endings_.others != 0 ||
            endings_.done + endings_.refused != wanted_.offered())
            violation(std::to_string(admitted_) + " were admitted, " + std::to_string(endings_.done) +
                      " done, " + std::to_string(endings_.refused) + " refused, " +
                      std::to_string(endings_.others) + " ended in another way");
        // A message takes a little more than its text, so that some fewer fit.
        if (admitted_ * excess_factor < wanted_.admissible() * (excess_factor - 1))
            violation("only " + std::to_string(admitted_) + " were admitted");
    }

    //! When everything has ended, and what was saved has been removed.
    void check_rest(std::size_t baseline)
    {
        const auto all = store_->queues();
        for (const auto& side : {all.writes, all.reads})
            if (side.queued_operations + side.queued_bytes + side.waiting_operations + side.waiting_bytes !=
                0)
                violation("the queues are not empty at the end");
        for (std::size_t i = 0; i < wanted_.producers && !wrong_.keeps_everything; ++i)
            backend_->erase_agent(agent_of(i));
        if (bytes_in_use() > baseline + residue)
            violation(std::to_string(bytes_in_use() - baseline) + " bytes are left when all has ended");
    }

    const flood wanted_;
    const mistakes wrong_;
    conversation shared_;
    asio::io_context io_;
    std::shared_ptr<test::gated_store> backend_;
    std::unique_ptr<async_store> store_;
    endings endings_;
    std::size_t admitted_ = 0;
    double ratio_ = 0;
    std::vector<std::string> wrong_things_;
};

//! The first seed that makes a flood of this kind.
flood flood_of_saves()
{
    for (std::uint64_t seed = 1;; ++seed)
        if (const flood made(seed); made.what == flood::kind::saves && made.runs_handlers)
            return made;
}

class overload_attack final : public attack {
public:
    std::string_view name() const override { return "overload"; }
    std::string_view promise() const override { return "memory is bounded under overload"; }
    std::string_view unit() const override { return "operations offered"; }
    std::uint64_t full_size() const override { return 1'000'000; }
    std::uint64_t small_size() const override { return 100'000; }

    void check_harness(report& to) override
    {
        mistakes wide;
        wide.bounds_factor = excess_factor;
        to.self_check("a store that admits ten times what it should",
                      !overload(flood_of_saves(), wide).run().empty());
        mistakes hoarding;
        hoarding.keeps_everything = true;
        to.self_check("a store that keeps what has ended",
                      !overload(flood_of_saves(), hoarding).run().empty());
    }

    void round(std::uint64_t seed, report& to) override
    {
        const flood wanted(seed);
        const auto before = bytes_in_use();
        {
            overload one(wanted, {});
            for (const auto& text : one.run())
                to.violation(text);
            to.attacked(wanted.offered());
            worst_ = std::max(worst_, one.ratio());
        }
        if (bytes_in_use() > before + residue)
            to.violation(wanted.describe() + ": the store is gone, and " +
                         std::to_string(bytes_in_use() - before) + " bytes are left");
    }

    void finish(report& to) override
    {
        std::ostringstream text;
        text << "at most " << std::fixed << std::setprecision(2) << worst_ << " × the bound";
        to.note(text.str());
    }

private:
    double worst_ = 0;
};

} // namespace

std::unique_ptr<attack> make_overload_attack()
{
    return std::make_unique<overload_attack>();
}

} // namespace waymark::faults
