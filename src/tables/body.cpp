#include "body.hpp"

#include "../values/json_document.hpp"
#include "../values/text.hpp"

#include <waymark/error.hpp>

#include <boost/json/serialize.hpp>

namespace waymark::tables {

namespace json = boost::json;

namespace {

constexpr std::size_t inline_value_bytes = 1024;

void write_value(list_writer& list, std::string_view key, const json::value& value, object_sink& objects)
{
    const auto text = json::serialize(value);
    if (text.size() <= inline_value_bytes)
        list.add_member(key, text);
    else
        list.add_member_at(key, objects.store(text));
}

void write_object(list_writer& list, const json::object& object, object_sink& objects, int levels)
{
    for (const auto& member : object) {
        const auto* inner = member.value().if_object();
        if (inner == nullptr || levels == 1 || detail::payload_bytes(*inner) <= inline_value_bytes) {
            write_value(list, member.key(), member.value(), objects);
            continue;
        }
        list.open_object(member.key());
        write_object(list, *inner, objects, levels - 1);
        list.close_object();
    }
}

void append_part(std::string& body, const std::string& part)
{
    append_number(body, part.size());
    body += part;
}

//! Puts an object together from the items of a list.
class object_builder {
public:
    explicit object_builder(const object_map& objects) : objects_(objects), open_{&root_} {}

    void add(const item& next)
    {
        switch (next.kind) {
        case item_kind::member:
            insert(next.key, parse(next.value));
            return;
        case item_kind::member_at:
            insert(next.key, parse(objects_.at(next.object)));
            return;
        case item_kind::open_object:
            open_.push_back(&insert(next.key, json::object{}).get_object());
            return;
        case item_kind::close_object:
            if (open_.size() == 1)
                throw error(errc::corrupt, "a stored list closes more objects than it opens");
            open_.pop_back();
            return;
        default:
            throw error(errc::corrupt, "a stored list holds an item that does not belong there");
        }
    }

    json::object take() && { return std::move(root_); }

private:
    static json::value parse(std::string_view text)
    {
        try {
            return detail::parse_json(text, limits::highest_max_depth, "a stored value");
        } catch (const error& failure) {
            throw error(errc::corrupt, failure.details().message());
        }
    }

    json::value& insert(std::string_view key, json::value value)
    {
        if (!detail::is_valid_utf8(key) || open_.size() > limits::highest_max_depth)
            throw error(errc::corrupt, "a stored list holds what nobody can have saved");
        const auto [place, is_new] = open_.back()->emplace(key, std::move(value));
        if (!is_new)
            throw error(errc::corrupt, "a stored list holds a member twice");
        return place->value();
    }

    const object_map& objects_;
    json::object root_;
    std::vector<json::object*> open_; // an object is not added to while one inside it is open
};

} // namespace

body_parts::body_parts(std::string_view body)
{
    byte_reader reader(body);
    max_tokens = reader.take_number();
    conversation = reader.take(reader.take_number());
    state = reader.take(reader.take_number());
}

bool may_need_objects(const conversation& chat, const json::object& state)
{
    return detail::payload_bytes(state) > inline_value_bytes / 2 ||
           detail::payload_bytes(chat.extra()) > inline_value_bytes / 2;
}

std::string write_body(const conversation& chat, const extent_list& messages, const json::object& state,
                       object_sink& objects)
{
    list_writer conversation_list;
    write_object(conversation_list, chat.extra(), objects, 1);
    for (const auto& numbers : messages.all())
        conversation_list.add_extent(numbers);
    list_writer state_list;
    write_object(state_list, state, objects, 2);

    std::string body;
    append_number(body, chat.max_tokens());
    append_part(body, conversation_list.finish(objects));
    append_part(body, state_list.finish(objects));
    return body;
}

body_content read_body(std::string_view body, transaction& from, std::int64_t agent)
{
    const body_parts parts(body);
    object_map objects;
    list_walker walker(from, agent, objects);
    walker.fetch(parts.conversation, list_walker::values::read);
    walker.fetch(parts.state, list_walker::values::read);

    body_content result;
    object_builder extra(objects);
    walker.walk(parts.conversation, [&](const item& next) {
        if (next.kind == item_kind::extent)
            result.messages.append(next.numbers);
        else
            extra.add(next);
    });
    result.chat.with_max_tokens(parts.max_tokens);
    try {
        result.chat.with_extra(std::move(extra).take());
    } catch (const error& failure) {
        throw error(errc::corrupt, failure.details().message());
    }
    object_builder state(objects);
    walker.walk(parts.state, [&](const item& next) { state.add(next); });
    result.state = std::move(state).take();
    return result;
}

body_references read_references(std::string_view body, transaction& from, std::int64_t agent,
                                object_map& groups)
{
    const body_parts parts(body);
    list_walker walker(from, agent, groups);
    body_references result;
    for (const auto list : {parts.conversation, parts.state}) {
        walker.fetch(list, list_walker::values::skip);
        walker.walk(
            list,
            [&](const item& next) {
                if (next.kind == item_kind::extent)
                    result.messages.append(next.numbers);
                else if (next.kind == item_kind::member_at)
                    result.objects.push_back(next.object);
            },
            [&](const object_reference& group) { result.objects.push_back(group); });
    }
    return result;
}

} // namespace waymark::tables
