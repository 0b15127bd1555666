//! The system calls of this process on the files below one folder: counted, recorded, and made to fail.
//!
//! The program defines `open`, `pwrite64`, `fsync` and their kin itself, so that the library, SQLite and the
//! C++ library all come by here on their way to the C library. A layer of SQLite's own (a VFS) would see
//! neither the files of a `file_store` nor who syncs a folder.
#pragma once

#include "disk_log.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace waymark::faults {

enum class call { open, read, write, sync, truncate, rename, remove, make_folder, look, list };
inline constexpr std::array all_calls = {call::open,        call::read,   call::write,  call::sync,
                                         call::truncate,    call::rename, call::remove, call::look,
                                         call::make_folder, call::list};
std::string_view name_of(call which);

//! One call that does not do what it should.
struct fault {
    enum class kind {
        error,     // it fails
        cut,       // it does half of what it was asked for, which is allowed
        cut_error, // the same, and the next one fails
    };

    call where = call::write;
    std::uint64_t nth = 1; // among the calls of this kind
    int error = 0;         // errno
    kind what = kind::error;
    bool forever = false; // all later ones fail, too
};

//! Watches a folder as long as it lives. One at a time.
class watched_folder {
public:
    explicit watched_folder(const std::filesystem::path& folder);
    watched_folder(const watched_folder&) = delete;
    watched_folder& operator=(const watched_folder&) = delete;
    ~watched_folder();

    //! How many calls of a kind there were.
    std::uint64_t count(call of) const;

    void set(const std::optional<fault>& next);
    bool has_failed() const;

    //! Keeps what is written, from now on. The folder is empty, or shows what such a log says.
    void record(disk_log begun = {});
    //! What was recorded so far. Stops recording.
    disk_log take_log();
    //! A place in the log that the caller finds again: its index.
    std::size_t place_in_log() const;

    //! A broken machine: syncs of folders (or of everything) do nothing. They are not recorded, either.
    enum class ignored { nothing, folder_syncs, all_syncs };
    void ignore(ignored what);
};

} // namespace waymark::faults
