//! Where stores of an attack live when it is not about what a disk does.
#pragma once

#include <filesystem>
#include <unistd.h>

namespace waymark::faults {

//! A parent for temporary folders that costs no time to sync: shared memory where there is some, else the
//! usual place.
inline std::filesystem::path fast_folder()
{
    constexpr const char* in_memory = "/dev/shm";
    std::error_code ignored;
    if (std::filesystem::is_directory(in_memory, ignored) && ::access(in_memory, W_OK | X_OK) == 0)
        return in_memory;
    return std::filesystem::temp_directory_path();
}

} // namespace waymark::faults
