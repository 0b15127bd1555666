#include "scripted_model.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string_view>

namespace model_api {

namespace {

namespace json = boost::json;

constexpr std::size_t max_nights = 50;
constexpr std::string_view tool_name = "book_night";

// Small things

//! FNV-1a: it has to notice changes, not attackers.
std::string hash(std::string_view text)
{
    std::uint64_t value = 14695981039346656037U;
    for (const char c : text)
        value = (value ^ static_cast<unsigned char>(c)) * 1099511628211U;
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4)
        digits += "0123456789abcdef"[(value >> shift) & 15U];
    return digits;
}

//! The seal of an object: over everything in it but the seal itself, in its order.
std::string seal(json::object of, std::string_view name)
{
    if (const auto found = of.find(name); found != of.end())
        of.stable_erase(found);
    return hash("sealed " + json::serialize(of));
}

std::string_view text_of(const json::object& in, std::string_view name)
{
    const auto* found = in.if_contains(name);
    return found != nullptr && found->is_string() ? std::string_view(found->get_string())
                                                  : std::string_view();
}

const json::array& array_of(const json::object& in, std::string_view name)
{
    static const json::array none;
    const auto* found = in.if_contains(name);
    return found != nullptr && found->is_array() ? found->get_array() : none;
}

//! Pieces of a text, cut anywhere but inside a character: each event is JSON.
std::vector<std::string> pieces(std::string_view text)
{
    std::vector<std::string> all;
    while (!text.empty()) {
        std::size_t end = std::min<std::size_t>(text.size(), 7);
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
            ++end;
        all.emplace_back(text.substr(0, end));
        text.remove_prefix(end);
    }
    return all;
}

json::object arguments_of(std::size_t night)
{
    return {{"night", night}};
}

//! With a space, which a client that parses and writes it again would lose.
std::string argument_text(std::size_t night)
{
    return "{\"night\": " + std::to_string(night) + "}";
}

// Reading a request

//! What matters of a conversation.
struct request_reader {
    std::size_t nights = 0;  // that are wanted
    std::size_t results = 0; // since that was said
    std::size_t failures = 0;
    std::string task;
    bool has_tool = false;

    void user_said(std::string_view text)
    {
        const auto digit = text.find_first_of("0123456789");
        if (digit == text.npos)
            return;
        nights = std::min<std::size_t>(std::strtoul(std::string(text.substr(digit, 9)).c_str(), nullptr, 10),
                                       max_nights);
        task = text;
        results = failures = 0;
    }

    void tool_returned(std::string_view text)
    {
        ++results;
        failures += text.find("is booked") == text.npos ? 1 : 0;
    }

    //! A string, or parts with a text.
    static std::string joined(const json::value& content)
    {
        if (content.is_string())
            return std::string(content.get_string());
        std::string all;
        if (content.is_array())
            for (const auto& part : content.get_array())
                all += text_of(part.as_object(), "text");
        return all;
    }

    static std::string joined(const json::object& in, std::string_view name)
    {
        const auto* found = in.if_contains(name);
        return found == nullptr ? std::string() : joined(*found);
    }

    void read_chat_completions(const json::object& request)
    {
        for (const auto& entry : array_of(request, "messages")) {
            const auto& message = entry.as_object();
            if (text_of(message, "role") == "user")
                user_said(joined(message, "content"));
            else if (text_of(message, "role") == "tool")
                tool_returned(joined(message, "content"));
        }
        for (const auto& tool : array_of(request, "tools"))
            if (const auto* function = tool.as_object().if_contains("function"))
                has_tool = has_tool || text_of(function->as_object(), "name") == tool_name;
    }

    void read_responses(const json::object& request)
    {
        if (text_of(request, "input") != "")
            user_said(text_of(request, "input"));
        for (const auto& entry : array_of(request, "input")) {
            const auto& item = entry.as_object();
            if (text_of(item, "role") == "user")
                user_said(joined(item, "content"));
            else if (text_of(item, "type") == "function_call_output")
                tool_returned(joined(item, "output"));
        }
        for (const auto& tool : array_of(request, "tools"))
            has_tool = has_tool || text_of(tool.as_object(), "name") == tool_name;
    }

    void read_anthropic(const json::object& request)
    {
        for (const auto& entry : array_of(request, "messages")) {
            const auto& message = entry.as_object();
            if (text_of(message, "role") != "user")
                continue;
            user_said(text_of(message, "content"));
            for (const auto& part : array_of(message, "content")) {
                const auto& block = part.as_object();
                if (text_of(block, "type") == "tool_result")
                    tool_returned(joined(block, "content"));
                else
                    user_said(text_of(block, "text"));
            }
        }
        for (const auto& tool : array_of(request, "tools"))
            has_tool = has_tool || text_of(tool.as_object(), "name") == tool_name;
    }

    void read_gemini(const json::object& request)
    {
        for (const auto& entry : array_of(request, "contents")) {
            const auto& content = entry.as_object();
            if (text_of(content, "role") == "model")
                continue;
            for (const auto& value : array_of(content, "parts")) {
                const auto& part = value.as_object();
                if (const auto* returned = part.if_contains("functionResponse"))
                    tool_returned(json::serialize(*returned));
                else
                    user_said(text_of(part, "text"));
            }
        }
        for (const auto& tool : array_of(request, "tools"))
            for (const auto& function : array_of(tool.as_object(), "functionDeclarations"))
                has_tool = has_tool || text_of(function.as_object(), "name") == tool_name;
    }
};

// Chat Completions. Reasoning is not sealed there.

std::string chat_call_id(const turn& said, std::size_t index)
{
    return "call_" + said.id + std::to_string(index);
}

json::object chat_message(const turn& said)
{
    json::object message{{"role", "assistant"}, {"content", nullptr}, {"reasoning_content", said.thought}};
    if (said.nights.empty()) {
        message["content"] = said.text;
        return message;
    }
    auto& calls = message["tool_calls"].emplace_array();
    for (std::size_t i = 0; i < said.nights.size(); ++i) {
        const json::object function{{"name", tool_name}, {"arguments", argument_text(said.nights[i])}};
        calls.push_back({{"id", chat_call_id(said, i)}, {"type", "function"}, {"function", function}});
    }
    return message;
}

std::string_view chat_finish(const turn& said)
{
    return said.nights.empty() ? "stop" : "tool_calls";
}

json::object chat_response(const turn& said, const std::string& model)
{
    json::array choices;
    choices.push_back({{"index", 0},
                       {"message", chat_message(said)},
                       {"logprobs", nullptr},
                       {"finish_reason", chat_finish(said)}});
    return {{"id", "chatcmpl-" + said.id},
            {"object", "chat.completion"},
            {"created", 1'767'225'600},
            {"model", model},
            {"choices", choices},
            {"usage", {{"prompt_tokens", 90}, {"completion_tokens", 20}, {"total_tokens", 110}}}};
}

events chat_stream(const turn& said, const std::string& model)
{
    events all;
    const auto add = [&](json::object delta, json::value finish = nullptr) {
        json::array choices;
        choices.push_back({{"index", 0}, {"delta", std::move(delta)}, {"finish_reason", std::move(finish)}});
        all.emplace_back("", json::object{{"id", "chatcmpl-" + said.id},
                                          {"object", "chat.completion.chunk"},
                                          {"created", 1'767'225'600},
                                          {"model", model},
                                          {"choices", std::move(choices)}});
    };
    const auto add_call = [&](json::object call) {
        json::array calls;
        calls.push_back(std::move(call));
        add({{"tool_calls", std::move(calls)}});
    };
    add({{"role", "assistant"}, {"content", nullptr}});
    for (const auto& piece : pieces(said.thought))
        add({{"reasoning_content", piece}});
    for (const auto& piece : pieces(said.text))
        add({{"content", piece}});
    for (std::size_t i = 0; i < said.nights.size(); ++i) {
        add_call({{"index", i},
                  {"id", chat_call_id(said, i)},
                  {"type", "function"},
                  {"function", {{"name", tool_name}, {"arguments", ""}}}});
        for (const auto& piece : pieces(argument_text(said.nights[i])))
            add_call({{"index", i}, {"function", {{"arguments", piece}}}});
    }
    add({}, json::value(chat_finish(said)));
    return all;
}

// Responses. A reasoning item has encrypted content, and calls go with it.

json::array responses_output(const turn& said)
{
    json::array summary;
    summary.push_back({{"type", "summary_text"}, {"text", said.thought}});
    json::object reasoning{{"id", "rs_" + said.id}, {"type", "reasoning"}, {"summary", summary}};
    reasoning["encrypted_content"] = "gAAAAA" + seal(reasoning, "encrypted_content") + "==";
    json::array output;
    output.push_back(reasoning);
    for (std::size_t i = 0; i < said.nights.size(); ++i) {
        const auto suffix = said.id + std::to_string(i);
        output.push_back({{"id", "fc_" + suffix},
                          {"type", "function_call"},
                          {"status", "completed"},
                          {"arguments", argument_text(said.nights[i])},
                          {"call_id", "call_" + suffix},
                          {"name", tool_name}});
    }
    if (said.nights.empty()) {
        json::array content;
        content.push_back({{"type", "output_text"},
                           {"annotations", json::array()},
                           {"logprobs", json::array()},
                           {"text", said.text}});
        output.push_back({{"id", "msg_" + said.id},
                          {"type", "message"},
                          {"status", "completed"},
                          {"content", content},
                          {"role", "assistant"}});
    }
    return output;
}

json::object responses_response(const turn& said, const std::string& model)
{
    return {{"id", "resp_" + said.id},
            {"object", "response"},
            {"created_at", 1'767'225'600},
            {"status", "completed"},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"model", model},
            {"output", responses_output(said)},
            {"store", false},
            {"usage", {{"input_tokens", 90}, {"output_tokens", 20}, {"total_tokens", 110}}}};
}

//! Adds the numbers that the events of a stream have.
class responses_events {
public:
    void add(std::string_view type, json::object members)
    {
        json::object event{{"type", type}, {"sequence_number", all_.size()}};
        for (auto& member : members)
            event[member.key()] = std::move(member.value());
        all_.emplace_back(std::string(type), std::move(event));
    }

    void add_reasoning(std::size_t index, const json::object& item)
    {
        const auto& id = item.at("id");
        const auto& part = item.at("summary").at(0);
        auto empty = part.as_object();
        empty["text"] = "";
        add("response.reasoning_summary_part.added",
            {{"item_id", id}, {"output_index", index}, {"summary_index", 0}, {"part", empty}});
        for (const auto& piece : pieces(text_of(part.as_object(), "text")))
            add("response.reasoning_summary_text.delta",
                {{"item_id", id}, {"output_index", index}, {"summary_index", 0}, {"delta", piece}});
        add("response.reasoning_summary_text.done",
            {{"item_id", id}, {"output_index", index}, {"summary_index", 0}, {"text", part.at("text")}});
        add("response.reasoning_summary_part.done",
            {{"item_id", id}, {"output_index", index}, {"summary_index", 0}, {"part", part}});
    }

    void add_call(std::size_t index, const json::object& item)
    {
        const auto& id = item.at("id");
        for (const auto& piece : pieces(text_of(item, "arguments")))
            add("response.function_call_arguments.delta",
                {{"item_id", id}, {"output_index", index}, {"delta", piece}});
        add("response.function_call_arguments.done",
            {{"item_id", id}, {"output_index", index}, {"arguments", item.at("arguments")}});
    }

    void add_message(std::size_t index, const json::object& item)
    {
        const auto& id = item.at("id");
        const auto& part = item.at("content").at(0);
        auto empty = part.as_object();
        empty["text"] = "";
        add("response.content_part.added",
            {{"item_id", id}, {"output_index", index}, {"content_index", 0}, {"part", empty}});
        for (const auto& piece : pieces(text_of(part.as_object(), "text")))
            add("response.output_text.delta", {{"item_id", id},
                                               {"output_index", index},
                                               {"content_index", 0},
                                               {"delta", piece},
                                               {"logprobs", json::array()}});
        add("response.output_text.done", {{"item_id", id},
                                          {"output_index", index},
                                          {"content_index", 0},
                                          {"text", part.at("text")},
                                          {"logprobs", json::array()}});
        add("response.content_part.done",
            {{"item_id", id}, {"output_index", index}, {"content_index", 0}, {"part", part}});
    }

    events take() && { return std::move(all_); }

private:
    events all_;
};

//! The item as it is announced, with nothing in it yet.
json::object begun(json::object item)
{
    const std::string type(text_of(item, "type"));
    if (type == "reasoning") {
        item["summary"].emplace_array();
        item["encrypted_content"] = "gAAAAA"; // the real one also begins with another
    } else {
        item["status"] = "in_progress";
        if (type == "function_call")
            item["arguments"] = "";
        else
            item["content"].emplace_array();
    }
    return item;
}

events responses_stream(const turn& said, const std::string& model)
{
    const auto complete = responses_response(said, model);
    auto under_way = complete;
    under_way["status"] = "in_progress";
    under_way["output"].emplace_array();
    under_way["usage"] = nullptr;
    responses_events all;
    all.add("response.created", {{"response", under_way}});
    all.add("response.in_progress", {{"response", under_way}});
    std::size_t index = 0;
    for (const auto& value : array_of(complete, "output")) {
        const auto& item = value.as_object();
        all.add("response.output_item.added", {{"output_index", index}, {"item", begun(item)}});
        if (text_of(item, "type") == "reasoning")
            all.add_reasoning(index, item);
        else if (text_of(item, "type") == "function_call")
            all.add_call(index, item);
        else
            all.add_message(index, item);
        all.add("response.output_item.done", {{"output_index", index}, {"item", item}});
        ++index;
    }
    all.add("response.completed", {{"response", complete}});
    return std::move(all).take();
}

std::vector<std::string> responses_seals(const json::object& request)
{
    std::vector<std::string> broken;
    std::set<std::string_view> reasoning; // before the item at hand
    for (const auto& value : array_of(request, "input")) {
        const auto& item = value.as_object();
        const auto id = text_of(item, "id");
        if (text_of(item, "type") == "reasoning") {
            if (text_of(item, "encrypted_content") != "gAAAAA" + seal(item, "encrypted_content") + "==")
                broken.push_back("The encrypted content for item " + std::string(id) +
                                 " could not be verified.");
            reasoning.insert(id);
        } else if (id.starts_with("fc_") && text_of(item, "type") == "function_call") {
            const auto required = "rs_" + std::string(id.substr(3, 16));
            if (id.size() > 19 && !reasoning.contains(required))
                broken.push_back(
                    "Item '" + std::string(id) +
                    "' of type 'function_call' was provided without its required 'reasoning' item: '" +
                    required + "'.");
        }
    }
    return broken;
}

// Anthropic. Thinking is signed, and begins each message that has calls. Some of it is redacted.

json::array anthropic_content(const turn& said)
{
    json::array content;
    json::object thinking{{"type", "thinking"}, {"thinking", said.thought}};
    thinking["signature"] = "Eq" + said.id + seal(thinking, "signature") + "==";
    content.push_back(thinking);
    if (said.nights.size() > 1)
        content.push_back(
            {{"type", "redacted_thinking"}, {"data", "Em" + said.id + hash("redacted " + said.id)}});
    if (!said.text.empty())
        content.push_back({{"type", "text"}, {"text", said.text}});
    for (std::size_t i = 0; i < said.nights.size(); ++i)
        content.push_back({{"type", "tool_use"},
                           {"id", "toolu_" + said.id + std::to_string(i)},
                           {"name", tool_name},
                           {"input", arguments_of(said.nights[i])}});
    return content;
}

json::object anthropic_response(const turn& said, const std::string& model)
{
    return {{"id", "msg_" + said.id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model},
            {"content", anthropic_content(said)},
            {"stop_reason", said.nights.empty() ? "end_turn" : "tool_use"},
            {"stop_sequence", nullptr},
            {"usage", {{"input_tokens", 90}, {"output_tokens", 20}}}};
}

events anthropic_stream(const turn& said, const std::string& model)
{
    events all;
    const auto add = [&](std::string_view type, json::object members) {
        json::object event{{"type", type}};
        for (auto& member : members)
            event[member.key()] = std::move(member.value());
        all.emplace_back(std::string(type), std::move(event));
    };
    auto message = anthropic_response(said, model);
    const auto content = message.at("content").as_array();
    const auto stop_reason = message.at("stop_reason");
    message["content"].emplace_array();
    message["stop_reason"] = nullptr;
    add("message_start", {{"message", message}});
    add("ping", {});
    for (std::size_t index = 0; index < content.size(); ++index) {
        auto begun = content[index].as_object();
        std::vector<json::object> deltas;
        const std::string type(text_of(begun, "type"));
        if (type == "thinking") {
            for (const auto& piece : pieces(text_of(begun, "thinking")))
                deltas.push_back({{"type", "thinking_delta"}, {"thinking", piece}});
            deltas.push_back({{"type", "signature_delta"}, {"signature", begun.at("signature")}});
            begun["thinking"] = begun["signature"] = "";
        } else if (type == "text") {
            for (const auto& piece : pieces(text_of(begun, "text")))
                deltas.push_back({{"type", "text_delta"}, {"text", piece}});
            begun["text"] = "";
        } else if (type == "tool_use") {
            deltas.push_back({{"type", "input_json_delta"}, {"partial_json", ""}});
            for (const auto& piece : pieces(json::serialize(begun.at("input"))))
                deltas.push_back({{"type", "input_json_delta"}, {"partial_json", piece}});
            begun["input"].emplace_object();
        }
        add("content_block_start", {{"index", index}, {"content_block", begun}});
        for (const auto& delta : deltas)
            add("content_block_delta", {{"index", index}, {"delta", delta}});
        add("content_block_stop", {{"index", index}});
    }
    add("message_delta", {{"delta", {{"stop_reason", stop_reason}, {"stop_sequence", nullptr}}},
                          {"usage", {{"output_tokens", 20}}}});
    add("message_stop", {});
    return all;
}

//! The turn that a signed block comes from, or nothing if its seal is broken.
std::string_view turn_of(const json::object& block)
{
    const auto text = text_of(block, text_of(block, "type") == "thinking" ? "signature" : "data");
    const auto id = text.size() > 18 ? text.substr(2, 16) : std::string_view();
    if (text_of(block, "type") == "thinking")
        return text == "Eq" + std::string(id) + seal(block, "signature") + "==" ? id : std::string_view();
    return text == "Em" + std::string(id) + hash("redacted " + std::string(id)) ? id : std::string_view();
}

std::vector<std::string> anthropic_seals(const json::object& request)
{
    std::vector<std::string> broken;
    const auto& messages = array_of(request, "messages");
    for (std::size_t m = 0; m < messages.size(); ++m) {
        const auto& content = array_of(messages[m].as_object(), "content");
        std::multiset<std::string_view> thought; // in this message
        for (std::size_t b = 0; b < content.size(); ++b) {
            const auto& block = content[b].as_object();
            const auto where = "messages." + std::to_string(m) + ".content." + std::to_string(b);
            const std::string type(text_of(block, "type"));
            const auto id = text_of(block, "id");
            if (type == "thinking" || type == "redacted_thinking") {
                thought.insert(turn_of(block));
                if (turn_of(block).empty())
                    broken.push_back(where + ": Invalid `" + (type == "thinking" ? "signature" : "data") +
                                     "` in `" + type + "` block");
            } else if (type == "tool_use" && id.starts_with("toolu_") && id.size() > 22) {
                if (!thought.contains(id.substr(6, 16)))
                    broken.push_back(
                        where + ".type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.");
            }
        }
    }
    return broken;
}

// Gemini. Calls have no ids; the first of each turn has a signature. The last text has one, too.

constexpr std::string_view signature = "thoughtSignature";

json::object signed_part(json::object part)
{
    part[signature] = "Cs" + seal(part, signature) + "==";
    return part;
}

json::array gemini_parts(const turn& said)
{
    json::array parts;
    parts.push_back({{"text", said.thought}, {"thought", true}});
    if (said.nights.empty())
        parts.push_back(signed_part({{"text", said.text}}));
    for (std::size_t i = 0; i < said.nights.size(); ++i) {
        const json::object call{{"name", tool_name}, {"args", arguments_of(said.nights[i])}};
        json::object part{{"functionCall", call}};
        parts.push_back(i == 0 ? signed_part(part) : part);
    }
    return parts;
}

json::object gemini_response(const turn& said, const std::string& model, json::array parts, bool is_last)
{
    json::object candidate{{"content", {{"parts", std::move(parts)}, {"role", "model"}}}};
    if (is_last)
        candidate["finishReason"] = "STOP";
    candidate["index"] = 0;
    json::array candidates;
    candidates.push_back(candidate);
    return {
        {"candidates", candidates},
        {"usageMetadata", {{"promptTokenCount", 90}, {"candidatesTokenCount", 20}, {"totalTokenCount", 110}}},
        {"modelVersion", model},
        {"responseId", said.id}};
}

events gemini_stream(const turn& said, const std::string& model)
{
    events all;
    const auto add = [&](json::object part, bool is_last = false) {
        json::array parts;
        parts.push_back(std::move(part));
        all.emplace_back("", gemini_response(said, model, std::move(parts), is_last));
    };
    for (const auto& piece : pieces(said.thought))
        add({{"text", piece}, {"thought", true}});
    for (const auto& piece : pieces(said.text))
        add({{"text", piece}});
    if (said.nights.empty()) {
        add(signed_part({{"text", ""}}), true); // the signature comes in a part of its own
        return all;
    }
    const auto parts = gemini_parts(said);
    for (std::size_t i = 1; i < parts.size(); ++i)
        add(parts[i].as_object(), i + 1 == parts.size());
    return all;
}

//! What Google names for calls that come from elsewhere.
bool is_exempt(std::string_view text)
{
    return text == "skip_thought_signature_validator" || text == "context_engineering_is_the_way_to_go";
}

std::vector<std::string> gemini_seals(const json::object& request, bool strict)
{
    std::vector<std::string> broken;
    const auto& contents = array_of(request, "contents");
    for (std::size_t c = 0; c < contents.size(); ++c) {
        const auto& content = contents[c].as_object();
        bool has_call = false;
        for (const auto& value : array_of(content, "parts")) {
            const auto& part = value.as_object();
            const auto given = text_of(part, signature);
            if (!given.empty() && !is_exempt(given) && given != "Cs" + seal(part, signature) + "==")
                broken.push_back("Corrupted thought signature.");
            if (!part.contains("functionCall") || std::exchange(has_call, true))
                continue;
            if (strict && given.empty())
                broken.push_back("Function call is missing a thought_signature in functionCall parts. "
                                 "Function call `default_api:book_night`, position " +
                                 std::to_string(c + 1) + ".");
        }
    }
    return broken;
}

} // namespace

turn next_turn(api which, const json::object& request)
{
    request_reader read;
    switch (which) {
    case api::chat_completions:
        read.read_chat_completions(request);
        break;
    case api::responses:
        read.read_responses(request);
        break;
    case api::anthropic:
        read.read_anthropic(request);
        break;
    case api::gemini:
        read.read_gemini(request);
        break;
    }
    turn said;
    said.id = hash(read.task + "#" + std::to_string(read.results));
    if (read.nights == 0 || !read.has_tool) {
        said.thought = "Nothing can be booked.";
        said.text = read.nights == 0 ? "How many nights?" : "I have no tool called book_night.";
    } else if (read.results >= read.nights) {
        said.thought = "Each night has its result.";
        said.text = read.failures == 0
                        ? "All " + std::to_string(read.nights) + " nights are booked. Bom dia, João!"
                        : std::to_string(read.failures) + " of " + std::to_string(read.nights) +
                              " nights are not booked.";
    } else {
        // Characters of several bytes, and some that JSON escapes.
        said.thought = "Next: “night " + std::to_string(read.results + 1) + "” – \\o/\tsim\n";
        said.nights.push_back(read.results + 1);
        if (read.results == 1 && read.nights > 2)
            said.nights.push_back(3);
    }
    return said;
}

std::string describe(const turn& said)
{
    if (said.nights.empty())
        return said.text;
    std::string text;
    for (const auto night : said.nights)
        text += (text.empty() ? std::string(tool_name) + " " : ", ") + std::to_string(night);
    return text;
}

json::object response(api which, const turn& said, const std::string& model)
{
    switch (which) {
    case api::chat_completions:
        return chat_response(said, model);
    case api::responses:
        return responses_response(said, model);
    case api::anthropic:
        return anthropic_response(said, model);
    case api::gemini:
        return gemini_response(said, model, gemini_parts(said), true);
    }
    throw std::invalid_argument("no such API");
}

events stream(api which, const turn& said, const std::string& model)
{
    switch (which) {
    case api::chat_completions:
        return chat_stream(said, model);
    case api::responses:
        return responses_stream(said, model);
    case api::anthropic:
        return anthropic_stream(said, model);
    case api::gemini:
        return gemini_stream(said, model);
    }
    throw std::invalid_argument("no such API");
}

std::vector<std::string> broken_seals(api which, const json::object& request, bool strict)
{
    switch (which) {
    case api::chat_completions:
        return {};
    case api::responses:
        return responses_seals(request);
    case api::anthropic:
        return anthropic_seals(request);
    case api::gemini:
        return gemini_seals(request, strict);
    }
    throw std::invalid_argument("no such API");
}

} // namespace model_api
