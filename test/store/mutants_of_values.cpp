#include "mutants.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace waymark::test {

namespace {

namespace json = boost::json;

constexpr const char* every_field = "what was saved is loaded, every field of it";
constexpr const char* every_bit = "numbers come back to the last bit";
constexpr const char* every_byte = "texts come back to the last byte";
constexpr const char* every_member = "the order of members comes back, and what is empty";
constexpr const char* every_microsecond = "times come back to the microsecond";
constexpr const char* every_result = "results of steps come back, whatever they are";

using json_change = std::function<json::value(const json::value&)>;
using message_change = std::function<message(const message&)>;

//! The value with each leaf, and each object after its members, changed.
json::value deeply(const json::value& from, const json_change& change)
{
    if (const auto* list = from.if_array()) {
        json::array changed;
        for (const auto& each : *list)
            changed.push_back(deeply(each, change));
        return change(changed);
    }
    if (const auto* object = from.if_object()) {
        json::object changed;
        for (const auto& [key, value] : *object)
            changed[key] = deeply(value, change);
        return change(changed);
    }
    return change(from);
}

checkpoint with_messages(const checkpoint& from, const message_change& change)
{
    conversation changed(from.conversation().max_tokens());
    changed.with_extra(from.conversation().extra());
    for (const auto& each : from.conversation())
        changed.push(change(each));
    return checkpoint(from).with_conversation(std::move(changed));
}

checkpoint without_metadata(const checkpoint& from)
{
    return checkpoint(from.agent_id(), from.conversation(), from.iteration())
        .with_id(from.id())
        .with_scope(from.scope())
        .with_parent(from.parent_id())
        .with_name(from.name())
        .with_state(from.state())
        .with_created_at(from.created_at());
}

//! Changes the JSON in state, metadata, tool calls and results of steps.
faults changing_json(json_change change)
{
    const auto changed = [change](const json::value& from) { return deeply(from, change); };
    auto result = saving_instead([changed](const checkpoint& from) {
        auto to = without_metadata(from).with_state(changed(from.state()).as_object());
        const auto metadata = changed(from.metadata());
        for (const auto& [key, value] : metadata.as_object())
            to.with_metadata(key, value);
        return to;
    });
    result.put_steps = recording_instead([changed](const step& from) {
                           return from.done() ? step(from).with_result(changed(*from.result())) : from;
                       }).put_steps;
    return result;
}

//! Changes the text of messages and the strings in the JSON.
faults changing_text(std::function<std::string(std::string)> change)
{
    auto result = changing_json([change](const json::value& from) {
        const auto* const found = from.if_string();
        return found == nullptr ? from : json::value(change(std::string(*found)));
    });
    result.save = [json_save = result.save, change](store& inner, std::span<const save_request> batch) {
        std::vector<save_request> changed;
        for (const auto& request : batch)
            changed.emplace_back(with_messages(request.checkpoint(),
                                               [&](const message& from) {
                                                   auto item = from.item();
                                                   if (auto* const content = item.if_contains("content");
                                                       content != nullptr && content->is_string())
                                                       *content = change(std::string(content->as_string()));
                                                   return message(from).with_item(std::move(item));
                                               }),
                                 request.options());
        return json_save(inner, changed);
    };
    return result;
}

message without_member(const message& from, const char* member)
{
    auto item = from.item();
    item.erase(member);
    return message(from).with_item(std::move(item));
}

template <class Duration>
timestamp cut_to(timestamp time)
{
    return std::chrono::floor<Duration>(time);
}

json::value without_sign_of_zero(const json::value& from)
{
    return from.is_double() && from.get_double() == 0 ? json::value(0.0) : from;
}

json::value with_fifteen_digits(const json::value& from)
{
    if (!from.is_double())
        return from;
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.15g", from.get_double());
    const auto rounded = std::strtod(text.data(), nullptr);
    return std::isfinite(rounded) ? json::value(rounded) : from;
}

json::value sorted(const json::value& from)
{
    const auto* const object = from.if_object();
    if (object == nullptr)
        return from;
    std::vector<std::pair<std::string, json::value>> members;
    for (const auto& [key, value] : *object)
        members.emplace_back(key, value);
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return json::object(members.begin(), members.end());
}

json::value without_members_that(const json::value& from, bool (*should_go)(const json::value&))
{
    const auto* const object = from.if_object();
    if (object == nullptr)
        return from;
    json::object left;
    for (const auto& [key, value] : *object)
        if (!should_go(value))
            left[key] = value;
    return left;
}

//! Takes a save that changes nothing but the sign of a zero for a retry.
save_result save_unless_only_a_sign_differs(store& inner, const save_request& request)
{
    const auto& wanted = request.checkpoint();
    validate(wanted);
    const auto existing = inner.load(wanted.agent_id(), wanted.scope(), wanted.id());
    const auto plain = [](const checkpoint& one) {
        return json::serialize(
            deeply(json::value_from(checkpoint(one).with_sequence(0)), without_sign_of_zero));
    };
    if (existing && plain(*existing) == plain(wanted))
        return {existing->sequence(), 0};
    return inner.save(wanted, request.options());
}

std::string replaced(std::string in, text what, text by)
{
    for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + by.size()))
        in.replace(at, what.size(), by);
    return in;
}

std::vector<mutant> losers_of_fields()
{
    const auto on_messages = [](message_change change) {
        return saving_instead([=](const checkpoint& from) { return with_messages(from, change); });
    };
    return {
        {"loses the name",
         {every_field, "names select", the_model},
         saving_instead([](const checkpoint& from) { return checkpoint(from).with_name(""); })},
        {"loses the parent",
         {every_field, "a parent may be missing or part of a cycle", the_model},
         saving_instead([](const checkpoint& from) { return checkpoint(from).with_parent(std::nullopt); })},
        {"loses the metadata", {every_field, the_model}, saving_instead(without_metadata)},
        {"loses the iteration", {every_field, the_model}, saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_iteration(0);
         })},
        {"loses the state", {every_field, the_model}, saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_state({});
         })},
        {"loses the last member of the state",
         {every_field, the_model},
         saving_instead([](const checkpoint& from) {
             auto state = from.state();
             if (!state.empty())
                 state.erase(std::prev(state.end()));
             return checkpoint(from).with_state(state);
         })},
        {"loses the time", {every_field, the_model}, saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_created_at(now());
         })},
        {"cuts times to seconds",
         {every_field, every_microsecond},
         saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_created_at(cut_to<std::chrono::seconds>(from.created_at()));
         })},
        {"cuts times to milliseconds",
         {every_field, every_microsecond},
         saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_created_at(cut_to<std::chrono::milliseconds>(from.created_at()));
         })},
        {"counts times from 1970", {every_microsecond}, saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_created_at(std::max(from.created_at(), timestamp()));
         })},
        {"loses the token budget", {every_field, the_model}, saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_conversation(conversation(from.conversation()).with_max_tokens(0));
         })},
        {"cuts the token budget to 63 bits", {every_member}, saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_conversation(
                 conversation(from.conversation())
                     .with_max_tokens(from.conversation().max_tokens() & (~std::uint64_t{0} >> 1)));
         })},
        {"loses the extra members of a conversation", {every_bit}, saving_instead([](const checkpoint& from) {
             return checkpoint(from).with_conversation(
                 conversation(from.conversation()).with_extra(json::object()));
         })},
        {"loses the ids of messages", {every_field, the_model}, on_messages([](const message& from) {
             return message(from).with_id(random_id());
         })},
        {"loses the times of messages",
         {every_field, every_microsecond, the_model},
         on_messages([](const message& from) { return message(from).with_timestamp(timestamp()); })},
        {"loses tool calls", {every_field}, on_messages([](const message& from) {
             return without_member(from, "tool_calls");
         })},
        {"loses what a tool result answers", {every_field}, on_messages([](const message& from) {
             return from.role() == role::tool ? without_member(from, "tool_call_id") : from;
         })},
        {"loses what it does not know of messages", {every_field}, on_messages([](const message& from) {
             return without_member(from, "encrypted_content");
         })},
        {"swaps the last two messages",
         {every_field, "a growing conversation is loaded at every point", the_model},
         saving_instead([](const checkpoint& from) {
             const auto& chat = from.conversation();
             if (chat.size() < 2)
                 return from;
             auto swapped = chat;
             swapped.truncate(chat.size() - 2);
             swapped.push(chat[chat.size() - 1]);
             swapped.push(chat[chat.size() - 2]);
             return checkpoint(from).with_conversation(swapped);
         })},
        {"keeps a thousand messages at most",
         {"many short messages at once come back"},
         saving_instead([](const checkpoint& from) {
             auto chat = from.conversation();
             chat.truncate(1'000);
             return checkpoint(from).with_conversation(chat);
         })},
        {"takes every conversation for the head's with one more message",
         {"a growing conversation is loaded at every point", the_model},
         saving_each([](store& inner, const save_request& request) {
             const auto& wanted = request.checkpoint();
             validate(wanted);
             const auto& chat = wanted.conversation();
             const auto head = inner.load_latest(wanted.agent_id(), wanted.scope());
             if (!head || chat.empty() || head->id() == wanted.id())
                 return inner.save(wanted, request.options());
             auto grown = head->conversation();
             grown.push(chat.back());
             return inner.save(checkpoint(wanted).with_conversation(grown), request.options());
         })},
    };
}

std::vector<mutant> losers_of_bits()
{
    return {
        {"loses the sign of zero", {every_bit, every_result}, changing_json(without_sign_of_zero)},
        {"takes another sign of zero for a retry",
         {"a sign alone is a change"},
         saving_each(save_unless_only_a_sign_differs)},
        {"keeps fifteen digits of a number", {every_field, every_bit}, changing_json(with_fifteen_digits)},
        {"keeps numbers as double",
         {every_field, every_bit, "metadata selects by typed equality", the_model},
         changing_json([](const json::value& from) {
             return from.is_number() ? json::value(from.to_number<double>()) : from;
         })},
        {"keeps whole numbers as integers",
         {every_bit, "metadata selects by typed equality"},
         changing_json([](const json::value& from) {
             const auto* const number = from.if_double();
             return number != nullptr && std::abs(*number) < 1e15 && std::trunc(*number) == *number
                        ? json::value(static_cast<std::int64_t>(*number))
                        : from;
         })},
        {"cuts numbers beyond 63 bits",
         {every_field, every_bit, "steps are recorded and found"},
         changing_json([](const json::value& from) {
             return from.is_uint64() ? json::value(from.get_uint64() >> 1) : from;
         })},
        {"cuts text at a NUL", {every_field, every_byte, every_result}, changing_text([](std::string from) {
             return std::string(from.c_str());
         })},
        {"cuts text at 64 KiB", {every_byte, "large values come back"}, changing_text([](std::string from) {
             from.resize(std::min(from.size(), std::size_t{65'535}));
             return from;
         })},
        {"turns ends of lines into its own", {every_byte}, changing_text([](std::string from) {
             return replaced(std::move(from), "\r\n", "\n");
         })},
        {"trims text", {every_byte}, changing_text([](std::string from) {
             from.erase(from.find_last_not_of(" \n") + 1);
             return from;
         })},
        {"composes characters", {every_byte}, changing_text([](std::string from) {
             return replaced(std::move(from), "e\xcc\x81", "\xc3\xa9");
         })},
        {"sorts members", {every_member}, changing_json(sorted)},
        {"loses members that are null", {every_member}, changing_json([](const json::value& from) {
             return without_members_that(from, [](const json::value& one) { return one.is_null(); });
         })},
        {"loses members that are empty",
         {every_member, the_model},
         changing_json([](const json::value& from) {
             return without_members_that(from, [](const json::value& one) {
                 return one == json::value("") || one == json::array() || one == json::object();
             });
         })},
        {"refuses to nest deeper than 32",
         {"what is just within the limits is accepted"},
         saving_instead([](const checkpoint& from) {
             validate(from, limits().with_max_depth(32));
             return from;
         })},
        {"cuts conversations after 5,000 messages",
         {"many short messages at once come back"},
         saving_instead([](const checkpoint& from) {
             auto chat = from.conversation();
             chat.truncate(std::min<std::size_t>(chat.size(), 5'000));
             return checkpoint(from).with_conversation(std::move(chat));
         })},
        {"loses a state beyond a megabyte",
         {"large values come back"},
         saving_instead([](const checkpoint& from) {
             return from.state_bytes() > (1 << 20) ? checkpoint(from).with_state({}) : from;
         })},
        {"loses results of steps beyond 100 kilobytes",
         {"large values come back"},
         recording_instead([](const step& from) {
             return from.bytes() > 100'000 ? step(from).with_result(nullptr) : from;
         })},
        {"refuses messages beyond a megabyte",
         {"large values come back"},
         saving_instead([](const checkpoint& from) {
             validate(from, limits().with_max_message_bytes(1 << 20));
             return from;
         })},
    };
}

} // namespace

std::vector<mutant> mutants_of_values()
{
    auto all = losers_of_fields();
    const auto more = losers_of_bits();
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

} // namespace waymark::test
