//! Copying a whole agent, in short transactions, into one that nobody sees before it is whole.
#pragma once

#include "database.hpp"

#include <waymark/upkeep.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace waymark::tables {

//! A copy that nobody has gone on with for so long was given up: its process has crashed.
inline constexpr auto longest_pause_of_a_copy = std::chrono::hours(1);

//! Returns how many checkpoints. Rows that are damaged are copied as they are.
//! @throws waymark::error `not_found` without an origin, `conflict` if the target has content, `busy` if the
//! origin's checkpoints are replaced or removed all the time.
std::uint64_t copy_agent(database& in, std::string_view from, std::string_view to,
                         const upkeep_control& control);

} // namespace waymark::tables
