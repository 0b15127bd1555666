#include "catch.hpp"
#include "values/storage_memory.hpp"

#include <waymark/conversation.hpp>
#include <waymark/error.hpp>

#include <boost/json/parse.hpp>

#include <atomic>
#include <iterator>
#include <random>
#include <thread>

using namespace waymark;
namespace json = boost::json;

namespace {

conversation numbered(std::size_t count)
{
    conversation chat;
    for (std::size_t i = 0; i < count; ++i)
        chat.push(message::user(std::to_string(i)));
    return chat;
}

std::vector<std::string> texts(const auto& messages)
{
    std::vector<std::string> all;
    for (const auto& message : messages)
        all.push_back(message.text());
    return all;
}

using text_list = std::vector<std::string>;

static_assert(std::forward_iterator<conversation::const_iterator>);

} // namespace

TEST_CASE("messages are found by index and by iteration")
{
    for (const std::size_t count : {0u, 1u, 2u, 3u, 31u, 32u, 33u, 63u, 64u, 65u, 1000u}) {
        const auto chat = numbered(count);
        CHECK(chat.size() == count);
        std::size_t index = 0;
        for (const auto& message : chat) {
            if (message.text() != std::to_string(index) || &message != &chat[index])
                FAIL("wrong message at " << index << " of " << count);
            ++index;
        }
        CHECK(index == count);
    }
    const auto chat = numbered(100);
    CHECK(std::distance(chat.begin(), chat.end()) == 100);
    CHECK(chat.back().text() == "99");
}

TEST_CASE("branches of random shape behave like vectors")
{
    std::mt19937 random(7);
    std::vector<std::pair<conversation, text_list>> all(1);
    for (int i = 0; i < 3'000; ++i) {
        auto [chat, expected] = all[random() % all.size()];
        switch (random() % 4) {
        case 0: {
            const auto length = random() % (expected.size() + 2);
            chat.truncate(length);
            expected.resize(std::min<std::size_t>(expected.size(), length));
            break;
        }
        default:
            for (auto count = random() % 5; count > 0; --count) {
                expected.push_back(std::to_string(random()));
                chat.push(message::user(expected.back()));
            }
        }
        if (texts(chat) != expected)
            FAIL("differs in round " << i);
        if (all.size() < 50)
            all.emplace_back(chat, expected);
        else
            all[random() % all.size()] = {chat, expected};
    }
    for (const auto& [a, a_texts] : all)
        for (const auto& [b, b_texts] : all) {
            const auto shared = a.shared_prefix(b);
            std::size_t same = 0;
            while (same < std::min(a.size(), b.size()) && &a[same] == &b[same])
                ++same;
            if (shared != same)
                FAIL("shared_prefix says " << shared << ", it is " << same);
        }
}

TEST_CASE("equality looks at content, not at sharing")
{
    const auto chat = numbered(20);
    auto copy = chat;
    CHECK(copy == chat);
    copy.truncate(10);
    CHECK_FALSE(copy == chat);
    for (std::size_t i = 10; i < 20; ++i)
        copy.push(chat[i]);
    CHECK(copy.shared_prefix(chat) == 10);
    CHECK(copy == chat);
    copy.with_max_tokens(5);
    CHECK_FALSE(copy == chat);
}

TEST_CASE("a million messages are destroyed without recursion")
{
    auto chat = numbered(1'000'000);
    const auto half = [&] {
        auto copy = chat;
        copy.truncate(500'000);
        return copy;
    }();
    chat.clear();
    CHECK(half.size() == 500'000);
    CHECK(half[499'999].text() == "499999");
}

TEST_CASE("threads may copy and extend conversations that share messages")
{
    const auto chat = numbered(1'000);
    std::vector<std::jthread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&chat, &wrong, t] {
            for (int i = 0; i < 200; ++i) {
                auto mine = chat;
                mine.truncate(static_cast<std::size_t>(i * 5));
                mine.push(message::user("thread " + std::to_string(t)));
                if (mine.back().text() != "thread " + std::to_string(t) || chat.size() != 1'000)
                    ++wrong;
            }
        });
    threads.clear();
    CHECK(wrong == 0);
}

TEST_CASE("the system prompt is first, once")
{
    conversation chat(8'000);
    chat.with_system_prompt("one");
    chat.push(message::user("hello"));
    chat.with_system_prompt("two");
    CHECK(texts(chat) == text_list{"two", "hello"});
    CHECK(chat.max_tokens() == 8'000);
    conversation late;
    late.push(message::user("hello"));
    late.with_system_prompt("prompt");
    CHECK(texts(late) == text_list{"prompt", "hello"});
    CHECK(conversation(5).with_system_prompt("p").size() == 1);
}

TEST_CASE("the window holds the prompt and the newest messages that fit")
{
    conversation chat(4 + 10 * 3); // the prompt (4) and three of ten tokens
    chat.with_system_prompt("");   // 4 tokens
    for (int i = 0; i < 6; ++i)
        chat.push(message::user(std::to_string(i) + std::string(23, 'x'))); // 4 + 6 tokens
    CHECK(chat.estimated_tokens() == 64);
    const auto window = chat.window();
    REQUIRE(window.size() == 4);
    CHECK(window[0].role() == role::system);
    CHECK(window[1].text()[0] == '3');
    CHECK(window[3].text()[0] == '5');

    CHECK(conversation().window().empty());
    CHECK(numbered(100).window().size() == 100);                       // no budget
    const auto least = conversation(chat).with_max_tokens(5).window(); // the newest is always there
    REQUIRE(least.size() == 2);
    CHECK(least[1].text()[0] == '5');
}

TEST_CASE("a window is never without anything to send")
{
    conversation chat(20);
    chat.with_system_prompt(std::string(1'000, 'p'));
    chat.push(message::user("Read it."));
    CHECK(texts(chat.window()).back() == "Read it.");
    auto with_orphan = chat;
    with_orphan.push(message::tool_result("nobody's", "lost"));
    CHECK(texts(with_orphan.window()).back() == "Read it.");
    chat.push(message::assistant("", {tool_call("a", "read"), tool_call("b", "read")}));
    chat.push(message::tool_result("a", std::string(10'000, 'x')));
    chat.push(message::tool_result("b", "short"));
    const auto window = chat.window(); // the calls with all of their results
    CHECK(window.size() == 4);
    CHECK(window.estimated_tokens() > 2'500);
}

TEST_CASE("the window holds the summary of what was compacted")
{
    conversation chat(30);
    chat.with_system_prompt("prompt");
    for (int i = 0; i < 10; ++i)
        chat.push(message::user(std::to_string(i)));
    chat = chat.compacted("summary", 8);
    CHECK(texts(chat.window()) == text_list{"prompt", "summary", "7", "8", "9"});
    CHECK(texts(conversation(chat).with_max_tokens(1).window()) == text_list{"prompt", "summary", "9"});
    // Where it was removed, the next message is one like any other.
    conversation other(30);
    other.with_extra(chat.extra()).with_system_prompt("prompt");
    for (std::size_t i = 2; i < chat.size(); ++i)
        other.push(chat[i]);
    CHECK(texts(other.window()) == text_list{"prompt", "6", "7", "8", "9"});
}

TEST_CASE("the window never holds a tool result without its call")
{
    conversation chat;
    chat.push(message::user("go"));
    chat.push(message::assistant("", {tool_call("c1", "a"), tool_call("c2", "b")}));
    chat.push(message::tool_result("c1", "one"));
    chat.push(message::tool_result("c2", "two"));
    chat.push(message::assistant("done"));
    for (std::uint64_t budget = 1; budget < 40; ++budget) {
        const auto window = conversation(chat).with_max_tokens(budget).window();
        bool called = false;
        for (const auto& message : window) {
            called = called || !message.tool_calls().empty();
            if (message.role() == role::tool && !called)
                FAIL("an orphan with a budget of " << budget);
        }
    }
    CHECK(conversation(chat).with_max_tokens(40).window().size() == 5);
}

TEST_CASE("unanswered tool calls are found and repaired in place")
{
    conversation chat;
    chat.push(message::assistant("", {tool_call("c1", "a"), tool_call("c2", "b"), tool_call("c3", "c")}));
    chat.push(message::tool_result("c2", "two"));
    chat.push(message::user("are you there?"));
    chat.push(message::assistant("", {tool_call("c1", "again")})); // an id may come again
    const auto open = chat.unanswered_tool_calls();
    REQUIRE(open.size() == 3);
    CHECK(open[0].name() == "a");
    CHECK(open[1].name() == "c");
    CHECK(open[2].name() == "again");

    const auto untouched = chat;
    CHECK(chat.repair("lost").answered() == 3);
    REQUIRE(chat.size() == 7);
    const auto answers = [&](std::size_t index) { return chat[index].tool_results().at(0).call_id(); };
    CHECK(answers(1) == "c2");
    CHECK(answers(2) == "c1");
    CHECK(answers(3) == "c3");
    CHECK(chat[4].role() == role::user);
    CHECK(answers(6) == "c1");
    CHECK(chat[6].text() == "lost");
    CHECK(chat.unanswered_tool_calls().empty());
    CHECK_FALSE(chat.repair());
    CHECK(untouched.size() == 4);
}

TEST_CASE("a result answers the newest call of its id")
{
    conversation chat;
    chat.push(message::assistant("", {tool_call("call_0", "lost")}));
    chat.push(message::user("still there?"));
    chat.push(message::assistant("", {tool_call("call_0", "answered")}));
    chat.push(message::tool_result("call_0", "here"));
    REQUIRE(chat.unanswered_tool_calls().size() == 1);
    CHECK(chat.unanswered_tool_calls()[0].name() == "lost");
    CHECK(chat.repair().answered() == 1);
    CHECK(chat[1].role() == role::tool);
    CHECK(chat.back().text() == "here");
    CHECK(chat.size() == 5);
}

TEST_CASE("a window without a budget is the conversation, without results that answer nothing")
{
    auto chat = numbered(50);
    CHECK(chat.window().shared_prefix(chat) == 50);
    chat.push(message::tool_result("nobody", "orphan"));
    chat.push(message::user("last"));
    CHECK(chat.window().size() == 51);
    CHECK(chat.window().back().text() == "last");
    CHECK(chat.window().shared_prefix(chat) == 50);
}

TEST_CASE("tokens are counted by a tokenizer of the user's")
{
    const token_counter one_each = [](const message&) { return std::size_t{1}; };
    auto chat = numbered(10).with_max_tokens(4);
    CHECK(chat.estimated_tokens(one_each) == 10);
    CHECK(texts(chat.window(one_each)) == text_list{"6", "7", "8", "9"});
}

TEST_CASE("a compacted conversation has the prompt, a summary and the newest messages")
{
    conversation chat(500);
    chat.with_system_prompt("prompt");
    for (int i = 0; i < 10; ++i)
        chat.push(message::user(std::to_string(i)));
    CHECK_FALSE(chat.compaction());
    const auto compacted = chat.compacted("0 to 6 were said", 3);
    CHECK(texts(compacted) == text_list{"prompt", "0 to 6 were said", "7", "8", "9"});
    CHECK(compacted[1].role() == role::user);
    CHECK(compacted.max_tokens() == 500);
    CHECK(compacted.shared_prefix(chat) == 1);
    REQUIRE(compacted.compaction());
    CHECK(compacted.compaction()->summary_id() == compacted[1].id());
    CHECK(compacted.compaction()->first() == 1);
    CHECK(compacted.compaction()->count() == 7);
    CHECK(json::value_to<conversation>(json::value_from(compacted)).compaction()->count() == 7);

    const auto again = compacted.compacted("all but the last", 1);
    CHECK(texts(again) == text_list{"prompt", "all but the last", "9"});
    CHECK(again.compaction()->count() == 3); // of the compacted one
    CHECK(again.compaction()->stands_for() == 9);
    CHECK(compacted.compaction()->stands_for() == 7);
    CHECK(json::value_to<conversation>(json::value_from(again)).compaction()->stands_for() == 9);
    CHECK(texts(chat.compactable(3)) == text_list{"0", "1", "2", "3", "4", "5", "6"});
    CHECK(texts(compacted.compactable(1)) == text_list{"0 to 6 were said", "7", "8"});
    CHECK(chat.compactable(10).empty());
    CHECK(conversation().compactable(0).empty());
    CHECK(chat.compacted("nothing is left", 0).size() == 2);
    CHECK(chat.compacted("nothing to leave out", 10) == chat);
    CHECK(conversation().compacted("nothing at all", 0).empty());
}

TEST_CASE("a compaction does not cut a call from its result")
{
    conversation chat;
    chat.push(message::user("go"));
    chat.push(message::assistant("", {tool_call("a", "f"), tool_call("b", "g")}));
    chat.push(message::tool_result("a", "1"));
    chat.push(message::tool_result("b", "2"));
    chat.push(message::assistant("done"));
    CHECK(chat.compacted("s", 1).size() == 2);
    for (const std::size_t keep : {2u, 3u, 4u}) {
        CHECK(chat.compacted("s", keep).size() == 5); // the summary and all of the turn
        CHECK(chat.compactable(keep).size() == 1);
    }
}

TEST_CASE("results made by hand answer calls without ids in their order")
{
    const auto calls = json::parse(
        R"({"role": "model", "parts": [{"functionCall": {"name": "book", "args": {"night": 1}}},
                                       {"functionCall": {"name": "book", "args": {"night": 2}}}]})");
    conversation chat;
    chat.push(message::from(calls.as_object()));
    for (const auto* text : {"the first", "the second"}) {
        REQUIRE_FALSE(chat.unanswered_tool_calls().empty());
        const auto call = chat.unanswered_tool_calls().front();
        CHECK(call.id().empty());
        chat.push(message::tool_result(call.id(), text));
    }
    CHECK(chat.unanswered_tool_calls().empty());
}

TEST_CASE("an extra member cannot take the place of the messages")
{
    CHECK_THROWS_AS(conversation().with_extra("messages", 5), error);
    CHECK_THROWS_AS(conversation().with_extra("max_tokens", 5), error);
    CHECK_THROWS_AS(conversation().with_extra(json::object{{"messages", 5}}), error);
    const auto two = conversation().with_extra("old", 1).with_extra(json::object{{"a", 1}, {"b", 2}});
    CHECK(two.extra() == json::object{{"a", 1}, {"b", 2}}); // all at once: the old one is gone
}

TEST_CASE("a conversation survives the round trip through JSON")
{
    auto chat =
        numbered(100).with_max_tokens(18446744073709551615u).with_extra("summary", json::object{{"n", 1}});
    chat.with_system_prompt("prompt");
    CHECK(json::value_to<conversation>(json::value_from(chat)) == chat);
    CHECK(json::value_to<conversation>(json::value_from(conversation())) == conversation());
    try {
        json::value_to<conversation>(json::parse(R"({"messages": [{"role": "user"}, {"content": ""}]})"));
        FAIL("accepted");
    } catch (const error& refusal) {
        CHECK(refusal.details().message().find("message 1") != std::string::npos);
    }
    CHECK_THROWS_AS(json::value_to<conversation>(json::parse(R"({"messages": 5})")), error);
    CHECK_THROWS_AS(json::value_to<conversation>(json::parse(R"({"messages": [], "max_tokens": -1})")),
                    error);
}

namespace {

//! What a store leaves in conversations that does not remember anything itself.
class mark final : public detail::stored_prefix {
public:
    explicit mark(std::uint64_t store) noexcept : stored_prefix({store, 0}) {}
};

std::size_t unstored_bytes(const conversation& chat, std::uint64_t store)
{
    return detail::conversation_access::unstored_bytes(chat, store);
}

} // namespace

TEST_CASE("what is stored is not counted as new")
{
    constexpr std::uint64_t store = 1'000'001, other = 1'000'002;
    auto* const stored_here = new mark(store);
    auto* const stored_there = new mark(other);
    auto chat = numbered(1'000);
    CHECK(unstored_bytes(chat, store) == chat.bytes());
    detail::conversation_access::mark_stored(chat, *stored_here);
    CHECK(unstored_bytes(chat, store) == 0);
    CHECK(unstored_bytes(chat, other) == chat.bytes());
    const auto stored = chat.bytes();
    for (int i = 0; i < 50; ++i)
        chat.push(message::user("new"));
    CHECK(unstored_bytes(chat, store) == chat.bytes() - stored);
    auto branch = chat;
    branch.truncate(700);
    branch.push(message::user("branch"));
    CHECK(unstored_bytes(branch, store) == branch.back().bytes());
    // In a second store, the newest message that was saved there is remembered.
    detail::conversation_access::mark_stored(chat, *stored_there);
    CHECK(unstored_bytes(chat, other) == 0);
    chat.push(message::user("newer"));
    CHECK(unstored_bytes(chat, other) == chat.back().bytes());
    CHECK(unstored_bytes(chat, store) == chat.bytes() - stored);
    detail::stored_prefix::release(stored_here);
    detail::stored_prefix::release(stored_there);
}
