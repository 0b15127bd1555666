#include "case_list.hpp"

#include <boost/json/parse.hpp>

namespace waymark::testing {

namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

std::shared_ptr<store> numbered(const backend_under_test& backend, int count)
{
    auto store = backend.make_empty();
    for (int i = 0; i < count; ++i)
        store->save(checkpoint_of("agent", std::to_string(i), 1));
    return store;
}

id_list left_in(store& store, const std::string& scope = {})
{
    return ids(store.list(query("agent").scope(scope).oldest_first()));
}

id_list removed_by(const prune_result& result)
{
    id_list removed;
    for (const auto& key : result.removed())
        removed.push_back(key.id());
    return removed;
}

void put(store& store, step what, bool create_only = false)
{
    const step_request request(std::move(what), create_only);
    store.put_steps(std::span(&request, 1)).at(0).value_or_throw();
}

void erase_removes_one(const backend_under_test& backend)
{
    auto store = numbered(backend, 3);
    WAYMARK_EXPECT(store->pin("agent", "", "2", true));
    store->save(checkpoint_of("agent", "2").with_scope("sub"));
    const auto last = store->load_latest("agent").value().sequence();
    WAYMARK_EXPECT(store->erase("agent", "", "2")); // also the head, also pinned
    WAYMARK_EXPECT(!store->erase("agent", "", "2"));
    WAYMARK_EXPECT(!store->load("agent", "", "2"));
    WAYMARK_EXPECT(store->load_latest("agent").value().id() == "1");
    WAYMARK_EXPECT(store->load("agent", "sub", "2"));
    WAYMARK_EXPECT(store->erase("agent", "sub", "2"));
    // A sequence is not used twice, not even that of an erased head, not even after a restart.
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->save(checkpoint_of("agent", "3")).sequence() > last);
    WAYMARK_EXPECT(store->load("agent", "", "0") && store->load("agent", "", "1"));
    WAYMARK_EXPECT(store->verify().ok());
}

void erase_agent_removes_everything_of_it(const backend_under_test& backend)
{
    auto store = numbered(backend, 3);
    store->save(checkpoint_of("agent", "s").with_scope("sub"));
    put(*store, step("agent", "", "call"));
    const auto other = checkpoint_of("agent2", "0", 2);
    store->save(other);
    WAYMARK_EXPECT(store->erase_agent("agent") == 4);
    WAYMARK_EXPECT(store->list_agents() ==
                   id_list{"agent2"}); // at once, and not only when it is opened again
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->list(query("agent")).empty());
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).empty());
    WAYMARK_EXPECT(store->list_agents() == id_list{"agent2"});
    WAYMARK_EXPECT(store->load("agent2", "", "0") == other);
    WAYMARK_EXPECT(store->stats().checkpoints == 1 && store->stats().agents == 1);
}

void copy_agent_copies_everything_of_it(const backend_under_test& backend)
{
    auto store = numbered(backend, 3);
    store->save(checkpoint_of("agent", "s", 4).with_scope("sub").with_name("n").with_parent("p"));
    WAYMARK_EXPECT(store->pin("agent", "", "1", true));
    put(*store, step("agent", "", "call").with_checkpoint("2").with_result("done"));
    put(*store, step("agent", "sub", "pending").with_checkpoint("s"));
    WAYMARK_EXPECT(store->copy_agent("agent", "copy") == 4);

    const auto originals = store->load_all(query("agent"));
    const auto copies = store->load_all(query("copy"));
    WAYMARK_EXPECT(copies.size() == originals.size());
    for (std::size_t i = 0; i < copies.size(); ++i)
        WAYMARK_EXPECT(copies.at(i) == checkpoint(originals.at(i)).with_agent("copy"));
    WAYMARK_EXPECT(store->list(query("copy").scope("").oldest_first()).at(1).pinned());
    const auto steps = store->load_steps(step_query("copy"));
    WAYMARK_EXPECT(steps.size() == 2 && steps.at(0).result() == json::value("done") && !steps.at(1).done());

    // From here on the two are apart.
    store->save(checkpoint_of("copy", "new"));
    WAYMARK_EXPECT(store->load_latest("copy").value().id() == "new");
    WAYMARK_EXPECT(store->load_latest("agent").value().id() == "2");
    store->erase_agent("agent");
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load("copy", "sub", "s").value().conversation().size() == 9);
    WAYMARK_EXPECT(store->verify().ok());
    WAYMARK_EXPECT_ERROR(errc::conflict, store->copy_agent("copy", "copy"));
    WAYMARK_EXPECT_ERROR(errc::not_found, store->copy_agent("agent", "third"));
}

void prune_keeps_the_newest_and_the_head(const backend_under_test& backend)
{
    auto store = numbered(backend, 5);
    store->save(checkpoint_of("agent", "s0").with_scope("sub"));
    for (const auto* id : {"x", "y", "z"})
        store->save(checkpoint_of("agent2", id));
    const auto newest = store->load("agent", "", "4");
    const auto dry = store->prune("agent", retention{}.keep_last(2), dry_run::yes);
    WAYMARK_EXPECT(removed_by(dry) == (id_list{"0", "1", "2"}));
    WAYMARK_EXPECT(dry.bytes() > 0);
    WAYMARK_EXPECT(store->count(query("agent")) == 6);
    const auto before = store->stats("agent").bytes;
    const auto real = store->prune("agent", retention{}.keep_last(2), dry_run::no);
    WAYMARK_EXPECT(removed_by(real) == removed_by(dry) && real.bytes() == dry.bytes());
    WAYMARK_EXPECT(before - store->stats("agent").bytes == real.bytes());
    WAYMARK_EXPECT(left_in(*store) == (id_list{"3", "4"}));
    WAYMARK_EXPECT(left_in(*store, "sub") == id_list{"s0"}); // a scope has a head of its own
    store->prune("agent", retention{}.keep_last(0), dry_run::no);
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(left_in(*store) == id_list{"4"});
    WAYMARK_EXPECT(store->load_latest("agent") == newest && store->load("agent", "", "4") == newest);
    WAYMARK_EXPECT(store->count(query("agent2")) == 3);
    WAYMARK_EXPECT(store->prune("agent", retention{}, dry_run::no).count() == 0);
    WAYMARK_EXPECT(store->verify().ok());
}

void prune_by_age_and_bytes(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    for (int i = 0; i < 4; ++i)
        store->save(
            checkpoint_of("agent", std::to_string(i)).with_created_at(now() - std::chrono::hours(10 - i)));
    store->prune("agent", retention{}.max_age(std::chrono::minutes(8 * 60 + 30)), dry_run::no);
    WAYMARK_EXPECT(left_in(*store) == (id_list{"2", "3"}));
    store->prune("agent", retention{}.max_age(1us), dry_run::no);
    WAYMARK_EXPECT(left_in(*store) == id_list{"3"});

    store = numbered(backend, 4);
    const auto newest_two =
        store->stats("agent").bytes - store->prune("agent", retention{}.keep_last(2), dry_run::yes).bytes();
    WAYMARK_EXPECT(removed_by(store->prune("agent", retention{}.max_bytes(newest_two - 1), dry_run::yes)) ==
                   (id_list{"0", "1", "2"}));
    store->prune("agent", retention{}.max_bytes(newest_two), dry_run::no);
    WAYMARK_EXPECT(left_in(*store) == (id_list{"2", "3"}));
    store->prune("agent", retention{}.max_bytes(0), dry_run::no);
    WAYMARK_EXPECT(left_in(*store) == id_list{"3"});
}

void prune_thins_as_breakpilot_did(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    for (int i = 0; i < 60; ++i)
        store->save(checkpoint_of("agent", std::to_string(i), 0)
                        .with_name(std::string("n") + static_cast<char>('0' + i % 3)));
    WAYMARK_EXPECT(store->prune("agent", retention{}.thin_after(60), dry_run::no).count() == 0);
    store->prune("agent", retention{}.thin_after(50), dry_run::no);
    id_list expected = {"0", "37", "38", "39"};
    for (int i = 40; i < 60; ++i)
        expected.push_back(std::to_string(i));
    WAYMARK_EXPECT(left_in(*store) == expected);
}

void what_any_policy_removes_is_removed(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    for (int i = 0; i < 6; ++i)
        store->save(checkpoint_of("agent", std::to_string(i))
                        .with_created_at(i == 4 ? now() - std::chrono::hours(48) : now()));
    store->prune("agent", retention{}.keep_last(3).max_age(std::chrono::hours(24)), dry_run::no);
    WAYMARK_EXPECT(left_in(*store) == (id_list{"3", "5"}));
}

void prune_can_be_limited_to_a_scope(const backend_under_test& backend)
{
    auto store = numbered(backend, 4);
    for (int i = 0; i < 4; ++i)
        store->save(checkpoint_of("agent", std::to_string(i)).with_scope("sub"));
    const auto pruned = store->prune("agent", retention().keep_last(1).only_scope("sub"), dry_run::no);
    WAYMARK_EXPECT(pruned.count() == 3 && pruned.bytes() > 0);
    WAYMARK_EXPECT(store->count(query("agent").scope("")) == 4);
    WAYMARK_EXPECT(store->count(query("agent").scope("sub")) == 1);
    WAYMARK_EXPECT(store->prune("agent", retention().keep_last(1).only_scope("none"), dry_run::no).count() ==
                   0);
    WAYMARK_EXPECT(store->verify().ok());
}

void pins_and_pending_steps_protect(const backend_under_test& backend)
{
    auto store = numbered(backend, 6);
    WAYMARK_EXPECT(store->pin("agent", "", "1", true));
    put(*store, step("agent", "", "pending").with_checkpoint("3"));
    put(*store, step("agent", "", "done").with_checkpoint("2").with_result(1));
    store = backend.reopen(std::move(store));
    const auto all_but_head = retention{}.keep_last(1).max_age(1us).max_bytes(0).thin_after(0);
    store->prune("agent", all_but_head, dry_run::no);
    WAYMARK_EXPECT(left_in(*store) == (id_list{"1", "3", "5"}));
    WAYMARK_EXPECT(store->pin("agent", "", "1", false));
    put(*store, step("agent", "", "pending").with_checkpoint("3").with_result(nullptr));
    store->prune("agent", all_but_head, dry_run::no);
    WAYMARK_EXPECT(left_in(*store) == id_list{"5"});
}

void steps_are_recorded_and_found(const backend_under_test& backend)
{
    auto store = numbered(backend, 1);
    const auto begun = step("agent", "", "call-1").with_checkpoint("0").with_started_at(timestamp(5us));
    put(*store, begun, true);
    put(*store, step("agent", "", "call-2")); // before any checkpoint is named
    const auto ended = step("agent", "sub", "call-1")
                           .with_result(json::parse(R"({"deep": [1, {"x": 18446744073709551615}]})"));
    put(*store, ended);
    put(*store, step("someone", "", "call-1")); // an agent without a checkpoint
    store = backend.reopen(std::move(store));

    const auto all = store->load_steps(step_query("agent"));
    WAYMARK_EXPECT(all.size() == 3);
    WAYMARK_EXPECT(all.at(0) == begun);
    WAYMARK_EXPECT(all.at(1).key() == "call-2" && !all.at(1).checkpoint_id() && !all.at(1).done());
    WAYMARK_EXPECT(all.at(2) == ended);
    WAYMARK_EXPECT(store->load_steps(step_query("agent").scope("").key("call-2")).size() == 1);
    WAYMARK_EXPECT(store->load_steps(step_query("agent").scope("").key("call-1")).size() == 1);
    WAYMARK_EXPECT(store->load_steps(step_query("agent").key("call-1")).size() == 2);
    WAYMARK_EXPECT(store->load_steps(step_query("agent").scope("sub")).size() == 1);
    WAYMARK_EXPECT(store->load_steps(step_query("agent").pending_only()).size() == 2);
    WAYMARK_EXPECT(store->load_steps(step_query("agent").key("call-3")).empty());

    put(*store, step(begun).with_result("ok"));
    WAYMARK_EXPECT(store->load_steps(step_query("agent").scope("").key("call-1")).at(0).result() ==
                   json::value("ok"));
    WAYMARK_EXPECT(store->stats().steps == 4);
    WAYMARK_EXPECT(store->list_agents() == (id_list{"agent", "someone"}));
}

void a_step_is_begun_once(const backend_under_test& backend)
{
    auto store = backend.make_empty();
    const auto begun = step("agent", "", "call");
    put(*store, begun, true);
    put(*store, begun, true); // a retry
    // Someone else who begins it in the same microsecond.
    const auto details = WAYMARK_EXPECT_ERROR(
        errc::conflict, put(*store, step("agent", "", "call").with_started_at(begun.started_at()), true));
    WAYMARK_EXPECT(details.find("call") != std::string::npos); // the details name it
    WAYMARK_EXPECT(store->load_steps(step_query("agent")) == std::vector{begun});
    WAYMARK_EXPECT_ERROR(errc::conflict,
                         put(*store, step("agent", "", "call").with_started_at(timestamp(9us)), true));
    const auto lost = WAYMARK_EXPECT_ERROR(errc::not_found,
                                           put(*store, step("agent", "", "lost").with_checkpoint("ghost")));
    WAYMARK_EXPECT(lost.find("lost") != std::string::npos && lost.find("ghost") != std::string::npos);
    const std::vector<step_request> batch = {
        {step("agent", "", "call").with_started_at(timestamp(9us)), true}, {step("agent", "", "next"), true}};
    const auto outcomes = store->put_steps(batch);
    WAYMARK_EXPECT(outcomes.at(0).code() == errc::conflict && !outcomes.at(1).code());
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).size() == 2);
}

void steps_go_with_the_last_checkpoint_that_knows_them(const backend_under_test& backend)
{
    auto store = numbered(backend, 3);
    const auto on_middle = step("agent", "", "middle").with_checkpoint("1");
    put(*store, on_middle);
    put(*store, step("agent", "", "early").with_checkpoint("0").with_result(0));
    put(*store, step("agent", "", "first")); // made before the first checkpoint
    store->erase("agent", "", "1");
    put(*store, step(on_middle).with_result(1)); // its end is recorded although the checkpoint is gone
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).size() == 3); // "2" is later
    store->erase("agent", "", "2");
    const auto left = store->load_steps(step_query("agent"));
    WAYMARK_EXPECT(left.size() == 2 && left.at(0).key() == "early" && left.at(1).key() == "first");
    store->erase("agent", "", "0");
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).empty());
    WAYMARK_EXPECT(store->list_agents().empty());
}

void erase_scope_removes_one_scope(const backend_under_test& backend)
{
    auto store = numbered(backend, 3);
    store->save(checkpoint_of("agent", "s").with_scope("sub"));
    store->pin("agent", "", "1", true);
    put(*store, step("agent", "", "first"));
    put(*store, step("agent", "", "second").with_checkpoint("2"));
    put(*store, step("agent", "sub", "first"));
    put(*store, step("agent", "only steps", "first"));
    const auto last = store->load_latest("agent", "sub").value().sequence();
    WAYMARK_EXPECT(store->erase_scope("agent", "") == 3);
    WAYMARK_EXPECT(store->erase_scope("agent", "only steps") == 0);
    WAYMARK_EXPECT(store->erase_scope("agent", "") == 0 && store->erase_scope("nobody", "") == 0);
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->count(query("agent")) == 1 && store->load("agent", "sub", "s"));
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).size() == 1);
    WAYMARK_EXPECT(store->save(checkpoint_of("agent", "again")).sequence() > last);
    WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->erase_scope("", ""));
    WAYMARK_EXPECT(store->verify().ok());
}

void a_step_can_be_erased(const backend_under_test& backend)
{
    auto store = numbered(backend, 2);
    put(*store, step("agent", "", "call").with_checkpoint("0"));
    put(*store, step("agent", "", "other"));
    WAYMARK_EXPECT(store->erase_step("agent", "", "call"));
    WAYMARK_EXPECT(!store->erase_step("agent", "", "call"));
    WAYMARK_EXPECT(!store->erase_step("agent", "sub", "other") && !store->erase_step("nobody", "", "call"));
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).size() == 1 && store->stats().steps == 1);
    put(*store, step("agent", "", "call").with_checkpoint("1"), true); // it never began
    WAYMARK_EXPECT(store->prune("agent", retention().keep_last(1), dry_run::yes).count() == 1);
    WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->erase_step("agent", "", ""));
    WAYMARK_EXPECT(store->verify().ok());
}

void a_step_is_replaced_while_it_is_the_same_attempt(const backend_under_test& backend)
{
    auto store = numbered(backend, 2);
    const auto replace = [&](const step& next, const std::string& attempt, bool restored = false) {
        auto request = step_request(next).replacing(attempt);
        if (restored)
            request.restored();
        store->put_steps(std::span(&request, 1)).at(0).value_or_throw();
    };
    const auto found = [&] { return store->load_steps(step_query("agent").scope("").key("call")); };
    const auto begun = step("agent", "", "call").with_checkpoint("0");
    const auto ended = step(begun).with_result("done");
    WAYMARK_EXPECT_ERROR(errc::not_found, replace(ended, begun.attempt()));
    put(*store, begun, true);
    const auto details = WAYMARK_EXPECT_ERROR(errc::conflict, replace(ended, "another"));
    WAYMARK_EXPECT(details.find("call") != std::string::npos); // the details name it
    WAYMARK_EXPECT(found() == std::vector{begun});
    const auto repeated = step("agent", "", "call").with_checkpoint("0");
    replace(repeated, begun.attempt());
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(found() == std::vector{repeated});
    WAYMARK_EXPECT_ERROR(errc::conflict, replace(ended, begun.attempt()));
    WAYMARK_EXPECT(!store->erase_step("agent", "", "call", begun.attempt()));
    const auto result = step(repeated).with_result(1);
    replace(result, repeated.attempt());
    replace(result, repeated.attempt()); // a retry
    WAYMARK_EXPECT_ERROR(errc::conflict, replace(step(repeated).with_result(2), repeated.attempt()));
    WAYMARK_EXPECT(!store->erase_step("agent", "", "call", repeated.attempt())); // it is done
    WAYMARK_EXPECT(found() == std::vector{result});
    WAYMARK_EXPECT(store->erase_step("agent", "", "call"));
    replace(result, repeated.attempt(), true); // restored: it took effect, whatever became of its record
    WAYMARK_EXPECT(found() == std::vector{result});
    const auto other = step("agent", "", "other");
    put(*store, other, true);
    WAYMARK_EXPECT(store->erase_step("agent", "", "other", other.attempt()));
    WAYMARK_EXPECT(!store->erase_step("agent", "", "other", other.attempt()));
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).size() == 1 && store->stats().steps == 1);
    WAYMARK_EXPECT(store->verify().ok());
}

void a_step_remembers_how_it_failed(const backend_under_test& backend)
{
    auto store = numbered(backend, 1);
    const auto begun = step("agent", "", "call").with_checkpoint("0");
    put(*store, begun, true);
    const auto failed = step(begun).with_failure("the connection was closed");
    put(*store, failed);
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_steps(step_query("agent").pending_only()) == std::vector{failed});
    WAYMARK_EXPECT_ERROR(errc::invalid_argument, put(*store, step(begun).with_failure("\xff")));
    WAYMARK_EXPECT_ERROR(errc::conflict, put(*store, step("agent", "", "call").with_checkpoint("0"), true));
    put(*store, step(failed).with_result(1));
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_steps(step_query("agent")) == std::vector{step(begun).with_result(1)});
    WAYMARK_EXPECT(store->verify().ok());
}

void a_step_can_expect_a_head(const backend_under_test& backend)
{
    auto store = numbered(backend, 2);
    const auto begin = [&](const char* key, const std::optional<std::string>& head,
                           const std::optional<std::string>& made_on, const char* scope = "") {
        const auto request =
            step_request(step("agent", scope, key).with_checkpoint(made_on), true).expect_head(head);
        store->put_steps(std::span(&request, 1)).at(0).value_or_throw();
    };
    begin("on the head", "1", "1");
    begin("on another one", "1", "0");
    begin("on none", "1", std::nullopt);
    begin("in an empty scope", std::nullopt, std::nullopt, "sub");
    const auto details = WAYMARK_EXPECT_ERROR(errc::conflict, begin("late", "0", "0"));
    WAYMARK_EXPECT(details.find("late") != std::string::npos);
    WAYMARK_EXPECT_ERROR(errc::conflict, begin("late", std::nullopt, std::nullopt));
    WAYMARK_EXPECT_ERROR(errc::conflict, begin("late", "0", std::nullopt, "sub"));
    store = backend.reopen(std::move(store));
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).size() == 4);
}

void saves_and_steps_can_be_committed_together(const backend_under_test& backend)
{
    auto store = numbered(backend, 1);
    const std::vector<save_request> saves{{checkpoint("agent").with_id("next").with_parent("0")},
                                          {checkpoint("agent").with_id("0"), save_options().create_only()},
                                          {checkpoint("")}};
    const std::vector<step_request> steps{{step("agent", "", "behind it").with_checkpoint("next"), true},
                                          {step("agent", "", "").with_checkpoint("next")},
                                          {step("agent", "", "nowhere").with_checkpoint("absent")},
                                          {step("other", "", "alone").with_result(1)}};
    for (int i = 0; i < 2; ++i) { // the second time, the acknowledgement was lost
        const auto outcomes = store->commit(saves, steps);
        WAYMARK_EXPECT(outcomes.saves.size() == 3 && outcomes.steps.size() == 4);
        WAYMARK_EXPECT(!outcomes.saves[0].code() && outcomes.saves[1].code() == errc::conflict &&
                       outcomes.saves[2].code() == errc::invalid_argument);
        WAYMARK_EXPECT(!outcomes.steps[0].code() && outcomes.steps[1].code() == errc::invalid_argument &&
                       outcomes.steps[2].code() == errc::not_found && !outcomes.steps[3].code());
        store = backend.reopen(std::move(store));
    }
    WAYMARK_EXPECT(store->count(query("agent")) == 2 && store->load_steps(step_query("agent")).size() == 1);
    WAYMARK_EXPECT(store->load_steps(step_query("other")).size() == 1 && store->stats().steps == 2);
    WAYMARK_EXPECT(store->commit({}, {}).saves.empty());
    WAYMARK_EXPECT(store->verify().ok());
}

void a_restored_step_needs_no_checkpoint(const backend_under_test& backend)
{
    auto store = numbered(backend, 1);
    const auto made = step("agent", "", "call").with_checkpoint("pruned").with_result(7);
    const auto request = step_request(made).restored();
    WAYMARK_EXPECT(!store->put_steps(std::span(&request, 1)).at(0).code());
    store = backend.reopen(std::move(store));
    const auto found = store->load_steps(step_query("agent"));
    WAYMARK_EXPECT(found.size() == 1 && found.at(0) == made);
    store->erase("agent", "", "0");
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).empty());
}

void stats_of_an_agent_count_its_own(const backend_under_test& backend)
{
    auto store = numbered(backend, 3);
    store->save(checkpoint_of("other", "big", 50));
    put(*store, step("agent", "", "call"));
    const auto before = store->stats("agent");
    WAYMARK_EXPECT(before.agents == 1 && before.checkpoints == 3 && before.steps == 1 && before.bytes > 0);
    WAYMARK_EXPECT(store->stats("other").bytes > 0);
    WAYMARK_EXPECT(store->stats("nobody").agents == 0 && store->stats("nobody").bytes == 0);
    store->save(checkpoint_of("agent", "more", 50));
    WAYMARK_EXPECT(store->stats("agent").bytes > before.bytes);
    WAYMARK_EXPECT_ERROR(errc::invalid_argument, store->stats(""));
}

void verify_reports_and_stats_count(const backend_under_test& backend)
{
    auto store = numbered(backend, 5);
    std::uint64_t calls = 0;
    upkeep_progress last;
    const auto report = store->verify([&](const upkeep_progress& progress) {
        ++calls;
        last = progress;
    });
    WAYMARK_EXPECT(report.ok() && report.checked() >= 5);
    WAYMARK_EXPECT(calls > 0 && last.done == last.total);
    const auto stats = store->stats();
    WAYMARK_EXPECT(stats.agents == 1 && stats.checkpoints == 5 && stats.steps == 0 && stats.bytes > 0);
    put(*store, step("agent", "", "call")); // before any checkpoint is named
    put(*store, step("agent", "only steps", "call"));
    put(*store, step("someone", "", "call")); // an agent without a checkpoint
    store->compact();
    WAYMARK_EXPECT(store->count(query("agent")) == 5 && store->stats().steps == 3);
    WAYMARK_EXPECT(store->load_steps(step_query("agent")).size() == 2);
    WAYMARK_EXPECT(store->load_steps(step_query("someone")).size() == 1);
    WAYMARK_EXPECT(store->write_lanes() >= 1);
}

void nothing_is_unknown_of_a_healthy_store(const backend_under_test& backend)
{
    auto store = numbered(backend, 1);
    store->await_outcome("agent");
    store->await_outcome("nobody");
    WAYMARK_EXPECT(left_in(*store) == id_list{"0"} && store->list_agents() == id_list{"agent"});
}

} // namespace

std::vector<conformance_case> upkeep_cases()
{
    return {
        {"erase removes one checkpoint", erase_removes_one},
        {"erase_agent removes everything of an agent", erase_agent_removes_everything_of_it},
        {"copy_agent copies everything of an agent", copy_agent_copies_everything_of_it},
        {"prune keeps the newest and the head, and has a dry run", prune_keeps_the_newest_and_the_head},
        {"prune by age and by bytes", prune_by_age_and_bytes},
        {"prune thins as Breakpilot did", prune_thins_as_breakpilot_did},
        {"what any policy removes is removed", what_any_policy_removes_is_removed},
        {"prune can be limited to a scope", prune_can_be_limited_to_a_scope},
        {"pins and pending steps protect from retention", pins_and_pending_steps_protect},
        {"steps are recorded and found", steps_are_recorded_and_found},
        {"a step is begun once", a_step_is_begun_once},
        {"steps go with the last checkpoint that knows them",
         steps_go_with_the_last_checkpoint_that_knows_them},
        {"erase_scope removes one scope", erase_scope_removes_one_scope},
        {"a step can be erased", a_step_can_be_erased},
        {"a step is replaced while it is the same attempt", a_step_is_replaced_while_it_is_the_same_attempt},
        {"a step remembers how it failed", a_step_remembers_how_it_failed},
        {"a step can expect a head", a_step_can_expect_a_head},
        {"saves and steps can be committed together", saves_and_steps_can_be_committed_together},
        {"a restored step needs no checkpoint", a_restored_step_needs_no_checkpoint},
        {"stats of an agent count its own", stats_of_an_agent_count_its_own},
        {"verify reports and stats count", verify_reports_and_stats_count},
        {"on a healthy store there is no outcome to wait for", nothing_is_unknown_of_a_healthy_store},
    };
}

} // namespace waymark::testing
