#include "api_errors.hpp"

#include "../values/text.hpp"
#include "json_members.hpp"

#include <waymark/error.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace waymark::wire {

namespace json = boost::json;

namespace {

constexpr std::size_t longest_text_shown = 1000;
constexpr std::size_t longest_body_shown = 200;

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

//! A quota that is used up is no reason to send it again.
bool is_passing(std::string_view kind)
{
    return !has_any_of(kind, {"quota", "billing"}) &&
           has_any_of(kind, {"overloaded", "rate_limit", "server_error", "api_error", "timeout",
                             "UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "DEADLINE_EXCEEDED", "429",
                             "500", "502", "503", "504", "529"});
}

bool is_about_the_key(std::string_view kind)
{
    return has_any_of(kind, {"authentication", "permission", "api_key", "UNAUTHENTICATED",
                             "PERMISSION_DENIED", "401", "403", "billing", "quota"});
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
    if (is_about_the_key(kind))
        sentence += "; check the key and what it may do";
    throw waymark::error(is_passing(kind) ? errc::api_busy : errc::api_refused, sentence);
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

void throw_no_stream(api which, std::string_view body)
{
    json::error_code failure;
    const auto parsed = json::parse(body, failure);
    if (!failure && parsed.is_object())
        check_no_error(which, parsed.get_object());
    std::string_view remedy;
    if (body.front() == '{')
        remedy = "; an answer that is not streamed is for append()";
    else if (body.front() == '[' && which == api::gemini)
        remedy = "; ask for one with \"?alt=sse\"";
    throw error(errc::invalid_argument, "this is no stream of server-sent events of " +
                                            std::string(title(which)) + std::string(remedy) +
                                            "; it begins: " + detail::printable(body, longest_body_shown));
}

void throw_no_event(api which, std::string_view complaint)
{
    throw error(errc::invalid_argument, "this is no event of a stream of " + std::string(title(which)) +
                                            ": " + std::string(complaint));
}

} // namespace waymark::wire
