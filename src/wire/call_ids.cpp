#include "call_ids.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace waymark::wire {

namespace {

//! Some APIs take 40 characters at most, so the id of the message goes in by its hash (FNV-1a).
std::string id_of_place(const message& of, std::size_t part)
{
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : of.id())
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::string id = "call_";
    for (int shift = 60; shift >= 0; shift -= 4)
        id += "0123456789abcdef"[hash >> shift & 0xf];
    return id + "_" + std::to_string(part);
}

} // namespace

std::vector<std::string> choose_call_ids(const detail::tool_pairing& pairing,
                                         std::span<const message* const> messages,
                                         const std::vector<bool>& is_native, const api_rules& api)
{
    std::vector<std::string> chosen(pairing.calls.size());
    std::unordered_set<std::string> used;
    for (std::size_t i = 0; i < chosen.size(); ++i)
        if (const auto& call = pairing.calls[i]; is_native[call.message]) {
            chosen[i] = call.id;
            used.insert(chosen[i]);
        }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto& call = pairing.calls[i];
        if (is_native[call.message])
            continue;
        chosen[i] = call.id;
        if (api.takes_id(chosen[i]) && (chosen[i].empty() || used.insert(chosen[i]).second))
            continue;
        chosen[i] = id_of_place(*messages[call.message], call.part);
        while (!used.insert(chosen[i]).second) // somebody else calls them so, too
            chosen[i] += "_";
    }
    return chosen;
}

std::string id_without_call(std::string_view given, const message& of, std::size_t part, const api_rules& api)
{
    return api.takes_id(given) ? std::string(given) : id_of_place(of, part);
}

bool is_plain_id(std::string_view id) noexcept
{
    return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-';
    });
}

} // namespace waymark::wire
