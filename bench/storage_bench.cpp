//! What SQLite with full durability costs: bytes on disk, CPU time a save, saves a commit. Every figure is a
//! size, a count or a ratio within one run.
#include "../test/support/temporary_folder.hpp"
#include "fleet.hpp"

#include <waymark/sqlite_store.hpp>

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <sqlite3.h>
#include <stdexcept>
#include <vector>

using namespace waymark;
using bench::median;
using bench::wall_seconds;
namespace fs = std::filesystem;

namespace {

std::uint64_t bytes_of(const fs::path& database)
{
    std::uint64_t sum = 0;
    for (const auto* companion : {"", "-wal"})
        if (fs::exists(database.native() + companion))
            sum += fs::file_size(database.native() + companion);
    return sum;
}

double cpu_seconds()
{
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

//! The JSON of what a checkpoint adds: its two newest messages, its state where there is one.
std::uint64_t message_bytes(const checkpoint& saved, std::size_t newest)
{
    std::uint64_t sum = 0;
    const auto& chat = saved.conversation();
    for (auto i = chat.size() - newest; i < chat.size(); ++i)
        sum += boost::json::serialize(boost::json::value_from(chat[i])).size();
    return sum;
}

void run_growth(const fs::path& parent)
{
    const test::temporary_folder folder(parent);
    const auto file = folder.path() / "growth.db";
    bench::growth agent("planner");
    std::uint64_t payload = 0;
    std::vector<double> cpu;
    for (const int turns : {1'000, 5'000}) {
        {
            sqlite_store store(file);
            while (static_cast<int>(cpu.size()) < turns) {
                const auto next = agent.next();
                payload += message_bytes(next, 2);
                const auto begin = cpu_seconds();
                store.save(next);
                cpu.push_back(cpu_seconds() - begin);
            }
        }
        std::printf("growth, %d turns : %.2f x the payload on disk (%.1f of %.1f MB)\n", turns,
                    static_cast<double>(bytes_of(file)) / static_cast<double>(payload),
                    static_cast<double>(bytes_of(file)) / 1e6, static_cast<double>(payload) / 1e6);
    }
    const auto first = median({cpu.begin(), cpu.begin() + 500});
    const auto last = median({cpu.end() - 500, cpu.end()});
    std::printf("growth, CPU a save  : %.0f us in the first tenth, %.0f us in the last: %.2f x\n",
                first * 1e6, last * 1e6, last / first);
}

void run_heavy(const fs::path& parent)
{
    const test::temporary_folder folder(parent);
    const auto file = folder.path() / "heavy.db";
    bench::heavy agent("coder");
    checkpoint last("coder");
    {
        sqlite_store store(file);
        for (int turn = 0; turn < 200; ++turn)
            store.save(last = agent.next());
        if (store.load_latest("coder") != last)
            throw std::runtime_error("what was saved is not what is loaded");
    }
    std::printf("heavy, 200 turns    : %.1f MB on disk\n", static_cast<double>(bytes_of(file)) / 1e6);
}

void check(int code, sqlite3* db)
{
    if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW)
        throw std::runtime_error(sqlite3_errmsg(db));
}

//! The rows of a table, ready to be inserted again.
struct copied_rows {
    copied_rows(sqlite3* from, sqlite3* to, const std::string& table)
    {
        sqlite3_stmt* read = nullptr;
        check(sqlite3_prepare_v2(from, ("SELECT * FROM " + table + " ORDER BY row").c_str(), -1, &read,
                                 nullptr),
              from);
        const int columns = sqlite3_column_count(read);
        while (sqlite3_step(read) == SQLITE_ROW) {
            rows.emplace_back();
            for (int i = 0; i < columns; ++i)
                rows.back().push_back(sqlite3_value_dup(sqlite3_column_value(read, i)));
        }
        sqlite3_finalize(read);
        std::string places = "?";
        for (int i = 1; i < columns; ++i)
            places += ", ?";
        check(sqlite3_prepare_v2(to, ("INSERT INTO " + table + " VALUES (" + places + ")").c_str(), -1,
                                 &insert, nullptr),
              to);
    }
    copied_rows(const copied_rows&) = delete;
    ~copied_rows()
    {
        for (auto& row : rows)
            for (auto* value : row)
                sqlite3_value_free(value);
        sqlite3_finalize(insert);
    }

    void insert_row(std::size_t index, sqlite3* to)
    {
        int place = 0;
        for (auto* value : rows.at(index))
            check(sqlite3_bind_value(insert, ++place, value), to);
        check(sqlite3_step(insert), to);
        check(sqlite3_reset(insert), to);
    }

    std::vector<std::vector<sqlite3_value*>> rows;
    sqlite3_stmt* insert = nullptr;
};

//! A bare program that inserts the rows which the fleet left, 64 saves a transaction, synced.
double run_bare(const fs::path& original, const fs::path& file)
{
    sqlite3* from = nullptr;
    sqlite3* to = nullptr;
    check(sqlite3_open(original.c_str(), &from), from);
    check(sqlite3_open(file.c_str(), &to), to);
    const auto run = [&](const std::string& sql) {
        check(sqlite3_exec(to, sql.c_str(), nullptr, nullptr, nullptr), to);
    };
    run("PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; "
        "PRAGMA synchronous = FULL");
    sqlite3_stmt* schema = nullptr;
    check(sqlite3_prepare_v2(from,
                             "SELECT sql FROM sqlite_schema WHERE tbl_name IN ('messages', 'checkpoints') "
                             "AND sql IS NOT NULL ORDER BY type = 'index'",
                             -1, &schema, nullptr),
          from);
    while (sqlite3_step(schema) == SQLITE_ROW)
        run(reinterpret_cast<const char*>(sqlite3_column_text(schema, 0)));
    sqlite3_finalize(schema);
    double seconds = 0;
    std::size_t saves = 0;
    {
        copied_rows messages(from, to, "messages"), checkpoints(from, to, "checkpoints");
        saves = checkpoints.rows.size();
        const auto begin = wall_seconds();
        for (std::size_t i = 0; i < saves; ++i) {
            if (i % 64 == 0)
                run("BEGIN IMMEDIATE");
            messages.insert_row(i, to);
            checkpoints.insert_row(i, to);
            if (i % 64 == 63)
                run("COMMIT");
        }
        if (sqlite3_get_autocommit(to) == 0)
            run("COMMIT");
        seconds = wall_seconds() - begin;
    }
    sqlite3_close(from);
    sqlite3_close(to);
    return static_cast<double>(saves) / seconds;
}

void run_in_flight(const fs::path& parent)
{
    std::vector<double> ratios, per_commit, speeds;
    for (int round = 0; round < 5; ++round) {
        const test::temporary_folder folder(parent);
        const auto ours =
            bench::run_fleet(std::make_shared<sqlite_store>(folder.path() / "fleet.db"), "agent", 64, 100);
        const auto bare = run_bare(folder.path() / "fleet.db", folder.path() / "bare.db");
        ratios.push_back(ours.saves_per_second / bare);
        per_commit.push_back(ours.saves_per_commit);
        speeds.push_back(ours.saves_per_second);
    }
    std::printf(
        "64 in flight        : %.0f saves a commit, %.0f saves a second, %.2f x bare SQLite (medians of 5)\n",
        median(per_commit), median(speeds), median(ratios));
}

} // namespace

int main(int argc, char** argv)
try {
    // A folder on the disk to be measured, and which part to run.
    const fs::path parent = argc > 1 ? fs::path(argv[1]) : fs::temp_directory_path();
    const std::string part = argc > 2 ? argv[2] : "all";
    if (part == "all" || part == "growth")
        run_growth(parent);
    if (part == "all" || part == "heavy")
        run_heavy(parent);
    if (part == "all" || part == "in-flight")
        run_in_flight(parent);
    return 0;
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
