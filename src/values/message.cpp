#include "json_document.hpp"
#include "message_data.hpp"
#include "text.hpp"
#include "timestamp.hpp"

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>
#include <waymark/message.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <array>
#include <span>

namespace waymark {

namespace json = boost::json;

namespace {

// A message has no options of its own; the store's limits decide what is accepted within this.
constexpr std::size_t deepest_message = limits::highest_max_depth;

//! Known roles in any case: other programs write "User".
role role_from(std::string_view name)
{
    std::string lower(name);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    const auto found = std::find(role_names.begin(), role_names.end(), lower);
    return static_cast<role>(found - role_names.begin()); // one past the end is role::other
}

std::size_t payload(const tool_call& call)
{
    return call.id().size() + call.name().size() + detail::payload_bytes(call.arguments()) +
           detail::payload_bytes(call.extra());
}

std::size_t check(const tool_call& call)
{
    detail::require_utf8(call.id(), "the id of a tool call");
    detail::require_utf8(call.name(), "the name of a tool call");
    const auto what = "tool call " + detail::quoted(call.name());
    return std::max(detail::check_json(call.arguments(), deepest_message, what + ": arguments"),
                    detail::check_json(call.extra(), deepest_message, what));
}

constexpr std::array<std::string_view, 6> message_members = {"id",         "role",         "content",
                                                             "tool_calls", "tool_call_id", "timestamp"};
constexpr std::array<std::string_view, 3> call_members = {"id", "name", "arguments"};

//! An extra member wins over a modelled one when writing, so it must not bear the name of one.
void require_extra(std::string_view key, std::span<const std::string_view> modelled, std::string_view what)
{
    if (std::find(modelled.begin(), modelled.end(), key) != modelled.end())
        throw error(errc::invalid_argument,
                    detail::quoted(key) + " is no extra member of " + std::string(what) + "; it has a field");
}

bool has_text(const json::object& object, std::string_view key)
{
    const auto* value = object.if_contains(key);
    return value != nullptr && value->is_string();
}

//! Our own form of a tool call.
bool is_tool_call(const json::value& value)
{
    const auto* object = value.if_object();
    return object != nullptr && has_text(*object, "id") && has_text(*object, "name");
}

//! The form of OpenAI's API: {"id": …, "type": "function", "function": {"name": …, "arguments": …}}.
bool is_nested_tool_call(const json::value& value)
{
    const auto* object = value.if_object();
    const auto* function = object == nullptr ? nullptr : object->if_contains("function");
    return function != nullptr && function->is_object() && has_text(*object, "id") &&
           has_text(function->get_object(), "name");
}

//! Reads calls of either form, so that they are found; the caller keeps a form that is not ours as it is.
std::vector<tool_call> read_tool_calls(const json::array& calls)
{
    std::vector<tool_call> result;
    for (const auto& call : calls) {
        if (is_tool_call(call)) {
            result.push_back(json::value_to<tool_call>(call));
        } else if (is_nested_tool_call(call)) {
            const auto& function = call.at("function").get_object();
            const auto* arguments = function.if_contains("arguments");
            result.emplace_back(std::string(call.at("id").get_string()),
                                std::string(function.at("name").get_string()),
                                arguments == nullptr ? json::value(json::object{}) : *arguments);
        }
    }
    return result;
}

//! The text of content that is a list of parts, as {"type": "text", "text": …}.
std::string text_of_parts(const json::array& parts)
{
    std::string text;
    for (const auto& part : parts)
        if (part.is_object() && has_text(part.get_object(), "text"))
            text += part.at("text").get_string();
    return text;
}

} // namespace

// tool_call

tool_call::tool_call(std::string id, std::string name, json_input arguments)
    : id_(std::move(id)), name_(std::move(name)), arguments_(std::move(arguments).take())
{
    check(*this);
}

tool_call& tool_call::with_extra(std::string_view key, json_input value) &
{
    require_extra(key, call_members, "a tool call");
    detail::require_utf8(key, "a member of a tool call");
    detail::check_json(value, deepest_message, "tool call member " + detail::quoted(key));
    extra_.insert_or_assign(key, std::move(value).take());
    return *this;
}

tool_call&& tool_call::with_extra(std::string_view key, json_input value) &&
{
    return std::move(with_extra(key, std::move(value)));
}

bool operator==(const tool_call& left, const tool_call& right) noexcept
{
    return left.id() == right.id() && left.name() == right.name() &&
           detail::same_content(left.arguments(), right.arguments()) &&
           detail::same_content(left.extra(), right.extra());
}

void tag_invoke(json::value_from_tag, json::value& to, const tool_call& from)
{
    auto& object = to.emplace_object();
    object["id"] = from.id();
    object["name"] = from.name();
    object["arguments"] = from.arguments();
    for (const auto& member : from.extra())
        object.insert_or_assign(member.key(), member.value());
}

tool_call tag_invoke(json::value_to_tag<tool_call>, const json::value& from)
{
    const detail::object_reader reader(from, "tool call");
    const auto* arguments = reader.find("arguments");
    tool_call call(reader.string("id"), reader.string("name"),
                   arguments == nullptr ? json::value(json::object{}) : *arguments);
    for (const auto& member : from.get_object())
        if (member.key() != "id" && member.key() != "name" && member.key() != "arguments")
            call.with_extra(member.key(), member.value());
    return call;
}

// message

void message::data::check_and_measure()
{
    detail::require_utf8(id, "the id of a message");
    detail::require_utf8(content, "the content of a message");
    detail::require_utf8(tool_call_id, "the tool_call_id of a message");
    if (!detail::is_printable(timestamp))
        throw error(errc::invalid_argument, "the timestamp of a message is outside the years 0 to 9999");
    depth = detail::check_json(extra, deepest_message, "a message");
    bytes = id.size() + content.size() + tool_call_id.size() + detail::payload_bytes(extra) + 8;
    for (const auto& call : tool_calls) {
        depth = std::max(depth, check(call));
        bytes += payload(call);
    }
}

const detail::digest_memory& detail::message_access::digest_of(const message& value) noexcept
{
    return value.data_->digest;
}

const detail::place_memory& detail::message_access::place_of(const message& value) noexcept
{
    return value.data_->place;
}

message message::make(data fields)
{
    fields.check_and_measure();
    return message(std::make_shared<const data>(std::move(fields)));
}

message& message::amend(data fields)
{
    return *this = make(std::move(fields));
}

message::data message::fresh(waymark::role who, std::string text)
{
    data fields;
    fields.id = random_id();
    fields.role = who;
    fields.content = std::move(text);
    fields.timestamp = now();
    return fields;
}

message message::system(std::string text)
{
    return make(fresh(role::system, std::move(text)));
}

message message::user(std::string text)
{
    return make(fresh(role::user, std::move(text)));
}

message message::assistant(std::string text)
{
    return make(fresh(role::assistant, std::move(text)));
}

message message::assistant(std::string text, std::vector<tool_call> tool_calls)
{
    auto fields = fresh(role::assistant, std::move(text));
    fields.tool_calls = std::move(tool_calls);
    return make(std::move(fields));
}

message message::tool_result(std::string tool_call_id, std::string text)
{
    auto fields = fresh(role::tool, std::move(text));
    fields.tool_call_id = std::move(tool_call_id);
    return make(std::move(fields));
}

const std::string& message::id() const& noexcept
{
    return data_->id;
}

role message::role() const noexcept
{
    return data_->role;
}

const std::string& message::content() const& noexcept
{
    return data_->content;
}

const std::vector<tool_call>& message::tool_calls() const& noexcept
{
    return data_->tool_calls;
}

const std::string& message::tool_call_id() const& noexcept
{
    return data_->tool_call_id;
}

timestamp message::timestamp() const noexcept
{
    return data_->timestamp;
}

const json::object& message::extra() const& noexcept
{
    return data_->extra;
}

std::size_t message::bytes() const noexcept
{
    return data_->bytes;
}

std::size_t message::depth() const noexcept
{
    return data_->depth;
}

std::size_t message::estimated_tokens() const noexcept
{
    constexpr std::size_t bytes_per_token = 4;
    constexpr std::size_t frame = 4; // role and separators
    auto text = data_->content.size() + data_->tool_call_id.size();
    for (const auto& call : data_->tool_calls)
        text += payload(call);
    return frame + (text + bytes_per_token - 1) / bytes_per_token;
}

message& message::with_id(std::string id) &
{
    auto fields = *data_;
    fields.extra.erase("id"); // one of another shape, which would win
    fields.id = std::move(id);
    return amend(std::move(fields));
}

message&& message::with_id(std::string id) &&
{
    return std::move(with_id(std::move(id)));
}

message& message::with_timestamp(waymark::timestamp time) &
{
    auto fields = *data_;
    fields.extra.erase("timestamp");
    fields.timestamp = time;
    return amend(std::move(fields));
}

message&& message::with_timestamp(waymark::timestamp time) &&
{
    return std::move(with_timestamp(time));
}

message& message::with_extra(std::string_view key, json_input value) &
{
    require_extra(key, message_members, "a message");
    auto fields = *data_;
    fields.extra.insert_or_assign(key, std::move(value).take());
    return amend(std::move(fields));
}

message&& message::with_extra(std::string_view key, json_input value) &&
{
    return std::move(with_extra(key, std::move(value)));
}

//! Whether the extra members of two messages with the same fields are written alike. One that has the name of
//! a field which is written takes the place of that; the others are written in their order.
bool message::data::has_same_extra(const data& other) const noexcept
{
    const auto has_place = [this](std::string_view key) {
        return key == "content" || (key == "id" && !id.empty()) ||
               (key == "role" && role != waymark::role::other) ||
               (key == "tool_calls" && !tool_calls.empty()) ||
               (key == "tool_call_id" && !tool_call_id.empty()) ||
               (key == "timestamp" && timestamp != waymark::timestamp{});
    };
    if (extra.size() != other.extra.size())
        return false;
    auto next = other.extra.begin();
    for (const auto& member : extra) {
        if (has_place(member.key())) {
            const auto* found = other.extra.if_contains(member.key());
            if (found == nullptr || !detail::same_content(member.value(), *found))
                return false;
            continue;
        }
        while (next != other.extra.end() && has_place(next->key()))
            ++next;
        if (next == other.extra.end() || next->key() != member.key() ||
            !detail::same_content(member.value(), next->value()))
            return false;
        ++next;
    }
    return true;
}

bool operator==(const message& left, const message& right) noexcept
{
    if (left.data_ == right.data_)
        return true;
    const auto& a = *left.data_;
    const auto& b = *right.data_;
    return a.id == b.id && a.role == b.role && a.content == b.content && a.tool_calls == b.tool_calls &&
           a.tool_call_id == b.tool_call_id && a.timestamp == b.timestamp && a.has_same_extra(b);
}

void tag_invoke(json::value_from_tag, json::value& to, const message& from)
{
    const auto& fields = *from.data_;
    auto& object = to.emplace_object();
    if (!fields.id.empty())
        object["id"] = fields.id;
    if (fields.role != role::other)
        object["role"] = role_names[static_cast<std::size_t>(fields.role)];
    object["content"] = fields.content;
    if (!fields.tool_calls.empty())
        object["tool_calls"] = json::value_from(fields.tool_calls);
    if (!fields.tool_call_id.empty())
        object["tool_call_id"] = fields.tool_call_id;
    if (fields.timestamp != timestamp{})
        object["timestamp"] = detail::to_rfc3339(fields.timestamp);
    for (const auto& member : fields.extra)
        object.insert_or_assign(member.key(), member.value());
}

message tag_invoke(json::value_to_tag<message>, const json::value& from)
{
    const detail::object_reader reader(from, "message");
    message::data fields;
    reader.require("role");
    // What has the expected shape becomes a field; everything else stays as it is, in `extra`.
    for (const auto& member : from.get_object()) {
        const auto& value = member.value();
        const std::string_view key = member.key();
        bool modelled = false;
        if (key == "role" && value.is_string()) {
            fields.role = role_from(value.get_string());
            modelled = fields.role != role::other &&
                       value.get_string() == role_names[static_cast<std::size_t>(fields.role)];
        } else if (key == "id" && value.is_string()) {
            fields.id = value.get_string();
            modelled = !fields.id.empty(); // what is empty is not written
        } else if (key == "content" && value.is_string()) {
            fields.content = value.get_string();
            modelled = true;
        } else if (key == "content" && value.is_array()) {
            fields.content = text_of_parts(value.get_array());
        } else if (key == "tool_call_id" && value.is_string()) {
            fields.tool_call_id = value.get_string();
            modelled = !fields.tool_call_id.empty();
        } else if (key == "tool_calls" && value.is_array()) {
            const auto& calls = value.get_array();
            fields.tool_calls = read_tool_calls(calls);
            modelled = !calls.empty() && std::all_of(calls.begin(), calls.end(), is_tool_call);
        } else if (key == "timestamp" && value.is_string()) {
            fields.timestamp = detail::from_rfc3339(value.get_string(), "message: member 'timestamp'");
            modelled = fields.timestamp != timestamp{} &&
                       detail::to_rfc3339(fields.timestamp) == value.get_string(); // nanoseconds, offsets
        }
        if (!modelled)
            fields.extra.insert_or_assign(key, value);
    }
    return message::make(std::move(fields));
}

} // namespace waymark
