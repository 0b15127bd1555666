#include "turns.hpp"

#include "item_parts.hpp"
#include "storage_memory.hpp"

#include <boost/json/array.hpp>

#include <algorithm>

namespace waymark::detail {

namespace json = boost::json;

bool is_prompt(const message& value) noexcept
{
    const auto who = value.role();
    return who == role::system || who == role::developer;
}

bool is_output_item(const message& value)
{
    if (message_access::is_plain(value))
        return false;
    const auto& item = value.item();
    const auto* const type = item.if_contains("type");
    if (type == nullptr || !type->is_string())
        return false;
    const auto& parts = message_access::parts_of_item(value);
    const bool is_result = !parts.empty() && parts.front().kind() == part_kind::tool_result;
    return !is_result && (!value.role() || value.role() == role::assistant);
}

std::string_view id_of_use(const part& from) noexcept
{
    const auto type = text_in(from.json(), "type");
    return from.kind() == part_kind::other && (type == "server_tool_use" || type == "mcp_tool_use")
               ? text_in(from.json(), "id")
               : std::string_view();
}

std::string_view id_of_used(const part& from) noexcept
{
    return from.kind() == part_kind::other ? text_in(from.json(), "tool_use_id") : std::string_view();
}

bool is_reasoning_only(const message& value)
{
    const auto& parts = message_access::parts_of_item(value);
    return !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const part& next) {
        return next.kind() == part_kind::reasoning;
    });
}

namespace {

void erase_entries(json::object& item, std::string_view key, const std::vector<const json::value*>& gone,
                   const json::object& original)
{
    const auto* const before = original.if_contains(key);
    if (before == nullptr || !before->is_array())
        return;
    auto& list = item.at(key).get_array();
    for (auto i = before->get_array().size(); i-- > 0;)
        if (std::find(gone.begin(), gone.end(), &before->get_array()[i]) != gone.end())
            list.erase(list.begin() + i);
    if (list.empty() && key == "tool_calls")
        item.erase(key);
}

//! Whether an item still says something, once parts of it are gone.
bool says_something(const json::object& item)
{
    const json::value value = item;
    const auto parts = read_parts(value);
    return std::any_of(parts.begin(), parts.end(), [](const part& next) {
        return next.kind() != part_kind::reasoning &&
               (next.kind() != part_kind::text || !next.text().empty());
    });
}

} // namespace

std::optional<message> without_parts(const message& from, std::span<const std::size_t> gone)
{
    if (gone.empty())
        return from;
    const auto& parts = message_access::parts_of_item(from);
    if (message_access::is_plain(from) || gone.size() == parts.size())
        return std::nullopt;
    std::vector<const json::value*> entries;
    for (const auto index : gone)
        entries.push_back(&parts[index].json());
    auto item = from.item();
    for (const auto* const key : {"content", "parts", "tool_calls"})
        erase_entries(item, key, entries, from.item());
    if (const auto* const call = from.item().if_contains("function_call");
        call != nullptr && std::find(entries.begin(), entries.end(), call) != entries.end())
        item.erase("function_call");
    if (!says_something(item))
        return std::nullopt;
    auto changed = from;
    return std::move(changed).with_item(std::move(item));
}

std::unordered_map<std::string_view, std::size_t> last_results_of_uses(const std::vector<const message*>& in)
{
    std::unordered_map<std::string_view, std::size_t> found;
    for (std::size_t i = 0; i < in.size(); ++i)
        for (const auto& next : message_access::parts_of_item(*in[i]))
            if (const auto id = id_of_used(next); !id.empty())
                found.insert_or_assign(id, i);
    return found;
}

turns::turns(const conversation& chat) : begins_(chat.size(), true)
{
    const tool_pairing pairing(chat);
    for (const auto& result : pairing.results)
        if (!result.call)
            orphans_.push_back(result);
    const auto messages = conversation_access::messages_from(chat, 0);
    const auto used = last_results_of_uses(messages);
    std::size_t last_result = 0; // of the calls so far
    auto call = pairing.calls.begin();
    for (std::size_t i = 0; i < messages.size(); ++i) {
        begins_[i] = i > last_result || i == 0;
        if (i > 0 && (is_reasoning_only(*messages[i - 1]) ||
                      (is_output_item(*messages[i - 1]) && is_output_item(*messages[i]))))
            begins_[i] = false;
        for (; call != pairing.calls.end() && call->message == i; ++call)
            if (call->result)
                last_result = std::max(last_result, pairing.results[*call->result].message);
        for (const auto& next : message_access::parts_of_item(*messages[i]))
            if (const auto found = used.find(id_of_use(next)); found != used.end())
                last_result = std::max(last_result, found->second);
    }
}

std::optional<message> turns::without_orphans(std::size_t index, const message& value) const
{
    const auto first = std::lower_bound(orphans_.begin(), orphans_.end(), index,
                                        [](const auto& orphan, auto at) { return orphan.message < at; });
    std::vector<std::size_t> gone;
    for (auto next = first; next != orphans_.end() && next->message == index; ++next)
        gone.push_back(next->part);
    return without_parts(value, gone);
}

} // namespace waymark::detail
