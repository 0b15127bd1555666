//! Names, queries and pages, clearing, summaries.
#include "on_every_store.hpp"

#include <waymark/sqlite_store.hpp>

using namespace waymark;
using test::chat_of;
using test::on_every_store;
using test::run_coroutine;

namespace {

asio::awaitable<void> names_and_queries(async_store& store)
{
    session session{store, "agent"};
    waymark::session sub{store, "agent", session_options().with_scope("sub")};
    const auto start = now();
    for (int i = 0; i < 6; ++i)
        co_await session.async_checkpoint(session.draft(chat_of(i), i)
                                              .with_name(i % 2 == 0 ? "even" : "odd")
                                              .with_created_at(start + std::chrono::seconds(i)));
    co_await sub.async_checkpoint("even", 9, chat_of(1));

    const auto even = co_await session.async_list(session.query().named("even"));
    REQUIRE(even.size() == 3);
    CHECK(even.front().iteration() == 4); // newest first
    const auto latest = co_await session.async_load_latest();
    CHECK(latest->iteration() == 5);
    const auto latest_even = co_await session.async_load_latest("even");
    CHECK(latest_even->iteration() == 4);
    const auto latest_none = co_await session.async_load_latest("none");
    CHECK_FALSE(latest_none);
    const auto by_id = co_await session.async_load(even.front().id());
    CHECK(by_id->conversation().size() == 4);
    const auto unknown = co_await session.async_load("nobody");
    CHECK_FALSE(unknown);
    const auto all = co_await session.async_list();
    CHECK(all.size() == 6);
    const auto since = co_await session.async_list(session.query().since(start + std::chrono::seconds(3)));
    CHECK(since.size() == 2);
    const auto between = co_await session.async_load_all(
        session.query()
            .between(start + std::chrono::seconds(1), start + std::chrono::seconds(3))
            .oldest_first());
    REQUIRE(between.size() == 3);
    CHECK(between.front().iteration() == 1);
    const auto counted = co_await session.async_count(session.query().named("odd"));
    CHECK(counted == 3);
    const auto across = co_await session.async_count(query("agent"));
    CHECK(across == 7);

    std::vector<std::int64_t> paged;
    auto wanted = session.query().oldest_first().limit(4);
    for (;;) {
        const auto page = co_await session.async_list(wanted);
        for (const auto& header : page)
            paged.push_back(header.iteration());
        if (page.size() < 4)
            break;
        wanted.after(cursor(page.back()));
    }
    CHECK(paged == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});

    const auto cleared = co_await session.async_clear();
    CHECK(cleared == 6);
    CHECK_FALSE(session.position());
    const auto nothing = co_await session.async_clear();
    CHECK(nothing == 0);
    const auto of_sub = co_await sub.async_count();
    CHECK(of_sub == 1);
    const auto fresh = co_await session.async_checkpoint("fresh", 1, chat_of(1));
    CHECK_FALSE(fresh.parent_id());
}

asio::awaitable<void> summarize(async_store& store)
{
    session session{store, "agent"};
    const auto empty = co_await session.async_summary();
    CHECK(empty.checkpoints() == 0);
    CHECK_FALSE(empty.first());
    CHECK(empty.duration().count() == 0);

    const auto start = now();
    auto chat = chat_of(0);
    for (int i = 0; i < 40; ++i) {
        chat.push(message::user(std::string(1'000, 'x')));
        co_await session.async_checkpoint(session.draft(chat, i)
                                              .with_name(i % 4 == 0   ? "plan"
                                                         : i % 4 == 1 ? "act"
                                                                      : "")
                                              .with_created_at(start + std::chrono::seconds(i)));
    }
    const auto summary = co_await session.async_summary();
    CHECK(summary.checkpoints() == 40);
    CHECK(summary.unique_names() == 2);
    CHECK(summary.names().at("plan") == 10);
    CHECK(summary.first()->iteration() == 0);
    CHECK(summary.last()->iteration() == 39);
    CHECK(summary.duration() == std::chrono::seconds(39));
    CHECK(summary.bytes_stored() > 40'000);
    const auto json = boost::json::value_from(summary);
    CHECK(json.at("total_count") == 40);
    CHECK(json.at("duration_seconds") == 39.0);
}

} // namespace

TEST_CASE("checkpoints are found by id, name, time and page, and cleared by scope", "[stores]")
{
    on_every_store(names_and_queries);
}

TEST_CASE("a summary counts, and says what sharing saved", "[stores]")
{
    on_every_store(summarize);
}

TEST_CASE("sharing is counted where a store shares")
{
    asio::io_context io;
    async_store store(io.get_executor(), sqlite_store::in_memory());
    const auto body = [&]() -> asio::awaitable<void> {
        session session{store, "agent"};
        auto chat = chat_of(0);
        for (int i = 0; i < 40; ++i) {
            chat.push(message::user(std::string(1'000, 'x') + std::to_string(i)));
            co_await session.async_notify(event::tool_call_complete, i, chat);
        }
        const auto summary = co_await session.async_summary();
        CHECK(summary.bytes_stored() < 60'000);
        CHECK(summary.bytes_shared() > 700'000); // of 820,000
        co_await session.async_prune(retention().keep_last(1));
        const auto left = co_await session.async_summary();
        CHECK(left.bytes_shared() < 2'000); // there is nobody left to share with
    };
    run_coroutine(io, body());
}
