//! What the entries of a conversation are made of: text, reasoning, tool calls, their results, media.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark {

namespace detail {
struct part_access; // for the library: see src/values/item_parts.hpp
class part_reader;
} // namespace detail

//! A JSON value as an argument: whatever `boost::json::value` is made of, and the strings of the standard
//! library, which it does not take.
class json_input : public boost::json::value {
public:
    using boost::json::value::value;
    json_input(boost::json::value other) : boost::json::value(std::move(other)) {}
    json_input(std::string_view text) : boost::json::value(boost::json::string_view(text)) {}
    json_input(const std::string& text) : json_input(std::string_view(text)) {}

    //! The value, in the default memory resource.
    boost::json::value take() &&
    {
        auto& base = static_cast<boost::json::value&>(*this);
        return boost::json::value(std::move(base), boost::json::storage_ptr());
    }
};

//! A model's request to run a tool.
class tool_call {
public:
    //! @throws waymark::error `invalid_argument`: invalid UTF-8, NaN, an infinity.
    tool_call(std::string id, std::string name, json_input arguments = boost::json::object{});

    //! Empty where the API gives none, as Gemini may: its results are found by name and order.
    const std::string& id() const& noexcept { return id_; }
    std::string id() && { return std::move(id_); }
    const std::string& name() const& noexcept { return name_; }
    std::string name() && { return std::move(name_); }
    //! As JSON, whether the API gave an object or a string that holds JSON. A string that holds none, as of a
    //! call that was cut off, is that string.
    const boost::json::value& arguments() const& noexcept { return arguments_; }
    boost::json::value arguments() && { return std::move(arguments_); }

    //! Equal content: the same JSON, see `message`.
    friend bool operator==(const tool_call& left, const tool_call& right) noexcept;

private:
    std::string id_;
    std::string name_;
    boost::json::value arguments_;
};

class part;

//! What became of a tool call.
class tool_result {
public:
    //! @throws waymark::error `invalid_argument`: invalid UTF-8.
    tool_result(std::string call_id, std::string text);
    //! By its id, or by its name where it has none.
    tool_result(const tool_call& answered, std::string text);
    //! Text and media. @throws waymark::error `invalid_argument` if a part is anything else.
    tool_result(std::string call_id, std::vector<part> parts);

    //! The name of the tool. Needed for calls without an id, which Gemini may make.
    tool_result& with_name(std::string name) &;
    tool_result&& with_name(std::string name) && { return std::move(with_name(std::move(name))); }
    //! The tool failed: the model is told so, where its API can say it.
    tool_result& with_error() & noexcept
    {
        is_error_ = true;
        return *this;
    }
    tool_result&& with_error() && noexcept
    {
        is_error_ = true;
        return std::move(*this);
    }

    //! The call that it answers; may be empty for Gemini, which goes by name and order.
    const std::string& call_id() const& noexcept { return call_id_; }
    std::string call_id() && { return std::move(call_id_); }
    //! The name of the tool, where the API or its maker gives it.
    const std::string& name() const& noexcept { return name_; }
    std::string name() && { return std::move(name_); }
    bool is_error() const noexcept { return is_error_; }
    //! Its text parts, each on a line of its own.
    std::string text() const;
    const std::vector<part>& parts() const& noexcept { return parts_; }
    std::vector<part> parts() &&;

private:
    friend class part;

    std::string call_id_;
    std::string name_;
    std::vector<part> parts_;
    bool is_error_ = false;
};

//! What a part is. `other` is one that the library does not interpret: an API's own tools, a citation, a kind
//! of tomorrow. It is kept and given back like everything else.
enum class part_kind { text, reasoning, tool_call, tool_result, media, other };

//! "text", …, "other".
std::string_view to_string(part_kind which) noexcept;

//! A piece of a message. A view: it shares what it shows with the message, which may go before it.
//!
//! A part of a message that was made by an API shows the JSON that the API sent.
class part {
public:
    //! @throws waymark::error `invalid_argument`: invalid UTF-8. So do the others that take text.
    static part text(std::string text);
    //! An image, a document, a recording: `media("image/png", bytes)`. Holds it in base64, as APIs want it.
    static part media(std::string media_type, std::string_view bytes);
    //! The same, elsewhere: an address that the API can reach.
    static part media_url(std::string url, std::string media_type = {});

    part_kind kind() const noexcept { return kind_; }
    //! What a text or reasoning says; empty for others, and for reasoning that the API keeps to itself.
    std::string_view text() const noexcept { return text_; }
    //! @pre `kind()` is `tool_call`
    tool_call call() const;
    //! @pre `kind()` is `tool_result`
    tool_result result() const;

    //! "image/png"; as much as the API says ("image/*"), or empty.
    std::string_view media_type() const noexcept { return media_type_; }
    //! The size of the media itself, without base64. 0 where it is elsewhere.
    std::size_t media_bytes() const noexcept { return media_bytes_; }
    //! In base64; empty where it is elsewhere.
    std::string_view media_base64() const noexcept { return media_data_; }
    //! The bytes themselves; empty where they are elsewhere.
    //! @throws waymark::error `invalid_argument` if what the API sent is no base64.
    std::string media_content() const;
    //! Where it is, or the name that the API gave an upload; empty where the data is in the message.
    std::string_view media_url() const noexcept { return media_url_; }

    //! The part as it stands in the message. That of plain text is the string.
    const boost::json::value& json() const& noexcept { return *json_; }
    boost::json::value json() && { return *json_; }

private:
    friend struct detail::part_access;
    friend class detail::part_reader;
    part() = default;

    std::shared_ptr<const void> owner_; // of what the others refer to
    const boost::json::value* json_ = nullptr;
    const boost::json::value* body_ = nullptr; // the arguments of a call, the content of a result
    part_kind kind_ = part_kind::other;
    bool is_error_ = false;
    std::size_t media_bytes_ = 0;
    std::string_view text_;
    std::string_view id_;
    std::string_view name_;
    std::string_view media_type_;
    std::string_view media_data_;
    std::string_view media_url_;
};

inline std::vector<part> tool_result::parts() &&
{
    return std::move(parts_);
}

//! JSON both ways, as {"id": …, "name": …, "arguments": …}. Bad input throws waymark::error with
//! `errc::invalid_argument` and names the member.
void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const tool_call& from);
tool_call tag_invoke(boost::json::value_to_tag<tool_call>, const boost::json::value& from);

} // namespace waymark
