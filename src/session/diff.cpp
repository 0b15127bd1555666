#include "../values/json_document.hpp"

#include <waymark/diff.hpp>

#include <algorithm>
#include <unordered_map>

namespace waymark {

namespace json = boost::json;

namespace {

//! A member's name as a part of a JSON pointer.
std::string escaped(std::string_view key)
{
    std::string result;
    for (const char c : key) {
        if (c == '~')
            result += "~0";
        else if (c == '/')
            result += "~1";
        else
            result += c;
    }
    return result;
}

void compare(const json::object& from, const json::object& to, const std::string& path,
             std::vector<member_change>& changes)
{
    for (const auto& member : from) {
        const auto here = path + "/" + escaped(member.key());
        const auto* other = to.if_contains(member.key());
        if (other == nullptr)
            changes.emplace_back(here, member.value(), std::nullopt);
        else if (member.value().is_object() && other->is_object())
            compare(member.value().get_object(), other->get_object(), here, changes);
        else if (!detail::same_content(member.value(), *other))
            changes.emplace_back(here, member.value(), *other);
    }
    for (const auto& member : to)
        if (!from.contains(member.key()))
            changes.emplace_back(path + "/" + escaped(member.key()), std::nullopt, member.value());
}

//! Numbers that are equal where messages are.
class message_numbers {
public:
    std::size_t of(const message& value)
    {
        const auto hash = std::hash<std::string_view>()(value.id()) ^ value.bytes() * 31U;
        auto& known = numbers_[hash];
        for (const auto& [other, number] : known)
            if (*other == value)
                return number;
        known.emplace_back(&value, count_);
        return count_++;
    }

private:
    std::unordered_map<std::size_t, std::vector<std::pair<const message*, std::size_t>>> numbers_;
    std::size_t count_ = 0;
};

using index_pair = std::pair<std::size_t, std::size_t>;

//! Pairs of equal messages, as indices, ascending on both sides: as many as there can be, unless equal ones
//! are repeated so often that only the nearest are looked at. What moved is not among them.
std::vector<index_pair> common_in_order(const std::vector<message>& left, const std::vector<message>& right)
{
    constexpr std::size_t most_pairs = 4'000'000;
    constexpr auto none = static_cast<std::size_t>(-1);
    const auto nearest = std::max<std::size_t>(most_pairs / (right.size() + 1), 1);

    message_numbers numbers;
    std::unordered_map<std::size_t, std::vector<std::size_t>> places; // of each number in `left`
    for (std::size_t i = 0; i < left.size(); ++i)
        places[numbers.of(left[i])].push_back(i);
    std::unordered_map<std::size_t, std::size_t> occurrences; // in `right`, so far

    // Hunt and Szymanski's: the longest run of pairs that ascends on both sides.
    struct run {
        index_pair last;
        std::size_t before;
    };
    std::vector<run> runs;
    std::vector<std::size_t> best; // for each length, the run of that length that ends first in `left`
    for (std::size_t i = 0; i < right.size(); ++i) {
        const auto number = numbers.of(right[i]);
        const auto found = places.find(number);
        if (found == places.end())
            continue;
        const auto& equal = found->second;
        const auto occurrence = occurrences[number]++;
        const auto begin = occurrence - std::min(occurrence, nearest / 2);
        const auto end = std::min(equal.size(), begin + nearest);
        for (auto k = end; k-- > begin;) { // backwards: one message of `right` is in a run once
            const auto place = equal[k];
            const auto where =
                std::lower_bound(best.begin(), best.end(), place, [&](std::size_t one, std::size_t wanted) {
                    return runs[one].last.first < wanted;
                });
            if (where != best.end() && runs[*where].last.first == place)
                continue;
            runs.push_back({{place, i}, where == best.begin() ? none : *std::prev(where)});
            if (where == best.end())
                best.push_back(runs.size() - 1);
            else
                *where = runs.size() - 1;
        }
    }
    std::vector<index_pair> result;
    for (auto i = best.empty() ? none : best.back(); i != none; i = runs[i].before)
        result.push_back(runs[i].last);
    std::reverse(result.begin(), result.end());
    return result;
}

} // namespace

checkpoint_diff::checkpoint_diff(const checkpoint& from, const checkpoint& to)
{
    const auto& left = from.conversation();
    const auto& right = to.conversation();
    // Two points of one history share most of what they have, and only what is behind that is looked at.
    std::size_t same = left.shared_prefix(right);
    while (same < left.size() && same < right.size() && left[same] == right[same])
        ++same;
    std::size_t same_at_end = 0;
    while (same_at_end < std::min(left.size(), right.size()) - same &&
           left[left.size() - 1 - same_at_end] == right[right.size() - 1 - same_at_end])
        ++same_at_end;
    std::vector<message> only_left;
    std::vector<message> only_right;
    for (auto i = same; i < left.size() - same_at_end; ++i)
        only_left.push_back(left[i]);
    for (auto i = same; i < right.size() - same_at_end; ++i)
        only_right.push_back(right[i]);
    const auto common = common_in_order(only_left, only_right);
    shared_ = same + common.size() + same_at_end;
    auto next = common.begin();
    for (std::size_t i = 0; i < only_left.size(); ++i) {
        if (next != common.end() && next->first == i)
            ++next;
        else
            removed_.push_back(only_left[i]);
    }
    next = common.begin();
    for (std::size_t i = 0; i < only_right.size(); ++i) {
        if (next != common.end() && next->second == i)
            ++next;
        else
            added_.push_back(only_right[i]);
    }
    if (!from.shares_state(to))
        compare(from.state(), to.state(), {}, state_);
    compare(from.metadata(), to.metadata(), {}, metadata_);
}

} // namespace waymark
