//! What a process wrote below a folder, in order, and the states in which a power cut may leave the disk.
//!
//! A disk keeps what was synced. Of the rest it keeps what it likes:
//! - of the writes to a file since it was last synced any, in any order, each perhaps in part;
//! - of the entries of a folder that were made, renamed or removed since the folder was last synced those up
//! to
//!   some point; a rename happens on both sides or on none.
//! Syncing a file says nothing about its name: that is the folder's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace waymark::faults {

struct disk_event {
    enum class kind {
        write,
        truncate,
        sync,
        failed_sync, // what was to be written is gone, and counts as written: the system says so only once
        entries,
    };
    //! One entry of a folder; node 0: removed.
    struct entry {
        int folder = 0;
        std::string name;
        int node = 0;
    };

    kind what = kind::write;
    int node = 0;
    std::uint64_t offset = 0; // truncate: the new size
    std::string bytes = {};
    std::vector<entry> entries = {}; // changed at once
};

class disk_log {
public:
    static constexpr int root = 1;

    int add_folder() { return *folders_.insert(next_node_++).first; }
    int add_file() { return next_node_++; }
    bool is_folder(int node) const { return node == root || folders_.contains(node); }
    void add(disk_event event) { events_.push_back(std::move(event)); }

    std::size_t size() const noexcept { return events_.size(); }
    const disk_event& operator[](std::size_t index) const { return events_[index]; }

    //! Writes the files as a power cut after the first `length` events may leave them. The folder is empty.
    void write_state(std::size_t length, std::mt19937_64& random, const std::filesystem::path& to) const;
    //! Writes the files as another process sees them, synced or not.
    void write_visible(const std::filesystem::path& to) const;

    //! Where things are at the end of the log, by their path below the folder ("/a/b").
    std::map<std::string, int> nodes = {{"", root}};

private:
    std::set<int> folders_;
    int next_node_ = root + 1;
    std::vector<disk_event> events_;
};

} // namespace waymark::faults
