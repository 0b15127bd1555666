//! JSON as Waymark reads and checks it: exact numbers, valid text, bounded depth, errors that name the
//! member.
#pragma once

#include <waymark/limits.hpp>
#include <waymark/message.hpp>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace waymark::detail {

//! Parses one document. Boost.JSON's own parser is off by one unit in the last place for a quarter of all
//! doubles and turns integers beyond 64 bits into doubles; this one is exact and refuses the latter.
//! @throws waymark::error `invalid_argument` that says where and what.
boost::json::value parse_json(std::string_view text, std::size_t max_depth, std::string_view what);

//! The payload of a value (see `limits`). Looks at no text.
std::size_t payload_bytes(const boost::json::value& value) noexcept;
std::size_t payload_bytes(const boost::json::object& object) noexcept;

//! Checks that a value can be written and read back: valid UTF-8, finite numbers, no deeper than `max_depth`.
//! Returns how deep it nests (0 for a scalar).
//! @throws waymark::error `invalid_argument` that names `what` and the member.
std::size_t check_json(const boost::json::value& value, std::size_t max_depth, std::string_view what);
std::size_t check_json(const boost::json::object& object, std::size_t max_depth, std::string_view what);

//! Whether two values are the same content: whether `boost::json::serialize` gives the same bytes for both.
//! Boost.JSON's operator == does not say that: it ignores the order of members and the sign of a zero. What
//! it takes for equal would not be written, or be lost.
bool same_content(const boost::json::value& left, const boost::json::value& right) noexcept;
bool same_content(const boost::json::object& left, const boost::json::object& right) noexcept;

//! The same object in the default memory resource.
boost::json::object rehome(boost::json::object&& object);

//! Reads the members of an object one by one, with errors that say whose member was wrong.
class object_reader {
public:
    //! @throws waymark::error `invalid_argument` if `value` is not an object.
    object_reader(const boost::json::value& value, std::string what);
    object_reader(boost::json::value&& temporary, std::string what) = delete; // it refers to the value

    //! Null when it is absent.
    const boost::json::value* find(std::string_view key) const;
    const boost::json::value& require(std::string_view key) const;

    std::string string(std::string_view key) const;
    std::string string_or(std::string_view key, std::string_view fallback) const;
    //! Absent and null are none.
    std::optional<std::string> optional_string(std::string_view key) const;
    std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
    std::uint64_t unsigned_or(std::string_view key, std::uint64_t fallback) const;
    bool boolean_or(std::string_view key, bool fallback) const;
    waymark::timestamp time(std::string_view key) const;
    //! Absent and null are an empty object.
    boost::json::object object(std::string_view key) const;

    //! Refuses members that nobody asked for, so that nothing is lost without a word.
    void refuse_others(std::initializer_list<std::string_view> known, std::string_view remedy) const;

    [[noreturn]] void fail(std::string_view key, std::string_view complaint) const;

private:
    std::string what_;
    const boost::json::object* object_;
};

} // namespace waymark::detail
