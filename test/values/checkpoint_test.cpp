#include "catch.hpp"
#include "refusal.hpp"
#include "with_member.hpp"

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>
#include <waymark/step.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <set>

using namespace waymark;
using test::refusal;
namespace json = boost::json;

namespace {

std::string read_file(const std::string& name)
{
    std::ifstream file(std::string(WAYMARK_TEST_DATA) + "/" + name);
    REQUIRE(file.good());
    return {std::istreambuf_iterator<char>(file), {}};
}

checkpoint round_trip(const checkpoint& original)
{
    return checkpoint::from_bytes(original.to_bytes());
}

std::string with_member(const std::string& member)
{
    return R"({"id":"i","agent_id":"a","created_at":"2026-01-01T00:00:00Z",)" + member + "}";
}

json::value nested(std::size_t depth)
{
    json::value inner = 0;
    for (std::size_t i = 0; i < depth; ++i)
        inner = json::array{inner};
    return inner;
}

} // namespace

TEST_CASE("a new checkpoint has an id, a time and what it was given")
{
    const auto chat = conversation(100'000).with_system_prompt("test");
    const checkpoint made("agent-1", chat, 5);
    CHECK(made.agent_id() == "agent-1");
    CHECK(made.iteration() == 5);
    CHECK(made.id().size() == 36);
    CHECK(made.conversation() == chat);
    CHECK(made.scope().empty());
    CHECK(!made.parent_id());
    CHECK(made.sequence() == 0);
    CHECK(now() - made.created_at() < std::chrono::minutes(1));

    std::set<std::string> ids;
    for (int i = 0; i < 1'000; ++i)
        ids.insert(random_id());
    CHECK(ids.size() == 1'000);
}

TEST_CASE("with_ functions change the object and return it")
{
    auto made =
        checkpoint("a").with_name("n").with_metadata("phase", std::string("execute")).with_metadata("n", 1);
    made.with_scope("s").with_parent("p").with_iteration(3);
    CHECK(made.name() == "n");
    CHECK(made.metadata().at("phase") == "execute");
    CHECK(made.scope() == "s");
    CHECK(made.parent_id() == "p");
    CHECK(made.iteration() == 3);
}

TEST_CASE("copies share their state")
{
    const auto original = checkpoint("a").with_state({{"file", std::string(1'000'000, 'x')}});
    auto copy = original;
    CHECK(&copy.state() == &original.state());
    CHECK(copy.shares_state(original));
    copy.with_state({{"file", "y"}});
    CHECK(original.state().at("file").get_string().size() == 1'000'000);
    CHECK_FALSE(copy == original);
}

TEST_CASE("a checkpoint survives the round trip through bytes")
{
    conversation chat(10);
    chat.push(test::with_member(message::assistant("é \xf0\x9f\xa7\xad", {tool_call("c", "t", 1.5)}), "x",
                                nullptr));
    const auto original = checkpoint("agent", chat, std::numeric_limits<std::int64_t>::min())
                              .with_id(std::string(255, 'i'))
                              .with_scope("scope")
                              .with_parent("parent")
                              .with_name("name")
                              .with_sequence(std::numeric_limits<std::int64_t>::max())
                              .with_state({{"max", 18446744073709551615u},
                                           {"min", std::numeric_limits<std::int64_t>::min()},
                                           {"above", 9223372036854775808u},
                                           {"nul", std::string_view("\0", 1)},
                                           {"\0key", 1},
                                           {"negative zero", -0.0},
                                           {"denormal", 5e-324},
                                           {"largest", std::numeric_limits<double>::max()}})
                              .with_metadata("m", json::array{nullptr, true, "text"})
                              .with_created_at(timestamp(std::chrono::microseconds(1'234'567'890'123'456)));
    const auto copy = round_trip(original);
    CHECK(copy == original);
    CHECK(copy.sequence() == original.sequence());
    CHECK(copy.state().at("max").is_uint64());
    CHECK(copy.state().at("max").get_uint64() == 18446744073709551615u);
    CHECK(std::signbit(copy.state().at("negative zero").get_double()));
    CHECK(round_trip(checkpoint("a")).conversation().empty());

    const checkpoint_header header(original);
    CHECK(json::value_to<checkpoint_header>(json::value_from(checkpoint_header(header).with_pinned(true))) ==
          checkpoint_header(header).with_pinned(true));
    const auto recorded = step("a", "s", "k").with_checkpoint("c").with_result(json::object{{"r", 2}});
    CHECK(json::value_to<step>(json::value_from(recorded)) == recorded);
    CHECK_FALSE(json::value_to<step>(json::value_from(step("a", "s", "k"))).done());
}

TEST_CASE("every double and every 64-bit integer comes back as it was")
{
    std::mt19937_64 random(1);
    json::array numbers;
    for (int i = 0; i < 100'000; ++i) {
        const auto bits = random();
        double real;
        std::memcpy(&real, &bits, sizeof real);
        if (std::isfinite(real))
            numbers.emplace_back(real);
        numbers.emplace_back(bits);
        numbers.emplace_back(static_cast<std::int64_t>(bits));
    }
    const auto original = checkpoint("a").with_state({{"numbers", numbers}});
    const auto copy = round_trip(original);
    const auto& read = copy.state().at("numbers").get_array();
    REQUIRE(read.size() == numbers.size());
    for (std::size_t i = 0; i < read.size(); ++i)
        if (!(read[i] == numbers[i]) || read[i].is_double() != numbers[i].is_double())
            FAIL("number " << i << " was " << json::serialize(numbers[i]) << ", is "
                           << json::serialize(read[i]));
}

TEST_CASE("numbers and text that cannot be kept are refused by name")
{
    const auto read = [](const std::string& text) { return [text] { checkpoint::from_bytes(text); }; };
    CHECK(refusal(read(with_member(R"("state":{"n":18446744073709551616})"))).find("18446744073709551616") !=
          std::string::npos);
    CHECK(refusal(read(with_member(R"("state":{"n":-9223372036854775809})"))).find("64 bits") !=
          std::string::npos);
    CHECK(refusal(read(with_member(R"("state":{"n":1e400})"))).find("1e400") != std::string::npos);
    CHECK(refusal(read(with_member(R"("state":{"n":NaN})"))).find("not JSON") != std::string::npos);
    CHECK(refusal(read(with_member("\"state\":{\"n\":\"\xff\"}"))).find("byte") != std::string::npos);
    CHECK(refusal(read(with_member(R"("state":{"n":"\ud800"})"))).find("not JSON") != std::string::npos);
    CHECK(refusal(read("")).find("not JSON") != std::string::npos);
    CHECK(refusal(read("{}  x")).find("byte") != std::string::npos);
    CHECK(refusal(read("[]")).find("object") != std::string::npos);
    CHECK(refusal(read(with_member(R"("iteration":1.5)"))).find("'iteration'") != std::string::npos);
    CHECK(refusal(read(with_member(R"("iteration":9223372036854775808)"))).find("'iteration'") !=
          std::string::npos);
    CHECK(refusal(read(with_member(R"("colour":"red")"))).find("'colour'") != std::string::npos);
    CHECK(refusal(read(R"({"agent_id":"a"})")).find("'id'") != std::string::npos);
    CHECK(refusal(read(R"({"id":"i","agent_id":"a","created_at":"soon"})")).find("'created_at'") !=
          std::string::npos);

    CHECK(refusal([] {
              checkpoint("a").with_state({{"bad", std::nan("")}}).to_bytes();
          }).find("'bad'") != std::string::npos);
    CHECK(refusal([] { checkpoint("a\xff").to_bytes(); }).find("agent id") != std::string::npos);
    CHECK(refusal([] { checkpoint("").to_bytes(); }).find("agent id") != std::string::npos);
    CHECK(refusal([] { checkpoint("a").with_name("x\ny\xff").to_bytes(); }).find("name") !=
          std::string::npos);
    // Very small numbers are zero, as everywhere.
    CHECK(checkpoint::from_bytes(with_member(R"("state":{"n":1e-400})")).state().at("n").get_double() == 0);
}

TEST_CASE("depth and size have the same bounds on the way in and on the way out")
{
    const auto bounds = limits().with_max_depth(10).with_max_message_bytes(100).with_max_state_bytes(200);
    const auto deep = [](std::size_t depth) {
        return checkpoint("a").with_state({{"d", nested(depth - 1)}});
    };
    const auto edge = deep(10);
    CHECK(checkpoint::from_bytes(edge.to_bytes(bounds), bounds) == edge);
    CHECK(refusal([&] { deep(11).to_bytes(bounds); }).find("max_depth") != std::string::npos);
    const auto too_deep = deep(11).to_bytes();
    CHECK(refusal([&] { checkpoint::from_bytes(too_deep, bounds); }).find("max_depth") != std::string::npos);
    CHECK(refusal([&] { checkpoint::from_bytes(deep(40).to_bytes(), bounds); }).find("18 levels") !=
          std::string::npos);

    conversation long_message;
    long_message.push(message::user(std::string(101, 'x')));
    const checkpoint too_long("a", long_message);
    CHECK(refusal([&] { too_long.to_bytes(bounds); }).find("max_message_bytes") != std::string::npos);
    const auto bytes = too_long.to_bytes();
    CHECK(refusal([&] { checkpoint::from_bytes(bytes, bounds); }).find("max_message_bytes") !=
          std::string::npos);
    CHECK(refusal([&] {
              checkpoint("a").with_state({{"s", std::string(200, 'x')}}).to_bytes(bounds);
          }).find("max_state_bytes") != std::string::npos);
    CHECK(refusal([&] {
              checkpoint::from_bytes(bytes, limits().with_max_document_bytes(bytes.size() - 1));
          }).find("max_document_bytes") != std::string::npos);
    CHECK(refusal([&] {
              too_long.to_bytes(limits().with_max_document_bytes(bytes.size() - 1));
          }).find("max_document_bytes") != std::string::npos);
    CHECK(checkpoint::from_bytes(bytes, limits().with_max_document_bytes(bytes.size())) == too_long);

    // Containers count, however empty; so does what a conversation holds besides messages.
    CHECK(refusal([&] {
              checkpoint("a").with_state({{"s", json::array(50, json::array())}}).to_bytes(bounds);
          }).find("max_state_bytes") != std::string::npos);
    const auto extra = conversation().with_extra("x", std::string(limits().max_metadata_bytes(), 'x'));
    CHECK(refusal([&] { checkpoint("a", extra).to_bytes(); }).find("max_metadata_bytes") !=
          std::string::npos);
    CHECK(refusal([] { limits().with_max_depth(limits::highest_max_depth + 1); }).find("1001") !=
          std::string::npos);
    const auto highest = limits().with_max_depth(limits::highest_max_depth);
    const auto very_deep = deep(limits::highest_max_depth);
    CHECK(checkpoint::from_bytes(very_deep.to_bytes(highest), highest) == very_deep);

    // The deepest place there is: a tool call's arguments, at the default limit.
    conversation calls;
    calls.push(message::from({{"type", "x"}, {"a", nested(limits().max_depth() + 3)}}));
    const checkpoint deepest("a", calls);
    CHECK(round_trip(deepest) == deepest);
}

TEST_CASE("a newer format is refused")
{
    CHECK(refusal([] { checkpoint::from_bytes(with_member(R"("waymark":3)")); }, errc::unsupported_format)
              .find("format 3") != std::string::npos);
}

TEST_CASE("messages about foreign text escape what a terminal would obey")
{
    const auto text = refusal([] { checkpoint("a").with_id(std::string("\x1b[31m\n\0", 7)).to_bytes(); });
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find("\\x1b[31m\\x0a\\x00") != std::string::npos);
    CHECK(refusal([] { checkpoint(std::string(100'000, 'x')).to_bytes(); }).size() < 300);
}

TEST_CASE("times are read and written as in RFC 3339")
{
    const auto read = [](const std::string& time) {
        return checkpoint::from_bytes(R"({"id":"i","agent_id":"a","created_at":")" + time + "\"}")
            .created_at();
    };
    using namespace std::chrono;
    const timestamp noon = sys_days{2024y / February / 29} + 12h;
    CHECK(read("2024-02-29T12:00:00Z") == noon);
    CHECK(read("2024-02-29T12:00:00.5Z") == noon + 500ms);
    CHECK(read("2024-02-29t14:30:00.000001+02:30") == noon + 1us);
    CHECK(read("2024-02-29T00:00:00-12:00") == noon);
    CHECK(read("2016-12-31T23:59:60Z") == sys_days{2017y / January / 1}); // a leap second
    CHECK(read("0000-01-01T00:00:00Z") == sys_days{0y / January / 1});
}

TEST_CASE("times that are none are refused")
{
    for (const auto* bad : {"", "2024", "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z",
                            "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z", "2024-01-01T00:00:00",
                            "2024-01-01T00:00:00.Z", "2024-01-01T00:00:00Zx", "2024-01-01T00:00:00+24:00",
                            "0000-01-01T00:00:00+01:00", "+2024-01-01T00:00:00Z", "2024-1-1T00:00:00Z"})
        CHECK(refusal([&] {
                  checkpoint::from_bytes(std::string(R"({"id":"i","agent_id":"a","created_at":")") + bad +
                                         "\"}");
              }).find("RFC 3339") != std::string::npos);
    for (const auto time : {timestamp::min(), timestamp::max()})
        CHECK(refusal([&] { checkpoint("a").with_created_at(time).to_bytes(); }).find("9999") !=
              std::string::npos);
}

TEST_CASE("a smooth-operator checkpoint is read")
{
    const auto read = checkpoint::from_bytes(read_file("smooth_operator_checkpoint.json"));
    CHECK(read.id() == "0b8f7c1e-5d55-4b7e-9a36-0c2a6d1f3e10");
    CHECK(read.agent_id() == "agent-1");
    CHECK(read.iteration() == 42);
    CHECK(read.metadata().at("bead_id") == "smooth-abc");
    CHECK(read.created_at().time_since_epoch().count() % 1'000'000 == 987654);
    REQUIRE(read.conversation().size() == 4);
    CHECK(read.conversation()[0].role() == role::system);
    CHECK(read.conversation()[2].tool_calls().at(0).arguments().at("command") == "ls");
    CHECK(read.conversation().unanswered_tool_calls().empty());
    CHECK(read.conversation().max_tokens() == 100'000);
    CHECK(read.conversation().extra().at("max_context_tokens") == 100000);
    CHECK(round_trip(read) == read);
}

TEST_CASE("a Breakpilot export is read")
{
    const auto read = checkpoints_from_breakpilot(read_file("breakpilot_export.json"), "grader");
    REQUIRE(read.size() == 3);
    CHECK(read[0].id() == "session-7:1");
    CHECK(read[0].agent_id() == "grader");
    CHECK(read[0].name() == "task_started");
    CHECK(read[1].state().at("ratio").get_double() == 0.30000000000000004);
    CHECK(read[1].metadata().at("attempt") == 2);
    CHECK(read[2].created_at() - read[1].created_at() ==
          std::chrono::milliseconds(500) + std::chrono::hours(0));
    CHECK(read[2].state().at("done").get_array().size() == 2);
    CHECK(refusal([] { checkpoints_from_breakpilot("{}", "a"); }).find("array") != std::string::npos);
    CHECK(refusal([] { checkpoints_from_breakpilot(R"([{"id":"x"}])", "a"); }).find("entry 0") !=
          std::string::npos);
    CHECK(refusal([] { checkpoints_from_breakpilot("[]", ""); }).find("agent id") != std::string::npos);
    CHECK(checkpoints_from_breakpilot("[]", "a").empty());
    const std::string entry = R"({"id":"s:1","name":"n","timestamp":"2026-01-15T10:00:00Z","data":{}})";
    CHECK(refusal([&] {
              checkpoints_from_breakpilot("[" + entry + "," + entry + "]", "a");
          }).find("entry 0") != std::string::npos); // saving both would lose one
}
