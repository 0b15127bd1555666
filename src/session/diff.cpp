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
        else if (member.value() != *other)
            changes.emplace_back(here, member.value(), *other);
    }
    for (const auto& member : to)
        if (!from.contains(member.key()))
            changes.emplace_back(path + "/" + escaped(member.key()), std::nullopt, member.value());
}

//! Pairs of equal messages, as indices, ascending on both sides: as many as there can be. What moved is not
//! among them.
std::vector<std::pair<std::size_t, std::size_t>> common_in_order(const std::vector<message>& left,
                                                                 const std::vector<message>& right)
{
    std::unordered_map<std::string_view, std::vector<std::size_t>> places; // in `left`, by id
    for (auto i = left.size(); i-- > 0;)
        places[left[i].id()].push_back(i);
    std::vector<std::pair<std::size_t, std::size_t>> matches; // in the order of `right`
    for (std::size_t i = 0; i < right.size(); ++i) {
        auto& same_id = places[right[i].id()];
        const auto found = std::find_if(same_id.rbegin(), same_id.rend(),
                                        [&](std::size_t place) { return left[place] == right[i]; });
        if (found == same_id.rend())
            continue;
        matches.emplace_back(*found, i);
        same_id.erase(std::next(found).base());
    }
    // The longest ascending run of left indices.
    constexpr auto none = static_cast<std::size_t>(-1);
    std::vector<std::size_t> ends; // the match that ends the best run of each length
    std::vector<std::size_t> before(matches.size(), none);
    for (std::size_t i = 0; i < matches.size(); ++i) {
        const auto where =
            std::lower_bound(ends.begin(), ends.end(), matches[i].first,
                             [&](std::size_t end, std::size_t place) { return matches[end].first < place; });
        before[i] = where == ends.begin() ? none : *std::prev(where);
        if (where == ends.end())
            ends.push_back(i);
        else
            *where = i;
    }
    std::vector<std::pair<std::size_t, std::size_t>> result;
    for (auto i = ends.empty() ? none : ends.back(); i != none; i = before[i])
        result.push_back(matches[i]);
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
    std::vector<message> only_left;
    std::vector<message> only_right;
    for (auto i = same; i < left.size(); ++i)
        only_left.push_back(left[i]);
    for (auto i = same; i < right.size(); ++i)
        only_right.push_back(right[i]);
    const auto common = common_in_order(only_left, only_right);
    shared_ = same + common.size();
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
