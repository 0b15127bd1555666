#include "api_errors.hpp"
#include "assembler.hpp"
#include "json_members.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <map>
#include <vector>

namespace waymark::wire {

namespace json = boost::json;

namespace chat_completions_stream {
namespace {

constexpr int deepest_delta = 8; // what nests deeper is taken as a whole

void merge(json::object& into, const json::object& delta, int depth = 0);

json::value as_blocks(const json::value& content)
{
    if (!content.is_string())
        return content;
    json::array blocks;
    if (!content.get_string().empty())
        blocks.push_back(json::object{{"type", "text"}, {"text", content}});
    return blocks;
}

//! Text goes on, lists grow, objects are merged; of anything else the newest counts.
void merge_member(json::value& into, std::string_view key, const json::value& delta, int depth)
{
    if (key == "content" && into.is_array() != delta.is_array() && (into.is_string() || delta.is_string())) {
        into = as_blocks(into); // some servers change from texts to lists of blocks, and back
        merge_member(into, key, as_blocks(delta), depth);
    } else if (into.is_string() && delta.is_string()) {
        auto& before = into.get_string();
        const auto& next = delta.get_string();
        // Some servers repeat what tells a call from others with each piece.
        const bool is_repeated =
            !before.empty() && (is_one_of(key, {"id", "type", "role"}) || (key == "name" && before == next));
        if (!is_repeated)
            before.append(next);
    } else if (into.is_array() && delta.is_array()) {
        auto& before = into.get_array();
        before.insert(before.end(), delta.get_array().begin(), delta.get_array().end());
    } else if (into.is_object() && delta.is_object() && depth < deepest_delta) {
        merge(into.get_object(), delta.get_object(), depth + 1);
    } else if (!delta.is_null()) {
        into = delta;
    }
}

void merge(json::object& into, const json::object& delta, int depth)
{
    for (const auto& member : delta)
        if (const auto [place, is_new] = into.insert(member); !is_new)
            merge_member(place->value(), member.key(), member.value(), depth);
}

struct choice {
    json::object others; // finish_reason, logprobs
    json::object message;
    std::vector<std::int64_t> call_indexes; // of the entries of `tool_calls`
    std::size_t newest_call = 0;            // which pieces came for last
};

class assembler_of_chunks final : public assembler {
public:
    std::string add(const json::object& event) override
    {
        const auto* const choices = find_at(event, "choices");
        if (choices == nullptr || !all_objects(*choices, [](const json::object&) { return true; }))
            throw_no_event(api::chat_completions, "it has no list 'choices' of objects");
        for (const auto& member : event)
            if (member.key() == "choices")
                whole_.emplace("choices", nullptr); // keeps the place
            else if (member.key() != "obfuscation") // padding
                take_newest(member.key(), member.value());
        if (whole_.contains("object"))
            whole_["object"] = "chat.completion";
        for (const auto& next : choices->get_array())
            add_choice(next.get_object());
        std::string text;
        for (const auto& next : choices->get_array())
            text += text_of_delta(next.get_object());
        return text;
    }

    bool is_complete() const noexcept override
    {
        return !choices_.empty() && std::all_of(choices_.begin(), choices_.end(), [](const auto& next) {
            return has_value(next.second.others, "finish_reason");
        });
    }

    json::object response() const override
    {
        json::array choices;
        for (const auto& [index, next] : choices_) {
            json::object made{{"index", index}, {"message", next.message}};
            if (!has_value(next.others, "finish_reason"))
                drop_begun_call(made.at("message").get_object(), next.newest_call);
            for (const auto& member : next.others)
                made.insert(member);
            choices.push_back(std::move(made));
        }
        auto whole = whole_;
        whole["choices"] = std::move(choices);
        return whole;
    }

private:
    void take_newest(std::string_view key, const json::value& value)
    {
        auto& place = whole_[key];
        if (!value.is_null())
            place = value;
    }

    //! Of the choice that counts.
    std::string text_of_delta(const json::object& choice) const
    {
        const auto* const delta = object_at(choice, "delta");
        if (delta == nullptr || index_at(choice, "index", 0) != choices_.begin()->first)
            return {};
        auto text = std::string(text_at(*delta, "content")).append(text_at(*delta, "refusal"));
        if (const auto* const blocks = array_at(*delta, "content"))
            for (const auto& next : *blocks)
                if (const auto* const block = next.if_object();
                    block != nullptr && text_at(*block, "type") == "text")
                    text += text_at(*block, "text");
        return text;
    }

    void add_choice(const json::object& from)
    {
        auto& to = choices_[index_at(from, "index", 0)];
        for (const auto& member : from)
            if (member.key() == "finish_reason") {
                auto& reason = to.others["finish_reason"];
                if (!member.value().is_null())
                    reason = member.value();
            } else if (!is_one_of(member.key(), {"index", "delta", "message"})) {
                merge(to.others, {{member.key(), member.value()}});
            }
        const auto* const delta = object_at(from, "delta");
        if (delta == nullptr)
            return;
        for (const auto& member : *delta)
            if (member.key() != "tool_calls")
                merge(to.message, {{member.key(), member.value()}});
            else if (const auto* const calls = member.value().if_array())
                add_calls(to, *calls);
    }

    static void add_calls(choice& to, const json::array& deltas)
    {
        auto& place = to.message["tool_calls"];
        auto& calls = place.is_array() ? place.get_array() : place.emplace_array();
        for (const auto& next : deltas) {
            const auto* const delta = next.if_object();
            if (delta == nullptr)
                throw_no_event(api::chat_completions, "one of its 'tool_calls' is no object");
            auto piece = *delta;
            if (const auto index = piece.find("index"); index != piece.end())
                piece.stable_erase(index);
            to.newest_call = find_call(to, calls, *delta);
            merge(calls[to.newest_call].get_object(), piece);
        }
    }

    //! Where a stream broke off, the newest call may look complete although it has only begun: its arguments
    //! are empty, or any text. Nobody may run it.
    static void drop_begun_call(json::object& message, std::size_t newest)
    {
        auto* const place = message.if_contains("tool_calls");
        auto* const calls = place == nullptr ? nullptr : place->if_array();
        if (calls == nullptr || newest >= calls->size())
            return;
        const auto& call = (*calls)[newest].get_object();
        const auto* const function = object_at(call, "function");
        if (function != nullptr && !text_at(*function, "arguments").empty())
            return;
        calls->erase(calls->begin() + static_cast<std::ptrdiff_t>(newest));
        if (calls->empty())
            message.stable_erase(message.find("tool_calls"));
    }

    //! The call that a piece belongs to; a new one, if need be. Some servers give no index, or all calls the
    //! same.
    static std::size_t find_call(choice& to, json::array& calls, const json::object& delta)
    {
        const auto id = text_at(delta, "id");
        const auto is_same = [&](std::size_t i) {
            const auto known = text_at(calls[i].get_object(), "id");
            return id.empty() || known.empty() || id == known;
        };
        const auto newest = to.call_indexes.empty() ? 0 : to.call_indexes.back();
        const auto index = index_at(delta, "index", newest);
        for (auto i = to.call_indexes.size(); i-- > 0;)
            if (to.call_indexes[i] == index && is_same(i))
                return i;
        calls.push_back(json::object{});
        to.call_indexes.push_back(index);
        return calls.size() - 1;
    }

    json::object whole_;
    std::map<std::int64_t, choice> choices_;
};

} // namespace
} // namespace chat_completions_stream

std::unique_ptr<assembler> assemble_chat_completions()
{
    return std::make_unique<chat_completions_stream::assembler_of_chunks>();
}

} // namespace waymark::wire
