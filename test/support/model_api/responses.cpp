#include "shapes.hpp"

#include <map>
#include <set>

namespace model_api::rules::responses {

namespace {

constexpr unsigned text_or_null = text | null | optional;

//! The members of each type of item besides type, id and status.
const std::map<std::string_view, members>& item_shapes()
{
    static const member caller{"caller", object | null | optional};
    static const std::map<std::string_view, members> shapes{
        {"message", {{"role", text}, {"content", text | list}, {"phase", text_or_null}}},
        {"function_call",
         {{"call_id", text}, {"name", text}, {"arguments", text}, {"namespace", text | optional}, caller}},
        {"function_call_output",
         {{"call_id", text},
          {"output", text | list},
          {"name", text_or_null},
          {"namespace", text_or_null},
          caller}},
        {"custom_tool_call",
         {{"call_id", text}, {"name", text}, {"input", text}, {"namespace", text | optional}, caller}},
        {"custom_tool_call_output", {{"call_id", text}, {"output", text | list}, caller}},
        {"local_shell_call", {{"call_id", text}, {"action", object}}},
        {"local_shell_call_output", {{"call_id", text}, {"output", text}}},
        {"shell_call",
         {{"call_id", text}, {"action", object}, {"environment", object | null | optional}, caller}},
        {"shell_call_output",
         {{"call_id", text}, {"output", list}, {"max_output_length", number | null | optional}, caller}},
        {"apply_patch_call", {{"call_id", text}, {"operation", object}, caller}},
        {"apply_patch_call_output", {{"call_id", text}, {"output", text_or_null}, caller}},
        {"computer_call",
         {{"call_id", text},
          {"pending_safety_checks", list},
          {"action", object | optional},
          {"actions", list | optional}}},
        {"computer_call_output",
         {{"call_id", text}, {"output", object}, {"acknowledged_safety_checks", list | null | optional}}},
        {"reasoning",
         {{"summary", list}, {"content", list | null | optional}, {"encrypted_content", text_or_null}}},
        {"web_search_call", {{"action", object}}},
        {"file_search_call", {{"queries", list}, {"results", list | null | optional}}},
        {"code_interpreter_call", {{"code", text | null}, {"container_id", text}, {"outputs", list | null}}},
        {"image_generation_call", {{"result", text | null}}},
        {"mcp_list_tools",
         {{"server_label", text}, {"tools", list}, {"error", text | object | null | optional}}},
        {"mcp_approval_request", {{"arguments", text}, {"name", text}, {"server_label", text}}},
        {"mcp_approval_response",
         {{"approval_request_id", text}, {"approve", boolean}, {"reason", text_or_null}}},
        {"mcp_call",
         {{"arguments", text},
          {"name", text},
          {"server_label", text},
          {"approval_request_id", text_or_null},
          {"error", text | object | null | optional},
          {"output", text_or_null}}},
        {"tool_search_call",
         {{"arguments", anything}, {"call_id", text_or_null}, {"execution", text | optional}}},
        {"tool_search_output", {{"tools", list}, {"call_id", text_or_null}, {"execution", text | optional}}},
        {"additional_tools", {{"role", text}, {"tools", list}}},
        {"program", {{"call_id", text}, {"code", text}, {"fingerprint", text}}},
        {"program_output", {{"call_id", text}, {"result", text}}},
        {"compaction", {{"encrypted_content", text}}},
        {"compaction_trigger", {}},
        {"item_reference", {}},
    };
    return shapes;
}

//! What the items of the model's own that a reasoning item may stand before are called.
bool is_model_output(std::string_view type)
{
    return one_of(type, {"function_call", "custom_tool_call", "local_shell_call", "shell_call",
                         "apply_patch_call", "computer_call", "web_search_call", "file_search_call",
                         "code_interpreter_call", "image_generation_call", "mcp_list_tools",
                         "mcp_approval_request", "mcp_call", "tool_search_call", "program", "compaction"});
}

bool is_client_call(std::string_view type)
{
    return one_of(type, {"function_call", "custom_tool_call", "local_shell_call", "shell_call",
                         "apply_patch_call", "computer_call", "program"});
}

bool is_client_output(std::string_view type)
{
    constexpr std::string_view ending = "_output";
    return type.ends_with(ending) && is_client_call(type.substr(0, type.size() - ending.size()));
}

std::string_view type_of(const json::object& item)
{
    // A message needs no type.
    return item.contains("type") || !item.contains("role") ? text_in(item, "type")
                                                           : std::string_view("message");
}

void check_id(findings& found, std::string_view where, const json::object& item, std::string_view type)
{
    static const std::map<std::string_view, std::string_view> beginnings{{"message", "msg"},
                                                                         {"function_call", "fc"},
                                                                         {"reasoning", "rs"},
                                                                         {"custom_tool_call", "ctc"},
                                                                         {"web_search_call", "ws"}};
    if (!has(item, "id"))
        return;
    // The id of an item has 1 to 64 letters, digits, underscores and dashes.
    const auto id = text_in(item, "id");
    if (!is_plain_id(id, 64))
        found.add(where, "the id of the item is invalid");
    // It begins as the API begins ids of this type: the id of a call of another API is none.
    const auto beginning = beginnings.find(type);
    if (beginning != beginnings.end() && !id.starts_with(beginning->second))
        found.add(where, "the id of the item does not begin with " + quoted(beginning->second));
}

void check_media(findings& found, std::string_view where, const json::object& part, std::string_view type)
{
    // An image or a file has an id, a web address or a data URL with a media type.
    if (!text_in(part, "file_id").empty())
        return;
    const auto image = type == "input_image";
    const auto data = text_in(part, image ? "image_url" : "file_data");
    const auto address = image ? data : text_in(part, "file_url");
    if (data.starts_with("data:")) {
        const auto [media_type, content] = parse_data_url(data);
        if (image ? !one_of(media_type, {"image/png", "image/jpeg", "image/gif", "image/webp"})
                  : !is_media_type(media_type))
            found.add(where, "the data have no media type that the API reads");
        if (!is_base64(content))
            found.add(where, "the data are not base64");
    } else if (!is_web_address(address)) {
        found.add(where, "there is neither an id nor a web address nor data");
    }
}

void check_input_part(findings& found, std::string_view where, const json::object& part)
{
    const member type{"type", text};
    const member cached{"prompt_cache_breakpoint", object | null | optional};
    const auto name = text_in(part, "type");
    if (name == "input_text") {
        has_shape(found, where, part, {type, {"text", text}, cached});
    } else if (name == "input_image") {
        if (has_shape(found, where, part,
                      {type,
                       {"image_url", text_or_null},
                       {"file_id", text_or_null},
                       {"detail", text_or_null},
                       cached}))
            check_media(found, where, part, name);
    } else if (name == "input_file") {
        if (has_shape(found, where, part,
                      {type,
                       {"file_data", text_or_null},
                       {"file_id", text_or_null},
                       {"file_url", text_or_null},
                       {"filename", text_or_null},
                       {"detail", text | optional},
                       cached}))
            check_media(found, where, part, name);
    } else {
        found.add(where, "a part of type " + quoted(name) + " is unknown in what is put in");
    }
}

void check_output_part(findings& found, std::string_view where, const json::object& part)
{
    const auto name = text_in(part, "type");
    if (name == "output_text")
        has_shape(found, where, part,
                  {{"type", text},
                   {"text", text},
                   {"annotations", list | optional},
                   {"logprobs", list | optional}});
    else if (name == "refusal")
        has_shape(found, where, part, {{"type", text}, {"refusal", text}});
    else
        found.add(where, "a part of type " + quoted(name) + " is unknown in what an assistant says");
}

void check_parts(findings& found, std::string_view where, const json::object& item, std::string_view name,
                 bool from_model)
{
    const auto* parts = list_in(item, name);
    if (parts == nullptr)
        return;
    // A list of parts is not empty.
    if (parts->empty())
        found.add(where, "the " + std::string(name) + " is empty");
    for (std::size_t i = 0; i < parts->size(); ++i) {
        const auto place = element_of(where, name, i);
        const auto* part = object_at(found, place, (*parts)[i]);
        if (part == nullptr)
            continue;
        // Assistants say output parts, all others put in input parts.
        if (from_model)
            check_output_part(found, place, *part);
        else
            check_input_part(found, place, *part);
    }
}

void check_message(findings& found, std::string_view where, const json::object& message)
{
    const auto role = text_in(message, "role");
    if (!one_of(role, {"user", "assistant", "system", "developer"}))
        found.add(where, "the role " + quoted(role) + " is unknown");
    if (message.contains("phase") && has(message, "phase") &&
        (role != "assistant" || !one_of(text_in(message, "phase"), {"commentary", "final_answer"})))
        found.add(where, "the phase is unknown");
    check_parts(found, where, message, "content", role == "assistant");
}

void check_reasoning(findings& found, std::string_view where, const json::object& reasoning)
{
    // A summary is a list, maybe empty, of texts.
    const auto& summary = *list_in(reasoning, "summary");
    for (std::size_t i = 0; i < summary.size(); ++i) {
        const auto place = element_of(where, "summary", i);
        const auto* part = object_at(found, place, summary[i]);
        if (part != nullptr && has_shape(found, place, *part, {{"type", text}, {"text", text}}) &&
            text_in(*part, "type") != "summary_text")
            found.add(place, "this is no part of a summary");
    }
    // Reasoning in clear is put out by open models only, and not taken back.
    if (const auto* content = list_in(reasoning, "content"); content != nullptr && !content->empty())
        found.add(where, "the content of reasoning is not empty");
    // What is encrypted comes back as it was; without it, the id has to name something that the API has
    // stored.
    if (has(reasoning, "encrypted_content") ? text_in(reasoning, "encrypted_content").empty()
                                            : text_in(reasoning, "id").empty())
        found.add(where, "the reasoning has neither encrypted content nor an id");
}

void check_call(findings& found, std::string_view where, const json::object& call, std::string_view type)
{
    // The id that ties a call to its output has 1 to 64 characters.
    const auto size = text_in(call, "call_id").size();
    if (size == 0 || size > 64)
        found.add(where, "the id of the call is empty or longer than 64 characters");
    if (type == "function_call" || type == "custom_tool_call") {
        // The name of a tool has at most 128 letters, digits, underscores and dashes.
        if (!is_plain_id(text_in(call, "name"), 128))
            found.add(where, "the name of the tool is invalid");
    }
    // Arguments are a JSON text, or empty: servers of open models parse them before the model sees them.
    const auto arguments = text_in(call, "arguments");
    if (type == "function_call" && !arguments.empty() && !is_json(arguments))
        found.add(where, "the arguments are not JSON");
}

void check_item(findings& found, std::string_view where, const json::object& item)
{
    const auto type = type_of(item);
    const auto known = item_shapes().find(type);
    // Items are of a known type.
    if (known == item_shapes().end()) {
        found.add(where, "an item of type " + quoted(type) + " is unknown");
        return;
    }
    auto shape = known->second;
    shape.push_back({"type", text | optional});
    shape.push_back({"id", text_or_null});
    // Reasoning has no status when it is put in, not even null.
    if (!one_of(type, {"reasoning", "item_reference", "mcp_approval_request", "compaction"}))
        shape.push_back({"status", text_or_null});
    if (!has_shape(found, where, item, shape))
        return;
    if (has(item, "status") &&
        !one_of(text_in(item, "status"), {"in_progress", "completed", "incomplete", "searching",
                                          "interpreting", "generating", "calling", "failed"}))
        found.add(where, "the status is unknown");
    check_id(found, where, item, type);
    if (type == "message")
        check_message(found, where, item);
    if (type == "reasoning")
        check_reasoning(found, where, item);
    if (is_client_call(type))
        check_call(found, where, item, type);
    if (type == "function_call_output" || type == "custom_tool_call_output")
        check_parts(found, where, item, "output", false);
    if (type == "image_generation_call" && has(item, "result") && !is_base64(text_in(item, "result")))
        found.add(where, "the data of the image are not base64");
}

void check_pairs(findings& found, const json::array& input)
{
    std::map<std::pair<std::string_view, std::string_view>, std::size_t>
        open; // what the output is called, its id
    std::set<std::string_view> ids, approvals;
    for (std::size_t i = 0; i < input.size(); ++i) {
        const auto* item = input[i].if_object();
        if (item == nullptr)
            continue;
        const auto type = type_of(*item);
        const auto place = element_of("", "input", i);
        // No two items have the same id.
        if (const auto id = text_in(*item, "id");
            !id.empty() && type != "item_reference" && !ids.insert(id).second)
            found.add(place, "two items have the same id");
        if (type == "mcp_approval_request")
            approvals.insert(text_in(*item, "id"));
        // An approval answers a request before it.
        if (type == "mcp_approval_response" && !approvals.contains(text_in(*item, "approval_request_id")))
            found.add(place, "the approval answers no request before it");
        if (is_client_call(type))
            open.insert_or_assign({type, text_in(*item, "call_id")}, i);
        // An output answers a call of its kind before it that has no output yet.
        if (is_client_output(type) &&
            open.erase({type.substr(0, type.rfind('_')), text_in(*item, "call_id")}) == 0)
            found.add(place, "the output answers no call before it");
    }
    // Each call has an output somewhere behind it.
    for (const auto& [call, index] : open)
        found.add(element_of("", "input", index), "the call " + quoted(call.second) + " has no output");
}

void check_reasoning_order(findings& found, const json::array& input)
{
    for (std::size_t i = 0; i < input.size(); ++i) {
        const auto* item = input[i].if_object();
        if (item == nullptr || type_of(*item) != "reasoning")
            continue;
        const auto* next = i + 1 < input.size() ? input[i + 1].if_object() : nullptr;
        const auto type = next != nullptr ? type_of(*next) : std::string_view();
        // Reasoning is followed by what came of it, or by further reasoning.
        if (type != "reasoning" && !is_model_output(type) &&
            (type != "message" || text_in(*next, "role") != "assistant"))
            found.add(element_of("", "input", i), "the reasoning lacks the item that has to follow it");
    }
}

} // namespace

void check(findings& found, const json::object& request)
{
    if (request.contains("instructions") && has(request, "instructions") &&
        !request.at("instructions").is_string())
        found.add("instructions", "this is not a text");
    // A text or at least one item is put in.
    const auto* value = request.if_contains("input");
    if (value != nullptr && value->is_string())
        return;
    const auto* input = list_in(request, "input");
    if (input == nullptr || input->empty()) {
        found.add("input", "there are no items");
        return;
    }
    for (std::size_t i = 0; i < input->size(); ++i) {
        const auto place = element_of("", "input", i);
        if (const auto* item = object_at(found, place, (*input)[i]))
            check_item(found, place, *item);
    }
    check_pairs(found, *input);
    check_reasoning_order(found, *input);
}

} // namespace model_api::rules::responses
