//! The calls, instead of the C library's.
#include "watch.hpp"

#include <cstdarg>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

namespace waymark::faults {

namespace {

//! The C library's own.
template <class Function>
Function* real(const char* name)
{
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name, ...) static auto* const next = real<__VA_ARGS__>(name)

// What the calls of one kind have in common

template <class Real>
int open_at(const std::string& path, int flags, Real open)
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

} // namespace waymark::faults

using namespace waymark::faults; // NOLINT(google-build-using-namespace)

namespace {

int opened(const char* path, int flags, mode_t mode, const char* name)
{
    using open_call = int(const char*, int, ...);
    auto* const next = real<open_call>(name);
    const visit now;
    if (!now.sees(path))
        return next(path, flags, mode);
    return open_at(path, flags, [&] { return next(path, flags, mode); });
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
    return open_at(whole, flags, [&] { return next(folder, path, flags, mode); });
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
