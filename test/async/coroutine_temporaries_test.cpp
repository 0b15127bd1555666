//! g++ 12 destroys some temporaries twice when they are made inside a co_await expression: aggregates, and
//! lambdas that capture by value. Every public type that an async function takes must be safe there as users
//! would write it. The address sanitizer sees the difference.
#include "catch.hpp"
#include "run_coroutine.hpp"

#include <waymark/memory_store.hpp>
#include <waymark/waymark.hpp>

using namespace waymark;
namespace json = boost::json;

namespace {

// Long enough not to fit into the string itself: what is freed twice must be on the heap.
std::string long_text(const char* part)
{
    return std::string(part) + " and a tail that is longer than a small string";
}

asio::awaitable<void> make_temporaries(async_store& store)
{
    const auto agent = long_text("agent");
    // A braced list inside a co_await expression does not compile with g++ 12: state is built beforehand.
    const json::object state = {{long_text("k"), long_text("v").c_str()}, {"list", {1, 2, 3}}};
    for (int i = 0; i < 2; ++i) {
        co_await store.async_save(checkpoint{agent});
        co_await store.async_save({checkpoint(agent)});
        co_await store.async_save(checkpoint{agent, conversation{8'000}.with_system_prompt(long_text("p")), i}
                                      .with_id(long_text("id") + std::to_string(i))
                                      .with_scope(long_text("scope"))
                                      .with_name(long_text("name"))
                                      .with_parent(long_text("parent"))
                                      .with_metadata(long_text("key"), long_text("value"))
                                      .with_state(state));
        co_await store.async_save(checkpoint(agent).with_scope(long_text("new") + std::to_string(i)),
                                  save_options{}.expect_head(std::nullopt));
        co_await store.async_load(long_text("agent"), long_text("scope"), long_text("id"));
        co_await store.async_load(long_text("nothing"));
        co_await store.async_load_latest(long_text("agent"));
        co_await store.async_load_latest(long_text("agent"), long_text("scope"));
        co_await store.async_list(query{agent}.scope(long_text("scope")).named(long_text("name")).limit(3));
        co_await store.async_list(query{agent}.metadata(long_text("key"), long_text("value")).oldest_first());
        co_await store.async_load_all(query(agent).after(cursor{long_text("agent"), 1}).since(now()));
        co_await store.async_count(query::all_agents().between(timestamp{}, now()));
        co_await store.async_list_agents(long_text("a"), 10);
        co_await store.async_erase(long_text("agent"), long_text("scope"), long_text("x"));
        co_await store.async_prune(long_text("agent"),
                                   retention{}.keep_last(5).max_age(std::chrono::hours(1)));
        co_await store.async_prune(long_text("agent"), retention{}.max_bytes(1'000'000).thin_after(9),
                                   dry_run::yes);
        co_await store.async_pin(long_text("agent"), long_text("scope"), long_text("x"), true);
        co_await store.async_put_steps(std::vector<step_request>(
            2, step_request{step{agent, long_text("scope"), long_text("key")}.with_result(long_text("r"))}));
        co_await store.async_load_steps(step_query{agent}.scope(long_text("scope")).key(long_text("key")));
        co_await store.async_copy_agent(long_text("agent"), long_text("copy") + std::to_string(i));
        co_await store.async_erase_agent(long_text("copy") + std::to_string(i));
        // Callables: by the named form, as the documentation says.
        const upkeep_control progress = [text = long_text("progress")](const upkeep_progress&) {};
        co_await store.async_verify(progress);
    }
    conversation chat;
    chat.push(message::assistant(long_text("a"),
                                 std::vector<tool_call>(1, tool_call{long_text("i"), long_text("n")})));
    co_await store.async_save(checkpoint{agent, std::move(chat), 1});
    const auto head = (co_await store.async_load_latest(long_text("agent"))).value();
    CHECK(head.conversation().size() == 1);
}

} // namespace

TEST_CASE("temporaries of every public type are safe inside co_await expressions")
{
    asio::io_context io;
    async_store store{io.get_executor(), std::make_shared<memory_store>()};
    test::run_coroutine(io, make_temporaries(store));
}

TEST_CASE("no public type that is passed to an async function is an aggregate")
{
    static_assert(!std::is_aggregate_v<checkpoint> && !std::is_aggregate_v<conversation> &&
                  !std::is_aggregate_v<message> && !std::is_aggregate_v<tool_call> &&
                  !std::is_aggregate_v<query> && !std::is_aggregate_v<cursor> &&
                  !std::is_aggregate_v<retention> && !std::is_aggregate_v<step> &&
                  !std::is_aggregate_v<step_query> && !std::is_aggregate_v<step_request> &&
                  !std::is_aggregate_v<save_options> && !std::is_aggregate_v<save_request> &&
                  !std::is_aggregate_v<strategy> && !std::is_aggregate_v<limits> &&
                  !std::is_aggregate_v<async_options> && !std::is_aggregate_v<json_input>);
    SUCCEED();
}
