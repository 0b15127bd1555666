//! Base64, as RFC 4648 has it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace waymark::detail {

std::string to_base64(std::string_view bytes);
//! How many bytes it stands for, O(1).
std::size_t base64_size(std::string_view text) noexcept;

} // namespace waymark::detail
