//! Strategies, queries and retention: decisions without I/O.
#include "catch.hpp"

#include <waymark/error.hpp>
#include <waymark/query.hpp>
#include <waymark/retention.hpp>
#include <waymark/step.hpp>
#include <waymark/strategy.hpp>

#include <boost/json/parse.hpp>

#include <limits>

using namespace waymark;
namespace json = boost::json;
using namespace std::chrono_literals;

TEST_CASE("the default strategy is after a tool call")
{
    const strategy chosen;
    CHECK(chosen.should_checkpoint(1, event::tool_call_complete));
    CHECK_FALSE(chosen.should_checkpoint(1, event::llm_response));
    CHECK_FALSE(chosen.should_checkpoint(1, event::iteration));
    CHECK(strategy::after_tool_call().should_checkpoint(1, event::tool_call_complete));
}

TEST_CASE("every_n matches all events of every n-th iteration")
{
    const auto chosen = strategy::every_n(3);
    CHECK_FALSE(chosen.should_checkpoint(1, event::iteration));
    CHECK_FALSE(chosen.should_checkpoint(2, event::iteration));
    CHECK(chosen.should_checkpoint(3, event::iteration));
    CHECK(chosen.should_checkpoint(6, event::llm_response));
    CHECK(chosen.should_checkpoint(0, event::tool_call_complete));
    CHECK(chosen.should_checkpoint(-3, event::iteration));
    CHECK_FALSE(chosen.should_checkpoint(-4, event::iteration));
    CHECK(strategy::every_n(2).should_checkpoint(std::numeric_limits<std::int64_t>::min(), event::iteration));
    try {
        strategy::every_n(0);
        FAIL("accepted");
    } catch (const error& refusal) {
        CHECK(refusal.code() == errc::invalid_argument);
        CHECK(std::string(refusal.what()).find("every_n(0)") != std::string::npos);
    }
}

TEST_CASE("the other strategies")
{
    CHECK(strategy::after_llm_response().should_checkpoint(1, event::llm_response));
    CHECK_FALSE(strategy::after_llm_response().should_checkpoint(1, event::tool_call_complete));
    for (const auto what : {event::iteration, event::llm_response, event::tool_call_complete})
        CHECK_FALSE(strategy::never().should_checkpoint(1, what));
    const auto late = strategy::when([](std::int64_t iteration, event) { return iteration > 10; });
    CHECK(late.should_checkpoint(11, event::iteration));
    CHECK_FALSE(strategy(late).should_checkpoint(10, event::iteration));
    CHECK_THROWS_AS(strategy::when(nullptr), error);
}

TEST_CASE("strategies and events have JSON, for configuration files")
{
    for (const auto* text :
         {R"("after_tool_call")", R"("after_llm_response")", R"("never")", R"({"every_n":7})"})
        CHECK(json::value_from(json::value_to<strategy>(json::parse(text))) == json::parse(text));
    for (const auto* text : {R"("sometimes")", "3", R"({"every_n":0})", R"({"every_n":1,"x":2})", "{}"})
        CHECK_THROWS_AS(json::value_to<strategy>(json::parse(text)), error);
    CHECK_THROWS_AS(json::value_from(strategy::when([](auto, auto) { return true; })), error);
    for (const auto what : {event::iteration, event::llm_response, event::tool_call_complete})
        CHECK(json::value_to<event>(json::value_from(what)) == what);
    CHECK_THROWS_AS(json::value_to<event>(json::value("later")), error);
}

TEST_CASE("a query needs an agent, or says that it means all")
{
    CHECK_THROWS_AS(query(""), error);
    CHECK_FALSE(query::all_agents().agent_id());
    CHECK_THROWS_AS(query::all_agents().before("x").validate(), error);
    CHECK_THROWS_AS(query("a").metadata("k", "\xff").validate(), error);
}

TEST_CASE("what is asked for is checked as what is saved")
{
    const std::string with_nul("a\0b", 3);
    CHECK_THROWS_AS(step_query("agent").scope(with_nul), error);
    CHECK_THROWS_AS(step_query("agent").key(with_nul), error);
    CHECK_THROWS_AS(step_query("agent").key("\xff"), error);
    CHECK_THROWS_AS(query::all_agents().after(cursor(with_nul, 1)).validate(), error);
}

TEST_CASE("queries survive the round trip through JSON")
{
    const auto everything = query("a")
                                .scope("")
                                .named("n")
                                .since(timestamp(1us))
                                .between(timestamp(2us), timestamp(3us))
                                .before("b")
                                .metadata("k", 1)
                                .metadata("k", "x")
                                .limit(5)
                                .after({"a", 9})
                                .oldest_first();
    for (const auto& original : {everything, query("a"), query::all_agents()}) {
        const auto written = json::value_from(original);
        CHECK(json::value_from(json::value_to<query>(written)) == written);
    }
    CHECK(json::value_to<query>(json::value_from(everything)).metadata().size() == 2);
    CHECK_THROWS_AS(json::value_to<query>(json::parse(R"({"agent":"a"})")), error);
    CHECK_THROWS_AS(json::value_to<query>(json::parse(R"({"between":["x"]})")), error);
}

namespace {

std::vector<retention_candidate> aged(std::size_t count)
{
    std::vector<retention_candidate> list;
    for (std::size_t i = 0; i < count; ++i)
        list.push_back({timestamp(std::chrono::hours(i)), "n" + std::to_string(i % 2), 10, false});
    return list;
}

using indices = std::vector<std::size_t>;

} // namespace

TEST_CASE("retention selects what goes and never the head")
{
    const auto list = aged(5);
    const timestamp at = list.back().created_at;
    CHECK(retention{}.select(list, at).empty());
    CHECK(retention{}.keep_last(2).select(list, at) == indices{0, 1, 2});
    CHECK(retention{}.keep_last(0).select(list, at) == indices{0, 1, 2, 3});
    CHECK(retention{}.keep_last(9).select(list, at).empty());
    CHECK(retention{}.max_age(2h).select(list, at) == indices{0, 1});
    CHECK(retention{}.max_age(-1h).select(list, at) == indices{0, 1, 2, 3});
    CHECK(retention{}.max_age(std::chrono::microseconds::min()).select(list, at) == indices{0, 1, 2, 3});
    CHECK(retention{}.max_age(std::chrono::microseconds::max()).select(list, at).empty());
    CHECK(retention{}.max_bytes(29).select(list, at) == indices{0, 1, 2});
    CHECK(retention{}.max_bytes(30).select(list, at) == indices{0, 1});
    CHECK(retention{}.keep_last(4).max_age(3h).select(list, at) == indices{0});
    CHECK(retention{}.keep_last(1).select({}, at).empty());
    auto protected_one = list;
    protected_one[1].is_protected = true;
    CHECK(retention{}.keep_last(1).select(protected_one, at) == indices{0, 2, 3});
}

TEST_CASE("thinning keeps the first, the newest 20 and of the rest the newest of each name")
{
    const auto list = aged(60);
    const timestamp at = list.back().created_at;
    CHECK(retention{}.thin_after(60).select(list, at).empty());
    const auto gone = retention{}.thin_after(59).select(list, at);
    REQUIRE(gone.size() == 37);
    CHECK(gone.front() == 1);
    CHECK(gone.back() == 37); // 38 and 39 are the newest of their names
    CHECK(retention{}.thin_after(0).select(aged(21), at).empty());
    CHECK(retention{}.thin_after(0).select(aged(1), at).empty());
}

TEST_CASE("retention survives the round trip through JSON")
{
    for (const auto& original :
         {retention{}, retention{}.keep_last(3), retention{}.max_age(90s).max_bytes(5).thin_after(50)}) {
        const auto written = json::value_from(original);
        CHECK(json::value_from(json::value_to<retention>(written)) == written);
    }
    CHECK_THROWS_AS(json::value_to<retention>(json::parse(R"({"keep":3})")), error);
    CHECK_THROWS_AS(json::value_to<retention>(json::parse(R"({"keep_last":-3})")), error);
}
