//! Callers of a session who leave before their operation has ended.
#include "catch.hpp"
#include "gated_fixture.hpp"

#include <waymark/session.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>

#include <stdexcept>

using namespace waymark;
using test::into;
namespace json = boost::json;

namespace {

constexpr auto in_progress = std::errc::operation_in_progress;

//! A step, and how its caller fared.
struct made_step {
    std::exception_ptr failure;
    json::value result;
    bool ended = false;

    std::error_code code() const
    {
        try {
            if (failure)
                std::rethrow_exception(failure);
        } catch (const std::system_error& thrown) {
            return thrown.code();
        }
        return {};
    }
    auto handler(asio::cancellation_signal& signal)
    {
        return asio::bind_cancellation_slot(signal.slot(),
                                            [this](std::exception_ptr thrown, json::value made) {
                                                failure = thrown;
                                                result = std::move(made);
                                                ended = true;
                                            });
    }
};

} // namespace

TEST_CASE("a session goes on in order behind a save whose caller has left")
{
    for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial}) {
        test::gated_fixture f;
        session session(f.store, "agent");
        std::vector<std::string> told;
        session.on_checkpoint([&](const checkpoint_saved& saved) { told.push_back(saved.header().name()); });
        f.backend->close_gate();
        std::error_code left, behind;
        asio::cancellation_signal signal;
        session.async_checkpoint("left", 1, conversation(),
                                 asio::bind_cancellation_slot(signal.slot(), into(left)));
        f.run_until_calls(1);
        session.async_checkpoint("behind", 2, conversation(), into(behind));
        signal.emit(type);
        f.io.poll();
        CHECK(left == errc::outcome_unknown);
        CHECK(behind == in_progress);
        f.backend->open_gate();
        f.io.restart();
        f.io.run();
        CHECK_FALSE(behind);
        const auto saved = f.backend->list(query("agent").oldest_first());
        REQUIRE(saved.size() == 2);
        CHECK(saved[1].parent_id() == saved[0].id());
        CHECK(told == std::vector<std::string>{"left", "behind"});
    }
}

TEST_CASE("total cancellation of a session's save that is being written waits for its outcome")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    f.backend->close_gate();
    std::error_code code;
    asio::cancellation_signal signal;
    session.async_checkpoint("turn", 1, conversation(),
                             asio::bind_cancellation_slot(signal.slot(), into(code)));
    f.run_until_calls(1);
    signal.emit(asio::cancellation_type::total);
    f.io.poll();
    CHECK(code == in_progress);
    f.backend->open_gate();
    f.io.restart();
    f.io.run();
    CHECK_FALSE(code);
}

TEST_CASE("a save for which something is being looked up is aborted, and never written")
{
    //! Loading the target of a rollback takes until it is told to end.
    class slow final : public test::forwarding_store {
    public:
        using forwarding_store::load;
        std::optional<checkpoint> load(std::string_view agent, std::string_view scope,
                                       std::string_view id) override
        {
            reached.store(true);
            may_go_on.wait(false);
            return forwarding_store::load(agent, scope, id);
        }
        std::atomic<bool> reached = false;
        std::atomic<bool> may_go_on = false;
    };
    for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total}) {
        asio::io_context io;
        const auto backend = std::make_shared<slow>();
        backend->save(checkpoint("agent").with_id("target"));
        async_store store(io.get_executor(), backend);
        session session(store, "agent");
        std::error_code code, behind;
        asio::cancellation_signal signal;
        session.async_rollback_to("target", asio::bind_cancellation_slot(signal.slot(), into(code)));
        while (!backend->reached)
            io.run_one_for(std::chrono::milliseconds(1));
        signal.emit(type);
        io.poll();
        CHECK(code == asio::error::operation_aborted);
        session.async_checkpoint("behind", 1, conversation(), into(behind));
        backend->may_go_on = true;
        backend->may_go_on.notify_all();
        io.restart();
        io.run();
        CHECK_FALSE(behind);
        CHECK(backend->count(query("agent")) == 2); // the target, and what came behind
    }
}

TEST_CASE("a step whose beginning is left is withdrawn, and may be made again")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    f.backend->close_gate();
    int runs = 0;
    const auto count = [&]() -> asio::awaitable<json::value> { co_return ++runs; };
    asio::cancellation_signal signal;
    made_step step;
    session.async_step("call", count, step.handler(signal));
    f.run_until_calls(1);
    signal.emit(asio::cancellation_type::terminal);
    f.io.poll();
    CHECK(step.ended); // before the gate opens
    CHECK(step.code() == errc::outcome_unknown);
    f.backend->open_gate();
    std::error_code flushed;
    f.store.async_flush(into(flushed));
    f.io.restart();
    f.io.run();
    CHECK(runs == 0);
    CHECK(f.backend->load_steps(step_query("agent")).empty());
    made_step again;
    session.async_step("call", count, again.handler(signal));
    f.io.restart();
    f.io.run();
    CHECK_FALSE(again.failure);
    CHECK(runs == 1);
}

TEST_CASE("a step whose action is cancelled is in doubt, and remembers why")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    asio::steady_timer never(f.io, asio::steady_timer::time_point::max());
    const auto wait = [&]() -> asio::awaitable<json::value> {
        co_await never.async_wait(asio::use_awaitable);
        co_return 1;
    };
    asio::cancellation_signal signal, unused;
    made_step step, again;
    session.async_step("call", wait, step.handler(signal));
    f.run_until_calls(1);
    while (f.io.run_one_for(std::chrono::milliseconds(1)) != 0 ||
           f.store.queues().writes.queued_operations != 0)
        ;
    signal.emit(asio::cancellation_type::terminal);
    f.io.run_for(std::chrono::milliseconds(1));
    CHECK(step.code() == asio::error::operation_aborted);
    f.io.restart();
    f.io.run();
    const auto records = f.backend->load_steps(step_query("agent"));
    REQUIRE(records.size() == 1);
    CHECK(records[0].failure() == "it was cancelled while it ran");
    session.async_step("call", wait, again.handler(unused));
    f.io.restart();
    f.io.run();
    CHECK(again.code() == errc::step_in_doubt);
}

TEST_CASE("a step whose recording is left has its result when it is made again")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    int runs = 0;
    const auto count = [&]() -> asio::awaitable<json::value> {
        f.backend->close_gate(); // the end of the step will stand there
        co_return ++runs;
    };
    asio::cancellation_signal signal;
    made_step step, meanwhile, again;
    session.async_step("call", count, step.handler(signal));
    f.run_until_calls(2);
    signal.emit(asio::cancellation_type::terminal);
    f.io.poll();
    CHECK(step.code() == errc::outcome_unknown);
    asio::cancellation_signal unused;
    session.async_step("call", count, meanwhile.handler(unused));
    f.io.poll();
    CHECK(meanwhile.code() == errc::conflict); // it is still being recorded
    f.backend->open_gate();
    f.io.restart();
    f.io.run();
    session.async_step("call", count, again.handler(unused));
    f.io.restart();
    f.io.run();
    CHECK_FALSE(again.failure);
    CHECK(again.result == 1);
    CHECK(runs == 1);
}

TEST_CASE("whoever leaves while a failure is being recorded gets the failure")
{
    test::gated_fixture f;
    session session(f.store, "agent");
    const auto fail = [&]() -> asio::awaitable<json::value> {
        f.backend->close_gate();
        throw std::system_error(asio::error::eof);
        co_return nullptr;
    };
    asio::cancellation_signal signal;
    made_step step;
    session.async_step("call", fail, step.handler(signal));
    f.run_until_calls(2);
    signal.emit(asio::cancellation_type::terminal);
    f.io.poll();
    CHECK(step.code() == asio::error::eof);
    f.backend->open_gate();
    f.io.restart();
    f.io.run();
    const auto found = f.backend->load_steps(step_query("agent"));
    REQUIRE(found.size() == 1);
    CHECK_FALSE(found[0].done());
    CHECK(found[0].failure());
}
