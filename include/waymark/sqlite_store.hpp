//! Checkpoints in a SQLite file: the embedded default.
#pragma once

#include <waymark/detail/table_store.hpp>
#include <waymark/durability.hpp>
#include <waymark/store_observer.hpp>

#include <chrono>
#include <filesystem>
#include <memory>

namespace waymark {

//! Options of sqlite_store.
class sqlite_options {
public:
    sqlite_options() = default;

    // clang-format off
    //! Default: `full`.
    sqlite_options& with_durability(waymark::durability level) noexcept { durability_ = level; return *this; }
    //! How long to wait for other processes that write before failing with `errc::busy`. Default: 10 seconds.
    sqlite_options& with_busy_timeout(std::chrono::milliseconds timeout) noexcept
    { busy_timeout_ = timeout; return *this; }
    //! Opens a file that is there, and makes none: a mistyped path is `errc::not_found`. Default: off.
    sqlite_options& must_exist(bool must = true) noexcept { must_exist_ = must; return *this; }
    //! Overwrites deleted data in the file with zeros. docs/guarantees.md says what stays readable all the
    //! same (the write-ahead log until it is reused, backups, blocks that a file system or a disk has moved).
    //! Default: off.
    sqlite_options& with_secure_erase(bool erase = true) noexcept { secure_erase_ = erase; return *this; }
    sqlite_options& with_limits(waymark::limits bounds) noexcept { limits_ = bounds; return *this; }
    //! Told of waits for other processes, and when the store is out of use. Give it to the
    //! async_store, too. Default: none.
    sqlite_options& with_observer(std::shared_ptr<store_observer> observer) noexcept
    { observer_ = std::move(observer); return *this; }
    // clang-format on

    waymark::durability durability() const noexcept { return durability_; }
    std::chrono::milliseconds busy_timeout() const noexcept { return busy_timeout_; }
    bool must_exist() const noexcept { return must_exist_; }
    bool secure_erase() const noexcept { return secure_erase_; }
    const waymark::limits& limits() const noexcept { return limits_; }
    const std::shared_ptr<store_observer>& observer() const noexcept { return observer_; }

private:
    waymark::durability durability_ = waymark::durability::full;
    std::chrono::milliseconds busy_timeout_ = std::chrono::seconds(10);
    bool must_exist_ = false;
    bool secure_erase_ = false;
    waymark::limits limits_;
    std::shared_ptr<store_observer> observer_;
};

//! A store in one SQLite file, which several processes may use at once.
//!
//! A save costs what is new: messages that the conversation's parent or the head has, and big members of
//! `state` that the agent has stored before, are referred to. Loads and lists read beside the writer and wait
//! for nobody. After a failed sync every call fails with `errc::io` until the store is opened again: what the
//! operating system did not write is known only then. The same holds when the file was deleted, moved or
//! replaced while the store was open.
//!
//! Thread safety: all functions may be called concurrently. Do not use an object in a child after `fork()`.
class sqlite_store final : public detail::table_store {
public:
    //! Opens the file; makes it, and missing folders, if it is not there (for the owner alone), unless it
    //! `must_exist`. Links in the path are followed once, as the system does it; one that leads nowhere
    //! stands for the file it names.
    //! @throws waymark::error `unsupported_format` (written by a newer version; left untouched),
    //! `invalid_argument` (not a Waymark database, which is left untouched, or not the path of a file:
    //! ":memory:" and "file:…" are none), `not_found` (see must_exist), `corrupt`, `busy`, `io`.
    explicit sqlite_store(const std::filesystem::path& path, const sqlite_options& options = {});
    ~sqlite_store() override;

    //! A store of its own in memory, gone with the object: for tests that want the real thing without a file.
    static std::shared_ptr<sqlite_store> in_memory(const sqlite_options& options = {});

private:
    sqlite_store(std::unique_ptr<tables::database> database, const waymark::limits& bounds);
};

} // namespace waymark
