//! Messages remember where they are stored: a compacted conversation is saved without reading what came
//! before.
#include "backends/sqlite/sqlite_database.hpp"
#include "catch.hpp"
#include "forwarding_tables.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"
#include "with_member.hpp"

#include <waymark/sqlite_store.hpp>

#include <boost/json/parse.hpp>

#include <atomic>

using namespace waymark;

namespace {

//! Counts rows of messages, and asks for stamps and sizes.
struct looks {
    std::size_t rows = 0;   // of messages that were read
    std::size_t stamps = 0; // questions
    std::size_t sizes = 0;  // rows of messages that were counted
};
looks looked;

class watched_tables final : public test::forwarding_tables {
public:
    using forwarding_tables::forwarding_tables;

    void
    read_messages(std::int64_t agent, std::span<const tables::extent> ranges,
                  const std::function<void(std::size_t range, tables::message_row&& row)>& visit) override
    {
        forwarding_tables::read_messages(agent, ranges, [&](std::size_t range, tables::message_row&& row) {
            ++looked.rows;
            visit(range, std::move(row));
        });
    }
    void message_sizes(std::int64_t agent, std::span<const tables::extent> ranges,
                       const std::function<void(std::size_t range, message_size row)>& visit) override
    {
        forwarding_tables::message_sizes(agent, ranges, [&](std::size_t range, message_size row) {
            ++looked.sizes;
            visit(range, row);
        });
    }
    std::optional<std::int64_t> message_stamp(std::int64_t agent, std::int64_t number) override
    {
        ++looked.stamps;
        return forwarding_tables::message_stamp(agent, number);
    }
};

struct watched_file {
    test::temporary_folder folder;
    std::filesystem::path file = folder.path() / "store.db";
    std::filesystem::path backup = folder.path() / "backup.db";
    test::store_on_database store{
        std::make_unique<test::database_with<watched_tables>>(std::make_unique<sqlite::sqlite_database>(
            file, sqlite_options().with_durability(durability::relaxed)))};

    void back_up() const { test::copy_database(file, backup); }
    void restore() const { test::copy_database(backup, file); }

    //! Saves it, and checks what was saved. Returns what the save looked at.
    looks save(const conversation& chat, const std::optional<std::string>& parent = std::nullopt)
    {
        const auto next = checkpoint("agent", chat).with_parent(parent);
        looked = {};
        written = store.save(next).bytes_written();
        const auto result = looked;
        CHECK(store.load("agent", "", next.id()) == next);
        last = next.id();
        return result;
    }

    std::uint64_t written = 0;
    std::string last;
};

//! A conversation of so many messages, one of which is saved each turn.
conversation grown(watched_file& in, int count)
{
    conversation chat;
    for (int i = 0; i < count; ++i) {
        chat.push(message::user("message " + std::to_string(i)));
        in.store.save(checkpoint("agent", chat).with_id(std::to_string(i)));
    }
    in.last = std::to_string(count - 1);
    return chat;
}

//! A summary in front of the `last` messages, which are the same objects.
conversation compacted(const conversation& chat, std::size_t last)
{
    conversation result;
    result.push(message::system("You are brief."));
    result.push(message::user("What happened so far: little."));
    for (auto i = chat.size() - last; i < chat.size(); ++i)
        result.push(chat[i]);
    return result;
}

constexpr std::uint64_t cost_of_two = 900;

} // namespace

TEST_CASE("a summary in front of the last 20 messages costs the same behind 200 and behind 2,000")
{
    const bool after_a_load = GENERATE(false, true);
    const bool with_parent = GENERATE(false, true);
    std::vector<int> statements;
    std::vector<std::uint64_t> written;
    for (const int count : {200, 2'000}) {
        test::statement_counter counter;
        watched_file f;
        auto chat = grown(f, count);
        if (after_a_load)
            chat = f.store.load_latest("agent")->conversation();
        counter.take();
        looked = {};
        auto next = checkpoint("agent", compacted(chat, 20)).with_id("compacted");
        if (with_parent)
            next.with_parent(f.last);
        written.push_back(f.store.save(next).bytes_written());
        statements.push_back(counter.take());
        CHECK(looked.rows == 0);
        CHECK(looked.stamps == 0);
        CHECK(looked.sizes == 0);
        CHECK(f.store.load("agent", "", "compacted") == next);
        CHECK(f.store.verify().ok());
    }
    CHECK(statements[0] == statements[1]);
    CHECK(statements[1] <= 12);
    CHECK(written[1] <= written[0] + 16); // the numbers in it get longer
    CHECK(written[1] < cost_of_two);
}

TEST_CASE("compaction again and again keeps on costing what is new")
{
    watched_file f;
    auto chat = grown(f, 200);
    for (int turn = 0; turn < 10; ++turn) {
        chat = compacted(chat, 20);
        const auto seen = f.save(chat, f.last);
        CHECK(seen.rows == 0);
        CHECK(f.written < cost_of_two);
        for (int i = 0; i < 5; ++i) {
            chat.push(message::user("turn " + std::to_string(turn) + ", " + std::to_string(i)));
            CHECK(f.save(chat, f.last).rows == 0);
            CHECK(f.written < cost_of_two);
        }
    }
    CHECK(f.store.verify().ok());
}

TEST_CASE("after others have written, a question for the saves that followed each other is enough")
{
    watched_file f;
    const auto chat = grown(f, 200);
    sqlite_store other(f.file); // as another process would
    other.save(checkpoint("agent").with_scope("other"));
    const auto seen = f.save(compacted(chat, 20), f.last);
    CHECK(seen.rows == 0);
    CHECK(seen.stamps == 1);
    CHECK(f.written < cost_of_two);
    CHECK(f.store.verify().ok());
}

TEST_CASE("saves between which others wrote are asked for one by one, up to a bound")
{
    watched_file f;
    sqlite_store other(f.file);
    conversation chat;
    for (int i = 0; i < 100; ++i) {
        other.save(checkpoint("agent").with_scope("other").with_id("only"));
        other.erase("agent", "other", "only");
        chat.push(message::user("message " + std::to_string(i)));
        f.store.save(checkpoint("agent", chat).with_id(std::to_string(i)));
    }
    other.save(checkpoint("agent").with_scope("other"));
    CHECK(f.save(compacted(chat, 40), "99").stamps >= 30);
    CHECK(f.written < cost_of_two);
    other.save(checkpoint("agent").with_scope("other"));
    CHECK(f.save(compacted(chat, 95), "99").stamps <= 65);
    CHECK(f.store.verify().ok());
}

TEST_CASE("kept messages that were swept are stored again")
{
    watched_file f;
    auto chat = grown(f, 30);
    const auto shorter = compacted(chat, 10);
    conversation middle;
    for (std::size_t i = 20; i < 25; ++i)
        middle.push(chat[i]);
    f.save(middle); // needs some of them
    f.store.prune("agent", retention().keep_last(1), dry_run::no);
    f.store.sweep("agent");
    const auto seen = f.save(shorter);
    CHECK(seen.sizes <= 5); // those that are left
    CHECK(f.written > cost_of_two);
    CHECK(f.save(compacted(chat, 10)).rows <= 12); // messages remember their first place: the head is read
    CHECK(f.written < cost_of_two);
    CHECK(f.store.verify().ok());
}

TEST_CASE("a kept tail of any number of saves costs nothing, whoever wrote in between")
{
    watched_file f;
    const auto chat = grown(f, 300);
    const bool another_writes = GENERATE(false, true);
    for (int round = 0; round < 3; ++round) {
        if (another_writes)
            sqlite_store(f.file).save(checkpoint("agent").with_scope("other"));
        else
            f.store.prune("agent", retention().keep_last(1), dry_run::no);
        f.save(compacted(chat, 1)); // the head does not hold the tail
        const auto seen = f.save(compacted(chat, 290));
        CHECK(f.written < cost_of_two);
        CHECK(seen.stamps <= 4);
    }
    // What went back to a backup in the meantime is asked for one by one.
    f.back_up();
    auto longer = chat;
    for (int i = 0; i < 5; ++i) {
        longer.push(message::user("lost " + std::to_string(i)));
        f.save(longer);
    }
    f.restore();
    sqlite_store(f.file).save(checkpoint("agent").with_scope("other"));
    f.save(compacted(longer, 290));
    CHECK(f.store.verify().ok());
}

TEST_CASE("kept messages are not taken for those of a file that went back to a backup")
{
    watched_file f;
    auto chat = grown(f, 10);
    f.back_up();
    for (int i = 0; i < 10; ++i) {
        chat.push(message::user("lost " + std::to_string(i)));
        f.save(chat);
    }
    f.restore();
    // Others have the same numbers then.
    auto another = f.store.load_latest("agent")->conversation();
    const bool others_are_many = GENERATE(false, true);
    for (int i = 0; i < (others_are_many ? 20 : 5); ++i) {
        another.push(message::user("another " + std::to_string(i)));
        f.save(another);
    }
    f.save(compacted(chat, 15)); // 5 that are there, and 10 that are not
    f.save(compacted(another, 4));
    CHECK(f.store.verify().ok());
}

TEST_CASE("messages that are kept in another store or agent are stored there once")
{
    watched_file f;
    const auto chat = grown(f, 50);
    const auto shorter = compacted(chat, 20);
    const auto second = sqlite_store::in_memory();
    second->save(checkpoint("agent", chat));
    second->save(checkpoint("agent", shorter).with_id("kept"));
    CHECK(second->load("agent", "", "kept")->conversation() == shorter);
    f.store.save(checkpoint("fork", shorter).with_id("fork"));
    CHECK(f.store.load("fork", "", "fork")->conversation() == shorter);
    CHECK(f.save(shorter).rows == 0);
    CHECK(second->verify().ok());
    CHECK(f.store.verify().ok());
}

TEST_CASE("what messages remember of a transaction that was undone does not count")
{
    //! The second commit fails.
    class failing_tables final : public test::forwarding_tables {
    public:
        failing_tables(std::unique_ptr<tables::transaction> inner, std::atomic<bool>& fails)
            : forwarding_tables(std::move(inner)), fails_(fails)
        {
        }
        void commit() override
        {
            if (fails_)
                throw error(errc::io, "the disk is gone");
            forwarding_tables::commit();
        }

    private:
        std::atomic<bool>& fails_;
    };
    class failing_database final : public test::forwarding_database {
    public:
        failing_database(std::unique_ptr<tables::database> inner, std::atomic<bool>& fails)
            : forwarding_database(std::move(inner)), fails_(fails)
        {
        }

    protected:
        std::unique_ptr<tables::transaction> behind(std::unique_ptr<tables::transaction> begun) override
        {
            return std::make_unique<failing_tables>(std::move(begun), fails_);
        }

    private:
        std::atomic<bool>& fails_;
    };
    const test::temporary_folder folder;
    std::atomic<bool> fails = false;
    test::store_on_database store(std::make_unique<failing_database>(
        std::make_unique<sqlite::sqlite_database>(folder.path() / "store.db", sqlite_options()), fails));
    conversation chat;
    for (int i = 0; i < 10; ++i)
        chat.push(message::user("stored " + std::to_string(i)));
    store.save(checkpoint("agent", chat).with_id("stored"));
    for (int i = 0; i < 10; ++i)
        chat.push(message::user("undone " + std::to_string(i)));
    fails = true;
    CHECK_THROWS_AS(store.save(checkpoint("agent", chat).with_id("undone")), error);
    fails = false;
    conversation other; // takes the numbers
    for (int i = 0; i < 12; ++i)
        other.push(message::user("other " + std::to_string(i)));
    store.save(checkpoint("agent", other).with_id("other"));
    const auto shorter = compacted(chat, 15);
    store.save(checkpoint("agent", shorter).with_id("kept"));
    CHECK(store.load("agent", "", "kept")->conversation() == shorter);
    store.save(checkpoint("agent", chat).with_id("undone"));
    CHECK(store.load("agent", "", "undone")->conversation() == chat);
    CHECK(store.verify().ok());
}

TEST_CASE("a message that is changed forgets where it was")
{
    watched_file f;
    const auto chat = grown(f, 10);
    auto shorter = compacted(chat, 3);
    const auto changed = test::with_member(chat[8], "note", "changed");
    shorter.push(changed);
    shorter.push(message(chat[9]).with_id("another"));
    shorter.push(chat[9]); // twice in one conversation
    f.save(shorter);
    CHECK(f.store.verify().ok());
}
