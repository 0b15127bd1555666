#include "case_list.hpp"

#include <limits>

namespace waymark::testing {

namespace {

namespace json = boost::json;

//! Ids that are hard to keep apart or to keep inside a store. All are valid.
const id_list& hostile_ids()
{
    static const id_list all = {
        "..",
        ".",
        "../../etc/passwd",
        "/absolute/path",
        "a/b",
        "a\\b",
        "C:\\x",
        "~",
        "-rf",
        "*",
        "?",
        "%2e%2e",
        "%",
        "a%00b",
        "nul",
        "CON",
        "con",
        "a.json",
        ".hidden",
        "trailing.",
        "trailing ",
        " leading",
        "tab\there",
        "new\nline",
        "\x01\x1b[31m",
        "\x7f",
        "'",
        "\"",
        "''; DROP TABLE checkpoints; --",
        "' OR '1'='1",
        "$1",
        ":id",
        "@id",
        "?1",
        "{}",
        "[]",
        "null",
        "true",
        "0",
        "-1",
        "1e9",
        "agent",
        "Agent",
        "AGENT",
        "\xc3\xa9",     // é, composed
        "e\xcc\x81",    // é, decomposed
        "\xef\xbb\xbf", // a byte order mark
        "\xe2\x80\xae", // right-to-left override
        "\xf0\x9f\xa7\xad",
        std::string(255, 'x'),
        std::string(254, 'x') + "y",
        std::string(254, 'x') + "Y",
    };
    return all;
}

void hostile_ids_are_data(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto& hostile = hostile_ids();
    for (std::size_t i = 0; i < hostile.size(); ++i) {
        const auto iteration = static_cast<std::int64_t>(i);
        store->save(checkpoint(hostile[i], chat_of(1), iteration)
                        .with_id(hostile[i])
                        .with_scope(hostile[i])
                        .with_name(hostile[i])
                        .with_parent(hostile[i])
                        .with_metadata(hostile[i], hostile[i]));
        store->save(checkpoint("one agent", chat_of(1), iteration).with_id(hostile[i]));
    }
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->list_agents().size() == hostile.size() + 1);
    WAYMARK_EXPECT(store->count(query("one agent")) == hostile.size());
    for (std::size_t i = 0; i < hostile.size(); ++i) {
        const auto& id = hostile[i];
        const auto iteration = static_cast<std::int64_t>(i);
        const auto loaded = store->load(id, id, id);
        WAYMARK_EXPECT(loaded && loaded.value().iteration() == iteration);
        WAYMARK_EXPECT(loaded.value().name() == id && loaded.value().parent_id() == id &&
                       loaded.value().metadata().at(id) == json::value(id));
        WAYMARK_EXPECT(store->load("one agent", "", id).value().iteration() == iteration);
        WAYMARK_EXPECT(store->load_latest(id, id).value().id() == id);
        WAYMARK_EXPECT(!store->load_latest(id));
        WAYMARK_EXPECT(ids(store->list(query(id).scope(id).named(id).metadata(id, id))) == id_list{id});
        WAYMARK_EXPECT(store->copy_agent(id, "copy") == 1);
        WAYMARK_EXPECT(store->load("copy", id, id));
        WAYMARK_EXPECT(store->erase_agent("copy") == 1);
        const step_request request(step(id, id, id).with_checkpoint(id));
        WAYMARK_EXPECT(!store->put_steps(std::span(&request, 1)).at(0).code());
        WAYMARK_EXPECT(store->load_steps(step_query(id).scope(id).key(id)).size() == 1);
        WAYMARK_EXPECT(store->pin(id, id, id, true));
    }
    for (const auto& id : hostile)
        WAYMARK_EXPECT(store->erase("one agent", "", id) && store->erase_agent(id) == 1);
    WAYMARK_EXPECT(store->stats().checkpoints == 0 && store->stats().agents == 0);
}

void bad_ids_are_refused(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const id_list bad = {
        "",         std::string(256, 'x'), std::string("a\0b", 3), "\xff", "\xc3", "\xed\xa0\x80",
        "\xc0\xaf", "\xf4\x90\x80\x80"};
    const auto refused = [&](const checkpoint& candidate) {
        const save_request request(candidate);
        const auto outcome = store->save(std::span(&request, 1)).at(0);
        WAYMARK_EXPECT(outcome.code() == errc::invalid_argument);
        WAYMARK_EXPECT(!outcome.details().empty());
    };
    for (const auto& id : bad) {
        refused(checkpoint_of(id, "id"));
        refused(checkpoint_of("agent", id));
        refused(checkpoint_of("agent", "id").with_parent(id));
        if (!id.empty()) {
            refused(checkpoint_of("agent", "id").with_scope(id));
            refused(checkpoint_of("agent", "id").with_name(id));
            WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->list(query(id)));
            WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->load_latest("agent", id));
            WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->list(query("agent").scope(id)));
            WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->load_all(query(id)));
            WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->count(query("agent").named(id)));
            WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->list_agents(id));
            WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->erase_scope("agent", id));
        }
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->load(id, "", "id"));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->load("agent", "", id));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->load(id));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->load_latest(id));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->erase(id, "", "id"));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->erase_scope(id, ""));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->erase_agent(id));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->copy_agent(id, "to"));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->copy_agent("from", id));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->prune(id, retention{}, dry_run::no));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->pin("agent", "", id, true));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->erase_step("agent", "", id));
        WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->stats(id));
        const step_request request(step("agent", "", id));
        WAYMARK_EXPECT(store->put_steps(std::span(&request, 1)).at(0).code() == errc::invalid_argument);
    }
    WAYMARK_EXPECT(store->stats().checkpoints == 0 && store->stats().steps == 0);
}

json::value nested(std::size_t depth)
{
    json::value inner = 1;
    for (std::size_t i = 0; i < depth; ++i)
        inner = i % 2 == 0 ? json::value(json::array{inner}) : json::value(json::object{{"k", inner}});
    return inner;
}

void bad_values_are_refused(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto good = checkpoint_of("agent", "good");
    store->save(good);
    const limits bounds;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    const std::vector<checkpoint> bad = {
        checkpoint(good).with_state({{"a", nan}}),
        checkpoint(good).with_state({{"a", json::array{1, json::object{{"b", -infinity}}}}}),
        checkpoint(good).with_state({{"a", "\xff"}}),
        checkpoint(good).with_state({{"\xff", 1}}),
        checkpoint(good).with_metadata("a", infinity),
        checkpoint(good).with_metadata("\xc3", 1),
        checkpoint(good).with_state({{"deep", nested(bounds.max_depth())}}),
        checkpoint(good).with_metadata("deep", nested(bounds.max_depth())),
        checkpoint(good).with_metadata("long", std::string(bounds.max_metadata_bytes() + 1, 'x')),
        checkpoint(good).with_created_at(timestamp::max()),
        checkpoint(good).with_created_at(timestamp::min()),
    };
    for (const auto& candidate : bad)
        WAYMARK_EXPECT(!WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->save(candidate)).empty());
    WAYMARK_EXPECT(store->load("agent", "", "good") == good); // nothing was replaced
    WAYMARK_EXPECT(store->count(query("agent")) == 1);
}

void the_limits_themselves_are_accepted(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const limits bounds;
    conversation chat;
    chat.push(message::from({{"role", "assistant"},
                             {"content", json::array{json::object{{"type", "tool_use"},
                                                                  {"input", nested(bounds.max_depth())}}}}}));
    const auto edge =
        checkpoint("agent", chat, std::numeric_limits<std::int64_t>::min())
            .with_state({{"deep", nested(bounds.max_depth() - 1)}})
            .with_metadata("deep", nested(bounds.max_depth() - 1))
            .with_name(std::string(max_id_bytes, 'n'))
            .with_created_at(timestamp(std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}));
    store->save(edge);
    const auto empty = checkpoint("agent", {}, std::numeric_limits<std::int64_t>::max()).with_scope("empty");
    store->save(empty);
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_latest("agent") == edge);
    WAYMARK_EXPECT(store->load_latest("agent", "empty") == empty);
}

void large_values_come_back(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    conversation chat;
    chat.push(message::user(std::string(5'000'000, 'm')));
    json::object files;
    for (int i = 0; i < 1'000; ++i)
        files["file-" + std::to_string(i)] = std::string(2'000, static_cast<char>('a' + i % 26));
    const auto large = checkpoint("agent", chat, 1).with_state({{"files", files}});
    store->save(large);
    const auto call = step("agent", "", "call").with_result(std::string(1'000'000, 'r'));
    const step_request request(call);
    store->put_steps(std::span(&request, 1)).at(0).value_or_throw();
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_latest("agent") == large);
    WAYMARK_EXPECT(store->load_steps(step_query("agent")) == std::vector{call});
}

} // namespace

std::vector<conformance_case> input_cases()
{
    return {
        {"hostile ids are data", hostile_ids_are_data},
        {"bad ids are refused by every function", bad_ids_are_refused},
        {"bad values are refused and nothing is changed", bad_values_are_refused},
        {"what is just within the limits is accepted", the_limits_themselves_are_accepted},
        {"large values come back", large_values_come_back},
    };
}

} // namespace waymark::testing
