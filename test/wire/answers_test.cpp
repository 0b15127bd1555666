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

std::string refused(wire::api api, std::string_view response)
{
    conversation chat;
    chat.push(message::user("hi"));
    const auto before = chat;
    const auto reason = refusal([&] { wire::append(api, chat, parse(response).as_object()); });
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
    CHECK_FALSE(answer.is_cut_off());
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
    CHECK_FALSE(answer.is_cut_off());
}

TEST_CASE("an answer of Anthropic becomes role and content, in their order")
{
    const auto first =
        append(wire::api::anthropic, R"({"id":"m","type":"message","role":"assistant","model":"c",
        "content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{}})");
    CHECK(first.items() == R"({"role":"assistant","content":[{"type":"text","text":"hi"}]})");
    CHECK(first.answer.stop_reason() == "end_turn");
    CHECK_FALSE(first.answer.is_cut_off());
    const auto second =
        append(wire::api::anthropic,
               R"({"content":[{"type":"text","text":"hi"}],"role":"assistant","stop_reason":"tool_use"})");
    CHECK(second.items() == R"({"content":[{"type":"text","text":"hi"}],"role":"assistant"})");
}

TEST_CASE("an answer of Gemini becomes its content, and nothing is added to it")
{
    const auto [chat, answer] = append(
        wire::api::gemini, R"({"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]})");
    REQUIRE(chat.size() == 1);
    CHECK(json::serialize(chat[0].item()) == R"({"parts":[{"text":"hi"}]})");
    CHECK(answer.stop_reason() == "STOP");
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
        CHECK_FALSE(answer.is_cut_off());
    }
}

TEST_CASE("an answer says whether the model came to its end")
{
    using wire::api;
    for (const auto& [which, response, reason] : std::vector<std::tuple<api, const char*, const char*>>{
             {api::chat_completions, R"({"choices":[{"message":{"content":"a"},"finish_reason":"length"}]})",
              "length"},
             {api::chat_completions, R"({"choices":[{"message":{"content":"a"},"finish_reason":null}]})", ""},
             {api::anthropic, R"({"role":"assistant","content":[],"stop_reason":"max_tokens"})",
              "max_tokens"},
             {api::anthropic, R"({"role":"assistant","content":[],"stop_reason":null})", ""},
             {api::gemini, R"({"candidates":[{"finishReason":"MAX_TOKENS"}]})", "MAX_TOKENS"},
             {api::gemini, R"({"candidates":[{"content":{"parts":[{"text":"a"}]}}]})", ""},
             {api::responses,
              R"({"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]})",
              "max_output_tokens"},
             {api::responses, R"({"status":"in_progress","output":[]})", "in_progress"}}) {
        const auto [chat, answer] = append(which, response);
        CHECK(answer.is_cut_off());
        CHECK(answer.stop_reason() == reason);
    }
}

TEST_CASE("an error of an API is an error, with its text")
{
    using wire::api;
    CHECK(
        refused(api::chat_completions, R"({"error":{"message":"Incorrect key","type":"invalid_request_error",
        "param":null,"code":"invalid_api_key"}})") ==
        "Chat Completions reports an error (invalid_request_error, invalid_api_key): Incorrect key; check "
        "the key and "
        "what it may do");
    CHECK(refused(api::chat_completions, R"({"error":"model not loaded"})") ==
          "Chat Completions reports an error: model not loaded; correct the request");
    CHECK(refused(api::anthropic,
                  R"({"type":"error","error":{"type":"rate_limit_error","message":"Slower"}})") ==
          "Anthropic's API reports an error (rate_limit_error): Slower; send the request again later");
    CHECK(refused(api::gemini, R"({"error":{"code":400,"message":"Bad","status":"INVALID_ARGUMENT"}})") ==
          "Gemini's API reports an error (INVALID_ARGUMENT, 400): Bad; correct the request");
    CHECK(refused(api::responses,
                  R"({"status":"failed","error":{"code":"server_error","message":"Oh"},"output":[]})") ==
          "the Responses API reports an error (server_error): Oh; send the request again later");
    CHECK(refused(api::responses, R"({"status":"failed","error":null,"output":[]})").find("'failed'") !=
          std::string::npos);
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
