#include "catch.hpp"
#include "recordings.hpp"
#include "refusal.hpp"

using namespace waymark;
using namespace waymark::test;
namespace json = boost::json;

namespace {

struct appended {
    conversation chat;
    wire::answer answer;

    std::string items() const
    {
        std::string all;
        for (const auto& next : chat)
            all += json::serialize(next.item());
        return all;
    }
};

appended append(wire::api api, std::string_view response)
{
    conversation chat;
    const auto answer = wire::append(api, chat, parse(response).as_object());
    CHECK(answer.messages() == chat.size());
    return {chat, answer};
}

std::string refused(wire::api api, std::string_view response, errc expected = errc::invalid_argument)
{
    conversation chat;
    chat.push(message::user("hi"));
    const auto before = chat;
    const auto reason = refusal([&] { wire::append(api, chat, parse(response).as_object()); }, expected);
    CHECK(chat == before);
    return reason;
}

} // namespace

TEST_CASE("an answer of Chat Completions becomes its message, as it is")
{
    const auto said =
        R"({"role":"assistant","content":"hi","refusal":null,"annotations":[],"x":{"b":1,"a":2}})";
    const auto [chat, answer] = append(wire::api::chat_completions,
                                       R"({"id":"c","choices":[{"index":0,"message":)" + std::string(said) +
                                           R"(,"finish_reason":"stop"},{"index":1,"message":{}}]})");
    REQUIRE(chat.size() == 1);
    CHECK(json::serialize(chat[0].item()) == said);
    CHECK(answer.stop_reason() == "stop");
    CHECK(answer.ending() == wire::ending::finished);
}

TEST_CASE("an answer of the Responses API becomes one message an item")
{
    const auto [chat, answer] = append(wire::api::responses, R"({"status":"completed","error":null,"output":[
        {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},
        {"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}","status":"completed"}]})");
    REQUIRE(chat.size() == 2);
    CHECK(chat[0].item().at("encrypted_content") == "x");
    CHECK(chat[1].tool_calls().size() == 1);
    CHECK(answer.stop_reason() == "completed");
    CHECK(answer.ending() == wire::ending::calls);
}

TEST_CASE("an answer of Anthropic becomes role and content, in their order")
{
    const auto first =
        append(wire::api::anthropic, R"({"id":"m","type":"message","role":"assistant","model":"c",
        "content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{}})");
    CHECK(first.items() == R"({"role":"assistant","content":[{"type":"text","text":"hi"}]})");
    CHECK(first.answer.stop_reason() == "end_turn");
    CHECK(first.answer.ending() == wire::ending::finished);
    const auto second =
        append(wire::api::anthropic,
               R"({"content":[{"type":"text","text":"hi"}],"role":"assistant","stop_reason":"tool_use"})");
    CHECK(second.items() == R"({"content":[{"type":"text","text":"hi"}],"role":"assistant"})");
}

TEST_CASE("an answer of Gemini becomes its content, as it is")
{
    const auto [chat, answer] = append(
        wire::api::gemini,
        R"({"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model","x":1},"finishReason":"STOP"}]})");
    REQUIRE(chat.size() == 1);
    CHECK(json::serialize(chat[0].item()) == R"({"parts":[{"text":"hi"}],"role":"model","x":1})");
    CHECK(answer.stop_reason() == "STOP");
}

TEST_CASE("an answer is the model's, also where a server does not say so")
{
    const auto chat = append(wire::api::chat_completions,
                             R"({"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]})");
    CHECK(chat.items() == R"({"content":"hi","role":"assistant"})");
    const auto gemini = append(
        wire::api::gemini, R"({"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]})");
    CHECK(gemini.items() == R"({"parts":[{"text":"hi"}],"role":"model"})");
}

TEST_CASE("an answer that says nothing appends nothing")
{
    using wire::api;
    for (
        const auto& [which, response, reason] : std::vector<std::tuple<api, const char*, const char*>>{
            {api::gemini, R"({"candidates":[{"finishReason":"SAFETY","index":0}]})", "SAFETY"},
            {api::gemini, R"({"candidates":[{"content":{"role":"model"},"finishReason":"OTHER"}]})", "OTHER"},
            {api::gemini, R"({"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}})", "PROHIBITED_CONTENT"},
            {api::chat_completions,
             R"({"choices":[{"message":{"role":"assistant","content":null,"refusal":null},"finish_reason":"stop"}]})",
             "stop"},
            {api::chat_completions,
             R"({"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"content_filter"}]})",
             "content_filter"},
            {api::anthropic, R"({"role":"assistant","content":[],"stop_reason":"end_turn"})", "end_turn"},
            {api::responses, R"({"status":"completed","output":[]})", "completed"}}) {
        const auto [chat, answer] = append(which, response);
        CHECK(answer.messages() == 0);
        CHECK(answer.stop_reason() == reason);
    }
}

TEST_CASE("an answer says how it ended, whatever its API calls that")
{
    using wire::api;
    using wire::ending;
    const std::string call =
        R"("tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}])";
    const auto choice = [](const std::string& message, const std::string& reason) {
        return R"({"choices":[{"message":{)" + message + R"(},"finish_reason":)" + reason + "}]}";
    };
    const auto candidate = [](const std::string& content, const std::string& reason) {
        return R"({"candidates":[{)" + content + R"("finishReason":")" + reason + R"("}]})";
    };
    const auto of_anthropic = [](const std::string& content, const std::string& reason) {
        return R"({"role":"assistant","content":[)" + content + R"(],"stop_reason":)" + reason + "}";
    };
    const std::string said = R"("content":{"parts":[{"text":"a"}]},)";
    for (const auto& [which, response, reason, how] :
         std::vector<std::tuple<api, std::string, const char*, ending>>{
             {api::chat_completions, choice(R"("content":"a")", R"("stop")"), "stop", ending::finished},
             {api::chat_completions, choice(call, R"("tool_calls")"), "tool_calls", ending::calls},
             {api::chat_completions, choice(call, R"("stop")"), "stop", ending::calls}, // as some servers do
             {api::chat_completions, choice(R"("content":"a")", R"("length")"), "length", ending::cut_off},
             {api::chat_completions, choice(call, R"("length")"), "length", ending::cut_off},
             {api::chat_completions, choice(R"("content":"a")", "null"), "", ending::cut_off},
             {api::chat_completions, choice(R"("content":"")", R"("content_filter")"), "content_filter",
              ending::refused},
             {api::chat_completions, choice(R"("content":null,"refusal":"No.")", R"("stop")"), "stop",
              ending::refused},
             {api::anthropic, of_anthropic("", R"("end_turn")"), "end_turn", ending::finished},
             {api::anthropic,
              of_anthropic(R"({"type":"tool_use","id":"t","name":"f","input":{}})", R"("tool_use")"),
              "tool_use", ending::calls},
             {api::anthropic, of_anthropic("", R"("max_tokens")"), "max_tokens", ending::cut_off},
             {api::anthropic, of_anthropic("", "null"), "", ending::cut_off},
             {api::anthropic, of_anthropic("", R"("refusal")"), "refusal", ending::refused},
             {api::anthropic, of_anthropic(R"({"type":"text","text":"a"})", R"("pause_turn")"), "pause_turn",
              ending::paused},
             {api::gemini, candidate(said, "STOP"), "STOP", ending::finished},
             {api::gemini, candidate(R"("content":{"parts":[{"functionCall":{"name":"f"}}]},)", "STOP"),
              "STOP", ending::calls},
             {api::gemini, candidate("", "MAX_TOKENS"), "MAX_TOKENS", ending::cut_off},
             {api::gemini, candidate(said, "MALFORMED_FUNCTION_CALL"), "MALFORMED_FUNCTION_CALL",
              ending::cut_off},
             {api::gemini, R"({"candidates":[{"content":{"parts":[{"text":"a"}]}}]})", "", ending::cut_off},
             {api::gemini, candidate("", "SAFETY"), "SAFETY", ending::refused},
             {api::gemini, R"({"promptFeedback":{"blockReason":"OTHER"}})", "OTHER", ending::refused},
             {api::responses,
              R"({"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]})",
              "max_output_tokens", ending::cut_off},
             {api::responses,
              R"({"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]})",
              "content_filter", ending::refused},
             {api::responses, R"({"status":"in_progress","output":[]})", "in_progress", ending::cut_off},
             {api::responses,
              R"({"status":"completed","output":[{"type":"message","role":"assistant","content":[
                  {"type":"refusal","refusal":"No."}]}]})",
              "completed", ending::refused}}) {
        CAPTURE(response);
        const auto [chat, answer] = append(which, response);
        CHECK((answer.ending() == how));
        CHECK(answer.stop_reason() == reason);
    }
}

TEST_CASE("an error of an API is an error, with its text")
{
    using wire::api;
    CHECK(refused(api::chat_completions,
                  R"({"error":{"message":"Incorrect key","type":"invalid_request_error",
        "param":null,"code":"invalid_api_key"}})",
                  errc::api_refused) ==
          "Chat Completions reports an error (invalid_request_error, invalid_api_key): Incorrect key; check "
          "the key and what it may do");
    CHECK(refused(api::chat_completions, R"({"error":"model not loaded"})", errc::api_refused) ==
          "Chat Completions reports an error: model not loaded");
    CHECK(refused(api::anthropic,
                  R"({"type":"error","error":{"type":"rate_limit_error","message":"Slower"}})",
                  errc::api_busy) == "Anthropic's API reports an error (rate_limit_error): Slower");
    CHECK(refused(api::gemini, R"({"error":{"code":400,"message":"Bad","status":"INVALID_ARGUMENT"}})",
                  errc::api_refused) == "Gemini's API reports an error (INVALID_ARGUMENT, 400): Bad");
    CHECK(refused(api::responses,
                  R"({"status":"failed","error":{"code":"server_error","message":"Oh"},"output":[]})",
                  errc::api_busy) == "the Responses API reports an error (server_error): Oh");
    CHECK(refused(api::responses, R"({"status":"failed","error":null,"output":[]})", errc::api_refused)
              .find("'failed'") != std::string::npos);
    CHECK(refused(api::chat_completions, R"({"choices":[{"error":{"code":502,"message":"Gone"},
        "finish_reason":"error"}]})",
                  errc::api_busy) == "Chat Completions reports an error (502): Gone");
    // Sending it again does not help.
    CHECK(refused(api::chat_completions,
                  R"({"error":{"message":"No more","type":"insufficient_quota","code":429}})",
                  errc::api_refused)
              .find("check the key") != std::string::npos);
}

TEST_CASE("what is no answer is refused, and the reason names what is missing")
{
    using wire::api;
    for (const auto& [which, response, missing] : std::vector<std::tuple<api, const char*, const char*>>{
             {api::chat_completions, "{}", "'choices'"},
             {api::chat_completions, R"({"choices":[]})", "'choices'"},
             {api::chat_completions, R"({"choices":[3]})", "'choices'"},
             {api::chat_completions, R"({"choices":[{"delta":{}}]})", "'message'"},
             {api::responses, "{}", "'output'"},
             {api::responses, R"({"output":[{"type":"message"},3]})", "'output'"},
             {api::anthropic, R"({"content":[]})", "'role'"},
             {api::anthropic, R"({"role":"assistant"})", "'content'"},
             {api::gemini, "{}", "'candidates'"},
             {api::gemini, R"({"candidates":[]})", "'candidates'"}})
        CHECK(refused(which, response).find(missing) != std::string::npos);
}

TEST_CASE("an answer that is no valid text is refused as a whole")
{
    conversation chat;
    const json::object response{
        {"output", {{{"type", "message"}, {"content", "fine"}}, {{"type", "message"}, {"content", "\xff"}}}}};
    CHECK(refusal([&] { wire::append_responses(chat, response); }).find("UTF-8") != std::string::npos);
    CHECK(chat.empty());
}
