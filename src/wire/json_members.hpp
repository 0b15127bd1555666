//! Looks into JSON that others have made, where nothing may be taken for granted.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace waymark::wire {

//! Null when it is absent. So are the others when it is of another kind.
inline const boost::json::value* find_at(const boost::json::object& in, std::string_view key) noexcept
{
    return in.if_contains(key);
}

inline const boost::json::string* string_at(const boost::json::object& in, std::string_view key) noexcept
{
    const auto* const found = in.if_contains(key);
    return found == nullptr ? nullptr : found->if_string();
}

inline const boost::json::object* object_at(const boost::json::object& in, std::string_view key) noexcept
{
    const auto* const found = in.if_contains(key);
    return found == nullptr ? nullptr : found->if_object();
}

inline const boost::json::array* array_at(const boost::json::object& in, std::string_view key) noexcept
{
    const auto* const found = in.if_contains(key);
    return found == nullptr ? nullptr : found->if_array();
}

//! Empty where there is no such string.
inline std::string_view text_at(const boost::json::object& in, std::string_view key) noexcept
{
    const auto* const found = string_at(in, key);
    return found == nullptr ? std::string_view() : std::string_view(*found);
}

//! Whether it is there, and not null.
inline bool has_value(const boost::json::object& in, std::string_view key) noexcept
{
    const auto* const found = in.if_contains(key);
    return found != nullptr && !found->is_null();
}

inline bool is_one_of(std::string_view text, std::initializer_list<std::string_view> of) noexcept
{
    return std::find(of.begin(), of.end(), text) != of.end();
}

inline bool has_only(const boost::json::object& object,
                     std::initializer_list<std::string_view> members) noexcept
{
    return std::all_of(object.begin(), object.end(),
                       [&](const auto& member) { return is_one_of(member.key(), members); });
}

//! Whether it is a list of objects that all are as the function says.
template <class Predicate>
bool all_objects(const boost::json::value& list, Predicate is_right)
{
    const auto* const array = list.if_array();
    return array != nullptr && std::all_of(array->begin(), array->end(), [&](const boost::json::value& next) {
               return next.is_object() && is_right(next.get_object());
           });
}

//! Whether it is JSON, be its numbers as large as they like.
inline bool is_json(std::string_view text)
{
    boost::json::parse_options options;
    options.max_depth = 1000;
    boost::json::error_code failure;
    boost::json::parse(text, failure, {}, options);
    return !failure;
}

//! Arguments as they may be sent. Some models leave out the braces of an empty object.
inline bool is_blank_or_json(std::string_view text)
{
    return text.find_first_not_of(" \t\r\n") == text.npos || is_json(text);
}

} // namespace waymark::wire
