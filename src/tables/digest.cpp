#include "digest.hpp"

#include <waymark/error.hpp>

#include <cstring>
#include <new>
#include <openssl/evp.h>

namespace waymark::tables {

namespace {

//! Looking an algorithm up takes longer than hashing a message. The one that is found lives as long as the
//! process: libcrypto frees what it has at exit by itself, before or after our own destructors.
const EVP_MD* algorithm()
{
    static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    return fetched;
}

class context {
public:
    context() : context_(EVP_MD_CTX_new())
    {
        if (context_ == nullptr)
            throw std::bad_alloc();
    }
    context(const context&) = delete;
    context& operator=(const context&) = delete;
    ~context() { EVP_MD_CTX_free(context_); }

    digest compute(std::string_view bytes)
    {
        digest result;
        if (algorithm() == nullptr || EVP_DigestInit_ex2(context_, algorithm(), nullptr) != 1 ||
            EVP_DigestUpdate(context_, bytes.data(), bytes.size()) != 1 ||
            EVP_DigestFinal_ex(context_, result.data(), nullptr) != 1)
            throw error(errc::io,
                        "libcrypto failed to compute a SHA-256; is its default provider installed?");
        return result;
    }

private:
    EVP_MD_CTX* context_;
};

} // namespace

digest sha256(std::string_view bytes)
{
    thread_local context instance;
    return instance.compute(bytes);
}

digest chain(const digest& before, const digest& message)
{
    char both[64];
    std::memcpy(both, before.data(), 32);
    std::memcpy(both + 32, message.data(), 32);
    return sha256({both, sizeof both});
}

std::string to_hex(std::string_view bytes)
{
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const auto byte : bytes) {
        text += digits[(static_cast<unsigned char>(byte) >> 4) & 0xf];
        text += digits[static_cast<unsigned char>(byte) & 0xf];
    }
    return text;
}

} // namespace waymark::tables
