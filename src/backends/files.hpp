//! Files and folders as the durable backends need them: for the owner alone, and synced.
#pragma once

#include <waymark/error.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark::files {

//! A file descriptor that closes itself.
class descriptor {
public:
    explicit descriptor(int number = -1) noexcept : number_(number) {}
    descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~descriptor();

    int get() const noexcept { return number_; }

private:
    int number_;
};

//! @throws waymark::error `io` that names the path and the reason; `what` is what was tried.
[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, int error_number);

//! What was there is there no more: an `io` error that a reader beside a writer takes for "look again".
class vanished : public error {
public:
    explicit vanished(const std::filesystem::path& path);
};

//! @throws waymark::error `busy`: others change the folder all the time
[[noreturn]] void fail_restless(const std::filesystem::path& folder);

//! The absolute path that the system would use, through all links, of a file or folder that may not be there
//! yet. A link that leads nowhere stands for what it names. Dots behind a folder that is not there lead back
//! to where it would be.
//! @throws waymark::error `io`: links in a circle, a file in place of a folder, a folder that may not be
//! searched
std::filesystem::path resolve(const std::filesystem::path& path);

//! Opens relative to nothing but the path, never through a link at its end.
//! @throws waymark::error `io`
descriptor open(const std::filesystem::path& path, int flags);

//! Makes a folder and the missing ones above it, for the owner alone, each synced into its parent.
void make_folders(const std::filesystem::path& folder);
//! The same for a folder below `root`, through no link. Returns the folders above it that are there already:
//! they may not have been synced by who made them.
std::vector<std::filesystem::path> make_folders_below(const std::filesystem::path& root,
                                                      const std::filesystem::path& folder);
//! What is in a folder, by name. Empty if it is not there, is a link or no folder. What is there all the
//! time is in it, and of two things of which the second was made before the first was removed, one is.
//! @throws waymark::error `busy` if the folder changes faster than it can be listed
std::vector<std::filesystem::path> list(const std::filesystem::path& folder);
//! Does nothing if it is not there.
void remove(const std::filesystem::path& file);
//! Makes an empty file for the owner alone unless one is there.
void make_private_file(const std::filesystem::path& path);
//! What was made, renamed or removed in the folder is on the disk when it returns.
void sync_folder(const std::filesystem::path& folder);

//! Writes a file that is not there yet, for the owner alone. It is not synced yet.
descriptor write_new(const std::filesystem::path& path, std::string_view content);
void sync_file(const descriptor& file, const std::filesystem::path& path);
//! @throws vanished if it is not there; waymark::error `io`, or `corrupt` if it is no regular file
std::string read_whole(const std::filesystem::path& path);
//! Writes a file's content over itself and syncs it. After a failed sync the system may take for written what
//! it has only in memory; syncing alone would write nothing then. Does nothing if the file is not there.
//! @pre nobody else writes to it meanwhile
void write_again(const std::filesystem::path& path);

//! Cuts off what is behind that size. @pre the file is longer
void shorten(const std::filesystem::path& path, std::uint64_t size);

//! 0 if it does not exist.
std::uint64_t size_of(const std::filesystem::path& path);

//! Which file it is, whatever its name. No other file has the same while this one is open or has a name.
struct identity {
    std::uint64_t device = 0;
    std::uint64_t number = 0;
    bool operator==(const identity&) const = default;
};
//! That of the file which has the name now, also through a link; none if there is none.
std::optional<identity> identity_of(const char* path) noexcept;

} // namespace waymark::files
