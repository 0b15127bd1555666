//! torture [--only NAME] [--minutes N | --size small|full] [--seed S] [--list]: attacks the promises of the
//! library and prints a table of what was done and found. scripts/torture builds and runs it.
#include "attack.hpp"
#include "worker.hpp"

#ifdef WAYMARK_FAULTS_INTERPOSED
#include "allocations.hpp"
#endif

#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <unistd.h>

namespace waymark::faults {

void report::violation(const std::string& text)
{
    ++violations_;
    on_violation_(text);
}

void report::self_check(const std::string& broken, bool noticed)
{
    ++checks_;
    if (noticed)
        ++caught_;
    else
        violation("the harness did not notice " + broken);
}

namespace {

using seconds = std::chrono::duration<double>;
using clock = std::chrono::steady_clock;

struct arguments {
    std::optional<std::string> only;
    std::optional<double> minutes;
    bool small = false;
    std::optional<std::uint64_t> seed;
    bool list = false;
};

constexpr const char* usage = "torture [--only NAME] [--minutes N | --size small|full] [--seed S] [--list]\n";

arguments parse(const std::vector<std::string>& words)
{
    arguments result;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto value = [&]() -> const std::string& {
            if (i + 1 == words.size())
                throw std::invalid_argument(words[i] + " needs a value");
            return words[++i];
        };
        const auto& word = words[i];
        if (word == "--list")
            result.list = true;
        else if (word == "--only")
            result.only = value();
        else if (word == "--minutes")
            result.minutes = std::stod(value());
        else if (word == "--size") {
            const auto& size = value();
            if (size != "small" && size != "full")
                throw std::invalid_argument("--size is small or full, not '" + size + "'");
            result.small = size == "small";
        } else if (word == "--seed")
            result.seed = std::stoull(value());
        else
            throw std::invalid_argument("'" + word + "' is no option");
    }
    return result;
}

//! A line that is written over where a person looks on, and is repeated now and then in a log.
class progress_line {
public:
    explicit progress_line(const attack& of) : of_(of) {}
    ~progress_line() { clear(); }

    void show(const report& found)
    {
        const auto every = std::chrono::seconds(is_terminal_ ? 1 : 30);
        if (clock::now() - last_ < every)
            return;
        last_ = clock::now();
        std::cout << (is_terminal_ ? "\r\033[K" : "") << of_.name() << ": " << found.attacks() << ' '
                  << of_.unit() << ", " << found.violations() << " violations" << (is_terminal_ ? "" : "\n")
                  << std::flush;
        is_shown_ = true;
    }
    void clear()
    {
        if (is_terminal_ && std::exchange(is_shown_, false))
            std::cout << "\r\033[K" << std::flush;
    }

private:
    const attack& of_;
    const bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
    bool is_shown_ = false;
    clock::time_point last_ = clock::now();
};

//! Runs what may throw; that is a violation as well.
template <class Action>
void guarded(report& to, const std::string& when, Action action)
{
    try {
        action();
    } catch (const not_possible_here&) {
        throw;
    } catch (const std::exception& failure) {
        to.violation(when + ": " + failure.what());
    }
}

report run(attack& chosen, const arguments& how, double seconds_each)
{
    progress_line progress(chosen);
    std::uint64_t seed = how.seed.value_or(1);
    bool checking = false;
    report found([&](const std::string& text) {
        progress.clear();
        std::cout << "VIOLATION " << chosen.name() << ": " << text << '\n';
        if (!checking)
            std::cout << "  again: scripts/torture --only " << chosen.name() << " --seed " << seed << '\n';
        std::cout << std::flush;
    });
    if (!how.seed) {
        checking = true;
        guarded(found, "a self-check", [&] { chosen.check_harness(found); });
        checking = false;
    }
    const auto start = clock::now();
    const auto enough = how.small ? chosen.small_size() : chosen.full_size();
    const auto goes_on = [&] {
        if (how.seed)
            return seed == *how.seed; // just the round that is to be seen again
        if (how.minutes)
            return seconds(clock::now() - start).count() < seconds_each;
        return found.attacks() < enough;
    };
    constexpr std::uint64_t most_violations = 20; // more of the same help nobody
    constexpr int most_idle_rounds = 100;         // a round may find that its way of failing does not occur
    int idle_rounds = 0;
    for (; goes_on() && found.violations() < most_violations; ++seed) {
        const auto before = found.attacks();
        guarded(found, "a round", [&] { chosen.round(seed, found); });
        idle_rounds = found.attacks() == before ? idle_rounds + 1 : 0;
        if (idle_rounds > most_idle_rounds)
            throw std::logic_error(std::string(chosen.name()) + " attacks nothing any more");
        progress.show(found);
    }
    guarded(found, "the end", [&] { chosen.finish(found); });
    return found;
}

struct line {
    std::string name, attacks, caught, violations, notes;
};

void print(const std::vector<line>& table)
{
    const auto row = [](const line& of) {
        std::cout << std::left << std::setw(17) << of.name << std::setw(32) << of.attacks << std::setw(22)
                  << of.caught << std::setw(12) << of.violations << of.notes << '\n';
    };
    row({"attack", "made", "broken stores noticed", "violations", ""});
    for (const auto& entry : table)
        row(entry);
}

std::string joined(const std::vector<std::string>& notes)
{
    std::string all;
    for (const auto& note : notes)
        all += (all.empty() ? "" : "; ") + note;
    return all;
}

int run_all(const arguments& how)
{
    auto chosen = all_attacks();
    if (how.only)
        std::erase_if(chosen, [&](const auto& one) { return one->name() != *how.only; });
    if (chosen.empty())
        throw std::invalid_argument("there is no attack '" + *how.only + "'; --list names them");
    if (how.list) {
        for (const auto& one : chosen)
            std::cout << std::left << std::setw(17) << one->name() << one->promise() << '\n';
        return 0;
    }
    const auto seconds_each = how.minutes.value_or(0) * 60 / static_cast<double>(chosen.size());
    std::vector<line> table;
    std::uint64_t violations = 0;
    for (const auto& one : chosen) {
        std::cout << one->name() << ": " << one->promise() << std::endl;
        const auto start = clock::now();
        try {
            const auto found = run(*one, how, seconds_each);
            violations += found.violations();
            table.push_back({std::string(one->name()),
                             std::to_string(found.attacks()) + " " + std::string(one->unit()),
                             std::to_string(found.caught()) + " of " + std::to_string(found.checks()),
                             std::to_string(found.violations()), joined(found.notes())});
        } catch (const not_possible_here& reason) {
            std::cout << "this test is skipped: " << one->name() << ": " << reason.what() << '\n';
            table.push_back({std::string(one->name()), "skipped", "", "", reason.what()});
        }
        std::cout << "  " << std::fixed << std::setprecision(1) << seconds(clock::now() - start).count()
                  << " s" << std::endl;
    }
    print(table);
    return violations == 0 ? 0 : 1;
}

} // namespace

std::vector<std::unique_ptr<attack>> all_attacks()
{
    std::vector<std::unique_ptr<attack>> all;
#ifdef WAYMARK_FAULTS_INTERPOSED // the thread sanitizer has its own idea of who stands before the C library
    all.push_back(make_kill_attack());
    all.push_back(make_crash_state_attack());
    all.push_back(make_power_cut_attack());
    all.push_back(make_failing_call_attack());
    all.push_back(make_scarce_memory_attack());
    all.push_back(make_full_disk_attack());
    all.push_back(make_failed_sync_attack());
    all.push_back(make_damage_attack());
    all.push_back(make_retention_attack());
    all.push_back(make_overload_attack());
    all.push_back(make_fleet_attack());
#endif
    all.push_back(make_hostile_text_attack());
    all.push_back(make_schedule_attack());
    all.push_back(make_agreement_attack());
    all.push_back(make_process_attack());
    all.push_back(make_shared_database_attack());
    all.push_back(make_reader_attack());
    return all;
}

} // namespace waymark::faults

int main(int argc, char** argv)
try {
#ifdef WAYMARK_FAULTS_INTERPOSED
    waymark::faults::count_memory_of_sqlite();
#endif
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words[0] == "--worker")
        return waymark::faults::run_worker({words.begin() + 1, words.end()});
    if (!words.empty() && words[0] == "--help") {
        std::cout << waymark::faults::usage;
        return 0;
    }
    return waymark::faults::run_all(waymark::faults::parse(words));
} catch (const std::exception& failure) {
    std::cerr << "torture: " << failure.what() << '\n' << waymark::faults::usage;
    return 2;
}
