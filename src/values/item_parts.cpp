#include "item_parts.hpp"

#include "base64.hpp"
#include "json_document.hpp"
#include "message_data.hpp"

#include <waymark/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <utility>

namespace waymark::detail {

namespace json = boost::json;

namespace {

constexpr std::size_t deepest_arguments = limits::highest_max_depth;
constexpr std::string_view call_ending = "_call"; // of the types of items of the Responses API

const json::value* find(const json::object& in, std::string_view key) noexcept
{
    return in.if_contains(key);
}

//! Empty where there is no such string.
std::string_view text_at(const json::object& in, std::string_view key) noexcept
{
    const auto* const found = find(in, key);
    const auto* const text = found == nullptr ? nullptr : found->if_string();
    return text == nullptr ? std::string_view() : std::string_view(*text);
}

const json::object* object_at(const json::object& in, std::string_view key) noexcept
{
    const auto* const found = find(in, key);
    return found == nullptr ? nullptr : found->if_object();
}

bool is_true(const json::object& in, std::string_view key) noexcept
{
    const auto* const found = find(in, key);
    return found != nullptr && found->is_bool() && found->get_bool();
}

//! Gemini's members have two spellings.
std::string_view either_text(const json::object& in, std::string_view one, std::string_view other) noexcept
{
    const auto found = text_at(in, one);
    return found.empty() ? text_at(in, other) : found;
}

} // namespace

std::string_view text_in(const json::value& value, std::string_view key) noexcept
{
    const auto* const object = value.if_object();
    return object == nullptr ? std::string_view() : text_at(*object, key);
}

//! Reads parts one by one. They refer to what is read.
class part_reader {
public:
    std::vector<part> take() && { return std::move(parts_); }

    void read_item(const json::value& item)
    {
        const auto& object = item.get_object();
        if (const auto* const parts = find(object, "parts"); parts != nullptr && parts->is_array()) {
            for (const auto& next : parts->get_array())
                read_gemini_part(next);
            return;
        }
        const auto type = text_at(object, "type");
        if (!type.empty() && type != "message" && !object.contains("role")) {
            read_responses_item(item, type);
            return;
        }
        read_message(item);
    }

    //! A string, a list of blocks, or one block, as MCP's prompts have it.
    void read_content(const json::value& content)
    {
        if (content.is_string())
            add(part_kind::text, content).text_ = content.get_string();
        else if (const auto* const list = content.if_array())
            for (const auto& next : *list)
                read_block(next);
        else if (content.is_object())
            read_block(content);
    }

private:
    part& add(part_kind kind, const json::value& json)
    {
        return parts_.emplace_back(part_access::make(kind, json));
    }

    void add_text(part_kind kind, const json::value& json, std::string_view text)
    {
        add(kind, json).text_ = text;
    }

    void add_call(const json::value& json, std::string_view id, std::string_view name,
                  const json::value* arguments)
    {
        auto& call = add(part_kind::tool_call, json);
        call.id_ = id;
        call.name_ = name;
        call.body_ = arguments;
    }

    part& add_result(const json::value& json, std::string_view call_id, std::string_view name,
                     const json::value* content)
    {
        auto& result = add(part_kind::tool_result, json);
        result.id_ = call_id;
        result.name_ = name;
        result.body_ = content;
        return result;
    }

    // What is at hand as text: base64, or a "data:" URL with it, or the address of what is elsewhere.
    void add_media(const json::value& json, std::string_view type, std::string_view data)
    {
        auto& media = add(part_kind::media, json);
        media.media_type_ = type;
        media.media_data_ = data;
        media.media_bytes_ = base64_size(data);
    }
    void add_media_url(const json::value& json, std::string_view type, std::string_view url)
    {
        if (url.starts_with("data:")) {
            const auto comma = url.find(',');
            const auto head = url.substr(5, comma == url.npos ? comma : comma - 5);
            if (comma != url.npos && head.ends_with(";base64")) {
                add_media(json, head.substr(0, head.find(';')), url.substr(comma + 1));
                return;
            }
        }
        auto& media = add(part_kind::media, json);
        media.media_type_ = type;
        media.media_url_ = url;
    }
    void add_media_text(const json::value& json, std::string_view type, std::string_view text)
    {
        auto& media = add(part_kind::media, json);
        media.media_type_ = type;
        media.media_bytes_ = text.size();
        media.text_ = text;
    }

    //! Chat Completions, Anthropic, messages of the Responses API, MCP.
    void read_message(const json::value& item)
    {
        const auto& object = item.get_object();
        const auto* const content = find(object, "content");
        if (read_role(object) == role::tool) {
            auto& result =
                add_result(item, text_at(object, "tool_call_id"), text_at(object, "name"), content);
            result.is_error_ = is_true(object, "is_error") || is_true(object, "isError"); // MCP's
            return;
        }
        read_reasoning_beside(object);
        if (content != nullptr)
            read_content(*content);
        if (const auto text = text_at(object, "refusal"); !text.empty())
            add_text(part_kind::text, *find(object, "refusal"), text);
        if (const auto* const audio = object_at(object, "audio")) {
            auto& media = add(part_kind::media, *find(object, "audio"));
            media.media_type_ = "audio/*";
            media.media_data_ = text_at(*audio, "data");
            media.media_bytes_ = base64_size(media.media_data_);
            media.media_url_ = text_at(*audio, "id");
            media.text_ = text_at(*audio, "transcript");
        }
        if (const auto* const calls = find(object, "tool_calls"); calls != nullptr && calls->is_array())
            for (const auto& next : calls->get_array())
                read_listed_call(next);
        if (const auto* const call = object_at(object, "function_call")) // before there were lists of them
            add_call(*find(object, "function_call"), {}, text_at(*call, "name"), find(*call, "arguments"));
        if (parts_.empty() && !object.contains("role") && !object.empty()) // nothing that is known
            add(part_kind::other, item);
    }

    //! Some servers give the reasoning beside the content, and some in several forms.
    void read_reasoning_beside(const json::object& message)
    {
        for (const auto* const key : {"reasoning_content", "reasoning"})
            if (const auto text = text_at(message, key); !text.empty())
                return add_text(part_kind::reasoning, *find(message, key), text);
        const auto* const details = find(message, "reasoning_details");
        if (details == nullptr || !details->is_array())
            return;
        for (const auto& next : details->get_array())
            if (const auto* const detail = next.if_object())
                add_text(part_kind::reasoning, next, either_text(*detail, "text", "summary"));
    }

    //! An entry of `tool_calls`.
    void read_listed_call(const json::value& json)
    {
        const auto* const entry = json.if_object();
        if (entry == nullptr) {
            add(part_kind::other, json);
            return;
        }
        if (const auto* const function = object_at(*entry, "function"))
            add_call(json, text_at(*entry, "id"), text_at(*function, "name"), find(*function, "arguments"));
        else if (const auto* const custom = object_at(*entry, "custom"))
            add_call(json, text_at(*entry, "id"), text_at(*custom, "name"), find(*custom, "input"));
        else if (!text_at(*entry, "name").empty()) // earlier versions of this library
            add_call(json, text_at(*entry, "id"), text_at(*entry, "name"), find(*entry, "arguments"));
        else
            add(part_kind::other, json);
    }

    //! An entry of `content`.
    void read_block(const json::value& json)
    {
        const auto* const block = json.if_object();
        if (block == nullptr) {
            if (json.is_string())
                add_text(part_kind::text, json, json.get_string());
            else
                add(part_kind::other, json);
            return;
        }
        const auto type = text_at(*block, "type");
        if (type == "text" || type == "input_text" || type == "output_text")
            add_text(part_kind::text, json, text_at(*block, "text"));
        else if (type == "refusal")
            add_text(part_kind::text, json, text_at(*block, "refusal"));
        else if (type == "thinking")
            add_text(part_kind::reasoning, json, text_at(*block, "thinking"));
        else if (type == "redacted_thinking")
            add(part_kind::reasoning, json);
        else if (type == "summary_text" || type == "reasoning_text")
            add_text(part_kind::reasoning, json, text_at(*block, "text"));
        else if (type == "tool_use")
            add_call(json, text_at(*block, "id"), text_at(*block, "name"), find(*block, "input"));
        else if (type == "tool_result")
            read_result_block(json, *block);
        else if (type.empty() && block->contains("stdout")) // of a command in a shell
            for (const auto* const stream : {"stdout", "stderr"})
                add_text(part_kind::text, json, text_at(*block, stream));
        else if (!read_media_block(json, *block, type))
            add(part_kind::other, json);
    }

    void read_result_block(const json::value& json, const json::object& block)
    {
        auto& result = add_result(json, text_at(block, "tool_use_id"), {}, find(block, "content"));
        result.is_error_ = is_true(block, "is_error");
    }

    bool read_media_block(const json::value& json, const json::object& block, std::string_view type)
    {
        if (type == "image_url" || type == "input_image" || type == "computer_screenshot") {
            const auto* const nested = object_at(block, "image_url"); // Chat Completions
            const auto url = nested == nullptr ? text_at(block, "image_url") : text_at(*nested, "url");
            add_media_url(json, "image/*", url.empty() ? text_at(block, "file_id") : url);
        } else if (type == "image" || type == "document") {
            if (const auto* const source = object_at(block, "source"))
                read_source(json, *source, type == "image" ? "image/*" : "");
            else // MCP
                add_media(json, text_at(block, "mimeType"), text_at(block, "data"));
        } else if (type == "audio") {
            add_media(json, text_at(block, "mimeType"), text_at(block, "data"));
        } else if (type == "input_audio" && object_at(block, "input_audio") != nullptr) {
            const auto& audio = *object_at(block, "input_audio");
            const auto format = text_at(audio, "format");
            add_media(json,
                      format == "wav"   ? "audio/wav"
                      : format == "mp3" ? "audio/mpeg"
                                        : "audio/*",
                      text_at(audio, "data"));
        } else if (type == "file" && object_at(block, "file") != nullptr) {
            read_file(json, *object_at(block, "file"));
        } else if (type == "input_file") {
            read_file(json, block);
        } else if (type == "resource" && object_at(block, "resource") != nullptr) {
            const auto& resource = *object_at(block, "resource");
            if (const auto text = text_at(resource, "text"); !text.empty())
                add_media_text(json, text_at(resource, "mimeType"), text);
            else
                add_media(json, text_at(resource, "mimeType"), text_at(resource, "blob"));
        } else if (type == "resource_link") {
            add_media_url(json, text_at(block, "mimeType"), text_at(block, "uri"));
        } else {
            return false;
        }
        return true;
    }

    //! Anthropic's.
    void read_source(const json::value& json, const json::object& source, std::string_view any_type)
    {
        const auto kind = text_at(source, "type");
        const auto type = text_at(source, "media_type");
        if (kind == "base64")
            add_media(json, type, text_at(source, "data"));
        else if (kind == "text")
            add_media_text(json, type, text_at(source, "data"));
        else if (const auto* const content = find(source, "content"); kind == "content" && content != nullptr)
            read_content(*content);
        else
            add_media_url(json, any_type, either_text(source, "url", "file_id"));
    }

    //! OpenAI's: a "data:" URL, mostly, or what was uploaded before.
    void read_file(const json::value& json, const json::object& file)
    {
        if (const auto data = text_at(file, "file_data"); !data.empty() && !data.starts_with("data:"))
            add_media(json, {}, data);
        else if (!data.empty())
            add_media_url(json, {}, data);
        else
            add_media_url(json, {}, either_text(file, "file_url", "file_id"));
    }

    void read_responses_item(const json::value& item, std::string_view type)
    {
        const auto& object = item.get_object();
        if (type == "reasoning") {
            const auto before = parts_.size();
            for (const auto* const key : {"summary", "content"})
                if (const auto* const list = find(object, key))
                    read_content(*list);
            if (parts_.size() == before) // it is encrypted
                add(part_kind::reasoning, item);
        } else if (type == "function_call") {
            add_call(item, text_at(object, "call_id"), text_at(object, "name"), find(object, "arguments"));
        } else if (type == "custom_tool_call") {
            add_call(item, text_at(object, "call_id"), text_at(object, "name"), find(object, "input"));
        } else if (type == "local_shell_call" || type == "shell_call" || type == "computer_call") {
            add_call(item, text_at(object, "call_id"), type.substr(0, type.size() - call_ending.size()),
                     find(object, "action"));
        } else if (type == "apply_patch_call") {
            add_call(item, text_at(object, "call_id"), "apply_patch", find(object, "operation"));
        } else if (type == "function_call_output" || type == "custom_tool_call_output" ||
                   type == "local_shell_call_output" || type == "shell_call_output" ||
                   type == "apply_patch_call_output" || type == "computer_call_output") {
            auto& result = add_result(item, either_text(object, "call_id", "id"), {}, find(object, "output"));
            result.is_error_ = type == "apply_patch_call_output" && text_at(object, "status") == "failed";
        } else if (const auto image = text_at(object, "result");
                   type == "image_generation_call" && !image.empty()) {
            add_media(item, "image/*", image);
        } else {
            read_block(item); // a block by itself, as MCP has it, or a tool of the API's own
        }
    }

public:
    void read_gemini_part(const json::value& json)
    {
        const auto* const object = json.if_object();
        if (object == nullptr) {
            add(part_kind::other, json);
            return;
        }
        const auto of = [&](std::string_view one, std::string_view other) {
            const auto* const found = object_at(*object, one);
            return found == nullptr ? object_at(*object, other) : found;
        };
        if (const auto* const call = of("functionCall", "function_call")) {
            add_call(json, text_at(*call, "id"), text_at(*call, "name"), find(*call, "args"));
        } else if (const auto* const response = of("functionResponse", "function_response")) {
            const auto* const content = find(*response, "response");
            auto& result = add_result(json, text_at(*response, "id"), text_at(*response, "name"), content);
            const auto* const members = content == nullptr ? nullptr : content->if_object();
            result.is_error_ = members != nullptr && members->size() == 1 && members->contains("error");
        } else if (const auto* const data = of("inlineData", "inline_data")) {
            add_media(json, either_text(*data, "mimeType", "mime_type"), text_at(*data, "data"));
        } else if (const auto* const file = of("fileData", "file_data")) {
            add_media_url(json, either_text(*file, "mimeType", "mime_type"),
                          either_text(*file, "fileUri", "file_uri"));
        } else if (const auto* const text = find(*object, "text"); text != nullptr && text->is_string()) {
            add_text(is_true(*object, "thought") ? part_kind::reasoning : part_kind::text, json,
                     text->get_string());
        } else {
            add(part_kind::other, json);
        }
    }

private:
    std::vector<part> parts_;
};

std::vector<part> read_parts(const json::value& item)
{
    part_reader reader;
    reader.read_item(item);
    return std::move(reader).take();
}

std::vector<part> read_content(const json::value& content)
{
    part_reader reader;
    reader.read_content(content);
    return std::move(reader).take();
}

std::vector<part> read_media_of_response(const part& result)
{
    part_reader reader;
    if (const auto* const object = result.json().if_object())
        for (const auto* const name : {"functionResponse", "function_response"})
            if (const auto* const response = object_at(*object, name))
                if (const auto* const parts = find(*response, "parts"); parts != nullptr && parts->is_array())
                    for (const auto& next : parts->get_array())
                        reader.read_gemini_part(next);
    return std::move(reader).take();
}

bool part_access::is_of_gemini(const part& result) noexcept
{
    const auto* const object = result.json_->if_object();
    return object != nullptr &&
           (object->contains("functionResponse") || object->contains("function_response"));
}

std::optional<role> read_role(const json::object& item)
{
    const auto* const found = find(item, "role");
    if (found == nullptr || !found->is_string())
        return std::nullopt;
    // Other programs write "User".
    std::string lower(found->get_string());
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (lower == "function") // what `tool` was called once
        return role::tool;
    const auto known = std::find(role_names.begin(), role_names.end(), lower);
    return static_cast<role>(known - role_names.begin()); // one past the end is role::other
}

bool part_access::is_cut_off(const part& call)
{
    const auto* const object = call.json_->if_object();
    if (object == nullptr)
        return false;
    if (const auto* const of_gemini = object_at(*object, "functionCall")) // its arguments may come in pieces
        if (of_gemini->contains("partialArgs") || of_gemini->contains("willContinue"))
            return true;
    const auto type = text_at(*object, "type");
    if (const auto status = text_at(*object, "status");
        type.ends_with(call_ending) && (status == "in_progress" || status == "incomplete"))
        return true;
    const auto* const text = call.body_ == nullptr ? nullptr : call.body_->if_string();
    if (text == nullptr)
        return false;
    if (type == "tool_use")
        return true;                                    // an object, otherwise
    if (type == "custom_tool_call" || type == "custom") // their input is any text
        return false;
    if (text->empty())
        return false;
    // Whether it is JSON at all: what it holds may be more than our numbers can.
    json::parse_options options;
    options.max_depth = deepest_arguments;
    json::error_code failure;
    json::parse(*text, failure, {}, options);
    return failure.failed();
}

namespace {

class scale {
public:
    explicit scale(const text_counter* count) : count_(count) {}

    void add_text(std::string_view text)
    {
        if (count_ == nullptr)
            sum_.bytes += text.size();
        else if (!text.empty())
            sum_.tokens += (*count_)(text);
    }
    void add_json(const json::value* value)
    {
        if (value == nullptr)
            return;
        if (value->is_string())
            add_text(value->get_string());
        else if (count_ == nullptr)
            sum_.bytes += payload_bytes(*value);
        else
            add_text(json::serialize(*value));
    }
    void add_tokens(std::size_t tokens) { sum_.tokens += tokens; }
    void add(part_access::weight more)
    {
        sum_.bytes += more.bytes;
        sum_.tokens += more.tokens;
    }

    part_access::weight sum() const { return sum_; }

private:
    const text_counter* count_;
    part_access::weight sum_;
};

} // namespace

part_access::weight part_access::weigh(const part& of, const text_counter* count)
{
    constexpr std::size_t tokens_of_image = 1600;
    constexpr std::size_t media_bytes_per_token = 32;
    scale on(count);
    switch (of.kind_) {
    case part_kind::text:
    case part_kind::reasoning:
        on.add_text(of.text_);
        break;
    case part_kind::tool_call:
        on.add_text(of.id_);
        on.add_text(of.name_);
        on.add_json(of.body_);
        break;
    case part_kind::tool_result:
        on.add_text(of.id_);
        on.add_text(of.name_);
        if (of.body_ == nullptr || is_of_gemini(of) || !(of.body_->is_array() || of.body_->is_object()))
            on.add_json(of.body_);
        else
            for (const auto& inner : read_content(*of.body_))
                on.add(weigh(inner, count));
        for (const auto& beside : read_media_of_response(of))
            on.add(weigh(beside, count));
        break;
    case part_kind::media:
        if (!of.text_.empty())
            on.add_text(of.text_);
        else if (of.media_type_.starts_with("image/"))
            on.add_tokens(tokens_of_image);
        else
            on.add_tokens(std::max(tokens_of_image, of.media_bytes_ / media_bytes_per_token));
        break;
    case part_kind::other:
        on.add_json(of.json_);
        break;
    }
    return on.sum();
}

// Items that are made by hand

namespace {

std::string data_url(const part& media)
{
    std::string url = "data:";
    url.append(media.media_type()).append(";base64,").append(media.media_base64());
    return url;
}

//! A block of Chat Completions; of MCP where that API has none, which is converted when it is sent.
json::value make_block(const part& from)
{
    if (from.kind() == part_kind::text)
        return json::object{{"type", "text"}, {"text", from.text()}};
    const auto type = from.media_type();
    const auto url = from.media_url();
    if (from.media_base64().empty()) {
        const bool is_on_the_web = url.starts_with("https://") || url.starts_with("http://");
        if (is_on_the_web && (type.starts_with("image/") || type.empty()))
            return json::object{{"type", "image_url"}, {"image_url", {{"url", url}}}};
        return json::object{{"type", "resource_link"}, {"uri", url}, {"mimeType", type}};
    }
    if (type == "image/png" || type == "image/jpeg" || type == "image/gif" || type == "image/webp")
        return json::object{{"type", "image_url"}, {"image_url", {{"url", data_url(from)}}}};
    if (type == "audio/wav" || type == "audio/mpeg")
        return json::object{
            {"type", "input_audio"},
            {"input_audio",
             {{"data", from.media_base64()}, {"format", type == "audio/wav" ? "wav" : "mp3"}}}};
    if (type == "application/pdf")
        return json::object{{"type", "file"},
                            {"file", {{"filename", "document.pdf"}, {"file_data", data_url(from)}}}};
    return json::object{{"type", "resource"},
                        {"resource", {{"mimeType", type}, {"blob", from.media_base64()}}}};
}

json::array make_blocks(const std::vector<part>& parts)
{
    json::array blocks;
    blocks.reserve(parts.size());
    for (const auto& next : parts)
        blocks.push_back(make_block(next));
    return blocks;
}

} // namespace

json::object make_user_item(const std::vector<part>& parts)
{
    for (const auto& next : parts)
        if (next.kind() != part_kind::text && next.kind() != part_kind::media)
            throw error(errc::invalid_argument,
                        "a message of the user is made of text and media; use message::tool_result for "
                        "results, and message::from for what an API sent");
    return {{"role", "user"}, {"content", make_blocks(parts)}};
}

json::object make_call_item(std::string text, const std::vector<tool_call>& calls)
{
    json::array list;
    list.reserve(calls.size());
    for (const auto& call : calls)
        list.push_back(json::object{
            {"id", call.id()},
            {"type", "function"},
            {"function", {{"name", call.name()}, {"arguments", json::serialize(call.arguments())}}}});
    json::object item{{"role", "assistant"}, {"content", std::move(text)}};
    if (!list.empty())
        item.emplace("tool_calls", std::move(list));
    return item;
}

json::object make_result_item(const tool_result& result)
{
    json::object item{{"role", "tool"}, {"tool_call_id", result.call_id()}};
    if (!result.name().empty())
        item.emplace("name", result.name());
    const auto& parts = result.parts();
    if (parts.size() == 1 && parts.front().kind() == part_kind::text)
        item.emplace("content", parts.front().text());
    else
        item.emplace("content", make_blocks(parts));
    if (result.is_error()) // what no API of this shape can say: it is told when the item is sent to another
        item.emplace("is_error", true);
    return item;
}

} // namespace waymark::detail
