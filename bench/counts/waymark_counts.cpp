//! What a small, fixed amount of work costs in things that can be counted, whatever else the machine does:
//! bytes and calls of write, SQL statements, allocations. check.py compares them with what they
//! should be, and counts instructions with callgrind.
#include "../../test/support/temporary_folder.hpp"
#include "../histories.hpp"

#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <sqlite3.h>
#include <vector>

namespace {

std::atomic<std::uint64_t> allocations = 0, statements = 0;

void* allocate(std::size_t bytes)
{
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (auto* const memory = std::malloc(bytes == 0 ? 1 : bytes)) // NOLINT(cppcoreguidelines-no-malloc)
        return memory;
    throw std::bad_alloc();
}

} // namespace

void* operator new(std::size_t bytes)
{
    return allocate(bytes);
}

void operator delete(void* memory) noexcept
{
    std::free(memory); // NOLINT(cppcoreguidelines-no-malloc)
}

void operator delete(void* memory, std::size_t) noexcept
{
    std::free(memory); // NOLINT(cppcoreguidelines-no-malloc)
}

namespace waymark::bench {

namespace {

//! Connections that are opened from now on count what they run.
void count_statements()
{
    const auto trace_new_connection = [](sqlite3* db, char**, const sqlite3_api_routines*) -> int {
        return sqlite3_trace_v2(
            db, SQLITE_TRACE_STMT,
            [](unsigned, void*, void*, void*) -> int {
                statements.fetch_add(1, std::memory_order_relaxed);
                return 0;
            },
            nullptr);
    };
    int (*const callback)(sqlite3*, char**, const sqlite3_api_routines*) = trace_new_connection;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(callback));
}

//! What the system has counted for this process.
std::uint64_t of_process(const std::string& wanted)
{
    std::ifstream file("/proc/self/io");
    std::string name;
    for (std::uint64_t value = 0; file >> name >> value;)
        if (name == wanted + ":")
            return value;
    throw std::runtime_error("/proc/self/io does not tell " + wanted);
}

class counter {
public:
    void print(const std::string& what, double operations)
    {
        boost::json::object result = {{"what", what}};
        for (const auto& [name, before] : before_)
            result[name] = static_cast<double>(now(name) - before) / operations;
        std::printf("%s\n", boost::json::serialize(result).c_str());
    }

private:
    static std::uint64_t now(const std::string& name)
    {
        if (name == "allocations")
            return allocations;
        if (name == "statements")
            return statements;
        return of_process(name == "bytes_written" ? "wchar" : "syscw");
    }

    std::map<std::string, std::uint64_t> before_ = {{"allocations", now("allocations")},
                                                    {"statements", now("statements")},
                                                    {"bytes_written", now("bytes_written")},
                                                    {"writes", now("writes")}};
};

constexpr int turns = 200, loads = 20, agents = 64;

// Not inlined: callgrind counts what happens inside of them.

[[gnu::noinline]] void measured_saves(store& to, const std::vector<checkpoint>& history)
{
    for (const auto& next : history)
        to.save(next);
}

[[gnu::noinline]] void measured_batches(store& to, std::span<const save_request> batch)
{
    for (const auto& outcome : to.save(batch))
        if (outcome.code())
            throw std::system_error(outcome.code());
}

[[gnu::noinline]] void measured_loads(store& from, const std::string& agent)
{
    for (int i = 0; i < loads; ++i)
        if (from.load_latest(agent)->conversation().size() != 2 * turns)
            throw std::runtime_error("a load is not complete");
}

void run(const std::string& name, const std::function<std::shared_ptr<store>()>& open)
{
    texts source;
    growing_agent agent("planner", source);
    std::vector<checkpoint> history;
    for (int turn = 0; turn < turns; ++turn)
        history.push_back(agent.next());
    std::vector<save_request> batch;
    for (int i = 0; i < agents; ++i)
        batch.emplace_back(growing_agent("agent-" + std::to_string(i), source).next());

    auto backend = open();
    counter saves;
    measured_saves(*backend, history);
    saves.print(name + ", a save", turns);
    counter batches;
    measured_batches(*backend, batch);
    batches.print(name + ", a save of 64 in a batch", agents);
    counter reads;
    measured_loads(*backend, "planner");
    reads.print(name + ", a load of 400 messages", loads);
}

} // namespace

} // namespace waymark::bench

int main()
try {
    using namespace waymark;
    bench::count_statements();
    const test::temporary_folder folder;
    bench::run("memory", [] { return std::make_shared<memory_store>(); });
    bench::run("sqlite", [&] { return std::make_shared<sqlite_store>(folder.path() / "counts.db"); });
    return 0;
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
