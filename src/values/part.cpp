#include "base64.hpp"
#include "item_parts.hpp"
#include "json_document.hpp"
#include "text.hpp"

#include <waymark/error.hpp>
#include <waymark/part.hpp>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

namespace waymark {

namespace json = boost::json;

namespace {

constexpr std::size_t deepest_call = limits::highest_max_depth;

//! A part that stands alone owns the block that it shows.
part own_block(json::value block)
{
    const auto owned = std::make_shared<const json::value>(std::move(block));
    auto parts = detail::read_content(*owned);
    auto made = std::move(parts.front());
    detail::part_access::own(made, owned);
    return made;
}

std::string_view text_of(const json::value& value) noexcept
{
    return value.is_string() ? std::string_view(value.get_string()) : std::string_view();
}

} // namespace

// tool_call

tool_call::tool_call(std::string id, std::string name, json_input arguments)
    : id_(std::move(id)), name_(std::move(name)), arguments_(std::move(arguments).take())
{
    detail::require_utf8(id_, "the id of a tool call");
    detail::require_utf8(name_, "the name of a tool call");
    detail::check_json(arguments_, deepest_call, "tool call " + detail::quoted(name_) + ": arguments");
}

bool operator==(const tool_call& left, const tool_call& right) noexcept
{
    return left.id() == right.id() && left.name() == right.name() &&
           detail::same_content(left.arguments(), right.arguments());
}

void tag_invoke(json::value_from_tag, json::value& to, const tool_call& from)
{
    auto& object = to.emplace_object();
    object["id"] = from.id();
    object["name"] = from.name();
    object["arguments"] = from.arguments();
}

tool_call tag_invoke(json::value_to_tag<tool_call>, const json::value& from)
{
    const detail::object_reader reader(from, "tool call");
    reader.refuse_others({"id", "name", "arguments"}, "message::from takes the calls of an API as they are");
    const auto* arguments = reader.find("arguments");
    return tool_call(reader.string("id"), reader.string("name"),
                     arguments == nullptr ? json::value(json::object{}) : *arguments);
}

// tool_result

tool_result::tool_result(std::string call_id, std::string text) : call_id_(std::move(call_id))
{
    detail::require_utf8(call_id_, "the call id of a tool result");
    parts_.push_back(part::text(std::move(text)));
}

tool_result::tool_result(const tool_call& answered, std::string text)
    : tool_result(answered.id(), std::move(text))
{
    if (answered.id().empty())
        name_ = answered.name();
}

tool_result::tool_result(std::string call_id, std::vector<part> parts)
    : call_id_(std::move(call_id)), parts_(std::move(parts))
{
    detail::require_utf8(call_id_, "the call id of a tool result");
    for (const auto& next : parts_)
        if (next.kind() != part_kind::text && next.kind() != part_kind::media)
            throw error(errc::invalid_argument, "the result of tool call " + detail::quoted(call_id_) +
                                                    " has a part that is neither text nor media");
}

tool_result& tool_result::with_name(std::string name) &
{
    detail::require_utf8(name, "the name of a tool");
    name_ = std::move(name);
    return *this;
}

std::string tool_result::text() const
{
    std::string text;
    bool has_text = false;
    for (const auto& next : parts_)
        if (next.kind() == part_kind::text && !next.text().empty())
            text.append(std::exchange(has_text, true) ? "\n" : "").append(next.text());
    return text;
}

// part

part part::text(std::string text)
{
    detail::require_utf8(text, "the text of a part");
    return own_block(json::object{{"type", "text"}, {"text", std::move(text)}});
}

part part::media(std::string media_type, std::string_view bytes)
{
    detail::require_utf8(media_type, "the type of a part with media");
    return own_block(json::object{
        {"type", "image"}, {"data", detail::to_base64(bytes)}, {"mimeType", std::move(media_type)}});
}

part part::media_url(std::string url, std::string media_type)
{
    detail::require_utf8(url, "the URL of a part with media");
    detail::require_utf8(media_type, "the type of a part with media");
    return own_block(json::object{
        {"type", "resource_link"}, {"uri", std::move(url)}, {"mimeType", std::move(media_type)}});
}

std::string_view to_string(part_kind which) noexcept
{
    switch (which) {
    case part_kind::text:
        return "text";
    case part_kind::reasoning:
        return "reasoning";
    case part_kind::tool_call:
        return "tool_call";
    case part_kind::tool_result:
        return "tool_result";
    case part_kind::media:
        return "media";
    case part_kind::other:
        break;
    }
    return "other";
}

std::string part::media_content() const
{
    auto bytes = detail::from_base64(media_data_);
    if (!bytes)
        throw error(errc::invalid_argument,
                    "the data of the part of type " + detail::quoted(media_type_) + " is no base64");
    return *std::move(bytes);
}

tool_call part::call() const
{
    json::value arguments = json::object{};
    if (body_ != nullptr)
        arguments = *body_;
    if (const auto* const text = arguments.if_string()) {
        const auto* const object = json_->if_object();
        const auto* const type = object == nullptr ? nullptr : object->if_contains("type");
        const auto form = type == nullptr ? std::string_view() : text_of(*type);
        if (text->empty())
            arguments = json::object{};
        else if (form != "custom_tool_call" && form != "custom") // those take any text
            try {
                arguments = detail::parse_json(*text, deepest_call, "arguments");
            } catch (
                const error&) { // NOLINT(bugprone-empty-catch): what is no JSON stays the string that it is
            }
    }
    return tool_call(std::string(id_), std::string(name_), std::move(arguments));
}

tool_result part::result() const
{
    tool_result result{std::string(id_), std::vector<part>()};
    result.name_ = name_;
    result.is_error_ = is_error_;
    if (body_ == nullptr || body_->is_null())
        return result;
    if (detail::part_access::is_of_gemini(*this)) { // its only member, if that is text, or all of it
        const auto* const object = body_->if_object();
        const bool is_text = object != nullptr && object->size() == 1 && object->begin()->value().is_string();
        result.parts_.push_back(
            text(is_text ? std::string(object->begin()->value().get_string()) : json::serialize(*body_)));
        for (auto& next : detail::read_media_of_response(*this))
            result.parts_.push_back(std::move(next));
    } else if (body_->is_string() || body_->is_array() || body_->is_object()) {
        result.parts_ = detail::read_content(*body_);
    } else {
        result.parts_.push_back(text(json::serialize(*body_)));
    }
    for (auto& next : result.parts_)
        if (next.owner_ == nullptr)
            detail::part_access::own(next, owner_);
    return result;
}

} // namespace waymark
