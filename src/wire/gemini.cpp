#include "../values/storage_memory.hpp"
#include "arrangement.hpp"
#include "json_members.hpp"
#include "pieces.hpp"

#include <waymark/wire.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <utility>

namespace waymark::wire {

namespace json = boost::json;

namespace to_gemini {
namespace {

//! What Google documents for histories of other models: newer models refuse calls without a signature.
constexpr std::string_view signature_of_others = "skip_thought_signature_validator";

bool is_native(const json::object& item)
{
    const auto* const parts = find_at(item, "parts");
    return parts != nullptr && all_objects(*parts, [](const json::object&) { return true; }) &&
           !item.contains("content") &&
           (!item.contains("role") || is_one_of(text_at(item, "role"), {"user", "model", "function"}));
}

bool takes_id(std::string_view)
{
    return true; // none, too: calls are told apart by name and order then
}

class builder {
public:
    explicit builder(const conversation& chat) : chat_(chat) {}

    request build()
    {
        const auto turns = arrange(chat_, {is_native, takes_id, result_place::in_one_message});
        left_out_.add_losses_of_texts(turns);
        for (const auto& next : turns)
            add(next);
        flush_media();
        return {make_body(), std::move(left_out_).take(chat_)};
    }

private:
    struct entry {
        speaker who;
        json::object item; // of one that is sent as it is
        json::array parts; // of others
        bool is_verbatim;
    };

    void add(const turn& next)
    {
        if (next.who != speaker::tools)
            flush_media();
        if (next.verbatim) {
            add_verbatim(detail::message_access::item_of(chat_[*next.verbatim]));
        } else if (next.who == speaker::instructions) {
            add_instructions(next.pieces);
        } else {
            for (const auto& from : next.pieces)
                add_piece(next.who, from);
        }
    }

    //! Without what the API refuses: empty texts, and arguments that are no object.
    void add_verbatim(json::object item)
    {
        auto& parts = item.at("parts").get_array();
        const auto kept = std::stable_partition(parts.begin(), parts.end(), [](const json::value& next) {
            const auto& object = next.get_object();
            return string_at(object, "text") == nullptr || !text_at(object, "text").empty() ||
                   !has_only(object, {"text", "thought"});
        });
        parts.erase(kept, parts.end());
        for (auto& next : parts)
            if (auto* const args = args_of(next.get_object()); args != nullptr && !args->is_object())
                *args = json::object{{"input", *args}};
        const auto who = text_at(item, "role") == "model" ? speaker::model : speaker::user;
        if (!parts.empty())
            entries_.push_back({who, std::move(item), {}, true});
    }

    static json::value* args_of(json::object& part)
    {
        auto* const call = part.if_contains("functionCall");
        return call == nullptr || !call->is_object() ? nullptr : call->get_object().if_contains("args");
    }

    void add_instructions(const std::vector<piece>& pieces)
    {
        for (const auto& next : pieces)
            if (const auto kind = kind_of(next.content); kind == piece_kind::media)
                left_out_.add_media(next.message, next.content);
            else if (kind == piece_kind::foreign)
                left_out_.add_foreign(next);
        if (auto text = joined_text(pieces); !text.empty())
            instructions_.push_back(json::object{{"text", std::move(text)}});
    }

    void add_piece(speaker who, const piece& from)
    {
        switch (kind_of(from.content)) {
        case piece_kind::text:
            if (!from.content.text().empty())
                parts_of(who).push_back(json::object{{"text", from.content.text()}});
            break;
        case piece_kind::media:
            if (auto made = make_media(from.message, from.content); !made.empty())
                parts_of(who).push_back(std::move(made));
            break;
        case piece_kind::call:
            add_call(from);
            break;
        case piece_kind::result:
            add_result(from);
            break;
        case piece_kind::foreign:
            left_out_.add_foreign(from);
        }
    }

    //! Of the newest content, if it is of the same speaker and made here. Responses have one to themselves:
    //! there must be as many as calls, and nothing else.
    json::array& parts_of(speaker who)
    {
        if (entries_.empty() || entries_.back().is_verbatim || entries_.back().who != who)
            entries_.push_back({who, {}, {}, false});
        return entries_.back().parts;
    }

    void add_call(const piece& from)
    {
        auto& parts = parts_of(speaker::model);
        json::object call{{"name", from.content.call().name()}, {"args", arguments_object(from.content)}};
        if (!from.call_id.empty())
            call.emplace("id", from.call_id);
        json::object made{{"functionCall", std::move(call)}};
        const bool is_signed = std::any_of(parts.begin(), parts.end(), [](const json::value& next) {
            return next.get_object().contains("thoughtSignature");
        });
        if (!is_signed) // the first of several calls is enough
            made.emplace("thoughtSignature", signature_of_others);
        parts.push_back(std::move(made));
    }

    void add_result(const piece& from)
    {
        const auto content = read_result(from, left_out_);
        json::object response{{"name", from.tool.empty() ? "unknown" : from.tool},
                              {"response", {{content.is_error ? "error" : "result", content.text}}}};
        if (!from.call_id.empty())
            response.emplace("id", from.call_id);
        parts_of(speaker::tools).push_back(json::object{{"functionResponse", std::move(response)}});
        json::array media;
        for (const auto& next : content.media)
            if (auto made = make_media(from.message, next); !made.empty())
                media.push_back(std::move(made));
        if (!media.empty())
            media_.push_back(json::object{
                {"text", "(From the result of " + (from.tool.empty() ? "a tool" : from.tool) + ":)"}});
        media_.insert(media_.end(), media.begin(), media.end());
    }

    //! Only the newest models take media in a response: they follow as what the user says.
    void flush_media()
    {
        if (media_.empty())
            return;
        auto& parts = parts_of(speaker::user);
        parts.insert(parts.end(), media_.begin(), media_.end());
        media_.clear();
    }

    //! Empty if it cannot be carried over.
    json::object make_media(std::size_t message, const part& media)
    {
        const auto type = media_type(media);
        const bool is_known =
            has_exact_type(media) &&
            (!type.starts_with("image/") ||
             is_one_of(type, {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}));
        if (is_known && !media.media_base64().empty())
            return {{"inlineData", {{"mimeType", type}, {"data", media.media_base64()}}}};
        if (media.media_base64().empty() &&
            (is_on_the_web(media) || media.media_url().starts_with("gs://"))) {
            json::object file{{"fileUri", media.media_url()}};
            if (is_known)
                file.emplace("mimeType", type);
            return {{"fileData", std::move(file)}};
        }
        left_out_.add_media(message, media);
        return {};
    }

    json::object make_body()
    {
        json::object body;
        if (!instructions_.empty())
            body.emplace("systemInstruction", json::object{{"parts", std::move(instructions_)}});
        json::array contents;
        if (!entries_.empty() && entries_.front().who == speaker::model)
            contents.push_back(
                json::object{{"role", "user"}, {"parts", {json::object{{"text", earlier_messages}}}}});
        for (auto& [who, item, parts, is_verbatim] : entries_) {
            if (!is_verbatim)
                item = {{"role", who == speaker::model ? "model" : "user"}, {"parts", std::move(parts)}};
            if (who == speaker::model && calls_behind_model(contents, item))
                append_parts(contents.back(), item);
            else
                contents.push_back(std::move(item));
        }
        sign_current_turn(contents);
        body.emplace("contents", std::move(contents));
        return body;
    }

    static bool has_part(const json::value& content, std::string_view member)
    {
        const auto& parts = content.at("parts").get_array();
        return std::any_of(parts.begin(), parts.end(),
                           [&](const json::value& next) { return next.get_object().contains(member); });
    }

    //! The API takes calls behind what the user says only, not behind another content of the model.
    static bool calls_behind_model(const json::array& contents, const json::object& item)
    {
        return !contents.empty() && text_at(contents.back().get_object(), "role") == "model" &&
               has_part(json::value(item), "functionCall");
    }

    static void append_parts(json::value& content, const json::object& from)
    {
        auto& parts = content.at("parts").get_array();
        const auto& more = from.at("parts").get_array();
        parts.insert(parts.end(), more.begin(), more.end());
    }

    //! A model that signs its calls refuses those of the current turn whose signature was lost.
    static void sign_current_turn(json::array& contents)
    {
        if (std::none_of(contents.begin(), contents.end(),
                         [](const json::value& next) { return has_part(next, "thoughtSignature"); }))
            return;
        for (auto i = contents.size(); i-- > 0;) {
            auto& content = contents[i];
            if (text_at(content.get_object(), "role") != "model") {
                if (!has_part(content, "functionResponse"))
                    return; // the turn begins here
                continue;
            }
            auto& parts = content.at("parts").get_array();
            const auto first = std::find_if(parts.begin(), parts.end(), [](const json::value& next) {
                return next.get_object().contains("functionCall");
            });
            if (first != parts.end() && !first->get_object().contains("thoughtSignature"))
                first->get_object().emplace("thoughtSignature", signature_of_others);
        }
    }

    const conversation& chat_;
    omissions left_out_{"Gemini's API"};
    json::array instructions_;
    std::vector<entry> entries_;
    json::array media_;
};

} // namespace
} // namespace to_gemini

request gemini(const conversation& chat)
{
    return to_gemini::builder(chat).build();
}

} // namespace waymark::wire
