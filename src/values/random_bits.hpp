#pragma once

#include <cstdint>

namespace waymark::detail {

//! 63 random bits from the system, never 0. What they number differs between processes, after a fork, and
//! between two copies of the library in one process, which a counter's numbers do not.
std::uint64_t random_bits();

} // namespace waymark::detail
