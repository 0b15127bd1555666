//! Several store objects on one file, and a file that goes back to a backup while it is open.
#include "backends/sqlite/sqlite_database.hpp"
#include "catch.hpp"
#include "forwarding_tables.hpp"
#include "sqlite_probe.hpp"
#include "tables/removals.hpp"
#include "tables/retention_sweep.hpp"
#include "temporary_folder.hpp"

#include <waymark/detail/session_functions.hpp>
#include <waymark/sqlite_store.hpp>

using namespace waymark;

namespace {

struct shared_file {
    test::temporary_folder folder;
    std::filesystem::path file = folder.path() / "store.db";
    std::filesystem::path backup = folder.path() / "backup.db";
    sqlite_store store{file};

    void back_up() const { test::copy_database(file, backup); }
    void restore() const { test::copy_database(backup, file); }
};

//! A conversation of `count` messages; they differ by `who`, but for the last, which is "ok".
conversation talk(const std::string& who, int count)
{
    conversation chat;
    for (int i = 1; i < count; ++i)
        chat.push(message::user(who + " says " + std::to_string(i)).with_id(who + std::to_string(i)));
    chat.push(message::user("ok").with_id("ok"));
    return chat;
}

void append(conversation& chat, const conversation& more)
{
    for (const auto& next : more)
        chat.push(next);
}

} // namespace

TEST_CASE("what a conversation remembers does not count in a file that went back to a backup")
{
    shared_file shared;
    auto& store = shared.store;
    auto chat = talk("first", 4);
    store.save(checkpoint("agent", chat).with_id("start"));
    shared.back_up();
    append(chat, talk("lost", 6));
    store.save(checkpoint("agent", chat).with_id("lost"));
    shared.restore();
    // Others save until sequences and messages have the numbers that they had; the last message is even the
    // same.
    auto& other = store;
    auto another = other.load("agent", "", "start")->conversation();
    append(another, talk("other", 6));
    other.save(checkpoint("agent", another).with_id("other"));

    chat.push(message::user("goes on"));
    const auto saved = checkpoint("agent", chat).with_id("goes on");
    store.save(saved);
    CHECK(store.load("agent", "", "goes on") == saved);
    CHECK(store.load("agent", "", "other")->conversation() == another);
    CHECK(store.verify().ok());

    // From then on it remembers anew.
    chat.push(message::user("and on"));
    CHECK(store.save(checkpoint("agent", chat)).bytes_written() < 700);
}

TEST_CASE("a branch from before a restore is whole, without any other writer")
{
    shared_file shared;
    auto& store = shared.store;
    auto chat = talk("first", 4);
    store.save(checkpoint("agent", chat).with_id("start"));
    shared.back_up();
    append(chat, talk("lost", 6));
    store.save(checkpoint("agent", chat).with_id("lost"));
    const auto before = chat;
    shared.restore();
    auto resumed = store.load_latest("agent")->conversation();
    for (int i = 0; i < 3; ++i) {
        append(resumed, talk("resumed " + std::to_string(i), 3));
        store.save(checkpoint("agent", resumed));
    }
    for (std::size_t length = before.size(); length > 4; --length) {
        auto branch = before;
        branch.truncate(length);
        branch.push(message::user("branch"));
        const auto saved = checkpoint("agent", branch).with_parent("start");
        store.save(saved);
        CHECK(store.load("agent", "", saved.id()) == saved);
    }
    CHECK(store.verify().ok());
}

TEST_CASE("messages that were swept after a restore are stored again")
{
    shared_file shared;
    auto& store = shared.store;
    auto chat = talk("first", 4);
    store.save(checkpoint("agent", chat).with_id("start"));
    store.save(checkpoint("agent", talk("garbage", 2)).with_id("garbage"));
    shared.back_up();
    store.erase("agent", "", "garbage"); // one sweep
    chat = store.load("agent", "", "start")->conversation();
    chat.push(message::user("seen after it"));
    shared.restore();
    store.erase("agent", "", "start"); // and one that takes other messages
    const auto saved = checkpoint("agent", chat);
    store.save(saved);
    CHECK(store.load("agent", "", saved.id()) == saved);
    CHECK(store.verify().ok());
}

TEST_CASE("a sweep that was planned before a restore removes nothing that is needed after it")
{
    //! Lets something happen between the plan and the first removal.
    class interrupted_database final : public test::forwarding_database {
    public:
        interrupted_database(std::unique_ptr<tables::database> inner, std::function<void()> meanwhile)
            : forwarding_database(std::move(inner)), meanwhile_(std::move(meanwhile))
        {
        }
        std::unique_ptr<tables::transaction> begin_write(tables::agent_ids agents) override
        {
            if (const auto once = std::exchange(meanwhile_, nullptr))
                once();
            return forwarding_database::begin_write(agents);
        }

    private:
        std::function<void()> meanwhile_;
    };

    shared_file shared;
    auto& store = shared.store;
    const auto remove_unswept = [&](const std::string& id) {
        sqlite::sqlite_database database(shared.file, {});
        const auto work = database.begin_write({});
        tables::remove_checkpoint(*work, "agent", "", id);
        work->commit();
    };
    for (const std::string id : {"kept", "old"})
        store.save(checkpoint("agent", talk(id, 3)).with_id(id));
    shared.back_up();
    store.save(checkpoint("agent", talk("lost", 3)).with_id("lost"));
    remove_unswept("lost");

    std::vector<checkpoint> saved;
    interrupted_database database(
        std::make_unique<sqlite::sqlite_database>(shared.file, sqlite_options()), [&] {
            shared.restore();
            remove_unswept("old"); // as often as before
            for (const std::string id :
                 {"a", "b"}) { // their messages have the numbers of those that were to go
                saved.push_back(checkpoint("agent", talk(id, 3)).with_id(id));
                store.save(saved.back());
            }
        });
    tables::sweep(database, "agent", {});
    for (const auto& each : saved)
        CHECK(store.load("agent", "", each.id()) == each);
    CHECK(store.verify().ok());
}

TEST_CASE("of two who begin a step in the same microsecond one runs it")
{
    shared_file shared;
    sqlite_store other(shared.file);
    const auto at = now();
    for (int i = 0; i < 100; ++i) {
        const auto key = "call " + std::to_string(i);
        const auto mine = step("agent", "", key).with_started_at(at);
        const auto theirs = step("agent", "", key).with_started_at(at);
        CHECK(detail::begin_step(shared.store, mine, {}, {}).is_new);
        try {
            detail::begin_step(other, theirs, {}, {});
            FAIL("both began it");
        } catch (const error& failure) {
            CHECK(failure.code() == errc::step_in_doubt);
        }
        const step_request late(theirs, true); // it had looked before
        CHECK(other.put_steps(std::span(&late, 1)).at(0).code() == errc::conflict);
    }
}

TEST_CASE("retention skips what was saved again after it had chosen")
{
    using namespace std::chrono_literals;
    shared_file shared;
    auto& store = shared.store;
    const auto long_ago = now() - 240h;
    for (const std::string id : {"1", "2", "3"})
        store.save(checkpoint("agent", talk(id, 2)).with_id(id).with_created_at(long_ago));
    store.save(checkpoint("agent", talk("head", 2)).with_id("head"));

    sqlite::sqlite_database database(shared.file, {});
    const auto plan = [&] {
        const auto view = database.begin_read({});
        return tables::plan_prune(*view, view->find_agent("agent").value(), retention().max_age(24h));
    }();
    REQUIRE(plan.chosen.size() == 3);
    const auto apply = [&] {
        std::size_t removed = 0;
        for (auto rest = std::span(plan.chosen); !rest.empty();) { // each transaction is short
            const auto work = database.begin_write({});
            const auto some = tables::remove_pruned(*work, "agent", plan, rest);
            work->commit();
            removed += some.removed.size();
            rest = rest.subspan(some.looked_at);
        }
        return removed;
    };

    SECTION("a checkpoint")
    {
        const auto fresh = checkpoint("agent", talk("fresh", 2)).with_id("2");
        store.save(fresh);
        CHECK(apply() == 2);
        CHECK(store.load("agent", "", "2") == fresh);
    }
    SECTION("an agent that was erased and made anew")
    {
        store.erase_agent("agent");
        for (const std::string id : {"1", "2", "3", "head"}) // even with the same content
            store.save(checkpoint("agent", talk(id, 2)).with_id(id).with_created_at(long_ago));
        CHECK(apply() == 0);
        CHECK(store.count(query("agent")) == 4);
    }
    CHECK(store.verify().ok());
}

TEST_CASE("a look at what became of a commit is repeated where someone was in its way")
{
    //! Commits, and says that it does not know.
    class doubtful_tables final : public test::forwarding_tables {
    public:
        using forwarding_tables::forwarding_tables;

        void commit() override
        {
            forwarding_tables::commit();
            throw error(errc::outcome_unknown, "the connection was lost during the commit");
        }
    };
    //! Loses the first commit; then someone cancels the looks.
    class doubtful_database final : public test::forwarding_database {
    public:
        using forwarding_database::forwarding_database;

        std::unique_ptr<tables::transaction> begin_write(tables::agent_ids agents) override
        {
            ++writes;
            if (writes == 2 || writes == 3)
                throw error(errc::busy, "cancelled");
            auto begun = forwarding_database::begin_write(agents);
            return writes > 1 ? std::move(begun) : std::make_unique<doubtful_tables>(std::move(begun));
        }
        bool loses_commits() const noexcept override { return true; }
        int writes = 0;
    };
    const test::temporary_folder folder;
    auto made = std::make_unique<doubtful_database>(
        std::make_unique<sqlite::sqlite_database>(folder.path() / "agents.db", sqlite_options()));
    const auto& database = *made;
    test::store_on_database store(std::move(made));
    CHECK(store.save(checkpoint("agent").with_id("1")).sequence() == 1);
    CHECK(database.writes == 4);
    CHECK(store.count(query("agent")) == 1);
}
