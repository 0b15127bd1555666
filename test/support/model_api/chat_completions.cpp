#include "shapes.hpp"

#include <set>

namespace model_api::rules::chat_completions {

namespace {

bool is_image_type(std::string_view type)
{
    return one_of(type, {"image/png", "image/jpeg", "image/gif", "image/webp"});
}

void check_image(findings& found, std::string_view where, const json::object& image)
{
    if (!has_shape(found, where, image, {{"url", text}, {"detail", text | optional}}))
        return;
    // An image is a web address or a data URL of a type that the API reads.
    const auto url = text_in(image, "url");
    const auto [type, data] = parse_data_url(url);
    if (url.starts_with("data:")) {
        if (!is_image_type(type))
            found.add(where, "the image has no media type that the API reads");
        if (!is_base64(data))
            found.add(where, "the data of the image are not base64");
    } else if (!is_web_address(url)) {
        found.add(where, "the image has neither a web address nor data");
    }
    if (image.contains("detail") && !one_of(text_in(image, "detail"), {"auto", "low", "high", "original"}))
        found.add(where, "the detail is unknown");
}

void check_audio_input(findings& found, std::string_view where, const json::object& audio)
{
    if (!has_shape(found, where, audio, {{"data", text}, {"format", text}}))
        return;
    // Spoken input is WAV or MP3.
    if (!one_of(text_in(audio, "format"), {"wav", "mp3"}))
        found.add(where, "the format of the audio is unknown");
    if (!is_base64(text_in(audio, "data")))
        found.add(where, "the data of the audio are not base64");
}

void check_file(findings& found, std::string_view where, const json::object& file)
{
    if (!has_shape(
            found, where, file,
            {{"file_data", text | optional}, {"file_id", text | optional}, {"filename", text | optional}}))
        return;
    // A file is named by an id or comes as a data URL.
    if (!file.contains("file_data") && text_in(file, "file_id").empty())
        found.add(where, "the file has neither an id nor data");
    if (file.contains("file_data")) {
        const auto [type, data] = parse_data_url(text_in(file, "file_data"));
        if (!is_media_type(type))
            found.add(where, "the file has no media type");
        if (!is_base64(data))
            found.add(where, "the data of the file are not base64");
    }
}

void check_part(findings& found, std::string_view where, const json::object& part, std::string_view role)
{
    const member type{"type", text};
    const member cached{"prompt_cache_breakpoint", object | optional};
    const auto name = text_in(part, "type");
    // Only users send media; only assistants refuse.
    if (name == "text") {
        has_shape(found, where, part, {type, {"text", text}, cached});
    } else if (name == "refusal" && role == "assistant") {
        has_shape(found, where, part, {type, {"refusal", text}});
    } else if (name == "image_url" && role == "user") {
        if (has_shape(found, where, part, {type, {"image_url", object}, cached}))
            check_image(found, member_of(where, name), *object_in(part, "image_url"));
    } else if (name == "input_audio" && role == "user") {
        if (has_shape(found, where, part, {type, {"input_audio", object}, cached}))
            check_audio_input(found, member_of(where, name), *object_in(part, "input_audio"));
    } else if (name == "file" && role == "user") {
        if (has_shape(found, where, part, {type, {"file", object}, cached}))
            check_file(found, member_of(where, name), *object_in(part, "file"));
    } else {
        found.add(where,
                  "a part of type " + quoted(name) + " is unknown in a message of role " + quoted(role));
    }
}

void check_content(findings& found, std::string_view where, const json::object& message,
                   std::string_view role)
{
    const auto* parts = list_in(message, "content");
    if (parts == nullptr)
        return;
    // A list of parts is not empty.
    if (parts->empty())
        found.add(where, "the content is empty");
    for (std::size_t i = 0; i < parts->size(); ++i) {
        const auto place = element_of(where, "content", i);
        if (const auto* part = object_at(found, place, (*parts)[i]))
            check_part(found, place, *part, role);
    }
}

void check_function(findings& found, std::string_view where, const json::object& function)
{
    if (!has_shape(found, where, function, {{"name", text}, {"arguments", text}}))
        return;
    // The name of a function has at most 64 letters, digits, underscores and dashes.
    if (!is_plain_id(text_in(function, "name"), 64))
        found.add(where, "the name of the function is invalid");
    // Arguments are a JSON text, or empty: servers of open models parse them before the model sees them.
    const auto arguments = text_in(function, "arguments");
    if (!arguments.empty() && !is_json(arguments))
        found.add(where, "the arguments are not JSON");
}

void check_call(findings& found, std::string_view where, const json::object& call)
{
    const member id{"id", text};
    const member type{"type", text};
    // Both come with answers: of servers that leave the index of a stream there, and of Gemini behind this
    // API.
    const member index{"index", number | optional};
    const member extra{"extra_content", object | optional};
    const auto kind = text_in(call, "type");
    if (kind == "function") {
        if (has_shape(found, where, call, {id, type, index, extra, {"function", object}}))
            check_function(found, member_of(where, kind), *object_in(call, "function"));
    } else if (kind == "custom") {
        if (has_shape(found, where, call, {id, type, index, {"custom", object}}))
            has_shape(found, member_of(where, kind), *object_in(call, "custom"),
                      {{"name", text}, {"input", text}});
    } else {
        found.add(where, "a call of type " + quoted(kind) + " is unknown");
    }
    // The id of a call has 1 to 40 characters.
    const auto size = text_in(call, "id").size();
    if (size == 0 || size > 40)
        found.add(where, "the id of the call is empty or longer than 40 characters");
}

void check_assistant(findings& found, std::string_view where, const json::object& message)
{
    // An assistant message says or calls something.
    if (!has(message, "content") && !has(message, "refusal") && !has(message, "tool_calls") &&
        !has(message, "function_call") && !has(message, "audio"))
        found.add(where, "the assistant message has neither content nor calls");
    if (const auto* call = object_in(message, "function_call"))
        check_function(found, member_of(where, "function_call"), *call);
    if (const auto* audio = object_in(message, "audio"); audio != nullptr && text_in(*audio, "id").empty())
        found.add(where, "the audio has no id");
    const auto* calls = list_in(message, "tool_calls");
    if (calls == nullptr)
        return;
    // A list of calls is not empty.
    if (calls->empty())
        found.add(where, "the list of calls is empty");
    std::set<std::string_view> ids;
    for (std::size_t i = 0; i < calls->size(); ++i) {
        const auto place = element_of(where, "tool_calls", i);
        const auto* call = object_at(found, place, (*calls)[i]);
        if (call == nullptr)
            continue;
        check_call(found, place, *call);
        // The ids of a message differ.
        if (!ids.insert(text_in(*call, "id")).second)
            found.add(place, "two calls of the message have the same id");
    }
}

void check_message(findings& found, std::string_view where, const json::object& message)
{
    const auto role = text_in(message, "role");
    const member speaker{"name", text | optional};
    members shape{{"role", text}};
    if (one_of(role, {"developer", "system", "user"})) {
        shape.insert(shape.end(), {{"content", text | list}, speaker});
    } else if (role == "assistant") {
        // What follows function_call comes with answers of the API or of servers of open models.
        shape.insert(shape.end(), {{"content", text | list | null | optional},
                                   speaker,
                                   {"refusal", text | null | optional},
                                   {"audio", object | null | optional},
                                   {"tool_calls", list | optional},
                                   {"function_call", object | null | optional},
                                   {"annotations", list | null | optional},
                                   {"reasoning_content", text | null | optional},
                                   {"reasoning", text | null | optional},
                                   {"reasoning_details", list | null | optional},
                                   {"extra_content", object | null | optional}});
    } else if (role == "tool") {
        shape.insert(shape.end(), {{"content", text | list}, {"tool_call_id", text}, speaker});
    } else if (role == "function") {
        shape.insert(shape.end(), {{"content", text | null}, {"name", text}});
    } else {
        found.add(where, "the role " + quoted(role) + " is unknown");
        return;
    }
    if (!has_shape(found, where, message, shape))
        return;
    check_content(found, where, message, role);
    if (role == "assistant")
        check_assistant(found, where, message);
}

//! Checks the results that follow a message with calls, and returns the index behind them.
std::size_t check_results(findings& found, const json::array& messages, std::size_t caller)
{
    std::set<std::string_view> open;
    if (const auto* message = messages[caller].if_object()) {
        if (const auto* calls = list_in(*message, "tool_calls")) {
            for (const auto& call : *calls) {
                if (call.is_object())
                    open.insert(text_in(call.get_object(), "id"));
            }
        }
    }
    auto next = caller + 1;
    for (; next < messages.size(); ++next) {
        const auto* result = messages[next].if_object();
        if (result == nullptr || text_in(*result, "role") != "tool")
            break;
        // Each result belongs to a call of the last assistant message that no other result has answered.
        if (open.erase(text_in(*result, "tool_call_id")) == 0)
            found.add(element_of("", "messages", next), "the result answers no call of the message before");
    }
    // Results of all calls follow the message directly.
    for (const auto id : open)
        found.add(element_of("", "messages", caller), "the call " + quoted(id) + " has no result behind it");
    return next;
}

void check_function_result(findings& found, const json::array& messages, std::size_t index)
{
    // The result of a function of the old kind follows its call.
    const auto* result = messages[index].if_object();
    const auto* before = index > 0 ? messages[index - 1].if_object() : nullptr;
    const auto* call = before != nullptr ? object_in(*before, "function_call") : nullptr;
    if (call == nullptr || text_in(*call, "name") != text_in(*result, "name"))
        found.add(element_of("", "messages", index), "the result answers no call of the message before");
}

} // namespace

void check(findings& found, const json::object& request)
{
    // There is at least one message.
    const auto* messages = list_in(request, "messages");
    if (messages == nullptr || messages->empty()) {
        found.add("messages", "there are no messages");
        return;
    }
    for (std::size_t i = 0; i < messages->size(); ++i) {
        const auto place = element_of("", "messages", i);
        if (const auto* message = object_at(found, place, (*messages)[i]))
            check_message(found, place, *message);
    }
    for (std::size_t i = 0; i < messages->size();) {
        const auto* message = (*messages)[i].if_object();
        const auto role = message != nullptr ? text_in(*message, "role") : std::string_view();
        if (role == "function")
            check_function_result(found, *messages, i);
        if (role == "tool")
            found.add(element_of("", "messages", i), "the result follows no call");
        i = role == "assistant" ? check_results(found, *messages, i) : i + 1;
    }
}

} // namespace model_api::rules::chat_completions
