#include "catch.hpp"
#include "recordings.hpp"

#include <boost/json/serialize.hpp>

#include <map>

using namespace waymark;
namespace json = boost::json;

namespace {

//! What cannot be mended: nobody knows what was there, or the API refuses what another one of its kind made.
const std::map<std::string, std::string> beyond_repair = {
    {"gemini/lost_signature", "only the model could sign it"},
    {"gemini/interleaved_calls", "only the model could sign it"},
    {"responses/reasoning_of_an_open_model", "it is whole; OpenAI's own API does not take it"},
};

conversation items(const char* text)
{
    return test::conversation_of(test::parse(text).as_array());
}

//! Why its API refuses it as it is; null if it does not.
const json::value* refusal_of(const test::recording& recorded)
{
    return recorded.content.if_contains("refused");
}

std::string written(const conversation& chat)
{
    json::array all;
    for (const auto& message : chat)
        all.push_back(message.item());
    return json::serialize(all);
}

} // namespace

TEST_CASE("a dialogue that its API takes is left as it is")
{
    for (const auto& recorded : test::recordings("transcripts")) {
        if (refusal_of(recorded) != nullptr)
            continue;
        INFO(recorded.name);
        auto chat = test::conversation_of(recorded);
        const auto before = chat;
        CHECK(chat.unanswered_tool_calls().empty());
        const auto report = chat.repair();
        CHECK_FALSE(report);
        CHECK(chat.shared_prefix(before) == before.size());
    }
}

TEST_CASE("a dialogue that its API refuses is taken when it was repaired")
{
    for (const auto& recorded : test::recordings("transcripts")) {
        if (refusal_of(recorded) == nullptr || beyond_repair.contains(recorded.name))
            continue;
        INFO(recorded.name << ": " << *refusal_of(recorded));
        auto chat = test::conversation_of(recorded);
        chat.repair();
        INFO(written(chat));
        CHECK(test::violations(recorded.api, wire::make_request(recorded.api, chat)) == test::accepted);
        CHECK(chat.unanswered_tool_calls().empty());
        CHECK_FALSE(chat.repair());
    }
}

TEST_CASE("answers have the shape of their call, and stand where its API wants them")
{
    auto chat = items(R"([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}},
                                          {"type": "tool_use", "id": "b", "name": "g", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "done"},
                                     {"type": "text", "text": "and?"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "any text"},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "assistant", "content": null, "function_call": {"name": "h", "arguments": "{}"}}
    ])");
    REQUIRE(chat.unanswered_tool_calls().size() == 5);
    const auto report = chat.repair("lost");
    CHECK(report.answered() == 5);
    CHECK(report.moved() == 0);
    CHECK(report.dropped() == 0);
    CHECK(written(chat) == json::serialize(test::parse(R"([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}},
                                          {"type": "tool_use", "id": "b", "name": "g", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "done"},
            {"type": "tool_result", "tool_use_id": "a", "content": "lost", "is_error": true},
            {"type": "text", "text": "and?"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "any text"},
        {"type": "function_call_output", "call_id": "c", "output": "lost"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "lost"},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"error": "lost"}}}]},
        {"role": "assistant", "content": null, "function_call": {"name": "h", "arguments": "{}"}},
        {"role": "function", "name": "h", "content": "lost"}
    ])")));
}

TEST_CASE("what was cut off goes, and what was said before it stays")
{
    auto chat = items(R"([
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"q\": 1}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{\"q\": "}}]},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": ""},
                                          {"type": "text", "text": "So far"},
                                          {"type": "tool_use", "id": "c", "name": "f", "input": "{\"hal"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "d", "name": "f", "arguments": "{\"half"}
    ])");
    CHECK(chat.unanswered_tool_calls().empty()); // nobody can run half a call
    CHECK(chat.repair().dropped() == 5);
    CHECK(written(chat) == json::serialize(test::parse(R"([
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"q\": 1}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "assistant", "content": [{"type": "text", "text": "So far"}]}
    ])")));
}

TEST_CASE("results without a call are dropped, and late ones moved behind their call")
{
    auto chat = items(R"([
        {"role": "tool", "tool_call_id": "nobody", "content": "orphan"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "user", "content": "are you there?"},
        {"role": "tool", "tool_call_id": "a", "content": "late"}
    ])");
    const auto late = chat.back();
    const auto report = chat.repair();
    CHECK(report.moved() == 1);
    CHECK(report.dropped() == 1);
    REQUIRE(chat.size() == 3);
    CHECK(chat[1] == late); // the same message, with its id
    CHECK(chat[2].text() == "are you there?");
}

TEST_CASE("results that were made by hand answer calls of any API")
{
    for (const auto* text :
         {R"([{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}},
                                                                  {"type": "tool_use", "id": "b", "name": "g", "input": {}}]}])",
          R"([{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}},
                                                             {"functionCall": {"name": "g", "args": {}}}]}])",
          R"([{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                                 {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"}])"}) {
        auto chat = items(text);
        const auto calls = chat.unanswered_tool_calls();
        REQUIRE(calls.size() == 2);
        chat.push(message::tool_result(calls[1], "done"));
        REQUIRE(chat.unanswered_tool_calls().size() == 1);
        CHECK(chat.unanswered_tool_calls()[0].name() == "f");
        chat.push(message::user("and?"));
        CHECK(chat.repair("lost").answered() == 1);
        INFO(written(chat));
        CHECK(chat.unanswered_tool_calls().empty());
        CHECK(chat.back().text() == "and?");
        for (const auto api : test::all_apis) {
            auto asked = conversation().with_system_prompt("s");
            asked.push(message::user("go"));
            for (const auto& next : chat)
                asked.push(next);
            CHECK(test::violations(api, wire::make_request(api, asked)) == test::accepted);
        }
    }
}

TEST_CASE("a repaired conversation shares what stands before the damage")
{
    conversation chat;
    for (int i = 0; i < 100; ++i)
        chat.push(message::user(std::to_string(i)));
    chat.push(message::assistant("", {tool_call("a", "f")}));
    const auto before = chat;
    CHECK(chat.repair().answered() == 1);
    CHECK(chat.shared_prefix(before) == 101);
}

TEST_CASE("windows of every size keep calls with their results, and reasoning with what it led to")
{
    for (const auto& recorded : test::recordings("transcripts")) {
        auto chat = test::conversation_of(recorded);
        if (beyond_repair.contains(recorded.name))
            continue;
        chat.repair();
        const auto least = conversation(chat).with_max_tokens(1).window().estimated_tokens();
        for (std::uint64_t budget = 1; budget <= chat.estimated_tokens() + 1; budget += 7) {
            const auto window = conversation(chat).with_max_tokens(budget).window();
            INFO(recorded.name << " with a budget of " << budget << ": " << written(window));
            CHECK(window.estimated_tokens() <= std::max(budget, least));
            CHECK_FALSE(conversation(window).repair());
        }
        for (std::size_t keep = 0; keep <= chat.size(); ++keep) {
            INFO(recorded.name << " compacted to " << keep);
            auto compacted = chat.compacted("what was before", keep);
            CHECK_FALSE(conversation(compacted).repair());
            CHECK(compacted.size() >= std::min(keep, chat.size()));
        }
    }
}
