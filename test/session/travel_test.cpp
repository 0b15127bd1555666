//! Rollback, forks, history, differences.
#include "on_every_store.hpp"

#include <algorithm>
#include <random>

using namespace waymark;
using test::chat_of;
using test::failure;
using test::on_every_store;
namespace json = boost::json;

namespace {

checkpoint_header point(const std::string& id, std::int64_t sequence, std::optional<std::string> parent = {})
{
    return checkpoint_header(checkpoint("agent").with_id(id).with_parent(std::move(parent)))
        .with_sequence(sequence);
}

std::vector<std::string> ids(const std::vector<const checkpoint_header*>& points)
{
    std::vector<std::string> result;
    for (const auto* one : points)
        result.push_back(one->id());
    return result;
}

using id_list = std::vector<std::string>;

asio::awaitable<void> roll_back(async_store& store)
{
    session session{store, "agent"};
    json::object state;
    state["step"] = 1;
    const auto target = co_await session.async_checkpoint(
        session.draft(chat_of(2), 1).with_name("good").with_state(state).with_metadata("k", "v"));
    co_await session.async_checkpoint("bad", 2, chat_of(4));
    int told = 0;
    session.on_checkpoint([&](const checkpoint_saved&) { ++told; });
    const auto back = co_await session.async_rollback_to(target.id());
    CHECK(told == 1);
    CHECK(back.id() != target.id());
    CHECK(back.parent_id() == target.id());
    CHECK(back.sequence() > target.sequence());
    CHECK(back.conversation().size() == 2);
    CHECK(back.iteration() == 1);
    CHECK(back.name() == "good");
    CHECK(back.state() == state);
    CHECK(back.metadata().at("k") == "v");

    // Another process, after a crash, goes on there; nothing is gone.
    waymark::session later{store, "agent"};
    const auto head = co_await later.async_resume();
    CHECK(*head == back);
    const auto count = co_await later.async_count();
    CHECK(count == 3);
    const auto next = co_await later.async_checkpoint("better", 2, chat_of(3));
    CHECK(next.parent_id() == back.id());

    failure how;
    co_await session.async_rollback_to("nowhere", how.token());
    CHECK(how.code == errc::not_found);
    CHECK(how.says("'nowhere'"));
    const auto still = co_await session.async_count();
    CHECK(still == 4);
}

asio::awaitable<void> branch_off(async_store& store)
{
    session session{store, "agent", session_options().with_scope("sub")};
    const auto done = [](const char* result) -> asio::awaitable<json::value> { co_return result; };
    co_await session.async_step("before", done("early"));
    const auto first = co_await session.async_checkpoint("first", 1, chat_of(1));
    co_await session.async_step("on first", done("one"));
    const auto second = co_await session.async_checkpoint("second", 2, chat_of(2));
    co_await session.async_step("on second", done("two"));

    const auto key = co_await session.async_fork(first.id(), "copy");
    CHECK(key.agent_id() == "copy");
    waymark::session copy{store, "copy", session_options().with_scope("sub")};
    const auto head = co_await copy.async_resume();
    REQUIRE(head);
    CHECK(head->key() == key);
    CHECK(head->parent_id() == first.id());
    CHECK(head->conversation().size() == 1);
    CHECK(head->name() == "first");
    const auto history = co_await copy.async_history();
    CHECK(ids(history.roots()) == id_list{head->id()}); // its parent is of another agent

    // What the fork builds on is not done again; what came later is its own affair.
    const auto steps = co_await copy.async_load_steps();
    REQUIRE(steps.size() == 2);
    CHECK(steps[0].key() == "before");
    CHECK(steps[1].key() == "on first");
    const auto replayed = co_await copy.async_step("on first", done("again"));
    CHECK(replayed == "one");
    const auto own = co_await copy.async_step("on second", done("mine"));
    CHECK(own == "mine");
    // Nor is it by a fork of the fork, or where what a step was made on is gone.
    co_await copy.async_checkpoint("on", 2, chat_of(3));
    co_await store.async_erase("copy", "sub", head->id());
    const auto of_copy = co_await copy.async_load_latest();
    co_await copy.async_fork(of_copy->id(), "copy of the copy");
    waymark::session third{store, "copy of the copy", session_options().with_scope("sub")};
    for (const std::string known_key : {"before", "on first", "on second"}) {
        const auto known = co_await third.async_step(known_key, done("again"));
        CHECK(known != "again");
    }
    const auto untouched = co_await session.async_count();
    CHECK(untouched == 2);

    failure how;
    co_await session.async_fork(second.id(), "copy", how.token());
    CHECK(how.code == errc::conflict);
    co_await session.async_fork("nowhere", "copy2", how.token());
    CHECK(how.code == errc::not_found);
    co_await session.async_fork(second.id(), "", how.token());
    CHECK(how.code == errc::invalid_argument);
    const auto agents = co_await store.async_list_agents();
    CHECK(agents == id_list{"agent", "copy", "copy of the copy"});
}

asio::awaitable<void> read_history(async_store& store)
{
    session session{store, "agent"};
    const auto empty = co_await session.async_history();
    CHECK(empty.empty());
    CHECK(empty.head() == nullptr);
    CHECK(empty.to_text().empty());

    const auto a = co_await session.async_checkpoint("a", 1, chat_of(1));
    const auto b = co_await session.async_checkpoint("b", 2, chat_of(2));
    const auto c = co_await session.async_checkpoint("c", 3, chat_of(3));
    const auto back = co_await session.async_rollback_to(a.id());
    const auto d = co_await session.async_checkpoint("d", 2, chat_of(2));
    const auto history = co_await session.async_history();
    CHECK(history.size() == 5);
    CHECK(history.head()->id() == d.id());
    CHECK(ids(history.roots()) == id_list{a.id()});
    CHECK(ids(history.children(a.id())) == id_list{b.id(), back.id()});
    CHECK(ids(history.branches()) == id_list{d.id(), c.id()});
    CHECK(ids(history.path_to(d.id())) == id_list{a.id(), back.id(), d.id()});
    CHECK(history.parent(c.id())->id() == b.id());
    CHECK(history.parent(a.id()) == nullptr);
    CHECK(history.find("nobody") == nullptr);
    CHECK(history.path_to("nobody").empty());

    // A pruned parent makes a root.
    co_await store.async_erase("agent", "", a.id());
    const auto pruned = co_await session.async_history();
    CHECK(ids(pruned.roots()) == id_list{b.id(), back.id()});
}

asio::awaitable<void> compare(async_store& store)
{
    session session{store, "agent"};
    auto chat = chat_of(2);
    json::object state;
    state["kept"] = 1;
    state["changed"] = 1;
    state["removed"] = 1;
    state["inner"] = json::object{{"a/b", 1}, {"same", "x"}};
    const auto before = co_await session.async_checkpoint(
        session.draft(chat, 1).with_state(state).with_metadata("phase", "plan"));
    chat.push(message::user("new"));
    state["changed"] = 2;
    state.erase("removed");
    state["added"] = json::array{1, 2};
    state["inner"].as_object()["a/b"] = 2;
    const auto after = co_await session.async_checkpoint(
        session.draft(chat, 2).with_state(state).with_metadata("phase", "act"));

    const auto forward = co_await session.async_diff(before.id(), after.id());
    REQUIRE(forward.messages_added().size() == 1);
    CHECK(forward.messages_added()[0].text() == "new");
    CHECK(forward.messages_removed().empty());
    CHECK(forward.messages_shared() == 2);
    std::map<std::string, std::pair<bool, bool>> changes; // path: was there before, is there after
    for (const auto& change : forward.state_changes())
        changes[change.path()] = {change.before().has_value(), change.after().has_value()};
    const std::map<std::string, std::pair<bool, bool>> expected = {{"/changed", {true, true}},
                                                                   {"/removed", {true, false}},
                                                                   {"/added", {false, true}},
                                                                   {"/inner/a~1b", {true, true}}};
    CHECK(changes == expected);
    REQUIRE(forward.metadata_changes().size() == 1);
    CHECK(forward.metadata_changes()[0].after() == json::value("act"));

    const auto backward = co_await session.async_diff(after.id(), before.id());
    CHECK(backward.messages_removed().size() == 1);
    CHECK(backward.messages_added().empty());
    const auto same = co_await session.async_diff(after.id(), after.id());
    CHECK(same.empty());
    failure how;
    co_await session.async_diff("nowhere", after.id(), how.token());
    CHECK(how.code == errc::not_found);
}

} // namespace

TEST_CASE("a rollback is a new head with the content of its target", "[stores]")
{
    on_every_store(roll_back);
}

TEST_CASE("a fork starts another agent from a checkpoint", "[stores]")
{
    on_every_store(branch_off);
}

TEST_CASE("a history is a tree", "[stores]")
{
    on_every_store(read_history);
}

TEST_CASE("two checkpoints are compared by messages and members", "[stores]")
{
    on_every_store(compare);
}

TEST_CASE("a difference sees what was inserted and taken out in the middle")
{
    const auto one = message::user("one");
    const auto two = message::user("two");
    const auto three = message::user("three");
    const auto four = message::user("four");
    const auto of = [](std::initializer_list<message> messages) {
        conversation chat;
        for (const auto& next : messages)
            chat.push(next);
        return checkpoint("agent", chat);
    };
    const checkpoint_diff inserted(of({one, three}), of({one, two, three, four}));
    CHECK(inserted.messages_added() == std::vector{two, four});
    CHECK(inserted.messages_removed().empty());
    CHECK(inserted.messages_shared() == 2);
    const checkpoint_diff replaced(of({one, two, two}), of({one, two, three}));
    CHECK(replaced.messages_removed() == std::vector{two});
    CHECK(replaced.messages_added() == std::vector{three});
    const checkpoint_diff moved(of({one, two, three}), of({two, three, one}));
    CHECK_FALSE(moved.empty());
    CHECK(moved.messages_removed() == std::vector{one});
    CHECK(moved.messages_added() == std::vector{one});
    CHECK(moved.messages_shared() == 2);
}

TEST_CASE("a difference is as small as it can be, where equal messages are repeated, too")
{
    const std::vector words{message::user("yes"), message::user("no"), message::user("go on")};
    std::mt19937 random(16); // NOLINT(bugprone-random-generator-seed): any will do
    const auto sequence = [&] {
        std::vector<std::size_t> chosen(std::uniform_int_distribution<std::size_t>(0, 9)(random));
        for (auto& one : chosen)
            one = std::uniform_int_distribution<std::size_t>(0, words.size() - 1)(random);
        return chosen;
    };
    const auto saved = [&](const std::vector<std::size_t>& chosen) {
        conversation chat;
        for (const auto word : chosen)
            chat.push(words[word]);
        return checkpoint("agent", chat);
    };
    for (int i = 0; i < 2'000; ++i) {
        const auto before = sequence();
        const auto after = sequence();
        std::vector<std::vector<std::size_t>> longest(before.size() + 1,
                                                      std::vector<std::size_t>(after.size() + 1));
        for (std::size_t a = 0; a < before.size(); ++a)
            for (std::size_t b = 0; b < after.size(); ++b)
                longest[a + 1][b + 1] = before[a] == after[b]
                                            ? longest[a][b] + 1
                                            : std::max(longest[a][b + 1], longest[a + 1][b]);
        const auto shared = longest[before.size()][after.size()];
        const checkpoint_diff found(saved(before), saved(after));
        REQUIRE(found.messages_shared() == shared);
        REQUIRE(found.messages_added().size() == after.size() - shared);
        REQUIRE(found.messages_removed().size() == before.size() - shared);
    }
}

TEST_CASE("a difference of very many equal messages is bounded, and adds up")
{
    const std::vector words{message::user("yes"), message::user("no")};
    conversation before;
    conversation after;
    for (std::size_t i = 0; i < 20'000; ++i) {
        before.push(words[i % 2]);
        after.push(words[i % 3 == 0 ? 1 : 0]);
    }
    const checkpoint_diff found(checkpoint("agent", before), checkpoint("agent", after));
    CHECK(found.messages_shared() >= 10'000);
    CHECK(found.messages_shared() + found.messages_added().size() == after.size());
    CHECK(found.messages_shared() + found.messages_removed().size() == before.size());
}

TEST_CASE("histories tolerate circles and missing parents")
{
    const history circle({point("a", 1, "c"), point("b", 2, "a"), point("c", 3, "b"),
                          point("self", 4, "self"), point("lost", 5, "pruned")});
    CHECK(circle.size() == 5);
    CHECK(circle.roots().size() == 3);
    CHECK(ids(circle.path_to("b")).size() == 3);
    const auto text = circle.to_text();
    for (const auto* id : {"'a'", "'b'", "'c'", "'self'", "'lost'"})
        CHECK(text.find(id) != std::string::npos);
    CHECK(std::count(text.begin(), text.end(), '\n') == 5);
}

TEST_CASE("a history is drawn with the way to the head straight down")
{
    const history tree({point("a", 1), point("b", 2, "a"), point("c", 3, "b"), point("d", 4, "a"),
                        point("e", 5, "d"), point("f\x1b[31m", 6, "d")});
    CHECK(tree.to_text() == "#1, iteration 0, 0 messages, id 'a'\n"
                            "├─ #2, iteration 0, 0 messages, id 'b'\n"
                            "│  #3, iteration 0, 0 messages, id 'c'\n"
                            "#4, iteration 0, 0 messages, id 'd'\n"
                            "├─ #5, iteration 0, 0 messages, id 'e'\n"
                            "#6, iteration 0, 0 messages, id 'f\\x1b[31m'  <- head\n");

    // A long history, each point of which was rolled back to, exhausts no stack.
    std::vector<checkpoint_header> many;
    for (int i = 1; i <= 100'000; ++i)
        many.push_back(point(std::to_string(i), i, std::to_string(i % 2 == 0 ? i - 1 : i - 2)));
    const history deep(std::move(many));
    CHECK(deep.to_text().size() > 100'000);
    CHECK(deep.path_to("99999").size() == 50'000);
}
