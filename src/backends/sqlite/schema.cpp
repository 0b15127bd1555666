#include "schema.hpp"

#include "../../values/text.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <sqlite3.h>
#include <thread>

namespace waymark::sqlite {

namespace {

// Each entry takes the format of its index to the next one. Entries are never changed once released.
constexpr std::array<const char*, format_version> migrations = {
    // Rows are appended in the order in which they arrive, and found through indices: that writes the fewest
    // pages when many agents save. `bytes` and `count` stand in indices, so that sizes can be summed up
    // without reading bodies.
    R"(
    CREATE TABLE agents (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT UNIQUE,
        last_sequence INTEGER NOT NULL,
        next_message INTEGER NOT NULL,
        next_object INTEGER NOT NULL,
        scopes INTEGER NOT NULL,
        sweeps INTEGER NOT NULL,
        changes INTEGER NOT NULL,
        has_garbage INTEGER NOT NULL,
        checksum BLOB NOT NULL);
    CREATE TABLE scopes (
        agent INTEGER NOT NULL,
        scope TEXT NOT NULL,
        checkpoints INTEGER NOT NULL,
        head INTEGER NOT NULL,
        steps INTEGER NOT NULL,
        checksum BLOB NOT NULL,
        PRIMARY KEY (agent, scope)) WITHOUT ROWID;
    CREATE TABLE checkpoints (
        row INTEGER PRIMARY KEY,
        agent INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        scope TEXT NOT NULL,
        id TEXT NOT NULL,
        parent TEXT,
        name TEXT NOT NULL,
        iteration INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        metadata TEXT NOT NULL,
        chain BLOB NOT NULL,
        body BLOB NOT NULL,
        pinned INTEGER NOT NULL,
        stored_bytes INTEGER NOT NULL,
        checksum BLOB NOT NULL);
    CREATE UNIQUE INDEX checkpoint_order ON checkpoints (agent, sequence);
    CREATE UNIQUE INDEX checkpoint_keys ON checkpoints (id, agent, scope);
    CREATE TABLE messages (
        row INTEGER PRIMARY KEY,
        agent INTEGER NOT NULL,
        first INTEGER NOT NULL,
        count INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        digests BLOB NOT NULL,
        body TEXT NOT NULL);
    CREATE UNIQUE INDEX message_numbers ON messages (agent, first, count, bytes);
    CREATE TABLE objects (
        row INTEGER PRIMARY KEY,
        agent INTEGER NOT NULL,
        number INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        hash BLOB NOT NULL,
        body BLOB NOT NULL);
    CREATE UNIQUE INDEX object_numbers ON objects (agent, number, bytes);
    CREATE INDEX object_hashes ON objects (agent, hash, number);
    CREATE TABLE steps (
        row INTEGER PRIMARY KEY,
        agent INTEGER NOT NULL,
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        checkpoint TEXT,
        made_on INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        result TEXT,
        checksum BLOB NOT NULL);
    CREATE UNIQUE INDEX step_keys ON steps (agent, scope, key);
    )",
    "ALTER TABLE checkpoints ADD COLUMN content_bytes INTEGER NOT NULL DEFAULT 0",
    R"(
    ALTER TABLE agents ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE messages ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE steps ADD COLUMN attempt TEXT NOT NULL DEFAULT '';
    CREATE INDEX pending_steps ON steps (agent, scope) WHERE result IS NULL;
    )",
    R"(
    ALTER TABLE steps ADD COLUMN failure TEXT;
    ALTER TABLE agents ADD COLUMN copied_at INTEGER;
    )",
    // A sweep asks which objects rows of messages refer to, without reading these.
    R"(
    ALTER TABLE messages ADD COLUMN parts BLOB;
    CREATE INDEX message_parts ON messages (agent, first, count, parts) WHERE parts IS NOT NULL;
    )",
};

void configure(connection& db, int option, int value)
{
    const auto code = sqlite3_db_config(db.get(), option, value, nullptr);
    if (code != SQLITE_OK)
        throw database_error(db.get(), code, "the connection could not be configured");
}

//! What a file that is no SQLite database begins with.
std::string beginning_of(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    std::string begin(16, '\0');
    file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    begin.resize(static_cast<std::size_t>(file.gcount()));
    return detail::quoted(begin);
}

[[noreturn]] void refuse(const std::string& path, const std::string& why)
{
    throw error(errc::invalid_argument, detail::quoted(path) + " " + why + "; choose another path");
}

struct identity {
    std::int64_t application = 0;
    std::int64_t format = 0;
    std::int64_t tables = 0;

    bool is_new() const noexcept { return application == 0 && format == 0 && tables == 0; }
};

//! In a transaction: another process may be making the tables at this moment.
identity identify(connection& db, const std::string& path)
{
    try {
        return {db.number("PRAGMA application_id"), db.number("PRAGMA user_version"),
                db.number("SELECT count(*) FROM sqlite_schema")};
    } catch (const database_error& failure) {
        if (failure.primary_code() == SQLITE_NOTADB)
            refuse(path, "is no SQLite database; it begins with " + beginning_of(path));
        if (failure.primary_code() == SQLITE_CORRUPT)
            throw error(errc::corrupt, detail::quoted(path) +
                                           " is damaged where it begins, and cannot be opened (" +
                                           failure.details().message() + "); restore a backup");
        throw;
    }
}

void require_ours(connection& db, const std::string& path, const identity& found)
{
    if (found.application != application_id) {
        auto names = db.text("SELECT group_concat(name, ', ') FROM (SELECT name FROM sqlite_schema "
                             "WHERE type = 'table' ORDER BY name LIMIT 5)");
        refuse(path, "is a SQLite database of another program (tables: " + detail::quoted(names) + ")");
    }
    if (found.format > format_version)
        throw error(errc::unsupported_format, detail::quoted(path) + " has format " +
                                                  std::to_string(found.format) + ", this library knows " +
                                                  std::to_string(format_version));
    const auto foreign = db.text("SELECT type || ' ' || name FROM sqlite_schema "
                                 "WHERE type NOT IN ('table', 'index') LIMIT 1");
    if (!foreign.empty())
        throw error(errc::corrupt, detail::quoted(path) + " contains the " + detail::quoted(foreign) +
                                       ", which Waymark did not make and will not run; remove it");
}

void migrate(connection& db, const std::string& path)
{
    sql_transaction work(db, "BEGIN IMMEDIATE");
    const auto found = identify(db, path); // another process may have been faster
    if (!found.is_new())
        require_ours(db, path, found);
    for (auto version = found.format; version < format_version; ++version)
        db.run(migrations[static_cast<std::size_t>(version)]);
    static_assert(application_id == 1463900493 && format_version == 5, "the statement below says so, too");
    db.run("PRAGMA application_id = 1463900493; PRAGMA user_version = 5");
    work.commit();
}

//! Changing the journal mode needs the file for itself and does not wait for it: eight processes that make
//! one database at once meet here.
template <class Action>
void until_free(const sqlite_options& options, Action action)
{
    const auto deadline = std::chrono::steady_clock::now() + options.busy_timeout();
    for (;;) {
        try {
            return action();
        } catch (const database_error& failure) {
            if (failure.primary_code() != SQLITE_BUSY || std::chrono::steady_clock::now() >= deadline)
                throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

} // namespace

std::unique_ptr<connection> connect(const std::string& path, const sqlite_options& options, role purpose)
{
    const auto flags =
        purpose == role::writer ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
    auto db = std::make_unique<connection>(path, flags);
    const auto timeout =
        std::clamp<std::int64_t>(options.busy_timeout().count(), 0, std::numeric_limits<int>::max());
    sqlite3_busy_timeout(db->get(), static_cast<int>(timeout));
    // The file is data. Nothing in it is run, and nothing but SQL changes its inner structure.
    configure(*db, SQLITE_DBCONFIG_DEFENSIVE, 1);
    configure(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0);
    configure(*db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0);
    configure(*db, SQLITE_DBCONFIG_ENABLE_VIEW, 0);
    db->run("PRAGMA cell_size_check = ON");
    db->run("PRAGMA temp_store = MEMORY");
    return db;
}

void prepare_schema(connection& db, const std::string& path, const sqlite_options& options)
{
    until_free(options, [&] {
        identity found;
        {
            sql_transaction view(db, "BEGIN");
            found = identify(db, path);
            if (!found.is_new())
                require_ours(db, path, found);
            view.commit();
        }
        if (found.is_new()) // both count only for a file without content
            db.run(("PRAGMA page_size = " + std::to_string(new_page_bytes) +
                    "; PRAGMA auto_vacuum = INCREMENTAL")
                       .c_str());
        const auto mode = db.text("PRAGMA journal_mode = WAL");
        if (mode != "wal" && mode != "memory")
            throw error(errc::io, detail::quoted(path) + " cannot use a write-ahead log here (mode " +
                                      detail::quoted(mode) + "); put it on a local file system");
        db.run(options.durability() == durability::full ? "PRAGMA synchronous = FULL"
                                                        : "PRAGMA synchronous = NORMAL");
        db.run(options.secure_erase() ? "PRAGMA secure_delete = ON" : "PRAGMA secure_delete = OFF");
        // Checkpoints of the log are run on a thread of their own, where their errors are seen.
        db.run("PRAGMA wal_autocheckpoint = 0");
        if (found.is_new() || found.format < format_version)
            migrate(db, path);
    });
}

} // namespace waymark::sqlite
