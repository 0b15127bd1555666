//! Several new files that appear together: written and synced aside, then renamed, then their folders synced.
#pragma once

#include "../files.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::file {

class file_changes {
public:
    //! For files below `root`. Temporaries are made in `aside`, on the same file system. `known` are folders
    //! whose entries are known to be on the disk.
    file_changes(std::filesystem::path root, std::filesystem::path aside,
                 std::set<std::filesystem::path>& known)
        : root_(std::move(root)), aside_(std::move(aside)), known_(known)
    {
    }
    file_changes(const file_changes&) = delete;
    file_changes& operator=(const file_changes&) = delete;
    //! What was not published is removed.
    ~file_changes();

    //! Writes content that will be at `target`, and makes its folder. Nothing is visible yet.
    //! @throws waymark::error `io`
    void write(const std::filesystem::path& target, std::string_view content);
    //! Where the content of a path is: aside, or in its place.
    const std::filesystem::path& current(const std::filesystem::path& target) const;
    //! Syncs what was written; nothing is visible yet. Syncs are made together: the first of them writes most
    //! of what the others need.
    //! @throws waymark::error `io`
    void sync();
    //! Makes everything visible, in the order in which it was written, and durable. @pre it is synced
    //! @throws waymark::error `io`; if `is_visible`, it is not known what is durable.
    void publish();
    //! Whether any of it has been made visible.
    bool is_visible() const noexcept { return is_visible_; }

private:
    struct unsynced_file {
        files::descriptor file;
        std::filesystem::path path;
    };
    std::filesystem::path root_;
    std::filesystem::path aside_;
    struct change {
        std::filesystem::path target;
        std::filesystem::path temporary;
    };
    std::set<std::filesystem::path>& known_;
    std::vector<change> changes_;
    std::map<std::filesystem::path, std::size_t> latest_; // by target, an index into changes_
    bool is_visible_ = false;
    std::vector<unsynced_file> unsynced_;
};

} // namespace waymark::file
