//! What is known about the watched folder, for the calls that pass by. Inside of system_calls.
#pragma once

#include "allocations.hpp"
#include "system_calls.hpp"

#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <unordered_map>

namespace waymark::faults {

//! What is known about the watched folder. All calls on it pass one by one, so that the log has them in the
//! order in which they happened.
struct watch {
    std::mutex mutex;
    std::string folder;
    std::array<std::uint64_t, all_calls.size()> counts{};
    std::optional<fault> next;
    bool fails_next_write = false; // of a cut_error
    bool has_failed = false;
    watched_folder::ignored ignored = watched_folder::ignored::nothing;

    struct open_file {
        std::string path;
        int node = 0;
    };
    std::unordered_map<int, open_file> files; // by descriptor
    std::unordered_map<DIR*, bool> listings;

    bool is_recording = false;
    disk_log log;
};

watch& state();

//! Whether this call is to be looked at: somebody watches, and it is not made by a call that we look at.
bool is_entered_from_outside() noexcept;
void enter() noexcept;
void leave() noexcept;

//! Enters a call, if it is to be looked at.
class visit {
public:
    visit() : is_ours_(is_entered_from_outside())
    {
        if (!is_ours_)
            return;
        enter();
        lock_ = std::unique_lock(state().mutex);
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;
    ~visit()
    {
        if (is_ours_)
            leave();
    }

    bool sees(const char* path) const
    {
        const auto& folder = state().folder;
        return is_ours_ && path != nullptr && std::strncmp(path, folder.c_str(), folder.size()) == 0 &&
               (path[folder.size()] == '/' || path[folder.size()] == '\0');
    }
    watch::open_file* file(int descriptor) const
    {
        if (!is_ours_)
            return nullptr;
        const auto found = state().files.find(descriptor);
        return found == state().files.end() ? nullptr : &found->second;
    }
    std::string path_at(int folder, const char* name) const
    {
        if (name[0] == '/' || folder == AT_FDCWD)
            return name;
        const auto* known = file(folder);
        return known == nullptr ? std::string(name) : known->path + "/" + name;
    }
    bool is_ours() const noexcept { return is_ours_; }

private:
    const spared_allocations spared_;
    bool is_ours_;
    std::unique_lock<std::mutex> lock_;
};

//! How a call goes: as it should, cut, or not at all (errno is set).
enum class fate { as_it_should, cut, fails };

fate fate_of(call which);

// Recording

int node_of(const std::string& path);
void note_made(const std::string& path, bool folder);
void note_removed(const std::string& path);
void note_renamed(const std::string& from, const std::string& to);
void note_written(int node, std::uint64_t offset, const void* bytes, ssize_t count);
void note(disk_event::kind what, int node, std::uint64_t size = 0);

} // namespace waymark::faults
