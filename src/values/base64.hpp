//! Base64, as RFC 4648 has it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace waymark::detail {

std::string to_base64(std::string_view bytes);
//! Takes the alphabet for URLs, too, and text that is broken into lines. None if it is no base64.
std::optional<std::string> from_base64(std::string_view text);
//! How many bytes it stands for, O(1).
std::size_t base64_size(std::string_view text) noexcept;

} // namespace waymark::detail
