#include "sqlite_probe.hpp"

#include <atomic>
#include <sqlite3.h>
#include <stdexcept>

namespace waymark::test {

other_connection::other_connection(const std::filesystem::path& file)
{
    if (sqlite3_open(file.c_str(), &db_) != SQLITE_OK)
        throw std::runtime_error("the probe cannot open " + file.native());
}

other_connection::~other_connection()
{
    sqlite3_close(db_);
}

std::vector<std::string> other_connection::run(const std::string& sql)
{
    std::vector<std::string> rows;
    const auto add = [](void* to, int, char** values, char**) {
        static_cast<std::vector<std::string>*>(to)->emplace_back(values[0] == nullptr ? "" : values[0]);
        return 0;
    };
    if (sqlite3_exec(db_, sql.c_str(), add, &rows, nullptr) != SQLITE_OK)
        throw std::runtime_error(sql + ": " + sqlite3_errmsg(db_));
    return rows;
}

void copy_database(const std::filesystem::path& from, const std::filesystem::path& to)
{
    sqlite3* both[2] = {};
    for (int i = 0; i < 2; ++i) {
        sqlite3_open((i == 0 ? from : to).c_str(), &both[i]);
        sqlite3_busy_timeout(both[i], 10'000);
    }
    auto* const copying = sqlite3_backup_init(both[1], "main", both[0], "main");
    auto code = copying == nullptr ? sqlite3_errcode(both[1]) : SQLITE_OK;
    while (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED)
        code = sqlite3_backup_step(copying, -1);
    sqlite3_backup_finish(copying);
    for (auto* each : both)
        sqlite3_close(each);
    if (code != SQLITE_DONE)
        throw std::runtime_error("the probe cannot copy " + from.native() + ": " + sqlite3_errstr(code));
}

// statement_counter

namespace {

std::atomic<int> statements = 0;
std::atomic<int> longest = 0;

int count_statement(unsigned, void*, void*, void*)
{
    ++statements;
    return 0;
}

int prepare_connection(sqlite3* db, char**, const sqlite3_api_routines*)
{
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_statement, nullptr);
    if (longest != 0)
        sqlite3_limit(db, SQLITE_LIMIT_LENGTH, longest);
    return SQLITE_OK;
}

} // namespace

statement_counter::statement_counter(int longest_value)
{
    longest = longest_value;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(prepare_connection));
}

statement_counter::~statement_counter()
{
    sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(prepare_connection));
}

int statement_counter::take()
{
    return statements.exchange(0);
}

// failing_files: a layer over SQLite's own files

namespace {

std::atomic<bool> syncs_fail = false;
std::atomic<bool> disk_is_full = false;
std::atomic<int> syncs = 0;

sqlite3_vfs layer;
sqlite3_vfs* below = nullptr;

//! Ours, with the file of the layer below behind it.
struct layered_file {
    sqlite3_file base;
    sqlite3_file* inner() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* inner(sqlite3_file* file)
{
    return reinterpret_cast<layered_file*>(file)->inner();
}

int sync(sqlite3_file* file, int flags)
{
    ++syncs;
    return syncs_fail ? SQLITE_IOERR_FSYNC : inner(file)->pMethods->xSync(inner(file), flags);
}

int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset)
{
    return disk_is_full ? SQLITE_FULL : inner(file)->pMethods->xWrite(inner(file), bytes, count, offset);
}

// Everything else is passed on.
#define PASS_ON(name, parameters, arguments) [] parameters { return inner(file)->pMethods->name arguments; }

const sqlite3_io_methods methods = {
    3,
    PASS_ON(xClose, (sqlite3_file * file), (inner(file))),
    PASS_ON(xRead, (sqlite3_file * file, void* to, int count, sqlite3_int64 at),
            (inner(file), to, count, at)),
    write,
    PASS_ON(xTruncate, (sqlite3_file * file, sqlite3_int64 size), (inner(file), size)),
    sync,
    PASS_ON(xFileSize, (sqlite3_file * file, sqlite3_int64* size), (inner(file), size)),
    PASS_ON(xLock, (sqlite3_file * file, int level), (inner(file), level)),
    PASS_ON(xUnlock, (sqlite3_file * file, int level), (inner(file), level)),
    PASS_ON(xCheckReservedLock, (sqlite3_file * file, int* result), (inner(file), result)),
    PASS_ON(xFileControl, (sqlite3_file * file, int what, void* argument), (inner(file), what, argument)),
    PASS_ON(xSectorSize, (sqlite3_file * file), (inner(file))),
    PASS_ON(xDeviceCharacteristics, (sqlite3_file * file), (inner(file))),
    PASS_ON(xShmMap, (sqlite3_file * file, int page, int size, int extend, void volatile** to),
            (inner(file), page, size, extend, to)),
    PASS_ON(xShmLock, (sqlite3_file * file, int offset, int count, int flags),
            (inner(file), offset, count, flags)),
    PASS_ON(xShmBarrier, (sqlite3_file * file), (inner(file))),
    PASS_ON(xShmUnmap, (sqlite3_file * file, int remove), (inner(file), remove)),
    PASS_ON(xFetch, (sqlite3_file * file, sqlite3_int64 at, int count, void** to),
            (inner(file), at, count, to)),
    PASS_ON(xUnfetch, (sqlite3_file * file, sqlite3_int64 at, void* from), (inner(file), at, from)),
};

int open_layered(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* result)
{
    file->pMethods = nullptr;
    const auto code = below->xOpen(below, name, inner(file), flags, result);
    if (inner(file)->pMethods != nullptr)
        file->pMethods = &methods;
    return code;
}

} // namespace

failing_files::failing_files()
{
    if (below == nullptr) {
        below = sqlite3_vfs_find(nullptr);
        layer = *below;
        layer.zName = "waymark-test";
        layer.szOsFile = below->szOsFile + static_cast<int>(sizeof(layered_file));
        layer.xOpen = open_layered;
    }
    syncs_fail = disk_is_full = false;
    syncs = 0;
    sqlite3_vfs_register(&layer, 1);
}

failing_files::~failing_files()
{
    syncs_fail = disk_is_full = false;
    sqlite3_vfs_register(below, 1);
}

void failing_files::fail_syncs(bool fail)
{
    syncs_fail = fail;
}

void failing_files::fail_writes_as_full(bool fail)
{
    disk_is_full = fail;
}

int failing_files::take_syncs()
{
    return syncs.exchange(0);
}

} // namespace waymark::test
