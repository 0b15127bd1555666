//! What text may contain, and how foreign text is shown in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace waymark::detail {

//! Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_valid_utf8(std::string_view text) noexcept;

//! Whether there is a character below the space.
bool has_control(std::string_view text) noexcept;

//! The text with control characters and invalid bytes escaped, cut when it takes more than about so many
//! bytes.
std::string printable(std::string_view text, std::size_t longest);
//! The same in quotes, and short.
std::string quoted(std::string_view text);

//! @throws waymark::error `invalid_argument` that names `what` and the offset of the first bad byte.
void require_utf8(std::string_view text, std::string_view what);

} // namespace waymark::detail
