//! What a program sees that catches std::exception only.
#include "asio_names.hpp"
#include "gated_fixture.hpp"
#include "on_every_store.hpp"

#include <asio/use_future.hpp>

#include <thread>

using namespace waymark;
using test::chat_of;
using test::run_coroutine;

namespace {

bool names_planner_and(const std::string& said, std::string_view remedy)
{
    UNSCOPED_INFO(said);
    return said.find("'planner'") != std::string::npos && said.find(remedy) != std::string::npos;
}

//! An operation of the agent "planner" that fails, with how it is told.
class failing {
public:
    template <class Operation>
    asio::awaitable<void> operator()(std::error_code expected, Operation operation, std::string_view remedy)
    {
        std::string said = "nothing";
        bool is_ours = false;
        std::error_code code;
        try {
            co_await operation();
        } catch (const std::exception& failure) {
            said = failure.what();
            if (const auto* ours = dynamic_cast<const error*>(&failure)) {
                is_ours = true;
                code = ours->code();
            }
        }
        CHECK(is_ours);
        CHECK(code == expected);
        CHECK(names_planner_and(said, remedy));
    }
};

asio::awaitable<void> explain_themselves(async_store& store, test::gated_store& backend)
{
    failing fails;
    session agent{store, "planner", session_options().exclusive()};
    session other{store, "planner", session_options().with_writer("node-1")};
    const auto chat = chat_of(2);
    const auto save = [&]() -> asio::awaitable<void> { co_await agent.async_checkpoint("x", 1, chat); };

    // What the library says by itself.
    auto bad_draft = [&]() -> asio::awaitable<void> {
        co_await agent.async_checkpoint(agent.draft(chat).with_name("\xff"));
    };
    co_await fails(errc::invalid_argument, bad_draft, "correct it");
    auto foreign_draft = [&]() -> asio::awaitable<void> { co_await agent.async_checkpoint(checkpoint("b")); };
    co_await fails(errc::invalid_argument, foreign_draft, "the session of");
    auto roll_back = [&]() -> asio::awaitable<void> { co_await agent.async_rollback_to("ghost"); };
    co_await fails(errc::not_found, roll_back, "show what there is");
    auto settle = [&]() -> asio::awaitable<void> { co_await agent.async_settle_step("ghost", 1); };
    co_await fails(errc::not_found, settle, "no step 'ghost'");
    co_await other.async_checkpoint("theirs", 1, chat);
    co_await fails(errc::conflict, save, "async_resume() loads what is there now");
    auto fork = [&]() -> asio::awaitable<void> {
        const auto head = co_await agent.async_load_latest();
        co_await agent.async_fork(head->id(), "planner");
    };
    co_await fails(errc::conflict, fork, "choose another id");
    co_await agent.async_resume();
    const auto hook = agent.before_save([](pending_save& pending) { pending.veto("not now"); });
    co_await fails(errc::vetoed, save, "not now");
    connection(hook).disconnect();
    agent.set_strategy(strategy::when([](std::int64_t, event) -> bool { throw std::runtime_error("mine"); }));
    auto notify = [&]() -> asio::awaitable<void> { co_await agent.async_notify(event::iteration, 1, chat); };
    co_await fails(errc::callback_threw, notify, "mine");
    std::vector<step_request> begun;
    begun.emplace_back(step("planner", "", "pay"));
    co_await store.async_put_steps(begun);
    auto pay = [&]() -> asio::awaitable<void> {
        auto action = []() -> asio::awaitable<boost::json::value> { co_return 1; };
        co_await agent.async_step("pay", action);
    };
    co_await fails(errc::step_in_doubt, pay, "async_settle_step (it did) or async_forget_step (it did not)");

    // What a backend says, which does not name the agent in each case.
    const std::pair<errc, std::string_view> of_backends[] = {
        {errc::corrupt, "verify() lists all damage"},
        {errc::busy, "try again"},
        {errc::unavailable, "try again when it is back"},
        {errc::unsupported_format, "upgrade the library"},
        {errc::io, "the details say how"},
        {errc::outcome_unknown, "load it and look"},
    };
    for (const auto& [code, remedy] : of_backends) {
        backend.fail_with(error(code, "something happened"));
        co_await fails(code, save, remedy);
        backend.fail_with(std::nullopt);
        co_await agent.async_resume();
    }

    // Lists and counts, of one agent.
    auto list = [&]() -> asio::awaitable<void> {
        co_await store.async_list(query("planner").before("ghost"));
    };
    co_await fails(errc::not_found, list, "show what there is");
    auto count = [&]() -> asio::awaitable<void> {
        co_await store.async_count(query("planner").named("\xff"));
    };
    co_await fails(errc::invalid_argument, count, "correct it");
}

} // namespace

TEST_CASE("an error of each kind names the agent and what to do, to who catches std::exception only")
{
    asio::io_context io;
    const auto backend = std::make_shared<test::gated_store>();
    async_store store{io.get_executor(), backend};
    run_coroutine(io, explain_themselves(store, *backend));
}

TEST_CASE("so do those of an operation that never began")
{
    asio::io_context io;
    const auto backend = std::make_shared<test::gated_store>();
    backend->close_gate();
    auto store = std::make_unique<async_store>(
        io.get_executor(), backend,
        async_options().with_max_queued_operations(1).with_max_waiting_operations(1));
    auto held = std::make_unique<session>(*store, "planner", session_options().with_max_pending(1));
    const auto token = [] { return with_diagnostics(asio::use_future); };
    const auto said = [](auto& future) -> std::string {
        try {
            future.get();
        } catch (const error& failure) {
            return failure.what();
        }
        return "nothing";
    };
    auto running = store->async_save(checkpoint("planner"), token());
    backend->wait_for_calls(1);
    auto waiting = store->async_save(checkpoint("planner"), token());
    auto refused = store->async_save(checkpoint("planner"), token());
    auto first = held->async_checkpoint("a", 1, {}, token());
    auto too_many = held->async_checkpoint("b", 1, {}, token());
    auto late = store->async_save(checkpoint("planner"), test::deferred);
    std::jthread opener([&] { // lets the destructor of the store go on
        waiting.wait();
        backend->open_gate();
    });
    held.reset();
    store.reset();
    auto closed = std::move(late)(token());
    io.run();
    running.get();
    CHECK(names_planner_and(said(refused), "raise the bounds"));
    CHECK(names_planner_and(said(too_many), "with_max_pending"));
    for (const auto& aborted : {said(waiting), said(first)})
        CHECK(names_planner_and(aborted, "store or session destroyed"));
    CHECK(names_planner_and(said(closed), "open a new one"));
}
