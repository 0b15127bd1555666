#include "file_names.hpp"

#include "../../tables/digest.hpp"

#include <algorithm>
#include <array>

namespace waymark::file {

namespace {

// With ".json" and the SHA-256 of a shortened one, names stay below the 255 bytes of all common file systems.
constexpr std::size_t longest_name = 180;
constexpr std::size_t shortened_prefix = 100;

bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

//! Names that Windows keeps for devices, whatever follows the first dot.
bool is_reserved(std::string_view id)
{
    constexpr std::array<std::string_view, 4> names = {"con", "prn", "aux", "nul"};
    const auto stem = id.substr(0, id.find('.'));
    if (std::find(names.begin(), names.end(), stem) != names.end())
        return true;
    return stem.size() == 4 && (stem.starts_with("com") || stem.starts_with("lpt")) && stem[3] >= '0' &&
           stem[3] <= '9';
}

int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string escape(std::string_view id)
{
    if (id.empty())
        return "%";
    std::string name;
    for (std::size_t i = 0; i < id.size(); ++i) {
        const auto c = id[i];
        const bool inner_dot = c == '.' && i != 0 && i + 1 != id.size();
        if ((is_plain(c) || inner_dot) && !(i == 0 && is_reserved(id))) {
            name += c;
            continue;
        }
        name += '%';
        name += tables::to_hex(id.substr(i, 1));
    }
    return name;
}

} // namespace

std::string to_name(std::string_view id)
{
    auto name = escape(id);
    if (name.size() <= longest_name)
        return name;
    auto length = shortened_prefix;
    for (std::size_t back = 1; back <= 2; ++back) // not within an escape
        if (name[shortened_prefix - back] == '%')
            length = shortened_prefix - back;
    name.resize(length);
    return name + "~" + tables::to_hex(tables::view(tables::sha256(id)));
}

bool is_shortened(std::string_view name)
{
    return name.find('~') != std::string_view::npos;
}

std::optional<std::string> from_name(std::string_view name)
{
    std::string id;
    for (std::size_t i = 0; i < name.size() && name != "%"; ++i) {
        if (name[i] != '%') {
            id += name[i];
            continue;
        }
        const auto high = i + 1 < name.size() ? hex_value(name[i + 1]) : -1;
        const auto low = i + 2 < name.size() ? hex_value(name[i + 2]) : -1;
        if (high < 0 || low < 0)
            return std::nullopt;
        id += static_cast<char>(high * 16 + low);
        i += 2;
    }
    if (to_name(id) != name)
        return std::nullopt; // another spelling
    return id;
}

} // namespace waymark::file
