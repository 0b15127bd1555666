#include "text.hpp"

#include <waymark/error.hpp>

#include <cstdint>
#include <cstring>

namespace waymark::detail {

namespace {

constexpr std::size_t longest_shown = 80;

bool is_continuation(char byte) noexcept
{
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

//! The length of the sequence at the start of `text`, or 0 if it is not valid.
std::size_t sequence_length(std::string_view text) noexcept
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto lead = byte(0);
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2) // a continuation byte, or an overlong form
        return 0;
    const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || text.size() < length)
        return 0;
    for (std::size_t i = 1; i < length; ++i)
        if (!is_continuation(text[i]))
            return 0;
    const auto second = byte(1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90)) // overlong
        return 0;
    if ((lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90)) // surrogate; above U+10FFFF
        return 0;
    return length;
}

//! The offset of the first byte that is not part of valid UTF-8, or npos.
std::size_t find_invalid(std::string_view text) noexcept
{
    std::size_t at = 0;
    while (at < text.size()) {
        if (text.size() - at >= 32) { // most text is ASCII: 32 bytes at a time
            std::uint64_t words[4];
            std::memcpy(words, text.data() + at, 32);
            if (((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u) == 0) {
                at += 32;
                continue;
            }
        }
        const auto length = sequence_length(text.substr(at));
        if (length == 0)
            return at;
        at += length;
    }
    return std::string_view::npos;
}

void append_escaped(std::string& to, unsigned char byte)
{
    static constexpr char digits[] = "0123456789abcdef";
    to += "\\x";
    to += digits[byte >> 4];
    to += digits[byte & 15];
}

} // namespace

bool is_valid_utf8(std::string_view text) noexcept
{
    return find_invalid(text) == std::string_view::npos;
}

bool has_control(std::string_view text) noexcept
{
    constexpr std::uint64_t ones = 0x0101010101010101;
    std::size_t at = 0;
    for (; text.size() - at >= 32; at += 32) { // 32 bytes at a time
        std::uint64_t words[4];
        std::memcpy(words, text.data() + at, 32);
        std::uint64_t below = 0;
        for (const auto word : words)
            below |= (word - ones * 0x20) & ~word;
        if ((below & ones * 0x80) != 0)
            return true;
    }
    for (; at < text.size(); ++at)
        if (static_cast<unsigned char>(text[at]) < 0x20)
            return true;
    return false;
}

std::string printable(std::string_view text, std::size_t longest)
{
    std::string result;
    std::size_t at = 0;
    while (at < text.size() && result.size() < longest) {
        const auto length = sequence_length(text.substr(at));
        const auto byte = static_cast<unsigned char>(text[at]);
        if (length == 0 || byte < 0x20 || byte == 0x7F)
            append_escaped(result, byte);
        else if (length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[at + 1]) < 0xA0) {
            append_escaped(result, byte); // the C1 control characters
            append_escaped(result, static_cast<unsigned char>(text[at + 1]));
        } else
            result += text.substr(at, length);
        at += length == 0 ? 1 : length;
    }
    if (at < text.size())
        result += "…";
    return result;
}

std::string quoted(std::string_view text)
{
    return "'" + printable(text, longest_shown) + "'";
}

void require_utf8(std::string_view text, std::string_view what)
{
    const auto at = find_invalid(text);
    if (at != std::string_view::npos)
        throw error(errc::invalid_argument, std::string(what) + " is not valid UTF-8 (byte " +
                                                std::to_string(at) + " of " + std::to_string(text.size()) +
                                                "); convert or escape it first");
}

} // namespace waymark::detail
