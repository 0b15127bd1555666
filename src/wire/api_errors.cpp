#include "api_errors.hpp"

#include "../values/text.hpp"
#include "json_members.hpp"

#include <waymark/error.hpp>

#include <boost/json/serialize.hpp>

#include <algorithm>

namespace waymark::wire {

namespace json = boost::json;

namespace {

constexpr std::size_t longest_text_shown = 1000;

//! Its type, status and code, as far as there are any.
std::string kind_of_error(const json::object& error)
{
    std::string kind;
    for (const auto* const key : {"type", "status", "code"}) {
        const auto* const found = find_at(error, key);
        if (found == nullptr || !(found->is_string() || found->is_number()))
            continue;
        const auto text = found->is_string() ? std::string(found->get_string()) : json::serialize(*found);
        if (text.empty() || (is_one_of(key, {"type"}) && text == "error")) // the type of the event
            continue;
        kind += (kind.empty() ? "" : ", ") + detail::printable(text, longest_text_shown);
    }
    return kind;
}

bool has_any_of(std::string_view text, std::initializer_list<std::string_view> words)
{
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return text.find(word) != text.npos; });
}

std::string_view remedy(std::string_view kind)
{
    if (has_any_of(kind, {"overloaded", "rate_limit", "server_error", "api_error", "timeout", "UNAVAILABLE",
                          "RESOURCE_EXHAUSTED", "INTERNAL", "DEADLINE_EXCEEDED", "429", "500", "503", "529"}))
        return "send the request again later";
    if (has_any_of(kind, {"authentication", "permission", "api_key", "UNAUTHENTICATED", "PERMISSION_DENIED",
                          "401", "403", "billing", "quota"}))
        return "check the key and what it may do";
    return "correct the request";
}

} // namespace

std::string_view title(api which) noexcept
{
    switch (which) {
    case api::chat_completions:
        return "Chat Completions";
    case api::responses:
        return "the Responses API";
    case api::anthropic:
        return "Anthropic's API";
    case api::gemini:
        return "Gemini's API";
    }
    return "an unknown API";
}

void throw_api_error(api which, const json::value& error)
{
    std::string kind;
    std::string text;
    if (const auto* const object = error.if_object()) {
        kind = kind_of_error(*object);
        text = text_at(*object, "message");
    } else if (error.is_string()) {
        text = error.get_string();
    }
    std::string sentence(title(which));
    sentence += " reports an error";
    if (!kind.empty())
        sentence += " (" + kind + ")";
    sentence += text.empty() ? " without a text" : ": " + detail::printable(text, longest_text_shown);
    throw waymark::error(errc::invalid_argument, sentence + "; " + std::string(remedy(kind)));
}

void check_no_error(api which, const json::object& sent)
{
    if (has_value(sent, "error"))
        throw_api_error(which, *find_at(sent, "error"));
}

void throw_no_answer(api which, std::string_view complaint)
{
    throw error(errc::invalid_argument,
                "this is no answer of " + std::string(title(which)) + ": " + std::string(complaint) +
                    "; give the whole body of the response, parsed, of the API that sent it");
}

void throw_no_event(api which, std::string_view complaint)
{
    throw error(errc::invalid_argument, "this is no event of a stream of " + std::string(title(which)) +
                                            ": " + std::string(complaint));
}

} // namespace waymark::wire
