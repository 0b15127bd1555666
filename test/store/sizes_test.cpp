//! Large things in SQLite. Not for sanitizers: they take minutes with these.
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

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
    CHECK(chat[123'456].content() == "123456");
    chat.push(message::user("one more"));
    CHECK(store.save(checkpoint("agent", chat)).bytes_written() < 1'000);
    chat.truncate(500'001);
    CHECK(store.save(checkpoint("agent", chat)).bytes_written() < 1'000);
    CHECK(store.load_latest("agent")->conversation().back().content() == "500000");
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
