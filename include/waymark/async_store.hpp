//! A store for programs that run on Asio: nothing here blocks the caller.
#pragma once

#include <waymark/async_options.hpp>
#include <waymark/detail/operation.hpp>
#include <waymark/detail/scheduler.hpp>
#include <waymark/queue_figures.hpp>
#include <waymark/save_receipt.hpp>
#include <waymark/store.hpp>
#include <waymark/with_diagnostics.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace waymark {

class async_store;

namespace detail {

//! For the layers above: what carries out the requests of a store.
const std::shared_ptr<scheduler>& scheduler_of(const async_store& store) noexcept;

} // namespace detail

//! Runs the functions of a `store` on a thread pool and completes on the caller's executor.
//!
//! What follows holds for every function whose name begins with `async_`; their own comments say only what
//! is particular to them.
//!
//! @par Completion
//! The handler is called exactly once, never from within the initiating function, on its associated
//! executor, or if it has none on the store's. Its associated allocator provides the operation's memory,
//! which is freed before the call; it is used in the initiating function and on the handler's executor, never
//! on the pool. The handler's context is kept busy (`io_context::run` does not return) until then.
//!
//! @par Tokens and errors
//! Without a token, the result can be awaited, and a failure is a `waymark::error` that says which agent,
//! what happened and what to do: `co_await store.async_save(checkpoint)`. `with_diagnostics` does the same
//! for any other token, or fills a `diagnostics` beside an error code.
//!
//! Errors are those of the store (see `errc`), and: `asio::error::operation_aborted` (cancelled, or the
//! async_store was destroyed first), `errc::overloaded` (see async_options), `errc::closed` (a deferred
//! operation, or one that waited in a session, was to begin after the async_store was destroyed).
//!
//! @par Order
//! Writes of one agent are carried out in the order in which they were started, also when they are not
//! awaited. Reads run beside them and see what has completed before they were started. What takes long
//! (upkeep: `async_prune`, `async_copy_agent`, `async_erase_scope`, `async_compact`, `async_verify`, exports,
//! imports) runs beside them, too, in short transactions; only later writes of the agents that it changes
//! wait for it.
//!
//! @par Cancellation
//! An operation that is still queued completes with `asio::error::operation_aborted` and has had no effect,
//! whatever the type of cancellation. Once it has begun, `total` cancellation waits for its outcome;
//! `partial` and `terminal` (which `||` with a timer emits) complete it at once, with `errc::outcome_unknown`
//! for a write, which goes on and takes place as a whole or not at all, and with `operation_aborted` for a
//! read. So a deadline bounds how long a caller waits. Upkeep that a caller leaves is stopped soon; what it
//! has done stays (see upkeep_control, which also stops it). As always with Asio, a cancellation signal is
//! emitted on the handler's executor.
//!
//! @par Lifetimes
//! Arguments are moved or copied. The context of each handler's executor must exist until the handler has
//! been called. The async_store's own context may end first if no handler uses it. The destructor waits for
//! what is under way (the batch that is being written, reads), stops upkeep, completes what is still queued
//! with `operation_aborted`, lets go of the backend and leaves no thread behind. It may run in a handler.
//!
//! @par Thread safety
//! All member functions but the destructor may be called from several threads at once.
class async_store {
public:
    using executor_type = asio::any_io_executor;

    //! @param executor where handlers run that have no executor of their own.
    //! @param backend the store that does the work; it may be used directly at the same time.
    //! @param options bounds, and where the work is done.
    //! @throws waymark::error `invalid_argument` if the executor is empty, `backend` null, or an option 0
    //! that must not be.
    async_store(executor_type executor, std::shared_ptr<store> backend, const async_options& options = {})
        : executor_(std::move(executor)),
          scheduler_(std::make_shared<detail::scheduler>(std::move(backend), options.limits(),
                                                         asio::error::operation_aborted, options.observer()))
    {
        if (!executor_)
            throw error(errc::invalid_argument, "an async_store needs an executor; this one is empty");
        if (options.pool())
            scheduler_->run_on(std::make_unique<detail::shared_pool>(options.pool()));
        else
            scheduler_->run_on(std::make_unique<detail::own_pool>(scheduler_->concurrency()));
    }
    async_store(const async_store&) = delete;
    async_store& operator=(const async_store&) = delete;
    ~async_store() { scheduler_->close(); }

    executor_type get_executor() const noexcept { return executor_; }
    //! The store that does the work.
    const std::shared_ptr<store>& backend() const noexcept { return scheduler_->backend(); }
    //! How full the queues are.
    queue_figures queues() const { return scheduler_->queues(); }

    // Saving and loading

    //! Saves a checkpoint; it is as durable as the backend makes it when the handler is called. Saves that
    //! wait at the same time share a commit. A failure concerns just this save, unless the commit failed.
    //! @par Handler signature
    //! `void(std::error_code, save_receipt)`
    //! @par Errors
    //! `errc::invalid_argument`, `errc::conflict` (see save_options), `errc::outcome_unknown`
    template <detail::token_for<save_receipt> Token = default_token>
    auto async_save(checkpoint checkpoint, save_options options, Token&& token = Token{})
    {
        return detail::start_request<detail::batched_save>(
            scheduler_, executor_, std::forward<Token>(token),
            save_request(std::move(checkpoint), std::move(options)));
    }
    //! The same without conditions. Handler signature: `void(std::error_code, save_receipt)`
    template <detail::token_for<save_receipt> Token = default_token>
    auto async_save(checkpoint checkpoint, Token&& token = Token{})
    {
        return async_save(std::move(checkpoint), save_options(), std::forward<Token>(token));
    }

    //! Loads one checkpoint, or nothing if there is none.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_load(std::string agent_id, std::string scope, std::string id, Token&& token = Token{})
    {
        return start(schedule::read, store_operation::load, agent_id, std::forward<Token>(token),
                     [agent_id, scope = std::move(scope), id = std::move(id)](store& from) {
                         return from.load(agent_id, scope, id);
                     });
    }

    //! Finds a checkpoint by its id alone, or nothing.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    //! @par Errors
    //! `errc::conflict` if several agents or scopes have it
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_load(std::string id, Token&& token = Token{})
    {
        return start(schedule::read, store_operation::load, {}, std::forward<Token>(token),
                     [id = std::move(id)](store& from) { return from.load(id); });
    }

    //! Loads the head of a scope, or nothing if there is none.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_load_latest(std::string agent_id, std::string scope, Token&& token = Token{})
    {
        return start(
            schedule::read, store_operation::load, agent_id, std::forward<Token>(token),
            [agent_id, scope = std::move(scope)](store& from) { return from.load_latest(agent_id, scope); });
    }
    //! The same in the default scope. Handler signature: `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_load_latest(std::string agent_id, Token&& token = Token{})
    {
        return async_load_latest(std::move(agent_id), std::string(), std::forward<Token>(token));
    }

    //! Lists checkpoints without their conversation and state.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint_header>)`
    //! @par Errors
    //! `errc::invalid_argument`, `errc::not_found` and `errc::conflict` (see query::before)
    template <detail::token_for<std::vector<checkpoint_header>> Token = default_token>
    auto async_list(query query, Token&& token = Token{})
    {
        auto agent_id = query.agent_id().value_or("");
        return start(schedule::read, store_operation::list, std::move(agent_id), std::forward<Token>(token),
                     [query = std::move(query)](store& from) { return from.list(query); });
    }

    //! Loads whole checkpoints. Give the query a limit when the history may be long.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint>)`
    //! @par Errors
    //! as `async_list`
    template <detail::token_for<std::vector<checkpoint>> Token = default_token>
    auto async_load_all(query query, Token&& token = Token{})
    {
        auto agent_id = query.agent_id().value_or("");
        return start(schedule::read, store_operation::load, std::move(agent_id), std::forward<Token>(token),
                     [query = std::move(query)](store& from) { return from.load_all(query); });
    }

    //! Counts checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    //! @par Errors
    //! as `async_list`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_count(query query, Token&& token = Token{})
    {
        auto agent_id = query.agent_id().value_or("");
        return start(schedule::read, store_operation::list, std::move(agent_id), std::forward<Token>(token),
                     [query = std::move(query)](store& from) { return from.count(query); });
    }

    //! Lists up to `limit` agents behind `after`, byte by byte in order.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<std::string>)`
    template <detail::token_for<std::vector<std::string>> Token = default_token>
    auto async_list_agents(std::string after, std::size_t limit, Token&& token = Token{})
    {
        return start(
            schedule::read, store_operation::list, {}, std::forward<Token>(token),
            [after = std::move(after), limit](store& from) { return from.list_agents(after, limit); });
    }
    //! The first thousand. Handler signature: `void(std::error_code, std::vector<std::string>)`
    template <detail::token_for<std::vector<std::string>> Token = default_token>
    auto async_list_agents(Token&& token = Token{})
    {
        return async_list_agents(std::string(), 1000, std::forward<Token>(token));
    }

    // Removing and keeping

    //! Removes one checkpoint. Completes with whether it was there. What only it needed is removed in the
    //! background.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = default_token>
    auto async_erase(std::string agent_id, std::string scope, std::string id, Token&& token = Token{})
    {
        return start(schedule::ordered, store_operation::erase, agent_id, std::forward<Token>(token),
                     [agent_id, scope = std::move(scope), id = std::move(id),
                      sweeper = detail::sweeper(scheduler_)](store& in) {
                         const bool found = in.erase(agent_id, scope, id);
                         if (found)
                             sweeper.sweep(agent_id);
                         return found;
                     });
    }

    //! Removes all checkpoints and steps of one scope. Completes with the number of its checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_erase_scope(std::string agent_id, std::string scope, Token&& token = Token{})
    {
        return start_upkeep(schedule::background, store_operation::erase, agent_id,
                            std::forward<Token>(token), upkeep_control(),
                            [agent_id, scope = std::move(scope)](store& in, const upkeep_control& control) {
                                return in.erase_scope(agent_id, scope, control);
                            });
    }

    //! Removes everything of an agent: one short write, after which nobody finds it any more. Its rows are
    //! removed in the background. Completes with the number of its checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_erase_agent(std::string agent_id, Token&& token = Token{})
    {
        return start(schedule::ordered, store_operation::erase, agent_id, std::forward<Token>(token),
                     [agent_id, sweeper = detail::sweeper(scheduler_)](store& in) {
                         const auto count = in.erase_agent(agent_id);
                         sweeper.sweep(agent_id);
                         return count;
                     });
    }

    //! Copies everything of an agent, behind all earlier writes of both. Nobody sees the copy before it is
    //! whole. Completes with the number of checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    //! @par Errors
    //! `errc::not_found` without an origin, `errc::conflict` if the target exists, `errc::busy` if others
    //! replace or remove checkpoints of the origin all the time
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_copy_agent(std::string from, std::string to, upkeep_control control, Token&& token = Token{})
    {
        return start_upkeep(
            schedule::background, store_operation::copy, from, std::forward<Token>(token), std::move(control),
            [from, to](store& in, const upkeep_control& reins) { return in.copy_agent(from, to, reins); },
            to);
    }
    //! The same without a control. Handler signature: `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_copy_agent(std::string from, std::string to, Token&& token = Token{})
    {
        return async_copy_agent(std::move(from), std::move(to), upkeep_control(), std::forward<Token>(token));
    }

    //! Deletes the checkpoints that the policies do not keep, or with `dry_run::yes` only says which.
    //! @par Handler signature
    //! `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = default_token>
    auto async_prune(std::string agent_id, retention policies, dry_run dry, upkeep_control control,
                     Token&& token = Token{})
    {
        return start_upkeep(
            schedule::background, store_operation::prune, agent_id, std::forward<Token>(token),
            std::move(control),
            [agent_id, policies = std::move(policies), dry](store& in, const upkeep_control& reins) {
                return in.prune(agent_id, policies, dry, reins);
            });
    }
    //! The same without a control. Handler signature: `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = default_token>
    auto async_prune(std::string agent_id, retention policies, dry_run dry, Token&& token = Token{})
    {
        return async_prune(std::move(agent_id), std::move(policies), dry, upkeep_control(),
                           std::forward<Token>(token));
    }
    //! Deletes them. Handler signature: `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = default_token>
    auto async_prune(std::string agent_id, retention policies, Token&& token = Token{})
    {
        return async_prune(std::move(agent_id), std::move(policies), dry_run::no, std::forward<Token>(token));
    }

    //! Pins or unpins a checkpoint. Completes with whether it exists.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = default_token>
    auto async_pin(std::string agent_id, std::string scope, std::string id, bool pinned,
                   Token&& token = Token{})
    {
        return start(schedule::ordered, store_operation::pin, agent_id, std::forward<Token>(token),
                     [agent_id, scope = std::move(scope), id = std::move(id), pinned](store& in) {
                         return in.pin(agent_id, scope, id, pinned);
                     });
    }

    // Steps

    //! Records steps, which must all be of one agent if their order with other writes matters. Completes
    //! with an outcome for each.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<step_outcome>)`
    template <detail::token_for<std::vector<step_outcome>> Token = default_token>
    auto async_put_steps(std::vector<step_request> batch, Token&& token = Token{})
    {
        return detail::start_request<detail::batched_steps>(scheduler_, executor_, std::forward<Token>(token),
                                                            std::move(batch));
    }

    //! Loads the records of steps.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<step>)`
    template <detail::token_for<std::vector<step>> Token = default_token>
    auto async_load_steps(step_query query, Token&& token = Token{})
    {
        auto agent_id = query.agent_id();
        return start(schedule::read, store_operation::list, std::move(agent_id), std::forward<Token>(token),
                     [query = std::move(query)](store& from) { return from.load_steps(query); });
    }

    //! Removes the record of one step; with an attempt, only while the step is pending and that attempt's.
    //! Completes with whether it was removed.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = default_token>
    auto async_erase_step(std::string agent_id, std::string scope, std::string key,
                          std::optional<std::string> attempt, Token&& token = Token{})
    {
        return start(schedule::ordered, store_operation::step, agent_id, std::forward<Token>(token),
                     [agent_id, scope = std::move(scope), key = std::move(key), attempt = std::move(attempt)](
                         store& in) { return in.erase_step(agent_id, scope, key, attempt); });
    }
    //! Whatever its attempt, done or not. Handler signature: `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = default_token>
    auto async_erase_step(std::string agent_id, std::string scope, std::string key, Token&& token = Token{})
    {
        return async_erase_step(std::move(agent_id), std::move(scope), std::move(key), std::nullopt,
                                std::forward<Token>(token));
    }

    // The store as a whole

    //! Reports what the store holds.
    //! @par Handler signature
    //! `void(std::error_code, store_stats)`
    template <detail::token_for<store_stats> Token = default_token>
    auto async_stats(Token&& token = Token{})
    {
        return start(schedule::read, store_operation::stats, {}, std::forward<Token>(token),
                     [](store& from) { return from.stats(); });
    }
    //! Reports what it holds of one agent. Handler signature: `void(std::error_code, store_stats)`
    template <detail::token_for<store_stats> Token = default_token>
    auto async_stats(std::string agent_id, Token&& token = Token{})
    {
        return start(schedule::read, store_operation::stats, agent_id, std::forward<Token>(token),
                     [agent_id](store& from) { return from.stats(agent_id); });
    }

    //! Re-reads everything and reports what is damaged.
    //! @par Handler signature
    //! `void(std::error_code, verify_report)`
    template <detail::token_for<verify_report> Token = default_token>
    auto async_verify(upkeep_control control, Token&& token = Token{})
    {
        return start_upkeep(schedule::survey, store_operation::verify, {}, std::forward<Token>(token),
                            std::move(control),
                            [](store& from, const upkeep_control& reins) { return from.verify(reins); });
    }
    //! The same without a control. Handler signature: `void(std::error_code, verify_report)`
    template <detail::token_for<verify_report> Token = default_token>
    auto async_verify(Token&& token = Token{})
    {
        return async_verify(upkeep_control(), std::forward<Token>(token));
    }

    //! Removes what erasures have left, of all agents, and gives space back. Completes with the number of
    //! bytes.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_compact(upkeep_control control, Token&& token = Token{})
    {
        return start_upkeep(schedule::background, store_operation::compact, {}, std::forward<Token>(token),
                            std::move(control),
                            [](store& in, const upkeep_control& reins) { return in.compact(reins); });
    }
    //! The same without a control. Handler signature: `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_compact(Token&& token = Token{})
    {
        return async_compact(upkeep_control(), std::forward<Token>(token));
    }

    //! Completes when every save and other write of an agent that this store or one of its sessions was asked
    //! for before has ended, one way or the other: the rest of a save whose caller has left, too. Unordered
    //! upkeep is not among them (`async_compact`, `async_import_lines`). The executors of the
    //! sessions must go on running.
    //! @par Handler signature
    //! `void(std::error_code)`
    template <asio::completion_token_for<void(std::error_code)> Token = default_token>
    auto async_flush(Token&& token = Token{})
    {
        return detail::start_request<detail::flush_request>(scheduler_, executor_,
                                                            std::forward<Token>(token));
    }

private:
    friend const std::shared_ptr<detail::scheduler>& detail::scheduler_of(const async_store&) noexcept;
    using schedule = detail::request::schedule;

    template <class Function, class Token>
    auto start(schedule when, store_operation what, std::string agent_id, Token&& token, Function function)
    {
        return detail::start_request<detail::function_request<Function>>(
            scheduler_, executor_, std::forward<Token>(token), when, what, std::move(agent_id),
            std::move(function));
    }

    //! For what takes long, and can be stopped.
    template <class Function, class Token>
    auto start_upkeep(schedule when, store_operation what, std::string agent_id, Token&& token,
                      upkeep_control control, Function function, std::string other_agent_id = {})
    {
        return detail::start_request<detail::upkeep_request<Function>>(
            scheduler_, executor_, std::forward<Token>(token), when, what, std::move(agent_id),
            std::move(control), std::move(function), std::move(other_agent_id));
    }

    executor_type executor_;
    std::shared_ptr<detail::scheduler> scheduler_;
};

namespace detail {

inline const std::shared_ptr<scheduler>& scheduler_of(const async_store& store) noexcept
{
    return store.scheduler_;
}

//! Has a function called with the backend and a control, in no agent's order.
template <class Function, class Token>
auto start_upkeep(async_store& in, request::schedule when, store_operation what, Token&& token,
                  Function function)
{
    return start_request<upkeep_request<Function>>(scheduler_of(in), in.get_executor(),
                                                   std::forward<Token>(token), when, what, std::string(),
                                                   upkeep_control(), std::move(function));
}

} // namespace detail

} // namespace waymark
