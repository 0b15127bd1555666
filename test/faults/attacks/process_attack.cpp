//! Four processes save, list, load, prune and verify on one SQLite file.
#include "attack.hpp"
#include "fast_folder.hpp"
#include "ledger.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <thread>

namespace waymark::faults {

namespace {

constexpr std::size_t processes = 4;
constexpr std::uint64_t operations_each = 500;

//! Runs all to their end. Returns what is wrong.
std::vector<std::string> run_together(std::uint64_t seed, std::uint64_t operations, flaw of_the_first)
{
    const test::temporary_folder folder(fast_folder());
    std::vector<std::vector<std::string>> lines(processes);
    std::vector<int> results(processes);
    {
        std::vector<std::jthread> listeners;
        for (std::size_t i = 0; i < processes; ++i)
            listeners.emplace_back([&, i] {
                auto process = mixed_process{.folder = folder.path(),
                                             .agent_id = "agent-" + std::to_string(i),
                                             .seed = seed * processes + i,
                                             .operations = operations,
                                             .broken = i == 0 ? of_the_first : flaw::none}
                                   .start();
                for (std::string line; process.read_line(line);)
                    lines[i].push_back(line);
                results[i] = process.wait();
            });
    }
    const auto opened = open_store(store_kind::sqlite, folder.path());
    ledger notes;
    std::vector<std::string> wrong;
    for (std::size_t i = 0; i < processes; ++i) {
        for (const auto& line : lines[i])
            if (line.starts_with(failed))
                wrong.push_back(line);
            else if (line != "open")
                notes.add(ledger_entry::from_line(line));
        if (results[i] != 0 && wrong.empty())
            wrong.push_back("a process ended with " + std::to_string(results[i]));
    }
    // What all of them saved for one agent is in no ledger: it is here that it has to be whole.
    for (const auto& header : opened->list(query("shared")))
        notes.add({.what = ledger_entry::kind::trying,
                   .key = header.key(),
                   .content = content_of(opened->load("shared", "", header.id()).value())});
    const auto found = notes.check(*opened);
    wrong.insert(wrong.end(), found.begin(), found.end());
    return wrong;
}

class process_attack final : public attack {
public:
    std::string_view name() const override { return "processes"; }
    std::string_view promise() const override { return "many processes share one SQLite file"; }
    std::string_view unit() const override { return "operations"; }
    std::uint64_t full_size() const override { return 40'000; }
    std::uint64_t small_size() const override { return 4'000; }

    void check_harness(report& to) override
    {
        to.self_check("one process of four that acknowledges before it commits",
                      !run_together(1, 60, flaw::acknowledges_early).empty());
    }

    void round(std::uint64_t seed, report& to) override
    {
        to.attacked(processes * operations_each);
        for (const auto& wrong : run_together(seed, operations_each, flaw::none))
            to.violation(wrong);
    }
};

} // namespace

std::unique_ptr<attack> make_process_attack()
{
    return std::make_unique<process_attack>();
}

} // namespace waymark::faults
