#include "anthropic_blocks.hpp"

#include <map>

namespace model_api::rules::anthropic {

namespace {

const member type_member{"type", text};
const member cached{"cache_control", object | null | optional};

//! The members of each type of block that may stand in a message.
const std::map<std::string_view, members>& block_shapes()
{
    static const member caller{"caller", object | optional};
    static const members server_result{
        type_member, {"tool_use_id", text}, {"content", list | object}, cached, caller};
    static const std::map<std::string_view, members> shapes{
        {"text", {type_member, {"text", text}, {"citations", list | null | optional}, cached}},
        {"image", {type_member, {"source", object}, cached}},
        {"document",
         {type_member,
          {"source", object},
          {"title", text | null | optional},
          {"context", text | null | optional},
          {"citations", object | null | optional},
          cached}},
        {"search_result",
         {type_member,
          {"source", text},
          {"title", text},
          {"content", list},
          {"citations", object | optional},
          cached}},
        {"thinking", {type_member, {"thinking", text}, {"signature", text}}},
        {"redacted_thinking", {type_member, {"data", text}}},
        {"tool_use", {type_member, {"id", text}, {"name", text}, {"input", object}, cached, caller}},
        {"tool_result",
         {type_member,
          {"tool_use_id", text},
          {"content", text | list | optional},
          {"is_error", boolean | optional},
          cached}},
        {"server_tool_use", {type_member, {"id", text}, {"name", text}, {"input", object}, cached, caller}},
        {"web_search_tool_result", server_result},
        {"web_fetch_tool_result", server_result},
        {"code_execution_tool_result", server_result},
        {"bash_code_execution_tool_result", server_result},
        {"text_editor_code_execution_tool_result", server_result},
        {"tool_search_tool_result", server_result},
        {"advisor_tool_result", server_result},
        {"mcp_tool_use",
         {type_member, {"id", text}, {"name", text}, {"server_name", text}, {"input", object}, cached}},
        {"mcp_tool_result",
         {type_member,
          {"tool_use_id", text},
          {"content", text | list | optional},
          {"is_error", boolean | optional},
          cached}},
        {"container_upload", {type_member, {"file_id", text}, cached}},
        {"compaction",
         {type_member,
          {"content", text | null | optional},
          {"encrypted_content", text | null | optional},
          cached}},
    };
    return shapes;
}

void check_nested(findings& found, std::string_view where, const json::object& holder,
                  std::initializer_list<std::string_view> allowed)
{
    const auto* blocks = list_in(holder, "content");
    for (std::size_t i = 0; blocks != nullptr && i < blocks->size(); ++i) {
        const auto place = element_of(where, "content", i);
        const auto* block = object_at(found, place, (*blocks)[i]);
        if (block == nullptr)
            continue;
        if (const auto type = text_in(*block, "type"); one_of(type, allowed))
            check_block(found, place, *block);
        else
            found.add(place, "a block of type " + quoted(type) + " is unknown here");
    }
}

void check_image_data(findings& found, std::string_view where, std::string_view type, std::string_view data)
{
    static const std::map<std::string_view, std::string_view> beginnings{{"image/png", "iVBORw0KGgo"},
                                                                         {"image/jpeg", "/9j/"},
                                                                         {"image/gif", "R0lGOD"},
                                                                         {"image/webp", "UklGR"}};
    // Images are PNG, JPEG, GIF or WebP.
    if (!beginnings.contains(type)) {
        found.add(where, "the media type " + quoted(type) + " is not supported");
        return;
    }
    // Their data are what the media type says.
    for (const auto& [other, beginning] : beginnings) {
        if (other != type && data.starts_with(beginning))
            found.add(where, "the data are " + std::string(other) + " and not " + std::string(type));
    }
}

void check_base64_source(findings& found, std::string_view where, const json::object& source, bool image)
{
    if (!has_shape(found, where, source, {type_member, {"media_type", text}, {"data", text}}))
        return;
    const auto type = text_in(source, "media_type");
    const auto data = text_in(source, "data");
    // Data are base64 and not empty.
    if (!is_base64(data))
        found.add(where, "the data are empty or not base64");
    if (image)
        check_image_data(found, where, type, data);
    else if (type != "application/pdf") // other documents come as texts
        found.add(where, "the media type " + quoted(type) + " is not supported");
}

void check_source(findings& found, std::string_view where, const json::object& source, bool image)
{
    const auto type = text_in(source, "type");
    if (type == "base64") {
        check_base64_source(found, where, source, image);
    } else if (type == "url") {
        if (has_shape(found, where, source, {type_member, {"url", text}}) &&
            !is_web_address(text_in(source, "url")))
            found.add(where, "this is no web address");
    } else if (type == "file") {
        has_shape(found, where, source, {type_member, {"file_id", text}});
    } else if (type == "text" && !image) {
        if (has_shape(found, where, source, {type_member, {"media_type", text}, {"data", text}}) &&
            (text_in(source, "media_type") != "text/plain" || text_in(source, "data").empty()))
            found.add(where, "the text is empty or has another media type than text/plain");
    } else if (type == "content" && !image) {
        if (has_shape(found, where, source, {type_member, {"content", text | list}}))
            check_nested(found, where, source, {"text", "image"});
    } else {
        found.add(where, "a source of type " + quoted(type) + " is unknown");
    }
}

void check_citation(findings& found, std::string_view where, const json::object& citation)
{
    static const member quote{"cited_text", text};
    static const member index{"document_index", number};
    static const member title{"document_title", text | null};
    static const member file{"file_id", text | null | optional}; // comes with answers
    static const std::map<std::string_view, members> shapes{
        {"char_location",
         {type_member, quote, index, title, file, {"start_char_index", number}, {"end_char_index", number}}},
        {"page_location",
         {type_member,
          quote,
          index,
          title,
          file,
          {"start_page_number", number},
          {"end_page_number", number}}},
        {"content_block_location",
         {type_member,
          quote,
          index,
          title,
          file,
          {"start_block_index", number},
          {"end_block_index", number}}},
        {"search_result_location",
         {type_member,
          quote,
          {"search_result_index", number},
          {"source", text},
          {"title", text | null},
          {"start_block_index", number},
          {"end_block_index", number}}},
        {"web_search_result_location",
         {type_member, quote, {"url", text}, {"title", text | null}, {"encrypted_index", text}}},
    };
    const auto shape = shapes.find(text_in(citation, "type"));
    if (shape == shapes.end())
        found.add(where, "a citation of type " + quoted(text_in(citation, "type")) + " is unknown");
    else
        has_shape(found, where, citation, shape->second);
}

void check_text(findings& found, std::string_view where, const json::object& block)
{
    // Texts are not empty, and not blank.
    if (is_blank(text_in(block, "text")))
        found.add(where, "the text is empty");
    const auto* citations = list_in(block, "citations");
    for (std::size_t i = 0; citations != nullptr && i < citations->size(); ++i) {
        const auto place = element_of(where, "citations", i);
        if (const auto* citation = object_at(found, place, (*citations)[i]))
            check_citation(found, place, *citation);
    }
}

void check_result(findings& found, std::string_view where, const json::object& result)
{
    check_nested(found, where, result, {"text", "image", "document", "search_result", "tool_reference"});
    const auto* error = result.if_contains("is_error");
    const auto* blocks = list_in(result, "content");
    if (blocks == nullptr || error == nullptr || !error->get_bool())
        return;
    // Errors are told in texts only.
    for (const auto& block : *blocks) {
        if (block.is_object() && text_in(block.get_object(), "type") != "text")
            found.add(where, "the result is an error and holds more than text");
    }
}

void check_web_results(findings& found, std::string_view where, const json::object& block)
{
    const auto* results = list_in(block, "content");
    for (std::size_t i = 0; results != nullptr && i < results->size(); ++i) {
        const auto place = element_of(where, "content", i);
        // What is encrypted in a result of a search comes back with it.
        if (const auto* result = object_at(found, place, (*results)[i]))
            has_shape(found, place, *result,
                      {type_member,
                       {"url", text},
                       {"title", text},
                       {"encrypted_content", text},
                       {"page_age", text | null | optional}});
    }
}

void check_call(findings& found, std::string_view where, const json::object& call)
{
    // The id of a call has letters, digits, underscores and dashes only.
    if (!is_plain_id(text_in(call, "id"), 1'000))
        found.add(where, "the id of the call is invalid");
    // The name of a tool has at most 200 letters, digits, underscores and dashes.
    if (!is_plain_id(text_in(call, "name"), 200))
        found.add(where, "the name of the tool is invalid");
}

void check_server_call(findings& found, std::string_view where, const json::object& call)
{
    // The id of a call of a server's tool begins with srvtoolu_ and has letters, digits and underscores.
    const auto id = text_in(call, "id");
    if (!id.starts_with("srvtoolu_") || !is_plain_id(id, 1'000) || id.find('-') != std::string_view::npos)
        found.add(where, "the id of the call is invalid");
    // The tools of the server have names of their own.
    if (!one_of(text_in(call, "name"),
                {"web_search", "web_fetch", "code_execution", "bash_code_execution",
                 "text_editor_code_execution", "tool_search_tool_regex", "tool_search_tool_bm25", "advisor"}))
        found.add(where, "the name of the server's tool is unknown");
}

} // namespace

void check_block(findings& found, std::string_view where, const json::object& block)
{
    const auto type = text_in(block, "type");
    if (type == "tool_reference") { // stands in results only
        has_shape(found, where, block, {type_member, {"tool_name", text}, cached});
        return;
    }
    // Blocks are of a known type, and have no members but those of their type.
    const auto shape = block_shapes().find(type);
    if (shape == block_shapes().end()) {
        found.add(where, "a block of type " + quoted(type) + " is unknown");
        return;
    }
    if (!has_shape(found, where, block, shape->second))
        return;
    if (type == "text")
        check_text(found, where, block);
    if (type == "image" || type == "document")
        check_source(found, member_of(where, "source"), *object_in(block, "source"), type == "image");
    if (type == "search_result")
        check_nested(found, where, block, {"text"});
    // Thinking is signed, and what is redacted is there.
    if (type == "thinking" && text_in(block, "signature").empty())
        found.add(where, "the signature is empty");
    if (type == "redacted_thinking" && text_in(block, "data").empty())
        found.add(where, "the data are empty");
    if (type == "tool_use" || type == "mcp_tool_use")
        check_call(found, where, block);
    if (type == "server_tool_use")
        check_server_call(found, where, block);
    if (type == "tool_result" || type == "mcp_tool_result")
        check_result(found, where, block);
    if (type == "web_search_tool_result")
        check_web_results(found, where, block);
}

} // namespace model_api::rules::anthropic
