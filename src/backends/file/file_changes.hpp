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
    //! For files below `root`. Temporaries are made in `aside`, on the same file system.
    file_changes(std::filesystem::path root, std::filesystem::path aside)
        : root_(std::move(root)), aside_(std::move(aside))
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
    //! Makes everything visible and durable. @pre it is synced
    //! @throws waymark::error `io`: some of it may be visible, and it is not known what is durable.
    void publish();

private:
    struct unsynced_file {
        files::descriptor file;
        std::filesystem::path path;
    };
    std::filesystem::path root_;
    std::filesystem::path aside_;
    std::map<std::filesystem::path, std::filesystem::path> temporaries_; // by target
    std::vector<unsynced_file> unsynced_;
};

} // namespace waymark::file
