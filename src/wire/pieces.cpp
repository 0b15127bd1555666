#include "pieces.hpp"

#include "call_ids.hpp"
#include "json_members.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace waymark::wire {

namespace json = boost::json;

namespace {

std::string with_article(std::string_view noun)
{
    const bool is_vowel =
        !noun.empty() && std::string_view("aeiou").find(noun.front()) != std::string_view::npos;
    return std::string(is_vowel ? "an " : "a ").append(noun);
}

//! What its API calls a part.
std::string name_of_foreign(const part& from)
{
    const auto* const object = from.json().if_object();
    if (object == nullptr)
        return "a part of an unknown kind";
    if (const auto type = text_at(*object, "type"); !type.empty())
        return with_article(type);
    for (const auto& member : *object) // Gemini's parts have their kind as a member
        if (member.value().is_object())
            return with_article(member.key());
    return "a part of an unknown kind";
}

std::string name_of_media(const part& media)
{
    const auto type = media.media_type();
    if (type.starts_with("image/"))
        return "an image";
    if (type.starts_with("audio/"))
        return "audio";
    if (type.starts_with("video/"))
        return "a video";
    return type == "application/pdf" ? "a document" : "a file";
}

//! Members of a text that say more than the text: citations, what is to be cached, a signature.
bool is_more_than_text(const json::object::value_type& member)
{
    const auto& value = member.value();
    return !is_one_of(member.key(), {"type", "text", "refusal", "logprobs", "thought"}) && !value.is_null() &&
           (!value.is_array() || !value.get_array().empty());
}

} // namespace

void omissions::add(std::size_t message, std::string what)
{
    all_.emplace_back(message, std::move(what));
}

void omissions::add_foreign(const piece& from)
{
    if (from.content.kind() == part_kind::reasoning)
        add(from.message, "the reasoning, which only the API that made it can read");
    else
        add(from.message, name_of_foreign(from.content) + ", which only the API that made it knows");
}

void omissions::add_media(std::size_t message, const part& media)
{
    const bool is_upload = media.media_base64().empty() && !is_on_the_web(media) &&
                           !media.media_url().starts_with("gs://"); // where Google's customers have theirs
    add(message, name_of_media(media) + (is_upload ? ", which was uploaded to another API"
                                                   : ", which " + taker_ + " does not take here"));
}

void omissions::add_losses_of_texts(const std::vector<turn>& turns)
{
    for (const auto& turn : turns) {
        if (turn.who == speaker::instructions) // there they are marks for a cache, if anything
            continue;
        for (const auto& from : turn.pieces)
            if (const auto* const block = from.content.json().if_object();
                block != nullptr && from.content.kind() == part_kind::text && block->contains("text"))
                for (const auto& member : *block)
                    if (is_more_than_text(member))
                        add(from.message, "'" + std::string(member.key()) +
                                              "' of a text, which only the API that made it knows");
    }
}

void omissions::add_error_mark(std::size_t message)
{
    add(message, "the mark that a result is an error, which " + taker_ + " does not know; its text is there");
}

std::vector<omission> omissions::take(const conversation& chat) &&
{
    std::stable_sort(all_.begin(), all_.end(),
                     [](const auto& left, const auto& right) { return left.first < right.first; });
    std::set<std::pair<std::size_t, std::string>> known;
    std::vector<omission> taken;
    for (auto& [message, what] : all_)
        if (known.emplace(message, what).second)
            taken.emplace_back(message, chat[message].id(), std::move(what));
    return taken;
}

piece_kind kind_of(const part& from)
{
    switch (from.kind()) {
    case part_kind::text:
        return piece_kind::text;
    case part_kind::media:
        return from.text().empty() ? piece_kind::media : piece_kind::text;
    case part_kind::tool_call:
        return piece_kind::call;
    case part_kind::tool_result:
        return piece_kind::result;
    case part_kind::reasoning:
    case part_kind::other:
        break;
    }
    return piece_kind::foreign;
}

result_content read_result(const piece& from, omissions& left_out)
{
    const auto result = from.content.result();
    result_content content{{}, {}, result.is_error()};
    bool has_text = false;
    for (const auto& next : result.parts())
        switch (kind_of(next)) {
        case piece_kind::text:
            if (!next.text().empty())
                content.text.append(std::exchange(has_text, true) ? "\n" : "").append(next.text());
            break;
        case piece_kind::media:
            content.media.push_back(next);
            break;
        default:
            left_out.add_foreign({from.message, next, {}, {}, {}});
        }
    return content;
}

std::string tool_name(const part& call, std::size_t longest)
{
    auto name = call.call().name().substr(0, longest);
    std::replace_if(
        name.begin(), name.end(),
        [](char c) {
            return !is_plain_id({&c, 1});
        },
        '_');
    return name;
}

std::string arguments_text(const part& call)
{
    if (const auto* const object = call.json().if_object()) {
        const auto* const function = object_at(*object, "function");
        const auto text = text_at(function == nullptr ? *object : *function, "arguments");
        if (is_json(text))
            return std::string(text); // as they are: numbers may be too large for us
    }
    return json::serialize(arguments_object(call));
}

json::object arguments_object(const part& call)
{
    auto arguments = call.call().arguments();
    if (auto* const object = arguments.if_object())
        return std::move(*object);
    if (arguments.is_null())
        return {};
    return {{"input", std::move(arguments)}};
}

std::string_view media_type(const part& media)
{
    return media.media_type() == "image/jpg" ? std::string_view("image/jpeg") : media.media_type();
}

bool is_common_image(std::string_view type) noexcept
{
    return is_one_of(type, {"image/png", "image/jpeg", "image/gif", "image/webp"});
}

std::string data_url(const part& media)
{
    const auto type =
        has_exact_type(media) ? media_type(media) : std::string_view("application/octet-stream");
    return std::string("data:").append(type).append(";base64,").append(media.media_base64());
}

bool is_on_the_web(const part& media)
{
    const auto url = media.media_url();
    // An address of Gemini's own uploads is of no use to others.
    return (url.starts_with("https://") || url.starts_with("http://")) &&
           !url.starts_with("https://generativelanguage.googleapis.com/");
}

bool has_exact_type(const part& media)
{
    return !media.media_type().empty() && !media.media_type().ends_with('*');
}

std::string joined_text(const std::vector<piece>& pieces)
{
    std::string joined;
    const piece* before = nullptr;
    for (const auto& next : pieces) {
        if (kind_of(next.content) != piece_kind::text || next.content.text().empty())
            continue;
        if (before != nullptr && before->message != next.message)
            joined += "\n\n";
        joined += next.content.text();
        before = &next;
    }
    return joined;
}

} // namespace waymark::wire
