#include "tool_pairing.hpp"

#include "item_parts.hpp"
#include "storage_memory.hpp"

#include <unordered_map>

namespace waymark::detail {

namespace {

//! Calls that wait for their result, by id and by name.
class open_calls {
public:
    explicit open_calls(std::vector<tool_pairing::call>& calls) : calls_(calls) {}

    void add(tool_pairing::call added)
    {
        if (!added.id.empty())
            by_id_[added.id].push_back(calls_.size());
        if (!added.name.empty())
            by_name_[added.name].push_back(calls_.size());
        if (added.id.empty())
            by_name_[{}].push_back(calls_.size()); // a result may say nothing of its call
        calls_.push_back(added);
    }

    std::optional<std::size_t> find(std::string_view id, std::string_view name)
    {
        if (!id.empty())
            if (const auto found = newest_of(by_id_, id))
                return found;
        return name.empty() && !id.empty() ? std::nullopt : first_of_turn(id, name);
    }

private:
    using index = std::unordered_map<std::string_view, std::vector<std::size_t>>;

    std::optional<std::size_t> newest_of(index& in, std::string_view key)
    {
        const auto found = in.find(key);
        if (found == in.end())
            return std::nullopt;
        auto& candidates = found->second;
        while (!candidates.empty() && calls_[candidates.back()].result)
            candidates.pop_back();
        return candidates.empty() ? std::nullopt : std::optional(candidates.back());
    }

    //! The first open one in the newest message that has any. An id on both sides would have to agree.
    std::optional<std::size_t> first_of_turn(std::string_view id, std::string_view name)
    {
        const auto newest = newest_of(by_name_, name);
        if (!newest)
            return std::nullopt;
        const auto& candidates = by_name_[name];
        auto first = candidates.size();
        for (auto i = candidates.size(); i-- > 0 && calls_[candidates[i]].message == calls_[*newest].message;)
            if (const auto& call = calls_[candidates[i]]; !call.result && (call.id.empty() || id.empty()))
                first = i;
        return first == candidates.size() ? std::nullopt : std::optional(candidates[first]);
    }

    std::vector<tool_pairing::call>& calls_;
    index by_id_, by_name_;
};

} // namespace

tool_pairing::tool_pairing(const conversation& chat)
{
    open_calls open(calls);
    const auto add_result = [&](std::size_t message, std::size_t part, std::string_view id,
                                std::string_view name) {
        const auto found = open.find(id, name);
        if (found)
            calls[*found].result = results.size();
        results.push_back({message, part, found});
    };
    const auto messages = conversation_access::messages_from(chat, 0);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto& next = *messages[i];
        if (message_access::is_plain(next)) {
            if (message_access::is_plain_result(next))
                add_result(i, 0, message_access::plain_call_id(next), {});
            continue;
        }
        const auto& parts = message_access::parts_of_item(next);
        for (std::size_t k = 0; k < parts.size(); ++k) {
            const auto id = part_access::id(parts[k]);
            const auto name = part_access::name(parts[k]);
            if (parts[k].kind() == part_kind::tool_call)
                open.add({i, k, id, name, false, std::nullopt});
            else if (parts[k].kind() == part_kind::tool_result)
                add_result(i, k, id, name);
        }
    }
    for (auto& next : calls) // only where it matters: it means parsing
        if (!next.result)
            next.is_cut_off =
                part_access::is_cut_off(message_access::parts_of_item(*messages[next.message])[next.part]);
}

} // namespace waymark::detail
