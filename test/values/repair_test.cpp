#include "catch.hpp"
#include "recordings.hpp"

#include <boost/json/serialize.hpp>

#include <map>
#include <random>

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

TEST_CASE("tools that the API runs itself may go on in its next answer")
{
    const std::string paused = R"({"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}]})";
    const std::string goes_on = R"(,{"role": "assistant", "content": [
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "done"}]}, {"role": "user", "content": "q2"})";
    const std::string calls_ours = R"({"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "x"}},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}}]})";
    const std::string answered = R"(,{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "r"}]})";
    for (const auto& whole :
         {paused, paused + goes_on, calls_ours + answered, calls_ours + answered + goes_on}) {
        auto chat = items(("[" + whole + "]").c_str());
        CHECK_FALSE(chat.repair());
    }
    auto chat = items(("[" + calls_ours + "]").c_str());
    CHECK(chat.repair().answered() == 1);
    CHECK(chat[1].parts().size() == 2);
    CHECK_FALSE(chat.repair());
    // What has never ended is dropped once the conversation has gone on.
    auto left = items(("[" + paused + R"(,{"role": "user", "content": "q2"}])").c_str());
    CHECK(left.repair().dropped() == 1);

    const auto whole = items(("[" + paused + goes_on + "]").c_str());
    for (std::uint64_t budget = 1; budget < 60; ++budget)
        for (const auto& window : {conversation(whole).with_max_tokens(budget).window(),
                                   whole.compacted("s", static_cast<std::size_t>(budget % 5))}) {
            const auto text = written(window);
            CHECK((text.find("web_search_tool_result") == std::string::npos) ==
                  (text.find("\"server_tool_use\"") == std::string::npos));
        }
}

TEST_CASE("half a call of the Responses API is nobody's to run")
{
    for (const auto* call :
         {R"({"type": "function_call", "status": "in_progress", "call_id": "a", "name": "f",
                                 "arguments": ""})",
          R"({"type": "function_call", "status": "incomplete", "call_id": "a", "name": "f",
                                 "arguments": "{}"})",
          R"({"type": "custom_tool_call", "status": "in_progress", "call_id": "a", "name": "f",
                                 "input": "DELETE FROM users"})"}) {
        auto chat = items((R"([{"role": "user", "content": "q"}, )" + std::string(call) + "]").c_str());
        CHECK(chat.unanswered_tool_calls().empty());
        CHECK(chat.repair().dropped() == 1);
        CHECK(chat.size() == 1);
    }
}

TEST_CASE("calls of the shell and of patches are the client's to run")
{
    auto chat = items(R"([{"role": "user", "content": "q"},
        {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}, "status": "completed"},
        {"type": "apply_patch_call", "call_id": "p", "status": "completed",
         "operation": {"type": "delete_file", "path": "a"}}])");
    REQUIRE(chat.unanswered_tool_calls().size() == 2);
    CHECK(chat.unanswered_tool_calls()[0].name() == "shell");
    CHECK(chat.unanswered_tool_calls()[1].name() == "apply_patch");
    CHECK(chat.repair("lost").answered() == 2);
    CHECK(test::violations(wire::api::responses, wire::responses(chat)) == test::accepted);
    CHECK(chat[3].text() == "lost");
    CHECK(chat[4].tool_results().at(0).is_error());
}

TEST_CASE("calls of one id, or one name, are answered in their order")
{
    const auto chat = items(R"([
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "a", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "first"}])");
    REQUIRE(chat.unanswered_tool_calls().size() == 1);
    CHECK(chat.unanswered_tool_calls()[0].name() == "g");
    // A response without an id is for the call without one.
    auto mixed = items(R"([{"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "g", "args": {}}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "g", "id": "4", "args": {}}}]}])");
    CHECK(mixed.repair().answered() == 2);
    CHECK(mixed.unanswered_tool_calls().empty());
    CHECK_FALSE(mixed.repair());
}

TEST_CASE("a call that was answered for another API is an error, too")
{
    auto chat = items(R"([{"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}},
                                          {"type": "tool_use", "id": "b", "name": "g", "input": {}}]}])");
    chat.push(message::tool_result("a", "done"));
    chat.repair("lost");
    const auto results = wire::anthropic(chat).body().at("messages").at(2).at("content").as_array();
    REQUIRE(results.size() == 2);
    CHECK(results[1] == test::parse(R"({"type": "tool_result", "tool_use_id": "b", "content": "lost",
                                        "is_error": true})"));
}

namespace {

//! Items of all four APIs, as a conversation has them that went from one to the other, with everything that
//! crashes and broken streams do to them. Ids come again, and are missing.
class wild_conversations {
public:
    explicit wild_conversations(unsigned seed) : random_(seed) {}

    conversation next()
    {
        conversation chat;
        for (auto left = 1 + pick(9); left > 0; --left)
            chat.push(message::from(test::parse(item()).as_object()));
        return chat;
    }

private:
    std::size_t pick(std::size_t below) { return random_() % below; }
    bool often() { return pick(4) != 0; }
    std::string id() { return "\"" + std::string(1, static_cast<char>('a' + pick(4))) + "\""; }
    std::string name() { return pick(2) == 0 ? "\"f\"" : "\"g\""; }
    std::string arguments() { return often() ? R"("{}")" : pick(2) == 0 ? R"("{\"x\":")" : R"("")"; }
    std::string list(std::string (wild_conversations::*part)())
    {
        auto text = (this->*part)();
        for (auto more = pick(3); more > 0; --more)
            text += "," + (this->*part)();
        return "[" + text + "]";
    }

    std::string listed_call()
    {
        return R"({"id":)" + id() + R"(,"type":"function","function":{"name":)" + name() +
               R"(,"arguments":)" + arguments() + "}}";
    }
    std::string block_of_model()
    {
        switch (pick(5)) {
        case 0:
            return R"({"type":"text","text":"t"})";
        case 1:
            return often() ? R"({"type":"thinking","thinking":"h","signature":"s"})"
                           : R"({"type":"thinking","thinking":"h"})";
        case 2:
            return R"({"type":"server_tool_use","name":"s","input":{},"id":)" + id() + "}";
        default:
            return R"({"type":"tool_use","name":)" + name() + R"(,"id":)" + id() + R"(,"input":)" +
                   (often() ? "{}" : R"("{")") + "}";
        }
    }
    std::string block_of_user()
    {
        return pick(3) == 0 ? R"({"type":"text","text":"u"})"
                            : R"({"type":"tool_result","content":"r","tool_use_id":)" + id() + "}";
    }
    std::string part_of_model()
    {
        return pick(4) == 0 ? R"({"text":"t"})"
                            : R"({"functionCall":{"name":)" + name() +
                                  (pick(2) == 0 ? R"(,"id":)" + id() : "") + R"(,"args":{}}})";
    }
    std::string part_of_user()
    {
        return pick(4) == 0 ? R"({"text":"u"})"
                            : R"({"functionResponse":{"name":)" + name() +
                                  (pick(2) == 0 ? R"(,"id":)" + id() : "") + R"(,"response":{"x":1}}})";
    }
    std::string item()
    {
        switch (pick(12)) {
        case 0:
            return R"({"role":"user","content":"u"})";
        case 1:
            return R"({"role":"assistant","content":"t"})";
        case 2:
            return R"({"role":"assistant","content":null,"tool_calls":)" +
                   list(&wild_conversations::listed_call) + "}";
        case 3:
            return R"({"role":"tool","content":"r","tool_call_id":)" + id() + "}";
        case 4:
        case 5:
            return R"({"role":"assistant","content":)" + list(&wild_conversations::block_of_model) + "}";
        case 6:
            return R"({"role":"user","content":)" + list(&wild_conversations::block_of_user) + "}";
        case 7:
            return R"({"role":"model","parts":)" + list(&wild_conversations::part_of_model) + "}";
        case 8:
            return R"({"role":"user","parts":)" + list(&wild_conversations::part_of_user) + "}";
        case 9:
            return R"({"type":"function_call","name":)" + name() + R"(,"call_id":)" + id() +
                   R"(,"arguments":)" + arguments() + "}";
        case 10:
            return R"({"type":"function_call_output","output":"r","call_id":)" + id() + "}";
        default:
            return R"({"type":"reasoning","summary":[],"encrypted_content":"e"})";
        }
    }

    std::minstd_rand random_;
};

} // namespace

TEST_CASE("whatever was repaired has nothing left to be repaired")
{
    std::size_t repaired = 0;
    for (unsigned seed = 1; seed <= 20'000; ++seed) {
        auto chat = wild_conversations(seed).next();
        const auto before = written(chat);
        repaired += chat.repair() ? 1 : 0;
        const auto after = written(chat);
        if (chat.unanswered_tool_calls().empty() && !chat.repair())
            continue;
        FAIL_CHECK("seed " << seed << ": " << before << " was repaired to " << after << " and then to "
                           << written(chat));
    }
    CHECK(repaired > 10'000);
}
