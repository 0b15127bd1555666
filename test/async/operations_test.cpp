//! Every operation does what the store's function of that name does.
#include "catch.hpp"
#include "run_coroutine.hpp"

#include <waymark/memory_store.hpp>
#include <waymark/waymark.hpp>

#include <asio/redirect_error.hpp>

using namespace waymark;

namespace {

asio::awaitable<void> use_everything(async_store& store)
{
    for (int i = 0; i < 3; ++i)
        co_await store.async_save(checkpoint("agent", {}, i).with_id("c" + std::to_string(i)).with_name("n"));
    co_await store.async_save(checkpoint("agent").with_id("s").with_scope("sub"),
                              save_options().create_only());
    co_await store.async_save(checkpoint("other").with_id("c0"));

    const auto by_key = co_await store.async_load("agent", "", "c1");
    CHECK(by_key->iteration() == 1);
    const auto by_id = co_await store.async_load("c2");
    CHECK(by_id->iteration() == 2);
    const auto none = co_await store.async_load("agent", "", "nothing");
    CHECK_FALSE(none);
    const auto head = co_await store.async_load_latest("agent");
    CHECK(head->id() == "c2");
    const auto sub_head = co_await store.async_load_latest("agent", "sub");
    CHECK(sub_head->id() == "s");

    const auto list = co_await store.async_list(query("agent").named("n").limit(2));
    CHECK(list.size() == 2);
    const auto all = co_await store.async_load_all(query("agent"));
    CHECK(all.size() == 4);
    const auto count = co_await store.async_count(query::all_agents());
    CHECK(count == 5);
    const auto agents = co_await store.async_list_agents();
    CHECK(agents == std::vector<std::string>{"agent", "other"});
    const auto second_page = co_await store.async_list_agents("agent", 1);
    CHECK(second_page == std::vector<std::string>{"other"});

    const auto pinned = co_await store.async_pin("agent", "", "c0", true);
    CHECK(pinned);
    const auto planned = co_await store.async_prune("agent", retention{}.keep_last(1), dry_run::yes);
    CHECK(planned.count() == 1);
    const auto pruned = co_await store.async_prune("agent", retention{}.keep_last(1));
    CHECK(pruned.count() == 1);
    const auto erased = co_await store.async_erase("agent", "", "c0");
    CHECK(erased);

    std::vector<step_request> steps;
    steps.emplace_back(step("agent", "", "call").with_checkpoint("c2").with_result("ok"), true);
    const auto outcomes = co_await store.async_put_steps(steps);
    CHECK_FALSE(outcomes.at(0).code());
    const auto recorded = co_await store.async_load_steps(step_query("agent").key("call"));
    CHECK(recorded.at(0).done());

    const auto own = co_await store.async_stats("agent");
    CHECK(own.steps == 1);
    const auto copied = co_await store.async_copy_agent("agent", "copy");
    CHECK(copied == 2);
    const auto forgotten = co_await store.async_erase_step("copy", "", "call");
    CHECK(forgotten);
    co_await store.async_save(checkpoint("copy").with_scope("other"));
    const auto cleared = co_await store.async_erase_scope("copy", "other");
    CHECK(cleared == 1);
    const auto gone = co_await store.async_erase_agent("copy");
    CHECK(gone == 2);

    const auto report = co_await store.async_verify();
    CHECK(report.ok());
    std::atomic<std::uint64_t> checked = 0;
    const upkeep_control progress = [&checked](const upkeep_progress& at) { checked = at.done; };
    co_await store.async_verify(progress);
    CHECK(checked == 3);
    co_await store.async_compact();
    const auto stats = co_await store.async_stats();
    CHECK(stats.checkpoints == 3);
    CHECK(stats.steps == 1);
    co_await store.async_flush();
}

//! Each operation with diagnostics, given something that it must refuse.
asio::awaitable<void> fail_everything(async_store& store)
{
    const auto expect = [](std::error_code code, diagnostics& details, errc wanted) {
        CHECK(code == wanted);
        CHECK_FALSE(details.empty());
        details.clear();
    };
    std::error_code code;
    diagnostics details;
    const auto token = [&code] { return asio::redirect_error(asio::use_awaitable, code); };
    const std::string bad = "\xff";

    co_await store.async_save(checkpoint(bad), with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_save(checkpoint("a"), save_options().expect_head("ghost"),
                              with_diagnostics(details, token()));
    expect(code, details, errc::conflict);
    co_await store.async_load(bad, "", "i", with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_load(bad, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_load_latest(bad, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_load_latest("a", bad, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_list(query("a").before("ghost"), with_diagnostics(details, token()));
    expect(code, details, errc::not_found);
    co_await store.async_load_all(query(bad), with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_count(query(bad), with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_list_agents(bad, 1, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_erase("a", "", bad, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_erase_agent(bad, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_erase_scope(bad, "", with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_erase_step("a", "", bad, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_stats(bad, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_copy_agent("ghost", "new", with_diagnostics(details, token()));
    expect(code, details, errc::not_found);
    co_await store.async_prune(bad, retention{}, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_prune(bad, retention{}, dry_run::yes, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);
    co_await store.async_pin("a", bad, "i", true, with_diagnostics(details, token()));
    expect(code, details, errc::invalid_argument);

    // These have nothing to refuse, and clear what was there.
    details = diagnostics("old");
    co_await store.async_stats(with_diagnostics(details, token()));
    CHECK((!code && details.empty()));
    co_await store.async_list_agents(with_diagnostics(details, token()));
    CHECK_FALSE(code);
    co_await store.async_verify(with_diagnostics(details, token()));
    CHECK_FALSE(code);
    co_await store.async_compact(with_diagnostics(details, token()));
    CHECK_FALSE(code);
    co_await store.async_load_steps(step_query("a"), with_diagnostics(details, token()));
    CHECK_FALSE(code);
    co_await store.async_put_steps({}, with_diagnostics(details, token()));
    CHECK_FALSE(code);
}

} // namespace

TEST_CASE("every operation works")
{
    asio::io_context io;
    async_store store{io.get_executor(), std::make_shared<memory_store>()};
    test::run_coroutine(io, use_everything(store));
}

TEST_CASE("every operation reports what it refuses")
{
    asio::io_context io;
    async_store store{io.get_executor(), std::make_shared<memory_store>()};
    test::run_coroutine(io, fail_everything(store));
}
