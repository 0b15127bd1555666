#include "json_document.hpp"

#include "text.hpp"
#include "timestamp.hpp"

#include <waymark/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace waymark::detail {

namespace json = boost::json;

namespace {

//! Builds a value from the parser's events. `refusal` is set when the text is JSON that must not pass.
struct exact_builder {
    static constexpr std::size_t max_object_size = json::object::max_size();
    static constexpr std::size_t max_array_size = json::array::max_size();
    static constexpr std::size_t max_key_size = json::string::max_size();
    static constexpr std::size_t max_string_size = json::string::max_size();

    json::value_stack stack;
    std::string number; // the digits so far, when they arrive in parts
    std::string refusal;

    bool refuse(std::string why, json::error_code& ec)
    {
        refusal = std::move(why);
        ec = json::error::syntax;
        return false;
    }

    bool on_document_begin(json::error_code&)
    {
        stack.reset();
        return true;
    }
    bool on_document_end(json::error_code&) { return true; }
    bool on_object_begin(json::error_code&) { return true; }
    bool on_object_end(std::size_t count, json::error_code&)
    {
        stack.push_object(count);
        return true;
    }
    bool on_array_begin(json::error_code&) { return true; }
    bool on_array_end(std::size_t count, json::error_code&)
    {
        stack.push_array(count);
        return true;
    }
    bool on_key_part(json::string_view part, std::size_t, json::error_code&)
    {
        stack.push_chars(part);
        return true;
    }
    bool on_key(json::string_view part, std::size_t, json::error_code&)
    {
        stack.push_key(part);
        return true;
    }
    bool on_string_part(json::string_view part, std::size_t, json::error_code&)
    {
        stack.push_chars(part);
        return true;
    }
    bool on_string(json::string_view part, std::size_t, json::error_code&)
    {
        stack.push_string(part);
        return true;
    }
    bool on_number_part(json::string_view part, json::error_code&)
    {
        number += part;
        return true;
    }
    bool on_int64(std::int64_t value, json::string_view, json::error_code&)
    {
        number.clear();
        stack.push_int64(value);
        return true;
    }
    bool on_uint64(std::uint64_t value, json::string_view, json::error_code&)
    {
        number.clear();
        stack.push_uint64(value);
        return true;
    }
    bool on_double(double approximation, json::string_view part, json::error_code& ec)
    {
        number += part;
        if (number.find_first_of(".eE") == std::string::npos)
            return refuse("integer " + quoted(number) + " does not fit 64 bits; send it as a string", ec);
        double value = 0;
        const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), value);
        if (failure == std::errc::result_out_of_range) {
            if (std::abs(approximation) > 1)
                return refuse("number " + quoted(number) + " is beyond the range of a double", ec);
            value = std::signbit(approximation) ? -0.0 : 0.0; // too small to tell from zero
        }
        number.clear();
        stack.push_double(value);
        return true;
    }
    bool on_bool(bool value, json::error_code&)
    {
        stack.push_bool(value);
        return true;
    }
    bool on_null(json::error_code&)
    {
        stack.push_null();
        return true;
    }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }
};

struct checker {
    std::size_t max_depth;
    std::string_view what;
    std::size_t deepest = 0;

    [[noreturn]] void fail(std::string_view complaint, std::string_view path) const
    {
        throw error(errc::invalid_argument, std::string(what) +
                                                (path.empty() ? "" : " (member " + quoted(path) + ")") + " " +
                                                std::string(complaint));
    }

    void enter(std::size_t depth, std::string_view path)
    {
        if (depth > max_depth)
            fail("nests deeper than " + std::to_string(max_depth) +
                     " levels; flatten it or raise limits::max_depth",
                 path);
        deepest = std::max(deepest, depth);
    }

    void check_text(std::string_view text, std::string_view path) const
    {
        if (!is_valid_utf8(text))
            fail("holds text that is not valid UTF-8; convert or escape it first", path);
    }

    // `path` names the top-level member, which is enough to find the culprit.
    void check(const json::object& object, std::size_t depth, std::string_view path)
    {
        enter(depth, path);
        for (const auto& [key, value] : object) {
            const auto member = path.empty() ? std::string_view(key) : path;
            check_text(key, member);
            check(value, depth, member);
        }
    }

    void check(const json::value& value, std::size_t depth, std::string_view path)
    {
        switch (value.kind()) {
        case json::kind::object:
            return check(value.get_object(), depth + 1, path);
        case json::kind::array:
            enter(depth + 1, path);
            for (const auto& element : value.get_array())
                check(element, depth + 1, path);
            return;
        case json::kind::string:
            return check_text(value.get_string(), path);
        case json::kind::double_:
            if (!std::isfinite(value.get_double()))
                fail("holds NaN or an infinity, which JSON cannot express; use null or a string", path);
            return;
        default:
            return;
        }
    }
};

} // namespace

json::value parse_json(std::string_view text, std::size_t max_depth, std::string_view what)
{
    json::parse_options options;
    options.max_depth = max_depth;
    json::basic_parser<exact_builder> parser(options);
    json::error_code failure;
    const auto consumed = parser.write_some(false, text.data(), text.size(), failure);
    if (!failure && consumed < text.size())
        failure = json::error::extra_data;
    if (!failure)
        return parser.handler().stack.release();

    std::string complaint = parser.handler().refusal;
    if (complaint.empty())
        complaint = failure == json::error::too_deep
                        ? "it nests deeper than " + std::to_string(max_depth) + " levels"
                        : "it is not JSON: " + failure.message();
    throw error(errc::invalid_argument,
                std::string(what) + " cannot be read at byte " + std::to_string(consumed) + ": " + complaint);
}

std::size_t payload_bytes(const json::object& object) noexcept
{
    std::size_t sum = 0;
    for (const auto& member : object)
        sum += member.key().size() + payload_bytes(member.value());
    return sum;
}

std::size_t payload_bytes(const json::value& value) noexcept
{
    switch (value.kind()) {
    case json::kind::object:
        return 8 + payload_bytes(value.get_object());
    case json::kind::array: {
        std::size_t sum = 8;
        for (const auto& element : value.get_array())
            sum += payload_bytes(element);
        return sum;
    }
    case json::kind::string:
        return value.get_string().size();
    default:
        return 8;
    }
}

std::size_t check_json(const json::value& value, std::size_t max_depth, std::string_view what)
{
    checker run{max_depth, what};
    run.check(value, 0, {});
    return run.deepest;
}

std::size_t check_json(const json::object& object, std::size_t max_depth, std::string_view what)
{
    checker run{max_depth, what};
    run.check(object, 1, {});
    return object.empty() ? 0 : run.deepest;
}

bool same_content(const json::object& left, const json::object& right) noexcept
{
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](const json::key_value_pair& a, const json::key_value_pair& b) {
                          return a.key() == b.key() && same_content(a.value(), b.value());
                      });
}

bool same_content(const json::value& left, const json::value& right) noexcept
{
    if (left.kind() != right.kind()) {
        // An integer has the same text whichever type holds it; a double never has that of an integer.
        const auto is_same = [](const json::value& number, const json::value& other) {
            return number.is_int64() && other.is_uint64() && number.get_int64() >= 0 &&
                   static_cast<std::uint64_t>(number.get_int64()) == other.get_uint64();
        };
        return is_same(left, right) || is_same(right, left);
    }
    switch (left.kind()) {
    case json::kind::object:
        return same_content(left.get_object(), right.get_object());
    case json::kind::array:
        return std::equal(left.get_array().begin(), left.get_array().end(), right.get_array().begin(),
                          right.get_array().end(),
                          [](const json::value& a, const json::value& b) { return same_content(a, b); });
    case json::kind::double_: // the shortest text that is read as the same bits
        return std::bit_cast<std::uint64_t>(left.get_double()) ==
               std::bit_cast<std::uint64_t>(right.get_double());
    default:
        return left == right;
    }
}

json::object rehome(json::object&& object)
{
    return json::object(std::move(object), json::storage_ptr{});
}

object_reader::object_reader(const json::value& value, std::string what)
    : what_(std::move(what)), object_(value.if_object())
{
    if (object_ == nullptr)
        throw error(errc::invalid_argument, what_ + " must be a JSON object");
}

void object_reader::fail(std::string_view key, std::string_view complaint) const
{
    throw error(errc::invalid_argument, what_ + ": member " + quoted(key) + " " + std::string(complaint));
}

const json::value* object_reader::find(std::string_view key) const
{
    return object_->if_contains(key);
}

const json::value& object_reader::require(std::string_view key) const
{
    const auto* value = find(key);
    if (value == nullptr)
        fail(key, "is missing");
    return *value;
}

std::string object_reader::string(std::string_view key) const
{
    const auto& value = require(key);
    if (!value.is_string())
        fail(key, "must be a string");
    return std::string(value.get_string());
}

std::string object_reader::string_or(std::string_view key, std::string_view fallback) const
{
    return find(key) == nullptr ? std::string(fallback) : string(key);
}

std::optional<std::string> object_reader::optional_string(std::string_view key) const
{
    const auto* value = find(key);
    if (value == nullptr || value->is_null())
        return std::nullopt;
    return string(key);
}

std::int64_t object_reader::integer_or(std::string_view key, std::int64_t fallback) const
{
    const auto* value = find(key);
    if (value == nullptr)
        return fallback;
    json::error_code failure;
    const auto number = value->is_double() ? 0 : value->to_number<std::int64_t>(failure);
    if (value->is_double() || failure)
        fail(key, "must be an integer of 64 bits");
    return number;
}

std::uint64_t object_reader::unsigned_or(std::string_view key, std::uint64_t fallback) const
{
    const auto* value = find(key);
    if (value == nullptr)
        return fallback;
    json::error_code failure;
    const auto number = value->is_double() ? 0 : value->to_number<std::uint64_t>(failure);
    if (value->is_double() || failure)
        fail(key, "must be an integer from 0 to 2^64-1");
    return number;
}

bool object_reader::boolean_or(std::string_view key, bool fallback) const
{
    const auto* value = find(key);
    if (value == nullptr)
        return fallback;
    if (!value->is_bool())
        fail(key, "must be true or false");
    return value->get_bool();
}

timestamp object_reader::time(std::string_view key) const
{
    return from_rfc3339(string(key), what_ + ": member " + quoted(key));
}

json::object object_reader::object(std::string_view key) const
{
    const auto* value = find(key);
    if (value == nullptr || value->is_null())
        return {};
    if (!value->is_object())
        fail(key, "must be an object");
    return json::object(value->get_object(), json::storage_ptr{});
}

void object_reader::refuse_others(std::initializer_list<std::string_view> known,
                                  std::string_view remedy) const
{
    for (const auto& member : *object_)
        if (std::find(known.begin(), known.end(), member.key()) == known.end())
            fail(member.key(), "is not known; " + std::string(remedy));
}

} // namespace waymark::detail
