#include "api_errors.hpp"
#include "assembler.hpp"
#include "json_members.hpp"

#include <boost/json/array.hpp>

#include <map>
#include <optional>

namespace waymark::wire {

namespace json = boost::json;

namespace responses_stream {
namespace {

//! Text that comes in pieces: "….delta" has the next one as `delta`, "….done" all of it as `member`.
struct text_in_pieces {
    std::string_view event;
    std::string_view list;  // of the item, in which the text stands; empty if it stands in the item itself
    std::string_view index; // the member of the event that says where in the list
    std::string_view member;
};

constexpr text_in_pieces texts[] = {
    {"response.output_text", "content", "content_index", "text"},
    {"response.refusal", "content", "content_index", "refusal"},
    {"response.reasoning_text", "content", "content_index", "text"},
    {"response.reasoning_summary_text", "summary", "summary_index", "text"},
    {"response.function_call_arguments", "", "", "arguments"},
    {"response.mcp_call_arguments", "", "", "arguments"},
    {"response.custom_tool_call_input", "", "", "input"},
    {"response.code_interpreter_call_code", "", "", "code"},
};

class assembler_of_events final : public assembler {
public:
    std::string add(const json::object& event) override
    {
        const auto type = text_at(event, "type");
        if (type.empty())
            throw_no_event(api::responses, "it has no 'type'");
        if (const auto* const response = object_at(event, "response")) {
            whole_ = *response;
            is_complete_ = is_one_of(
                type, {"response.completed", "response.incomplete", "response.failed", "response.cancelled"});
        } else if (is_one_of(type, {"response.output_item.added", "response.output_item.done"})) {
            if (const auto* const item = object_at(event, "item"))
                items_[index_at(event, "output_index", 0)] = {*item, type.ends_with(".done")};
        } else if (const auto item = items_.find(index_at(event, "output_index", 0)); item != items_.end()) {
            add_to_item(item->second.content, type, event);
        } // others tell of progress: what they have to say comes again with the item
        return is_one_of(type, {"response.output_text.delta", "response.refusal.delta"})
                   ? std::string(text_at(event, "delta"))
                   : std::string();
    }

    bool is_complete() const noexcept override { return is_complete_; }

    json::object response() const override
    {
        auto whole = whole_;
        if (whole.empty())
            whole = {{"object", "response"}, {"status", "in_progress"}};
        // Some servers leave the items out of the end, since all of them have come.
        const auto* const output = array_at(whole, "output");
        if (is_complete_ && output != nullptr && !output->empty())
            return whole;
        json::array items;
        for (const auto& [index, item] : items_) {
            auto made = item.content;
            if (!item.has_ended) // nobody may run half a call
                made.emplace("status", "incomplete");
            items.push_back(std::move(made));
        }
        whole["output"] = std::move(items);
        return whole;
    }

private:
    static void add_to_item(json::object& item, std::string_view type, const json::object& event)
    {
        if (is_one_of(type, {"response.content_part.added", "response.content_part.done"}))
            set_part(item, "content", "content_index", event);
        else if (is_one_of(type,
                           {"response.reasoning_summary_part.added", "response.reasoning_summary_part.done"}))
            set_part(item, "summary", "summary_index", event);
        else if (type == "response.output_text.annotation.added")
            add_annotation(item, event);
        else
            for (const auto& text : texts)
                if (type.starts_with(text.event))
                    add_text(item, text, type.substr(text.event.size()), event);
    }

    //! Null if it has not begun. One behind the end begins if there is `part`.
    static json::object* find_part(json::object& item, std::string_view list, std::int64_t index,
                                   const json::object* part = nullptr)
    {
        auto& place = item[list];
        auto& parts = place.is_array() ? place.get_array() : place.emplace_array();
        const auto wanted = static_cast<std::uint64_t>(index);
        if (wanted == parts.size() && part != nullptr)
            return &parts.emplace_back(*part).get_object();
        return wanted < parts.size() ? parts[static_cast<std::size_t>(wanted)].if_object() : nullptr;
    }

    static void set_part(json::object& item, std::string_view list, std::string_view index,
                         const json::object& event)
    {
        const auto* const part = object_at(event, "part");
        if (part == nullptr)
            return;
        if (auto* const found = find_part(item, list, index_at(event, index, 0), part))
            *found = *part;
    }

    static void add_annotation(json::object& item, const json::object& event)
    {
        auto* const part = find_part(item, "content", index_at(event, "content_index", 0));
        const auto* const annotation = find_at(event, "annotation");
        if (part == nullptr || annotation == nullptr)
            return;
        auto& list = (*part)["annotations"];
        (list.is_array() ? list.get_array() : list.emplace_array()).push_back(*annotation);
    }

    static void add_text(json::object& item, const text_in_pieces& text, std::string_view suffix,
                         const json::object& event)
    {
        auto* const place =
            text.list.empty() ? &item : find_part(item, text.list, index_at(event, text.index, 0));
        if (place == nullptr)
            return;
        if (suffix == ".delta")
            append_text(*place, text.member, text_at(event, "delta"));
        else if (const auto* const all = string_at(event, text.member); all != nullptr && suffix == ".done")
            (*place)[text.member] = *all;
    }

    json::object whole_;
    struct output_item {
        json::object content;
        bool has_ended = false;
    };
    std::map<std::int64_t, output_item> items_;
    bool is_complete_ = false;
};

} // namespace
} // namespace responses_stream

std::unique_ptr<assembler> assemble_responses()
{
    return std::make_unique<responses_stream::assembler_of_events>();
}

} // namespace waymark::wire
