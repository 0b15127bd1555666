#include "catch.hpp"
#include "recordings.hpp"
#include "refusal.hpp"

#include <random>

using namespace waymark;
using namespace waymark::test;
namespace json = boost::json;

namespace {

bool is_error(const json::value& event)
{
    return event.as_object().contains("error") && !event.at("error").is_null();
}

wire::accumulator add_all(const recording& stream)
{
    wire::accumulator answer(stream.api);
    for (const auto& event : stream.content.at("events").as_array())
        if (is_error(event))
            CHECK_THROWS_AS(answer.add(event.as_object()), error);
        else
            answer.add(event.as_object());
    return answer;
}

//! As a server sends it.
std::string as_bytes(const recording& stream, std::string_view line_end)
{
    std::string bytes(": a comment");
    bytes.append(line_end).append(line_end);
    for (const auto& event : stream.content.at("events").as_array()) {
        if (is_error(event))
            break;
        if (const auto* const type = event.as_object().if_contains("type"))
            bytes.append("event: ").append(type->as_string()).append(line_end);
        bytes.append("data: ").append(json::serialize(event)).append(line_end).append(line_end);
    }
    return bytes;
}

wire::accumulator feed_in_pieces(wire::api api, std::string_view bytes, const std::vector<std::size_t>& cuts)
{
    wire::accumulator answer(api);
    std::size_t begin = 0;
    for (const auto cut : cuts) {
        answer.feed(bytes.substr(begin, cut - begin));
        begin = cut;
    }
    answer.feed(bytes.substr(begin));
    return answer;
}

bool is_cut_off(const recording& stream)
{
    return stream.content.contains("cut_off");
}

} // namespace

TEST_CASE("the events of a stream make the answer that the API would have given at once")
{
    for (const auto& stream : recordings("streams")) {
        CAPTURE(stream.name);
        const auto answer = add_all(stream);
        CHECK(answer.response() == stream.content.at("response").as_object());
        CHECK(answer.is_complete() != is_cut_off(stream));
    }
}

TEST_CASE("a stream hands out the text of the answer as it comes")
{
    bool any = false;
    for (const auto& stream : recordings("streams")) {
        CAPTURE(stream.name);
        wire::accumulator from_events(stream.api), from_bytes(stream.api);
        std::string text, text_of_bytes;
        for (const auto& event : stream.content.at("events").as_array())
            if (!is_error(event))
                text += from_events.add(event.as_object());
        for (const char byte : as_bytes(stream, "\n"))
            text_of_bytes += from_bytes.feed({&byte, 1});
        conversation chat;
        wire::append(stream.api, chat, from_events.response());
        std::string expected;
        for (const auto& said : chat)
            for (const auto& part : said.parts())
                if (part.kind() == part_kind::text)
                    expected += part.text();
        CHECK(text == expected);
        CHECK(text_of_bytes == expected);
        any = any || !text.empty();
    }
    CHECK(any);
    // Of several answers only the first is taken.
    wire::accumulator several(wire::api::chat_completions);
    CHECK(several.add(parse(R"({"choices":[{"index":1,"delta":{"content":"no"}},
                                           {"index":0,"delta":{"content":"yes"}}]})")
                          .as_object()) == "yes");
}

TEST_CASE("the bytes of a stream may be cut anywhere")
{
    std::mt19937 random(20261119); // NOLINT(cert-msc51-cpp): the same each time
    for (const auto& stream : recordings("streams"))
        for (const auto* const line_end : {"\n", "\r\n", "\r"}) {
            CAPTURE(stream.name);
            const auto bytes = as_bytes(stream, line_end);
            const auto& expected = stream.content.at("response").as_object();
            CHECK(feed_in_pieces(stream.api, bytes, {}).response() == expected);
            std::vector<std::size_t> all(bytes.size());
            for (std::size_t i = 0; i < all.size(); ++i)
                all[i] = i;
            CHECK(feed_in_pieces(stream.api, bytes, all).response() == expected);
            std::vector<std::size_t> some;
            std::sample(all.begin(), all.end(), std::back_inserter(some), 40, random);
            CHECK(feed_in_pieces(stream.api, bytes, some).response() == expected);
        }
}

TEST_CASE("a streamed answer is appended like any other, and goes back")
{
    for (const auto& stream : recordings("streams")) {
        CAPTURE(stream.name);
        conversation chat;
        chat.push(message::user("Go on."));
        const auto answer = wire::append(stream.api, chat, add_all(stream).response());
        CHECK(answer.messages() == chat.size() - 1);
        CHECK((!is_cut_off(stream) || answer.ending() == wire::ending::cut_off));
        chat.push(message::user("And then?"));
        chat.repair();
        for (const auto api : all_apis) {
            CAPTURE(wire::to_string(api));
            const auto request = wire::make_request(api, chat);
            CAPTURE(request.body());
            CHECK(violations(api, request) == accepted);
        }
    }
}

TEST_CASE("a stream that breaks off after any event leaves an answer that can be repaired")
{
    for (const auto& stream : recordings("streams")) {
        wire::accumulator answer(stream.api);
        const auto& events = stream.content.at("events").as_array();
        for (std::size_t i = 0; i < events.size() && !is_error(events[i]); ++i) {
            answer.add(events[i].as_object());
            CAPTURE(stream.name, i);
            conversation chat;
            chat.push(message::user("Go on."));
            try {
                wire::append(stream.api, chat, answer.response());
            } catch (const error&) {
                CHECK(chat.size() == 1); // nothing that would be an answer
            }
            chat.push(message::user("And then?"));
            chat.repair();
            const auto request = wire::make_request(stream.api, chat);
            CAPTURE(request.body());
            CHECK(violations(stream.api, request) == accepted);
            CHECK(request.left_out().empty());
        }
    }
}

TEST_CASE("a call whose stream broke off before its input is not complete")
{
    wire::accumulator answer(wire::api::anthropic);
    answer.add(parse(R"({"type":"message_start","message":{"role":"assistant","content":[]}})").as_object());
    answer.add(parse(R"({"type":"content_block_start","index":0,
        "content_block":{"type":"tool_use","id":"t1","name":"delete_all","input":{}}})")
                   .as_object());
    CHECK(answer.response().at("content").at(0).at("input") == "");
    answer.add(parse(R"({"type":"content_block_stop","index":0})").as_object());
    CHECK(answer.response().at("content").at(0).at("input") == json::object{});
}

TEST_CASE("half a call is never handed out as one that can be run")
{
    struct broken {
        wire::api api;
        std::vector<const char*> events;
    };
    for (
        const auto& [api, events] : std::vector<broken>{
            {wire::api::chat_completions,
             {R"({"choices":[{"index":0,"delta":{"role":"assistant","content":"I do.","tool_calls":[{"index":0,
                   "id":"a","type":"function","function":{"name":"delete_files","arguments":""}}]}}]})"}},
            {wire::api::chat_completions,
             {R"({"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,
                   "id":"a","type":"custom","custom":{"name":"run_sql","input":"DELETE FROM users "}}]}}]})"}},
            {wire::api::responses,
             {R"({"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}})",
              R"({"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call",
                   "call_id":"c","name":"run_sql","input":""}})",
              R"({"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"DELETE FROM users "})"}},
            {wire::api::responses,
             {R"({"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}})",
              R"({"type":"response.output_item.added","output_index":0,"item":{"type":"function_call",
                   "status":"in_progress","call_id":"c","name":"f","arguments":""}})"}}}) {
        wire::accumulator stream(api);
        for (const auto* event : events)
            stream.add(parse(event).as_object());
        CAPTURE(stream.response());
        conversation chat;
        chat.push(message::user("q"));
        const auto answer = wire::append(api, chat, stream.response());
        CHECK(answer.ending() == wire::ending::cut_off);
        CHECK(chat.unanswered_tool_calls().empty());
        chat.repair();
        CHECK(chat.unanswered_tool_calls().empty());
    }
    // The call before the newest has ended, and so has the newest when the API says that this was all.
    wire::accumulator two(wire::api::chat_completions);
    two.add(parse(R"({"choices":[{"index":0,"delta":{"tool_calls":[
        {"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]})")
                .as_object());
    two.add(parse(R"({"choices":[{"index":0,"delta":{"tool_calls":[
        {"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]}}]})")
                .as_object());
    CHECK(two.response().at("choices").at(0).at("message").at("tool_calls").as_array().size() == 1);
    two.add(parse(R"({"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]})").as_object());
    const auto calls = two.response().at("choices").at(0).at("message").at("tool_calls").as_array();
    REQUIRE(calls.size() == 2);
    CHECK(json::serialize(calls[0]) ==
          R"({"id":"a","type":"function","function":{"name":"f","arguments":""}})");
}

TEST_CASE("a server may change from texts to lists of blocks, and back")
{
    wire::accumulator stream(wire::api::chat_completions);
    std::string shown;
    for (const auto* content : {R"("")", R"([{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}])",
                                R"("It ")", R"("is.")"})
        shown +=
            stream.add(parse(R"({"choices":[{"index":0,"delta":{"content":)" + std::string(content) + "}}]}")
                           .as_object());
    CHECK(shown == "It is.");
    CHECK(stream.response().at("choices").at(0).at("message").at("content") ==
          parse(R"([{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"It "},
                    {"type":"text","text":"is."}])"));
}

TEST_CASE("lines of a stream that are no data are skipped, and data may have several")
{
    wire::accumulator answer(wire::api::gemini);
    answer.feed("\xEF\xBB\xBF: hello\nid: 7\nretry: 3\nevent\n\n\ndata:{\"candidates\":\ndata: "
                "[{\"finishReason\":\"STOP\"}]}\n\ndata:\n\n");
    CHECK(answer.is_complete());
    CHECK(answer.response() == parse(R"({"candidates":[{"finishReason":"STOP"}]})"));
}

TEST_CASE("[DONE] ends a stream")
{
    wire::accumulator answer(wire::api::chat_completions);
    CHECK_FALSE(answer.is_complete());
    answer.feed("data: [DO");
    answer.feed("NE]\n\n");
    CHECK(answer.is_complete());
}

TEST_CASE("what is no stream is refused in a sentence that says what to do")
{
    const auto refusal_of = [](wire::api api, std::string_view bytes) {
        return refusal([&] { wire::accumulator(api).feed(bytes); });
    };
    CHECK(refusal_of(wire::api::gemini, "[{\n  \"candidates\": []\n}]").find("alt=sse") != std::string::npos);
    CHECK(refusal_of(wire::api::anthropic, "{\"type\":\"error\"}\n").find("append()") != std::string::npos);
    CHECK(refusal_of(wire::api::responses, "data: nonsense\n\n").find("the Responses API") !=
          std::string::npos);
    CHECK(refusal_of(wire::api::responses, "data: 3\n\n").find("no JSON object") != std::string::npos);
    CHECK(refusal_of(wire::api::responses, "data: {}\n\n").find("'type'") != std::string::npos);
    CHECK(refusal_of(wire::api::anthropic, "data: {}\n\n").find("'type'") != std::string::npos);
    CHECK(refusal_of(wire::api::chat_completions, "data: {}\n\n").find("'choices'") != std::string::npos);
    CHECK(refusal_of(wire::api::gemini, "data: {}\n\n").find("'candidates'") != std::string::npos);
    const auto unknown = R"(data: {"type":"content_block_delta","index":3,"delta":{"text":"a"}})";
    CHECK(refusal_of(wire::api::anthropic, unknown + std::string("\n\n")).find("not begun") !=
          std::string::npos);
}

TEST_CASE("what came before an error of a stream is kept, and so is what comes behind it")
{
    wire::accumulator answer(wire::api::chat_completions);
    const std::string first = R"(data: {"choices":[{"delta":{"content":"a"}}]})";
    CHECK_THROWS_AS(answer.feed(first + "\n\ndata: oops\n\n" + first + "\n\n"), error);
    CHECK(answer.response().at("choices").at(0).at("message").at("content") == "a");
    answer.feed("");
    CHECK(answer.response().at("choices").at(0).at("message").at("content") == "aa");
}

TEST_CASE("errors within a stream have the text of the API")
{
    const auto refusal_of = [](wire::api api, const char* event, errc expected) {
        return refusal([&] { wire::accumulator(api).add(parse(event).as_object()); }, expected);
    };
    CHECK(refusal_of(wire::api::anthropic,
                     R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
                     errc::api_busy) == "Anthropic's API reports an error (overloaded_error): Overloaded");
    CHECK(refusal_of(wire::api::responses,
                     R"({"type":"error","code":"invalid_prompt","message":"No.","param":null})",
                     errc::api_refused) == "the Responses API reports an error (invalid_prompt): No.");
    CHECK(refusal_of(wire::api::gemini, R"({"error":{"code":503,"message":"Busy","status":"UNAVAILABLE"}})",
                     errc::api_busy) == "Gemini's API reports an error (UNAVAILABLE, 503): Busy");
    CHECK(refusal_of(wire::api::chat_completions, R"({"error":{"message":"x","type":null,"code":401}})",
                     errc::api_refused) ==
          "Chat Completions reports an error (401): x; check the key and what it may do");
}

TEST_CASE("what comes instead of a stream is told, and if it is an error, as that")
{
    const auto refusal_of = [](wire::api api, std::string_view bytes, errc expected) {
        return refusal([&] { wire::accumulator(api).feed(bytes); }, expected);
    };
    CHECK(refusal_of(wire::api::anthropic, R"({"type":"error","error":{"type":"api_error","message":"Oh"}})",
                     errc::api_busy) == "Anthropic's API reports an error (api_error): Oh");
    const auto page = refusal_of(wire::api::chat_completions, "\xEF\xBB\xBF\n <html>502 Bad Gateway</html>",
                                 errc::invalid_argument);
    CHECK(page.find("<html>502 Bad Gateway") != std::string::npos);
    const auto whole = refusal_of(wire::api::chat_completions, R"({"choices":[]})", errc::invalid_argument);
    CHECK(whole.find("append()") != std::string::npos);
    CHECK(refusal_of(wire::api::gemini, "[", errc::invalid_argument).find("alt=sse") != std::string::npos);
    // Also behind events, wherever the bytes are cut.
    for (const bool at_once : {true, false}) {
        wire::accumulator stream(wire::api::chat_completions);
        const auto feed = [&] {
            const std::string_view bytes = "data: {\n--\n {\"a\":";
            for (std::size_t i = 0; i < bytes.size(); i += at_once ? bytes.size() : 1)
                stream.feed(bytes.substr(i, at_once ? bytes.size() : 1));
        };
        CHECK_THROWS_AS(feed(), error);
    }
    wire::accumulator answer(wire::api::chat_completions);
    answer.feed(": a comment\n\n");
    CHECK_THROWS_AS(answer.feed(R"({"error":"gone"})"), error);
}

TEST_CASE("an event without an end is refused before it fills the memory")
{
    wire::accumulator answer(wire::api::anthropic);
    const std::string megabyte(std::size_t{1} << 20, 'x');
    const auto reason = refusal([&] {
        for (int i = 0; i < 70; ++i)
            answer.feed(megabyte);
    });
    CHECK(reason.find("64 MiB") != std::string::npos);
    CHECK_THROWS_AS(
        [&] {
            for (int i = 0; i < 70; ++i)
                answer.feed("data: " + megabyte + "\n");
        }(),
        error);
}

TEST_CASE("calls of servers that give no index, or the same to all, are told apart")
{
    for (const auto* const index : {"", R"("index":0,)"}) {
        wire::accumulator answer(wire::api::chat_completions);
        for (const auto* const piece :
             {R"("id":"a","function":{"name":"f","arguments":"{"})",
              R"("id":"a","function":{"name":"f","arguments":"}"})",
              R"("id":"b","function":{"name":"g","arguments":""})", R"("function":{"arguments":"[]"})"})
            answer.add(parse(R"({"choices":[{"index":0,"delta":{"tool_calls":[{)" + std::string(index) +
                             piece + "}]}}]}")
                           .as_object());
        CHECK(answer.response().at("choices").at(0).at("message") ==
              parse(R"({"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},
                        {"id":"b","function":{"name":"g","arguments":"[]"}}]})"));
    }
}

TEST_CASE("events with random damage are refused or taken, and nothing breaks")
{
    std::mt19937 random(8); // NOLINT(cert-msc51-cpp): the same each time
    for (const auto& stream : recordings("streams"))
        for (int round = 0; round < 30; ++round) {
            json::value damaged = stream.content.at("events");
            for (int i = 0; i < 4; ++i)
                damage(damaged, random);
            wire::accumulator answer(stream.api);
            for (const auto& next : damaged.as_array())
                try {
                    if (next.is_object())
                        answer.add(next.get_object());
                } catch (const error&) { // NOLINT(bugprone-empty-catch): refused
                }
            conversation chat;
            for (const auto api : all_apis)
                try {
                    wire::append(api, chat, answer.response());
                } catch (const error&) { // NOLINT(bugprone-empty-catch): refused
                }
        }
}

TEST_CASE("hostile indexes take no memory")
{
    wire::accumulator chunks(wire::api::chat_completions);
    chunks.add(parse(R"({"choices":[{"index":9223372036854775807,"delta":{"tool_calls":[
        {"index":-9223372036854775808,"id":"x"}]}}]})")
                   .as_object());
    CHECK(chunks.response().at("choices").as_array().size() == 1);
    wire::accumulator events(wire::api::responses);
    events.add(parse(R"({"type":"response.output_item.added","output_index":1e300,"item":{}})").as_object());
    events.add(parse(R"({"type":"response.output_text.delta","output_index":0,"content_index":4000000000,
        "delta":"x"})")
                   .as_object());
    CHECK(events.response().at("output").as_array().size() == 1);
}
