#include "anthropic_blocks.hpp"

#include <map>
#include <set>

namespace model_api::rules::anthropic {

namespace {

//! A turn: the messages of one role that stand in a row.
struct turn {
    std::string_view role;
    std::vector<std::pair<std::string, const json::object*>> blocks; // with their places
    std::string place;                                               // of the first message
};

bool is_server_result(std::string_view type)
{
    return type != "tool_result" && type.ends_with("_tool_result");
}

bool is_of_user(std::string_view type)
{
    return one_of(type, {"tool_result", "image", "document", "search_result", "container_upload"});
}

bool is_of_assistant(std::string_view type)
{
    return one_of(type, {"tool_use", "server_tool_use", "mcp_tool_use", "thinking", "redacted_thinking",
                         "compaction"}) ||
           is_server_result(type);
}

void check_message(findings& found, std::string_view where, const json::object& message, bool last)
{
    // A message has a role and content, and nothing else.
    if (!has_shape(found, where, message, {{"role", text}, {"content", text | list}}))
        return;
    const auto role = text_in(message, "role");
    if (!one_of(role, {"user", "assistant"}))
        found.add(where, "the role " + quoted(role) + " is unknown");
    const auto may_be_empty = last && role == "assistant";
    const auto* blocks = list_in(message, "content");
    // Messages are not empty, but for an answer at the end.
    if (blocks != nullptr ? blocks->empty() : is_blank(text_in(message, "content"))) {
        if (!may_be_empty)
            found.add(where, "the content is empty");
        return;
    }
    for (std::size_t i = 0; blocks != nullptr && i < blocks->size(); ++i) {
        const auto place = element_of(where, "content", i);
        const auto* block = object_at(found, place, (*blocks)[i]);
        if (block == nullptr)
            continue;
        check_block(found, place, *block);
        // Users send media and results; assistants call and think.
        const auto type = text_in(*block, "type");
        if ((role == "assistant" && is_of_user(type)) || (role == "user" && is_of_assistant(type)))
            found.add(place, "a block of type " + quoted(type) + " does not belong in a message of role " +
                                 quoted(role));
    }
}

std::vector<turn> turns_of(const json::array& messages)
{
    std::vector<turn> turns;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto* message = messages[i].if_object();
        if (message == nullptr)
            continue;
        const auto place = element_of("", "messages", i);
        const auto role = text_in(*message, "role");
        if (turns.empty() || turns.back().role != role)
            turns.push_back({role, {}, place});
        const auto* blocks = list_in(*message, "content");
        if (blocks == nullptr)
            turns.back().blocks.emplace_back(place, nullptr); // a text
        for (std::size_t b = 0; blocks != nullptr && b < blocks->size(); ++b)
            turns.back().blocks.emplace_back(element_of(place, "content", b), (*blocks)[b].if_object());
    }
    return turns;
}

std::string_view type_of(const json::object* block)
{
    return block != nullptr ? text_in(*block, "type") : std::string_view("text");
}

//! Results of the calls of the turn before.
void check_results(findings& found, const turn& here, const turn* before)
{
    std::set<std::string_view> open;
    if (before != nullptr) {
        for (const auto& [place, block] : before->blocks) {
            if (type_of(block) == "tool_use")
                open.insert(text_in(*block, "id"));
        }
    }
    auto behind_other = false;
    for (const auto& [place, block] : here.blocks) {
        if (type_of(block) != "tool_result") {
            behind_other = true;
            continue;
        }
        // A result answers a call of the assistant's turn before, which no other result answers.
        const auto awaited = !open.empty();
        if (open.erase(text_in(*block, "tool_use_id")) == 0)
            found.add(place, "the result answers no call of the turn before");
        // Results stand first in their turn.
        else if (behind_other && awaited)
            found.add(place, "the result stands behind another block");
    }
    // All calls of a turn are answered in the next one.
    for (const auto id : open)
        found.add(before->place, "the call " + quoted(id) + " has no result in the next turn");
}

//! Tools that run on the side of the server: their results stand in turns of the assistant.
void check_server_results(findings& found, const std::vector<turn>& turns)
{
    std::map<std::string_view, std::string> open; // ids and places of calls
    for (std::size_t i = 0; i < turns.size(); ++i) {
        if (turns[i].role != "assistant")
            continue;
        auto calls_client = false;
        for (const auto& [place, block] : turns[i].blocks) {
            const auto type = type_of(block);
            calls_client = calls_client || type == "tool_use";
            if (type == "server_tool_use" || type == "mcp_tool_use")
                open.emplace(text_in(*block, "id"), place);
            // A result has its call before it.
            if (is_server_result(type) && open.erase(text_in(*block, "tool_use_id")) == 0)
                found.add(place, "the result of a server's tool has no call before it");
        }
        // A call has its result in the same turn. A paused turn at the end has not, nor has one whose code on
        // the server waits for tools of the client.
        if (i + 1 == turns.size() || calls_client)
            continue;
        for (const auto& [id, place] : open)
            found.add(place, "the call of a server's tool has no result");
        open.clear();
    }
}

void check_ids(findings& found, const std::vector<turn>& turns)
{
    std::set<std::string_view> ids;
    for (const auto& here : turns) {
        for (const auto& [place, block] : here.blocks) {
            // The ids of calls differ in the whole request.
            if (one_of(type_of(block), {"tool_use", "server_tool_use", "mcp_tool_use"}) &&
                !ids.insert(text_in(*block, "id")).second)
                found.add(place, "two calls have the same id");
        }
    }
}

void check_ends(findings& found, const turn& here, bool last)
{
    if (here.role != "assistant" || here.blocks.empty())
        return;
    const auto& [place, block] = here.blocks.back();
    // Thinking is not the last block of a turn.
    if (one_of(type_of(block), {"thinking", "redacted_thinking"}))
        found.add(place, "thinking is the last block of the turn");
    // The text that an answer is to begin with ends with no blank.
    if (last && block != nullptr && type_of(block) == "text") {
        const auto said = text_in(*block, "text");
        if (!said.empty() && is_blank(said.substr(said.size() - 1)))
            found.add(place, "the text at the end has a blank at its end");
    }
}

std::size_t count_of_marks(const json::value& what)
{
    std::size_t count = 0;
    if (const auto* list = what.if_array()) {
        for (const auto& element : *list)
            count += count_of_marks(element);
    } else if (const auto* object = what.if_object()) {
        count = has(*object, "cache_control") && object->contains("type") ? 1 : 0;
        if (text_in(*object, "type") != "tool_use") // its input is free
            count += object->contains("content") ? count_of_marks(object->at("content")) : 0;
    }
    return count;
}

void check_marks(findings& found, const json::object& request)
{
    // At most four blocks are marked for the cache.
    auto count = count_of_marks(request.at("messages"));
    if (const auto* system = request.if_contains("system"))
        count += count_of_marks(*system);
    if (count > 4)
        found.add("messages", "more than four blocks are marked for the cache");
}

void check_system(findings& found, const json::value& system)
{
    // The system prompt is a text or text blocks.
    if (system.is_string())
        return;
    const auto* blocks = system.if_array();
    if (blocks == nullptr) {
        found.add("system", "this is neither a text nor a list of text blocks");
        return;
    }
    for (std::size_t i = 0; i < blocks->size(); ++i) {
        const auto place = element_of("", "system", i);
        const auto* block = object_at(found, place, (*blocks)[i]);
        if (block == nullptr)
            continue;
        if (text_in(*block, "type") == "text")
            check_block(found, place, *block);
        else
            found.add(place, "a block of type " + quoted(text_in(*block, "type")) +
                                 " is unknown in the system prompt");
    }
}

} // namespace

void check(findings& found, const json::object& request)
{
    if (const auto* system = request.if_contains("system"))
        check_system(found, *system);
    // There is at least one message.
    const auto* messages = list_in(request, "messages");
    if (messages == nullptr || messages->empty()) {
        found.add("messages", "there are no messages");
        return;
    }
    for (std::size_t i = 0; i < messages->size(); ++i) {
        const auto place = element_of("", "messages", i);
        if (const auto* message = object_at(found, place, (*messages)[i]))
            check_message(found, place, *message, i + 1 == messages->size());
    }
    const auto turns = turns_of(*messages);
    // The user speaks first.
    if (!turns.empty() && turns.front().role != "user")
        found.add("messages[0]", "the first message is not of the user");
    for (std::size_t i = 0; i < turns.size(); ++i) {
        if (turns[i].role == "user")
            check_results(found, turns[i], i > 0 ? &turns[i - 1] : nullptr);
        check_ends(found, turns[i], i + 1 == turns.size());
    }
    // Calls at the end have no results.
    if (!turns.empty() && turns.back().role == "assistant")
        check_results(found, turn{"user", {}, ""}, &turns.back());
    check_server_results(found, turns);
    check_ids(found, turns);
    check_marks(found, request);
}

} // namespace model_api::rules::anthropic
