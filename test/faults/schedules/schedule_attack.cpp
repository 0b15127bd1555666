//! Random lives of an async_store and a session: operations of every kind, begun in every way, and at each
//! moment something that disturbs them.
#include "attack.hpp"
#include "schedule_operations.hpp"

#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <iomanip>
#include <mutex>
#include <sstream>

namespace waymark::faults {

namespace {

using namespace schedules;

constexpr std::uint64_t schedules_per_round = 50;
constexpr std::uint64_t schedules_per_database = 40; // one on SQLite takes as long as several in memory

//! An operation that breaks a promise on purpose, begun and booked like any other.
template <class Break>
bool notices(Break do_wrong)
{
    asio::io_context io;
    operation_ledger ledger;
    memory_store empty;
    const auto broken = std::make_shared<operation>();
    broken->what = "a broken operation";
    broken->executor = 1;
    const asio::any_io_executor where = test::tracking_executor(io.get_executor(), 1);
    std::shared_ptr<handler> leaked;
    {
        ledger.start(broken);
        const starting now(*broken);
        do_wrong(std::make_shared<handler>(ledger, broken), where, leaked);
    }
    io.run();
    const auto found = ledger.verdict(empty);
    return !found.empty();
}

using shared_handler = std::shared_ptr<handler>;

void call_twice(shared_handler called, const asio::any_io_executor& where, shared_handler&)
{
    asio::post(where, [called] { (*called)(std::error_code()); });
    asio::post(where, [called] { (*called)(std::error_code()); });
}
void drop(shared_handler, const asio::any_io_executor&, shared_handler&) {}
void call_inline(shared_handler called, const asio::any_io_executor& where, shared_handler&)
{
    asio::post(where, [] {});
    const int before = std::exchange(test::tracking_executor::current(), 1); // as if it were the right place
    (*called)(std::error_code());
    test::tracking_executor::current() = before;
}
void leak(shared_handler called, const asio::any_io_executor& where, shared_handler& leaked)
{
    leaked = called;
    asio::post(where, [called] { (*called)(std::error_code()); });
}
void call_elsewhere(shared_handler called, const asio::any_io_executor& where, shared_handler&)
{
    asio::post(where, [called] {
        const int before = std::exchange(test::tracking_executor::current(), 2);
        (*called)(std::error_code());
        test::tracking_executor::current() = before;
    });
}
//! After a cancellation that was to wait for the outcome.
void leave_unasked(shared_handler called, const asio::any_io_executor& where, shared_handler&)
{
    asio::post(where, [called] { (*called)(make_error_code(errc::outcome_unknown)); });
}
void give_no_reason(shared_handler called, const asio::any_io_executor& where, shared_handler&)
{
    asio::post(where, [called] { (*called)(std::error_code(asio::error::operation_aborted)); });
}

//! Says that it has saved and has not.
class lying_store final : public test::forwarding_store {
public:
    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        return std::vector<save_outcome>(batch.size(), save_result(1, 1));
    }
};

//! Says that it has not saved and has.
class denying_store final : public test::forwarding_store {
public:
    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        forwarding_store::save(batch);
        return std::vector<save_outcome>(batch.size(), error(errc::conflict, "refused"));
    }
};

//! Acknowledges every second save, and stores it behind the next one, or when someone looks.
class disorderly_store final : public test::forwarding_store {
public:
    using store::load;
    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        const std::lock_guard lock(mutex_);
        if (held_back_.empty()) {
            held_back_.assign(batch.begin(), batch.end());
            return std::vector<save_outcome>(batch.size(), save_result(1, 1));
        }
        auto outcomes = forwarding_store::save(batch);
        store_the_rest();
        return outcomes;
    }
    std::optional<checkpoint> load(std::string_view agent, std::string_view scope,
                                   std::string_view id) override
    {
        const std::lock_guard lock(mutex_);
        store_the_rest();
        return forwarding_store::load(agent, scope, id);
    }

private:
    void store_the_rest()
    {
        if (!held_back_.empty())
            forwarding_store::save(std::exchange(held_back_, {}));
    }

    std::mutex mutex_;
    std::vector<save_request> held_back_; // guarded
};

//! Whether some of a few schedules show what is wrong with the store.
template <class Store>
bool schedules_notice()
{
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
        if (!life(seed, std::make_shared<Store>()).live().empty())
            return true;
    return false;
}

class schedule_attack final : public attack {
public:
    std::string_view name() const override { return "schedules"; }
    std::string_view promise() const override
    {
        return "each operation completes exactly once; nothing is touched after it is freed";
    }
    std::string_view unit() const override { return "schedules"; }
    std::uint64_t full_size() const override { return 10'000; }

    void check_harness(report& to) override
    {
        to.self_check("a handler that is called twice", notices(call_twice));
        to.self_check("a handler that is dropped", notices(drop));
        to.self_check("a handler that is called inside the initiating function", notices(call_inline));
        to.self_check("a handler that is never destroyed", notices(leak));
        to.self_check("a handler that is called on another executor", notices(call_elsewhere));
        to.self_check("an operation that is aborted without a reason", notices(give_no_reason));
        to.self_check("an operation that is left although nobody asked", notices(leave_unasked));
        to.self_check("saves that are stored in another order", schedules_notice<disorderly_store>());
        to.self_check("a save that is acknowledged and was never committed", schedules_notice<lying_store>());
        to.self_check("a save that is refused and was committed", schedules_notice<denying_store>());
    }

    void round(std::uint64_t seed, report& to) override
    {
        for (std::uint64_t i = 0; i < schedules_per_round; ++i) {
            const auto number = seed * schedules_per_round + i;
            std::shared_ptr<store> inner;
            if (number % schedules_per_database == 0)
                inner = sqlite_store::in_memory();
            else
                inner = std::make_shared<memory_store>();
            life one(number, inner);
            const auto found = one.live();
            one.add_to(seen_);
            to.attacked();
            for (const auto& text : found)
                to.violation("schedule " + std::to_string(number) + " (" + one.describe() + "): " + text);
        }
    }

    void finish(report& to) override
    {
        const auto share = [&](std::uint64_t part) {
            std::ostringstream text;
            text << std::fixed << std::setprecision(1)
                 << 100.0 * static_cast<double>(part) /
                        static_cast<double>(std::max<std::uint64_t>(1, seen_.all()))
                 << " %";
            return text.str();
        };
        to.note(std::to_string(seen_.all()) + " operations: " + share(seen_.done) + " done, " +
                share(seen_.aborted) + " aborted, " + share(seen_.overloaded) + " overloaded, " +
                share(seen_.failed) + " failed, " + share(seen_.unrun) + " destroyed unrun");
    }

private:
    tally seen_;
};

} // namespace

std::unique_ptr<attack> make_schedule_attack()
{
    return std::make_unique<schedule_attack>();
}

} // namespace waymark::faults
