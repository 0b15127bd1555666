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
    for (const auto& [target, temporary] : temporaries_)
        ::unlink(temporary.c_str());
}

void file_changes::write(const fs::path& target, std::string_view content)
{
    files::make_folders_below(root_, target.parent_path());
    auto temporary = aside_ / random_id();
    try {
        unsynced_.push_back({files::write_new(temporary, content), temporary});
        if (unsynced_.size() == most_open)
            sync();
        const auto [known, is_new] = temporaries_.try_emplace(target, temporary);
        if (!is_new) { // a later one for the same place
            ::unlink(known->second.c_str());
            known->second = std::move(temporary);
        }
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
}

const fs::path& file_changes::current(const fs::path& target) const
{
    const auto found = temporaries_.find(target);
    return found == temporaries_.end() ? target : found->second;
}

void file_changes::sync()
{
    for (const auto& [file, path] : unsynced_)
        files::sync_file(file, path);
    unsynced_.clear();
}

void file_changes::publish()
{
    std::set<fs::path> folders;
    while (!temporaries_.empty()) {
        const auto next = temporaries_.begin();
        if (::rename(next->second.c_str(), next->first.c_str()) != 0)
            files::fail(next->first, "put in place", errno);
        folders.insert(next->first.parent_path());
        temporaries_.erase(next);
    }
    for (const auto& folder : folders)
        files::sync_folder(folder);
}

} // namespace waymark::file
