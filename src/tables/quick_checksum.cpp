#include "quick_checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace waymark::tables {

namespace {

constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F, prime3 = 0x165667B19E3779F9,
                        prime4 = 0x85EBCA77C2B2AE63, prime5 = 0x27D4EB2F165667C5;

//! In the order of the bytes, whatever the machine's is.
template <class Number>
std::uint64_t take(std::string_view& from) noexcept
{
    Number value;
    std::memcpy(&value, from.data(), sizeof value);
    if constexpr (std::endian::native == std::endian::big) {
        Number turned = 0;
        for (std::size_t i = 0; i < sizeof value; ++i)
            turned = static_cast<Number>(turned << 8 | ((value >> (8 * i)) & 0xff));
        value = turned;
    }
    from.remove_prefix(sizeof value);
    return value;
}

constexpr std::uint64_t round(std::uint64_t lane, std::uint64_t input) noexcept
{
    return std::rotl(lane + input * prime2, 31) * prime1;
}

} // namespace

std::uint64_t quick_checksum(std::string_view bytes, std::uint64_t seed) noexcept
{
    const auto length = bytes.size();
    std::uint64_t hash = seed + prime5;
    if (length >= 32) {
        std::array lanes = {seed + prime1 + prime2, seed + prime2, seed, seed - prime1};
        while (bytes.size() >= 32)
            for (auto& lane : lanes)
                lane = round(lane, take<std::uint64_t>(bytes));
        hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
               std::rotl(lanes[3], 18);
        for (const auto lane : lanes)
            hash = (hash ^ round(0, lane)) * prime1 + prime4;
    }
    hash += length;
    while (bytes.size() >= 8)
        hash = std::rotl(hash ^ round(0, take<std::uint64_t>(bytes)), 27) * prime1 + prime4;
    if (bytes.size() >= 4)
        hash = std::rotl(hash ^ take<std::uint32_t>(bytes) * prime1, 23) * prime2 + prime3;
    while (!bytes.empty())
        hash = std::rotl(hash ^ take<unsigned char>(bytes) * prime5, 11) * prime1;
    hash = (hash ^ hash >> 33) * prime2;
    hash = (hash ^ hash >> 29) * prime3;
    return hash ^ hash >> 32;
}

} // namespace waymark::tables
