#include "backends/file/file_names.hpp"
#include "backends/files.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

using namespace waymark;
namespace fs = std::filesystem;

namespace {

checkpoint named(const std::string& agent, const std::string& id)
{
    conversation chat;
    chat.push(message::user("a question about " + id));
    return checkpoint(agent, chat, 1).with_id(id);
}

std::string content_of(const fs::path& file)
{
    std::ifstream in(file);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
}

void write(const fs::path& file, const std::string& content)
{
    fs::create_directories(file.parent_path());
    std::ofstream(file) << content;
}

std::vector<std::string> ids(const std::vector<checkpoint_header>& list)
{
    std::vector<std::string> result;
    for (const auto& header : list)
        result.push_back(header.id());
    return result;
}

void replace_in(const fs::path& file, const std::string& old, const std::string& with)
{
    auto text = content_of(file);
    text.replace(text.find(old), old.size(), with);
    write(file, text);
}

void put(store& to, const step& value)
{
    const std::vector<step_request> one = {step_request(value)};
    REQUIRE_FALSE(to.put_steps(one).at(0).code());
}

error failure_of(const std::function<void()>& action)
{
    try {
        action();
    } catch (const error& failure) {
        return failure;
    }
    FAIL("nothing failed");
    return {errc::io, ""};
}

} // namespace

TEST_CASE("any id becomes a file name, and no two become the same on any file system")
{
    const std::vector<std::string> strange = {
        "plain-id_1.2",
        "Upper",
        "upper",
        "UPPER",
        "..",
        ".",
        "../x",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "a%2fb",
        "%",
        "con",
        "con.txt",
        "COM1",
        "end.",
        ".hidden",
        "sp ace",
        "tilde~",
        "\xc3\xa4",
        "a\xcc\x88",
        "x\ny",
        "*?\"<>|:",
        std::string(255, 'a'),
        std::string(255, 'b'),
        std::string(254, 'a') + "/",
        std::string(255, '/'),
        "",
    };
    std::set<std::string> folded;
    for (const auto& id : strange) {
        const auto name = file::to_name(id);
        CHECK(name.size() <= 180);
        CHECK(name.find_first_of("/\\:*?\"<>|\n ") == std::string::npos);
        CHECK(name[0] != '.');
        std::string lower = name;
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](unsigned char c) { return std::tolower(c); });
        CHECK(folded.insert(lower).second);
        if (file::is_shortened(name))
            CHECK_FALSE(file::from_name(name));
        else
            CHECK(file::from_name(name) == id);
    }
    CHECK(file::to_name("0f8fad5b-d9cb-469f-a165-70867728950e") == "0f8fad5b-d9cb-469f-a165-70867728950e");
    CHECK_FALSE(file::from_name("Upper")); // another spelling of "%55pper"
    CHECK_FALSE(file::from_name("%4"));
    CHECK_FALSE(file::from_name("%61"));
}

TEST_CASE("strange ids are stored below the folder and found again")
{
    const test::temporary_folder folder;
    const auto root = folder.path() / "deep" / "store";
    const std::vector<std::string> strange = {
        "..", "../../x", "/etc/passwd", "A", "a", std::string(255, '/'), std::string(255, 'x')};
    {
        file_store store(root);
        for (const auto& agent : strange)
            for (const auto& id : strange) {
                store.save(named(agent, id));
                store.save(named(agent, id).with_scope(id));
            }
    }
    file_store store(root);
    for (const auto& agent : strange)
        for (const auto& id : strange) {
            CHECK(store.load(agent, "", id));
            CHECK(store.load(agent, id, id));
        }
    CHECK(store.list_agents().size() == strange.size());
    CHECK(store.verify().ok());
    // Nothing else was made beside it.
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
    CHECK(std::distance(fs::directory_iterator(root.parent_path()), {}) == 1);
    for (const auto& entry : fs::recursive_directory_iterator(root))
        CHECK((entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all)) ==
              fs::perms::none);
}

TEST_CASE("an id that reads like the shortened name of another one is another one")
{
    const test::temporary_folder folder;
    const std::string longer(200, 'x');
    const auto shorter = file::to_name(longer); // of the file of the former
    REQUIRE(file::is_shortened(shorter));
    {
        file_store store(folder.path());
        store.save(named("agent", shorter).with_scope(shorter));
        CHECK_FALSE(store.load("agent", shorter, longer));
        CHECK_FALSE(store.load_latest("agent", longer));
        CHECK_FALSE(store.erase("agent", shorter, longer));
        CHECK(store.erase_scope("agent", longer) == 0);
        store.save(named("agent", longer).with_scope(shorter));
        const std::vector<step_request> steps = {step_request(step("agent", shorter, shorter))};
        CHECK_FALSE(store.put_steps(steps).at(0).code());
        CHECK_FALSE(store.erase_step("agent", shorter, longer));
    }
    file_store store(folder.path());
    CHECK(store.load("agent", shorter, shorter)->id() == shorter);
    CHECK(store.load("agent", shorter, longer)->id() == longer);
    CHECK(store.verify().ok());
}

TEST_CASE("a checkpoint is a file that people and programs can read")
{
    const test::temporary_folder folder;
    const auto saved = named("planner", "step-1").with_name("begun").with_metadata("model", "m");
    {
        file_store store(folder.path());
        store.save(saved);
        store.save(named("planner", "inner").with_scope("search"));
    }
    const auto text = content_of(folder.path() / "planner" / "step-1.json");
    CHECK(text.find("\n  \"id\": \"step-1\",\n") != std::string::npos);
    CHECK(text.find("a question about step-1") != std::string::npos);
    CHECK(checkpoint::from_bytes(text) == saved);
    CHECK(fs::exists(folder.path() / "planner" / ".waymark" / "scopes" / "search" / "inner.json"));

    // A copy in another folder is the checkpoint of another agent, and says that it is not.
    write(folder.path() / "copied" / "step-1.json", text);
    file_store store(folder.path());
    CHECK(failure_of([&] { store.load("copied", "", "step-1"); }).details().message().find("planner") !=
          std::string::npos);
}

TEST_CASE("links lead nowhere")
{
    const test::temporary_folder folder, outside;
    write(outside.path() / "secret.json", named("agent", "secret").to_bytes());
    {
        file_store store(folder.path());
        store.save(named("agent", "mine"));
    }
    fs::create_directory_symlink(outside.path(), folder.path() / "linked");
    fs::create_symlink(outside.path() / "secret.json", folder.path() / "agent" / "secret.json");
    file_store store(folder.path());
    CHECK(store.list_agents() == std::vector<std::string>{"agent"});
    CHECK(failure_of([&] { store.load("agent", "", "secret"); }).code() == errc::corrupt);
    CHECK(failure_of([&] { store.save(named("linked", "x")); }).code() == errc::io);
    CHECK(std::distance(fs::directory_iterator(outside.path()), {}) == 1);
    CHECK(store.load("agent", "", "mine"));
}

TEST_CASE("a damaged file is an error by name; lists show the others and say so")
{
    const test::temporary_folder folder;
    {
        file_store store(folder.path());
        for (const auto* id : {"one", "two", "three"})
            store.save(named("agent", id));
    }
    const auto file = folder.path() / "agent" / "two.json";
    const auto whole = content_of(file);

    SECTION("changed in the middle")
    {
        auto changed = whole;
        changed.replace(changed.find("question"), 8, "QUESTION");
        write(file, changed);
        file_store store(folder.path());
        const auto failure = failure_of([&] { store.load("agent", "", "two"); });
        CHECK(failure.code() == errc::corrupt);
        CHECK(failure.details().message().find("two.json") != std::string::npos);
        const auto list = store.list(query("agent").oldest_first());
        CHECK(ids(list) == std::vector<std::string>{"one", "two", "three"});
        CHECK(list[1].damage());
        CHECK_FALSE(list[0].damage());
        CHECK(failure_of([&] { store.load_latest("agent"); }).code() ==
              errc::corrupt); // it says that it is older, but what is true of it?
        CHECK(store.verify().damages().size() == 1);
        CHECK(store.verify().damages().at(0).key.id() == "two");
        CHECK_THROWS_AS(store.load_all(query("agent")), error);
        store.save(named("agent", "two")); // mends it
        CHECK(store.verify().ok());
        CHECK(store.load_latest("agent")->id() == "two"); // its old place is lost
    }
    SECTION("cut off, or empty")
    {
        write(file, GENERATE(true, false) ? "" : whole.substr(0, whole.size() / 8));
        file_store store(folder.path());
        CHECK(store.list(query("agent")).size() == 3);
        CHECK(failure_of([&] { store.load_latest("agent"); }).code() ==
              errc::corrupt); // it may be the newest
        CHECK(store.load("agent", "", "three"));
        CHECK(store.erase("agent", "", "two"));
        CHECK(store.load_latest("agent")->id() == "three");
    }
    SECTION("a white-space change is none")
    {
        auto compact = whole;
        std::erase(compact, '\n');
        write(file, compact);
        CHECK(file_store(folder.path()).load("agent", "", "two"));
    }
    SECTION("of a newer version")
    {
        auto newer = whole;
        newer.replace(newer.find("\"waymark\": 2"), 12, "\"waymark\": 3");
        newer.erase(newer.rfind(",\n  \"checksum\""));
        write(file, newer + "}");
        file_store store(folder.path());
        CHECK(store.list(query("agent").oldest_first()).at(1).damage());
        CHECK(content_of(file) == newer + "}");
    }
}

TEST_CASE("the sequence of a damaged file is a guess, and nothing is decided by it")
{
    const test::temporary_folder folder;
    {
        file_store store(folder.path());
        for (const auto* id : {"c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"})
            store.save(named("agent", id));
        put(store, step("agent", "", "sent").with_checkpoint("c9").with_result("yes"));
    }
    const auto file = folder.path() / "agent" / "c9.json";
    replace_in(file, "\"sequence\": 9", "\"sequence\": 1");

    for (int opening = 0; opening < 2; ++opening) { // what is removed for good is missing the second time
        file_store store(folder.path());
        const auto failure = failure_of([&] { store.load_latest("agent"); });
        CHECK(failure.code() == errc::corrupt);
        CHECK(failure.details().message().find("c9.json") != std::string::npos);
        REQUIRE(store.load_steps(step_query("agent")).size() == 1);
        CHECK(store.list(query("agent")).size() == 9);
    }
    file_store store(folder.path());
    SECTION("it is no head to expect, and neither is another")
    {
        for (const auto* head : {"c8", "c9"})
            CHECK(failure_of([&] {
                      store.save(named("agent", "next"), save_options{}.expect_head(head));
                  }).code() == errc::corrupt);
    }
    SECTION("nobody knows what was before it; it may be before another")
    {
        CHECK(failure_of([&] { store.list(query("agent").before("c9")); }).code() == errc::corrupt);
        CHECK(store.list(query("agent").before("c3")).size() == 3);
    }
    SECTION("retention neither counts nor removes it, and keeps the newest of the others")
    {
        CHECK(store.prune("agent", retention{}.keep_last(2), dry_run::no).removed().size() == 6);
        CHECK(store.count(query("agent")) == 3);
        CHECK(store.load("agent", "", "c8"));
        CHECK(fs::exists(file));
    }
    SECTION("saved again it is the newest, and its step is still there")
    {
        CHECK(store.save(named("agent", "c9")).sequence() > 9);
        CHECK(store.load_latest("agent")->id() == "c9");
        CHECK(store.load_steps(step_query("agent")).size() == 1);
    }
    SECTION("others are erased, and its step stays")
    {
        CHECK(store.erase("agent", "", "c8"));
        CHECK(store.load_steps(step_query("agent")).size() == 1);
    }
    SECTION("erased, its sequence is not used again, and its step goes with it")
    {
        CHECK(store.erase("agent", "", "c9"));
        CHECK(store.load_latest("agent")->id() == "c8");
        CHECK(store.load_steps(step_query("agent")).empty());
        CHECK(store.save(named("agent", "next")).sequence() > 9);
    }
    SECTION("the whole scope can be erased")
    {
        CHECK(store.erase_scope("agent", "") == 9);
        CHECK_FALSE(store.load_latest("agent"));
        CHECK(store.load_steps(step_query("agent")).empty());
        CHECK(store.save(named("agent", "next")).sequence() > 9);
    }
    SECTION("a step that is made on it stays, whatever its sequence was")
    {
        put(store, step("agent", "", "sent").with_checkpoint("c9").with_result("yes, twice"));
        put(store, step("agent", "", "new").with_checkpoint("c9"));
        store.save(named("agent", "c9"));
        CHECK(store.load_steps(step_query("agent")).size() == 2);
    }
}

TEST_CASE("what is saved beside a damaged file keeps its sequence to itself, even if it is damaged, too")
{
    const test::temporary_folder folder;
    {
        file_store store(folder.path());
        store.save(named("agent", "one"));
        store.save(named("agent", "two"));
    }
    write(folder.path() / "agent" / "two.json", "");
    const auto given = file_store(folder.path()).save(named("agent", "three")).sequence();
    write(folder.path() / "agent" / "three.json", "");
    CHECK(file_store(folder.path()).save(named("agent", "four")).sequence() > given);
}

TEST_CASE("a scope whose only checkpoint is damaged is not an empty one")
{
    const test::temporary_folder folder;
    const std::string scope = GENERATE(std::string("side"), std::string(255, 's')); // the latter is shortened
    {
        file_store store(folder.path());
        store.save(named("agent", "one").with_scope(scope));
        put(store, step("agent", scope, "sent").with_checkpoint("one").with_result("yes"));
    }
    write(folder.path() / "agent" / ".waymark" / "scopes" / file::to_name(scope) / "one.json", "");
    for (int opening = 0; opening < 2; ++opening) {
        file_store store(folder.path());
        CHECK(failure_of([&] { store.load_latest("agent", scope); }).code() == errc::corrupt);
        CHECK(store.load_steps(step_query("agent").scope(scope)).size() == 1);
    }
}

TEST_CASE("a damaged checkpoint counts in a scope with a long name, too")
{
    const test::temporary_folder folder;
    const std::string scope(255, 's');
    {
        file_store store(folder.path());
        store.save(named("agent", "one").with_scope(scope));
        store.save(named("agent", "two").with_scope(scope));
    }
    write(folder.path() / "agent" / ".waymark" / "scopes" / file::to_name(scope) / "two.json", "");
    file_store store(folder.path());
    CHECK(failure_of([&] { store.load_latest("agent", scope); }).code() == errc::corrupt);
    CHECK(store.list(query("agent").scope(scope)).size() == 2);
}

TEST_CASE("the order survives restarts and clocks, and erasures")
{
    const test::temporary_folder folder;
    std::int64_t last = 0;
    for (const auto* id : {"a", "b", "c"}) {
        file_store store(folder.path());
        const auto next =
            named("agent", id).with_created_at(timestamp(std::chrono::hours(*id == 'a' ? 99 : 1)));
        const auto sequence = store.save(next).sequence();
        CHECK(sequence > last);
        last = sequence;
        CHECK(store.load_latest("agent")->id() == id);
    }
    file_store(folder.path()).erase("agent", "", "c");
    CHECK(file_store(folder.path()).save(named("agent", "d")).sequence() > last);
}

TEST_CASE("left-over temporaries go at the next opening, and a format of tomorrow is refused")
{
    const test::temporary_folder folder;
    file_store(folder.path()).save(named("agent", "one"));
    write(folder.path() / ".waymark" / "temporary" / "left-over", "half of a check");
    CHECK(file_store(folder.path()).list_agents().size() == 1);
    CHECK(fs::is_empty(folder.path() / ".waymark" / "temporary"));

    write(folder.path() / ".waymark" / "format.json", "{\"waymark_files\": 2}");
    CHECK(failure_of([&] { file_store store(folder.path()); }).code() == errc::unsupported_format);
    CHECK(failure_of([&] { file_store store(folder.path(), file_options{}.read_only()); }).code() ==
          errc::unsupported_format);
}

TEST_CASE("the folders of smooth-operator are read as they are")
{
    const test::temporary_folder folder;
    const auto seed = content_of(fs::path(WAYMARK_TEST_DATA) / "smooth_operator_checkpoint.json");
    const auto original = checkpoint::from_bytes(seed);
    const auto agent = original.agent_id();
    auto second = original;
    second.with_id("00000000-0000-4000-8000-000000000001")
        .with_created_at(original.created_at() - std::chrono::hours(1));
    auto text = boost::json::parse(second.to_bytes()).as_object();
    for (const auto* ours : {"waymark", "sequence", "scope"})
        text.erase(ours);
    write(folder.path() / agent / (original.id() + ".json"), seed);
    write(folder.path() / agent / (second.id() + ".json"), boost::json::serialize(text));
    auto capital = original;
    capital.with_agent("Planner One");
    write(folder.path() / "Planner One" / (original.id() + ".json"), capital.to_bytes());

    SECTION("read-only, without a trace")
    {
        file_store store(folder.path(), file_options{}.read_only());
        CHECK(ids(store.list(query(agent).oldest_first())) ==
              std::vector<std::string>{second.id(), original.id()}); // by time
        CHECK(store.load_latest(agent)->conversation() == original.conversation());
        CHECK(store.load("Planner One", "", original.id()) == capital);
        CHECK_FALSE(fs::exists(folder.path() / ".waymark"));
    }
    SECTION("and written to")
    {
        file_store store(folder.path());
        store.save(named(agent, "new"));
        store.save(named("Planner One", "new"));
        CHECK(ids(store.list(query(agent).oldest_first())).back() == "new");
        CHECK(store.load_latest("Planner One")->id() == "new");
        CHECK(store.count(query("Planner One")) == 2);
        CHECK(content_of(folder.path() / agent / (original.id() + ".json")) == seed);
        CHECK(store.verify().ok());
        auto changed = second; // replacing keeps the place
        store.save(changed.with_name("changed"));
        CHECK(ids(store.list(query(agent).oldest_first())).front() == second.id());
        CHECK(ids(file_store(folder.path(), file_options{}.read_only()).list(query(agent).oldest_first()))
                  .front() == second.id());
        CHECK(store.erase_agent("Planner One") == 2);
        CHECK_FALSE(fs::exists(folder.path() / "Planner One"));
    }
}

TEST_CASE("a damaged file with a shortened name is found by its id, not reported as absent")
{
    const test::temporary_folder folder;
    const std::string id(255, 'i'), agent(255, 'a');
    file_store(folder.path()).save(named(agent, id));
    fs::path file;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
        if (entry.path().filename().native().starts_with("iii"))
            file = entry.path();
    write(file, content_of(file).substr(0, 300));
    file_store store(folder.path());
    CHECK(failure_of([&] { store.load(agent, "", id); }).code() == errc::corrupt);
    CHECK(failure_of([&] { store.save(named(agent, id), save_options{}.create_only()); }).code() ==
          errc::conflict);
    store.save(named(agent, id));
    CHECK(store.load(agent, "", id));
    CHECK(store.verify().ok());
    CHECK(store.count(query(agent)) == 1);
}

TEST_CASE("a folder of a long agent id that was being made harms nobody")
{
    const test::temporary_folder folder;
    const std::string agent(255, 'a');
    file_store(folder.path()).save(named("other", "x"));
    fs::create_directories(folder.path() / file::to_name(agent) / ".waymark"); // and then it was killed
    fs::create_directories(folder.path() / "notes~2026");
    file_store store(folder.path());
    CHECK(store.list_agents() == std::vector<std::string>{"other"});
    store.save(named(agent, "x"));
    CHECK(store.load(agent, "", "x"));
    CHECK(file_store(folder.path() / "second").list_agents().empty());
}

TEST_CASE("a damaged record of an agent leaves its checkpoints readable and keeps what may be pinned")
{
    const test::temporary_folder folder;
    {
        file_store store(folder.path());
        for (const auto* id : {"one", "two", "three"})
            store.save(named("agent", id));
        store.pin("agent", "", "one", true);
    }
    write(folder.path() / "agent" / ".waymark" / "agent.json", "{\"waymark\": 1, ");
    file_store store(folder.path());
    CHECK(store.load_latest("agent")->id() == "three");
    CHECK(store.load_all(query::all_agents()).size() == 3);
    // Nobody can say what is pinned.
    CHECK(failure_of([&] { store.list(query::all_agents()); }).code() == errc::corrupt);
    CHECK(store.verify().damages().size() == 1);
    CHECK(failure_of([&] { store.prune("agent", retention{}.keep_last(1), dry_run::no); }).code() ==
          errc::corrupt);
    CHECK(failure_of([&] { store.pin("agent", "", "two", true); }).code() == errc::corrupt);
    CHECK(store.save(named("agent", "four")).sequence() > 3);
    CHECK(store.erase_agent("agent") == 4);
}

TEST_CASE("folders and files of other people are left alone")
{
    const test::temporary_folder folder, outside;
    write(folder.path() / "photos" / "cat.jpg", "a cat");
    write(outside.path() / "treasure.json", "{}");
    file_store(folder.path()).save(named("agent", "x"));
    fs::create_directory_symlink(outside.path(), folder.path() / "agent" / ".waymark");
    {
        file_store store(folder.path());
        CHECK(store.list_agents() == std::vector<std::string>{"agent"});
        CHECK(store.erase_agent("photos") == 0);
        CHECK(failure_of([&] { store.copy_agent("agent", "photos"); }).code() == errc::conflict);
        CHECK(failure_of([&] { store.pin("agent", "", "x", true); }).code() == errc::io);
        CHECK(store.erase_agent("agent") == 1);
    }
    CHECK(content_of(folder.path() / "photos" / "cat.jpg") == "a cat");
    CHECK(fs::exists(outside.path() / "treasure.json"));

    fs::remove_all(folder.path() / ".waymark");
    fs::create_directory(folder.path() / ".waymark");
    fs::create_directory_symlink(outside.path(), folder.path() / ".waymark" / "temporary");
    CHECK(failure_of([&] { file_store store(folder.path()); }).code() == errc::io);
    CHECK(fs::exists(outside.path() / "treasure.json"));
}

TEST_CASE("a file of a newer version is not overwritten")
{
    const test::temporary_folder folder;
    file_store(folder.path()).save(named("agent", "one"));
    const auto file = folder.path() / "agent" / "one.json";
    auto newer = content_of(file);
    newer.replace(newer.find("\"waymark\": 2"), 12, "\"waymark\": 3");
    newer.erase(newer.rfind(",\n  \"checksum\""));
    write(file, newer + "}");
    file_store store(folder.path());
    CHECK(failure_of([&] { store.load("agent", "", "one"); }).code() == errc::unsupported_format);
    CHECK(failure_of([&] { store.save(named("agent", "one")); }).code() == errc::unsupported_format);
    CHECK(content_of(file) == newer + "}");
}

TEST_CASE("damage that comes while the store is open is repaired by saving again")
{
    const test::temporary_folder folder;
    file_store store(folder.path());
    const auto saved = named("agent", "one");
    store.save(saved);
    const auto file = folder.path() / "agent" / "one.json";
    if (GENERATE(true, false))
        write(file, "rot");
    else
        fs::remove(file);
    store.save(saved);
    CHECK(store.load("agent", "", "one") == saved);
}

TEST_CASE("a folder that is not there, or is a file, is refused")
{
    const test::temporary_folder folder;
    write(folder.path() / "file", "text");
    CHECK(failure_of([&] { file_store store(folder.path() / "file"); }).code() == errc::io);
    CHECK(failure_of([&] { file_store store(""); }).code() == errc::invalid_argument);
    CHECK(failure_of([&] { file_store store(folder.path() / "none", file_options{}.read_only()); }).code() ==
          errc::io);
    CHECK_FALSE(fs::exists(folder.path() / "none"));
}

TEST_CASE("a head that was removed by hand is looked for again")
{
    const test::temporary_folder folder;
    file_store store(folder.path());
    store.save(named("agent", "one"));
    store.save(named("agent", "two"));
    put(store, step("agent", "", "sent").with_checkpoint("one").with_result("yes"));
    fs::remove(folder.path() / "agent" / "two.json");
    SECTION("by load_latest")
    {
        CHECK(store.load_latest("agent")->id() == "one");
    }
    SECTION("by load")
    {
        CHECK_FALSE(store.load("agent", "", "two"));
    }
    SECTION("by load with the id alone")
    {
        CHECK_FALSE(store.load("two"));
    }
    SECTION("by load_all")
    {
        CHECK(store.load_all(query("agent")).size() == 1);
    }
    SECTION("by verify")
    {
        CHECK(store.verify().ok());
    }
    CHECK(store.load_latest("agent")->id() == "one");
    CHECK(store.load_steps(step_query("agent")).size() == 1);
    store.save(named("agent", "three"));
    CHECK(store.load_latest("agent")->id() == "three");
}

TEST_CASE("what a writer erases while a reader verifies is no damage")
{
    const test::temporary_folder folder;
    file_store writer(folder.path());
    for (const auto* id : {"one", "two", "three"})
        for (const auto* agent : {"a", "b"})
            writer.save(named(agent, id));
    put(writer, step("b", "", "sent").with_checkpoint("one").with_result("yes"));
    file_store reader(folder.path(), file_options{}.read_only());
    std::uint64_t calls = 0;
    const auto report = reader.verify([&](const upkeep_progress& progress) {
        CHECK(progress.done <= progress.total);
        CHECK(progress.done >= ++calls);
        if (progress.done != 1)
            return;
        writer.save(named("a", "four"));
        writer.erase("a", "", "two");
        writer.erase_agent("b");
    });
    CHECK(report.ok());
    CHECK(report.checked() >= 3);
    CHECK(calls > 1);
}

TEST_CASE("a young file that was replaced by one with the same inode, size and time is read again")
{
    const test::temporary_folder folder, other;
    auto saved = named("agent", "one");
    file_store(folder.path()).save(saved.with_name("first"));
    file_store(other.path()).save(saved.with_name("other"));
    const auto file = folder.path() / "agent" / "one.json";
    const auto time = fs::last_write_time(file);
    file_store reader(folder.path(), file_options{}.read_only());
    CHECK(reader.list(query("agent")).at(0).name() == "first");
    // Two saves within a tick of the file system's clock can do that: the second gets the inode of the file
    // that the first replaced.
    write(file, content_of(other.path() / "agent" / "one.json"));
    fs::last_write_time(file, time);
    CHECK(reader.list(query("agent")).at(0).name() == "other");
}

namespace {

//! release/1, current -> release/1, and links that lead nowhere, to links, in a circle.
struct linked_folders {
    linked_folders()
    {
        fs::create_directories(root / "release" / "1");
        fs::create_directory_symlink("release/1", root / "current");
        fs::create_directory_symlink(root / "current", root / "newest");
        fs::create_symlink("release/new", root / "dangling");
        fs::create_symlink("turning", root / "round");
        fs::create_symlink("round", root / "turning");
        write(root / "file", "text");
    }

    test::temporary_folder folder;
    fs::path root = fs::canonical(folder.path());
};

} // namespace

TEST_CASE("a path leads where the system would go")
{
    const linked_folders at;
    const auto& root = at.root;
    const auto resolved = [&](const std::string& path) { return files::resolve(root / path); };
    CHECK(resolved("current") == root / "release" / "1");
    CHECK(resolved("current/") == root / "release" / "1");
    CHECK(resolved("current/..") == root / "release");
    CHECK(resolved("current/../shared/store.db") == root / "release" / "shared" / "store.db");
    CHECK(resolved("newest/../shared") == root / "release" / "shared");
    CHECK(resolved("dangling") == root / "release" / "new");
    CHECK(resolved("dangling/sub/x") == root / "release" / "new" / "sub" / "x");
    CHECK(resolved("./none/./x//y/") == root / "none" / "x" / "y");
    CHECK(resolved("none/../x") == root / "x");
    CHECK(resolved("none/../current/x") == root / "release" / "1" / "x");
    CHECK(resolved("../../../../../../../../../../..") == "/");
    CHECK(failure_of([&] { resolved("round/x"); }).details().message().find("symbolic links") !=
          std::string::npos);
    CHECK(failure_of([&] { resolved("file/x"); }).code() == errc::io);
    CHECK(failure_of([&] { resolved("file/../x"); }).code() == errc::io);

    const auto before = fs::current_path();
    fs::current_path(root);
    const auto relative = files::resolve("current/../x");
    fs::current_path(before);
    CHECK(relative == root / "release" / "x");
}

TEST_CASE("a folder that is named through links is the one that the system means")
{
    const linked_folders at;
    const auto [named_as, is_at] = GENERATE(table<std::string, std::string>({
        {"current/../shared", "release/shared"},
        {"current/", "release/1"},
        {"newest/store", "release/1/store"},
        {"dangling", "release/new"},
        {"none/../store", "store"},
    }));
    {
        file_store store(at.root / named_as);
        store.save(named("agent", "one"));
        CHECK(fs::exists(at.root / is_at / "agent" / "one.json"));
        CHECK_FALSE(fs::exists(at.root / "shared"));
        CHECK_FALSE(fs::exists(at.root / "none"));
        // Where the links lead later is another matter.
        fs::remove(at.root / "current");
        fs::create_directory_symlink("elsewhere", at.root / "current");
        store.save(named("agent", "two"));
    }
    CHECK(file_store(at.root / is_at).load_latest("agent")->id() == "two");
}

TEST_CASE("a store whose folder was moved is out of use, and does not write into another of that name")
{
    const test::temporary_folder folder;
    const auto root = folder.path() / "store";
    file_store store(root);
    store.save(checkpoint("agent").with_id("1"));
    file_store reader(root, file_options().read_only());
    fs::rename(root, folder.path() / "elsewhere");
    file_store other(root);
    other.save(checkpoint("agent").with_id("other"));
    for (auto* moved : {&store, &reader}) {
        try {
            moved->load_latest("agent");
            FAIL("it says that there is something, or nothing");
        } catch (const error& failure) {
            CHECK(failure.code() == errc::io);
            CHECK(failure.details().message().find("moved or replaced") != std::string::npos);
        }
    }
    CHECK_THROWS_AS(store.save(checkpoint("agent").with_id("2")), error);
    CHECK(other.count(query("agent")) == 1);
    CHECK(file_store(folder.path() / "elsewhere", file_options().read_only()).load("agent", "", "1"));
}

TEST_CASE("a damaged file that was removed by hand is not damage any more")
{
    const test::temporary_folder folder;
    file_store store(folder.path());
    store.save(checkpoint("agent").with_id("1"));
    store.save(checkpoint("agent").with_id("2"));
    const auto file = folder.path() / "agent" / "2.json";
    fs::resize_file(file, 20);
    file_store reader(folder.path(), file_options().read_only());
    CHECK_THROWS_AS(reader.load_latest("agent"), error);
    fs::remove(file);
    CHECK(reader.load_latest("agent")->id() == "1");
    CHECK(store.load_latest("agent")->id() == "1");
}

TEST_CASE("a damaged step keeps every checkpoint of its scope from retention")
{
    const test::temporary_folder folder;
    {
        file_store store(folder.path());
        for (const std::string id : {"1", "2", "3"})
            store.save(checkpoint("agent").with_id(id));
        const step_request pending(step("agent", "", "call").with_checkpoint("1"));
        store.put_steps(std::span(&pending, 1));
    }
    const auto file = folder.path() / "agent" / ".waymark" / "steps" / "%" / "call.json";
    auto text = content_of(file);
    text[text.find("attempt") + 12] ^= 1;
    std::ofstream(file) << text;
    file_store store(folder.path());
    CHECK(store.prune("agent", retention().keep_last(1), dry_run::no).count() == 0);
}

TEST_CASE("retention keeps the newest that is there when the head was removed by hand")
{
    const test::temporary_folder folder;
    file_store store(folder.path());
    for (const std::string id : {"1", "2", "3"})
        store.save(checkpoint("agent").with_id(id));
    fs::remove(folder.path() / "agent" / "3.json");
    store.prune("agent", retention().keep_last(1), dry_run::no);
    CHECK(store.load_latest("agent")->id() == "2");
}
