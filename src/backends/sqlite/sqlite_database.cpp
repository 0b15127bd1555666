#include "sqlite_database.hpp"

#include "../../store/thread_name.hpp"
#include "../../values/text.hpp"
#include "schema.hpp"
#include "sqlite_tables.hpp"

#include <sqlite3.h>

namespace waymark::sqlite {

namespace fs = std::filesystem;

namespace {

// From this length on the log is written back into the file. Not before: pages that many saves change are
// written back once for all of them.
constexpr std::size_t longest_log = std::size_t{16} << 20;
// What one read needs all the time makes it longer. Beyond this its file is cut off piece by piece.
constexpr std::uint64_t longest_log_file = 2 * longest_log;
constexpr std::uint64_t log_cut = std::uint64_t{8} << 20;
// After so long without a commit the log is emptied, too.
constexpr auto idle_time = std::chrono::seconds(1);

// The file gets shorter when the log is written back, and saves wait for that: the file system takes some
// 50 ms for 200 MB.
constexpr std::uint64_t most_pages_to_cut_off = 2048;

constexpr std::size_t most_idle_readers = 8;

std::string resolve(const fs::path& path)
{
    if (path.native().empty() || path.native().find('\0') != std::string::npos)
        throw error(errc::invalid_argument, "the path of a database must not be empty or contain a NUL");
    if (path.native() == ":memory:")
        throw error(errc::invalid_argument,
                    "':memory:' is no path here; sqlite_store::in_memory() makes a store in memory, and "
                    "'./:memory:' is a file of that name");
    if (path.native().starts_with("file:"))
        throw error(errc::invalid_argument, detail::quoted(path.native()) +
                                                " is a URI, and no path; './file:…' is a file of that name");
    if (!path.has_filename())
        throw error(errc::invalid_argument, detail::quoted(path.native()) +
                                                " ends with a slash, as a folder does; name a file in it");
    // The companions of the file, its log above all, lie beside the file and not beside a link to it.
    return files::resolve(path).native();
}

//! Makes the file for its owner alone; SQLite gives its companions the same mode. SQLite must not have the
//! file open in this process when we close it: that would drop its locks.
std::mutex creation_mutex;

//! SQLite's own look at its file.
bool has_moved(connection& db)
{
    int moved = 0;
    const auto code = sqlite3_file_control(db.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return code == SQLITE_OK && moved != 0;
}

//! The log of a file that was moved or deleted holds its newest saves. SQLite would remove it when it makes
//! another file of that name.
void require_no_orphaned_log(const std::string& path)
{
    const auto log = path + "-wal";
    // In this order: a process that makes the database makes the log last.
    if (files::size_of(log) > 0 && !files::identity_of(path.c_str()))
        throw error(errc::corrupt, detail::quoted(log) +
                                       " is the log of a database that is not there any more, and "
                                       "may hold its newest saves; put the database back as " +
                                       detail::quoted(path) + ", or remove the log to begin anew");
}

} // namespace

sqlite_database::sqlite_database(const fs::path& path, const sqlite_options& options)
    : path_(path.empty() ? std::string() : resolve(path)),
      log_path_(path_ + "-wal"),
      folder_(fs::path(path_).parent_path()),
      options_(options)
{
    const auto name = is_in_memory() ? std::string(":memory:") : path_;
    {
        const std::lock_guard lock(creation_mutex);
        if (!is_in_memory()) {
            if (options_.must_exist() && !files::identity_of(path_.c_str()))
                throw error(errc::not_found,
                            detail::quoted(path_) +
                                " does not exist, and must_exist() says that it should; check "
                                "the path");
            files::make_folders(folder_);
            if (fs::is_directory(path_))
                throw error(errc::invalid_argument, detail::quoted(path_) + " is a folder; name a file");
            require_no_orphaned_log(path_);
            files::make_private_file(path_);
        }
        writer_ = connect(name, options_, role::writer);
        if (!is_in_memory()) {
            file_ = files::identity_of(path_.c_str());
            if (!file_ || has_moved(*writer_)) // so that it is the writer's, and not that of a successor
                throw error(errc::io, detail::quoted(path_) + " was deleted or replaced while it was opened");
        }
    }
    prepare_schema(*writer_, name, options_);
    page_bytes_ = static_cast<std::size_t>(writer_->number("PRAGMA page_size"));
    largest_value_ = static_cast<std::size_t>(sqlite3_limit(writer_->get(), SQLITE_LIMIT_LENGTH, -1)) - 1024;
    if (is_in_memory())
        return;
    files::sync_folder(folder_);
    settle_log();
    sqlite3_wal_hook(
        writer_->get(),
        [](void* self, sqlite3*, const char*, int pages) {
            auto& owner = *static_cast<sqlite_database*>(self);
            owner.log_bytes_ = static_cast<std::size_t>(pages) * owner.page_bytes_;
            return SQLITE_OK;
        },
        this);
    keeper_connection_ = connect(path_, options_, role::reader);
    require_usable();
    keeper_connection_->number("SELECT count(*) FROM sqlite_schema"); // it knows of the log only now
    log_ = files::identity_of(log_path_.c_str());
    sqlite3_busy_timeout(keeper_connection_->get(), 0);
    keeper_ = std::jthread([this](const std::stop_token& stop) { keep_log_short(stop); });
}

sqlite_database::~sqlite_database() = default;

//! What is in the log is visible from now on, and whoever asks may rely on it. But a process may have been
//! killed before it had synced it, or a sync may have failed, after which the system keeps what it did not
//! write and takes it for written: it would be gone with the power, and so would be every later save, since a
//! log ends where it is broken.
void sqlite_database::settle_log()
{
    if (options_.durability() != durability::full || files::size_of(log_path_) == 0)
        return;
    const sql_transaction alone(*writer_, "BEGIN IMMEDIATE"); // nobody adds to the log or begins it anew
    files::write_again(log_path_);
}

void sqlite_database::require_sound() const
{
    if (!poisoned_)
        return;
    const std::lock_guard lock(failure_mutex_);
    throw error(errc::io, "the store is out of use since " + failure_);
}

void sqlite_database::require_usable()
{
    if (!poisoned_ && !is_same_file())
        poison_as_moved();
    require_sound();
}

void sqlite_database::require_its_files()
{
    require_usable();
    if (has_its_log())
        return;
    poison(detail::quoted(log_path_) +
           " was deleted or replaced while the store was open, and with it what had not been written back");
    require_sound();
}

//! Whoever deletes the file, or puts another one in its place, leaves us with one that has no name: what we
//! write there is gone when we close it. And a connection that is opened by name meets the successor,
//! together with our log, which SQLite would take for the successor's.
//!
//! It is asked by name, and not by SQLITE_FCNTL_HAS_MOVED, which belongs to a connection and so to one
//! thread.
bool sqlite_database::is_same_file() const noexcept
{
    return is_in_memory() || files::identity_of(path_.c_str()) == file_;
}

//! SQLite makes a log when it first needs one, and removes it when the last connection is closed, which is
//! not while we have one.
bool sqlite_database::has_its_log() const noexcept
{
    return !log_ || files::identity_of(log_path_.c_str()) == log_;
}

void sqlite_database::poison_as_moved() noexcept
{
    const std::lock_guard lock(failure_mutex_);
    if (poisoned_.exchange(true))
        return;
    try {
        failure_ =
            detail::quoted(path_) +
            " was deleted, moved or replaced while the store was open; its newest saves may be in '-wal' "
            "beside it, which belongs to it: put the file back there, or move both, and open the store "
            "again";
    } catch (...) { // NOLINT(bugprone-empty-catch): out of memory; the flag is what counts
    }
    if (options_.observer())
        options_.observer()->log(log_level::error, failure_);
}

void sqlite_database::poison(const std::string& why) noexcept
{
    const std::lock_guard lock(failure_mutex_);
    if (poisoned_.exchange(true))
        return;
    try {
        failure_ = why + "; what was not written is known after it is opened again";
    } catch (...) { // NOLINT(bugprone-empty-catch): out of memory; the flag is what counts
    }
    if (options_.observer())
        options_.observer()->log(log_level::error, failure_);
}

//! On a connection of its own; in memory, on the only one, and alone.
class sqlite_database::read_transaction final : public sqlite_tables {
public:
    read_transaction(sqlite_database& owner, std::unique_ptr<connection> reader)
        : sqlite_tables(reader ? *reader : *owner.writer_, owner.page_bytes_, owner.agents_are_sound_),
          owner_(owner),
          alone_(owner.writer_mutex_, std::defer_lock),
          reader_(std::move(reader))
    {
        if (!reader_)
            alone_.lock();
        view_.emplace(db(), "BEGIN");
    }

    void commit() override
    {
        view_->commit();
        view_.reset();
        if (reader_)
            owner_.give_back(std::move(reader_)); // one that failed is not used again
    }

private:
    sqlite_database& owner_;
    std::unique_lock<fair_mutex> alone_;
    std::unique_ptr<connection> reader_;
    std::optional<sql_transaction> view_;
};

class sqlite_database::write_transaction final : public sqlite_tables {
public:
    explicit write_transaction(sqlite_database& owner)
        : sqlite_tables(*owner.writer_, owner.page_bytes_, owner.agents_are_sound_),
          owner_(owner),
          alone_(owner.writer_mutex_)
    {
        owner_.require_sound();
        begin();
        owner_.require_its_files(); // now: they may have been replaced while this waited for others
        const auto version = db().number("PRAGMA data_version");
        if (std::exchange(owner_.seen_version_, version) != version)
            owner_.last_committed_ = 0; // someone else has written since, whatever becomes of this
        set_number(++owner_.last_transaction_, owner_.last_committed_);
    }

    void commit() override
    {
        if (!db().in_transaction())
            throw error(errc::io, "SQLite has undone the transaction after an earlier error");
        owner_.commit(*work_);
        owner_.last_committed_ = owner_.last_transaction_;
        owner_.after_commit();
    }

private:
    //! Waits for other processes, which nobody but SQLite sees: without them it takes microseconds.
    void begin()
    {
        if (owner_.options_.observer() == nullptr) {
            work_.emplace(db(), "BEGIN IMMEDIATE");
            return;
        }
        constexpr auto shortest_wait = std::chrono::milliseconds(1);
        const auto start = std::chrono::steady_clock::now();
        work_.emplace(db(), "BEGIN IMMEDIATE");
        const auto took = std::chrono::steady_clock::now() - start;
        if (took >= shortest_wait)
            owner_.options_.observer()->waited_for_others(took);
    }

    sqlite_database& owner_;
    std::lock_guard<fair_mutex> alone_;
    std::optional<sql_transaction> work_;
};

std::unique_ptr<tables::transaction> sqlite_database::begin_read(tables::agent_ids /*agents*/)
{
    require_usable();
    return std::make_unique<read_transaction>(*this, is_in_memory() ? nullptr : take_reader());
}

std::unique_ptr<tables::transaction> sqlite_database::begin_write(tables::agent_ids /*agents*/)
{
    return std::make_unique<write_transaction>(*this);
}

//! Before this, everything that fails is undone. A failure in here leaves in doubt what is on the disk, but
//! for a full one: SQLite had not written the frame that makes the transaction valid.
void sqlite_database::commit(sql_transaction& work)
{
    try {
        work.commit();
    } catch (const database_error& failure) {
        if (failure.primary_code() == SQLITE_FULL || failure.primary_code() == SQLITE_BUSY)
            throw;
        poison("a commit failed (" + failure.details().message() + ")");
        throw error(errc::outcome_unknown, failure.details().message());
    }
}

void sqlite_database::after_commit()
{
    if (is_in_memory())
        return;
    // The log may have been made by this commit; SQLite does not tell when its own sync of the folder fails.
    if (!folder_is_synced_) {
        try {
            files::sync_folder(folder_);
        } catch (const error& failure) {
            poison(failure.details().message());
            throw error(errc::outcome_unknown, failure.details().message());
        }
        folder_is_synced_ = true;
    }
    const std::lock_guard lock(keeper_mutex_);
    ++commits_;
    const bool was_empty = log_state_ == log_state::empty;
    if (log_bytes_ < longest_log)
        next_write_back_ = longest_log;
    if (log_bytes_ >= next_write_back_) {
        log_state_ = log_state::long_enough;
        // If a reader still needs it: not for each commit.
        next_write_back_ = log_bytes_ + longest_log / 16;
        keeper_wakes_.notify_one();
    } else if (was_empty) {
        log_state_ = log_state::used;
        keeper_wakes_.notify_one();
    }
}

std::unique_ptr<connection> sqlite_database::take_reader()
{
    {
        const std::lock_guard lock(readers_mutex_);
        if (!idle_readers_.empty()) {
            auto reader = std::move(idle_readers_.back());
            idle_readers_.pop_back();
            return reader;
        }
    }
    auto reader = connect(path_, options_, role::reader);
    reader->run("PRAGMA query_only = ON");
    require_usable(); // nothing was read from it yet: it may have opened a successor of our file
    return reader;
}

void sqlite_database::give_back(std::unique_ptr<connection> reader)
{
    const std::lock_guard lock(readers_mutex_);
    if (idle_readers_.size() < most_idle_readers)
        idle_readers_.push_back(std::move(reader));
}

void sqlite_database::keep_log_short(const std::stop_token& stop)
{
    detail::name_this_thread("waymark-log");
    std::unique_lock lock(keeper_mutex_);
    while (keeper_wakes_.wait(lock, stop, [this] { return log_state_ != log_state::empty; })) {
        const auto seen = commits_;
        keeper_wakes_.wait_for(lock, stop, idle_time,
                               [this] { return log_state_ == log_state::long_enough; });
        if (stop.stop_requested())
            return;
        const bool is_long = log_state_ == log_state::long_enough;
        if (!is_long && seen != commits_)
            continue; // not idle
        // What is written back because the log is long is emptied later, when nothing is saved for a while.
        log_state_ = is_long ? log_state::used : log_state::empty;
        lock.unlock();
        const bool is_done = write_log_back(is_long ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE);
        lock.lock();
        if (!is_done && log_state_ == log_state::empty)
            log_state_ = log_state::used; // another time
    }
}

//! Most of it beside the writer, then the rest while nothing is added, so that the next transaction begins
//! the log anew. Returns false, and leaves the rest for another time, if that is too much for saves to wait
//! for: a reader still needs it, or saves add to it as fast as it is written back.
bool sqlite_database::write_log_back(int mode)
{
    constexpr int few_pages = 128;
    constexpr int most_pages = 1024; // while saves wait
    constexpr int most_attempts = 8;
    const std::lock_guard log_lock(log_mutex_);
    int left = checkpoint_log(SQLITE_CHECKPOINT_PASSIVE);
    for (int attempt = 1; attempt < most_attempts && left > few_pages; ++attempt)
        if (std::exchange(left, checkpoint_log(SQLITE_CHECKPOINT_PASSIVE)) <= left)
            break;
    if (left > most_pages)
        return false;
    if (files::size_of(log_path_) > longest_log_file) {
        {
            const std::lock_guard writer_lock(writer_mutex_);
            checkpoint_log(SQLITE_CHECKPOINT_PASSIVE);
        }
        cut_log_file();
    }
    const std::lock_guard writer_lock(writer_mutex_);
    checkpoint_log(mode);
    return true;
}

//! A log that a long read has made long begins anew in a file that is as long as before. SQLite would cut
//! off all of it at once, which takes the file system a second for some GB.
void sqlite_database::cut_log_file() noexcept
try {
    for (;;) {
        {
            const std::lock_guard writer_lock(writer_mutex_);
            if (poisoned_ || !is_same_file() || !has_its_log())
                return;
            const sql_transaction alone(*writer_, "BEGIN IMMEDIATE"); // nor does another process add to it
            int pages = 0, written_back = 0;
            if (sqlite3_wal_checkpoint_v2(keeper_connection_->get(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                          &pages, &written_back) != SQLITE_OK)
                return;
            constexpr std::size_t frame_header = 24, log_header = 32;
            const auto used = log_header + static_cast<std::size_t>(pages) * (page_bytes_ + frame_header);
            const auto size = files::size_of(log_path_);
            if (size <= std::max<std::uint64_t>(used, longest_log_file))
                return;
            files::shorten(log_path_, std::max<std::uint64_t>(used, size - log_cut));
        }
        upkeep_control().give_way();
    }
} catch (const error&) { // NOLINT(bugprone-empty-catch): it only takes space, and is cut off another time
}

//! Returns how many pages are left in the log.
int sqlite_database::checkpoint_log(int mode)
{
    if (!poisoned_ && !is_same_file())
        poison_as_moved();
    if (poisoned_)
        return 0;
    int pages = 0, written_back = 0;
    const auto code =
        sqlite3_wal_checkpoint_v2(keeper_connection_->get(), nullptr, mode, &pages, &written_back);
    // Busy: someone else does it, or reads. Full: the log stays, and commits will tell.
    if ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CORRUPT)
        poison("the log could not be written back (" +
               database_error(keeper_connection_->get(), code, detail::quoted(path_)).details().message() +
               ")");
    return code == SQLITE_OK ? pages - written_back : 0;
}

//! A transaction of its own, whose commit may fail like any other.
void sqlite_database::vacuum_some()
{
    try {
        writer_->use("PRAGMA incremental_vacuum(64)").run();
    } catch (const database_error& failure) {
        if (failure.primary_code() == SQLITE_IOERR)
            poison("space could not be given back (" + failure.details().message() + ")");
        throw;
    }
}

std::uint64_t sqlite_database::shrink(const upkeep_control& control)
{
    std::uint64_t before = 0, after = 0, page_size = 0;
    std::uint64_t shortened = 0; // the file as it was when its end was last cut off
    for (bool more = true; more;) {
        control.give_way();
        if (shortened > after + most_pages_to_cut_off) {
            write_log_back(SQLITE_CHECKPOINT_PASSIVE);
            shortened = after;
        }
        const std::lock_guard lock(writer_mutex_); // for one step at a time
        require_usable();
        page_size = static_cast<std::uint64_t>(writer_->number("PRAGMA page_size"));
        const auto pages = static_cast<std::uint64_t>(writer_->number("PRAGMA page_count"));
        before = std::max(before, pages);
        shortened = std::max(shortened, pages);
        const auto free_before = static_cast<std::uint64_t>(writer_->number("PRAGMA freelist_count"));
        if (free_before > 0)
            vacuum_some();
        const auto free_pages = static_cast<std::uint64_t>(writer_->number("PRAGMA freelist_count"));
        after = static_cast<std::uint64_t>(writer_->number("PRAGMA page_count"));
        more = after < pages;
        control.report({before - after, before - after + (more ? free_pages : 0)});
    }
    if (!is_in_memory())
        write_log_back(SQLITE_CHECKPOINT_TRUNCATE);           // shortens the file
    return before > after ? (before - after) * page_size : 0; // others may have made it grow
}

std::uint64_t sqlite_database::bytes()
{
    require_usable();
    if (!is_in_memory())
        return files::size_of(path_) + files::size_of(log_path_);
    const std::lock_guard lock(writer_mutex_);
    return static_cast<std::uint64_t>(writer_->number("PRAGMA page_size") *
                                      writer_->number("PRAGMA page_count"));
}

} // namespace waymark::sqlite
