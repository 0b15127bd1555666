//! What users write inside a `co_await` expression of a session, as they would write it. g++ 12 gets some
//! temporaries wrong there; the address sanitizer sees the difference. See also
//! coroutine_temporaries_test.cpp.
#include "catch.hpp"
#include "run_coroutine.hpp"
#include "temporary_folder.hpp"

#include <waymark/memory_store.hpp>
#include <waymark/waymark.hpp>

using namespace waymark;
namespace json = boost::json;

namespace {

std::string long_text(const char* part)
{
    return std::string(part) + " and a tail that is longer than a small string";
}

asio::awaitable<json::value> answer(std::string text)
{
    co_return json::value(text);
}

asio::awaitable<void> make_temporaries(async_store& store, std::filesystem::path folder)
{
    const json::object state = {{long_text("k"), long_text("v").c_str()}, {"list", {1, 2, 3}}};
    for (int i = 0; i < 2; ++i) {
        const auto agent = long_text("agent") + std::to_string(i);
        session session{store, agent,
                        session_options()
                            .with_scope(long_text("scope"))
                            .with_writer(long_text("writer"))
                            .with_strategy(strategy::every_n(1))
                            .with_retention(retention().keep_last(50))};
        co_await session.async_resume(resume_options().repair(long_text("repair")).fall_back());
        const auto first = co_await session.async_checkpoint(
            long_text("name"), i, conversation{8'000}.with_system_prompt(long_text("prompt")));
        co_await session.async_checkpoint(long_text("name"), i, conversation{8'000}, state);
        co_await session.async_checkpoint(session.draft(conversation{5}, i)
                                              .with_name(long_text("draft"))
                                              .with_state(state)
                                              .with_metadata(long_text("key"), long_text("value")));
        co_await session.async_notify(event::iteration, i,
                                      conversation{8'000}.with_system_prompt(long_text("p")));
        co_await session.async_notify(event::iteration, i, conversation{8'000}, state);
        co_await session.async_notify(event::iteration, session.draft().with_id(long_text("id")));
        co_await session.async_load(long_text("id"));
        co_await session.async_load_latest(long_text("name"));
        co_await session.async_list(session.query().named(long_text("name")).limit(3).oldest_first());
        co_await session.async_load_all(session.query().metadata(long_text("key"), long_text("value")));
        co_await session.async_count(query(agent).since(timestamp{}));
        co_await session.async_diff(std::string(first.id()), long_text("id"));
        co_await session.async_rollback_to(std::string(first.id()));
        co_await session.async_fork(std::string(first.id()), long_text("fork") + std::to_string(i));
        co_await session.async_step(long_text("step"), answer(long_text("answer")),
                                    step_options().safe_to_repeat());
        co_await session.async_step(long_text("step"), answer(long_text("dropped")));
        co_await session.async_settle_step(long_text("step"), long_text("answer"));
        co_await session.async_forget_step(long_text("nothing"));
        co_await session.async_prune(retention().keep_last(5).max_age(std::chrono::hours(1)), dry_run::yes);
        co_await session.async_pin(long_text("id"));
        co_await async_export_lines(store, folder / long_text("file"), export_options().of_agent(agent));
        co_await async_import_lines(store, folder / long_text("file"),
                                    import_options().as_agent(long_text("imported") + std::to_string(i)));
        co_await session.async_import(co_await session.async_export(),
                                      import_options().when_exists(existing::replace));
        const auto cleared = co_await session.async_clear();
        CHECK(cleared > 0);
    }
}

} // namespace

TEST_CASE("what is written inside a co_await expression of a session is destroyed once")
{
    const test::temporary_folder folder;
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<memory_store>());
    test::run_coroutine(io, make_temporaries(store, folder.path()));
}
