#include "hostile_text.hpp"

#include "backends/file/file_names.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace waymark::faults {

namespace {

//! The bytes of the character at the start; 1 for what is none.
std::size_t first_length(std::string_view text)
{
    for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length)
        if (is_utf8(text.substr(0, length)))
            return length;
    return 1;
}

std::string with_case_changed(std::string text)
{
    for (auto& c : text)
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            c = static_cast<char>(c ^ 0x20);
    return text;
}

} // namespace

std::string replaced(std::string text, std::string_view what, std::string_view by)
{
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
    return text;
}

std::string aimed_at(std::string text, const std::string& outside)
{
    return replaced(std::move(text), "{outside}", outside);
}

bool is_utf8(std::string_view text)
{
    // By the table of the Unicode standard: each lead byte with its range of second bytes.
    struct form {
        int first_low, first_high, second_low, second_high, length;
    };
    static constexpr std::array<form, 9> forms = {{{0x00, 0x7F, 0, 0, 1},
                                                   {0xC2, 0xDF, 0x80, 0xBF, 2},
                                                   {0xE0, 0xE0, 0xA0, 0xBF, 3},
                                                   {0xE1, 0xEC, 0x80, 0xBF, 3},
                                                   {0xED, 0xED, 0x80, 0x9F, 3},
                                                   {0xEE, 0xEF, 0x80, 0xBF, 3},
                                                   {0xF0, 0xF0, 0x90, 0xBF, 4},
                                                   {0xF1, 0xF3, 0x80, 0xBF, 4},
                                                   {0xF4, 0xF4, 0x80, 0x8F, 4}}};
    const auto within = [&](std::size_t at, int low, int high) {
        const auto byte = at < text.size() ? static_cast<unsigned char>(text[at]) : -1;
        return byte >= low && byte <= high;
    };
    for (std::size_t at = 0; at < text.size();) {
        const auto* const found = std::find_if(forms.begin(), forms.end(), [&](const form& one) {
            return within(at, one.first_low, one.first_high) &&
                   (one.length < 2 || within(at + 1, one.second_low, one.second_high)) &&
                   (one.length < 3 || within(at + 2, 0x80, 0xBF)) &&
                   (one.length < 4 || within(at + 3, 0x80, 0xBF));
        });
        if (found == forms.end())
            return false;
        at += static_cast<std::size_t>(found->length);
    }
    return true;
}

bool is_label(std::string_view text)
{
    return text.size() <= 255 && text.find('\0') == std::string_view::npos && is_utf8(text);
}

bool is_id(std::string_view text)
{
    return !text.empty() && is_label(text);
}

bool is_printable(std::string_view text)
{
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
        if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && next < 0xA0))
            return false;
    }
    return is_utf8(text);
}

std::vector<std::string> neighbours_of(std::string_view id)
{
    const std::string own(id);
    const auto rest = own.substr(first_length(own));
    auto last = own.size() - 1; // where the last character begins
    while (last > 0 && !is_utf8(own.substr(0, last)))
        --last;
    std::vector<std::string> all = {file::to_name(own),
                                    with_case_changed(own),
                                    own + " ",
                                    own + ".",
                                    " " + own,
                                    own + "/",
                                    own + "\xe2\x80\x8b",
                                    own.substr(0, last),
                                    rest,
                                    "_" + rest,
                                    "%" + rest,
                                    "*" + rest,
                                    "./" + own,
                                    "'" + own + "'",
                                    replaced(own, "'", "''"),
                                    replaced(own, "\\", "/"),
                                    replaced(own, "/", "")};
    static const std::vector<std::pair<std::string, std::string>> forms = {
        {"\xc3\xa9", "e\xcc\x81"}, {"\xc3\x85", "A\xcc\x8a"}, {"\xe2\x84\xab", "\xc3\x85"},
        {"\xef\xac\x81", "fi"},    {"\xc3\x9f", "ss"},        {"\xe2\x84\xaa", "K"}};
    for (const auto& [left, right] : forms) {
        all.push_back(replaced(own, left, right));
        all.push_back(replaced(own, right, left));
    }
    std::set<std::string> seen = {own};
    std::erase_if(all, [&](const auto& text) { return !is_id(text) || !seen.insert(text).second; });
    return all;
}

std::string shown(std::string_view text, std::size_t longest)
{
    static constexpr char digits[] = "0123456789abcdef";
    std::string result = "'";
    for (const auto c : text.substr(0, longest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7F && c != '\\')
            result += c;
        else
            result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
    return result + (text.size() > longest ? "'... of " + std::to_string(text.size()) + " bytes" : "'");
}

} // namespace waymark::faults
