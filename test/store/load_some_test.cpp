//! Checkpoints by their keys, page by page.
#include "backends.hpp"
#include "catch.hpp"
#include "forwarding_store.hpp"

using namespace waymark;

namespace {

constexpr std::size_t no_limit = 1'000'000'000;

//! Saves a conversation that grows; returns the keys.
std::vector<checkpoint_key> save_history(store& to, const std::string& agent, int turns)
{
    std::vector<checkpoint_key> keys;
    conversation chat;
    for (int i = 0; i < turns; ++i) {
        chat.push(message::user("message " + std::to_string(i)));
        const auto next = checkpoint(agent, chat, i).with_id(std::to_string(i));
        to.save(next);
        keys.push_back(next.key());
    }
    return keys;
}

//! Whether they are what `load` gives.
void check_loaded(store& from, std::span<const checkpoint_key> keys, const std::vector<load_outcome>& loaded)
{
    REQUIRE(loaded.size() == keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto expected = from.load(keys[i].agent_id(), keys[i].scope(), keys[i].id());
        CHECK(loaded[i].value_or_throw() == expected);
    }
}

} // namespace

TEST_CASE("checkpoints are loaded by their keys, in any order, absent ones too", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto store = backend.make_empty();
            auto keys = save_history(*store, "one", 5);
            const auto others = save_history(*store, "two", 3);
            keys.insert(keys.begin() + 2, {"one", "", "nothing"});
            keys.insert(keys.end(), others.rbegin(), others.rend());
            keys.push_back({"nobody", "", "0"});
            keys.push_back({"nobody", "", "1"});
            keys.push_back({"one", "no scope", "1"});
            keys.push_back({"one", "", "1"});
            check_loaded(*store, keys, store->load_some(keys, {}, no_limit));
            check_loaded(*store, keys, test::forwarding_store(store).load_some(keys, {}, no_limit));
            CHECK(store->load_some({}, {}, no_limit).empty());
            const checkpoint_key invalid("one", "", "");
            CHECK_THROWS_AS(store->load_some(std::span(&invalid, 1), {}, no_limit), error);
            CHECK_THROWS_AS(test::forwarding_store(store).load_some(std::span(&invalid, 1), {}, no_limit),
                            error);
        }
}

TEST_CASE("what was loaded earlier helps, and never misleads", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto store = backend.make_empty();
            const auto keys = save_history(*store, "agent", 20);
            const std::vector<checkpoint> earlier = {
                *store->load_some(std::span(keys).subspan(9, 1), {}, no_limit).at(0).value()};
            const auto rest = std::span(keys).subspan(5);
            check_loaded(*store, rest, store->load_some(rest, earlier, no_limit));

            // Others have saved, replaced and removed since.
            store->save(checkpoint("agent").with_id("new"));
            check_loaded(*store, rest, store->load_some(rest, earlier, no_limit));
            conversation another;
            another.push(message::user("another"));
            store->save(checkpoint("agent", another).with_id("9"));
            check_loaded(*store, rest, store->load_some(rest, earlier, no_limit));
            store->prune("agent", retention().keep_last(4), dry_run::no);
            store->compact();
            check_loaded(*store, rest, store->load_some(rest, earlier, no_limit));
            store->erase_agent("agent");
            store->compact();
            save_history(*store, "agent", 12);
            check_loaded(*store, rest, store->load_some(rest, earlier, no_limit));

            // Those of another store are none of this one.
            const auto copy = backend.make_empty();
            save_history(*copy, "agent", 15);
            check_loaded(*copy, rest, copy->load_some(rest, earlier, no_limit));
        }
}
