#include "packed_list.hpp"

#include "digest.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <unordered_set>

namespace waymark::tables {

namespace {

constexpr std::size_t inline_bytes = 1024;
constexpr std::size_t longest_run = 64;
constexpr int deepest = 16; // groups of groups; sixteen levels hold more than any state

// A group may stand in several places, and groups of groups multiply: a few hundred forged bytes could keep a
// reader busy for years. What was written stays below this: a group is repeated under another key each time,
// which takes bytes of its own, so that n bytes hold some n * n / 160 items, of eleven bytes each at least. A
// state of the gigabyte that a row can hold has 730 items for a byte then.
constexpr std::size_t items_per_byte = 1024;
constexpr std::size_t items_in_any_case = std::size_t{1} << 16;

[[noreturn]] void fail_unreadable()
{
    throw error(errc::corrupt, "a stored list cannot be read");
}

//! FNV-1a: only decides where runs end.
std::uint32_t key_hash(item_kind kind, std::string_view key)
{
    std::uint32_t hash = 2166136261u ^ static_cast<std::uint32_t>(kind);
    for (const auto c : key)
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return hash ^ (hash >> 15);
}

bool ends_run(std::uint32_t key)
{
    return key % 16 == 0;
}

} // namespace

std::uint64_t reference_check(std::string_view hash) noexcept
{
    std::uint64_t check = 0;
    for (std::size_t i = 0; i < 8 && i < hash.size(); ++i)
        check = check << 8 | static_cast<unsigned char>(hash[i]);
    return check;
}

void append_number(std::string& to, std::uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        to += static_cast<char>(number | 0x80);
    to += static_cast<char>(number);
}

void list_writer::begin_item(item_kind kind, std::string_view key)
{
    parts_.push_back({bytes_.size(), key_hash(kind, key)});
    bytes_ += static_cast<char>(kind);
}

void list_writer::add_reference(object_reference object)
{
    append_number(bytes_, static_cast<std::uint64_t>(object.number));
    for (int shift = 56; shift >= 0; shift -= 8)
        bytes_ += static_cast<char>(object.check >> shift);
}

void list_writer::add_extent(extent numbers)
{
    begin_item(item_kind::extent, std::to_string(numbers.first));
    append_number(bytes_, static_cast<std::uint64_t>(numbers.first));
    append_number(bytes_, static_cast<std::uint64_t>(numbers.count));
}

void list_writer::add_member(std::string_view key, std::string_view json)
{
    begin_item(item_kind::member, key);
    append_number(bytes_, key.size());
    bytes_ += key;
    append_number(bytes_, json.size());
    bytes_ += json;
}

void list_writer::add_member_at(std::string_view key, object_reference object)
{
    begin_item(item_kind::member_at, key);
    append_number(bytes_, key.size());
    bytes_ += key;
    add_reference(object);
}

void list_writer::open_object(std::string_view key)
{
    begin_item(item_kind::open_object, key);
    append_number(bytes_, key.size());
    bytes_ += key;
}

void list_writer::close_object()
{
    begin_item(item_kind::close_object, {});
}

list_writer list_writer::cut_into_groups(object_sink& objects) const
{
    list_writer groups;
    std::size_t first = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const bool is_last = i + 1 == parts_.size();
        if (!is_last && !ends_run(parts_[i].key) && i - first + 1 < longest_run)
            continue;
        const auto begin = parts_[first].begin;
        const auto end = is_last ? bytes_.size() : parts_[i + 1].begin;
        const auto object = objects.store(std::string_view(bytes_).substr(begin, end - begin));
        groups.begin_item(item_kind::group, std::to_string(object.number));
        groups.add_reference(object);
        first = i + 1;
    }
    return groups;
}

std::string list_writer::finish(object_sink& objects)
{
    while (bytes_.size() > inline_bytes) {
        auto groups = cut_into_groups(objects);
        if (groups.bytes_.size() >= bytes_.size())
            break; // cannot happen with runs of sixteen on average, and must not loop if it does
        *this = std::move(groups);
    }
    return std::move(bytes_);
}

std::string_view byte_reader::take(std::size_t count)
{
    if (count > left_.size())
        fail_unreadable();
    const auto taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
}

std::uint64_t byte_reader::take_number()
{
    std::uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const auto byte = static_cast<unsigned char>(take(1)[0]);
        number |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return number;
    }
    fail_unreadable();
}

bool list_reader::next(item& to)
{
    if (bytes_.empty())
        return false;
    to = {};
    to.kind = static_cast<item_kind>(bytes_.take(1)[0]);
    const auto take_reference = [this] {
        const auto number = static_cast<std::int64_t>(bytes_.take_number());
        return object_reference{number, reference_check(bytes_.take(8))};
    };
    switch (to.kind) {
    case item_kind::group:
        to.object = take_reference();
        return true;
    case item_kind::extent:
        to.numbers.first = static_cast<std::int64_t>(bytes_.take_number());
        to.numbers.count = static_cast<std::int64_t>(bytes_.take_number());
        if (!to.numbers.is_sound())
            fail_unreadable();
        return true;
    case item_kind::member:
        to.key = bytes_.take(bytes_.take_number());
        to.value = bytes_.take(bytes_.take_number());
        return true;
    case item_kind::member_at:
        to.key = bytes_.take(bytes_.take_number());
        to.object = take_reference();
        return true;
    case item_kind::open_object:
        to.key = bytes_.take(bytes_.take_number());
        return true;
    case item_kind::close_object:
        return true;
    }
    fail_unreadable();
}

void object_map::read(transaction& from, std::int64_t agent, const std::vector<object_reference>& wanted)
{
    std::vector<std::int64_t> numbers;
    for (const auto& reference : wanted)
        numbers.push_back(reference.number);
    read(from, agent, numbers);
}

void object_map::read(transaction& from, std::int64_t agent, std::span<const std::int64_t> wanted)
{
    std::vector<std::int64_t> numbers;
    for (const auto number : wanted)
        if (entries_.try_emplace(number, entry{{}, {}, "is missing"}).second)
            numbers.push_back(number);
    if (numbers.empty())
        return;
    std::sort(numbers.begin(), numbers.end());
    from.read_objects(agent, numbers, [&](object_row&& row) {
        auto& found = entries_[row.number];
        found.damage = view(sha256(row.body)) == row.hash ? nullptr : "is damaged (its stored hash differs)";
        found.hash = std::move(row.hash);
        found.body = std::move(row.body);
        bytes_ += found.body.size();
        return true;
    });
}

template <class IsWanted>
std::string_view object_map::find(std::int64_t number, IsWanted is_wanted) const
{
    const auto found = entries_.find(number);
    const auto* damage = found == entries_.end() ? "is missing" : found->second.damage;
    if (damage == nullptr && !is_wanted(found->second.hash))
        damage = "is damaged (another one is in its place)";
    if (damage != nullptr)
        throw error(errc::corrupt, "stored object " + std::to_string(number) + " " + damage);
    return found->second.body;
}

std::string_view object_map::at(const object_reference& wanted) const
{
    return find(wanted.number, [&](std::string_view hash) { return reference_check(hash) == wanted.check; });
}

std::string_view object_map::at(std::int64_t number, std::string_view hash) const
{
    return find(number, [&](std::string_view stored) { return stored == hash; });
}

void list_walker::fetch(std::string_view list, values which)
{
    std::vector<std::string_view> level = {list};
    for (int depth = 0; !level.empty(); ++depth) {
        if (depth > deepest)
            fail_unreadable();
        std::vector<object_reference> wanted;
        std::vector<object_reference> groups;
        for (const auto part : level) {
            list_reader reader(part);
            for (item next; reader.next(next);) {
                if (next.kind == item_kind::group)
                    groups.push_back(next.object);
                if (next.kind == item_kind::group ||
                    (next.kind == item_kind::member_at && which == values::read))
                    wanted.push_back(next.object);
            }
        }
        objects_.read(from_, agent_, wanted);
        level.clear();
        std::unordered_set<std::int64_t> entered; // one that stands there twice is read once
        for (const auto& group : groups)
            if (const auto part = objects_.at(group); entered.insert(group.number).second)
                level.push_back(part);
    }
}

void list_walker::walk(std::string_view list, const std::function<void(const item&)>& visit,
                       const std::function<void(const object_reference&)>& enter) const
{
    auto left = items_in_any_case + items_per_byte * (list.size() + objects_.bytes());
    walk(list, visit, enter, 0, left);
}

void list_walker::walk(std::string_view list, const std::function<void(const item&)>& visit,
                       const std::function<void(const object_reference&)>& enter, int depth,
                       std::size_t& left) const
{
    if (depth > deepest)
        fail_unreadable();
    list_reader reader(list);
    for (item next; reader.next(next);) {
        if (left-- == 0)
            fail_unreadable();
        if (next.kind != item_kind::group) {
            visit(next);
            continue;
        }
        if (enter)
            enter(next.object);
        walk(objects_.at(next.object), visit, enter, depth + 1, left);
    }
}

} // namespace waymark::tables
