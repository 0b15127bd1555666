#include "system_calls.hpp"

#include "allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace waymark::faults {

std::string_view name_of(call which)
{
    constexpr std::array names = {"open",   "read",   "write",       "sync", "truncate",
                                  "rename", "remove", "make_folder", "look", "list"};
    return names[static_cast<std::size_t>(which)];
}

namespace {

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

std::atomic<bool> is_watching = false;
thread_local int inside = 0; // calls that a call makes are the system's own

watch& state()
{
    static watch instance;
    return instance;
}

//! Enters a call, if it is to be looked at.
class visit {
public:
    visit() : is_ours_(is_watching.load(std::memory_order_acquire) && inside == 0)
    {
        if (!is_ours_)
            return;
        ++inside;
        lock_ = std::unique_lock(state().mutex);
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;
    ~visit()
    {
        if (is_ours_)
            --inside;
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

fate fate_of(call which)
{
    auto& all = state();
    const auto number = ++all.counts[static_cast<std::size_t>(which)];
    if (which == call::write && std::exchange(all.fails_next_write, false)) {
        errno = all.next ? all.next->error : EIO;
        return fate::fails;
    }
    if (!all.next || all.next->where != which)
        return fate::as_it_should;
    const auto& planned = *all.next;
    if (number != planned.nth && !(planned.forever && number > planned.nth))
        return fate::as_it_should;
    all.has_failed = true;
    if (planned.what == fault::kind::error || number != planned.nth) {
        errno = planned.error;
        return fate::fails;
    }
    all.fails_next_write = planned.what == fault::kind::cut_error && which == call::write;
    return fate::cut;
}

//! The C library's own.
template <class Function>
Function* real(const char* name)
{
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name, ...) static auto* const next = real<__VA_ARGS__>(name)

// Recording

std::string parent_of(const std::string& path)
{
    return path.substr(0, path.rfind('/'));
}
std::string name_in(const std::string& path)
{
    return path.substr(path.rfind('/') + 1);
}

std::string below(const std::string& path)
{
    return path.substr(state().folder.size());
}

int node_of(const std::string& path)
{
    const auto& nodes = state().log.nodes;
    const auto found = nodes.find(below(path));
    return found == nodes.end() ? 0 : found->second;
}

void note_made(const std::string& path, bool folder)
{
    auto& all = state();
    if (!all.is_recording || node_of(path) != 0)
        return;
    const int node = folder ? all.log.add_folder() : all.log.add_file();
    all.log.nodes[below(path)] = node;
    all.log.add(
        {.what = disk_event::kind::entries, .entries = {{node_of(parent_of(path)), name_in(path), node}}});
}

void note_removed(const std::string& path)
{
    auto& all = state();
    if (!all.is_recording || node_of(path) == 0)
        return;
    all.log.nodes.erase(below(path));
    all.log.add(
        {.what = disk_event::kind::entries, .entries = {{node_of(parent_of(path)), name_in(path), 0}}});
}

void note_renamed(const std::string& from, const std::string& to)
{
    auto& all = state();
    const int node = node_of(from);
    if (!all.is_recording || node == 0)
        return;
    const auto before = below(from);
    std::map<std::string, int> moved;
    for (auto it = all.log.nodes.begin(); it != all.log.nodes.end();) {
        const auto& path = it->first;
        const bool goes = path == before || path.starts_with(before + "/");
        if (goes)
            moved[below(to) + path.substr(before.size())] = it->second;
        it = goes ? all.log.nodes.erase(it) : std::next(it);
    }
    for (const auto& [path, which] : moved)
        all.log.nodes[path] = which;
    all.log.add({.what = disk_event::kind::entries,
                 .entries = {{node_of(parent_of(from)), name_in(from), 0},
                             {node_of(parent_of(to)), name_in(to), node}}});
}

void note_written(int node, std::uint64_t offset, const void* bytes, ssize_t count)
{
    if (state().is_recording && count > 0 && node != 0)
        state().log.add({.what = disk_event::kind::write,
                         .node = node,
                         .offset = offset,
                         .bytes = {static_cast<const char*>(bytes), static_cast<std::size_t>(count)}});
}

void note(disk_event::kind what, int node, std::uint64_t size = 0)
{
    if (state().is_recording && node != 0)
        state().log.add({.what = what, .node = node, .offset = size});
}

// What the calls of one kind have in common

template <class Real>
int open_at(const visit& now, const std::string& path, int flags, Real open)
{
    if (fate_of(call::open) != fate::as_it_should)
        return -1;
    struct stat before {};
    const bool was_there = ::stat(path.c_str(), &before) == 0;
    const int descriptor = open();
    if (descriptor < 0)
        return descriptor;
    if (!was_there && (flags & O_CREAT) != 0)
        note_made(path, false);
    const int node = node_of(path);
    if ((flags & O_TRUNC) != 0)
        note(disk_event::kind::truncate, node);
    state().files[descriptor] = {path, node};
    (void)now;
    return descriptor;
}

template <class Real>
ssize_t write_at(int descriptor, const void* bytes, std::size_t count, off_t offset, Real write)
{
    const auto how = fate_of(call::write);
    if (how == fate::fails)
        return -1;
    const auto written = write(how == fate::cut ? (count + 1) / 2 : count);
    note_written(state().files[descriptor].node, static_cast<std::uint64_t>(offset), bytes, written);
    return written;
}

template <class Real>
ssize_t read_some(std::size_t count, Real read)
{
    switch (fate_of(call::read)) {
    case fate::fails:
        return -1;
    case fate::cut:
        return read((count + 1) / 2);
    case fate::as_it_should:
        break;
    }
    return read(count);
}

template <class Real>
int sync_one(const watch::open_file& file, Real sync)
{
    struct stat found {};
    const bool is_folder = ::stat(file.path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
    if (state().ignored == watched_folder::ignored::all_syncs ||
        (is_folder && state().ignored == watched_folder::ignored::folder_syncs))
        return 0;
    if (fate_of(call::sync) != fate::as_it_should) {
        note(disk_event::kind::failed_sync, file.node);
        return -1;
    }
    const int result = sync();
    if (result == 0)
        note(disk_event::kind::sync, file.node);
    return result;
}

template <class Real>
int remove_one(const std::string& path, Real remove)
{
    if (fate_of(call::remove) != fate::as_it_should)
        return -1;
    const int result = remove();
    if (result == 0)
        note_removed(path);
    return result;
}

template <class Real>
int truncate_one(int node, off_t size, Real truncate)
{
    if (fate_of(call::truncate) != fate::as_it_should)
        return -1;
    const int result = truncate();
    if (result == 0)
        note(disk_event::kind::truncate, node, static_cast<std::uint64_t>(size));
    return result;
}

} // namespace

// watched_folder

watched_folder::watched_folder(const std::filesystem::path& folder)
{
    auto& all = state();
    const std::lock_guard lock(all.mutex);
    all.folder = folder.native();
    all.counts = {};
    all.next.reset();
    all.fails_next_write = all.has_failed = all.is_recording = false;
    all.ignored = ignored::nothing;
    all.files.clear();
    all.listings.clear();
    all.log = {};
    is_watching = true;
}

watched_folder::~watched_folder()
{
    is_watching = false;
    const std::lock_guard lock(state().mutex); // nobody is inside any more
}

std::uint64_t watched_folder::count(call of) const
{
    const std::lock_guard lock(state().mutex);
    return state().counts[static_cast<std::size_t>(of)];
}

void watched_folder::set(const std::optional<fault>& next)
{
    const std::lock_guard lock(state().mutex);
    state().next = next;
    state().counts = {};
    state().fails_next_write = state().has_failed = false;
}

bool watched_folder::has_failed() const
{
    const std::lock_guard lock(state().mutex);
    return state().has_failed;
}

void watched_folder::record(disk_log begun)
{
    const std::lock_guard lock(state().mutex);
    state().log = std::move(begun);
    state().is_recording = true;
}

disk_log watched_folder::take_log()
{
    const std::lock_guard lock(state().mutex);
    state().is_recording = false;
    return std::exchange(state().log, {});
}

std::size_t watched_folder::place_in_log() const
{
    const std::lock_guard lock(state().mutex);
    return state().log.size();
}

void watched_folder::ignore(ignored what)
{
    const std::lock_guard lock(state().mutex);
    state().ignored = what;
}

} // namespace waymark::faults

// The calls themselves, instead of the C library's.

using namespace waymark::faults; // NOLINT(google-build-using-namespace)

namespace {

int opened(const char* path, int flags, mode_t mode, const char* name)
{
    using open_call = int(const char*, int, ...);
    auto* const next = real<open_call>(name);
    const visit now;
    if (!now.sees(path))
        return next(path, flags, mode);
    return open_at(now, path, flags, [&] { return next(path, flags, mode); });
}

mode_t mode_of(int flags, va_list& rest)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

template <class Stat>
int looked(const char* path, Stat* to, const char* name)
{
    auto* const next = real<int(const char*, Stat*)>(name);
    const visit now;
    if (now.sees(path) && fate_of(call::look) != fate::as_it_should)
        return -1;
    return next(path, to);
}

template <class Stat>
int looked(int descriptor, Stat* to, const char* name)
{
    auto* const next = real<int(int, Stat*)>(name);
    const visit now;
    if (now.file(descriptor) != nullptr && fate_of(call::look) != fate::as_it_should)
        return -1;
    return next(descriptor, to);
}

} // namespace

extern "C" {

int open(const char* path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const auto mode = mode_of(flags, rest);
    va_end(rest);
    return opened(path, flags, mode, "open");
}

int open64(const char* path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const auto mode = mode_of(flags, rest);
    va_end(rest);
    return opened(path, flags, mode, "open64");
}

int openat(int folder, const char* path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const auto mode = mode_of(flags, rest);
    va_end(rest);
    using openat_call = int(int, const char*, int, ...);
    REAL("openat", openat_call);
    const visit now;
    const auto whole = now.is_ours() ? now.path_at(folder, path) : std::string();
    if (!now.sees(whole.c_str()))
        return next(folder, path, flags, mode);
    return open_at(now, whole, flags, [&] { return next(folder, path, flags, mode); });
}

int close(int descriptor)
{
    REAL("close", int(int));
    const visit now;
    if (now.is_ours())
        state().files.erase(descriptor);
    return next(descriptor);
}

ssize_t read(int descriptor, void* to, size_t count)
{
    REAL("read", ssize_t(int, void*, size_t));
    const visit now;
    if (now.file(descriptor) == nullptr)
        return next(descriptor, to, count);
    return read_some(count, [&](std::size_t part) { return next(descriptor, to, part); });
}

ssize_t pread64(int descriptor, void* to, size_t count, off64_t offset)
{
    REAL("pread64", ssize_t(int, void*, size_t, off64_t));
    const visit now;
    if (now.file(descriptor) == nullptr)
        return next(descriptor, to, count, offset);
    return read_some(count, [&](std::size_t part) { return next(descriptor, to, part, offset); });
}

ssize_t pread(int descriptor, void* to, size_t count, off_t offset)
{
    return pread64(descriptor, to, count, offset);
}

ssize_t write(int descriptor, const void* from, size_t count)
{
    REAL("write", ssize_t(int, const void*, size_t));
    const visit now;
    if (now.file(descriptor) == nullptr)
        return next(descriptor, from, count);
    const auto offset = ::lseek(descriptor, 0, SEEK_CUR);
    return write_at(descriptor, from, count, offset,
                    [&](std::size_t part) { return next(descriptor, from, part); });
}

ssize_t pwrite64(int descriptor, const void* from, size_t count, off64_t offset)
{
    REAL("pwrite64", ssize_t(int, const void*, size_t, off64_t));
    const visit now;
    if (now.file(descriptor) == nullptr)
        return next(descriptor, from, count, offset);
    return write_at(descriptor, from, count, offset,
                    [&](std::size_t part) { return next(descriptor, from, part, offset); });
}

ssize_t pwrite(int descriptor, const void* from, size_t count, off_t offset)
{
    return pwrite64(descriptor, from, count, offset);
}

int fsync(int descriptor)
{
    REAL("fsync", int(int));
    const visit now;
    const auto* file = now.file(descriptor);
    return file == nullptr ? next(descriptor) : sync_one(*file, [&] { return next(descriptor); });
}

int fdatasync(int descriptor)
{
    REAL("fdatasync", int(int));
    const visit now;
    const auto* file = now.file(descriptor);
    return file == nullptr ? next(descriptor) : sync_one(*file, [&] { return next(descriptor); });
}

int ftruncate64(int descriptor, off64_t size) noexcept
{
    REAL("ftruncate64", int(int, off64_t));
    const visit now;
    const auto* file = now.file(descriptor);
    return file == nullptr ? next(descriptor, size)
                           : truncate_one(file->node, size, [&] { return next(descriptor, size); });
}

int rename(const char* from, const char* to) noexcept
{
    REAL("rename", int(const char*, const char*));
    const visit now;
    if (!now.sees(from) && !now.sees(to))
        return next(from, to);
    if (fate_of(call::rename) != fate::as_it_should)
        return -1;
    const int result = next(from, to);
    if (result == 0)
        note_renamed(from, to);
    return result;
}

int unlink(const char* path) noexcept
{
    REAL("unlink", int(const char*));
    const visit now;
    return now.sees(path) ? remove_one(path, [&] { return next(path); }) : next(path);
}

int rmdir(const char* path) noexcept
{
    REAL("rmdir", int(const char*));
    const visit now;
    return now.sees(path) ? remove_one(path, [&] { return next(path); }) : next(path);
}

int remove(const char* path) noexcept
{
    REAL("remove", int(const char*));
    const visit now;
    return now.sees(path) ? remove_one(path, [&] { return next(path); }) : next(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept
{
    REAL("unlinkat", int(int, const char*, int));
    const visit now;
    const auto whole = now.is_ours() ? now.path_at(folder, path) : std::string();
    return now.sees(whole.c_str()) ? remove_one(whole, [&] { return next(folder, path, flags); })
                                   : next(folder, path, flags);
}

int mkdir(const char* path, mode_t mode) noexcept
{
    REAL("mkdir", int(const char*, mode_t));
    const visit now;
    if (!now.sees(path))
        return next(path, mode);
    if (fate_of(call::make_folder) != fate::as_it_should)
        return -1;
    const int result = next(path, mode);
    if (result == 0)
        note_made(path, true);
    return result;
}

int stat(const char* path, struct stat* to) noexcept
{
    return looked(path, to, "stat");
}
int stat64(const char* path, struct stat64* to) noexcept
{
    return looked(path, to, "stat64");
}
int lstat(const char* path, struct stat* to) noexcept
{
    return looked(path, to, "lstat");
}
int lstat64(const char* path, struct stat64* to) noexcept
{
    return looked(path, to, "lstat64");
}
int fstat(int descriptor, struct stat* to) noexcept
{
    return looked(descriptor, to, "fstat");
}
int fstat64(int descriptor, struct stat64* to) noexcept
{
    return looked(descriptor, to, "fstat64");
}

DIR* fdopendir(int descriptor)
{
    REAL("fdopendir", DIR * (int));
    const visit now;
    auto* const opened = next(descriptor);
    if (opened != nullptr && now.file(descriptor) != nullptr)
        state().listings[opened] = true;
    return opened;
}

int closedir(DIR* folder)
{
    REAL("closedir", int(DIR*));
    const visit now;
    if (now.is_ours()) {
        state().listings.erase(folder);
        state().files.erase(::dirfd(folder));
    }
    return next(folder);
}

struct dirent* readdir(DIR* folder)
{
    REAL("readdir", struct dirent * (DIR*));
    const visit now;
    if (now.is_ours() && state().listings.contains(folder) && fate_of(call::list) != fate::as_it_should)
        return nullptr;
    return next(folder);
}

} // extern "C"
