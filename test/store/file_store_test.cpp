#include "backends/file/file_names.hpp"
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
        CHECK(store.load_latest("agent")->id() == "three"); // the damaged one says that it is older
        CHECK(store.verify().damages().size() == 1);
        CHECK(store.verify().damages().at(0).key.id() == "two");
        CHECK_THROWS_AS(store.load_all(query("agent")), error);
        store.save(named("agent", "two")); // mends it
        CHECK(store.verify().ok());
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
        newer.replace(newer.find("\"waymark\": 1"), 12, "\"waymark\": 2");
        newer.erase(newer.rfind(",\n  \"checksum\""));
        write(file, newer + "}");
        file_store store(folder.path());
        CHECK(store.list(query("agent").oldest_first()).at(1).damage());
        CHECK(content_of(file) == newer + "}");
    }
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
    newer.replace(newer.find("\"waymark\": 1"), 12, "\"waymark\": 2");
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
