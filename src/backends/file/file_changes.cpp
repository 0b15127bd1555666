#include "file_changes.hpp"

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>

#include <cerrno>
#include <cstdio>
#include <unistd.h>

namespace waymark::file {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_open = 64;

} // namespace

file_changes::~file_changes()
{
    for (const auto& next : changes_)
        ::unlink(next.temporary.c_str());
}

void file_changes::write(const fs::path& target, std::string_view content)
{
    for (const auto& folder : files::make_folders_below(root_, target.parent_path()))
        if (!known_.contains(folder)) {
            files::sync_folder(folder);
            known_.insert(folder);
        }
    changes_.push_back({target, aside_ / random_id()});
    latest_[target] = changes_.size() - 1;
    const auto& temporary = changes_.back().temporary;
    unsynced_.push_back({files::write_new(temporary, content), temporary});
    if (unsynced_.size() == most_open)
        sync();
}

const fs::path& file_changes::current(const fs::path& target) const
{
    const auto found = latest_.find(target);
    return found == latest_.end() ? target : changes_[found->second].temporary;
}

void file_changes::sync()
{
    for (const auto& [file, path] : unsynced_)
        files::sync_file(file, path);
    unsynced_.clear();
}

void file_changes::publish()
{
    std::set<fs::path> folders; // before anything is visible: memory may run out here
    for (const auto& next : changes_)
        folders.insert(next.target.parent_path());
    for (const auto& next : changes_) {
        if (::rename(next.temporary.c_str(), next.target.c_str()) != 0)
            files::fail(next.target, "put in place", errno);
        is_visible_ = true;
    }
    changes_.clear();
    for (const auto& folder : folders)
        files::sync_folder(folder);
}

} // namespace waymark::file
