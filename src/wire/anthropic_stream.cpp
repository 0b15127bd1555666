#include "../values/json_document.hpp"
#include "api_errors.hpp"
#include "assembler.hpp"
#include "json_members.hpp"

#include <waymark/error.hpp>

#include <boost/json/array.hpp>

#include <map>
#include <string>

namespace waymark::wire {

namespace json = boost::json;

namespace anthropic_stream {
namespace {

//! What has come of the input of a call: as JSON, or, if it is not all there, the text.
json::value read_input(const std::string& text)
{
    try {
        return detail::parse_json(text, limits::highest_max_depth, "the input of a call");
    } catch (const error&) {
        return json::value(text);
    }
}

struct block {
    json::object content;
    std::string input; // the JSON so far
    bool has_ended = false;
};

class assembler_of_events final : public assembler {
public:
    std::string add(const json::object& event) override
    {
        const auto type = text_at(event, "type");
        if (type.empty())
            throw_no_event(api::anthropic, "it has no 'type'");
        if (type == "message_start") {
            if (const auto* const message = object_at(event, "message"))
                message_ = *message;
        } else if (type == "content_block_start") {
            if (const auto* const content = object_at(event, "content_block"))
                blocks_[index_at(event, "index", 0)] = {*content, {}, false};
        } else if (type == "content_block_delta") {
            add_delta(block_of(event), event);
        } else if (type == "content_block_stop") {
            end(block_of(event));
        } else if (type == "message_delta") {
            add_message_delta(event);
        } else if (type == "message_stop") {
            is_complete_ = true;
        } // "ping", and what comes tomorrow
        return text_of(event);
    }

    bool is_complete() const noexcept override { return is_complete_; }

    json::object response() const override
    {
        json::array content;
        if (const auto* const begun = array_at(message_, "content"))
            content = *begun;
        for (const auto& [index, next] : blocks_) {
            auto& made = content.emplace_back(next.content).get_object();
            // A call without input looks complete from its beginning: it has an empty object.
            if (!next.has_ended && !is_complete_ && made.contains("input"))
                made["input"] = read_input(next.input);
        }
        auto message = message_;
        message["content"] = std::move(content);
        return message;
    }

private:
    static std::string text_of(const json::object& event)
    {
        for (const auto* const member : {"content_block", "delta"})
            if (const auto* const piece = object_at(event, member);
                piece != nullptr && is_one_of(text_at(*piece, "type"), {"text", "text_delta"}))
                return std::string(text_at(*piece, "text"));
        return {};
    }

    block& block_of(const json::object& event)
    {
        const auto found = blocks_.find(index_at(event, "index", 0));
        if (found == blocks_.end())
            throw_no_event(api::anthropic, "it goes on with a content block that has not begun");
        return found->second;
    }

    static void add_delta(block& to, const json::object& event)
    {
        const auto* const delta = object_at(event, "delta");
        if (delta == nullptr)
            throw_no_event(api::anthropic, "it has no 'delta'");
        const auto type = text_at(*delta, "type");
        if (type == "input_json_delta") {
            to.input += text_at(*delta, "partial_json");
        } else if (const auto* const citation = find_at(*delta, "citation")) {
            auto& list = to.content["citations"];
            (list.is_array() ? list.get_array() : list.emplace_array()).push_back(*citation);
        } else {
            for (const auto& member : *delta) // "text", "thinking", "signature"
                if (member.key() != "type" && member.value().is_string())
                    append_text(to.content, member.key(), member.value().get_string());
        }
    }

    static void end(block& which)
    {
        which.has_ended = true;
        if (!which.input.empty())
            which.content["input"] = read_input(which.input);
        which.input.clear();
    }

    void add_message_delta(const json::object& event)
    {
        for (const auto& member : event)
            if (const auto* const members = member.value().if_object();
                members != nullptr && is_one_of(member.key(), {"delta", "usage"})) {
                auto& usage = message_["usage"];
                auto& to = member.key() == "delta" ? message_
                           : usage.is_object()     ? usage.get_object()
                                                   : usage.emplace_object();
                for (const auto& [key, value] : *members)
                    to[key] = value;
            } else if (member.key() != "type") {
                message_[member.key()] = member.value();
            }
    }

    json::object message_;
    std::map<std::int64_t, block> blocks_;
    bool is_complete_ = false;
};

} // namespace
} // namespace anthropic_stream

std::unique_ptr<assembler> assemble_anthropic()
{
    return std::make_unique<anthropic_stream::assembler_of_events>();
}

} // namespace waymark::wire
