//! What an API answered becomes messages.
#include "api_errors.hpp"
#include "json_members.hpp"

#include <waymark/wire.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <span>

namespace waymark::wire {

namespace json = boost::json;

namespace {

//! All of them, or none.
void push_all(conversation& chat, std::span<const message> messages)
{
    auto longer = chat;
    for (const auto& next : messages)
        longer.push(next);
    chat = std::move(longer);
}

//! The first entry of a list that the answer must have. Null if the list is empty.
const json::object* first_of(api which, const json::object& response, std::string_view list)
{
    const auto* const entries = array_at(response, list);
    if (entries == nullptr)
        throw_no_answer(which, "it has no list '" + std::string(list) + "'");
    if (entries->empty())
        return nullptr;
    if (!entries->front().is_object())
        throw_no_answer(which, "the first of its '" + std::string(list) + "' is no object");
    return &entries->front().get_object();
}

bool says_nothing(const json::value* content)
{
    return content == nullptr || content->is_null() ||
           (content->is_string() && content->get_string().empty()) ||
           (content->is_array() && content->get_array().empty());
}

//! How an answer ended, once its messages are appended. Some servers call it a normal end when the model
//! makes calls.
ending ending_of(const conversation& chat, std::size_t appended, ending said)
{
    if (said != ending::finished)
        return said;
    for (auto i = chat.size() - appended; i < chat.size(); ++i)
        if (!chat[i].tool_calls().empty())
            return ending::calls;
    return said;
}

//! Some servers leave out who speaks, without which it would be sent back as what the user says.
json::object with_role(json::object said, std::string_view role)
{
    said.emplace("role", role);
    return said;
}

//! Whether there is nothing but a role, and members without a value.
bool is_empty_chat_message(const json::object& message)
{
    return std::all_of(message.begin(), message.end(), [](const auto& member) {
        return is_one_of(member.key(), {"role", "annotations"}) || says_nothing(&member.value());
    });
}

//! Of an item of the Responses API.
bool has_refusal(const message& item)
{
    const auto* const content = array_at(item.item(), "content");
    return content != nullptr && std::any_of(content->begin(), content->end(), [](const json::value& next) {
               const auto* const block = next.if_object();
               return block != nullptr && text_at(*block, "type") == "refusal";
           });
}

ending ending_of_gemini(std::string_view reason)
{
    if (reason == "STOP")
        return ending::finished;
    if (is_one_of(reason, {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
                           "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}))
        return ending::refused;
    return ending::cut_off; // "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", …
}

//! Text without characters may still carry a signature.
bool is_empty_gemini_content(const json::object& content)
{
    const auto* const parts = array_at(content, "parts");
    return parts == nullptr || std::all_of(parts->begin(), parts->end(), [](const json::value& next) {
               const auto* const part = next.if_object();
               return part != nullptr && has_only(*part, {"text", "thought"}) &&
                      text_at(*part, "text").empty();
           });
}

} // namespace

answer append_chat_completions(conversation& chat, const json::object& response)
{
    check_no_error(api::chat_completions, response);
    const auto* const choice = first_of(api::chat_completions, response, "choices");
    if (choice == nullptr)
        throw_no_answer(api::chat_completions, "its 'choices' are empty");
    check_no_error(api::chat_completions, *choice); // as some gateways report them
    const auto* const said = object_at(*choice, "message");
    if (said == nullptr)
        throw_no_answer(api::chat_completions, "the first of its 'choices' has no 'message'");
    const std::string reason(text_at(*choice, "finish_reason"));
    const auto how = reason.empty() || reason == "length"                               ? ending::cut_off
                     : reason == "content_filter" || !text_at(*said, "refusal").empty() ? ending::refused
                                                                                        : ending::finished;
    if (is_empty_chat_message(*said))
        return {0, reason, how};
    chat.push(message::from(with_role(*said, "assistant")));
    return {1, reason, ending_of(chat, 1, how)};
}

answer append_responses(conversation& chat, const json::object& response)
{
    check_no_error(api::responses, response);
    const auto* const output = array_at(response, "output");
    const auto status = text_at(response, "status");
    if (status == "failed")
        throw_api_error(api::responses, json::object{{"message", "the response has the status 'failed'"}});
    if (output == nullptr)
        throw_no_answer(api::responses, "it has no list 'output'");
    std::vector<message> items;
    items.reserve(output->size());
    for (const auto& next : *output) {
        if (!next.is_object())
            throw_no_answer(api::responses, "its 'output' holds something that is no object");
        items.push_back(message::from(next.get_object()));
    }
    const auto* const details = object_at(response, "incomplete_details");
    const auto reason = details == nullptr ? std::string_view() : text_at(*details, "reason");
    const auto how = reason == "content_filter"                             ? ending::refused
                     : !status.empty() && status != "completed"             ? ending::cut_off
                     : std::any_of(items.begin(), items.end(), has_refusal) ? ending::refused
                                                                            : ending::finished;
    push_all(chat, items);
    return {items.size(), std::string(reason.empty() ? status : reason), ending_of(chat, items.size(), how)};
}

answer append_anthropic(conversation& chat, const json::object& response)
{
    check_no_error(api::anthropic, response);
    const auto* const role = find_at(response, "role");
    const auto* const content = array_at(response, "content");
    if (role == nullptr || !role->is_string())
        throw_no_answer(api::anthropic, "it has no 'role'");
    if (content == nullptr)
        throw_no_answer(api::anthropic, "it has no list 'content'");
    const std::string reason(text_at(response, "stop_reason"));
    const auto how = reason.empty() || is_one_of(reason, {"max_tokens", "model_context_window_exceeded"})
                         ? ending::cut_off
                     : reason == "refusal"    ? ending::refused
                     : reason == "pause_turn" ? ending::paused
                                              : ending::finished;
    if (content->empty())
        return {0, reason, how};
    json::object item; // in the order that they came in
    for (const auto& member : response)
        if (is_one_of(member.key(), {"role", "content"}))
            item.emplace(member.key(), member.value());
    chat.push(message::from(std::move(item)));
    return {1, reason, ending_of(chat, 1, how)};
}

answer append_gemini(conversation& chat, const json::object& response)
{
    check_no_error(api::gemini, response);
    const auto* const feedback = object_at(response, "promptFeedback");
    const auto blocked = feedback == nullptr ? std::string_view() : text_at(*feedback, "blockReason");
    if (!blocked.empty() && !response.contains("candidates"))
        return {0, std::string(blocked), ending::refused};
    const auto* const candidate = first_of(api::gemini, response, "candidates");
    if (candidate == nullptr && blocked.empty())
        throw_no_answer(api::gemini, "its 'candidates' are empty, and nothing says why");
    if (candidate == nullptr)
        return {0, std::string(blocked), ending::refused};
    const std::string reason(text_at(*candidate, "finishReason"));
    const auto how = ending_of_gemini(reason);
    const auto* const content = object_at(*candidate, "content");
    if (content == nullptr || is_empty_gemini_content(*content))
        return {0, reason, how};
    chat.push(message::from(with_role(*content, "model")));
    return {1, reason, ending_of(chat, 1, how)};
}

answer append(api which, conversation& chat, const json::object& response)
{
    switch (which) {
    case api::chat_completions:
        return append_chat_completions(chat, response);
    case api::responses:
        return append_responses(chat, response);
    case api::anthropic:
        return append_anthropic(chat, response);
    case api::gemini:
        break;
    }
    return append_gemini(chat, response);
}

request make_request(api which, const conversation& chat)
{
    switch (which) {
    case api::chat_completions:
        return chat_completions(chat);
    case api::responses:
        return responses(chat);
    case api::anthropic:
        return anthropic(chat);
    case api::gemini:
        break;
    }
    return gemini(chat);
}

std::string_view to_string(api which) noexcept
{
    switch (which) {
    case api::chat_completions:
        return "chat_completions";
    case api::responses:
        return "responses";
    case api::anthropic:
        return "anthropic";
    case api::gemini:
        break;
    }
    return "gemini";
}

} // namespace waymark::wire
