//! A folder of files that one process writes: who may, and how changes become durable.
#pragma once

#include "catalog.hpp"
#include "file_changes.hpp"

#include <waymark/error.hpp>
#include <waymark/file_store.hpp>

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace waymark::file {

namespace fs = std::filesystem;

class locked_folder {
public:
    //! Opens it, or makes it unless it is to be read only. @throws waymark::error as file_store says.
    locked_folder(const fs::path& path, file_options chosen);

    fs::path reserved() const { return root / reserved_folder; }
    fs::path aside() const { return reserved() / "temporary"; }

    //! For functions that read: a reader looks at what the writing process did since.
    std::unique_lock<std::mutex> lock_to_read();
    //! Calls `ask` until nothing that it found is gone when it reads it: removed by the writing process
    //! beside a reader, or by hand. @throws waymark::error `busy` if that does not come to an end
    template <class Ask>
    auto answer(Ask ask)
    {
        constexpr int most_times = 1'000;
        const auto lock = lock_to_read();
        for (int i = 0; i < most_times; ++i) {
            try {
                return ask();
            } catch (const files::vanished&) {
                files_in.look_again();
            }
        }
        files::fail_restless(root);
    }
    std::unique_lock<std::mutex> lock_to_write();

    void publish(file_changes& changes, const std::vector<std::string>& touched);
    //! What was noted in memory did not happen: the folders are read again.
    void forget(const std::vector<std::string>& agents);
    //! Runs what changes the disk. If it fails before anything was changed, all is as before; after that, it
    //! is in doubt what is on the disk.
    template <class Action>
    void commit(Action action, const std::vector<std::string>& touched)
    {
        bool begun = false;
        try {
            action(begun);
        } catch (const error& failure) {
            forget(touched);
            if (!begun)
                throw;
            poison = failure.details().message();
            throw error(errc::outcome_unknown, failure.details().message());
        } catch (...) { // no memory, most likely
            forget(touched);
            if (!begun)
                throw;
            poison = "no memory";
            throw error(errc::outcome_unknown, "memory ran out in the middle of a commit");
        }
    }

    //! Removes files, then syncs their folders.
    void remove_files(const std::vector<fs::path>& paths, const std::string& agent_id);

    const fs::path root;
    const file_options options;
    std::mutex mutex; // guards what follows
    catalog files_in;
    std::set<fs::path> known_folders; // see file_changes

private:
    //! Through all links, once: they may lead elsewhere later.
    static fs::path resolve(const fs::path& folder);
    void require_usable() const;
    fs::path lock_path() const { return reserved() / "lock"; }
    //! What says that this is still the folder that was opened.
    fs::path landmark() const { return options.is_read_only() ? root : lock_path(); }
    void take_lock();
    void check_format();
    //! Left by a process that was killed. Nobody else writes here: we have the lock.
    void clean_up() const;

    std::string poison; // why nothing goes any more; empty: all is well
    files::descriptor writer_lock;
    std::optional<files::identity> opened; // the file of the lock, or the folder of a reader
};

} // namespace waymark::file
