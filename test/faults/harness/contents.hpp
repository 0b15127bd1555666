//! Everything that a store says, as a text that can be compared.
#pragma once

#include <waymark/store.hpp>

#include <string>

namespace waymark::faults {

//! Checkpoints with their sequences and pins, heads, agents, steps and counts, asked for in every way.
//! @throws what the store throws
std::string everything_in(store& from);

} // namespace waymark::faults
