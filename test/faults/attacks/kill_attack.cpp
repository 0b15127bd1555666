//! Processes that write are killed at any moment; others go on with what they left.
#include "attack.hpp"
#include "fast_folder.hpp"
#include "ledger.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

namespace waymark::faults {

namespace {

//! Writers in one store, whose lines go into one ledger.
class crowd {
public:
    crowd(store_kind kind, const std::filesystem::path& folder, flaw broken = flaw::none)
        : kind_(kind), folder_(folder), broken_(broken)
    {
    }

    //! Starts writers, and kills after some of their lines whoever spoke last. To files only one of them can
    //! write; the next one takes over when it is dead.
    void live_and_die(std::size_t processes, std::mt19937_64& random)
    {
        std::vector<test::child_process> running;
        std::vector<std::jthread> listeners;
        for (std::size_t i = 0; i < processes; ++i)
            running.push_back(writer_process{.kind = kind_,
                                             .folder = folder_,
                                             .agent_id = "agent-" + std::to_string(i),
                                             .seed = random(),
                                             .broken = broken_}
                                  .start());
        for (std::size_t i = 0; i < processes; ++i)
            listeners.emplace_back([&, i] { listen(running[i], i); });
        for (std::size_t left = processes; left > 0; --left) {
            const auto victim = wait_for_lines(1 + random() % 40);
            running[victim].kill();
            listeners[victim].join(); // it has heard what was said before
        }
    }

    std::vector<std::string> check() const
    {
        auto wrong = notes_.check(*open_store(kind_, folder_));
        wrong.insert(wrong.end(), failures_.begin(), failures_.end());
        return wrong;
    }
    std::size_t acknowledged() const noexcept { return notes_.acknowledged(); }

private:
    void listen(test::child_process& to, std::size_t number)
    {
        for (std::string line; to.read_line(line);) {
            const std::lock_guard lock(mutex_);
            if (line.starts_with(failed))
                failures_.push_back(line);
            else if (line != "open")
                notes_.add(ledger_entry::from_line(line));
            ++lines_;
            last_to_speak_ = number;
            spoken_.notify_one();
        }
        const std::lock_guard lock(mutex_);
        if (last_to_speak_ == number)
            last_to_speak_.reset();
    }

    //! Who spoke last, of those that are alive, when so many more lines have come.
    std::size_t wait_for_lines(std::size_t more)
    {
        std::unique_lock lock(mutex_);
        const auto enough = lines_ + more;
        const auto patience = std::chrono::minutes(1);
        if (!spoken_.wait_for(lock, patience, [&] { return lines_ >= enough && last_to_speak_; }))
            throw std::runtime_error("the writers have nothing to say for a minute");
        return *last_to_speak_;
    }

    store_kind kind_;
    std::filesystem::path folder_;
    flaw broken_;
    std::mutex mutex_;
    std::condition_variable spoken_;
    ledger notes_; // guarded by mutex_, as is what follows
    std::vector<std::string> failures_;
    std::size_t lines_ = 0;
    std::optional<std::size_t> last_to_speak_;
};

class kill_attack final : public attack {
public:
    std::string_view name() const override { return "kill"; }
    std::string_view promise() const override { return "an acknowledged save survives a killed process"; }
    std::string_view unit() const override { return "kills"; }
    std::uint64_t full_size() const override { return 500; }
    std::uint64_t small_size() const override { return 50; }

    void check_harness(report& to) override
    {
        for (const auto kind : both_kinds) {
            const test::temporary_folder folder(fast_folder());
            crowd writers(kind, folder.path(), flaw::acknowledges_early);
            std::mt19937_64 random(1);
            bool noticed = false;
            for (int round = 0; round < 10 && !noticed; ++round) {
                writers.live_and_die(1, random);
                noticed = !writers.check().empty();
            }
            to.self_check(name_of(kind) + " behind a committer that acknowledges before it commits", noticed);
        }
    }

    //! Five generations in one store.
    void round(std::uint64_t seed, report& to) override
    {
        std::mt19937_64 random(seed);
        const auto kind = both_kinds[seed % 2];
        const std::size_t processes = seed / 2 % 2 == 0 ? 1 : 4;
        const test::temporary_folder folder(fast_folder());
        crowd writers(kind, folder.path());
        for (int generation = 0; generation < 5; ++generation) {
            writers.live_and_die(processes, random);
            to.attacked(processes);
            for (const auto& wrong : writers.check())
                to.violation(name_of(kind) + ", " + std::to_string(processes) + " processes: " + wrong);
        }
        acknowledged_ += writers.acknowledged();
    }

    void finish(report& to) override { to.note(std::to_string(acknowledged_) + " acknowledged changes"); }

private:
    std::size_t acknowledged_ = 0;
};

} // namespace

std::unique_ptr<attack> make_kill_attack()
{
    return std::make_unique<kill_attack>();
}

} // namespace waymark::faults
