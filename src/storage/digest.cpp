#include "digest.hpp"

#include <waymark/error.hpp>

#include <openssl/evp.h>

namespace waymark::storage {

namespace {

[[noreturn]] void fail()
{
    throw error(errc::io, "libcrypto failed to compute a SHA-256; is its default provider installed?");
}

//! Looking an algorithm up takes longer than hashing a message. The one that is found lives as long as the
//! process: libcrypto frees what it has at exit by itself, before or after our own destructors.
const EVP_MD* algorithm()
{
    static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    return fetched;
}

EVP_MD_CTX* as_context(void* pointer)
{
    return static_cast<EVP_MD_CTX*>(pointer);
}

} // namespace

hasher::hasher() : context_(EVP_MD_CTX_new())
{
    if (context_ == nullptr)
        throw std::bad_alloc();
    if (algorithm() == nullptr || EVP_DigestInit_ex2(as_context(context_), algorithm(), nullptr) != 1) {
        EVP_MD_CTX_free(as_context(context_));
        fail();
    }
}

hasher::~hasher()
{
    EVP_MD_CTX_free(as_context(context_));
}

hasher& hasher::add(std::string_view bytes)
{
    if (EVP_DigestUpdate(as_context(context_), bytes.data(), bytes.size()) != 1)
        fail();
    return *this;
}

hasher& hasher::add_text(std::string_view text)
{
    return add_number(static_cast<std::int64_t>(text.size())).add(text);
}

hasher& hasher::add_number(std::int64_t number)
{
    char bytes[8];
    auto left = static_cast<std::uint64_t>(number);
    for (auto& byte : bytes) {
        byte = static_cast<char>(left & 0xff);
        left >>= 8;
    }
    return add({bytes, sizeof bytes});
}

digest hasher::finish()
{
    digest result;
    if (EVP_DigestFinal_ex(as_context(context_), result.data(), nullptr) != 1 ||
        EVP_DigestInit_ex2(as_context(context_), algorithm(), nullptr) != 1)
        fail();
    return result;
}

hasher& thread_hasher()
{
    thread_local hasher instance;
    return instance;
}

digest sha256(std::string_view bytes)
{
    return thread_hasher().add(bytes).finish();
}

digest chain(const digest& before, const digest& message)
{
    return thread_hasher().add(view(before)).add(view(message)).finish();
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

} // namespace waymark::storage
