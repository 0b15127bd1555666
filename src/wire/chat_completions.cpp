#include "../values/storage_memory.hpp"
#include "arrangement.hpp"
#include "json_members.hpp"
#include "pieces.hpp"

#include <waymark/wire.hpp>

#include <boost/json/array.hpp>

#include <utility>

namespace waymark::wire {

namespace json = boost::json;

namespace to_chat_completions {
namespace {

constexpr std::size_t longest_name = 64;
constexpr std::size_t longest_id = 40;

bool is_block(const json::object& block)
{
    const auto type = text_at(block, "type");
    if (type == "text")
        return string_at(block, "text") != nullptr;
    if (const auto* const file = object_at(block, "file"); type == "file")
        return file != nullptr && (file->contains("file_data") || file->contains("file_id"));
    if (type == "thinking") // some servers'; that of Anthropic is a string
        return array_at(block, "thinking") != nullptr;
    return type == "refusal" ||
           (is_one_of(type, {"image_url", "video_url"}) && object_at(block, type) != nullptr) ||
           (type == "input_audio" && object_at(block, "input_audio") != nullptr);
}

bool is_content(const json::value& content)
{
    return content.is_string() || content.is_null() || all_objects(content, is_block);
}

bool is_bare_text(const json::object& block)
{
    return text_at(block, "type") == "text" && has_only(block, {"type", "text", "prompt_cache_breakpoint"});
}

//! Whether a message with nothing but texts is one of Anthropic's, whose texts may have citations and marks
//! for its cache. What has any other member, or role, is none of them.
bool may_be_of_anthropic(const json::object& item)
{
    const auto* const content = find_at(item, "content");
    const auto is_text = [](const json::object& block) { return text_at(block, "type") == "text"; };
    return is_one_of(text_at(item, "role"), {"user", "assistant"}) && has_only(item, {"role", "content"}) &&
           content != nullptr && content->is_array() && all_objects(*content, is_text) &&
           !all_objects(*content, is_bare_text);
}

bool is_listed_call(const json::object& call)
{
    if (const auto* const custom = object_at(call, "custom"))
        return string_at(call, "id") != nullptr && string_at(*custom, "name") != nullptr;
    const auto* const function = object_at(call, "function");
    return string_at(call, "id") != nullptr && function != nullptr &&
           string_at(*function, "name") != nullptr && string_at(*function, "arguments") != nullptr &&
           is_blank_or_json(text_at(*function, "arguments"));
}

bool is_native(const json::object& item)
{
    const auto* const content = find_at(item, "content");
    const auto role = text_at(item, "role");
    if (item.contains("type") || item.contains("parts") || (content != nullptr && !is_content(*content)) ||
        may_be_of_anthropic(item))
        return false;
    if (role == "tool") {
        const auto is_text = [](const json::object& block) { return text_at(block, "type") == "text"; };
        return content != nullptr && !content->is_null() && !item.contains("is_error") &&
               (content->is_string() || all_objects(*content, is_text)) &&
               !text_at(item, "tool_call_id").empty();
    }
    if (role == "assistant") {
        const auto* const calls = find_at(item, "tool_calls");
        return calls == nullptr || calls->is_null() || all_objects(*calls, is_listed_call);
    }
    return is_one_of(role, {"system", "developer", "user", "function"}) && content != nullptr &&
           (!content->is_null() || role == "function");
}

bool takes_id(std::string_view id)
{
    return !id.empty() && id.size() <= longest_id;
}

class builder {
public:
    explicit builder(const conversation& chat) : chat_(chat) {}

    request build()
    {
        const auto turns = arrange(chat_, {is_native, takes_id, result_place::behind_call});
        left_out_.add_losses_of_texts(turns);
        for (const auto& next : turns)
            add(next);
        flush_media();
        return {{{"messages", std::move(messages_)}}, std::move(left_out_).take(chat_)};
    }

private:
    void add(const turn& next)
    {
        // Nothing may stand between the results of a turn.
        if (next.who != speaker::tools)
            flush_media();
        if (next.verbatim)
            add_verbatim(detail::message_access::item_of(chat_[*next.verbatim]));
        else if (next.who == speaker::instructions)
            add_instructions(next.pieces);
        else if (next.who == speaker::user)
            add_user(next.pieces);
        else if (next.who == speaker::model)
            add_model(next.pieces);
        else
            add_results(next.pieces);
    }

    //! Some servers send an empty list of calls, which others do not take.
    void add_verbatim(json::object item)
    {
        if (const auto* const calls = array_at(item, "tool_calls"); calls != nullptr && calls->empty())
            item.stable_erase(item.find("tool_calls"));
        messages_.push_back(std::move(item));
    }

    void add_instructions(const std::vector<piece>& pieces)
    {
        for (const auto& next : pieces)
            if (const auto kind = kind_of(next.content); kind == piece_kind::media)
                left_out_.add_media(next.message, next.content);
            else if (kind == piece_kind::foreign)
                left_out_.add_foreign(next);
        const bool is_developer = chat_[pieces.front().message].role() == role::developer;
        if (auto text = joined_text(pieces); !text.empty())
            messages_.push_back(
                json::object{{"role", is_developer ? "developer" : "system"}, {"content", std::move(text)}});
    }

    void add_user(const std::vector<piece>& pieces)
    {
        json::array blocks;
        for (const auto& next : pieces)
            if (const auto kind = kind_of(next.content); kind == piece_kind::text)
                add_text(blocks, next.content.text());
            else if (kind == piece_kind::media)
                add_media(blocks, next.message, next.content);
            else
                left_out_.add_foreign(next);
        if (blocks.size() == 1 && blocks[0].at("type") == "text")
            messages_.push_back(json::object{{"role", "user"}, {"content", blocks[0].at("text")}});
        else if (!blocks.empty())
            messages_.push_back(json::object{{"role", "user"}, {"content", std::move(blocks)}});
    }

    static void add_text(json::array& blocks, std::string_view text)
    {
        if (!text.empty())
            blocks.push_back(json::object{{"type", "text"}, {"text", text}});
    }

    void add_media(json::array& blocks, std::size_t message, const part& media)
    {
        const auto type = media_type(media);
        const bool is_here = !media.media_base64().empty();
        const bool is_image = is_here ? is_common_image(type)
                                      : is_on_the_web(media) && (type.empty() || type.starts_with("image/"));
        if (is_image)
            blocks.push_back(json::object{
                {"type", "image_url"},
                {"image_url", {{"url", is_here ? data_url(media) : std::string(media.media_url())}}}});
        else if (is_here && is_one_of(type, {"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"}))
            blocks.push_back(json::object{
                {"type", "input_audio"},
                {"input_audio",
                 {{"data", media.media_base64()}, {"format", type.ends_with("wav") ? "wav" : "mp3"}}}});
        else if (is_here && type == "application/pdf")
            blocks.push_back(json::object{
                {"type", "file"}, {"file", {{"filename", "document.pdf"}, {"file_data", data_url(media)}}}});
        else
            left_out_.add_media(message, media);
    }

    void add_model(const std::vector<piece>& pieces)
    {
        json::array calls;
        for (const auto& next : pieces)
            switch (kind_of(next.content)) {
            case piece_kind::call:
                calls.push_back(json::object{{"id", next.call_id},
                                             {"type", "function"},
                                             {"function",
                                              {{"name", tool_name(next.content, longest_name)},
                                               {"arguments", arguments_text(next.content)}}}});
                break;
            case piece_kind::media:
                left_out_.add_media(next.message, next.content);
                break;
            case piece_kind::foreign:
                left_out_.add_foreign(next);
                break;
            default:
                break;
            }
        const auto text = joined_text(pieces);
        if (text.empty() && calls.empty())
            return;
        json::object made{{"role", "assistant"}, {"content", nullptr}};
        if (!text.empty())
            made["content"] = text;
        if (!calls.empty())
            made.emplace("tool_calls", std::move(calls));
        messages_.push_back(std::move(made));
    }

    void add_results(const std::vector<piece>& pieces)
    {
        for (const auto& next : pieces) {
            auto content = read_result(next, left_out_);
            if (content.is_error)
                left_out_.add_error_mark(next.message);
            messages_.push_back(json::object{
                {"role", "tool"}, {"tool_call_id", next.call_id}, {"content", std::move(content.text)}});
            json::array blocks;
            for (const auto& media : content.media)
                add_media(blocks, next.message, media);
            if (!blocks.empty())
                add_text(media_, "(From the result of " + (next.tool.empty() ? "a tool" : next.tool) + ":)");
            for (auto& block : blocks)
                media_.push_back(std::move(block));
        }
    }

    //! Results are text here: their media follow as a message of the user.
    void flush_media()
    {
        if (!media_.empty())
            messages_.push_back(json::object{{"role", "user"}, {"content", std::exchange(media_, {})}});
    }

    const conversation& chat_;
    omissions left_out_{"Chat Completions"};
    json::array messages_;
    json::array media_;
};

} // namespace
} // namespace to_chat_completions

request chat_completions(const conversation& chat)
{
    return to_chat_completions::builder(chat).build();
}

} // namespace waymark::wire
