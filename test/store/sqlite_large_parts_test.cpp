//! Large parts of messages in a SQLite file: what they cost, when they go, what is said when they are
//! damaged.
#include "backends/sqlite/sqlite_database.hpp"
#include "catch.hpp"
#include "forwarding_tables.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"
#include "with_member.hpp"

#include <waymark/sqlite_store.hpp>

#include <random>

using namespace waymark;
namespace json = boost::json;

namespace {

//! What no compression makes shorter, as the base64 of an image.
std::string image_of(std::size_t bytes, unsigned seed)
{
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::mt19937 random(seed);
    std::string image(bytes, ' ');
    for (auto& next : image)
        next = digits[random() % digits.size()];
    return image;
}

const std::string image = image_of(100'000, 1);

message with_image(const std::string& data, const std::string& text = "look")
{
    return test::with_member(message::user(text), "image",
                             json::object{{"type", "image/png"}, {"data", data}});
}

checkpoint holding(const std::string& id, std::initializer_list<message> messages)
{
    conversation chat;
    for (const auto& next : messages)
        chat.push(next);
    return checkpoint("agent", chat).with_id(id);
}

bool tells(const std::string& message, std::string_view part)
{
    return message.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the same image in two messages and two branches is one object")
{
    test::sqlite_on_disk f;
    f.store.save(holding("one", {with_image(image)}));
    f.store.save(
        holding("two", {message::user("first"), with_image(image, "again"), with_image(image, "and again")}));
    const auto on_a_branch =
        f.store.save(holding("branch", {with_image(image, "elsewhere")}).with_scope("side")).bytes_written();
    CHECK(on_a_branch < 1'000);
    CHECK(f.rows("objects") == 1);
    // So is one that a state holds in the same words.
    f.store.save(holding("three", {with_image(image_of(50'000, 2))}).with_state({{"image", image}}));
    CHECK(f.rows("objects") == 3);
    CHECK(f.store.verify().ok());
}

TEST_CASE("100 turns that write a message with an image of 2 MB anew take less than 3 MB")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "store.db";
    const auto large = image_of(2'000'000, 3);
    checkpoint last("agent");
    {
        sqlite_store store(file, sqlite_options{}.with_durability(durability::relaxed));
        for (int turn = 0; turn < 100; ++turn) {
            conversation chat;
            chat.push(message::system("You look at pictures."));
            chat.push(with_image(large, "turn " + std::to_string(turn)));
            chat.push(message::assistant("A cat."));
            const auto bytes = store.save(last = checkpoint("agent", chat, turn)).bytes_written();
            CHECK((turn == 0 || bytes < 2'000));
        }
        CHECK(store.load_latest("agent") == last);
        CHECK(store.verify().ok());
    }
    const auto bytes = std::filesystem::file_size(file);
    INFO(bytes);
    CHECK(bytes < 3'000'000);
    sqlite_store again(file);
    CHECK(again.load_latest("agent") == last);
}

TEST_CASE("an image goes with the last message that holds it, and not before")
{
    test::sqlite_on_disk f;
    const auto shown = with_image(image);
    f.store.save(holding("a", {shown, message::user("and more")}));
    f.store.save(holding("b", {with_image(image, "again")}));
    f.store.save(holding("c", {message::user("and more")}));
    f.store.erase("agent", "", "a");
    f.store.sweep("agent");
    CHECK(f.rows("objects") == 1);
    CHECK(f.rows("messages") == 2);
    f.store.erase("agent", "", "b");
    f.store.sweep("agent");
    CHECK(f.rows("objects") == 0);
    CHECK(f.store.verify().ok());

    // A message beside it in the same save does not keep it.
    const auto beside = message::user("beside");
    f.store.save(holding("d", {shown, beside}));
    f.store.save(holding("e", {beside}));
    f.store.erase("agent", "", "d");
    f.store.sweep("agent");
    CHECK(f.rows("objects") == 0);
    CHECK(f.store.load("agent", "", "e")->conversation().back() == beside);
    // What is remembered of the message that went does not count.
    f.store.save(holding("f", {beside, shown}));
    CHECK(f.rows("objects") == 1);
    CHECK(f.store.load("agent", "", "f")->conversation().back() == shown);
    CHECK(f.store.verify().ok());
}

namespace {

//! Calls something before transactions that write begin.
class meddled_database final : public test::forwarding_database {
public:
    meddled_database(const std::filesystem::path& file, std::function<void()> before_write)
        : forwarding_database(std::make_unique<sqlite::sqlite_database>(file, sqlite_options())),
          before_write_(std::move(before_write))
    {
    }
    std::unique_ptr<tables::transaction> begin_write(tables::agent_ids agents) override
    {
        before_write_();
        return forwarding_database::begin_write(agents);
    }

private:
    std::function<void()> before_write_;
};

} // namespace

TEST_CASE("a sweep spares the image that was saved again after its plan was made")
{
    test::sqlite_on_disk f;
    const auto shown = with_image(image);
    f.store.save(holding("gone", {shown}));
    f.store.save(holding("head", {message::user("head")}));
    f.store.erase("agent", "", "gone");
    REQUIRE(f.rows("objects") == 1);

    const bool as_new_message = GENERATE(true, false);
    const bool by_state = GENERATE(true, false);
    int calls = 0;
    test::store_on_database sweeping(std::make_unique<meddled_database>(f.file, [&] {
        if (++calls != 1) // the plan is made, and nothing is removed yet
            return;
        auto saved = holding("new", {as_new_message ? with_image(image, "new") : shown});
        if (by_state)
            saved.with_state({{"other", image}});
        f.store.save(saved);
    }));
    sweeping.sweep("agent");
    REQUIRE(calls > 0);
    sweeping.sweep("agent");
    CHECK(f.store.load("agent", "", "new").has_value());
    CHECK(f.store.verify().ok());
    f.store.erase("agent", "", "new");
    f.store.sweep("agent");
    CHECK(f.rows("objects") == (0));
    CHECK(f.rows("messages") == 1);
}

TEST_CASE("a save that comes between two transactions of a sweep finds what is left, or stores it anew")
{
    test::sqlite_on_disk f;
    std::vector<message> shown;
    for (unsigned i = 0; i < 600; ++i) // more than a transaction of a sweep removes
        shown.push_back(with_image(image_of(20'000, 10 + i % 7), std::to_string(i)));
    conversation chat;
    for (const auto& next : shown)
        chat.push(next);
    f.store.save(checkpoint("agent", chat).with_id("gone"));
    f.store.save(holding("head", {message::user("head")}));
    f.store.erase("agent", "", "gone");
    CHECK(f.rows("objects") == 7);

    int calls = 0;
    test::store_on_database sweeping(std::make_unique<meddled_database>(f.file, [&] {
        const auto next = static_cast<unsigned>(calls++);
        if (next >= 20)
            return;
        f.store.save(
            holding("new " + std::to_string(next),
                    {shown[next], shown[599 - next], with_image(image_of(20'000, 10 + next % 7), "new")}));
    }));
    sweeping.sweep("agent");
    CHECK(calls > 1);
    for (const auto& header : f.store.list(query("agent")))
        CHECK(f.store.load("agent", "", header.id()).has_value());
    CHECK(f.store.verify().ok());
    f.store.prune("agent", retention().keep_last(1), dry_run::no);
    f.store.sweep("agent");
    CHECK(f.store.verify().ok());
}

TEST_CASE("damage to the large parts of a message is named with its checkpoint")
{
    test::sqlite_on_disk f;
    const auto other = image_of(100'000, 4);
    const auto hurt = holding("hurt", {message::user("before"), with_image(image), message::user("behind")});
    f.store.save(holding("whole", {with_image(other, "whole")}));
    f.store.save(hurt);
    const std::string its_row = "first = (SELECT max(first) FROM messages WHERE parts IS NOT NULL)";
    std::string damage, named_as;
    bool may_sweep = true;
    SECTION("the object is gone")
    {
        damage = "DELETE FROM objects WHERE number = 2";
        named_as = "stored object 2 is missing";
    }
    SECTION("the object is another")
    {
        damage = "UPDATE objects SET (hash, body) = (SELECT hash, body FROM objects WHERE number = 1) WHERE "
                 "number = 2";
        named_as = "stored object 2 is damaged (another one is in its place)";
    }
    SECTION("a byte of the object differs")
    {
        damage = "UPDATE objects SET body = CAST(replace(CAST(body AS TEXT), 'AA', 'AB') AS BLOB) WHERE "
                 "number = 2";
        named_as = "stored object 2 is damaged (its stored hash differs)";
    }
    SECTION("the row does not say which object it needs")
    {
        damage = "UPDATE messages SET parts = NULL WHERE " + its_row;
        named_as = "which objects hold its large parts";
    }
    SECTION("the row says something that cannot be read")
    {
        damage = "UPDATE messages SET parts = x'0102' WHERE " + its_row;
        named_as = "the list of its large parts is damaged";
        may_sweep = false;
    }
    SECTION("the row names the object of another")
    {
        damage =
            "UPDATE messages SET parts = (SELECT min(parts) FROM messages WHERE parts IS NOT NULL) WHERE " +
            its_row;
        named_as = "the list of its large parts is damaged";
        may_sweep = false;
    }
    f.damage(damage);
    try {
        f.store.load("agent", "", "hurt");
        FAIL("it was loaded");
    } catch (const error& failure) {
        CHECK(failure.code() == errc::corrupt);
        INFO(failure.details().message());
        CHECK(tells(failure.details().message(), "checkpoint 'hurt' of agent 'agent'"));
        CHECK(tells(failure.details().message(), "stored message 3"));
        CHECK(tells(failure.details().message(), named_as));
    }
    CHECK(f.store.load("agent", "", "whole").has_value());
    const auto report = f.store.verify();
    bool is_named = false;
    for (const auto& found : report.damages()) {
        CHECK((found.key.id().empty() || found.key.id() == "hurt"));
        is_named = is_named || (found.key.id() == "hurt" && tells(found.what, "stored message 3"));
    }
    CHECK(is_named);

    // What cannot be read keeps a sweep from removing anything; what was saved anew is whole.
    f.store.save(holding("late", {message::user("late")}));
    f.store.erase("agent", "", "late");
    const auto rows = f.rows("messages");
    f.store.sweep("agent");
    CHECK(f.rows("messages") == rows - (may_sweep ? 1 : 0));
    CHECK_NOTHROW(f.store.prune("agent", retention().keep_last(10), dry_run::yes));
    sqlite_store fresh(f.file); // nobody remembers anything
    fresh.save(hurt);
    CHECK(fresh.load("agent", "", "hurt") == hurt);
}

TEST_CASE("a part of a message that is too long for the database is refused, and nothing is written")
{
    const test::statement_counter bounded(1'000'000); // bytes a value
    test::sqlite_on_disk f;
    const auto fits =
        test::with_member(with_image(image_of(450'000, 5)), "second", std::string(150'000, '\1'));
    f.store.save(holding("fits", {fits}));
    CHECK(f.store.load("agent", "", "fits")->conversation().back() == fits);
    try {
        f.store.save(holding("long", {message::user("short"), with_image(std::string(200'000, '\1'))}));
        FAIL("it was saved");
    } catch (const error& failure) {
        CHECK(failure.code() == errc::invalid_argument);
        INFO(failure.details().message());
        CHECK(tells(failure.details().message(), "a part of a message takes 1200000 bytes"));
    }
    CHECK(f.rows("checkpoints") == 1);
    CHECK(f.rows("objects") == 2);
}
