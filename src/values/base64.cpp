#include "base64.hpp"

#include <cstdint>
#include <utility>

namespace waymark::detail {

std::string to_base64(std::string_view bytes)
{
    static constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const auto group = bytes.substr(at, 3);
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < 3; ++i)
            bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
        for (std::size_t i = 0; i < 4; ++i)
            text += i <= group.size() ? digits[bits >> (18 - 6 * i) & 0x3f] : '=';
    }
    return text;
}

std::optional<std::string> from_base64(std::string_view text)
{
    const auto value_of = [](char c) -> std::uint32_t {
        if (c >= 'A' && c <= 'Z')
            return static_cast<std::uint32_t>(c - 'A');
        if (c >= 'a' && c <= 'z')
            return static_cast<std::uint32_t>(c - 'a') + 26;
        if (c >= '0' && c <= '9')
            return static_cast<std::uint32_t>(c - '0') + 52;
        return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : 64;
    };
    while (text.ends_with('=') || text.ends_with('\n') || text.ends_with('\r'))
        text.remove_suffix(1);
    std::string bytes;
    bytes.reserve(text.size() * 3 / 4);
    std::uint32_t bits = 0;
    int count = 0; // of the bits that are waiting
    for (const char c : text) {
        if (c == '\n' || c == '\r')
            continue;
        const auto value = value_of(c);
        if (value > 63)
            return std::nullopt;
        bits = bits << 6 | value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes += static_cast<char>(bits >> count & 0xff);
        }
    }
    return count == 6 ? std::nullopt : std::optional(std::move(bytes)); // a digit alone is not even a byte
}

std::size_t base64_size(std::string_view text) noexcept
{
    while (!text.empty() && text.back() == '=')
        text.remove_suffix(1);
    return text.size() * 3 / 4;
}

} // namespace waymark::detail
