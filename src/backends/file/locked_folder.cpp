#include "locked_folder.hpp"

#include "../../values/text.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>

namespace waymark::file {

namespace {

constexpr std::string_view format_text = "{\n  \"waymark_files\": 1\n}\n";

} // namespace

locked_folder::locked_folder(const fs::path& path, file_options chosen)
    : root(resolve(path)), options(std::move(chosen)), files_in(root, !options.is_read_only())
{
    if (!options.is_read_only()) {
        files::make_folders(root);
        files::sync_folder(root.parent_path());
        files::make_folders_below(root, aside());
        files::sync_folder(root); // who made a folder may have been killed before it was synced
        take_lock();
    } else if (!fs::is_directory(root)) {
        throw error(errc::io, detail::quoted(root.native()) + " is no folder; nothing to read there");
    }
    opened = files::identity_of(landmark().c_str());
    check_format();
    if (!options.is_read_only())
        clean_up();
}

std::unique_lock<std::mutex> locked_folder::lock_to_read()
{
    std::unique_lock lock(mutex);
    require_usable();
    if (options.is_read_only())
        files_in.look_again();
    return lock;
}

std::unique_lock<std::mutex> locked_folder::lock_to_write()
{
    if (options.is_read_only())
        throw error(errc::invalid_argument,
                    detail::quoted(root.native()) + " was opened read-only; open it without that option");
    std::unique_lock lock(mutex);
    require_usable();
    return lock;
}

void locked_folder::publish(file_changes& changes, const std::vector<std::string>& touched)
{
    commit(
        [&](bool& begun) {
            changes.sync();
            try {
                changes.publish();
            } catch (...) {
                begun = changes.is_visible();
                throw;
            }
        },
        touched);
}

void locked_folder::forget(const std::vector<std::string>& agents)
{
    for (const auto& agent_id : agents)
        files_in.forget(agent_id);
}

void locked_folder::remove_files(const std::vector<fs::path>& paths, const std::string& agent_id)
{
    commit(
        [&](bool& begun) {
            std::set<fs::path> folders;
            for (const auto& path : paths) {
                files::remove(path);
                begun = true;
                folders.insert(path.parent_path());
            }
            for (const auto& folder : folders)
                files::sync_folder(folder);
        },
        {agent_id});
}

fs::path locked_folder::resolve(const fs::path& path)
{
    if (path.empty() || path.native().find('\0') != std::string::npos)
        throw error(errc::invalid_argument,
                    "the path of a file store is empty or contains a NUL; name a folder");
    return files::resolve(path);
}

void locked_folder::require_usable() const
{
    if (!poison.empty())
        throw error(errc::io, "the store is out of use since a sync failed (" + poison +
                                  "); what was not written is known after it is opened again");
    // Whoever works in another folder of that name may hold its lock.
    if (opened && files::identity_of(landmark().c_str()) != opened)
        throw error(errc::io, detail::quoted(root.native()) +
                                  " was deleted, moved or replaced while the store was open; put it back, or "
                                  "open the store again");
}

void locked_folder::take_lock()
{
    writer_lock = files::open(lock_path(), O_RDWR | O_CREAT);
    if (::flock(writer_lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            files::fail(lock_path(), "locked", errno);
        throw error(errc::busy, detail::quoted(root.native()) +
                                    " is being written by another process or store; close that one, or "
                                    "open this one with file_options{}.read_only()");
    }
}

void locked_folder::check_format()
{
    const auto path = reserved() / "format.json";
    if (!stamp_of(path)) {
        if (options.is_read_only())
            return; // of another program, perhaps
        file_changes changes(root, aside(), known_folders);
        changes.write(path, format_text);
        changes.sync();
        changes.publish();
        return;
    }
    const auto found = files::read_whole(path);
    if (found.find("\"waymark_files\"") == std::string::npos)
        throw error(errc::corrupt, detail::quoted(path.native()) +
                                       " is damaged: it names no format; remove it, and it is made anew");
    if (found != format_text)
        throw error(errc::unsupported_format,
                    detail::quoted(path.native()) + " names a format that this library does not know");
}

void locked_folder::clean_up() const
{
    for (const auto& left : files::list(aside())) {
        std::error_code ignored; // the next opening tries again
        fs::remove_all(left, ignored);
    }
}

} // namespace waymark::file
