//! SHA-256, from OpenSSL's libcrypto.
#pragma once

#include "../values/storage_memory.hpp"

#include <string>
#include <string_view>

namespace waymark::tables {

using detail::digest;

//! @throws waymark::error `io` if libcrypto offers no SHA-256.
digest sha256(std::string_view bytes);

//! The digest of a conversation with one more message: h(n) = SHA-256(h(n-1), SHA-256(message n)); h(0) is
//! all zeros.
digest chain(const digest& before, const digest& message);

inline std::string_view view(const digest& value) noexcept
{
    return {reinterpret_cast<const char*>(value.data()), value.size()};
}

std::string to_hex(std::string_view bytes);

} // namespace waymark::tables
