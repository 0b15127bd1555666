#include "shapes.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace model_api::rules::gemini {

namespace {

constexpr std::size_t nothing = static_cast<std::size_t>(-1);

//! The members that hold the data of a part; a part has exactly one of them.
constexpr std::array<std::string_view, 9> data_members{
    "text",           "inlineData",          "fileData", "functionCall", "functionResponse",
    "executableCode", "codeExecutionResult", "toolCall", "toolResponse"};

const json::array& parts_of(const json::value& content)
{
    static const json::array none;
    const auto* holder = content.if_object();
    const auto* parts = holder != nullptr ? list_in(*holder, "parts") : nullptr;
    return parts != nullptr ? *parts : none;
}

std::vector<const json::object*> parts_with(const json::value& content, std::string_view name)
{
    std::vector<const json::object*> found;
    for (const auto& part : parts_of(content)) {
        if (part.is_object() && part.get_object().contains(name))
            found.push_back(&part.get_object());
    }
    return found;
}

std::string_view role_in(const json::object& content)
{
    // A role that is left out is that of the user.
    return content.contains("role") ? text_in(content, "role") : std::string_view("user");
}

std::string_view role_of(const json::value& content)
{
    return content.is_object() ? role_in(content.get_object()) : std::string_view("user");
}

void check_function_name(findings& found, std::string_view where, std::string_view name)
{
    // The name of a function begins with a letter or an underscore and has at most 128 characters.
    const auto is_letter = [](char c) {
        return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    const auto is_other = [](char c) {
        return std::isdigit(static_cast<unsigned char>(c)) != 0 || one_of({&c, 1}, {"-", ".", ":"});
    };
    if (name.empty() || name.size() > 128 || !is_letter(name[0]) ||
        !std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || is_other(c); }))
        found.add(where, "the name of the function is invalid");
}

void check_media_type(findings& found, std::string_view where, std::string_view type)
{
    // Images are PNG, JPEG, WebP, HEIC or HEIF; image/jpg and image/gif are refused.
    if (!is_media_type(type))
        found.add(where, "the media type is missing or invalid");
    else if (type.starts_with("image/") &&
             !one_of(type, {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}))
        found.add(where, "the media type " + quoted(type) + " is not supported");
}

void check_inline_data(findings& found, std::string_view where, const json::object& blob, bool in_response)
{
    members shape{{"mimeType", text}, {"data", text}};
    // Only the parts of responses have a name that the response can refer to.
    if (in_response)
        shape.push_back({"displayName", text | optional});
    if (!has_shape(found, where, blob, shape))
        return;
    check_media_type(found, where, text_in(blob, "mimeType"));
    if (!is_base64(text_in(blob, "data"), true))
        found.add(where, "the data are empty or not base64");
}

void check_file_data(findings& found, std::string_view where, const json::object& file)
{
    if (!has_shape(found, where, file, {{"fileUri", text}, {"mimeType", text | optional}}))
        return;
    if (text_in(file, "fileUri").empty())
        found.add(where, "the file has no address");
    if (file.contains("mimeType"))
        check_media_type(found, where, text_in(file, "mimeType"));
}

void check_function_response(findings& found, std::string_view where, const json::object& response)
{
    if (!has_shape(found, where, response,
                   {{"name", text},
                    {"response", object},
                    {"id", text | optional},
                    {"parts", list | optional},
                    {"willContinue", boolean | optional},
                    {"scheduling", text | optional}}))
        return;
    const auto* parts = list_in(response, "parts");
    for (std::size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
        const auto place = element_of(where, "parts", i);
        const auto* part = object_at(found, place, (*parts)[i]);
        if (part == nullptr)
            continue;
        if (has_shape(found, place, *part, {{"inlineData", object}}))
            check_inline_data(found, member_of(place, "inlineData"), *object_in(*part, "inlineData"), true);
    }
}

void check_data(findings& found, std::string_view where, const json::object& part, std::string_view name)
{
    const auto place = member_of(where, name);
    const auto& data = part.at(name).get_object();
    if (name == "inlineData") {
        check_inline_data(found, place, data, false);
    } else if (name == "fileData") {
        check_file_data(found, place, data);
    } else if (name == "functionCall") {
        // Arguments are an object, or absent.
        if (has_shape(found, place, data,
                      {{"name", text}, {"args", object | optional}, {"id", text | optional}}))
            check_function_name(found, place, text_in(data, "name"));
    } else if (name == "functionResponse") {
        check_function_response(found, place, data);
    } else if (name == "executableCode") {
        has_shape(found, place, data, {{"language", text}, {"code", text}, {"id", text | optional}});
    } else if (name == "codeExecutionResult") {
        has_shape(found, place, data,
                  {{"outcome", text}, {"output", text | optional}, {"id", text | optional}});
    } else if (name == "toolCall") {
        has_shape(found, place, data,
                  {{"toolType", text}, {"args", object | optional}, {"id", text | optional}});
    } else if (name == "toolResponse") {
        has_shape(found, place, data,
                  {{"toolType", text}, {"response", object | optional}, {"id", text | optional}});
    }
}

void check_part(findings& found, std::string_view where, const json::object& part, std::string_view role)
{
    members shape{{"thought", boolean | optional},
                  {"thoughtSignature", text | optional},
                  {"videoMetadata", object | optional},
                  {"mediaResolution", object | optional},
                  {"partMetadata", object | optional}};
    for (const auto name : data_members)
        shape.push_back({name, (name == "text" ? text : object) | optional});
    if (!has_shape(found, where, part, shape))
        return;
    const auto count = std::count_if(data_members.begin(), data_members.end(),
                                     [&](std::string_view name) { return part.contains(name); });
    // A part holds exactly one kind of data.
    if (count != 1)
        found.add(where, "the part holds " + std::string(count == 0 ? "no data" : "data of two kinds"));
    // An empty text counts as none; only a signature may come with it.
    if (part.contains("text") && text_in(part, "text").empty() && !part.contains("thoughtSignature"))
        found.add(where, "the text is empty");
    // A signature is base64. Both values that Google documents for foreign calls are, in the alphabet of
    // URLs.
    if (part.contains("thoughtSignature") && !is_base64(text_in(part, "thoughtSignature"), true))
        found.add(where, "the signature is empty or not base64");
    // The model calls and the user answers.
    if (part.contains("functionCall") && role != "model")
        found.add(where, "a function is called by another role than the model");
    if (part.contains("functionResponse") && role != "user")
        found.add(where, "a function is answered by another role than the user");
    for (const auto name : data_members) {
        if (name != "text" && part.contains(name))
            check_data(found, where, part, name);
    }
}

void check_content(findings& found, std::string_view where, const json::object& content, bool alone)
{
    if (!has_shape(found, where, content, {{"role", text | optional}, {"parts", list}}))
        return;
    // The roles are user and model; only a request of one content may leave it out.
    const auto role = role_in(content);
    if (!one_of(role, {"user", "model"}) || (!alone && !content.contains("role")))
        found.add(where, "the role " + quoted(text_in(content, "role")) + " is unknown");
    const auto& parts = *list_in(content, "parts");
    // A content has parts.
    if (parts.empty())
        found.add(where, "the parts are empty");
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto place = element_of(where, "parts", i);
        if (const auto* part = object_at(found, place, parts[i]))
            check_part(found, place, *part, role);
    }
}

//! The call that this response answers: the one of its id, or the first of its name that is open.
std::size_t answered_by(const json::object& response, const std::vector<const json::object*>& open)
{
    for (std::size_t i = 0; i < open.size(); ++i) {
        if (open[i] == nullptr)
            continue;
        const auto id = text_in(response, "id");
        if (text_in(*open[i], "name") == text_in(response, "name") &&
            (id.empty() || text_in(*open[i], "id") == id))
            return i;
    }
    return nothing;
}

void check_responses(findings& found, const json::array& contents, std::size_t caller)
{
    const auto where = element_of("", "contents", caller);
    // A turn of calls follows a turn of the user, or one of responses.
    if (caller == 0 || role_of(contents[caller - 1]) != "user")
        found.add(where, "the calls do not follow a turn of the user");
    std::vector<const json::object*> open;
    for (const auto* part : parts_with(contents[caller], "functionCall"))
        open.push_back(object_in(*part, "functionCall"));
    std::vector<const json::object*> responses;
    if (caller + 1 < contents.size())
        responses = parts_with(contents[caller + 1], "functionResponse");
    // The next content has as many responses as there are calls.
    if (responses.size() != open.size())
        found.add(where, "there are " + std::to_string(open.size()) + " calls, but " +
                             std::to_string(responses.size()) + " responses behind them");
    // Each response has the name of a call, and the id if it has one.
    for (const auto* part : responses) {
        const auto* response = object_in(*part, "functionResponse");
        const auto call = response != nullptr ? answered_by(*response, open) : nothing;
        if (call == nothing)
            found.add(element_of("", "contents", caller + 1), "the response matches no call in name and id");
        else
            open[call] = nullptr;
    }
}

//! Where the current turn of the user begins: the last content of the user that is not of responses.
std::size_t current_turn(const json::array& contents)
{
    for (auto i = contents.size(); i > 0; --i) {
        if (role_of(contents[i - 1]) == "user" && parts_with(contents[i - 1], "functionResponse").empty())
            return i - 1;
    }
    return 0;
}

void check_signatures(findings& found, const json::array& contents)
{
    for (auto i = current_turn(contents); i < contents.size(); ++i) {
        const auto calls = parts_with(contents[i], "functionCall");
        // Gemini 3: in the current turn, the first call of each step has its signature. Older turns are not
        // looked at.
        if (!calls.empty() && !calls.front()->contains("thoughtSignature"))
            found.add(element_of("", "contents", i), "the first call of the step has no signature");
    }
}

void check_system(findings& found, const json::value& instruction)
{
    const auto* content = object_at(found, "systemInstruction", instruction);
    if (content == nullptr ||
        !has_shape(found, "systemInstruction", *content, {{"role", text | optional}, {"parts", list}}))
        return;
    const auto& parts = *list_in(*content, "parts");
    // The system instruction has texts.
    if (parts.empty())
        found.add("systemInstruction", "the parts are empty");
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto place = element_of("systemInstruction", "parts", i);
        const auto* part = object_at(found, place, parts[i]);
        if (part != nullptr && has_shape(found, place, *part, {{"text", text}}) &&
            text_in(*part, "text").empty())
            found.add(place, "the text is empty");
    }
}

} // namespace

void check(findings& found, const json::object& request)
{
    if (const auto* instruction = request.if_contains("systemInstruction"))
        check_system(found, *instruction);
    // There is at least one content.
    const auto* contents = list_in(request, "contents");
    if (contents == nullptr || contents->empty()) {
        found.add("contents", "there are no contents");
        return;
    }
    for (std::size_t i = 0; i < contents->size(); ++i) {
        const auto place = element_of("", "contents", i);
        if (const auto* content = object_at(found, place, (*contents)[i]))
            check_content(found, place, *content, contents->size() == 1);
    }
    // The user speaks first.
    if (role_of(contents->front()) != "user")
        found.add("contents[0]", "the first content is not of the user");
    for (std::size_t i = 0; i < contents->size(); ++i) {
        if (!parts_with((*contents)[i], "functionCall").empty())
            check_responses(found, *contents, i);
        // Responses follow their calls directly.
        if (!parts_with((*contents)[i], "functionResponse").empty() &&
            (i == 0 || parts_with((*contents)[i - 1], "functionCall").empty()))
            found.add(element_of("", "contents", i), "the response follows no call");
    }
    check_signatures(found, *contents);
}

} // namespace model_api::rules::gemini
