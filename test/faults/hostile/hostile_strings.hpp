//! Strings that have led programs astray.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace waymark::faults {

//! All different. Some hold "{outside}", which stands for the path of a folder that no store may touch.
const std::vector<std::string>& hostile_strings();

//! Two of them, or one and some bytes, put together; for whoever wants more than there are.
std::string combined_hostile_string(std::uint64_t seed);

} // namespace waymark::faults
