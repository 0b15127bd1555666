#include "../values/storage_memory.hpp"
#include "arrangement.hpp"
#include "json_members.hpp"
#include "pieces.hpp"

#include <waymark/wire.hpp>

#include <boost/json/array.hpp>

#include <utility>

namespace waymark::wire {

namespace json = boost::json;

namespace to_responses {
namespace {

constexpr std::size_t longest_name = 128;
constexpr std::size_t longest_id = 64;

bool is_block_of_model(const json::object& block)
{
    return is_one_of(text_at(block, "type"), {"output_text", "refusal"});
}

bool is_block_of_others(const json::object& block)
{
    return is_one_of(text_at(block, "type"), {"input_text", "input_image", "input_file"});
}

//! A kind of item that the API knows, or may know tomorrow. Content has kinds, too, that of MCP as well.
bool is_item_type(std::string_view type)
{
    return !type.empty() &&
           !is_one_of(type, {"message", "text", "image", "audio", "resource", "resource_link", "image_url",
                             "file", "input_text", "input_image", "input_file", "input_audio", "output_text",
                             "refusal", "tool_use", "tool_result", "thinking", "redacted_thinking"});
}

bool is_native(const json::object& item)
{
    const auto type = text_at(item, "type");
    const auto role = text_at(item, "role");
    if (role.empty())
        return is_item_type(type) && !item.contains("parts") &&
               (type != "function_call" || is_blank_or_json(text_at(item, "arguments")));
    const auto* const content = find_at(item, "content");
    if (content == nullptr || !is_one_of(role, {"system", "developer", "user", "assistant"}) ||
        !(content->is_string() ||
          all_objects(*content, role == "assistant" ? is_block_of_model : is_block_of_others)))
        return false;
    if (type == "message") // an answer, with its id and status; that of Anthropic has content of its own
        return content->is_string() || !content->get_array().empty() || item.contains("status");
    return type.empty() && has_only(item, {"role", "content", "status", "id", "phase"});
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
        const auto turns = arrange(chat_, {is_native, takes_id, result_place::anywhere});
        left_out_.add_losses_of_texts(turns);
        for (const auto& next : turns)
            add(next);
        return {{{"input", std::move(items_)}}, std::move(left_out_).take(chat_)};
    }

private:
    void add(const turn& next)
    {
        if (next.verbatim)
            add_verbatim(detail::message_access::item_of(chat_[*next.verbatim]));
        else if (next.who == speaker::instructions)
            add_message(chat_[next.pieces.front().message].role() == role::developer ? "developer" : "system",
                        next.pieces);
        else if (next.who == speaker::user)
            add_message("user", next.pieces);
        else if (next.who == speaker::model)
            add_model(next.pieces);
        else
            for (const auto& result : next.pieces)
                add_result(result);
    }

    //! The API hands reasoning out with a status now and then, and never takes one back.
    void add_verbatim(json::object item)
    {
        if (text_at(item, "type") == "reasoning" && item.contains("status"))
            item.stable_erase(item.find("status"));
        items_.push_back(std::move(item));
    }

    //! Of the user or the system.
    void add_message(std::string_view role, const std::vector<piece>& pieces)
    {
        json::array blocks;
        for (const auto& next : pieces)
            if (const auto kind = kind_of(next.content); kind == piece_kind::text)
                add_text(blocks, next.content.text());
            else if (kind == piece_kind::media)
                add_media(blocks, next.message, next.content);
            else
                left_out_.add_foreign(next);
        if (blocks.size() == 1 && blocks[0].at("type") == "input_text")
            items_.push_back(json::object{{"role", role}, {"content", blocks[0].at("text")}});
        else if (!blocks.empty())
            items_.push_back(json::object{{"role", role}, {"content", std::move(blocks)}});
    }

    static void add_text(json::array& blocks, std::string_view text)
    {
        if (!text.empty())
            blocks.push_back(json::object{{"type", "input_text"}, {"text", text}});
    }

    void add_media(json::array& blocks, std::size_t message, const part& media)
    {
        const auto type = media_type(media);
        const bool is_here = !media.media_base64().empty();
        const bool is_image = is_here ? is_common_image(type) : type.empty() || type.starts_with("image/");
        const auto where = is_here ? data_url(media) : std::string(media.media_url());
        const bool is_file =
            is_here ? type == "application/pdf" : !type.starts_with("audio/") && !type.starts_with("video/");
        if ((!is_here && !is_on_the_web(media)) || (!is_image && !is_file))
            left_out_.add_media(message, media);
        else if (is_image)
            blocks.push_back(json::object{{"type", "input_image"}, {"image_url", where}, {"detail", "auto"}});
        else if (is_here)
            blocks.push_back(
                json::object{{"type", "input_file"}, {"filename", "document.pdf"}, {"file_data", where}});
        else
            blocks.push_back(json::object{{"type", "input_file"}, {"file_url", where}});
    }

    void add_model(const std::vector<piece>& pieces)
    {
        std::vector<piece> texts; // of one message, up to the next call
        for (const auto& next : pieces) {
            if (!texts.empty() && texts.back().message != next.message)
                flush_text(texts);
            switch (kind_of(next.content)) {
            case piece_kind::text:
                texts.push_back(next);
                break;
            case piece_kind::call:
                flush_text(texts);
                items_.push_back(json::object{{"type", "function_call"},
                                              {"call_id", next.call_id},
                                              {"name", tool_name(next.content, longest_name)},
                                              {"arguments", arguments_text(next.content)}});
                break;
            case piece_kind::media:
                left_out_.add_media(next.message, next.content);
                break;
            default:
                left_out_.add_foreign(next);
            }
        }
        flush_text(texts);
    }

    void flush_text(std::vector<piece>& texts)
    {
        if (auto text = joined_text(texts); !text.empty())
            items_.push_back(json::object{{"role", "assistant"}, {"content", std::move(text)}});
        texts.clear();
    }

    void add_result(const piece& from)
    {
        const auto content = read_result(from, left_out_);
        if (content.is_error)
            left_out_.add_error_mark(from.message);
        json::array blocks;
        for (const auto& media : content.media)
            add_media(blocks, from.message, media);
        const auto type = output_type(from);
        json::object made{{"type", type}, {"call_id", from.call_id}, {"output", nullptr}};
        if (type == "computer_call_output" && !blocks.empty()) {
            made["output"] =
                json::object{{"type", "computer_screenshot"}, {"image_url", blocks[0].at("image_url")}};
        } else if (blocks.empty()) {
            made["output"] = content.text;
        } else {
            json::array output;
            add_text(output, content.text);
            for (auto& block : blocks)
                output.push_back(std::move(block));
            made["output"] = std::move(output);
        }
        items_.push_back(std::move(made));
    }

    //! The output has to be of the kind of its call, if that is the API's own.
    static std::string output_type(const piece& from)
    {
        const auto* const call = from.native_call ? from.native_call->json().if_object() : nullptr;
        const auto type = call == nullptr ? std::string_view() : text_at(*call, "type");
        return std::string(type.empty() ? "function_call" : type) + "_output";
    }

    const conversation& chat_;
    omissions left_out_{"the Responses API"};
    json::array items_;
};

} // namespace
} // namespace to_responses

request responses(const conversation& chat)
{
    return to_responses::builder(chat).build();
}

} // namespace waymark::wire
