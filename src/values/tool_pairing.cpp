#include "tool_pairing.hpp"

#include "item_parts.hpp"
#include "storage_memory.hpp"

#include <unordered_map>

namespace waymark::detail {

namespace {

//! The open calls of one id or one name. The next result is for the first of them in the newest message that
//! has any.
class queue_of_calls {
public:
    void add(std::size_t message, std::size_t call)
    {
        if (turns_.empty() || turns_.back().message != message)
            turns_.push_back({message, 0, {}});
        turns_.back().calls.push_back(call);
    }

    std::optional<std::size_t> first(const std::vector<tool_pairing::call>& all)
    {
        for (; !turns_.empty(); turns_.pop_back()) {
            auto& [message, next, calls] = turns_.back();
            while (next < calls.size() && all[calls[next]].result)
                ++next;
            if (next < calls.size())
                return calls[next];
        }
        return std::nullopt;
    }

private:
    struct turn {
        std::size_t message;
        std::size_t next;
        std::vector<std::size_t> calls;
    };
    std::vector<turn> turns_;
};

//! Calls that wait for their result, by id and by name.
class open_calls {
public:
    explicit open_calls(std::vector<tool_pairing::call>& calls) : calls_(calls) {}

    //! Responses of Gemini's, and they alone, may leave out the id of a call that has one.
    void add(tool_pairing::call added, bool is_of_gemini)
    {
        const auto number = calls_.size();
        if (!added.id.empty())
            by_id_[added.id].add(added.message, number);
        if (!added.name.empty() && (added.id.empty() || is_of_gemini))
            (added.id.empty() ? without_id_ : with_id_)[added.name].add(added.message, number);
        if (added.id.empty())
            without_id_[{}].add(added.message, number); // a result may say nothing of its call
        calls_.push_back(added);
    }

    //! A result without an id is for a call without one, if there is any.
    std::optional<std::size_t> find(std::string_view id, std::string_view name)
    {
        if (!id.empty())
            return first_of(by_id_, id);
        const auto found = first_of(without_id_, name);
        return found || name.empty() ? found : first_of(with_id_, name);
    }

private:
    using index = std::unordered_map<std::string_view, queue_of_calls>;

    std::optional<std::size_t> first_of(index& in, std::string_view key)
    {
        const auto found = in.find(key);
        return found == in.end() ? std::nullopt : found->second.first(calls_);
    }

    std::vector<tool_pairing::call>& calls_;
    index by_id_, without_id_, with_id_; // the latter two by name
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
                open.add({i, k, id, name, false, std::nullopt}, next.item().contains("parts"));
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
