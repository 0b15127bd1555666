//! The JSON text of a message, written and read without a document in between: most of the time of a long
//! load would go into making such documents. What is not of the usual form takes the usual way.
#include "item_parts.hpp"
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

//! Writes the text of a message.
class text_writer {
public:
    explicit text_writer(std::size_t about) { text_.reserve(about); }

    text_writer& add(std::string_view json)
    {
        text_ += json;
        return *this;
    }

    text_writer& add_quoted(std::string_view text)
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
        return *this;
    }

    std::string finish() && { return std::move(text_); }

private:
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

//! Reads what text_writer writes, from left to right; false as soon as anything is different.
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
    constexpr std::size_t frame = 160;
    text_writer text(fields.text.size() + frame);
    text.add("{");
    if (!fields.id.empty())
        text.add("\"id\":").add_quoted(fields.id).add(",");
    if (fields.timestamp != timestamp{})
        text.add("\"timestamp\":\"").add(to_rfc3339(fields.timestamp)).add("\",");
    text.add("\"item\":");
    if (!fields.is_plain)
        return std::move(text.add(json::serialize(fields.item)).add("}")).finish();
    text.add("{\"role\":\"").add(to_string(*fields.role)).add("\",");
    if (!fields.tool_call_id.empty())
        text.add("\"tool_call_id\":").add_quoted(fields.tool_call_id).add(",");
    return std::move(text.add("\"content\":").add_quoted(fields.text).add("}}")).finish();
}

message detail::message_access::from_json(std::string_view text, std::size_t max_depth, std::string_view what,
                                          bool* is_current)
{
    std::string id, content, tool_call_id;
    std::string_view name, time;
    text_reader reader(text);
    const auto say = [is_current](bool current) {
        if (is_current != nullptr)
            *is_current = current;
    };
    say(true);
    if (reader.take("{\"id\":\"") && reader.take_string(id) && !id.empty() &&
        reader.take(",\"timestamp\":\"") && reader.take_word(time) && reader.take(",\"item\":{\"role\":\"") &&
        reader.take_word(name) &&
        (!reader.take(",\"tool_call_id\":\"") ||
         (reader.take_string(tool_call_id) && !tool_call_id.empty())) &&
        reader.take(",\"content\":\"") && reader.take_string(content) && reader.is_at("}}")) {
        const auto role = static_cast<waymark::role>(std::find(role_names.begin(), role_names.end(), name) -
                                                     role_names.begin());
        const auto when = read_timestamp(time);
        const bool is_result = role == role::tool;
        if (role != role::other && role != role::model && is_result == !tool_call_id.empty() && when)
            return message::data::make_plain(std::move(id), *when, role, std::move(content),
                                             std::move(tool_call_id));
    }
    const auto document = parse_json(text, max_depth, what);
    const auto* const members = document.if_object();
    say(members != nullptr && !members->contains("role"));
    return json::value_to<message>(document);
}

} // namespace waymark
