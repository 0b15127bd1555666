//! Values are equal when their JSON is the same, byte by byte.
#include "catch.hpp"
#include "with_member.hpp"

#include <waymark/diff.hpp>
#include <waymark/step.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

using namespace waymark;
namespace json = boost::json;

namespace {

//! Pairs of values that Boost.JSON's operator == mixes up, and whether their JSON is the same.
struct look_alike {
    json::value left, right;
};

std::vector<look_alike> look_alikes()
{
    return {{0.0, -0.0},
            {json::array{1, 0.0}, json::array{1, -0.0}},
            {json::object{{"a", 1}, {"b", 2}}, json::object{{"b", 2}, {"a", 1}}},
            {json::object{{"in", {{"x", 0.0}}}}, json::object{{"in", {{"x", -0.0}}}}},
            {std::int64_t{1}, std::uint64_t{1}},
            {std::int64_t{1}, 1.0},
            {std::uint64_t{1}, 1.0},
            {std::int64_t{-1}, ~std::uint64_t{0}},
            {"1", 1},
            {nullptr, false},
            {json::array{}, json::object{}},
            {json::array{1}, json::array{1, 1}},
            {1.5, 1.5},
            {json::object{{"a", json::array{1, "x", nullptr}}},
             json::object{{"a", json::array{1, "x", nullptr}}}}};
}

template <class Value>
void check_equality(const Value& left, const Value& right)
{
    const auto left_text = json::serialize(json::value_from(left));
    const auto right_text = json::serialize(json::value_from(right));
    INFO(left_text << " and " << right_text);
    CHECK((left == right) == (left_text == right_text));
    CHECK((right == left) == (left_text == right_text));
    CHECK(left == left);
}

} // namespace

TEST_CASE("values are equal when their JSON is the same, byte by byte")
{
    const auto call = [](const json::value& value) { return tool_call("id", "name", value); };
    const auto text = message::user("text");
    const auto chat_with = [&](const json::value& value) {
        conversation chat;
        chat.push(test::with_member(text, "k", value));
        return chat;
    };
    const auto point = checkpoint("agent").with_id("c");
    for (const auto& [left, right] : look_alikes()) {
        check_equality(call(left), call(right));
        check_equality(test::with_member(text, "k", left), test::with_member(text, "k", right));
        check_equality(chat_with(left), chat_with(right));
        check_equality(conversation().with_extra("k", left), conversation().with_extra("k", right));
        check_equality(checkpoint(point).with_state({{"k", left}}),
                       checkpoint(point).with_state({{"k", right}}));
        check_equality(checkpoint(point).with_metadata("k", left),
                       checkpoint(point).with_metadata("k", right));
        check_equality(checkpoint_header(checkpoint(point).with_metadata("k", left)),
                       checkpoint_header(checkpoint(point).with_metadata("k", right)));
        const auto record = step("agent", "", "key");
        check_equality(step(record).with_result(left), step(record).with_result(right));
    }
    const auto record = step("agent", "", "key");
    check_equality(record, step(record).with_result(nullptr));
}

TEST_CASE("the order of a message's extra members counts where it is written")
{
    const auto read = [](std::string_view text) { return json::value_to<message>(json::parse(text)); };
    const auto first = read(R"({"role":"user","content":"x","a":1,"b":2})");
    check_equality(first, read(R"({"a":1,"role":"user","b":2,"content":"x"})"));
    check_equality(first, read(R"({"role":"user","content":"x","b":2,"a":1})"));
    // Modelled members of another shape have a place of their own when they are written.
    const auto parts = read(R"({"role":"user","content":[{"type":"text","text":"x"}],"a":1})");
    check_equality(parts, read(R"({"a":1,"content":[{"type":"text","text":"x"}],"role":"user"})"));
    check_equality(parts, read(R"({"a":1,"content":[{"text":"x","type":"text"}],"role":"user"})"));
    // Unless nothing stands there without them.
    check_equality(read(R"({"role":"user","content":"","id":7,"a":1})"),
                   read(R"({"role":"user","content":"","a":1,"id":7})"));
    check_equality(read(R"({"role":"x","content":"","a":1})"), read(R"({"a":1,"role":"x","content":""})"));
    check_equality(read(R"({"role":"user","content":"","tool_calls":[],"a":1})"),
                   read(R"({"a":1,"role":"user","content":"","tool_calls":[]})"));
    const auto again = json::value_to<message>(json::value_from(parts));
    CHECK(again == parts);
}

TEST_CASE("a difference shows what is not the same in JSON")
{
    const auto point = checkpoint("agent").with_id("c");
    const checkpoint_diff sign(checkpoint(point).with_state({{"k", 0.0}}),
                               checkpoint(point).with_state({{"k", -0.0}}));
    REQUIRE(sign.state_changes().size() == 1);
    CHECK(sign.state_changes()[0].path() == "/k");
    const checkpoint_diff same(checkpoint(point).with_state({{"k", std::int64_t{1}}}),
                               checkpoint(point).with_state({{"k", std::uint64_t{1}}}));
    CHECK(same.empty());
}
