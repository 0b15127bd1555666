//! A save costs what is new, in bytes and in statements; a load costs a few range reads.
#include "../../bench/histories.hpp"
#include "catch.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

using namespace waymark;
namespace json = boost::json;

namespace {

const std::string kilobyte(1024, 'x');

std::uint64_t bytes_on_disk(const std::filesystem::path& file)
{
    return std::filesystem::file_size(file); // closed: there is no log
}

//! Saves `turns` turns of two messages; returns the last checkpoint.
checkpoint grow(sqlite_store& store, int turns)
{
    bench::texts source;
    bench::growing_agent agent("agent", source);
    checkpoint last("agent");
    for (int i = 0; i < turns; ++i)
        store.save(last = agent.next());
    return last;
}

checkpoint with_one_more(const checkpoint& from, const std::string& text = "one more")
{
    auto chat = from.conversation();
    chat.push(message::user(text));
    return checkpoint("agent", chat, from.iteration() + 1).with_parent(from.id());
}

// A checkpoint with one short message: its row, the message, their digests.
constexpr std::uint64_t cost_of_one = 700;

} // namespace

TEST_CASE("a save costs as much at turn 300 as at turn 3")
{
    const auto store = sqlite_store::in_memory();
    bench::texts source;
    bench::growing_agent agent("agent", source);
    std::vector<std::uint64_t> costs;
    for (int i = 0; i < 300; ++i)
        costs.push_back(store->save(agent.next()).bytes_written());
    CHECK(costs[299] <= costs[2] + 16); // the numbers in it get longer
    CHECK(costs[299] < 2 * 1024 + cost_of_one);
}

TEST_CASE("a conversation that another process saved costs what is new, once it is loaded")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    {
        sqlite_store store(file);
        grow(store, 100);
    }
    sqlite_store store(file);
    const auto head = store.load_latest("agent").value();
    CHECK(store.save(with_one_more(head)).bytes_written() < cost_of_one);

    SECTION("after a rollback, too")
    {
        const auto old = store.load_all(query("agent").oldest_first().limit(10)).back();
        const auto branch = with_one_more(old, "another way");
        CHECK(store.save(branch).bytes_written() < cost_of_one);
        CHECK(store.save(with_one_more(branch)).bytes_written() < cost_of_one);
        CHECK(store.load("agent", "", branch.id()) == branch);
    }
    SECTION("in the middle of what one save stored, too")
    {
        auto chat = head.conversation();
        chat.truncate(37); // between the two messages of a turn
        const auto cut = checkpoint("agent", chat);
        CHECK(store.save(with_one_more(cut)).bytes_written() < cost_of_one);
        CHECK(store.save(cut).bytes_written() < cost_of_one);
        CHECK(store.load("agent", "", cut.id()) == cut);
    }
}

TEST_CASE("a conversation that remembers nothing is compared with its parent and the head by hash")
{
    const auto store = sqlite_store::in_memory();
    const auto head = grow(*store, 50);
    const auto rebuilt = [&](conversation chat) {
        return json::value_to<conversation>(json::parse(json::serialize(json::value_from(chat))));
    };

    auto chat = rebuilt(head.conversation());
    chat.push(message::user("new"));
    const auto next = checkpoint("agent", chat).with_parent(head.id());
    CHECK(store->save(next).bytes_written() < cost_of_one);
    CHECK(store->load("agent", "", next.id()) == next);

    // Another system prompt in front changes the first message, not the others.
    chat.with_system_prompt("Be brief.");
    const auto prompted = checkpoint("agent", chat);
    CHECK(store->save(prompted).bytes_written() < cost_of_one + 100);
    CHECK(store->load("agent", "", prompted.id()) == prompted);

    // A fork is another agent: nothing is shared with it, and then it goes its own way.
    auto fork = checkpoint(head).with_agent("fork").with_id("f1");
    CHECK(store->save(fork).bytes_written() > head.conversation().bytes());
    auto longer = fork.conversation();
    longer.push(message::user("fork"));
    CHECK(store->save(checkpoint("fork", longer)).bytes_written() < cost_of_one);
    CHECK(store->save(with_one_more(next)).bytes_written() < cost_of_one);
}

TEST_CASE("messages of the parent or the head are not stored again, wherever they stand")
{
    const auto store = sqlite_store::in_memory();
    bench::texts source;
    conversation chat;
    chat.push(message::system(source.next(1'000)));
    for (int i = 0; i < 60; ++i)
        chat.push(message::user(source.next(1'000)));
    auto last = checkpoint("agent", chat);
    store->save(last);
    const auto with_parent = GENERATE(true, false);
    const auto as_new_objects = GENERATE(true, false);
    const auto save = [&](conversation next) {
        if (as_new_objects && with_parent) { // without a parent, those that come from a store are looked for
            const auto whole = next;
            next.truncate(1);
            for (std::size_t i = 1; i < whole.size(); ++i)
                next.push(json::value_to<message>(json::value_from(whole[i])));
        }
        auto saved = checkpoint("agent", next, last.iteration() + 1);
        if (with_parent)
            saved.with_parent(last.id());
        const auto bytes = store->save(saved).bytes_written();
        CHECK(store->load("agent", "", saved.id()) == saved);
        last = saved;
        return bytes;
    };
    //! The first `kept`, then others.
    const auto rebuilt = [&](std::size_t kept, std::size_t from) {
        auto next = chat;
        next.truncate(kept);
        for (auto i = from; i < chat.size(); ++i)
            next.push(chat[i]);
        return next;
    };

    SECTION("a window behind a kept system prompt")
    {
        for (int turn = 0; turn < 20; ++turn) {
            chat = rebuilt(1, chat.size() - 49);
            chat.push(message::user(source.next(1'000)));
            CHECK(save(chat) < 1'000 + cost_of_one);
        }
    }
    SECTION("a summary in front of the tail")
    {
        conversation compacted;
        compacted.push(chat[0]);
        compacted.push(message::user("What happened so far: little."));
        for (std::size_t i = 40; i < chat.size(); ++i)
            compacted.push(chat[i]);
        CHECK(save(compacted) < cost_of_one);
    }
    SECTION("another system prompt")
    {
        conversation prompted;
        prompted.push(message::system("Be brief."));
        for (std::size_t i = 1; i < chat.size(); ++i)
            prompted.push(chat[i]);
        CHECK(save(prompted) < cost_of_one);
    }
    SECTION("a message less, and one more, in the middle")
    {
        chat = rebuilt(30, 31);
        CHECK(save(chat) < cost_of_one);
        auto longer = chat;
        longer.truncate(20);
        longer.push(message::user("inserted"));
        for (std::size_t i = 20; i < chat.size(); ++i)
            longer.push(chat[i]);
        CHECK(save(longer) < cost_of_one);
    }
    SECTION("a last message that is replaced each turn")
    {
        const auto reminder = message::user(source.next(1'000));
        for (int turn = 0; turn < 5; ++turn) {
            chat.push(message::user("turn " + std::to_string(turn)));
            auto reminded = chat;
            reminded.push(reminder);
            const auto bytes = save(reminded);
            CHECK((turn == 0 || bytes < cost_of_one));
        }
    }
    CHECK(store->verify().ok());
}

TEST_CASE("a save that goes on from its parent reads nothing of other branches")
{
    test::statement_counter statements;
    const auto store = sqlite_store::in_memory();
    conversation mine, theirs;
    std::optional<std::string> my_head, their_head;
    const auto turn = [&](conversation& chat, std::optional<std::string>& head) {
        chat.push(message::user("more"));
        const auto next = checkpoint("agent", chat).with_parent(head);
        head = next.id();
        statements.take();
        store->save(next);
        return statements.take();
    };
    int early = 0, late = 0;
    for (int i = 1; i <= 50; ++i) {
        turn(theirs, their_head);
        const auto taken = turn(mine, my_head);
        early = i == 5 ? taken : early;
        late = taken;
    }
    CHECK(late <= early);
    CHECK(late <= 12);
}

TEST_CASE("a batch of one agent stores each message once")
{
    const auto store = sqlite_store::in_memory();
    bench::texts source;
    bench::growing_agent agent("agent", source);
    std::vector<save_request> batch;
    for (int i = 0; i < 20; ++i)
        batch.emplace_back(agent.next());
    std::uint64_t sum = 0;
    for (const auto& outcome : store->save(batch))
        sum += outcome.value_or_throw().bytes_written();
    CHECK(sum < 20 * (2 * 1024 + cost_of_one));
    CHECK(store->load_latest("agent") == batch.back().checkpoint());
}

TEST_CASE("a state of 400 files of which two change stores little more than the two")
{
    const auto store = sqlite_store::in_memory();
    bench::texts texts;
    json::object files;
    for (int i = 0; i < 400; ++i)
        files["source/module_" + std::to_string(i) + ".cpp"] = texts.next(2'000);
    const auto save = [&] {
        const auto next = checkpoint("agent").with_state({{"files", files}, {"note", "short"}});
        const auto bytes = store->save(next).bytes_written();
        CHECK(store->load("agent", "", next.id()) == next);
        return bytes;
    };
    CHECK(save() > 800'000);
    for (int turn = 0; turn < 5; ++turn) {
        files["source/module_" + std::to_string(turn) + ".cpp"] = texts.next(2'000);
        files["source/module_" + std::to_string(399 - turn) + ".cpp"] = texts.next(2'000);
        CHECK(save() < 2 * 2'000 + 4'000);
    }
    files.erase("source/module_200.cpp");
    CHECK(save() < 3'000);
    files["source/new.cpp"] = "small";
    CHECK(save() < 3'000);
}

TEST_CASE("many small members of a state are not stored again either")
{
    const auto store = sqlite_store::in_memory();
    json::object state;
    for (int i = 0; i < 5'000; ++i)
        state["counter " + std::to_string(i)] = i;
    store->save(checkpoint("agent").with_state(state));
    state["counter 77"] = -1;
    const auto next = checkpoint("agent").with_state(state);
    CHECK(store->save(next).bytes_written() < 8'000);
    CHECK(store->load("agent", "", next.id()) == next);
    CHECK(json::serialize(store->load("agent", "", next.id())->state()) ==
          json::serialize(state)); // the order, too
}

TEST_CASE("statements: a save takes as many at any length, a load a handful")
{
    test::statement_counter statements;
    const auto store = sqlite_store::in_memory();
    bench::texts source;
    bench::growing_agent agent("agent", source);
    int early = 0, late = 0;
    for (int i = 1; i <= 400; ++i) {
        const auto next = agent.next();
        statements.take();
        store->save(next);
        const auto taken = statements.take();
        early = i == 5 ? taken : early;
        late = taken;
    }
    CHECK(late <= early);
    CHECK(late <= 10);
    const auto head = store->load_latest("agent").value();
    CHECK(statements.take() <= 8);
    CHECK(head.conversation().size() == 800);
}

TEST_CASE("a conversation with a thousand rollbacks in its past is saved and loaded")
{
    const auto store = sqlite_store::in_memory();
    conversation chat;
    std::uint64_t last = 0;
    checkpoint head("agent");
    for (int i = 0; i < 1'000; ++i) {
        chat.push(message::user("kept " + std::to_string(i)));
        auto dropped = chat;
        dropped.push(message::user("dropped"));
        store->save(checkpoint("agent", dropped));
        last = store->save(head = checkpoint("agent", chat)).bytes_written();
    }
    CHECK(last < 3'000); // 1,000 extents, most of which are in objects
    CHECK(store->load_latest("agent") == head);
}

TEST_CASE("bytes on disk stay within half of the payload more")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    std::uint64_t payload = 0;
    bench::texts source;
    bench::growing_agent agent("planner", source);
    for (const int turns : {500, 500}) {
        {
            sqlite_store store(file, sqlite_options{}.with_durability(durability::relaxed));
            for (int i = 0; i < turns; ++i) {
                const auto next = agent.next();
                for (const auto offset : {2u, 1u})
                    payload += json::serialize(
                                   json::value_from(next.conversation()[next.conversation().size() - offset]))
                                   .size();
                store.save(next);
            }
        }
        CHECK(static_cast<double>(bytes_on_disk(file)) <= 1.5 * static_cast<double>(payload));
    }
}

TEST_CASE("200 turns of the heavy workload take no more than 15 MB")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    bench::texts source;
    bench::coding_agent agent("coder", source);
    checkpoint last("coder");
    {
        sqlite_store store(file, sqlite_options{}.with_durability(durability::relaxed));
        for (int turn = 0; turn < 200; ++turn)
            store.save(last = agent.next());
        CHECK(store.load_latest("coder") == last);
    }
    CHECK(bytes_on_disk(file) <= 15'000'000);
}

TEST_CASE("checkpoints that are loaded together share their messages, and each is read once")
{
    const auto store = sqlite_store::in_memory();
    conversation chat;
    std::vector<conversation> saved;
    for (int i = 0; i < 100; ++i) {
        if (i == 60)
            chat.truncate(30); // another way from here
        chat.push(message::user("message " + std::to_string(i)));
        if (i == 80)
            chat.with_max_tokens(7).with_extra("model", "small");
        store->save(checkpoint("agent", chat, i).with_id(std::to_string(i)));
        saved.push_back(chat);
    }
    for (const bool oldest_first : {true, false}) {
        auto wanted = query("agent");
        if (oldest_first)
            wanted.oldest_first();
        const auto all = store->load_all(wanted);
        REQUIRE(all.size() == saved.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto& expected = saved[static_cast<std::size_t>(all[i].iteration())];
            CHECK(all[i].conversation() == expected);
            CHECK(all[i].conversation() == store->load("agent", "", all[i].id())->conversation());
        }
        // Neighbours have the same nodes, except where the way parts.
        CHECK(all[10].conversation().shared_prefix(all[11].conversation()) >= 11);
    }
    // What they remember holds: a save that continues one of them writes what is new.
    auto loaded = store->load_all(query("agent").oldest_first());
    auto next = loaded[70].conversation();
    next.push(message::user("new"));
    const auto before = store->stats("agent").bytes;
    store->save(checkpoint("agent", next, 100));
    CHECK(store->stats("agent").bytes - before < 600);
    CHECK(store->verify().ok());
}
