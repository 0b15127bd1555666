//! Export and import between any two stores.
#include "forwarding_store.hpp"
#include "on_every_store.hpp"
#include "refusal.hpp"
#include "temporary_folder.hpp"
#include "with_member.hpp"

#include <waymark/async_transfer.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>
#include <waymark/testing/random_operations.hpp>

#include <boost/json/serialize.hpp>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <sys/stat.h>

using namespace waymark;
using test::chat_of;
using test::failure;
using test::run_coroutine;
namespace json = boost::json;

namespace {

//! Two agents with scopes, branches, names, a pin, steps, one of which was made on a checkpoint that is gone.
void fill(store& store)
{
    json::object state;
    state["plan"] = std::string(300, 'p');
    auto chat = chat_of(3);
    store.save(checkpoint("agent", chat, 1).with_id("a").with_name("start").with_state(state));
    auto branch = chat;
    chat.push(message::assistant("one"));
    store.save(checkpoint("agent", chat, 2).with_id("b").with_parent("a").with_state(state));
    store.save(checkpoint("agent", chat_of(1), 2).with_id("s").with_scope("sub"));
    branch.push(message::assistant("other"));
    branch.with_max_tokens(5).with_extra("model", "small");
    store.save(checkpoint("agent", branch, 2).with_id("c").with_parent("a").with_metadata("k", 1.5));
    store.save(checkpoint("agent", {}, 3).with_id("d").with_parent("c"));
    chat.push(message::user("\xf0\x9f\x9a\x80\n\"quoted\""));
    store.save(checkpoint("agent", chat, 4).with_id("e").with_parent("b").with_state(state));
    store.save(checkpoint("agent2", chat, 4).with_id("a"));
    store.pin("agent", "", "b", true);
    const std::vector<step_request> steps = {
        {step("agent", "", "pending").with_checkpoint("c")},
        {step("agent", "", "made on what is gone").with_checkpoint("d").with_result(json::array{1, "x"})},
        {step("agent", "sub", "done").with_result(nullptr)},
        {step("only steps", "", "k").with_result(7)}};
    for (const auto& outcome : store.put_steps(steps))
        outcome.value_or_throw();
    store.erase("agent", "", "d");
}

//! Everything that a store holds, but for sequences and sizes, which are its own.
std::string content_of(store& store)
{
    std::ostringstream text;
    for (const auto& agent : store.list_agents()) {
        for (const auto& header : store.list(query(agent).oldest_first())) {
            const auto value = store.load(agent, header.scope(), header.id()).value();
            text << header.pinned() << json::serialize(json::value_from(checkpoint(value).with_sequence(0)))
                 << '\n';
        }
        for (const auto& record : store.load_steps(step_query(agent)))
            text << json::serialize(json::value_from(record)) << '\n';
    }
    return text.str();
}

std::string lines_of(store& store)
{
    std::ostringstream lines;
    export_lines(store, lines);
    return lines.str();
}

transfer_result import_text(store& into, const std::string& lines, const import_options& options = {})
{
    std::istringstream from(lines);
    return import_lines(into, from, options);
}

} // namespace

TEST_CASE("between any two stores, back and forth, nothing changes", "[stores]")
{
    for (const auto& left : test::all_backends())
        for (const auto& right : test::all_backends())
            DYNAMIC_SECTION(left.name() << " and " << right.name())
            {
                const auto origin = left.make_empty();
                fill(*origin);
                const auto before = content_of(*origin);
                const auto copy = right.make_empty();
                const auto imported = import_text(*copy, lines_of(*origin));
                CHECK(imported == transfer_result(6, 4, 0));
                CHECK(content_of(*copy) == before);
                const auto back = left.make_empty();
                const auto as_json = import_json(*back, export_json(*copy));
                CHECK(as_json == transfer_result(6, 4, 0));
                CHECK(content_of(*back) == before);
                CHECK(back->verify().ok());
                // Steps stay as long as before.
                const auto kept = back->load_steps(step_query("agent").key("pending"));
                CHECK(back->prune("agent", retention().keep_last(0), dry_run::yes).count() == 1); // "a"
                CHECK(kept.at(0).checkpoint_id() == "c");
            }
}

TEST_CASE("random histories survive an export and an import")
{
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto origin = std::make_shared<memory_store>();
        const auto other = std::make_shared<memory_store>();
        testing::compare_stores(origin, other, seed, 40);
        const auto copy = sqlite_store::in_memory();
        import_text(*copy, lines_of(*origin));
        INFO("seed " << seed);
        CHECK(content_of(*copy) == content_of(*origin));
    }
}

TEST_CASE("long histories are exported page by page", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto origin = backend.make_empty();
            std::vector<save_request> batch;
            std::map<std::string, conversation> chats;
            for (int i = 0; i < 600; ++i) {
                const std::string scope = i % 3 == 0 ? "sub" : "";
                auto& chat = chats[scope];
                if (i % 50 == 0)
                    chat.clear(); // so that files stay small
                chat.push(message::user("message " + std::to_string(i)));
                batch.emplace_back(checkpoint("agent", chat, i).with_scope(scope).with_id(std::to_string(i)));
            }
            for (const auto& outcome : origin->save(batch))
                outcome.value_or_throw();
            for (const auto* id : {"1", "255", "256", "257", "511", "512", "598"})
                origin->pin("agent", std::stoi(id) % 3 == 0 ? "sub" : "", id, true);
            const auto copy = backend.make_empty();
            CHECK(import_text(*copy, lines_of(*origin)).checkpoints() == 600);
            CHECK(content_of(*copy) == content_of(*origin));
        }
}

TEST_CASE("an export holds as many checkpoints at a time as memory allows", "[stores]")
{
    //! Counts what is loaded at once.
    class watched final : public test::forwarding_store {
    public:
        using forwarding_store::forwarding_store;
        std::vector<load_outcome> load_some(std::span<const checkpoint_key> keys,
                                            std::span<const checkpoint> earlier,
                                            std::size_t about_bytes) override
        {
            auto loaded = is_default ? store::load_some(keys, earlier, about_bytes / 100)
                                     : inner().load_some(keys, earlier, about_bytes / 100);
            most = std::max(most, loaded.size());
            return loaded;
        }
        bool is_default = false;
        std::size_t most = 0;
    };
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            watched origin(backend.make_empty());
            for (int i = 0; i < 11; ++i) // of 400 KB each, and 640 KB at a time
                origin.store::save(
                    checkpoint("agent", chat_of(1), i)
                        .with_id(std::to_string(i))
                        .with_state({{"k", std::string(400'000, static_cast<char>('a' + i))}}));
            for (const bool is_default : {false, true}) {
                origin.is_default = is_default;
                origin.most = 0;
                memory_store copy;
                CHECK(import_text(copy, lines_of(origin)).checkpoints() == 11);
                CHECK(content_of(copy) == content_of(origin));
                // A store in memory has them all in memory.
                const bool holds_all = backend.name() == "memory" && !is_default;
                CHECK(origin.most == (holds_all ? 11 : 2));
            }
        }
}

TEST_CASE("lines may have any length and end")
{
    memory_store origin;
    for (std::size_t length = 65'450; length < 65'550;
         ++length) { // around the pieces that are read at a time
        conversation chat;
        chat.push(message::user(std::string(length - 400, 'x')));
        origin.save(checkpoint("lengths", chat, static_cast<std::int64_t>(length)));
    }
    const auto lines = lines_of(origin);
    std::set<std::size_t> lengths;
    std::istringstream split(lines);
    for (std::string line; std::getline(split, line);)
        lengths.insert(line.size());
    CHECK(lengths.contains(65'535));
    CHECK(lengths.contains(65'536));
    memory_store copy;
    CHECK(import_text(copy, lines).checkpoints() == 100);
    CHECK(content_of(copy) == content_of(origin));
    // Without the last newline, and with the line ends of another system.
    memory_store cut;
    CHECK(import_text(cut, lines.substr(0, lines.size() - 1)).checkpoints() == 100);
    std::string foreign;
    for (const char c : lines) {
        if (c == '\n')
            foreign += '\r';
        foreign += c;
    }
    memory_store other;
    CHECK(import_text(other, foreign).checkpoints() == 100);
    CHECK(content_of(other) == content_of(origin));
}

TEST_CASE("what changes during an export does not disturb it")
{
    //! Each time that a list was made, its first checkpoint goes and another one comes.
    class restless final : public test::forwarding_store {
    public:
        std::vector<checkpoint_header> list(const query& query) override
        {
            auto headers = forwarding_store::list(query);
            if (!headers.empty() && changes-- > 0) {
                erase("agent", "", headers.front().id());
                store::save(checkpoint("agent").with_id("new " + headers.front().id()));
            }
            return headers;
        }
        int changes = 2;
    };
    restless origin;
    for (int i = 0; i < 300; ++i)
        origin.store::save(checkpoint("agent", chat_of(1), i).with_id(std::to_string(i)));
    memory_store copy;
    import_text(copy, lines_of(origin));
    // Everything that was there all the time; what came meanwhile may be missing.
    for (int i = 0; i < 300; ++i) {
        const auto kept = origin.load("agent", "", std::to_string(i));
        CHECK(copy.load("agent", "", std::to_string(i)) == kept);
    }
    CHECK(copy.count(query("agent")) >= 298);
}

TEST_CASE("an agent whose head is replaced during an export is exported with the new one")
{
    //! Each time that a list was made, a newer checkpoint comes and the others go.
    class replacing final : public test::forwarding_store {
    public:
        std::vector<checkpoint_header> list(const query& query) override
        {
            auto headers = forwarding_store::list(query);
            if (changes-- > 0) {
                store::save(checkpoint("agent").with_id("newer " + std::to_string(changes)));
                prune("agent", retention{}.keep_last(1), dry_run::no);
            }
            return headers;
        }
        int changes = 3;
    };
    replacing origin;
    origin.store::save(checkpoint("agent").with_id("old"));
    memory_store copy;
    import_text(copy, lines_of(origin));
    CHECK(copy.load_latest("agent") == origin.load_latest("agent"));

    origin.changes = 1'000'000;
    try {
        lines_of(origin);
        FAIL("an export without end has ended");
    } catch (const error& failure) {
        CHECK(failure.code() == errc::busy);
    }
}

TEST_CASE("importing twice is the same as once", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto origin = backend.make_empty();
            fill(*origin);
            const auto lines = lines_of(*origin);
            const auto copy = backend.make_empty();
            import_text(*copy, lines);
            const auto once = content_of(*copy);
            for (const auto mode : {existing::skip, existing::replace, existing::fail}) {
                const auto again = import_text(*copy, lines, import_options().when_exists(mode));
                CHECK(again == transfer_result(0, 0, 10));
                CHECK(content_of(*copy) == once);
            }
        }
}

TEST_CASE("what exists with other content is skipped, replaced or a conflict", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto origin = backend.make_empty();
            fill(*origin);
            const auto lines = lines_of(*origin);
            const auto copy = backend.make_empty();
            copy->save(checkpoint("agent", chat_of(1), 9).with_id("b").with_name("mine"));
            const step_request mine(step("agent", "", "pending").with_result("mine"));
            copy->put_steps(std::span(&mine, 1)).at(0).value_or_throw();
            const auto before = content_of(*copy);

            std::string what;
            try {
                import_text(*copy, lines, import_options().when_exists(existing::fail));
            } catch (const error& failure) {
                CHECK(failure.code() == errc::conflict);
                what = failure.details().message();
            }
            CHECK(what.starts_with("line 3: checkpoint 'b' of agent 'agent' exists with other content; "));
            CHECK(content_of(*copy) == before);

            const auto skipped = import_text(*copy, lines);
            CHECK(skipped == transfer_result(5, 3, 2));
            CHECK(copy->load("agent", "", "b")->name() == "mine");
            const auto replaced = import_text(*copy, lines, import_options().when_exists(existing::replace));
            CHECK(replaced == transfer_result(1, 1, 8));
            CHECK(copy->load("agent", "", "b")->iteration() == 2);
            CHECK_FALSE(copy->load_steps(step_query("agent").key("pending")).at(0).done());
        }
}

TEST_CASE("an import beside what is there does as its mode says, whatever that is", "[stores]")
{
    // Two scopes, a branch in one of them, conversations that go on, are cut and begin anew.
    std::mt19937 random(7);
    const auto origin = std::make_shared<memory_store>();
    std::map<std::string, conversation> chats;
    for (int i = 0; i < 300; ++i) {
        const std::string scope = i % 3 == 0 ? "sub" : i % 7 == 0 ? "branch" : "";
        auto& chat = chats[scope];
        if (random() % 25 == 0)
            chat.truncate(chat.size() / 2);
        chat.push(message::user("message " + std::to_string(i)));
        if (random() % 10 == 0)
            chat.with_extra("turn", i);
        origin->save(checkpoint("agent", chat, i)
                         .with_id(std::to_string(i))
                         .with_scope(scope == "sub" ? scope : "")
                         .with_state({{"turn", i / 20}}));
        if (random() % 20 == 0)
            origin->pin("agent", scope == "sub" ? scope : "", std::to_string(i), true);
    }
    const auto lines = lines_of(*origin);
    // Another one of each kind that differs.
    const auto changed = [](const checkpoint& value, std::uint64_t how) {
        auto chat = value.conversation();
        switch (how % 5) {
        case 0:
            return checkpoint(value).with_name("other");
        case 1:
            return checkpoint(value).with_state({{"turn", -1}});
        case 2:
            chat.push(message::user("one more"));
            break;
        case 3:
            chat.truncate(chat.size() - 1);
            break;
        default: {
            conversation rebuilt(chat.max_tokens());
            rebuilt.with_extra(chat.extra());
            for (std::size_t i = 0; i < chat.size(); ++i)
                rebuilt.push(i == chat.size() / 2 ? test::with_member(chat[i], "k", 1) : chat[i]);
            chat = rebuilt;
        }
        }
        return checkpoint(value).with_conversation(chat);
    };
    const auto headers = origin->list(query("agent").oldest_first());
    for (const auto& backend : test::all_backends())
        for (const auto mode : {existing::skip, existing::replace, existing::fail})
            DYNAMIC_SECTION(backend.name() << ", mode " << static_cast<int>(mode))
            {
                const auto into = backend.make_empty();
                std::map<checkpoint_key, std::pair<checkpoint, bool>> expected;
                std::vector<save_request> batch;
                std::vector<checkpoint_key> pins;
                std::uint64_t there = 0, others = 0;
                for (const auto& header : headers) {
                    const auto value = origin->load("agent", header.scope(), header.id()).value();
                    expected.emplace(header.key(), std::pair(value, header.pinned()));
                    const auto what = random() % 4;
                    if (what == 0)
                        continue;
                    ++there;
                    const bool is_other = what == 1 && mode != existing::fail;
                    others += is_other ? 1 : 0;
                    const auto mine = is_other ? changed(value, random()) : value;
                    batch.emplace_back(mine);
                    const bool pinned = random() % 10 == 0;
                    if (pinned)
                        pins.push_back(header.key());
                    if (mode != existing::replace)
                        expected.at(header.key()) = {mine, pinned || (header.pinned() && !is_other)};
                }
                for (const auto& outcome : into->save(batch))
                    outcome.value_or_throw();
                for (const auto& key : pins)
                    into->pin("agent", key.scope(), key.id(), true);
                const auto written = headers.size() - there + (mode == existing::replace ? others : 0);
                CHECK(import_text(*into, lines, import_options().when_exists(mode)) ==
                      transfer_result(written, 0, headers.size() - written));
                std::size_t right = 0;
                for (const auto& header : into->list(query("agent"))) {
                    const auto& [value, pinned] = expected.at(header.key());
                    CHECK(into->load("agent", header.scope(), header.id()) == value);
                    CHECK(header.pinned() == pinned);
                    ++right;
                }
                CHECK(right == expected.size());
                CHECK(into->verify().ok());

                // One other among all these is found before anything is written.
                const auto last = origin->load_latest("agent").value();
                into->save(checkpoint(last).with_name("other"));
                into->erase("agent", headers.front().scope(), headers.front().id());
                try {
                    import_text(*into, lines, import_options().when_exists(existing::fail));
                    FAIL("imported over another one");
                } catch (const error& failure) {
                    CHECK(failure.code() == errc::conflict);
                }
                CHECK(into->count(query("agent")) == expected.size() - 1);
            }
}

TEST_CASE("a line holds what is new, and one agent can be exported alone, with another name")
{
    memory_store origin;
    auto chat = chat_of(0);
    for (int i = 0; i < 200; ++i) {
        chat.push(message::user(std::string(1'000, 'x')));
        origin.save(checkpoint("agent", chat, i));
    }
    origin.save(checkpoint("other", chat, 1));
    std::ostringstream lines;
    std::vector<transfer_result> progress;
    const auto exported = export_lines(origin, lines,
                                       export_options().of_agent("agent").with_progress(
                                           [&](const transfer_result& at) { progress.push_back(at); }));
    CHECK(exported == transfer_result(200, 0, 0));
    CHECK(progress.back() == exported);
    CHECK(lines.str().size() < 400'000); // alone, each whole, they would take 20 MB
    memory_store copy;
    progress.clear();
    const auto imported = import_text(copy, lines.str(),
                                      import_options().as_agent("renamed").with_progress(
                                          [&](const transfer_result& at) { progress.push_back(at); }));
    CHECK(imported.checkpoints() == 200);
    CHECK(progress.size() >= 2); // after a page, and at the end
    CHECK(progress.back() == imported);
    CHECK(copy.list_agents() == std::vector<std::string>{"renamed"});
    CHECK(copy.load_latest("renamed")->conversation() == chat);

    CHECK_THROWS_AS(import_text(copy, lines_of(origin), import_options().as_agent("one")), error);
    CHECK(copy.list_agents().size() == 1);
}

TEST_CASE("a line holds what differs in its JSON alone", "[stores]")
{
    const auto text = message::user("text");
    const auto chat_with = [&](const json::value& value) {
        conversation chat;
        chat.push(test::with_member(text, "k", value));
        chat.push(message::assistant("answer").with_id("a").with_timestamp({}));
        return std::move(chat).with_extra("x", value);
    };
    const std::vector<json::value> values = {
        0.0, -0.0, 0.0, json::object{{"a", 1}, {"b", 2}}, json::object{{"b", 2}, {"a", 1}}, 1, 1.0};
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto origin = backend.make_empty();
            int turn = 0;
            for (const auto& value : values) {
                ++turn;
                origin->save(checkpoint("agent", chat_with(value), turn)
                                 .with_id(std::to_string(turn))
                                 .with_state({{"k", value}})
                                 .with_metadata("k", value));
            }
            const auto copy = backend.make_empty();
            import_text(*copy, lines_of(*origin));
            CHECK(content_of(*copy) == content_of(*origin));

            // The same keys with other signs are no equals.
            const auto other = backend.make_empty();
            other->save(checkpoint(*copy->load("agent", "", "1")).with_state({{"k", -0.0}}));
            CHECK_THROWS_AS(
                import_text(*other, lines_of(*origin), import_options().when_exists(existing::fail)), error);
            CHECK(import_text(*other, lines_of(*origin), import_options().when_exists(existing::replace)) ==
                  transfer_result(values.size(), 0, 0));
            CHECK(content_of(*other) == content_of(*origin));
        }
}

TEST_CASE("bad input changes nothing, and the error names the line", "[stores]")
{
    memory_store origin;
    fill(origin);
    const auto good = lines_of(origin);
    std::vector<std::string> lines;
    std::istringstream split(good);
    for (std::string line; std::getline(split, line);)
        lines.push_back(line);
    REQUIRE(lines.size() == 12);
    const auto joined = [](const std::vector<std::string>& some) {
        std::string text;
        for (const auto& line : some)
            text += line + "\n";
        return text;
    };
    //! The error; the same for every store, and nothing is written.
    const auto message = [&](const std::vector<std::string>& some) {
        std::string first;
        for (const auto& backend : test::all_backends()) {
            const auto into = backend.make_empty();
            std::string said = "accepted";
            try {
                import_text(*into, joined(some));
            } catch (const error& failure) {
                CHECK(
                    (failure.code() == errc::invalid_argument || failure.code() == errc::unsupported_format));
                said = failure.details().message();
            }
            CHECK(into->stats().checkpoints + into->stats().steps == 0);
            CHECK((first.empty() || said == first));
            first = said;
        }
        return first;
    };
    auto bad = lines;
    bad[4] = "{\"checkpoint\": ";
    CHECK(message(bad).starts_with("line 5: "));
    bad = lines;
    bad[8] = R"({"step":{"agent_id":"","key":"k","started_at":"2026-01-01T00:00:00Z"}})";
    CHECK(message(bad).starts_with("line 9: "));
    bad = lines;
    bad.pop_back();
    CHECK(message(bad).starts_with("line 12: the end is missing"));
    bad = lines;
    bad.erase(bad.begin() + 7); // an agent's only checkpoint: the rest still fits together
    CHECK(message(bad).find("there should be 6 checkpoints") != std::string::npos);
    bad = lines;
    bad.insert(bad.begin() + 2, bad[1]);
    CHECK(message(bad) == "line 3: checkpoint 'a' appears twice in the input");
    bad = lines;
    bad.insert(bad.begin() + 9, bad[8]);
    CHECK(message(bad).ends_with("appears twice in the input"));
    bad = lines;
    bad.push_back(lines[3]);
    CHECK(message(bad) == "line 13: there is more after the end");
    bad = lines;
    bad[1] = bad[2];
    CHECK(message(bad).find("refers to the checkpoint before, and there is none") != std::string::npos);
    bad = lines;
    bad[0] = R"({"waymark_export":99})";
    CHECK(message(bad).starts_with("line 1: the export has format 99"));
    bad[0] = "hello";
    CHECK(message(bad).starts_with("line 1: "));
    CHECK(message({}).starts_with("line 1: the input is empty"));
    bad = lines;
    bad[3] = R"({"checkpoint":{},"unknown":1})";
    CHECK(message(bad).starts_with("line 4: "));

    memory_store into;
    for (const auto* text :
         {"", "{}", "[1]", R"({"waymark_export":2})", R"({"waymark_export":1,"checkpoints":[{}]})",
          R"({"waymark_export":1,"checkpoints":7})", "[]x"}) {
        INFO(text);
        CHECK_THROWS_AS(import_json(into, text, import_options().as_agent("a")), error);
        CHECK(into.stats().checkpoints == 0);
    }
}

TEST_CASE("an export of Breakpilot can be imported", "[stores]")
{
    std::ifstream file(WAYMARK_TEST_DATA "/breakpilot_export.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            asio::io_context io;
            async_store store(io.get_executor(), backend.make_empty());
            const auto body = [&]() -> asio::awaitable<void> {
                session session{store, "breakpilot"};
                const auto imported = co_await session.async_import(text);
                CHECK(imported.checkpoints() > 0);
                const auto again = co_await session.async_import(text);
                CHECK(again.checkpoints() == 0);
                const auto history = co_await session.async_history();
                CHECK(history.size() == imported.checkpoints());
                CHECK(history.branches().size() == 1);
                const auto exported = co_await session.async_export();
                waymark::session other{store, "other"};
                const auto moved = co_await other.async_import(exported, import_options());
                CHECK(moved.checkpoints() == imported.checkpoints());
                failure how;
                co_await other.async_import("{", how.token());
                CHECK(how.code == errc::invalid_argument);
            };
            run_coroutine(io, body());
        }
    memory_store store;
    CHECK_THROWS_AS(import_json(store, text), error); // whose is it?
}

TEST_CASE("an export of an agent that is not there is an error, and writes nothing", "[stores]")
{
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            const auto origin = backend.make_empty();
            origin->save(checkpoint("planner"));
            std::ostringstream lines;
            const auto said = test::refusal(
                [&] { export_lines(*origin, lines, export_options().of_agent("planer")); }, errc::not_found);
            CHECK(said.find("'planer'") != std::string::npos);
            CHECK(lines.str().empty());
            test::refusal([&] { export_json(*origin, export_options().of_agent("planer")); },
                          errc::not_found);
            // One that only has steps is there.
            const step_request begun(step("booker", "", "call"));
            origin->put_steps(std::span(&begun, 1));
            CHECK(export_lines(*origin, lines, export_options().of_agent("booker")) ==
                  transfer_result(0, 1, 0));
        }
}

TEST_CASE("a store is exported to a file and imported from it")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "all.jsonl";
    asio::io_context io;
    const auto origin = std::make_shared<memory_store>();
    fill(*origin);
    async_store from(io.get_executor(), origin);
    const auto copy = std::make_shared<sqlite_store>(folder.path() / "copy.db");
    async_store into(io.get_executor(), copy);
    const auto body = [&]() -> asio::awaitable<void> {
        const auto exported = co_await async_export_lines(from, file, export_options());
        CHECK(exported == transfer_result(6, 4, 0));
        struct stat status = {};
        CHECK(::stat(file.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600); // conversations are nobody else's business
        const auto imported = co_await async_import_lines(into, file, import_options());
        CHECK(imported == exported);
        failure how;
        co_await async_import_lines(into, folder.path() / "nothing", import_options(), how.token());
        CHECK(how.code == errc::io);
        co_await async_export_lines(from, folder.path() / "no" / "folder", export_options(), how.token());
        CHECK(how.code == errc::io);
    };
    run_coroutine(io, body());
    CHECK(content_of(*copy) == content_of(*origin));
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        files += entry.path().filename().native().starts_with("all") ? 1 : 0;
    CHECK(files == 1);
}

TEST_CASE("plain functions export to a file and import from it")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "all.jsonl";
    memory_store origin;
    fill(origin);
    CHECK(export_lines(origin, file) == transfer_result(6, 4, 0));
    struct stat status = {};
    CHECK(::stat(file.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    std::ifstream text(file, std::ios::binary);
    CHECK(std::string(std::istreambuf_iterator<char>(text), {}) == lines_of(origin));
    memory_store copy;
    CHECK(import_lines(copy, file) == transfer_result(6, 4, 0));
    CHECK(content_of(copy) == content_of(origin));

    SECTION("options are those of a stream")
    {
        CHECK(export_lines(origin, file, export_options{}.of_agent("agent2")) == transfer_result(1, 0, 0));
        memory_store renamed;
        CHECK(import_lines(renamed, file, import_options{}.as_agent("other")) == transfer_result(1, 0, 0));
        CHECK(renamed.list_agents() == std::vector<std::string>{"other"});
    }
    SECTION("an export that fails leaves the file as it was")
    {
        class failing final : public test::forwarding_store {
        public:
            using forwarding_store::forwarding_store;
            std::vector<step> load_steps(const step_query&) override { throw error(errc::io, "no steps"); }
        };
        failing broken(std::make_shared<memory_store>());
        broken.save(checkpoint("agent"));
        test::refusal([&] { export_lines(broken, file); }, errc::io);
        memory_store again;
        CHECK(import_lines(again, file) == transfer_result(6, 4, 0));
        const std::filesystem::directory_iterator files(folder.path());
        CHECK(std::distance(begin(files), end(files)) == 1);
    }
    SECTION("files that cannot be opened")
    {
        test::refusal([&] { import_lines(copy, folder.path() / "nothing"); }, errc::io);
        test::refusal([&] { export_lines(origin, folder.path() / "no" / "folder"); }, errc::io);
        test::refusal([&] { import_lines(copy, folder.path()); }, errc::io); // a folder
    }
}
