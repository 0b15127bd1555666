//! What is equal for a store is what is the same as JSON text.
#include "backends.hpp"
#include "catch.hpp"
#include "with_member.hpp"

#include <boost/json/serialize.hpp>

using namespace waymark;
namespace json = boost::json;

namespace {

//! Pairs that Boost.JSON's operator == takes for equal.
std::vector<std::pair<json::value, json::value>> mixed_up_values()
{
    return {{0.0, -0.0},
            {-0.0, 0.0},
            {json::object{{"a", 1}, {"b", 2}}, json::object{{"b", 2}, {"a", 1}}},
            {json::array{json::object{{"a", 0.0}}}, json::array{json::object{{"a", -0.0}}}}};
}

std::string text_of_stored(store& from)
{
    return json::serialize(json::value_from(from.load("agent", "", "c").value().with_sequence(0)));
}

} // namespace

TEST_CASE("what differs in its JSON alone is saved, and is a conflict", "[stores]")
{
    const auto text = message::user("text");
    const auto point = checkpoint("agent").with_id("c");
    using maker = std::function<checkpoint(const json::value&)>;
    const std::vector<std::pair<std::string, maker>> makers = {
        {"state",
         [&](const json::value& value) {
             return checkpoint(point).with_state({{"k", value}});
         }},
        {"large state",
         [&](const json::value& value) {
             return checkpoint(point).with_state({{"k", {{"long", std::string(3'000, 'x')}, {"v", value}}}});
         }},
        {"metadata", [&](const json::value& value) { return checkpoint(point).with_metadata("k", value); }},
        {"message",
         [&](const json::value& value) {
             conversation chat;
             chat.push(test::with_member(text, "k", value));
             return checkpoint(point).with_conversation(chat);
         }},
        {"conversation", [&](const json::value& value) {
             return checkpoint(point).with_conversation(conversation().with_extra("k", value));
         }}};
    for (const auto& backend : test::all_backends())
        for (const auto& [where, make] : makers)
            DYNAMIC_SECTION(backend.name() << ": " << where)
            {
                const auto store = backend.make_empty();
                for (const auto& [before, after] : mixed_up_values()) {
                    INFO(json::serialize(before) << " and then " << json::serialize(after));
                    store->save(make(before));
                    CHECK(text_of_stored(*store) == json::serialize(json::value_from(make(before))));
                    const save_request conditional(make(after), save_options().create_only());
                    CHECK(store->save(std::span(&conditional, 1)).at(0).code() == errc::conflict);
                    CHECK(store->save(make(after)).bytes_written() > 0);
                    CHECK(text_of_stored(*store) == json::serialize(json::value_from(make(after))));
                    CHECK(store->save(make(after)).bytes_written() == 0);
                }
            }
}

TEST_CASE("a number is the same, whatever type it had in memory", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto store = backend.make_empty();
            const auto point = checkpoint("agent").with_id("c");
            store->save(checkpoint(point).with_state({{"k", std::uint64_t{1}}}));
            CHECK(store->save(checkpoint(point).with_state({{"k", std::int64_t{1}}})).bytes_written() == 0);
            CHECK(store->save(checkpoint(point).with_state({{"k", 1.0}})).bytes_written() > 0);
        }
}

TEST_CASE("a step whose result differs in its JSON alone is recorded, and is a conflict", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto store = backend.make_empty();
            const auto record = step("agent", "", "key");
            for (const auto& [before, after] : mixed_up_values()) {
                const step_request first(step(record).with_result(before));
                const step_request create(step(record).with_result(after), true);
                const step_request second(step(record).with_result(after));
                store->put_steps(std::span(&first, 1)).at(0).value_or_throw();
                CHECK(store->put_steps(std::span(&create, 1)).at(0).code() == errc::conflict);
                store->put_steps(std::span(&second, 1)).at(0).value_or_throw();
                CHECK(json::serialize(*store->load_steps(step_query("agent")).at(0).result()) ==
                      json::serialize(after));
            }
        }
}
