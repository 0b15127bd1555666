//! The JSON text of a message, written and read without a document in between: most of the time of a long
//! load would go into making such documents. What is not of the usual form takes the usual way.
#include "json_document.hpp"
#include "message_data.hpp"
#include "text.hpp"
#include "timestamp.hpp"

#include <waymark/checkpoint.hpp>

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace waymark {

namespace json = boost::json;

namespace {

//! Writes an object's members one after the other.
class object_text {
public:
    explicit object_text(std::size_t about) { text_.reserve(about); }

    void add(std::string_view key, std::string_view value)
    {
        text_ += text_.empty() ? '{' : ',';
        append_quoted(key);
        text_ += ':';
        append_quoted(value);
    }

    std::string finish() &&
    {
        text_ += '}';
        return std::move(text_);
    }

private:
    void append_quoted(std::string_view text)
    {
        text_ += '"';
        for (std::size_t at = 0;;) {
            const auto plain = at;
            at = find_special(text, at);
            text_.append(text, plain, at - plain);
            if (at == text.size())
                break;
            append_escaped(static_cast<unsigned char>(text[at++]));
        }
        text_ += '"';
    }

    static bool is_special(char c) noexcept
    {
        return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
    }

    //! The first character that needs an escape, or the end.
    static std::size_t find_special(std::string_view text, std::size_t at) noexcept
    {
        constexpr std::uint64_t ones = 0x0101010101010101, tops = ones * 0x80;
        const auto has_zero = [](std::uint64_t word) { return (word - ones) & ~word & tops; };
        for (; text.size() - at >= 8; at += 8) { // eight at a time, since most need none
            std::uint64_t word;
            std::memcpy(&word, text.data() + at, 8);
            const auto below_space = (word - ones * 0x20) & ~word & tops;
            if ((below_space | has_zero(word ^ ones * '"') | has_zero(word ^ ones * '\\')) != 0)
                break;
        }
        while (at < text.size() && !is_special(text[at]))
            ++at;
        return at;
    }

    void append_escaped(unsigned char c)
    {
        static constexpr std::string_view from = "\"\\\b\f\n\r\t", to = "\"\\bfnrt",
                                          digits = "0123456789abcdef";
        text_ += '\\';
        if (const auto found = from.find(static_cast<char>(c)); found != std::string_view::npos) {
            text_ += to[found];
            return;
        }
        text_ += "u00";
        text_ += digits[c >> 4];
        text_ += digits[c & 0xf];
    }

    std::string text_;
};

//! Reads what object_text writes, from left to right; false as soon as anything is different.
class text_reader {
public:
    explicit text_reader(std::string_view text) noexcept : rest_(text) {}

    bool take(std::string_view expected) noexcept
    {
        if (!rest_.starts_with(expected))
            return false;
        rest_.remove_prefix(expected.size());
        return true;
    }

    //! Up to the closing quote.
    bool take_string(std::string& to)
    {
        to.clear();
        for (std::size_t quote = 0, at = 0;;) {
            if (quote <= at)
                quote = find('"', at, rest_.size());
            if (quote == npos)
                return false;
            const auto escape = find('\\', at, quote);
            const auto plain = rest_.substr(at, std::min(escape, quote) - at);
            if (detail::has_control(plain)) // which JSON does not allow
                return false;
            if (to.empty() && escape != npos)
                to.reserve(rest_.size()); // at most, and about as much for the text of a message
            to += plain;
            if (escape == npos) {
                rest_.remove_prefix(quote + 1);
                return true;
            }
            at = escape + 1;
            if (!take_escaped(to, at))
                return false;
            if (quote < at)
                quote = 0; // it was escaped
        }
    }

    //! The same for what has no escapes.
    bool take_word(std::string_view& to) noexcept
    {
        const auto quote = find('"', 0, rest_.size());
        if (quote == npos || find('\\', 0, quote) != npos)
            return false;
        to = rest_.substr(0, quote);
        rest_.remove_prefix(quote + 1);
        return true;
    }

    bool is_at(std::string_view end) const noexcept { return rest_ == end; }

private:
    static constexpr auto npos = std::string_view::npos;

    std::size_t find(char wanted, std::size_t begin, std::size_t end) const noexcept
    {
        const auto* const found = std::memchr(rest_.data() + begin, wanted, end - begin);
        return found == nullptr ? npos
                                : static_cast<std::size_t>(static_cast<const char*>(found) - rest_.data());
    }

    //! `at` is behind the backslash, and then behind what was escaped.
    bool take_escaped(std::string& to, std::size_t& at)
    {
        static constexpr std::string_view written = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t",
                                          digits = "0123456789abcdef";
        if (at == rest_.size())
            return false;
        if (const auto simple = written.find(rest_[at]); simple != npos) {
            to += meant[simple];
            ++at;
            return true;
        }
        if (rest_.substr(at, 3) != "u00" || rest_.size() < at + 5)
            return false;
        const auto high = digits.find(rest_[at + 3]), low = digits.find(rest_[at + 4]);
        if (high >= 8 || low == npos) // beyond ASCII
            return false;
        to += static_cast<char>(high * 16 + low);
        at += 5;
        return true;
    }

    std::string_view rest_;
};

//! Only the form that is written: another one of the same time has to be kept as it is.
std::optional<timestamp> read_timestamp(std::string_view text)
{
    if (text.size() != 27 || text[10] != 'T' || text[17] > '5' || text[19] != '.' || text[26] != 'Z')
        return std::nullopt;
    const auto time = detail::from_rfc3339(text, "message: member 'timestamp'");
    return time == timestamp{} ? std::nullopt : std::optional(time);
}

} // namespace

std::string detail::message_access::to_json(const message& value)
{
    const auto& fields = *value.data_;
    if (!fields.tool_calls.empty() || !fields.extra.empty()) // which may stand for a member
        return json::serialize(json::value_from(value));
    object_text text(fields.content.size() + 160);
    if (!fields.id.empty())
        text.add("id", fields.id);
    if (fields.role != role::other)
        text.add("role", role_names[static_cast<std::size_t>(fields.role)]);
    text.add("content", fields.content);
    if (!fields.tool_call_id.empty())
        text.add("tool_call_id", fields.tool_call_id);
    if (fields.timestamp != timestamp{})
        text.add("timestamp", detail::to_rfc3339(fields.timestamp));
    return std::move(text).finish();
}

message detail::message_access::from_json(std::string_view text, std::size_t max_depth, std::string_view what)
{
    message::data fields;
    std::string_view name, time;
    text_reader reader(text);
    if (reader.take("{\"id\":\"") && reader.take_string(fields.id) && !fields.id.empty() &&
        reader.take(",\"role\":\"") && reader.take_word(name) && reader.take(",\"content\":\"") &&
        reader.take_string(fields.content) &&
        (!reader.take(",\"tool_call_id\":\"") ||
         (reader.take_string(fields.tool_call_id) && !fields.tool_call_id.empty())) &&
        reader.take(",\"timestamp\":\"") && reader.take_word(time) && reader.is_at("}")) {
        const auto role = std::find(role_names.begin(), role_names.end(), name);
        const auto when = read_timestamp(time);
        if (role != role_names.end() && when) {
            fields.role = static_cast<waymark::role>(role - role_names.begin());
            fields.timestamp = *when;
            return message::make(std::move(fields));
        }
    }
    return json::value_to<message>(parse_json(text, max_depth, what));
}

} // namespace waymark
