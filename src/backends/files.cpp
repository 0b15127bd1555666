#include "files.hpp"

#include "../values/text.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace waymark::files {

namespace fs = std::filesystem;

descriptor::~descriptor()
{
    if (number_ >= 0)
        ::close(number_);
}

void fail(const fs::path& path, const std::string& what, int error_number)
{
    const auto reason = std::generic_category().message(error_number);
    throw error(errc::io, detail::quoted(path.native()) + " could not be " + what + ": " + reason);
}

void fail_restless(const fs::path& folder)
{
    throw error(errc::busy,
                detail::quoted(folder.native()) + " changes faster than it can be read; ask again");
}

vanished::vanished(const fs::path& path)
    : error(errc::io, detail::quoted(path.native()) + " was there and is gone")
{
}

namespace {

//! What a link says, or none if it is no link or nothing is there.
std::optional<fs::path> target_of(const fs::path& path)
{
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) {
        if (errno == ENOENT)
            return std::nullopt;
        fail(path, "looked at", errno);
    }
    if (!S_ISLNK(found.st_mode))
        return std::nullopt;
    std::error_code failure;
    auto target = fs::read_symlink(path, failure);
    if (failure)
        fail(path, "followed", failure.value());
    return target;
}

} // namespace

fs::path resolve(const fs::path& path)
{
    constexpr int most_links = 40; // as in Linux
    int links = 0;
    std::error_code failure;
    const auto whole = fs::absolute(path, failure);
    if (failure)
        fail(path, "resolved", failure.value());
    std::deque<fs::path> left(whole.begin(), whole.end());
    fs::path resolved; // no part of it is a link
    while (!left.empty()) {
        const auto part = std::move(left.front());
        left.pop_front();
        if (part.is_absolute()) {
            resolved = part;
        } else if (part == "..") {
            struct stat found {};
            if (::stat(resolved.c_str(), &found) == 0 && !S_ISDIR(found.st_mode))
                fail(resolved, "used as a folder", ENOTDIR);
            resolved = resolved.parent_path();
        } else if (!part.empty() && part != ".") {
            const auto next = resolved / part;
            const auto target = target_of(next);
            if (target && ++links > most_links)
                fail(path, "followed", ELOOP);
            if (target)
                left.insert(left.begin(), target->begin(), target->end());
            else
                resolved = next;
        }
    }
    return resolved;
}

descriptor open(const fs::path& path, int flags)
{
    descriptor opened(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (opened.get() < 0)
        fail(path, "opened", errno);
    return opened;
}

void make_folders(const fs::path& folder)
{
    struct stat found {};
    if (folder.empty() || ::stat(folder.c_str(), &found) == 0) {
        if (!folder.empty() && !S_ISDIR(found.st_mode))
            fail(folder, "used as a folder", ENOTDIR);
        return;
    }
    make_folders(folder.parent_path());
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
        fail(folder, "made", errno);
    sync_folder(folder.parent_path().empty() ? fs::path(".") : folder.parent_path());
}

std::vector<fs::path> make_folders_below(const fs::path& root, const fs::path& folder)
{
    std::vector<fs::path> existing;
    auto path = root;
    for (const auto& part : folder.lexically_relative(root)) {
        const auto parent = path;
        path /= part;
        if (::mkdir(path.c_str(), 0700) == 0) {
            sync_folder(parent);
            continue;
        }
        if (errno != EEXIST)
            fail(path, "made", errno);
        struct stat found {};
        if (::lstat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
            fail(path, "used as a folder, being a link or a file", ENOTDIR);
        existing.push_back(parent);
    }
    return existing;
}

namespace {

struct listing {
    std::vector<std::string> names; // in order
    bool is_of_one_moment = false;
};

// Not with std::filesystem's iterator: that of g++ 12 ends the process when memory runs out.
listing list_once(const fs::path& folder)
{
    struct closer {
        void operator()(DIR* opened) const { ::closedir(opened); }
    };
    listing found;
    const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0) {
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            fail(folder, "listed", errno);
        found.is_of_one_moment = true;
        return found;
    }
    const std::unique_ptr<DIR, closer> entries(::fdopendir(opened)); // it owns the descriptor
    if (entries == nullptr) {
        const auto failure = errno;
        ::close(opened);
        fail(folder, "listed", failure);
    }
    std::size_t bytes = 0;
    for (;;) {
        errno = 0;
        const auto* const entry =
            ::readdir(entries.get()); // NOLINT(concurrency-mt-unsafe): nobody else reads it
        if (entry == nullptr && errno != 0)
            fail(folder, "listed", errno);
        if (entry == nullptr)
            break;
        bytes += entry->d_reclen;
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..")
            found.names.emplace_back(name);
    }
    std::sort(found.names.begin(), found.names.end());
    // The C library asks for 32 KB at a time, and the system lets nobody change the folder meanwhile.
    constexpr std::size_t at_a_time = 32'000;
    found.is_of_one_moment = bytes < at_a_time;
    return found;
}

} // namespace

std::vector<fs::path> list(const fs::path& folder)
{
    constexpr int most_looks = 1'000;
    auto found = list_once(folder);
    // A large folder is read piece by piece. Something may be put into a piece that has been read, and what
    // it replaces removed from one that has not: neither is seen. The next look sees the former.
    for (int look = 1; !found.is_of_one_moment; ++look) {
        auto next = list_once(folder);
        const bool all_are_there =
            std::includes(next.names.begin(), next.names.end(), found.names.begin(), found.names.end());
        found = std::move(next);
        if (all_are_there)
            break;
        if (look == most_looks)
            fail_restless(folder);
    }
    std::vector<fs::path> entries;
    entries.reserve(found.names.size());
    for (const auto& name : found.names)
        entries.push_back(folder / name);
    return entries;
}

void remove(const fs::path& file)
{
    if (::unlink(file.c_str()) != 0 && errno != ENOENT)
        fail(file, "removed", errno);
}

void make_private_file(const fs::path& path)
{
    const descriptor made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (made.get() < 0 && errno != EEXIST)
        fail(path, "made", errno);
}

void sync_folder(const fs::path& folder)
{
    const descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.get() < 0)
        fail(folder, "opened", errno);
    if (::fsync(opened.get()) != 0)
        fail(folder, "synced", errno);
}

descriptor write_new(const fs::path& path, std::string_view content)
{
    auto file = open(path, O_WRONLY | O_CREAT | O_EXCL);
    while (!content.empty()) {
        const auto written = ::write(file.get(), content.data(), content.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            fail(path, "written", errno);
        content.remove_prefix(static_cast<std::size_t>(written));
    }
    return file;
}

void sync_file(const descriptor& file, const fs::path& path)
{
    if (::fsync(file.get()) != 0)
        fail(path, "synced", errno);
}

namespace {

[[noreturn]] void fail_to_read(const fs::path& path, const std::string& what, int error_number)
{
    if (error_number == ENOENT || error_number == ESTALE)
        throw vanished(path);
    fail(path, what, error_number);
}

} // namespace

std::string read_whole(const fs::path& path)
{
    struct stat link {};
    if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
        throw error(errc::corrupt, detail::quoted(path.native()) + " is a link, which is not followed");
    // A pipe must not hold us up.
    const descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() < 0)
        fail_to_read(path, "opened", errno);
    struct stat found {};
    if (::fstat(file.get(), &found) != 0)
        fail_to_read(path, "read", errno);
    if (!S_ISREG(found.st_mode))
        throw error(errc::corrupt, detail::quoted(path.native()) + " is no regular file");
    std::string content(static_cast<std::size_t>(found.st_size), '\0');
    std::size_t done = 0;
    while (done < content.size()) {
        const auto count = ::read(file.get(), content.data() + done, content.size() - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            fail_to_read(path, "read", errno);
        if (count == 0)
            break; // it was cut while we read; what is there will not parse
        done += static_cast<std::size_t>(count);
    }
    content.resize(done);
    return content;
}

void write_again(const fs::path& path)
{
    if (size_of(path) == 0)
        return;
    const auto file = open(path, O_RDWR);
    std::string part(std::size_t{1} << 20, '\0');
    for (off_t place = 0;;) {
        const auto read = ::pread(file.get(), part.data(), part.size(), place);
        if (read < 0 && errno == EINTR)
            continue;
        if (read < 0)
            fail(path, "read", errno);
        if (read == 0)
            break;
        // What is not written now is read again.
        const auto written = ::pwrite(file.get(), part.data(), static_cast<std::size_t>(read), place);
        if (written < 0 && errno != EINTR)
            fail(path, "written", errno);
        place += std::max<ssize_t>(written, 0);
    }
    sync_file(file, path);
}

void shorten(const fs::path& path, std::uint64_t size)
{
    const auto file = open(path, O_RDWR);
    while (::ftruncate(file.get(), static_cast<off_t>(size)) != 0)
        if (errno != EINTR)
            fail(path, "shortened", errno);
}

std::uint64_t size_of(const fs::path& path)
{
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0)
        return 0;
    return static_cast<std::uint64_t>(found.st_size);
}

std::optional<identity> identity_of(const char* path) noexcept
{
    struct stat found {};
    if (::stat(path, &found) != 0)
        return std::nullopt;
    return identity{found.st_dev, found.st_ino};
}

} // namespace waymark::files
