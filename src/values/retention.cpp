#include "json_document.hpp"

#include <waymark/error.hpp>
#include <waymark/retention.hpp>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace waymark {

namespace json = boost::json;

namespace {

constexpr std::size_t kept_by_thinning = 20; // the newest, as in Breakpilot

using marks = std::vector<bool>; // true: goes

void mark_all_but_newest(marks& gone, std::size_t count)
{
    for (std::size_t i = 0; i + count < gone.size(); ++i)
        gone[i] = true;
}

void mark_older_than(marks& gone, std::span<const retention_candidate> list, timestamp limit)
{
    for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].created_at < limit)
            gone[i] = true;
}

void mark_beyond_bytes(marks& gone, std::span<const retention_candidate> list, std::uint64_t limit)
{
    std::uint64_t left = limit;
    for (auto i = list.size(); i-- > 0;) {
        if (list[i].held_bytes > left) {
            for (std::size_t older = 0; older <= i; ++older)
                gone[older] = true;
            return;
        }
        left -= list[i].held_bytes;
    }
}

void mark_thinned(marks& gone, std::span<const retention_candidate> list)
{
    if (list.size() <= kept_by_thinning + 1)
        return;
    const auto middle_end = list.size() - kept_by_thinning;
    std::unordered_map<std::string_view, std::size_t> newest_of_name;
    for (std::size_t i = 1; i < middle_end; ++i)
        newest_of_name[list[i].name] = i;
    for (std::size_t i = 1; i < middle_end; ++i)
        if (newest_of_name[list[i].name] != i)
            gone[i] = true;
}

} // namespace

retention& retention::only_scope(std::string scope)
{
    validate_label(scope, "the scope");
    scope_ = std::move(scope);
    return *this;
}

std::vector<std::size_t> retention::select(std::span<const retention_candidate> oldest_first,
                                           timestamp at) const
{
    marks gone(oldest_first.size(), false);
    if (keep_last_)
        mark_all_but_newest(gone, *keep_last_);
    if (max_age_)
        mark_older_than(gone, oldest_first,
                        at - std::clamp(*max_age_, std::chrono::microseconds::zero(),
                                        std::chrono::microseconds::max() / 2));
    if (max_bytes_)
        mark_beyond_bytes(gone, oldest_first, *max_bytes_);
    if (thin_after_ && oldest_first.size() > *thin_after_)
        mark_thinned(gone, oldest_first);

    std::vector<std::size_t> selected;
    for (std::size_t i = 0; i + 1 < gone.size(); ++i) // the last is the head
        if (gone[i] && !oldest_first[i].is_protected)
            selected.push_back(i);
    return selected;
}

void tag_invoke(json::value_from_tag, json::value& to, const retention& from)
{
    auto& object = to.emplace_object();
    if (from.keep_last())
        object["keep_last"] = *from.keep_last();
    if (from.max_age())
        object["max_age_microseconds"] = from.max_age()->count();
    if (from.max_bytes())
        object["max_bytes"] = *from.max_bytes();
    if (from.thin_after())
        object["thin_after"] = *from.thin_after();
    if (from.scope())
        object["scope"] = *from.scope();
}

retention tag_invoke(json::value_to_tag<retention>, const json::value& from)
{
    const detail::object_reader reader(from, "retention");
    reader.refuse_others({"keep_last", "max_age_microseconds", "max_bytes", "thin_after", "scope"},
                         "those are the policies");
    retention result;
    if (reader.find("keep_last"))
        result.keep_last(reader.unsigned_or("keep_last", 0));
    if (reader.find("max_age_microseconds"))
        result.max_age(std::chrono::microseconds{reader.integer_or("max_age_microseconds", 0)});
    if (reader.find("max_bytes"))
        result.max_bytes(reader.unsigned_or("max_bytes", 0));
    if (reader.find("thin_after"))
        result.thin_after(reader.unsigned_or("thin_after", 0));
    if (auto scope = reader.optional_string("scope"))
        result.only_scope(std::move(*scope));
    return result;
}

} // namespace waymark
