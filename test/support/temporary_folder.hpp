//! A folder of its own for a test or a measurement, removed with everything in it.
#pragma once

#include <waymark/checkpoint.hpp>

#include <filesystem>
#include <string>

namespace waymark::test {

class temporary_folder {
public:
    explicit temporary_folder(const std::filesystem::path& parent = std::filesystem::temp_directory_path())
        : path_(parent / ("waymark-" + random_id()))
    {
        std::filesystem::create_directory(path_);
        std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

} // namespace waymark::test
