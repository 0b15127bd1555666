//! SHA-256, from OpenSSL's libcrypto.
#pragma once

#include "../values/storage_memory.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace waymark::storage {

using detail::digest;

//! Computes one digest after the other; keep it where many are needed.
class hasher {
public:
    //! @throws waymark::error `io` if libcrypto offers no SHA-256.
    hasher();
    hasher(const hasher&) = delete;
    hasher& operator=(const hasher&) = delete;
    ~hasher();

    hasher& add(std::string_view bytes);
    //! Preceded by its length, so that neighbours cannot be mistaken for each other.
    hasher& add_text(std::string_view text);
    hasher& add_number(std::int64_t number);
    //! The digest of what was added since the last one.
    digest finish();

private:
    void* context_;
};

//! The hasher of this thread.
hasher& thread_hasher();

digest sha256(std::string_view bytes);

//! The digest of a conversation with one more message: h(n) = SHA-256(h(n-1), SHA-256(message n)); h(0) is
//! all zeros.
digest chain(const digest& before, const digest& message);

inline std::string_view view(const digest& value) noexcept
{
    return {reinterpret_cast<const char*>(value.data()), value.size()};
}

std::string to_hex(std::string_view bytes);

} // namespace waymark::storage
