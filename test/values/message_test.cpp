#include "catch.hpp"
#include "refusal.hpp"
#include "values/storage_memory.hpp"

#include <waymark/error.hpp>
#include <waymark/message.hpp>

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cmath>
#include <limits>

using namespace waymark;
using test::refusal;
namespace json = boost::json;

namespace {

message round_trip(const message& original)
{
    return json::value_to<message>(json::value_from(original));
}

} // namespace

TEST_CASE("a message knows its role, its text and its calls")
{
    const auto question = message::user("why?");
    CHECK(question.role() == role::user);
    CHECK(question.text() == "why?");
    CHECK(question.item() == json::object{{"role", "user"}, {"content", "why?"}});
    CHECK(question.id().size() == 36);
    CHECK(now() - question.timestamp() < std::chrono::minutes(1));
    CHECK(message::system("s").role() == role::system);
    CHECK(message::assistant("a").role() == role::assistant);

    const auto call = message::assistant("", {tool_call("c1", "search", json::object{{"q", "x"}})});
    REQUIRE(call.tool_calls().size() == 1);
    CHECK(call.tool_calls()[0].name() == "search");
    CHECK(call.tool_calls()[0].arguments() == json::object{{"q", "x"}});
    const auto result = message::tool_result("c1", "found");
    CHECK(result.role() == role::tool);
    REQUIRE(result.tool_results().size() == 1);
    CHECK(result.tool_results()[0].call_id() == "c1");
    CHECK(result.tool_results()[0].text() == "found");
    CHECK(result.text() == "found");
}

TEST_CASE("copies of a message share their content, and with_* leaves them alone")
{
    const auto original = message::user("text");
    auto copy = original;
    CHECK(&copy.id() == &original.id());
    CHECK(&copy.item() == &original.item());
    copy.with_item({{"role", "user"}, {"content", "text"}, {"key", "value"}}).with_id("other");
    CHECK(copy.id() == "other");
    CHECK(copy.timestamp() == original.timestamp());
    CHECK(copy.item().at("key") == "value");
    CHECK(original.item().size() == 2);
    CHECK_FALSE(copy == original);
}

TEST_CASE("a message survives the round trip through JSON")
{
    const auto original =
        message::from({{"content", std::string("zero \0, quote \", é, 🧭, \x01", 28)},
                       {"role", "assistant"}, // in an order of its own
                       {"usage", {{"in", 18446744073709551615u}, {"out", -9223372036854775807 - 1}}}})
            .with_timestamp(timestamp(std::chrono::microseconds(-1)));
    CHECK(round_trip(original) == original);
    for (const auto& other :
         {message::system(""), message::user("\xf4\x8f\xbf\xbf"), message::tool_result("x", "y"),
          message::assistant("", {tool_call("c1", "t", json::parse(R"({"a": [1, 2.5, {"b": null}]})"))}),
          message::from({}), message::user("no id").with_id("").with_timestamp({})})
        CHECK(round_trip(other) == other);
}

TEST_CASE("an item is kept verbatim, and nothing is added to it")
{
    for (
        const auto* text :
        {R"({"role":"developer","content":[{"type":"text","text":"hi"}],"id":7,"tool_calls":null,"x":{"y":[]}})",
         R"({"id":"rs_1","timestamp":"not ours","type":"reasoning","encrypted_content":"gAAA","summary":[]})",
         R"({"parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2ln"}],"role":"model"})",
         R"({"content":"order","role":"user"})", R"({"role":"user","content":"plain"})",
         R"({"role":"tool","content":"order","tool_call_id":"c"})", R"({"role":"tool","content":""})",
         R"({"role":"tool","tool_call_id":"","content":""})", R"({"role":"User","content":"hi"})", "{}"}) {
        const auto made = message::from(json::parse(text).as_object());
        CHECK(json::serialize(made.item()) == text);
        CHECK(json::serialize(round_trip(made).item()) == text);
        const auto stored = detail::message_access::to_json(made);
        CHECK(json::serialize(detail::message_access::from_json(stored, 32, "a text").item()) == text);
    }
    CHECK(message::from({{"role", "User"}}).role() == role::user);
    CHECK(message::from({{"role", "critic"}}).role() == role::other);
    CHECK(message::from({{"role", "model"}}).role() == role::model);
    CHECK_FALSE(message::from({{"type", "reasoning"}}).role());
}

TEST_CASE("the form of earlier versions is read: id and time among the members of the item")
{
    const auto read = json::value_to<message>(json::parse(
        R"({"id":"7","role":"assistant","content":"on it","model":"m","timestamp":"2026-01-01T00:00:00.123456789Z",
            "tool_calls":[{"id":"c1","name":"search","arguments":{"q":1},"note":"mine"}]})"));
    CHECK(read.id() == "7");
    CHECK(read.timestamp().time_since_epoch().count() % 1'000'000 == 123456);
    CHECK(
        json::serialize(read.item()) ==
        R"({"role":"assistant","content":"on it","model":"m","tool_calls":[{"id":"c1","name":"search","arguments":{"q":1},"note":"mine"}]})");
    REQUIRE(read.tool_calls().size() == 1);
    CHECK(read.tool_calls()[0].arguments() == json::object{{"q", 1}});
    const auto result = json::value_to<message>(json::parse(
        R"({"id":"8","role":"tool","content":"found","tool_call_id":"c1","timestamp":"2026-01-01T00:00:00Z"})"));
    CHECK(result.item() == message::tool_result("c1", "found").item());
    CHECK(json::value_to<message>(json::parse(R"({"role":"user","content":"","id":7})")).item().at("id") ==
          7);
}

TEST_CASE("bad text and numbers are refused when the message is made")
{
    CHECK(refusal([] { message::user("ok so far \xff"); }).find("byte 10") != std::string::npos);
    CHECK(refusal([] { message::tool_result("\xc3", ""); }).find("tool_call_id") != std::string::npos);
    CHECK(refusal([] { tool_call("i", "n", std::nan("")); }).find("NaN") != std::string::npos);
    CHECK(
        refusal([] {
            tool_call("i", "n", json::object{{"bad", json::array{std::numeric_limits<double>::infinity()}}});
        }).find("'bad'") != std::string::npos);
    CHECK(refusal([] { message::from({{"k", "\xed\xa0\x80"}}); }).find("UTF-8") != std::string::npos);
    CHECK(refusal([] { part::text("\xff"); }).find("UTF-8") != std::string::npos);
    CHECK(refusal([] { json::value_to<message>(json::value(3)); }).find("object") != std::string::npos);
    CHECK(refusal([] {
              json::value_to<message>(json::value{{"content", "x"}});
          }).find("'item'") != std::string::npos);
    CHECK(refusal([] {
              json::value_to<message>(json::value{{"item", json::object()}, {"content", "x"}});
          }).find("'content'") != std::string::npos);
    CHECK(refusal([] {
              json::value_to<message>(json::value{{"role", "user"}, {"timestamp", "yesterday"}});
          }).find("RFC 3339") != std::string::npos);
}

TEST_CASE("values leave the memory resource they came in")
{
    json::monotonic_resource arena;
    json::value inside(json::object{{"k", json::array{1, 2, 3}}}, &arena);
    const auto kept = tool_call("i", "n", std::move(inside));
    CHECK(kept.arguments().storage()->is_equal(*json::storage_ptr()));
    CHECK(kept.arguments().at("k").storage()->is_equal(*json::storage_ptr()));
    const auto in_message = message::from(json::object({{"k", json::array{1}}}, &arena));
    CHECK(in_message.item().storage()->is_equal(*json::storage_ptr()));
    CHECK(in_message.item().at("k").storage()->is_equal(*json::storage_ptr()));
}

TEST_CASE("tokens are estimated from the text")
{
    CHECK(message::user("").estimated_tokens() == 4);
    CHECK(message::user(std::string(400, 'x')).estimated_tokens() == 104);
    CHECK(message::assistant("", {tool_call("id", "name", std::string(92, 'x'))}).estimated_tokens() == 29);
}

TEST_CASE("tokens are counted by a tokenizer of one's own, wherever there is text")
{
    const auto letters = [](std::string_view text) { return text.size(); };
    CHECK(message::user("").estimated_tokens(letters) == 4);
    CHECK(message::user("four").estimated_tokens(letters) == 8);
    CHECK(message::tool_result("id", "four").estimated_tokens(letters) == 10);
    const auto call = message::assistant("hi", {tool_call("id", "name", {{"a", 1}})});
    CHECK(call.estimated_tokens(letters) == 4 + 2 + 2 + 4 + std::string_view(R"({"a":1})").size());
    const auto picture =
        message::user({part::text("look"), part::media("image/png", std::string(9'000, 'p'))});
    CHECK(picture.estimated_tokens(letters) == 4 + 4 + 1600);
    const auto result = message::from({{"role", "user"},
                                       {"content",
                                        {{{"type", "tool_result"},
                                          {"tool_use_id", "t"},
                                          {"content", {{{"type", "text"}, {"text", "four"}}}}},
                                         {{"type", "thinking"}, {"thinking", "hm"}, {"signature", "s"}}}}});
    CHECK(result.estimated_tokens(letters) == 4 + 1 + 4 + 2);
    const auto unknown = json::object{{"foo", 1}};
    CHECK(message::from(unknown).estimated_tokens(letters) == 4 + json::serialize(unknown).size());
    conversation chat(20);
    for (int i = 0; i < 5; ++i)
        chat.push(message::user("four"));
    CHECK(chat.window([&](const message& said) { return said.estimated_tokens(letters); }).size() == 2);
}

TEST_CASE("media count as media, wherever an API has them")
{
    const std::string image(400'000, 'A');
    const auto tokens = [](json::value item) {
        return message::from(std::move(item).as_object()).estimated_tokens();
    };
    CHECK(tokens({{"type", "computer_call_output"},
                  {"call_id", "c"},
                  {"output",
                   {{"type", "computer_screenshot"}, {"image_url", "data:image/png;base64," + image}}}}) <
          1'700);
    CHECK(tokens({{"type", "image_generation_call"}, {"id", "i"}, {"result", image}}) < 1'700);
    const auto response = message::from(
        {{"role", "user"},
         {"parts",
          {{{"functionResponse",
             {{"name", "f"},
              {"response", {{"type", "text"}, {"x", 1}}},
              {"parts", {{{"inlineData", {{"mimeType", "image/png"}, {"data", image}}}}}}}}}}}});
    CHECK(response.estimated_tokens() > 1'600);
    CHECK(response.estimated_tokens() < 1'700);
    const auto parts = response.tool_results().at(0).parts();
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].text() == R"({"type":"text","x":1})"); // an object of the tool's, whatever is in it
    CHECK(parts[1].media_bytes() == 300'000);
    const auto document =
        message::from({{"role", "user"},
                       {"content",
                        {{{"type", "document"},
                          {"source", {{"type", "content"}, {"content", std::string(4'000, 'x')}}}}}}});
    CHECK(document.estimated_tokens() == 1'004);
    const auto screenshot = message::from(
        {{"type", "computer_call_output"},
         {"call_id", "c"},
         {"output", {{"type", "computer_screenshot"}, {"image_url", "data:image/png;base64," + image}}}});
    CHECK(screenshot.tool_results().at(0).parts().at(0).kind() == part_kind::media);
}

TEST_CASE("reasoning that a server has in details is reasoning")
{
    const auto said = message::from(
        {{"role", "assistant"},
         {"content", "a"},
         {"reasoning_details",
          {{{"type", "reasoning.text"}, {"text", "hm"}}, {{"type", "reasoning.encrypted"}, {"data", "x"}}}}});
    REQUIRE(said.parts().size() == 3);
    CHECK(said.parts()[0].kind() == part_kind::reasoning);
    CHECK(said.parts()[0].text() == "hm");
    CHECK(said.parts()[1].kind() == part_kind::reasoning);
    CHECK(said.text() == "a");
}

TEST_CASE("an item of which nothing is known is one part")
{
    const auto unknown = message::from({{"foo", 1}});
    REQUIRE(unknown.parts().size() == 1);
    CHECK(unknown.parts()[0].kind() == part_kind::other);
    CHECK(unknown.parts()[0].json() == json::value(unknown.item()));
    CHECK_FALSE(unknown.role());
    CHECK(message::from(json::object{}).parts().empty());
}

TEST_CASE("roles, kinds and times have names")
{
    CHECK(to_string(role::system) == "system");
    CHECK(to_string(role::tool) == "tool");
    CHECK(to_string(role::other) == "other");
    std::string kinds;
    for (const auto kind : {part_kind::text, part_kind::reasoning, part_kind::tool_call,
                            part_kind::tool_result, part_kind::media, part_kind::other})
        kinds.append(to_string(kind)).append(" ");
    CHECK(kinds == "text reasoning tool_call tool_result media other ");
    CHECK(to_string(timestamp{}) == "1970-01-01T00:00:00.000000Z");
}

TEST_CASE("media come out as the bytes that went in")
{
    std::string bytes;
    for (int size = 0; size < 300; ++size) {
        const auto made = part::media("image/png", bytes);
        CHECK(made.media_content() == bytes);
        CHECK(made.media_bytes() == bytes.size());
        bytes += static_cast<char>(size * 7);
    }
    const auto content_of = [](const char* data) {
        const auto sent =
            message::from({{"parts", {{{"inlineData", {{"mimeType", "image/png"}, {"data", data}}}}}}});
        return sent.parts().at(0).media_content();
    };
    CHECK(content_of("_-8=") == "\xff\xef"); // the alphabet for URLs
    CHECK(content_of("YW\r\nJj\n") == "abc");
    CHECK(content_of("YWI") == "ab"); // not padded
    CHECK_THROWS_AS(content_of("a b"), error);
    CHECK_THROWS_AS(content_of("YWJjZ"), error);
    CHECK(part::media_url("https://example.com/a.png").media_content().empty());
}

TEST_CASE("a message is written for stores as Boost.JSON writes it, and read as Boost.JSON reads it")
{
    std::string every_byte;
    for (char c = 1; c > 0 && c < 127; ++c)
        every_byte += c;
    every_byte += std::string("\0", 1) + "\x7f\u00e4\u20ac\U0001f600";
    const std::vector<message> messages = {
        message::user(""),
        message::system(every_byte),
        message::tool_result("call \"1\"\n", every_byte),
        message::assistant("text", {tool_call("c", "name", {{"x", every_byte}})}),
        message::from({{"role", "user"}, {"content", "extra"}, {"cache", true}}),
        message::user("no id").with_id("").with_timestamp({}),
        json::value_to<message>(json::parse(R"({"role": "critic", "content": [{"text": "parts"}]})")),
    };
    for (const auto& value : messages) {
        const auto text = detail::message_access::to_json(value);
        CHECK(text == json::serialize(json::value_from(value)));
        CHECK(detail::message_access::from_json(text, 32, "a text") == value);
    }
}

TEST_CASE("a text that is nearly of the usual form is read as Boost.JSON reads it")
{
    const std::string usual =
        R"({"id":"7","timestamp":"2026-03-01T09:30:00.000250Z","item":{"role":"tool","tool_call_id":"c","content":"a \"b\\\n\u0001"}})";
    const auto by_document = [](const std::string& text) -> std::optional<message> {
        try {
            return json::value_to<message>(json::parse(text));
        } catch (const std::exception&) {
            return std::nullopt;
        }
    };
    const auto by_text = [](const std::string& text) -> std::optional<message> {
        try {
            return detail::message_access::from_json(text, 32, "a text");
        } catch (const error&) {
            return std::nullopt;
        }
    };
    REQUIRE(by_text(usual));
    CHECK(by_text(usual)->text() == "a \"b\\\n\x01");
    for (std::size_t at = 0; at < usual.size(); ++at) {
        for (const auto* other : {"", "\"", "\\", ",", "}", "x", "0", "6", "T", " ", "\\u00e4", "\\/", "\t",
                                  "\x01", "\\u000A", "\\u004a"}) {
            auto text = usual;
            text.replace(at, 1, other);
            CAPTURE(text);
            CHECK(by_text(text) == by_document(text));
        }
        CHECK(by_text(usual.substr(0, at)) == std::nullopt);
    }
}
