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

TEST_CASE("a message knows its role and parts")
{
    const auto question = message::user("why?");
    CHECK(question.role() == role::user);
    CHECK(question.content() == "why?");
    CHECK(question.id().size() == 36);
    CHECK(now() - question.timestamp() < std::chrono::minutes(1));
    CHECK(message::system("s").role() == role::system);
    CHECK(message::assistant("a").role() == role::assistant);

    const auto call = message::assistant("", {tool_call("c1", "search", json::object{{"q", "x"}})});
    REQUIRE(call.tool_calls().size() == 1);
    CHECK(call.tool_calls()[0].name() == "search");
    const auto result = message::tool_result("c1", "found");
    CHECK(result.role() == role::tool);
    CHECK(result.tool_call_id() == "c1");
}

TEST_CASE("copies of a message share their content, and with_* leaves them alone")
{
    const auto original = message::user("text");
    auto copy = original;
    CHECK(&copy.content() == &original.content());
    copy.with_extra("key", std::string("value")).with_id("other");
    CHECK(copy.id() == "other");
    CHECK(copy.extra().at("key") == "value");
    CHECK(original.extra().empty());
    CHECK_FALSE(copy == original);
}

TEST_CASE("a message survives the round trip through JSON")
{
    const auto original =
        message::assistant(std::string("zero \0, quote \", é, 🧭, \x01", 28),
                           {tool_call("c1", "t", json::parse(R"({"a": [1, 2.5, {"b": null}]})"))
                                .with_extra("type", "function"),
                            tool_call("c2", "u", "plain text")})
            .with_extra("model", "m")
            .with_extra("usage",
                        json::object{{"in", 18446744073709551615u}, {"out", -9223372036854775807 - 1}})
            .with_timestamp(timestamp(std::chrono::microseconds(-1)));
    CHECK(round_trip(original) == original);
    for (const auto& other :
         {message::system(""), message::user("\xf4\x8f\xbf\xbf"), message::tool_result("x", "y")})
        CHECK(round_trip(other) == other);
}

TEST_CASE("what a message does not model is kept and written back")
{
    const auto text = R"({"role":"developer","content":[{"type":"text","text":"hi"}],"id":7,"tool_calls":null,
        "timestamp":"2026-01-01T00:00:00.123456789Z","refusal":null,"x":{"y":[]}})";
    const auto parsed = json::parse(text);
    const auto read = json::value_to<message>(parsed);
    CHECK(read.role() == role::other);
    CHECK(read.content() == "hi"); // the text of its parts
    CHECK(read.timestamp().time_since_epoch().count() % 1'000'000 == 123456);
    const auto written = json::value_from(read);
    CHECK(written == parsed);

    // So is what is empty and would not be written otherwise.
    const auto empties = json::parse(
        R"({"role":"tool","content":"","id":"","tool_calls":[],"tool_call_id":"","timestamp":"1970-01-01T00:00:00.000000Z"})");
    CHECK(json::value_from(json::value_to<message>(empties)) == empties);

    // Roles in another case are understood, and stay as they were.
    const auto shouted = json::parse(R"({"role":"User","content":"hi"})");
    CHECK(json::value_to<message>(shouted).role() == role::user);
    CHECK(json::value_from(json::value_to<message>(shouted)) == shouted);
}

TEST_CASE("tool calls in the form of OpenAI's API are found, and stay as they were")
{
    const auto text = R"({"role":"assistant","content":null,"tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"search","arguments":"{\"q\":1}"}}]})";
    const auto parsed = json::parse(text);
    const auto read = json::value_to<message>(parsed);
    REQUIRE(read.tool_calls().size() == 1);
    CHECK(read.tool_calls()[0].name() == "search");
    CHECK(read.tool_calls()[0].arguments() == "{\"q\":1}");
    CHECK(json::value_from(read) == parsed);
    CHECK(round_trip(read) == read);
}

TEST_CASE("an extra member cannot take the place of a modelled one")
{
    for (const auto* key : {"id", "role", "content", "tool_calls", "tool_call_id", "timestamp"})
        CHECK(refusal([&] { message::user("x").with_extra(key, 5); }).find(key) != std::string::npos);
    for (const auto* key : {"id", "name", "arguments"})
        CHECK(refusal([&] { tool_call("i", "n").with_extra(key, 5); }).find(key) != std::string::npos);

    // Setting a field replaces what was read in another shape.
    auto read = json::value_to<message>(
        json::parse(R"({"role":"user","content":"","id":7,"timestamp":"2026-02-03T04:05:07Z"})"));
    read.with_timestamp(timestamp(std::chrono::hours(1))).with_id("mine");
    CHECK(round_trip(read).timestamp() == timestamp(std::chrono::hours(1)));
    CHECK(round_trip(read).id() == "mine");
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
    CHECK(refusal([] { message::user("").with_extra("k", "\xed\xa0\x80"); }).find("UTF-8") !=
          std::string::npos);
    CHECK(refusal([] { json::value_to<message>(json::value(3)); }).find("object") != std::string::npos);
    CHECK(refusal([] {
              json::value_to<message>(json::value{{"content", "x"}});
          }).find("'role'") != std::string::npos);
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
    const auto in_message =
        message::user("").with_extra("k", json::value(json::object{{"l", json::array{1}}}, &arena));
    CHECK(in_message.extra().at("k").storage()->is_equal(*json::storage_ptr()));
}

TEST_CASE("tokens are estimated from the text")
{
    CHECK(message::user("").estimated_tokens() == 4);
    CHECK(message::user(std::string(400, 'x')).estimated_tokens() == 104);
    CHECK(message::assistant("", {tool_call("id", "name", std::string(94, 'x'))}).estimated_tokens() == 29);
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
        message::user("extra").with_extra("cache", true),
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
        R"({"id":"7","role":"user","content":"a \"b\\\n\u0001","tool_call_id":"c","timestamp":"2026-03-01T09:30:00.000250Z"})";
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
    CHECK(by_text(usual)->content() == "a \"b\\\n\x01");
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
