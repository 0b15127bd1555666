//! Large things in SQLite. Not for sanitizers: they take minutes with these.
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

#include <malloc.h>

using namespace waymark;

TEST_CASE("a message of 200 MB is saved and loaded")
{
    const test::temporary_folder folder;
    sqlite_store store(folder.path() / "store.db");
    conversation chat;
    chat.push(message::user(std::string(200'000'000, 'x')));
    const auto saved = checkpoint("agent", chat);
    store.save(saved);
    chat.push(message::user("next"));
    CHECK(store.save(checkpoint("agent", chat)).bytes_written() < 1'000);
    CHECK(store.load("agent", "", saved.id()) == saved);
}

TEST_CASE("a conversation of 1,000,000 messages is saved, loaded and continued")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    std::string last;
    {
        conversation chat;
        for (int i = 0; i < 1'000'000; ++i)
            chat.push(message::user(std::to_string(i)).with_id("m"));
        sqlite_store store(file);
        const auto saved = checkpoint("agent", chat);
        store.save(saved);
        last = saved.id();
    }
    sqlite_store store(file);
    auto chat = store.load("agent", "", last)->conversation();
    REQUIRE(chat.size() == 1'000'000);
    CHECK(chat[123'456].text() == "123456");
    chat.push(message::user("one more"));
    CHECK(store.save(checkpoint("agent", chat)).bytes_written() < 1'000);
    chat.truncate(500'001);
    CHECK(store.save(checkpoint("agent", chat)).bytes_written() < 1'000);
    CHECK(store.load_latest("agent")->conversation().back().text() == "500000");
}

TEST_CASE("a conversation whose last message is replaced each turn remembers its place in linear memory")
{
    const auto store = sqlite_store::in_memory();
    conversation chat;
    const auto reminder = message::user("Remember the rules.");
    const auto memory_of_turns = [&](int turns) {
        const auto before = mallinfo2().uordblks;
        for (int i = 0; i < turns; ++i) {
            chat.push(message::user("a question"));
            chat.push(message::assistant("an answer"));
            auto reminded = chat;
            reminded.push(reminder);
            store->save(checkpoint("agent", reminded).with_id("only one"));
        }
        return static_cast<double>(mallinfo2().uordblks - before) / turns;
    };
    memory_of_turns(200); // what is made once
    const auto early = memory_of_turns(1'000);
    memory_of_turns(2'000);
    const auto late = memory_of_turns(1'000);
    INFO(early << " bytes a turn at first, " << late << " in the end");
    CHECK(late < 1.5 * early); // twice as much and more if each turn remembers the whole list
}

TEST_CASE("an agent id of 255 bytes is one like any other")
{
    const test::temporary_folder folder;
    sqlite_store store(folder.path() / "store.db");
    const std::string agent(255, 'a');
    store.save(checkpoint(agent).with_id(std::string(255, 'i')).with_scope(std::string(255, 's')));
    CHECK(store.load_latest(agent, std::string(255, 's')));
    CHECK(store.list_agents() == std::vector<std::string>{agent});
}
