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

//! Which messages of `these` are not among `others`. A message that stands twice is looked for twice.
std::vector<message> missing_from(const std::vector<message>& these, const std::vector<message>& others)
{
    std::unordered_map<std::string_view, std::vector<const message*>> known;
    for (const auto& other : others)
        known[other.id()].push_back(&other);
    std::vector<message> result;
    for (const auto& one : these) {
        auto& same_id = known[one.id()];
        const auto found =
            std::find_if(same_id.begin(), same_id.end(), [&](const message* other) { return *other == one; });
        if (found == same_id.end())
            result.push_back(one);
        else
            same_id.erase(found);
    }
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
    removed_ = missing_from(only_left, only_right);
    added_ = missing_from(only_right, only_left);
    shared_ = left.size() - removed_.size();
    if (!from.shares_state(to))
        compare(from.state(), to.state(), {}, state_);
    compare(from.metadata(), to.metadata(), {}, metadata_);
}

} // namespace waymark
