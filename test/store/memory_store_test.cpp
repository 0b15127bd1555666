#include "catch.hpp"

#include <waymark/memory_store.hpp>

using namespace waymark;

TEST_CASE("a thousand checkpoints of one growing conversation cost O(messages)")
{
    memory_store store;
    conversation chat;
    std::uint64_t written = 0;
    for (int i = 0; i < 1'000; ++i) {
        chat.push(message::user(std::string(1'000, 'x')));
        written += store.save(checkpoint("agent", chat, i)).bytes_written();
    }
    CHECK(written < 1'000 * 1'500); // and not 1,000 * 1,000 * 1,000 / 2
    CHECK(store.stats().bytes == written);
    // The messages are the caller's own, not copies.
    const auto all = store.load_all(query("agent").oldest_first());
    REQUIRE(all.size() == 1'000);
    for (std::size_t i = 0; i < all.size(); i += 111)
        CHECK(&all[i].conversation()[i] == &chat[i]);
}

TEST_CASE("the limits of a store are an option")
{
    memory_store store(memory_options().with_limits(limits().with_max_message_bytes(60)));
    conversation chat;
    chat.push(message::user("short"));
    store.save(checkpoint("agent", chat));
    chat.push(message::user(std::string(60, 'x')));
    CHECK_THROWS_AS(store.save(checkpoint("agent", chat)), error);
    CHECK(store.count(query("agent")) == 1);
}
