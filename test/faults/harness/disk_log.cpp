#include "disk_log.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <stdexcept>

namespace waymark::faults {

namespace {

using tree = std::map<int, std::map<std::string, int>>; // entries of each folder

//! A disk up to some event: what is certain, and what is not.
class disk {
public:
    explicit disk(const disk_log& log) : log_(log) {}

    void apply(const disk_event& event)
    {
        switch (event.what) {
        case disk_event::kind::write:
        case disk_event::kind::truncate:
            files_[event.node].unsynced.push_back(&event);
            return;
        case disk_event::kind::entries:
            loose_entries_.push_back(&event);
            return;
        case disk_event::kind::failed_sync:
            files_[event.node].unsynced.clear(); // a folder's entries are in a journal, which is tried again
            return;
        case disk_event::kind::sync:
            return log_.is_folder(event.node) ? sync_folder(event.node) : sync_file(files_[event.node]);
        }
    }

    //! Lets chance decide about what is not certain.
    void cut(std::mt19937_64& random)
    {
        cut_entries(random);
        const auto mood = random() % 5;
        for (auto& [node, content] : files_)
            cut_file(content, mood, random);
    }

    //! Nothing is lost: the machine runs on.
    void apply_as_seen(const disk_event& event)
    {
        if (event.what == disk_event::kind::entries)
            set(event);
        else if (event.what == disk_event::kind::write || event.what == disk_event::kind::truncate)
            write_part(files_[event.node].synced, event, 0, event.bytes.size());
    }

    void write(const std::filesystem::path& to) const { write_folder(disk_log::root, to); }

private:
    struct file {
        std::string synced;
        std::vector<const disk_event*> unsynced;
    };

    static void write_part(std::string& content, const disk_event& event, std::size_t begin, std::size_t end)
    {
        if (event.what == disk_event::kind::truncate) {
            content.resize(event.offset);
            return;
        }
        if (begin >= end)
            return;
        const auto last = static_cast<std::size_t>(event.offset) + end;
        if (content.size() < last)
            content.resize(last);
        content.replace(static_cast<std::size_t>(event.offset) + begin, end - begin, event.bytes, begin,
                        end - begin);
    }

    static void sync_file(file& content)
    {
        for (const auto* event : content.unsynced)
            write_part(content.synced, *event, 0, event->bytes.size());
        content.unsynced.clear();
    }

    static bool touches(const disk_event& event, int folder)
    {
        return std::any_of(event.entries.begin(), event.entries.end(),
                           [&](const auto& entry) { return entry.folder == folder; });
    }

    void set(const disk_event& event)
    {
        for (const auto& entry : event.entries)
            if (entry.node == 0)
                tree_[entry.folder].erase(entry.name);
            else
                tree_[entry.folder][entry.name] = entry.node;
    }

    void sync_folder(int folder)
    {
        std::erase_if(loose_entries_, [&](const disk_event* event) {
            if (!touches(*event, folder))
                return false;
            set(*event);
            return true;
        });
    }

    void cut_entries(std::mt19937_64& random)
    {
        const auto chance = random() % 3; // none is lost, some, all
        std::set<int> stopped;
        for (const auto* event : loose_entries_) {
            const bool lost = chance == 2 || (chance == 1 && random() % 3 == 0) ||
                              std::any_of(stopped.begin(), stopped.end(),
                                          [&](int folder) { return touches(*event, folder); });
            if (!lost)
                set(*event);
            else
                for (const auto& entry : event->entries)
                    stopped.insert(entry.folder);
        }
    }

    static void cut_file(file& content, std::uint64_t mood, std::mt19937_64& random)
    {
        auto left = content.unsynced;
        if (mood == 0)
            left.clear();
        if (mood == 2 && !left.empty())
            left.resize(random() % (left.size() + 1)); // in order, up to some point
        if (mood >= 3) {                               // any of them, in any order
            std::erase_if(left, [&](const auto*) { return random() % 3 == 0; });
            std::shuffle(left.begin(), left.end(), random);
        }
        for (std::size_t i = 0; i < left.size(); ++i) {
            const auto size = left[i]->bytes.size();
            const bool torn = size > 0 && ((mood == 4 && random() % 2 == 0) ||
                                           (mood == 2 && i + 1 == left.size() && random() % 2 == 0));
            if (!torn) {
                write_part(content.synced, *left[i], 0, size);
                continue;
            }
            // Disks write whole sectors; a page of the system may hold less than one.
            const auto unit = random() % 2 == 0 ? std::size_t{512} : std::size_t{1};
            const auto middle = random() % (size + 1) / unit * unit;
            if (random() % 4 == 0)
                write_part(content.synced, *left[i], middle, size);
            else
                write_part(content.synced, *left[i], 0, middle);
        }
    }

    void write_folder(int folder, const std::filesystem::path& to) const
    {
        const auto found = tree_.find(folder);
        if (found == tree_.end())
            return;
        for (const auto& [name, node] : found->second) {
            const auto path = to / name;
            if (log_.is_folder(node)) {
                std::filesystem::create_directory(path);
                write_folder(node, path);
                continue;
            }
            std::ofstream out(path, std::ios::binary);
            if (const auto content = files_.find(node); content != files_.end())
                out.write(content->second.synced.data(),
                          static_cast<std::streamsize>(content->second.synced.size()));
            if (!out.flush())
                throw std::runtime_error("a crash state could not be written to " + path.native());
        }
    }

    const disk_log& log_;
    tree tree_;
    std::map<int, file> files_;
    std::vector<const disk_event*> loose_entries_;
};

} // namespace

void disk_log::write_state(std::size_t length, std::mt19937_64& random, const std::filesystem::path& to) const
{
    disk state(*this);
    for (std::size_t i = 0; i < length; ++i)
        state.apply(events_[i]);
    state.cut(random);
    state.write(to);
}

void disk_log::write_visible(const std::filesystem::path& to) const
{
    disk state(*this);
    for (const auto& event : events_)
        state.apply_as_seen(event);
    state.write(to);
}

} // namespace waymark::faults
