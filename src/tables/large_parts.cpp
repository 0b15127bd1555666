#include "large_parts.hpp"

#include "digest.hpp"
#include "quick_checksum.hpp"

#include <waymark/error.hpp>

#include <charconv>
#include <cstring>

namespace waymark::tables {

namespace {

// A few forged bytes may name a large object again and again. No message becomes longer than this.
constexpr std::size_t longest_text = std::size_t{1} << 31;
constexpr std::size_t hash_bytes = 32;

struct slice {
    std::size_t begin;
    std::size_t size;
};

//! Where a string ends whose content begins there: at its closing quote.
std::size_t end_of_string(std::string_view json, std::size_t begin)
{
    for (auto at = begin;; ++at) {
        at = json.find('"', at);
        if (at == std::string_view::npos)
            return json.size();
        auto backslashes = at;
        while (backslashes > begin && json[backslashes - 1] == '\\')
            --backslashes;
        if ((at - backslashes) % 2 == 0)
            return at;
    }
}

//! The large parts: what is between the quotes of a long string, and lists and objects that are long although
//! everything in them is short. The message itself is none, nor is its item.
std::vector<slice> find_large_parts(std::string_view json)
{
    std::vector<slice> found;
    if (json.size() <= large_part_bytes)
        return found;
    struct container {
        std::size_t begin;
        std::size_t slices_before;
    };
    std::vector<container> open;
    for (std::size_t at = 0; at < json.size(); ++at) {
        switch (json[at]) {
        case '"': {
            const auto end = end_of_string(json, at + 1);
            if (end - at - 1 > large_part_bytes)
                found.push_back({at + 1, end - at - 1});
            at = end;
            break;
        }
        case '{':
        case '[':
            open.push_back({at, found.size()});
            break;
        case '}':
        case ']': {
            if (open.empty())
                return {}; // no JSON
            const auto closed = open.back();
            open.pop_back();
            if (const auto size = at + 1 - closed.begin;
                open.size() > 1 && size > large_part_bytes && found.size() == closed.slices_before)
                found.push_back({closed.begin, size});
            break;
        }
        default:
            break;
        }
    }
    return found;
}

[[noreturn]] void fail_damaged_line(const char* what)
{
    throw error(errc::corrupt, what);
}

int digit_of(char hex)
{
    if (hex >= '0' && hex <= '9')
        return hex - '0';
    if (hex >= 'a' && hex <= 'f')
        return hex - 'a' + 10;
    fail_damaged_line("the hash of a large part cannot be read");
}

std::string from_hex(std::string_view hex)
{
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes += static_cast<char>(digit_of(hex[i]) << 4 | digit_of(hex[i + 1]));
    return bytes;
}

std::string parts_check(std::string_view numbers, std::int64_t first)
{
    auto value = quick_checksum(numbers, static_cast<std::uint64_t>(first));
    std::string bytes;
    for (int i = 0; i < 8; ++i, value >>= 8)
        bytes += static_cast<char>(value & 0xff);
    return bytes;
}

} // namespace

outlined_message::outlined_message(std::string json) : json_(std::move(json))
{
    if (json_.size() > longest_text)
        throw error(errc::invalid_argument,
                    "a message takes " + std::to_string(json_.size()) + " bytes as JSON, more than 2 GiB");
    std::string text;
    std::size_t end = 0; // of the part before
    for (const auto& [begin, size] : find_large_parts(json_)) {
        text.append(json_, end, begin - end);
        end = begin + size;
        parts_.push_back(
            {begin, size, std::string(view(sha256(std::string_view(json_).substr(begin, size))))});
        line_ +=
            (line_.empty() ? "#" : "") + std::to_string(text.size()) + ':' + to_hex(parts_.back().hash) + ';';
    }
    if (parts_.empty())
        return;
    text.append(json_, end);
    line_ += '#' + text;
}

std::vector<std::int64_t> outlined_message::store_parts(object_sink& objects) const
{
    std::vector<std::string_view> hashes;
    for (const auto& next : parts_)
        hashes.push_back(next.hash);
    objects.expect(hashes);
    std::vector<std::int64_t> numbers;
    for (const auto& next : parts_)
        numbers.push_back(objects.store_part(text_of(next), next.hash));
    return numbers;
}

bool is_present_form(std::string_view line)
{
    return line.starts_with('#') || find_large_parts(line).empty();
}

stored_line::stored_line(std::string_view line) : text_(line)
{
    if (!line.starts_with('#'))
        return;
    constexpr auto what = "the places of its large parts cannot be read";
    for (text_.remove_prefix(1); !text_.starts_with('#');) {
        hole next{0, {}};
        const auto* const end = text_.data() + text_.size();
        const auto [after, failure] = std::from_chars(text_.data(), end, next.offset);
        text_.remove_prefix(static_cast<std::size_t>(after - text_.data()));
        if (failure != std::errc() || text_.size() < hash_bytes * 2 + 2 || text_.front() != ':' ||
            text_[hash_bytes * 2 + 1] != ';' || (!holes_.empty() && next.offset <= holes_.back().offset))
            fail_damaged_line(what);
        next.hash = from_hex(text_.substr(1, hash_bytes * 2));
        text_.remove_prefix(hash_bytes * 2 + 2);
        holes_.push_back(std::move(next));
    }
    text_.remove_prefix(1);
    if (holes_.empty() || holes_.back().offset > text_.size())
        fail_damaged_line(what);
}

std::string stored_line::filled(std::span<const std::int64_t> numbers, const object_map& objects) const
{
    if (numbers.size() != holes_.size())
        fail_damaged_line("it has another number of large parts than it should");
    auto size = text_.size();
    for (std::size_t i = 0; i < holes_.size(); ++i) {
        size += objects.at(numbers[i], holes_[i].hash).size();
        if (size > longest_text)
            fail_damaged_line("it is longer than any message");
    }
    std::string json;
    json.reserve(size);
    std::size_t end = 0;
    for (std::size_t i = 0; i < holes_.size(); ++i) {
        json.append(text_, end, holes_[i].offset - end);
        json += objects.at(numbers[i], holes_[i].hash);
        end = holes_[i].offset;
    }
    json.append(text_, end);
    return json;
}

std::string write_parts(std::span<const std::int64_t> numbers, std::int64_t first)
{
    std::string parts;
    if (numbers.empty())
        return parts;
    for (const auto number : numbers)
        append_number(parts, static_cast<std::uint64_t>(number));
    return parts + parts_check(parts, first);
}

std::vector<std::int64_t> read_parts(std::string_view parts, std::int64_t first)
{
    std::vector<std::int64_t> numbers;
    if (parts.empty())
        return numbers;
    constexpr std::size_t check_bytes = 8;
    const auto list = parts.substr(0, parts.size() - std::min(parts.size(), check_bytes));
    if (parts.substr(list.size()) != parts_check(list, first))
        fail_damaged_line("the list of its large parts is damaged");
    for (byte_reader left(list); !left.empty();)
        numbers.push_back(static_cast<std::int64_t>(left.take_number()));
    return numbers;
}

std::span<const std::int64_t> row_parts::take(const stored_line& line)
{
    const auto count = line.holes().size();
    if (count > numbers_.size() - taken_)
        fail_damaged_line("it has another number of large parts than it should");
    const auto taken = std::span(numbers_).subspan(taken_, count);
    taken_ += count;
    return taken;
}

void row_parts::require_end() const
{
    if (taken_ != numbers_.size())
        fail_damaged_line("it has another number of large parts than it should");
}

} // namespace waymark::tables
