//! Images, documents and long tool results in messages, on every store.
#include "backends.hpp"
#include "catch.hpp"
#include "tables/large_parts.hpp"
#include "with_member.hpp"

#include <boost/json/serialize.hpp>

#include <map>

using namespace waymark;
namespace json = boost::json;

namespace {

message with_parts(const json::value& parts)
{
    return test::with_member(message::user("look"), "blocks", parts);
}

std::string text_of(const message& value)
{
    return json::serialize(json::value_from(value));
}

constexpr auto longest_part = tables::large_part_bytes;

std::string repeated(std::string_view text, std::size_t bytes)
{
    std::string result;
    while (result.size() < bytes)
        result += text;
    return result;
}

//! Texts that are hard to cut and to put together again.
std::vector<message> difficult_messages()
{
    std::vector<message> messages;
    for (const std::size_t size :
         {longest_part - 2, longest_part - 1, longest_part, longest_part + 1, longest_part + 2})
        messages.push_back(message::user(std::string(size, 'x')));
    for (const char* text :
         {"\\", "\"", "\\\"", "\"\\", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80", "#1:ab;#", "\x01", "a\\"})
        messages.push_back(message::user(repeated(text, 3 * longest_part)));
    messages.push_back(message::user(std::string(3 * longest_part, '\0')));
    messages.push_back(message::tool_result("call", "\"" + std::string(2 * longest_part, 'x') + "\\"));

    json::array many;
    for (int i = 0; i < 100; ++i)
        many.push_back(
            json::object{{"type", "image"}, {"data", repeated(std::to_string(i) + "\"", 2 * longest_part)}});
    messages.push_back(with_parts(many));

    json::array numbers, pairs, mixed;
    for (int i = 0; i < 10'000; ++i) {
        numbers.push_back(i);
        pairs.push_back(json::array{i, std::to_string(i)});
        mixed.push_back(json::object{{"number", i}});
    }
    mixed.push_back(json::object{{"data", std::string(2 * longest_part, 'm')}});
    messages.push_back(with_parts(numbers));
    messages.push_back(
        with_parts(json::object{{"a", numbers}, {"b", pairs}, {"c", json::object{{"d", numbers}}}}));
    messages.push_back(with_parts(mixed));
    messages.push_back(with_parts(json::object{{std::string(2 * longest_part, 'k'), 1}}));
    auto flat = message::user("many members");
    for (int i = 0; i < 40; ++i)
        flat = test::with_member(flat, "member " + std::to_string(i), std::string(1'000, 'f'));
    messages.push_back(flat); // long, and everything in it is short
    messages.push_back(message::assistant(
        "", {tool_call("call", "write", {{"content", repeated("line\n", 2 * longest_part)}}),
             tool_call("other", "none")}));
    return messages;
}

conversation chat_with(const std::vector<message>& messages)
{
    conversation chat;
    for (const auto& next : messages)
        chat.push(next);
    return chat;
}

//! Objects by number, as a save would store them.
class kept_objects final : public tables::object_sink {
public:
    tables::object_reference store(std::string_view body) override
    {
        bodies.emplace_back(body);
        return {static_cast<std::int64_t>(bodies.size()), 0};
    }
    std::vector<std::string> bodies;
};

} // namespace

TEST_CASE("large parts are cut out of the text of a message, and nothing else is")
{
    for (const auto& next : difficult_messages()) {
        const auto text = text_of(next);
        const tables::outlined_message outlined(text);
        kept_objects objects;
        const auto numbers = outlined.store_parts(objects);
        const tables::stored_line line(outlined.line());
        REQUIRE(line.holes().size() == objects.bodies.size());
        CHECK(tables::is_present_form(outlined.line()));
        CHECK(outlined.has_parts() != tables::is_present_form(text));
        CHECK(outlined.line().find('\n') == std::string::npos);
        auto left = outlined.line();
        for (const auto& body : objects.bodies) {
            CHECK(body.size() > longest_part);
            CHECK(text.find(body) != std::string::npos);
        }
        CHECK(numbers.size() == objects.bodies.size());
        CHECK(outlined.line() == tables::outlined_message(text).line());
    }
    const auto large = std::string(longest_part + 1, 'x');
    CHECK(tables::outlined_message(text_of(message::user(large))).has_parts());
    CHECK_FALSE(tables::outlined_message(text_of(message::user(large.substr(1)))).has_parts());
}

TEST_CASE("lines that cannot have been written are refused")
{
    const auto hash = std::string(64, 'a');
    for (const auto& line : {std::string("#"), std::string("##"), "#1:" + hash, "#1:" + hash + ";",
                             "#1:" + hash + ";{}", "#:" + hash + ";#{}", "#3:" + hash + ";#{}",
                             "#1:" + hash + ";1:" + hash + ";#{}", "#-1:" + hash + ";#{}",
                             "#1:" + std::string(64, 'g') + ";#{}", "#99999999999999999999:" + hash + ";#{}"})
        CHECK_THROWS_AS(tables::stored_line(line), error);
    CHECK(tables::stored_line("#1:" + hash + ";2:" + hash + ";#{}").holes().size() == 2);
    const auto parts = tables::write_parts(std::vector<std::int64_t>{1, 300}, 7);
    CHECK(tables::read_parts(parts, 7) == std::vector<std::int64_t>{1, 300});
    CHECK_THROWS_AS(tables::read_parts(parts, 8), error);
    CHECK_THROWS_AS(tables::read_parts(parts.substr(1), 7), error);
    CHECK_THROWS_AS(tables::read_parts("x", 7), error);
}

TEST_CASE("messages with large parts come back as they were", "[stores]")
{
    const auto messages = difficult_messages();
    const auto chat = chat_with(messages);
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto store = backend.make_empty();
            const auto first = checkpoint("agent", chat).with_id("first");
            store->save(first);
            auto longer = chat;
            longer.push(message::user("more"));
            longer.push(messages[7]);
            const auto second = checkpoint("agent", longer).with_id("second").with_parent("first");
            store->save(second);
            auto branch = chat;
            branch.truncate(9);
            for (std::size_t i = 12; i < messages.size(); ++i)
                branch.push(messages[i]);
            const auto third = checkpoint("agent", branch).with_id("third").with_scope("side");
            store->save(third);

            for (const auto& saved : {first, second, third}) {
                const auto loaded = store->load("agent", saved.scope(), saved.id()).value();
                REQUIRE(loaded == saved);
                for (std::size_t i = 0; i < saved.conversation().size(); ++i)
                    REQUIRE(text_of(loaded.conversation()[i]) == text_of(saved.conversation()[i]));
            }
            for (const auto& loaded : store->load_all(query("agent")))
                CHECK((loaded == first || loaded == second || loaded == third));
            CHECK(store->verify().ok());

            // What was loaded goes on, and goes to another agent.
            auto next = store->load_latest("agent")->conversation();
            next.push(messages[8]);
            store->save(checkpoint("agent", next).with_id("fourth"));
            store->save(checkpoint("other", next).with_id("fifth"));
            CHECK(store->load("agent", "", "fourth")->conversation() == next);
            CHECK(store->load("other", "", "fifth")->conversation() == next);
            CHECK(store->verify().ok());
        }
}

TEST_CASE("a copy of an agent has its large parts when the agent is gone", "[stores]")
{
    const auto chat = chat_with(difficult_messages());
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto store = backend.make_empty();
            store->save(checkpoint("agent", chat).with_id("c"));
            store->copy_agent("agent", "copy");
            store->erase_agent("agent");
            store->compact();
            CHECK(store->load("copy", "", "c")->conversation() == chat);
            CHECK(store->verify().ok());
        }
}

TEST_CASE("large parts stay as long as a checkpoint needs them, and no longer", "[stores]")
{
    const std::string image = repeated("image", 200'000), document = repeated("document", 200'000);
    for (const auto& backend : test::all_backends()) {
        if (backend.name() == "memory" || backend.name() == "files")
            continue; // they keep no objects
        DYNAMIC_SECTION(backend.name())
        {
            const auto store = backend.make_empty();
            const auto bytes = [&] { return store->stats("agent").bytes; };
            conversation chat;
            chat.push(message::user(image));
            store->save(checkpoint("agent", chat).with_id("a"));
            CHECK(bytes() > 200'000);
            CHECK(bytes() < 202'000);
            conversation other;
            other.push(message::user("before"));
            other.push(message::user(image)); // another message
            other.push(message::user(document));
            store->save(checkpoint("agent", other).with_id("b"));
            CHECK(bytes() < 404'000);
            store->save(checkpoint("agent").with_id("c"));

            store->erase("agent", "", "a");
            store->sweep("agent");
            CHECK(bytes() > 400'000);
            CHECK(store->load("agent", "", "b")->conversation() == other);
            const auto dry = store->prune("agent", retention().keep_last(1), dry_run::yes);
            CHECK(dry.bytes() > 400'000);
            store->prune("agent", retention().keep_last(1), dry_run::no);
            CHECK(bytes() < 1'000);
            CHECK(store->verify().ok());

            // And they are stored again.
            store->save(checkpoint("agent", other).with_id("d"));
            CHECK(store->load("agent", "", "d")->conversation() == other);
            CHECK(bytes() > 400'000);
            CHECK(store->verify().ok());
        }
    }
}
