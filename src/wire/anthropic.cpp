#include "../values/storage_memory.hpp"
#include "arrangement.hpp"
#include "call_ids.hpp"
#include "json_members.hpp"
#include "pieces.hpp"

#include <waymark/wire.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <utility>

namespace waymark::wire {

namespace json = boost::json;

namespace to_anthropic {
namespace {

constexpr std::size_t longest_name = 128;

//! Blocks of other APIs. Those that nobody knows yet are the API's own: it keeps making new ones.
bool is_block(const json::object& block)
{
    const auto type = text_at(block, "type");
    if (is_one_of(type, {"text", "thinking"}))
        return string_at(block, type) != nullptr;
    if (is_one_of(type, {"image", "document"}))
        return object_at(block, "source") != nullptr;
    if (const auto* const content = array_at(block, "content"); type == "tool_result" && content != nullptr)
        return all_objects(*content, is_block); // those of MCP are of other kinds
    return !type.empty() &&
           !is_one_of(type, {"image_url", "video_url", "input_audio", "file", "refusal", "input_text",
                             "input_image", "input_file", "output_text", "summary_text", "reasoning_text",
                             "computer_screenshot", "audio", "resource", "resource_link"});
}

bool is_native(const json::object& item)
{
    const auto* const content = find_at(item, "content");
    if (content == nullptr || !is_one_of(text_at(item, "role"), {"user", "assistant"}))
        return false;
    if (has_only(item, {"role", "content"}))
        return content->is_string() || all_objects(*content, is_block);
    // An answer as it came. That of the Responses API has a status.
    const bool is_answer =
        text_at(item, "type") == "message" && !item.contains("status") && !item.contains("parts");
    return (is_answer ||
            has_only(item, {"role", "content", "id", "model", "stop_reason", "stop_sequence", "usage"})) &&
           all_objects(*content, is_block);
}

bool is_blank(std::string_view text)
{
    return text.find_first_not_of(" \t\r\n") == text.npos;
}

//! What the API refuses, and what says nothing.
bool is_blank_text(const json::value& block)
{
    return text_at(block.get_object(), "type") == "text" && is_blank(text_at(block.get_object(), "text"));
}

class builder {
public:
    explicit builder(const conversation& chat) : chat_(chat) {}

    request build()
    {
        const auto turns = arrange(chat_, {is_native, is_plain_id, result_place::in_one_message});
        left_out_.add_losses_of_texts(turns);
        for (const auto& next : turns)
            add(next);
        return {make_body(), std::move(left_out_).take(chat_)};
    }

private:
    struct entry {
        std::string role;
        json::object item;   // of one that is sent as it is
        json::array content; // of others
        bool is_verbatim;
    };

    void add(const turn& next)
    {
        if (next.verbatim)
            add_verbatim(detail::message_access::item_of(chat_[*next.verbatim]));
        else if (next.who == speaker::instructions)
            add_instructions(next.pieces);
        else
            for (const auto& from : next.pieces)
                add_piece(next.who == speaker::model ? "assistant" : "user", from);
    }

    //! Role and content, in their order: the API refuses the other members of its own answers, blank texts,
    //! and inputs that are no objects.
    void add_verbatim(const json::object& item)
    {
        entry made{std::string(text_at(item, "role")), {}, {}, true};
        for (const auto& member : item) {
            if (member.key() != "role" && member.key() != "content")
                continue;
            auto& taken = made.item[member.key()] = member.value();
            if (member.key() != "content")
                continue;
            if (taken.is_string() ? is_blank(taken.get_string()) : !drop_blank_texts(taken.get_array()))
                return;
            if (taken.is_array())
                mend_inputs(taken.get_array());
        }
        entries_.push_back(std::move(made));
    }

    //! What a broken stream, or the model, has left of the input of a call.
    static void mend_inputs(json::array& blocks)
    {
        for (auto& next : blocks)
            if (auto& block = next.get_object(); text_at(block, "type") == "tool_use")
                if (auto* const input = block.if_contains("input"); input != nullptr && !input->is_object())
                    *input = json::object{{"input", *input}};
    }

    //! False if nothing is left.
    static bool drop_blank_texts(json::array& blocks)
    {
        const auto kept = std::stable_partition(blocks.begin(), blocks.end(),
                                                [](const json::value& next) { return !is_blank_text(next); });
        blocks.erase(kept, blocks.end());
        return !blocks.empty();
    }

    void add_instructions(const std::vector<piece>& pieces)
    {
        for (const auto& next : pieces) {
            const auto kind = kind_of(next.content);
            if (kind == piece_kind::media)
                left_out_.add_media(next.message, next.content);
            else if (kind == piece_kind::foreign)
                left_out_.add_foreign(next);
            else if (is_blank(next.content.text()))
                continue;
            else if (is_system_block(next.content.json()))
                system_.push_back(next.content.json());
            else
                add_text(system_, next.content.text());
        }
    }

    //! Written for this API: it may say what is to be cached.
    static bool is_system_block(const json::value& block)
    {
        const auto* const object = block.if_object();
        return object != nullptr && text_at(*object, "type") == "text" &&
               has_only(*object, {"type", "text", "cache_control", "citations"});
    }

    void add_piece(std::string_view role, const piece& from)
    {
        json::array blocks;
        switch (kind_of(from.content)) {
        case piece_kind::text:
            add_text(blocks, from.content.text());
            break;
        case piece_kind::media:
            if (role == "assistant")
                left_out_.add_media(from.message, from.content);
            else
                add_media(blocks, from.message, from.content);
            break;
        case piece_kind::call:
            blocks.push_back(json::object{{"type", "tool_use"},
                                          {"id", from.call_id},
                                          {"name", tool_name(from.content, longest_name)},
                                          {"input", arguments_object(from.content)}});
            break;
        case piece_kind::result:
            blocks.push_back(make_result(from));
            break;
        case piece_kind::foreign:
            left_out_.add_foreign(from);
        }
        if (blocks.empty())
            return;
        if (entries_.empty() || entries_.back().is_verbatim || entries_.back().role != role)
            entries_.push_back({std::string(role), {}, {}, false});
        auto& content = entries_.back().content;
        content.insert(content.end(), blocks.begin(), blocks.end());
    }

    static void add_text(json::array& blocks, std::string_view text)
    {
        if (!is_blank(text))
            blocks.push_back(json::object{{"type", "text"}, {"text", text}});
    }

    void add_media(json::array& blocks, std::size_t message, const part& media)
    {
        const auto type = media_type(media);
        const bool is_image =
            is_common_image(type) || (media.media_base64().empty() && (type.empty() || type == "image/*"));
        const bool is_document = type == "application/pdf";
        json::object source;
        if (!media.media_base64().empty())
            source = {{"type", "base64"}, {"media_type", type}, {"data", media.media_base64()}};
        else if (is_on_the_web(media))
            source = {{"type", "url"}, {"url", media.media_url()}};
        if ((is_image || is_document) && !source.empty())
            blocks.push_back(
                json::object{{"type", is_image ? "image" : "document"}, {"source", std::move(source)}});
        else
            left_out_.add_media(message, media);
    }

    json::object make_result(const piece& from)
    {
        const auto content = read_result(from, left_out_);
        json::array blocks;
        add_text(blocks, content.text);
        for (const auto& media : content.media)
            add_media(blocks, from.message, media);
        json::object made{{"type", "tool_result"}, {"tool_use_id", from.call_id}};
        if (blocks.size() == 1 && blocks[0].at("type") == "text")
            made.emplace("content", blocks[0].at("text"));
        else if (!blocks.empty())
            made.emplace("content", std::move(blocks));
        else if (content.is_error)
            made.emplace("content", "The tool failed."); // the API refuses an error without a word
        if (content.is_error)
            made.emplace("is_error", true);
        return made;
    }

    //! What an answer is to begin with must not end with a blank.
    void trim_beginning_of_answer()
    {
        if (entries_.empty() || entries_.back().is_verbatim || entries_.back().role != "assistant")
            return;
        auto& last = entries_.back().content.back().get_object();
        if (text_at(last, "type") != "text")
            return;
        std::string trimmed(text_at(last, "text"));
        trimmed.erase(trimmed.find_last_not_of(" \t\r\n") + 1);
        last["text"] = trimmed;
    }

    json::object make_body()
    {
        json::object body;
        if (system_.size() == 1 && system_[0].get_object().size() == 2)
            body.emplace("system", system_[0].at("text"));
        else if (!system_.empty())
            body.emplace("system", std::move(system_));
        trim_beginning_of_answer();
        json::array messages;
        if (!entries_.empty() && entries_.front().role != "user")
            messages.push_back(json::object{{"role", "user"}, {"content", earlier_messages}});
        for (auto& [role, item, content, is_verbatim] : entries_)
            if (is_verbatim)
                messages.push_back(std::move(item));
            else
                messages.push_back(json::object{{"role", role}, {"content", std::move(content)}});
        body.emplace("messages", std::move(messages));
        return body;
    }

    const conversation& chat_;
    omissions left_out_{"Anthropic's API"};
    json::array system_;
    std::vector<entry> entries_;
};

} // namespace
} // namespace to_anthropic

request anthropic(const conversation& chat)
{
    return to_anthropic::builder(chat).build();
}

} // namespace waymark::wire
