//! What a life begins: every kind of operation, with every kind of token.
#pragma once

#include "asio_names.hpp"
#include "schedule_life.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_future.hpp>

namespace waymark::faults::schedules {

inline life::shared_operation life::make(dice& roll, const std::string& what,
                                         std::vector<std::error_code> natural)
{
    auto made = std::make_shared<operation>();
    made->what = what + " #" + std::to_string(ledger_.started());
    made->natural = std::move(natural);
    const auto place = roll.below(stage::executor_count);
    made->executor = stage::id_of(place);
    made->where = stage_.serial_executor(place);
    made->afterwards = [this, seed = roll.seed()] { after_completion(seed); };
    return made;
}

inline life::shared_operation life::make_for_session(dice& roll, const std::string& what,
                                                     std::vector<std::error_code> natural)
{
    auto made = make(roll, "session " + what, std::move(natural));
    made->of_session = true;
    made->removable = plan_.removes;
    if (plan_.ends_contexts) { // a context must outlive what runs for it on another one
        made->executor = stage::id_of(plan_.session_place);
        made->where = stage_.serial_executor(plan_.session_place);
    }
    return made;
}

//! Starts an operation with a handler that has an executor and a cancellation slot.
template <class Initiate>
void life::start_bound(const shared_operation& of, Initiate initiate)
{
    ledger_.start(of);
    const starting now(*of);
    initiate(asio::bind_cancellation_slot(of->signal.slot(),
                                          asio::bind_executor(of->where, handler(ledger_, of))));
    of->has_signal = true; // from now on: the slot is being filled until here
}

//! `initiate` takes a token. Starts the operation now, or makes one that is started later or never; with a
//! handler that is bound to an executor and a slot, or to nothing.
template <class Initiate>
void life::begin_in_some_way(dice& roll, const shared_operation& of, Initiate initiate)
{
    const auto drawn = roll.below(6);
    if (drawn == 0)
        return defer(of, initiate);
    if (drawn == 1)
        return start_unbound(of, initiate);
    start_bound(of, initiate);
}

//! The same, or with a future.
template <class Initiate>
void life::begin_any_way(dice& roll, const shared_operation& of, Initiate initiate)
{
    // A context must not end before what a future's thread does for its session.
    const bool may_have_future = !of->of_session || !plan_.ends_contexts;
    if (may_have_future && roll.one_in(8))
        return start_with_future(of, initiate);
    begin_in_some_way(roll, of, initiate);
}

template <class Initiate>
void life::defer(const shared_operation& of, Initiate initiate)
{
    of->what += " (deferred)";
    auto deferred = std::make_shared<decltype(initiate(test::deferred))>(initiate(test::deferred));
    const std::lock_guard lock(late_mutex_);
    late_.push_back([this, of, deferred] {
        start_bound(of, [&](auto&& token) { std::move (*deferred)(std::forward<decltype(token)>(token)); });
    });
}

//! On the executor of the store or session.
template <class Initiate>
void life::start_unbound(const shared_operation& of, Initiate initiate)
{
    of->what += " (unbound)";
    of->executor = stage::id_of(of->of_session ? plan_.session_place : 0);
    ledger_.start(of);
    const starting now(*of);
    initiate(handler(ledger_, of));
}

//! Asio fulfils it on threads of its own.
template <class Initiate>
void life::start_with_future(const shared_operation& of, Initiate initiate)
{
    of->what += " (future)";
    of->executor = 0;
    ledger_.start_future(of);
    auto future = std::make_shared<decltype(initiate(asio::use_future(as_values())))>(
        initiate(asio::use_future(as_values())));
    of->settle = [this, &record = *of, future] { settle_future(ledger_, record, *future); };
}

inline void life::begin_something(dice& roll)
{
    if (ledger_.started() >= most_operations)
        return;
    if (roll.one_in(6))
        return begin_coroutine(roll);
    const std::shared_lock lock(mutex_);
    if (session_ && roll.one_in(2))
        begin_on_session(roll);
    else if (store_)
        begin_on_store(roll);
}

inline checkpoint life::some_checkpoint(dice& roll, const std::string& agent)
{
    conversation chat;
    for (auto left = roll.below(4); left > 0; --left)
        chat.push(message::user(std::string(roll.below(1'500), 'm')));
    return checkpoint(agent, std::move(chat), static_cast<std::int64_t>(roll.below(100))).with_id(next_id());
}

inline void life::begin_on_store(dice& roll)
{
    switch (roll.below(4)) {
    case 0:
    case 1:
        return begin_save(roll);
    case 2:
        return begin_read(roll);
    default:
        return begin_write(roll);
    }
}

inline void life::begin_save(dice& roll)
{
    const bool removable = roll.one_in(3);
    auto saved = some_checkpoint(roll, (removable ? "brief-" : "lasting-") + std::to_string(roll.below(3)));
    auto of = make(roll, "save of " + saved.id());
    of->saves = saved.key();
    of->removable = removable;
    switch (roll.below(8)) {
    case 0:
        of->natural.emplace_back(errc::conflict);
        return start_bound(of, [&](auto&& token) {
            return store_->async_save(saved, save_options().expect_head(some_id(roll)),
                                      with_diagnostics(of->details, std::forward<decltype(token)>(token)));
        });
    case 1:
        of->natural.emplace_back(errc::invalid_argument);
        of->must_fail = true;
        saved.with_name(std::string("\xff")); // no UTF-8
        [[fallthrough]];
    default:
        return begin_any_way(roll, of, [&](auto&& token) {
            return store_->async_save(saved, std::forward<decltype(token)>(token));
        });
    }
}

// A call whose token is chosen later. As functions, these would be four lines for each operation.
#define WAYMARK_BEGIN(call) start_bound(of, [&](auto&& token) { return call; })
#define WAYMARK_BEGIN_ANY_WAY(call) begin_any_way(roll, of, [&](auto&& token) { return call; })
#define WAYMARK_TOKEN std::forward<decltype(token)>(token)

inline void life::begin_read(dice& roll)
{
    const auto agent = "lasting-" + std::to_string(roll.below(3));
    const auto id = some_id(roll);
    auto& in = *store_;
    const auto of = make(roll, "read", {errc::conflict}); // copies have the same ids
    switch (roll.below(8)) {
    case 0:
        return WAYMARK_BEGIN(in.async_load(agent, "", id, WAYMARK_TOKEN));
    case 1:
        return WAYMARK_BEGIN(in.async_load(id, with_diagnostics(of->details, WAYMARK_TOKEN)));
    case 2:
        return WAYMARK_BEGIN(in.async_list(query(agent), WAYMARK_TOKEN));
    case 3:
        return WAYMARK_BEGIN(in.async_load_all(query::all_agents().limit(5), WAYMARK_TOKEN));
    case 4:
        return WAYMARK_BEGIN(in.async_list_agents(WAYMARK_TOKEN));
    case 5:
        return WAYMARK_BEGIN(in.async_load_steps(step_query(agent), WAYMARK_TOKEN));
    case 6:
        return WAYMARK_BEGIN(in.async_verify(WAYMARK_TOKEN));
    default:
        return WAYMARK_BEGIN_ANY_WAY(in.async_load_latest(agent, WAYMARK_TOKEN));
    }
}

inline void life::begin_write(dice& roll)
{
    const auto agent = "brief-" + std::to_string(roll.below(3));
    const auto id = some_id(roll);
    auto& in = *store_;
    const auto of = make(roll, "write");
    switch (roll.below(9)) {
    case 0:
        return WAYMARK_BEGIN_ANY_WAY(in.async_flush(WAYMARK_TOKEN));
    case 1:
        return WAYMARK_BEGIN(in.async_erase(agent, "", id, WAYMARK_TOKEN));
    case 2:
        return WAYMARK_BEGIN(in.async_erase_agent(agent, with_diagnostics(of->details, WAYMARK_TOKEN)));
    case 3:
        return WAYMARK_BEGIN(in.async_prune(agent, retention().keep_last(1), WAYMARK_TOKEN));
    case 4:
        return WAYMARK_BEGIN(in.async_pin(agent, "", id, true, WAYMARK_TOKEN));
    case 5:
        return WAYMARK_BEGIN(in.async_put_steps({step(agent, "", id)}, WAYMARK_TOKEN));
    case 6:
        return WAYMARK_BEGIN(in.async_erase_step(agent, "", id, WAYMARK_TOKEN));
    case 7:
        return WAYMARK_BEGIN(in.async_compact(WAYMARK_TOKEN));
    default: {
        of->natural = {errc::not_found, errc::conflict};
        const auto target = "copy-" + std::to_string(roll.below(5));
        const auto origin = "lasting-" + std::to_string(roll.below(3));
        return WAYMARK_BEGIN(in.async_copy_agent(origin, target, WAYMARK_TOKEN));
    }
    }
}

inline void life::begin_on_session(dice& roll)
{
    switch (roll.below(5)) {
    case 0:
    case 1:
        return begin_session_save(roll);
    case 2:
        return begin_session_step(roll);
    default:
        return begin_on_session_place(roll);
    }
}

inline void life::begin_session_save(dice& roll)
{
    const auto draft = some_checkpoint(roll, session_->agent_id());
    const auto of = make_for_session(roll, "save of " + draft.id(), {errc::vetoed, errc::callback_threw});
    of->saves = draft.key();
    of->is_plain_save = true;
    if (plan_.exclusive)
        of->natural.emplace_back(errc::conflict);
    const auto what = static_cast<event>(roll.below(3));
    auto& in = *session_;
    if (roll.one_in(2))
        return WAYMARK_BEGIN_ANY_WAY(in.async_notify(what, draft, WAYMARK_TOKEN));
    WAYMARK_BEGIN_ANY_WAY(in.async_checkpoint(draft, with_diagnostics(of->details, WAYMARK_TOKEN)));
}

//! What asks or changes where the session is.
inline void life::begin_on_session_place(dice& roll)
{
    const auto id = some_id(roll);
    auto& in = *session_;
    const auto of = make_for_session(roll, "call");
    switch (roll.below(plan_.removes ? 8 : 6)) {
    case 0:
        return WAYMARK_BEGIN(in.async_resume(WAYMARK_TOKEN));
    case 1:
    case 2:
        of->natural = {errc::not_found, errc::vetoed};
        if (plan_.exclusive)
            of->natural.emplace_back(errc::conflict);
        return WAYMARK_BEGIN(in.async_rollback_to(id, WAYMARK_TOKEN));
    case 3: {
        of->natural = {errc::not_found, errc::conflict};
        of->removable = false; // forks stay
        const auto target = "fork-" + std::to_string(roll.below(5));
        return WAYMARK_BEGIN(in.async_fork(id, target, WAYMARK_TOKEN));
    }
    case 4:
        return WAYMARK_BEGIN(in.async_list(WAYMARK_TOKEN));
    case 5:
        return WAYMARK_BEGIN(in.async_summary(with_diagnostics(of->details, WAYMARK_TOKEN)));
    case 6:
        return WAYMARK_BEGIN(in.async_clear(WAYMARK_TOKEN));
    default:
        of->natural = {errc::conflict}; // it has ended
        return WAYMARK_BEGIN(in.async_forget_step("step-" + id, WAYMARK_TOKEN));
    }
}

inline void life::begin_session_step(dice& roll)
{
    const auto key = "step-c" + std::to_string(roll.below(8));
    const auto of =
        make_for_session(roll, "step " + key, {errc::conflict, errc::step_in_doubt, action_failed});
    if (plan_.removes)
        of->natural.emplace_back(errc::not_found); // the checkpoint that it was to be made on
    of->records = checkpoint_key(session_->agent_id(), session_->scope(), key);
    auto& in = *session_;
    const auto seed = roll.seed();
    begin_in_some_way(
        roll, of, [&](auto&& token) { return in.async_step(key, act(ledger_, of, seed), WAYMARK_TOKEN); });
}
#undef WAYMARK_TOKEN
#undef WAYMARK_BEGIN_ANY_WAY
#undef WAYMARK_BEGIN

//! The side effect of a step.
inline asio::awaitable<boost::json::value> life::act(operation_ledger& ledger, shared_operation of,
                                                     std::uint64_t seed)
{
    if (of->executor != 0 && executor_here() != of->executor)
        ledger.violation(of->what + " runs its action on another executor");
    if (seed % 2 == 0) {
        const auto executor = co_await asio::this_coro::executor;
        co_await asio::post(executor, asio::use_awaitable);
    }
    if (seed % 5 == 0)
        throw failed_action();
    if (!of->removable)
        ledger.acted(of->records->id());
    co_return boost::json::value(seed);
}

inline void life::begin_coroutine(dice& roll)
{
    // Without a lock: it may run at once, up to its first suspension.
    const auto self = make_for_session(roll, "coroutine");
    self->of_session = plan_.with_session;
    start_bound(self, [&](auto&& token) {
        asio::co_spawn(self->where, coroutine(roll.seed(), self), std::forward<decltype(token)>(token));
    });
}

inline asio::awaitable<void> life::coroutine(std::uint64_t seed, shared_operation self)
{
    dice roll(seed);
    for (auto left = roll.between(1, 3); left > 0; --left) {
        auto next = await_something(roll, self);
        co_await std::move(next);
        if (executor_here() != self->executor)
            ledger_.violation(self->what + " went on on another executor");
    }
}

inline asio::awaitable<void> nothing()
{
    co_return;
}

//! Something for a coroutine to await. What it says is begun only then, when the store may be gone.
inline asio::awaitable<void> life::await_something(dice& roll, const shared_operation& outer)
{
    const std::shared_lock lock(mutex_);
    const bool on_session = session_ && roll.one_in(2);
    if ((!store_ && !on_session) || ledger_.started() >= most_operations)
        return nothing();
    const auto agent = on_session ? session_->agent_id() : "lasting-" + std::to_string(roll.below(3));
    const auto draft = some_checkpoint(roll, agent);
    auto of = std::make_shared<operation>();
    of->what = "awaited operation with " + draft.id() + " in " + outer->what;
    of->executor = outer->executor;
    of->inside_of = outer;
    of->of_session = on_session;
    of->removable = on_session && plan_.removes;
    of->natural = {errc::vetoed, errc::callback_threw};
    if (on_session) {
        if (plan_.exclusive)
            of->natural.emplace_back(errc::conflict);
        if (roll.one_in(3))
            return awaited(ledger_, of, session_->async_resume(asio::use_awaitable));
        of->saves = draft.key();
        return awaited(ledger_, of, session_->async_checkpoint(draft, asio::use_awaitable));
    }
    switch (roll.below(4)) {
    case 0:
        return awaited(ledger_, of, store_->async_load_latest(agent, asio::use_awaitable));
    case 1:
        return awaited(ledger_, of, store_->async_flush(asio::use_awaitable));
    default:
        of->saves = draft.key();
        return awaited(ledger_, of,
                       store_->async_save(draft, with_diagnostics(of->details, asio::use_awaitable)));
    }
}

inline void life::begin_late(dice& roll)
{
    std::function<void()> chosen;
    {
        const std::lock_guard lock(late_mutex_);
        if (late_.empty())
            return;
        std::swap(late_[roll.below(late_.size())], late_.back());
        chosen = std::move(late_.back());
        late_.pop_back();
    }
    chosen();
}

} // namespace waymark::faults::schedules
