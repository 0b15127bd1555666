//! A store for programs that run on Asio: nothing here blocks the caller.
#pragma once

#include <waymark/async_options.hpp>
#include <waymark/detail/operation.hpp>
#include <waymark/detail/store_calls.hpp>
#include <waymark/store.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace waymark {

class async_store;

namespace detail {

//! For the layers above: the threads of a store.
const std::shared_ptr<engine>& engine_of(const async_store& store) noexcept;

} // namespace detail

//! Runs the functions of a `store` on threads of its own and completes on the caller's executor.
//!
//! What follows holds for every function whose name begins with `async_`; their own comments say only what
//! is particular to them.
//!
//! @par Completion
//! The handler is called exactly once, never from within the initiating function, on its associated
//! executor, or if it has none on the store's. Its associated allocator provides the operation's memory,
//! which is freed before the call; it is used in the initiating function and on the handler's executor, never
//! on the store's threads. The handler's context is kept busy (`io_context::run` does not return) until then.
//! Without a token, the result can be awaited: `co_await store.async_save(checkpoint)`.
//!
//! @par Order
//! Writes of one agent are carried out in the order in which they were started, also when they are not
//! awaited. Reads run beside them and see what has completed before they were started.
//!
//! @par Cancellation
//! Every cancellation type. An operation that is still queued completes with
//! `asio::error::operation_aborted` and has had no effect; one that has been begun completes with its real
//! outcome. As always with Asio, a cancellation signal is emitted on the handler's executor.
//!
//! @par Errors
//! Those of the store (see `errc`), and: `asio::error::operation_aborted` (cancelled, or the async_store was
//! destroyed first), `errc::overloaded` (see async_options), `errc::closed` (a deferred operation was started
//! after the async_store was destroyed). Functions that take a `diagnostics&` fill it with the details
//! before the handler runs, on the handler's executor; it must live until then.
//!
//! @par Lifetimes
//! Arguments are moved or copied; nothing but the `diagnostics` needs to outlive the call. The context of
//! each handler's executor must exist until the handler has been called. The async_store's own context may
//! end first if no handler uses it. The destructor waits for what is being carried out (the batch that is
//! being written, reads under way), completes what is still queued with `operation_aborted`, lets go of the
//! backend and leaves no thread behind. It may run in a handler.
//!
//! @par Thread safety
//! All member functions but the destructor may be called from several threads at once.
class async_store {
public:
    using executor_type = asio::any_io_executor;

    //! @param executor where handlers run that have no executor of their own.
    //! @param backend the store that does the work; it may be used directly at the same time.
    //! @throws waymark::error `invalid_argument` if `backend` is null or an option is 0 that must not be.
    async_store(executor_type executor, std::shared_ptr<store> backend, const async_options& options = {})
        : executor_(std::move(executor)),
          engine_(std::make_shared<detail::engine>(std::move(backend), options))
    {
    }
    async_store(const async_store&) = delete;
    async_store& operator=(const async_store&) = delete;
    ~async_store() { engine_->close(); }

    executor_type get_executor() const noexcept { return executor_; }
    //! The store that does the work.
    const std::shared_ptr<store>& backend() const noexcept { return engine_->backend(); }
    //! How full the queues are.
    queue_figures queues() const { return engine_->queues(); }

    //! Saves a checkpoint; it is as durable as the backend makes it when the handler is called. Saves that
    //! wait at the same time share a commit. A failure concerns just this save, unless the commit failed.
    //! @par Handler signature
    //! `void(std::error_code, save_receipt)`
    //! @par Errors
    //! `errc::invalid_argument`, `errc::conflict` (see save_options), `errc::outcome_unknown`
    template <detail::token_for<save_receipt> Token = detail::default_token>
    auto async_save(checkpoint checkpoint, Token&& token = Token{})
    {
        return save({std::move(checkpoint), {}}, nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<save_receipt> Token = detail::default_token>
    auto async_save(checkpoint checkpoint, diagnostics& details, Token&& token = Token{})
    {
        return save({std::move(checkpoint), {}}, &details, std::forward<Token>(token));
    }
    template <detail::token_for<save_receipt> Token = detail::default_token>
    auto async_save(checkpoint checkpoint, save_options options, Token&& token = Token{})
    {
        return save({std::move(checkpoint), std::move(options)}, nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<save_receipt> Token = detail::default_token>
    auto async_save(checkpoint checkpoint, save_options options, diagnostics& details,
                    Token&& token = Token{})
    {
        return save({std::move(checkpoint), std::move(options)}, &details, std::forward<Token>(token));
    }

    //! Loads one checkpoint, or nothing if there is none.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load(std::string agent_id, std::string scope, std::string id, Token&& token = Token{})
    {
        return start(detail::load_call(std::move(agent_id), std::move(scope), std::move(id)), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load(std::string agent_id, std::string scope, std::string id, diagnostics& details,
                    Token&& token = Token{})
    {
        return start(detail::load_call(std::move(agent_id), std::move(scope), std::move(id)), &details,
                     std::forward<Token>(token));
    }

    //! Finds a checkpoint by its id alone.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    //! @par Errors
    //! `errc::conflict` if several agents or scopes have it
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load(std::string id, Token&& token = Token{})
    {
        return start(detail::load_call(std::move(id)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load(std::string id, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::load_call(std::move(id)), &details, std::forward<Token>(token));
    }

    //! Loads the head of an agent's default scope, or nothing if there is none.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load_latest(std::string agent_id, Token&& token = Token{})
    {
        return start(detail::load_latest_call(std::move(agent_id)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load_latest(std::string agent_id, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::load_latest_call(std::move(agent_id)), &details, std::forward<Token>(token));
    }

    //! Loads the head of a scope, or nothing if there is none.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load_latest(std::string agent_id, std::string scope, Token&& token = Token{})
    {
        return start(detail::load_latest_call(std::move(agent_id), std::move(scope)), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load_latest(std::string agent_id, std::string scope, diagnostics& details,
                           Token&& token = Token{})
    {
        return start(detail::load_latest_call(std::move(agent_id), std::move(scope)), &details,
                     std::forward<Token>(token));
    }

    //! Lists checkpoints without their conversation and state.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint_header>)`
    //! @par Errors
    //! `errc::invalid_argument`, `errc::not_found` and `errc::conflict` (see query::before)
    template <detail::token_for<std::vector<checkpoint_header>> Token = detail::default_token>
    auto async_list(query query, Token&& token = Token{})
    {
        return start(detail::list_call(std::move(query)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<checkpoint_header>> Token = detail::default_token>
    auto async_list(query query, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::list_call(std::move(query)), &details, std::forward<Token>(token));
    }

    //! Loads whole checkpoints. Give the query a limit when the history may be long.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint>)`
    //! @par Errors
    //! as `async_list`
    template <detail::token_for<std::vector<checkpoint>> Token = detail::default_token>
    auto async_load_all(query query, Token&& token = Token{})
    {
        return start(detail::load_all_call(std::move(query)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<checkpoint>> Token = detail::default_token>
    auto async_load_all(query query, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::load_all_call(std::move(query)), &details, std::forward<Token>(token));
    }

    //! Counts checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    //! @par Errors
    //! as `async_list`
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_count(query query, Token&& token = Token{})
    {
        return start(detail::count_call(std::move(query)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_count(query query, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::count_call(std::move(query)), &details, std::forward<Token>(token));
    }

    //! Lists the first thousand agents.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<std::string>)`
    template <detail::token_for<std::vector<std::string>> Token = detail::default_token>
    auto async_list_agents(Token&& token = Token{})
    {
        return start(detail::list_agents_call(), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<std::string>> Token = detail::default_token>
    auto async_list_agents(diagnostics& details, Token&& token = Token{})
    {
        return start(detail::list_agents_call(), &details, std::forward<Token>(token));
    }

    //! Lists up to `limit` agents behind `after`.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<std::string>)`
    template <detail::token_for<std::vector<std::string>> Token = detail::default_token>
    auto async_list_agents(std::string after, std::size_t limit, Token&& token = Token{})
    {
        return start(detail::list_agents_call(std::move(after), limit), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<std::string>> Token = detail::default_token>
    auto async_list_agents(std::string after, std::size_t limit, diagnostics& details,
                           Token&& token = Token{})
    {
        return start(detail::list_agents_call(std::move(after), limit), &details, std::forward<Token>(token));
    }

    //! Loads the records of steps.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<step>)`
    template <
        asio::completion_token_for<void(std::error_code, std::vector<step>)> Token = detail::default_token>
    auto async_load_steps(step_query query, Token&& token = Token{})
    {
        return start(detail::load_steps_call(std::move(query)), nullptr, std::forward<Token>(token));
    }
    template <
        asio::completion_token_for<void(std::error_code, std::vector<step>)> Token = detail::default_token>
    auto async_load_steps(step_query query, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::load_steps_call(std::move(query)), &details, std::forward<Token>(token));
    }

    //! Tells what the store holds.
    //! @par Handler signature
    //! `void(std::error_code, store_stats)`
    template <detail::token_for<store_stats> Token = detail::default_token>
    auto async_stats(Token&& token = Token{})
    {
        return start(detail::stats_call(), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<store_stats> Token = detail::default_token>
    auto async_stats(diagnostics& details, Token&& token = Token{})
    {
        return start(detail::stats_call(), &details, std::forward<Token>(token));
    }

    //! Tells what the store holds of one agent.
    //! @par Handler signature
    //! `void(std::error_code, store_stats)`
    template <detail::token_for<store_stats> Token = detail::default_token>
    auto async_stats(std::string agent_id, Token&& token = Token{})
    {
        return start(detail::stats_call(std::move(agent_id)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<store_stats> Token = detail::default_token>
    auto async_stats(std::string agent_id, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::stats_call(std::move(agent_id)), &details, std::forward<Token>(token));
    }

    //! Re-reads everything and reports what is damaged. Holds one of the read threads while it runs.
    //! @par Handler signature
    //! `void(std::error_code, verify_report)`
    template <detail::token_for<verify_report> Token = detail::default_token>
    auto async_verify(Token&& token = Token{})
    {
        return start(detail::verify_call(), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<verify_report> Token = detail::default_token>
    auto async_verify(diagnostics& details, Token&& token = Token{})
    {
        return start(detail::verify_call(), &details, std::forward<Token>(token));
    }

    //! The same with progress, which is called on a thread of the store.
    //! @par Handler signature
    //! `void(std::error_code, verify_report)`
    template <detail::token_for<verify_report> Token = detail::default_token>
    auto async_verify(verify_callback progress, Token&& token = Token{})
    {
        return start(detail::verify_call(std::move(progress)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<verify_report> Token = detail::default_token>
    auto async_verify(verify_callback progress, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::verify_call(std::move(progress)), &details, std::forward<Token>(token));
    }

    //! Removes one checkpoint. Completes with whether it was there.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_erase(std::string agent_id, std::string scope, std::string id, Token&& token = Token{})
    {
        return start(detail::erase_call(std::move(agent_id), std::move(scope), std::move(id)), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_erase(std::string agent_id, std::string scope, std::string id, diagnostics& details,
                     Token&& token = Token{})
    {
        return start(detail::erase_call(std::move(agent_id), std::move(scope), std::move(id)), &details,
                     std::forward<Token>(token));
    }

    //! Removes all checkpoints and steps of one scope. Completes with the number of its checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_erase_scope(std::string agent_id, std::string scope, Token&& token = Token{})
    {
        return start(detail::erase_scope_call(std::move(agent_id), std::move(scope)), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_erase_scope(std::string agent_id, std::string scope, diagnostics& details,
                           Token&& token = Token{})
    {
        return start(detail::erase_scope_call(std::move(agent_id), std::move(scope)), &details,
                     std::forward<Token>(token));
    }

    //! Removes everything of an agent. Completes with the number of its checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_erase_agent(std::string agent_id, Token&& token = Token{})
    {
        return start(detail::erase_agent_call(std::move(agent_id)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_erase_agent(std::string agent_id, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::erase_agent_call(std::move(agent_id)), &details, std::forward<Token>(token));
    }

    //! Copies everything of an agent, behind all earlier writes of both. Completes with the number of
    //! checkpoints.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    //! @par Errors
    //! `errc::not_found` without an origin, `errc::conflict` if the target exists
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_copy_agent(std::string from, std::string to, Token&& token = Token{})
    {
        return start(detail::copy_agent_call(std::move(from), std::move(to)), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_copy_agent(std::string from, std::string to, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::copy_agent_call(std::move(from), std::move(to)), &details,
                     std::forward<Token>(token));
    }

    //! Lets go of what the policies do not keep.
    //! @par Handler signature
    //! `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(std::string agent_id, retention policies, Token&& token = Token{})
    {
        return start(detail::prune_call(std::move(agent_id), std::move(policies)), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(std::string agent_id, retention policies, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::prune_call(std::move(agent_id), std::move(policies)), &details,
                     std::forward<Token>(token));
    }

    //! The same, or with `dry_run::yes` only tells what would go.
    //! @par Handler signature
    //! `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(std::string agent_id, retention policies, dry_run dry, Token&& token = Token{})
    {
        return start(detail::prune_call(std::move(agent_id), std::move(policies), dry), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(std::string agent_id, retention policies, dry_run dry, diagnostics& details,
                     Token&& token = Token{})
    {
        return start(detail::prune_call(std::move(agent_id), std::move(policies), dry), &details,
                     std::forward<Token>(token));
    }

    //! Pins or unpins a checkpoint. Completes with whether it exists.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_pin(std::string agent_id, std::string scope, std::string id, bool pinned,
                   Token&& token = Token{})
    {
        return start(detail::pin_call(std::move(agent_id), std::move(scope), std::move(id), pinned), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_pin(std::string agent_id, std::string scope, std::string id, bool pinned, diagnostics& details,
                   Token&& token = Token{})
    {
        return start(detail::pin_call(std::move(agent_id), std::move(scope), std::move(id), pinned), &details,
                     std::forward<Token>(token));
    }

    //! Records steps, which must all be of one agent if their order with other writes matters. Completes
    //! with an outcome for each.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<step_outcome>)`
    template <detail::token_for<std::vector<step_outcome>> Token = detail::default_token>
    auto async_put_steps(std::vector<step_request> batch, Token&& token = Token{})
    {
        return start(detail::put_steps_call(std::move(batch)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<step_outcome>> Token = detail::default_token>
    auto async_put_steps(std::vector<step_request> batch, diagnostics& details, Token&& token = Token{})
    {
        return start(detail::put_steps_call(std::move(batch)), &details, std::forward<Token>(token));
    }

    //! Removes the record of one step, done or not. Completes with whether it was there.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_erase_step(std::string agent_id, std::string scope, std::string key, Token&& token = Token{})
    {
        return start(detail::erase_step_call(std::move(agent_id), std::move(scope), std::move(key)), nullptr,
                     std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_erase_step(std::string agent_id, std::string scope, std::string key, diagnostics& details,
                          Token&& token = Token{})
    {
        return start(detail::erase_step_call(std::move(agent_id), std::move(scope), std::move(key)), &details,
                     std::forward<Token>(token));
    }
    //! The same while the step is pending and this attempt's.
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_erase_step(std::string agent_id, std::string scope, std::string key, std::string attempt,
                          Token&& token = Token{})
    {
        return start(detail::erase_step_call(std::move(agent_id), std::move(scope), std::move(key),
                                             std::move(attempt)),
                     nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_erase_step(std::string agent_id, std::string scope, std::string key, std::string attempt,
                          diagnostics& details, Token&& token = Token{})
    {
        return start(detail::erase_step_call(std::move(agent_id), std::move(scope), std::move(key),
                                             std::move(attempt)),
                     &details, std::forward<Token>(token));
    }

    //! Gives space back. Completes with the number of bytes.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_compact(Token&& token = Token{})
    {
        return start(detail::compact_call(), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_compact(diagnostics& details, Token&& token = Token{})
    {
        return start(detail::compact_call(), &details, std::forward<Token>(token));
    }

    //! Waits until everything that was started before it and writes has ended, one way or the other.
    //! @par Handler signature
    //! `void(std::error_code)`
    template <asio::completion_token_for<void(std::error_code)> Token = detail::default_token>
    auto async_flush(Token&& token = Token{})
    {
        using job = detail::flush_job;
        return asio::async_initiate<Token, void(std::error_code)>(detail::initiation<job>(engine_, executor_),
                                                                  token, job::description{},
                                                                  static_cast<diagnostics*>(nullptr));
    }

private:
    friend const std::shared_ptr<detail::engine>& detail::engine_of(const async_store& store) noexcept;

    template <class Token>
    auto save(save_request wanted, diagnostics* details, Token&& token)
    {
        return asio::async_initiate<Token, void(std::error_code, save_receipt)>(
            detail::initiation<detail::save_job>(engine_, executor_), token, std::move(wanted), details);
    }

    template <class Result, class Token>
    auto start(detail::call<Result> wanted, diagnostics* details, Token&& token)
    {
        return detail::start_call(engine_, executor_, std::move(wanted), details, std::forward<Token>(token));
    }

    executor_type executor_;
    std::shared_ptr<detail::engine> engine_;
};

inline const std::shared_ptr<detail::engine>& detail::engine_of(const async_store& store) noexcept
{
    return store.engine_;
}

} // namespace waymark
