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

TEST_CASE("sizes follow what is really held")
{
    memory_store store;
    conversation chat;
    for (int i = 0; i < 10; ++i) {
        chat.push(message::user(std::string(1'000, 'x')));
        store.save(checkpoint("agent", chat, i).with_id(std::to_string(i)));
    }
    const auto all = store.stats().bytes;
    CHECK(all > 10'000);
    CHECK(all < 13'000);
    // Older checkpoints share everything with the newest: removing them frees next to nothing, and says so.
    const auto pruned = store.prune("agent", retention{}.keep_last(2), dry_run::no);
    CHECK(pruned.count() == 8);
    CHECK(pruned.bytes() < 2'000);
    CHECK(store.stats().bytes == all - pruned.bytes());
    // So a bound in bytes is a bound on what is held, and pruning twice is pruning once.
    CHECK(store.prune("agent", retention{}.max_bytes(15'000), dry_run::no).count() == 0);
    CHECK(store.prune("agent", retention{}.max_bytes(5'000), dry_run::no).count() == 1);

    // A replacement is measured against what it replaces, not against itself.
    chat.push(message::user("more"));
    const auto replaced = store.save(checkpoint("agent", chat, 10).with_id("9"));
    CHECK(replaced.bytes_written() < 500);
    CHECK(store.list(query("agent")).at(0).stored_bytes() > 10'000);
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
