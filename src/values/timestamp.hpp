//! RFC 3339, which g++ 12's library cannot read or write.
#pragma once

#include <waymark/message.hpp>

#include <string>
#include <string_view>

namespace waymark::detail {

//! Whether the time lies in the years 0000 to 9999.
bool is_printable(timestamp time) noexcept;

//! "2026-03-01T09:30:00.000250Z"
//! @throws waymark::error `invalid_argument` if it is not printable.
std::string to_rfc3339(timestamp time);

//! Any offset is accepted and turned into UTC; digits beyond the microsecond are dropped.
//! @throws waymark::error `invalid_argument` that names `what`.
timestamp from_rfc3339(std::string_view text, std::string_view what);

} // namespace waymark::detail
