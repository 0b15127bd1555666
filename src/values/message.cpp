#include "item_parts.hpp"
#include "json_document.hpp"
#include "message_data.hpp"
#include "text.hpp"
#include "timestamp.hpp"

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>
#include <waymark/message.hpp>

#include <algorithm>

namespace waymark {

namespace json = boost::json;

namespace {

// What an item wraps around what the caller nests: a list of blocks or calls, and a block or call in it.
constexpr std::size_t item_frame_depth = 4;
// A message has no options of its own; the store's limits decide what is accepted within this.
constexpr std::size_t deepest_message = limits::highest_max_depth + item_frame_depth;

constexpr std::size_t bytes_per_token = 4;
constexpr std::size_t frame_tokens = 4; // role and separators

std::size_t to_tokens(std::size_t bytes) noexcept
{
    return frame_tokens + (bytes + bytes_per_token - 1) / bytes_per_token;
}

void require_id(const std::string& id)
{
    detail::require_utf8(id, "the id of a message");
}

void require_time(timestamp time)
{
    if (!detail::is_printable(time))
        throw error(errc::invalid_argument, "the timestamp of a message is outside the years 0 to 9999");
}

//! An item that is held as text.
struct plain_item {
    role who;
    const json::string* text;
    const json::string* tool_call_id = nullptr;
};

std::optional<plain_item> as_plain(const json::object& item)
{
    if (item.size() < 2 || item.size() > 3)
        return std::nullopt;
    const auto text_at = [&](std::size_t index, std::string_view key) -> const json::string* {
        const auto& member = *(item.begin() + index);
        return std::string_view(member.key()) == key ? member.value().if_string() : nullptr;
    };
    const auto* const name = text_at(0, "role");
    const auto* const text = text_at(item.size() - 1, "content");
    if (name == nullptr || text == nullptr)
        return std::nullopt;
    const auto known = std::find(role_names.begin(), role_names.end(), std::string_view(*name));
    const auto who = static_cast<role>(known - role_names.begin());
    if (item.size() == 3) {
        const auto* const call = text_at(1, "tool_call_id");
        if (who != role::tool || call == nullptr || call->empty())
            return std::nullopt;
        return plain_item{who, text, call};
    }
    if (who == role::other || who == role::tool || who == role::model)
        return std::nullopt;
    return plain_item{who, text};
}

} // namespace

message message::data::make_plain(std::string id, waymark::timestamp time, waymark::role who,
                                  std::string text, std::string tool_call_id)
{
    const auto made = std::make_shared<data>(std::move(id), time);
    made->is_plain = true;
    made->role = who;
    made->text = std::move(text);
    made->tool_call_id = std::move(tool_call_id);
    made->measure_plain();
    return message(made);
}

message message::data::make(std::string id, waymark::timestamp time, json::value item)
{
    if (const auto plain = as_plain(item.get_object()))
        return make_plain(std::move(id), time, plain->who, std::string(*plain->text),
                          plain->tool_call_id == nullptr ? std::string() : std::string(*plain->tool_call_id));
    const auto made = std::make_shared<data>(std::move(id), time);
    made->item = json::value(std::move(item), json::storage_ptr());
    made->measure_item();
    return message(made);
}

void message::data::measure_plain()
{
    require_id(id);
    detail::require_utf8(text, "the content of a message");
    detail::require_utf8(tool_call_id, "the tool_call_id of a message");
    require_time(timestamp);
    bytes = id.size() + text.size() + tool_call_id.size() + 8;
    tokens = to_tokens(text.size() + tool_call_id.size());
}

void message::data::measure_item()
{
    require_id(id);
    require_time(timestamp);
    const auto& object = item.get_object();
    const auto levels = detail::check_json(object, deepest_message, "a message");
    depth = levels > item_frame_depth ? levels - item_frame_depth : 0;
    bytes = id.size() + detail::payload_bytes(object) + 8;
    role = detail::read_role(object);
    parts = detail::read_parts(item);
    detail::part_access::weight sum;
    for (const auto& next : parts) {
        const auto weight = detail::part_access::weigh(next);
        sum.bytes += weight.bytes;
        sum.tokens += weight.tokens;
    }
    tokens = to_tokens(sum.bytes) + sum.tokens;
}

json::object message::data::make_plain_item() const
{
    json::object object;
    object.reserve(3);
    object.emplace("role", to_string(*role));
    if (!tool_call_id.empty())
        object.emplace("tool_call_id", tool_call_id);
    object.emplace("content", text);
    return object;
}

json::object detail::message_access::item_of(const message& value)
{
    return value.data_->is_plain ? value.data_->make_plain_item() : value.data_->item.get_object();
}

const json::value& message::data::whole_item() const
{
    if (!is_plain)
        return item;
    if (const auto* const known = made.load(std::memory_order_acquire))
        return *known;
    auto mine = std::make_unique<const json::value>(make_plain_item());
    const json::value* other = nullptr;
    if (!made.compare_exchange_strong(other, mine.get(), std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return *other; // another thread was faster
    return *mine.release();
}

const detail::digest_memory& detail::message_access::digest_of(const message& value) noexcept
{
    return value.data_->digest;
}

const detail::place_memory& detail::message_access::place_of(const message& value) noexcept
{
    return value.data_->place;
}

bool detail::message_access::is_plain(const message& value) noexcept
{
    return value.data_->is_plain;
}

bool detail::message_access::is_plain_result(const message& value) noexcept
{
    return value.data_->is_plain && !value.data_->tool_call_id.empty();
}

const std::vector<part>& detail::message_access::parts_of_item(const message& value) noexcept
{
    return value.data_->parts;
}

std::string_view detail::message_access::plain_text(const message& value) noexcept
{
    return value.data_->text;
}

std::string_view detail::message_access::plain_call_id(const message& value) noexcept
{
    return value.data_->tool_call_id;
}

message message::system(std::string text)
{
    return data::make_plain(random_id(), now(), role::system, std::move(text), {});
}

message message::user(std::string text)
{
    return data::make_plain(random_id(), now(), role::user, std::move(text), {});
}

message message::user(const std::vector<part>& parts)
{
    return from(detail::make_user_item(parts));
}

message message::assistant(std::string text)
{
    return data::make_plain(random_id(), now(), role::assistant, std::move(text), {});
}

message message::assistant(std::string text, const std::vector<tool_call>& tool_calls)
{
    return from(detail::make_call_item(std::move(text), tool_calls));
}

message message::tool_result(std::string tool_call_id, std::string text)
{
    if (tool_call_id.empty())
        return from({{"role", "tool"}, {"tool_call_id", ""}, {"content", std::move(text)}});
    return data::make_plain(random_id(), now(), role::tool, std::move(text), std::move(tool_call_id));
}

message message::tool_result(const tool_call& answered, std::string text)
{
    if (!answered.id().empty())
        return tool_result(answered.id(), std::move(text));
    return tool_result(waymark::tool_result(answered, std::move(text)));
}

message message::tool_result(const waymark::tool_result& result)
{
    return from(detail::make_result_item(result));
}

message message::from(json::object item)
{
    return data::make(random_id(), now(), std::move(item));
}

const json::object& message::item() const&
{
    return data_->whole_item().get_object();
}

const std::string& message::id() const& noexcept
{
    return data_->id;
}

timestamp message::timestamp() const noexcept
{
    return data_->timestamp;
}

std::optional<role> message::role() const noexcept
{
    return data_->role;
}

std::vector<part> message::parts() const
{
    std::shared_ptr<const void> owner = data_;
    std::vector<part> parts;
    if (data_->is_plain) {
        const auto item = std::make_shared<const json::value>(data_->make_plain_item());
        parts = detail::read_parts(*item);
        owner = item;
    } else {
        parts = data_->parts;
    }
    for (auto& next : parts)
        detail::part_access::own(next, owner);
    return parts;
}

std::string message::text() const
{
    if (data_->is_plain)
        return data_->text;
    std::string text;
    bool has_text = false;
    for (const auto& next : data_->parts)
        if (next.kind() == part_kind::text) {
            text += next.text();
            has_text = true;
        }
    if (!has_text)
        for (const auto& next : data_->parts)
            if (next.kind() == part_kind::tool_result)
                text += next.result().text();
    return text;
}

std::vector<tool_call> message::tool_calls() const
{
    std::vector<tool_call> calls;
    for (const auto& next : data_->parts)
        if (next.kind() == part_kind::tool_call)
            calls.push_back(next.call());
    return calls;
}

std::vector<tool_result> message::tool_results() const
{
    std::vector<waymark::tool_result> results;
    if (data_->is_plain && data_->tool_call_id.empty())
        return results;
    for (const auto& next : parts()) // which own what their results show
        if (next.kind() == part_kind::tool_result)
            results.push_back(next.result());
    return results;
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
    return data_->tokens;
}

std::size_t message::estimated_tokens(const text_counter& count) const
{
    if (data_->is_plain)
        return count(data_->text) + (data_->tool_call_id.empty() ? 0 : count(data_->tool_call_id)) +
               frame_tokens;
    std::size_t sum = frame_tokens;
    for (const auto& next : data_->parts)
        sum += detail::part_access::weigh(next, &count).tokens;
    return sum;
}

std::string_view to_string(role which) noexcept
{
    return which == role::other ? std::string_view("other") : role_names[static_cast<std::size_t>(which)];
}

std::string to_string(timestamp time)
{
    return detail::to_rfc3339(time);
}

namespace {

//! The same content under another id or time.
message remade(const message& from, std::string id, timestamp time)
{
    return detail::message_access::make(std::move(id), time, detail::message_access::item_of(from));
}

} // namespace

message detail::message_access::make(std::string id, waymark::timestamp time, json::value item)
{
    return message::data::make(std::move(id), time, std::move(item));
}

message& message::with_id(std::string id) &
{
    return *this = remade(*this, std::move(id), timestamp());
}

message&& message::with_id(std::string id) &&
{
    return std::move(with_id(std::move(id)));
}

message& message::with_timestamp(waymark::timestamp time) &
{
    return *this = remade(*this, id(), time);
}

message&& message::with_timestamp(waymark::timestamp time) &&
{
    return std::move(with_timestamp(time));
}

message& message::with_item(json::object item) &
{
    return *this = data::make(id(), timestamp(), std::move(item));
}

message&& message::with_item(json::object item) &&
{
    return std::move(with_item(std::move(item)));
}

bool operator==(const message& left, const message& right) noexcept
{
    if (left.data_ == right.data_)
        return true;
    const auto& a = *left.data_;
    const auto& b = *right.data_;
    if (a.id != b.id || a.timestamp != b.timestamp || a.is_plain != b.is_plain)
        return false;
    return a.is_plain ? a.role == b.role && a.text == b.text && a.tool_call_id == b.tool_call_id
                      : detail::same_content(a.item, b.item);
}

void tag_invoke(json::value_from_tag, json::value& to, const message& from)
{
    auto& object = to.emplace_object();
    if (!from.id().empty())
        object["id"] = from.id();
    if (from.timestamp() != timestamp{})
        object["timestamp"] = detail::to_rfc3339(from.timestamp());
    object["item"] = detail::message_access::item_of(from);
}

message tag_invoke(json::value_to_tag<message>, const json::value& from)
{
    const detail::object_reader reader(from, "message");
    if (reader.find("role") != nullptr)
        return detail::message_access::from_earlier_form(from.get_object());
    const auto& item = reader.require("item");
    if (!item.is_object())
        reader.fail("item", "must be an object");
    reader.refuse_others({"id", "timestamp", "item"}, "what an API sent belongs into 'item'");
    return detail::message_access::make(
        reader.string_or("id", ""),
        reader.find("timestamp") == nullptr ? timestamp{} : reader.time("timestamp"), item);
}

//! Before version 0.1 was finished, id and timestamp stood among the members of the item, as they do in
//! smooth-operator's files.
message detail::message_access::from_earlier_form(const json::object& members)
{
    std::string id;
    timestamp time{};
    json::object item;
    for (const auto& member : members) {
        const std::string_view key = member.key();
        const auto* const text = member.value().if_string();
        if (key == "id" && text != nullptr)
            id = *text;
        else if (key == "timestamp" && text != nullptr)
            time = from_rfc3339(*text, "message: member 'timestamp'");
        else
            item.emplace(key, member.value());
    }
    const auto* const call = item.if_contains("tool_call_id");
    const auto* const content = item.if_contains("content");
    if (item.size() == 3 && call != nullptr && call->is_string() && !call->get_string().empty() &&
        content != nullptr && content->is_string() && read_role(item) == role::tool &&
        item.at("role").get_string() == "tool") // its members came in another order
        return message::data::make_plain(std::move(id), time, role::tool, std::string(content->get_string()),
                                         std::string(call->get_string()));
    return message::data::make(std::move(id), time, std::move(item));
}

} // namespace waymark
