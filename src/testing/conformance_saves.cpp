#include "case_list.hpp"

#include <boost/json/parse.hpp>

#include <atomic>
#include <thread>

namespace waymark::testing {

namespace {

namespace json = boost::json;

checkpoint with_everything()
{
    conversation chat = chat_of(2);
    chat.push(message::assistant("", {tool_call("call-1", "search", json::parse(R"({"q": [1, -2, 3.5]})")),
                                      tool_call("call-2", "clock", "now")}));
    chat.push(message::tool_result("call-1", std::string("zero \0 byte", 11)));
    chat.push(message::from(
        json::parse(R"({"type": "reasoning", "encrypted_content": "x\u0000y", "summary": []})").as_object()));
    return checkpoint("everything", chat, -5)
        .with_id("all")
        .with_scope("inner")
        .with_parent("before")
        .with_name("näme")
        .with_state({{"big", 18446744073709551615u},
                     {"small", std::numeric_limits<std::int64_t>::min()},
                     {"third", 1.0 / 3},
                     {"text", std::string_view("a\0b", 3)},
                     {"nested", json::parse(R"({"list": [[], {}, null, true]})")}})
        .with_metadata("phase", "execute")
        .with_metadata("", 7)
        .with_created_at(timestamp(std::chrono::microseconds(1'750'000'000'123'456)));
}

void what_was_saved_is_loaded(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto original = with_everything();
    const auto result = store->save(original);
    WAYMARK_EXPECT(result.sequence() > 0);
    WAYMARK_EXPECT(result.bytes_written() > 0);

    store = backend.reopen(std::move(store));
    const auto loaded = store->load("everything", "inner", "all");
    WAYMARK_EXPECT(loaded.has_value());
    WAYMARK_EXPECT(loaded.value() == original);
    WAYMARK_EXPECT(loaded.value().sequence() == result.sequence());
    const auto by_id = store->load("all");
    WAYMARK_EXPECT(by_id == original && by_id.value().sequence() == result.sequence());
    const auto latest = store->load_latest("everything", "inner");
    WAYMARK_EXPECT(latest == original && latest.value().sequence() == result.sequence());
}

void absence_is_a_value(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    WAYMARK_EXPECT(!store->load("nobody", "", "nothing"));
    WAYMARK_EXPECT(!store->load("nothing"));
    WAYMARK_EXPECT(!store->load_latest("nobody"));
    WAYMARK_EXPECT(store->list(query("nobody")).empty());
    WAYMARK_EXPECT(store->load_all(query("nobody")).empty());
    WAYMARK_EXPECT(store->count(query::all_agents()) == 0);
    WAYMARK_EXPECT(store->list_agents().empty());
    WAYMARK_EXPECT(!store->erase("nobody", "", "nothing"));
    WAYMARK_EXPECT(store->erase_agent("nobody") == 0);
    WAYMARK_EXPECT(!store->pin("nobody", "", "nothing", true));
    WAYMARK_EXPECT(store->prune("nobody", retention{}.keep_last(0), dry_run::no).count() == 0);
    WAYMARK_EXPECT(store->load_steps(step_query("nobody")).empty());

    store->save(checkpoint_of("someone", "here"));
    WAYMARK_EXPECT(!store->load("someone", "other scope", "here"));
    WAYMARK_EXPECT(!store->load("someone", "", "not here"));
    WAYMARK_EXPECT(!store->load_latest("someone", "other scope"));
}

void the_latest_is_decided_by_sequence(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto past = now() - std::chrono::hours(24 * 365);
    const auto first = store->save(checkpoint_of("agent", "saved first"));
    const auto second = store->save(checkpoint_of("agent", "saved second").with_created_at(past));
    WAYMARK_EXPECT(second.sequence() > first.sequence());
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_latest("agent").value().id() == "saved second");
    WAYMARK_EXPECT(store->load_latest("agent").value().sequence() ==
                   store->list(query("agent").limit(1)).at(0).sequence());
    WAYMARK_EXPECT(ids(store->list(query("agent"))) == (id_list{"saved second", "saved first"}));
    const auto third = store->save(checkpoint_of("agent", "after reopening"));
    WAYMARK_EXPECT(third.sequence() > second.sequence());
}

void an_existing_key_is_replaced_in_place(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto first = store->save(checkpoint_of("agent", "a", 1).with_state({{"old", 1}}));
    store->save(checkpoint_of("agent", "b", 2));
    WAYMARK_EXPECT(store->pin("agent", "", "a", true));
    store = backend.reopen(std::move(store));
    const auto replacement =
        checkpoint_of("agent", "a", 3).with_name("renamed").with_state({{"new", 1}}).with_metadata("new", 1);
    const auto again = store->save(replacement);
    WAYMARK_EXPECT(again.sequence() == first.sequence());
    WAYMARK_EXPECT(store->count(query("agent")) == 2);
    WAYMARK_EXPECT(store->load("agent", "", "a") == replacement);
    WAYMARK_EXPECT(store->load_latest("agent").value().id() == "b");
    WAYMARK_EXPECT(store->list(query("agent").oldest_first()).at(0).pinned());
}

void many_short_messages_come_back(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    conversation chat;
    for (int i = 0; i < 10'000; ++i)
        chat.push(message::user("ok"));
    store->save(checkpoint("agent", chat).with_id("all at once"));
    chat.push(message::assistant("one more"));
    store->save(checkpoint("agent", chat).with_id("one more"));
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_latest("agent").value().conversation() == chat);
    WAYMARK_EXPECT(store->list(query("agent").limit(1)).at(0).message_count() == chat.size());
    chat.truncate(10'000);
    WAYMARK_EXPECT(store->load("agent", "", "all at once").value().conversation() == chat);
}

void the_store_ignores_the_sequence_it_is_given(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    store->save(checkpoint_of("agent", "a").with_sequence(1'000'000));
    const auto second = store->save(checkpoint_of("agent", "b").with_sequence(-3));
    WAYMARK_EXPECT(store->load_latest("agent").value().id() == "b");
    WAYMARK_EXPECT(store->load("agent", "", "b").value().sequence() == second.sequence());
}

void agents_and_scopes_are_apart(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    store->save(checkpoint_of("one", "same", 1));
    store->save(checkpoint_of("two", "same", 2));
    store->save(checkpoint_of("one", "same", 3).with_scope("sub"));
    WAYMARK_EXPECT(store->load("one", "", "same").value().iteration() == 1);
    WAYMARK_EXPECT(store->load("two", "", "same").value().iteration() == 2);
    WAYMARK_EXPECT(store->load("one", "sub", "same").value().iteration() == 3);
    WAYMARK_EXPECT(store->load_latest("one").value().iteration() == 1);
    WAYMARK_EXPECT_ERROR(errc::conflict, store->load("same"));
}

void create_only_refuses_other_content(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto original = checkpoint_of("agent", "taken", 1);
    const auto first = store->save(original, save_options{}.create_only());
    store = backend.reopen(std::move(store));
    const auto details = WAYMARK_EXPECT_ERROR(
        errc::conflict, store->save(checkpoint_of("agent", "taken", 2), save_options{}.create_only()));
    WAYMARK_EXPECT(details.find("taken") != std::string::npos); // the details name it
    WAYMARK_EXPECT(store->load("agent", "", "taken") == original);
    // A retry after a lost acknowledgement.
    const auto retried = store->save(original, save_options{}.create_only());
    WAYMARK_EXPECT(retried.sequence() == first.sequence());
    WAYMARK_EXPECT(store->count(query("agent")) == 1);
}

void expect_head_guards_the_head(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    WAYMARK_EXPECT_ERROR(errc::conflict,
                         store->save(checkpoint_of("agent", "a"), save_options{}.expect_head("ghost")));
    const auto first = checkpoint_of("agent", "a");
    store->save(first, save_options{}.expect_head(std::nullopt));
    WAYMARK_EXPECT_ERROR(errc::conflict, store->save(checkpoint_of("agent", "winner"),
                                                     save_options{}.expect_head(std::nullopt)));
    const auto second = checkpoint_of("agent", "winner");
    store->save(second, save_options{}.expect_head("a"));
    store = backend.reopen(std::move(store));
    const auto details = WAYMARK_EXPECT_ERROR(
        errc::conflict, store->save(checkpoint_of("agent", "c"), save_options{}.expect_head("a")));
    WAYMARK_EXPECT(details.find("winner") != std::string::npos); // says who moved the head
    WAYMARK_EXPECT(!store->load("agent", "", "c"));
    WAYMARK_EXPECT(store->save(second, save_options{}.expect_head("a")).bytes_written() == 0);
    WAYMARK_EXPECT(store->save(first, save_options{}.expect_head(std::nullopt)).bytes_written() == 0);
    // Another scope has a head of its own.
    store->save(checkpoint_of("agent", "a").with_scope("sub"), save_options{}.expect_head(std::nullopt));
    WAYMARK_EXPECT(store->load_latest("agent").value().id() == "winner");
    // Where nothing is damaged, the newest that can be read is the head.
    WAYMARK_EXPECT_ERROR(errc::conflict,
                         store->save(checkpoint_of("agent", "c"), save_options{}.expect_readable_head("a")));
    store->save(checkpoint_of("agent", "c"), save_options{}.expect_readable_head("winner"));
    WAYMARK_EXPECT(store->load_latest("agent").value().id() == "c");
}

void each_request_of_a_batch_has_its_own_outcome(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const std::vector<save_request> batch = {
        {checkpoint_of("agent", "a"), save_options{}.expect_head(std::nullopt)},
        {checkpoint_of("agent", "b"), save_options{}.expect_head("a")}, // sees its neighbour
        {checkpoint_of("agent", "c"), save_options{}.expect_head("a")}, // too late
        {checkpoint_of("", "nobody")},                                  // not valid
        {checkpoint_of("other", "d"), save_options{}.create_only()},
        {checkpoint_of("agent", "e")},
    };
    const auto outcomes = store->save(batch);
    WAYMARK_EXPECT(outcomes.size() == batch.size());
    WAYMARK_EXPECT(!outcomes.at(0).code() && !outcomes.at(1).code() && !outcomes.at(4).code() &&
                   !outcomes.at(5).code());
    WAYMARK_EXPECT(outcomes.at(2).code() == errc::conflict && !outcomes.at(2).details().empty());
    WAYMARK_EXPECT(outcomes.at(3).code() == errc::invalid_argument && !outcomes.at(3).details().empty());
    WAYMARK_EXPECT(outcomes.at(0).value().sequence() < outcomes.at(1).value().sequence());
    WAYMARK_EXPECT(outcomes.at(1).value().sequence() < outcomes.at(5).value().sequence());
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(ids(store->list(query("agent").oldest_first())) == (id_list{"a", "b", "e"}));

    // The whole batch again, as after a lost acknowledgement: what was saved succeeds, in place.
    const auto again = store->save(batch);
    for (const auto i : {0u, 1u, 4u, 5u}) {
        WAYMARK_EXPECT(!again.at(i).code());
        WAYMARK_EXPECT(again.at(i).value().sequence() == outcomes.at(i).value().sequence());
    }
    WAYMARK_EXPECT(again.at(2).code() == errc::conflict);
    WAYMARK_EXPECT(store->count(query::all_agents()) == 4);
}

void a_batch_may_save_one_key_twice(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const std::vector<save_request> batch = {{checkpoint_of("agent", "a", 1)},
                                             {checkpoint_of("agent", "a", 2)}};
    const auto outcomes = store->save(batch);
    WAYMARK_EXPECT(outcomes.at(0).value().sequence() == outcomes.at(1).value().sequence());
    WAYMARK_EXPECT(store->load("agent", "", "a").value().iteration() == 2);
    WAYMARK_EXPECT(store->save(std::span<const save_request>()).empty());
}

void a_parent_may_be_missing_or_a_cycle(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    store->save(checkpoint_of("agent", "a").with_parent("never saved"));
    store->save(checkpoint_of("agent", "b").with_parent("c"));
    store->save(checkpoint_of("agent", "c").with_parent("b"));
    WAYMARK_EXPECT(store->load("agent", "", "a").value().parent_id() == "never saved");
    WAYMARK_EXPECT(store->list(query("agent")).size() == 3);
}

void a_growing_conversation_is_loaded_at_every_point(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    conversation chat;
    std::vector<checkpoint> saved;
    for (std::int64_t i = 1; i <= 50; ++i) {
        chat.push(message::user("turn " + std::to_string(i)));
        saved.push_back(checkpoint("agent", chat, i));
        store->save(saved.back());
    }
    // Go back to an old point and branch from what was loaded.
    store = backend.reopen(std::move(store));
    auto branch = store->load("agent", "", saved[9].id()).value().conversation();
    branch.push(message::user("another way"));
    saved.push_back(checkpoint("agent", branch, 51).with_parent(saved[9].id()));
    store->save(saved.back());
    for (const auto& expected : saved)
        WAYMARK_EXPECT(store->load("agent", "", expected.id()) == expected);
}

void threads_may_share_a_store(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    constexpr int threads = 4;
    constexpr std::size_t saves = 50;
    std::vector<std::string> problems(threads);
    std::atomic<int> ready = 0;
    {
        std::vector<std::jthread> running;
        for (int t = 0; t < threads; ++t)
            running.emplace_back([&, t] {
                // Otherwise the first is done before the last begins.
                for (++ready; ready < threads;)
                    std::this_thread::yield();
                try {
                    const auto agent = "agent-" + std::to_string(t % 2);
                    for (std::size_t i = 0; i < saves; ++i) {
                        const auto id = std::to_string(t) + "-" + std::to_string(i);
                        store->save(checkpoint_of(agent, id));
                        if (!store->load(agent, "", id))
                            problems[static_cast<std::size_t>(t)] = "a saved checkpoint is not there";
                        store->list(query(agent).limit(3));
                    }
                } catch (const std::exception& failure) {
                    problems[static_cast<std::size_t>(t)] = failure.what();
                }
            });
    }
    for (const auto& problem : problems)
        if (!problem.empty())
            fail(__FILE__, __LINE__, problem);
    for (const auto* agent : {"agent-0", "agent-1"}) {
        const auto list = store->list(query(agent));
        WAYMARK_EXPECT(list.size() == 2 * saves);
        for (std::size_t i = 1; i < list.size(); ++i)
            WAYMARK_EXPECT(list.at(i - 1).sequence() > list.at(i).sequence());
    }
}

} // namespace

std::vector<conformance_case> save_and_load_cases()
{
    return {
        {"what was saved is loaded, every field of it", what_was_saved_is_loaded},
        {"absence is a value", absence_is_a_value},
        {"the latest is decided by sequence, not by the clock", the_latest_is_decided_by_sequence},
        {"an existing key is replaced and keeps its sequence and pin", an_existing_key_is_replaced_in_place},
        {"many short messages at once come back", many_short_messages_come_back},
        {"the store ignores the sequence that a checkpoint brings",
         the_store_ignores_the_sequence_it_is_given},
        {"agents and scopes are apart", agents_and_scopes_are_apart},
        {"create_only refuses other content and accepts a retry", create_only_refuses_other_content},
        {"expect_head guards the head and accepts a retry", expect_head_guards_the_head},
        {"each request of a batch has its own outcome", each_request_of_a_batch_has_its_own_outcome},
        {"a batch may save one key twice, or be empty", a_batch_may_save_one_key_twice},
        {"a parent may be missing or part of a cycle", a_parent_may_be_missing_or_a_cycle},
        {"a growing conversation is loaded at every point", a_growing_conversation_is_loaded_at_every_point},
        {"threads may share a store", threads_may_share_a_store},
    };
}

} // namespace waymark::testing
