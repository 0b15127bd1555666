//! One agent's view of a store: what an agent loop holds in its hand.
#pragma once

#include <waymark/async_store.hpp>
#include <waymark/detail/session_calls.hpp>
#include <waymark/detail/session_link.hpp>
#include <waymark/detail/session_tasks.hpp>
#include <waymark/detail/step_operation.hpp>
#include <waymark/diff.hpp>
#include <waymark/history.hpp>
#include <waymark/hooks.hpp>
#include <waymark/resume.hpp>
#include <waymark/session_options.hpp>
#include <waymark/summary.hpp>
#include <waymark/transfer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace waymark {

//! Checkpoints one agent: decides when, keeps the parents, tells the hooks, resumes, goes back and branches.
//!
//! What is said of async_store holds for every function here whose name begins with `async_`: the handler is
//! called exactly once, never from within the initiating function, on its associated executor (or the
//! session's), any completion token works, and a `diagnostics&` before the token receives details (except
//! that of `async_step`, which throws them as `waymark::error`). Their own comments say what is particular to
//! them.
//!
//! @par Executor and thread safety
//! A session belongs to one executor. Hooks run there, one at a time, also where it has several threads. All
//! member functions may be called from several threads at once, except the destructor, moving and
//! assignment. Several sessions on one store run in parallel, whatever their agents.
//!
//! @par Memory
//! An operation that finds no memory when its turn has come completes with `std::errc::not_enough_memory`,
//! and has changed nothing; the session goes on. Without memory to start with, its function throws.
//!
//! @par Order
//! Functions that save or move the session's place (`async_resume`, `async_notify`, `async_checkpoint`,
//! `async_rollback_to`, `async_clear`, the beginning of `async_step`) are carried out one after the other, in
//! the order in which they were started. (A step takes its place when its coroutine starts: at once if it is
//! started on its handler's executor.) Those that only read see what completed before they were started.
//!
//! @par The session's place
//! A save has the checkpoint as its parent that this session saved, resumed or rolled back to last. A session
//! that did none of these starts a new root.
//!
//! @par Cancellation
//! Every cancellation type. What waits in the session's queue completes with `operation_aborted` and has had
//! no effect. What has begun completes with its outcome.
//!
//! @par Lifetimes
//! The destructor completes what waits with `operation_aborted`; what has begun completes with its outcome.
//! Hooks are not called any more (if another thread runs the executor at that time, one may still be
//! running). The async_store may be destroyed first: operations then end with `operation_aborted` or
//! `errc::closed`. The context of the executor must exist until the session's operations have completed.
class session {
public:
    using executor_type = asio::any_io_executor;

    //! Runs on the executor of the store.
    //! @throws waymark::error `invalid_argument` if the agent's id or the scope cannot be stored.
    session(async_store& store, std::string agent_id, session_options options = {})
        : session(store.get_executor(), store, std::move(agent_id), std::move(options))
    {
    }
    //! Runs on this executor.
    session(executor_type executor, async_store& store, std::string agent_id, session_options options = {})
        : executor_(std::move(executor)),
          engine_(detail::engine_of(store)),
          core_(std::make_shared<detail::session_core>(
              std::move(agent_id), std::move(options),
              std::make_unique<detail::asio_session_link>(executor_, engine_)))
    {
    }
    //! What was moved from may only be destroyed or assigned to. Operations under way and hooks go along.
    session(session&&) noexcept = default;
    session& operator=(session&& other) noexcept
    {
        if (this != &other) {
            close();
            executor_ = std::move(other.executor_);
            engine_ = std::move(other.engine_);
            core_ = std::move(other.core_);
        }
        return *this;
    }
    ~session() { close(); }

    executor_type get_executor() const noexcept { return executor_; }
    const std::string& agent_id() const noexcept { return core_->agent_id(); }
    const std::string& scope() const noexcept { return core_->options().scope(); }
    const session_options& options() const noexcept { return core_->options(); }
    //! The checkpoint that the next save will have as its parent.
    std::optional<std::string> position() const { return core_->position().parent; }

    waymark::strategy strategy() const { return core_->strategy(); }
    //! Decides about events from now on.
    void set_strategy(waymark::strategy next) { core_->set_strategy(std::move(next)); }

    //! A checkpoint of this agent and scope, to be filled and given to `async_notify` or `async_checkpoint`.
    checkpoint draft(conversation conversation = {}, std::int64_t iteration = 0) const
    {
        return checkpoint(agent_id(), std::move(conversation), iteration).with_scope(scope());
    }
    //! All checkpoints of this agent and scope; to be narrowed, for `async_list` and its kin.
    waymark::query query() const { return waymark::query(agent_id()).scope(scope()); }

    // Hooks

    //! Called before each save, which it may amend or veto. It must not wait, and not save.
    //! A hook that throws is reported to `on_error`, and the save goes on as if it were not there.
    //! @throws waymark::error `invalid_argument` if the function is empty; so do the others.
    connection before_save(std::function<void(pending_save&)> hook)
    {
        return core_->before_save(std::move(hook));
    }
    //! Called when a checkpoint is durable, before the operation that saved it completes. It may call the
    //! session, and start saves. One that throws is reported to `on_error`; the save stands, and the other
    //! hooks are called.
    connection on_checkpoint(std::function<void(const checkpoint_saved&)> hook)
    {
        return core_->on_checkpoint(std::move(hook));
    }
    //! Called when a save fails, a hook throws or automatic retention fails. What it throws is ignored.
    connection on_error(std::function<void(const session_error&)> hook)
    {
        return core_->on_error(std::move(hook));
    }

    // Going on

    //! Loads the head, and goes on from there; nothing if the agent has no checkpoint.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    //! @par Errors
    //! `errc::corrupt` if the head is damaged (see `resume_options::fall_back`)
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_resume(Token&& token = Token{})
    {
        return resume<std::optional<checkpoint>>(resume_options(), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_resume(diagnostics& details, Token&& token = Token{})
    {
        return resume<std::optional<checkpoint>>(resume_options(), &details, std::forward<Token>(token));
    }

    //! The same, with tool calls repaired or a damaged head passed over if the options say so.
    //! @par Handler signature
    //! `void(std::error_code, resumed)`
    //! @par Errors
    //! `errc::corrupt` if the head is damaged, or with `fall_back` if no checkpoint can be read
    template <detail::token_for<resumed> Token = detail::default_token>
    auto async_resume(resume_options options, Token&& token = Token{})
    {
        return resume<resumed>(std::move(options), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<resumed> Token = detail::default_token>
    auto async_resume(resume_options options, diagnostics& details, Token&& token = Token{})
    {
        return resume<resumed>(std::move(options), &details, std::forward<Token>(token));
    }

    // Saving

    //! Tells what happened. If the strategy says so, saves the conversation; completes with the header of
    //! what was saved, when it is durable and the hooks have run, or with nothing.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint_header>)`
    //! @par Errors
    //! those of `async_store::async_save`; in an exclusive session `errc::conflict` if someone else moved the
    //! head; `errc::overloaded` (see `session_options::with_max_pending`)
    template <detail::token_for<std::optional<checkpoint_header>> Token = detail::default_token>
    auto async_notify(event what, std::int64_t iteration, conversation conversation, Token&& token = Token{})
    {
        return start<detail::notify_task>({what, draft(std::move(conversation), iteration)}, nullptr,
                                          std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint_header>> Token = detail::default_token>
    auto async_notify(event what, std::int64_t iteration, conversation conversation, diagnostics& details,
                      Token&& token = Token{})
    {
        return start<detail::notify_task>({what, draft(std::move(conversation), iteration)}, &details,
                                          std::forward<Token>(token));
    }

    //! The same, with a state.
    template <detail::token_for<std::optional<checkpoint_header>> Token = detail::default_token>
    auto async_notify(event what, std::int64_t iteration, conversation conversation,
                      boost::json::object state, Token&& token = Token{})
    {
        return start<detail::notify_task>(
            {what, draft(std::move(conversation), iteration).with_state(std::move(state))}, nullptr,
            std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint_header>> Token = detail::default_token>
    auto async_notify(event what, std::int64_t iteration, conversation conversation,
                      boost::json::object state, diagnostics& details, Token&& token = Token{})
    {
        return start<detail::notify_task>(
            {what, draft(std::move(conversation), iteration).with_state(std::move(state))}, &details,
            std::forward<Token>(token));
    }

    //! The same, with all that the draft holds: name, metadata, an id. The session sets its parent, and saves
    //! it once: an id that exists with other content is `errc::conflict`.
    template <detail::token_for<std::optional<checkpoint_header>> Token = detail::default_token>
    auto async_notify(event what, checkpoint draft, Token&& token = Token{})
    {
        return start<detail::notify_task>({what, std::move(draft)}, nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint_header>> Token = detail::default_token>
    auto async_notify(event what, checkpoint draft, diagnostics& details, Token&& token = Token{})
    {
        return start<detail::notify_task>({what, std::move(draft)}, &details, std::forward<Token>(token));
    }

    //! Saves under a name, whatever the strategy says.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint_header)`
    //! @par Errors
    //! as `async_notify`, and `errc::vetoed` if a `before_save` hook said no
    template <detail::token_for<checkpoint_header> Token = detail::default_token>
    auto async_checkpoint(std::string name, std::int64_t iteration, conversation conversation,
                          Token&& token = Token{})
    {
        return start<detail::checkpoint_task>(
            draft(std::move(conversation), iteration).with_name(std::move(name)), nullptr,
            std::forward<Token>(token));
    }
    template <detail::token_for<checkpoint_header> Token = detail::default_token>
    auto async_checkpoint(std::string name, std::int64_t iteration, conversation conversation,
                          diagnostics& details, Token&& token = Token{})
    {
        return start<detail::checkpoint_task>(
            draft(std::move(conversation), iteration).with_name(std::move(name)), &details,
            std::forward<Token>(token));
    }

    //! The same, with a state.
    template <detail::token_for<checkpoint_header> Token = detail::default_token>
    auto async_checkpoint(std::string name, std::int64_t iteration, conversation conversation,
                          boost::json::object state, Token&& token = Token{})
    {
        return start<detail::checkpoint_task>(
            draft(std::move(conversation), iteration).with_name(std::move(name)).with_state(std::move(state)),
            nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<checkpoint_header> Token = detail::default_token>
    auto async_checkpoint(std::string name, std::int64_t iteration, conversation conversation,
                          boost::json::object state, diagnostics& details, Token&& token = Token{})
    {
        return start<detail::checkpoint_task>(
            draft(std::move(conversation), iteration).with_name(std::move(name)).with_state(std::move(state)),
            &details, std::forward<Token>(token));
    }

    //! The same, with all that the draft holds.
    template <detail::token_for<checkpoint_header> Token = detail::default_token>
    auto async_checkpoint(checkpoint draft, Token&& token = Token{})
    {
        return start<detail::checkpoint_task>(std::move(draft), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<checkpoint_header> Token = detail::default_token>
    auto async_checkpoint(checkpoint draft, diagnostics& details, Token&& token = Token{})
    {
        return start<detail::checkpoint_task>(std::move(draft), &details, std::forward<Token>(token));
    }

    // Finding

    //! Loads a checkpoint of this session's scope by its id, or nothing.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load(std::string id, Token&& token = Token{})
    {
        return start_call(detail::load_call(agent_id(), scope(), std::move(id)), nullptr,
                          std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_load(std::string id, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::load_call(agent_id(), scope(), std::move(id)), &details,
                          std::forward<Token>(token));
    }

    //! Loads the newest checkpoint, or nothing. Unlike `async_resume`, leaves the session where it is.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_latest(Token&& token = Token{})
    {
        return start_call(detail::load_latest_call(agent_id(), scope()), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_latest(diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::load_latest_call(agent_id(), scope()), &details,
                          std::forward<Token>(token));
    }

    //! Loads the newest checkpoint with this name, or nothing.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_latest(std::string name, Token&& token = Token{})
    {
        return start_call(
            read_call([agent = agent_id(), scope = scope(), name = std::move(name)](store& from) {
                return detail::latest_named(from, agent, scope, name);
            }),
            nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::optional<checkpoint>> Token = detail::default_token>
    auto async_latest(std::string name, diagnostics& details, Token&& token = Token{})
    {
        return start_call(
            read_call([agent = agent_id(), scope = scope(), name = std::move(name)](store& from) {
                return detail::latest_named(from, agent, scope, name);
            }),
            &details, std::forward<Token>(token));
    }

    //! Lists the checkpoints of this session, newest first.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint_header>)`
    template <detail::token_for<std::vector<checkpoint_header>> Token = detail::default_token>
    auto async_list(Token&& token = Token{})
    {
        return start_call(detail::list_call(query()), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<checkpoint_header>> Token = detail::default_token>
    auto async_list(diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::list_call(query()), &details, std::forward<Token>(token));
    }

    //! Lists what a query selects: `session.query().named("x").oldest_first()`, a page after a cursor, or
    //! with `waymark::query(session.agent_id())` across scopes.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint_header>)`
    template <detail::token_for<std::vector<checkpoint_header>> Token = detail::default_token>
    auto async_list(waymark::query wanted, Token&& token = Token{})
    {
        return start_call(detail::list_call(std::move(wanted)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<checkpoint_header>> Token = detail::default_token>
    auto async_list(waymark::query wanted, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::list_call(std::move(wanted)), &details, std::forward<Token>(token));
    }

    //! Loads what a query selects. Give it a limit when the history may be long.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint>)`
    template <detail::token_for<std::vector<checkpoint>> Token = detail::default_token>
    auto async_load_all(waymark::query wanted, Token&& token = Token{})
    {
        return start_call(detail::load_all_call(std::move(wanted)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<checkpoint>> Token = detail::default_token>
    auto async_load_all(waymark::query wanted, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::load_all_call(std::move(wanted)), &details, std::forward<Token>(token));
    }

    //! Counts the checkpoints of this session.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_count(Token&& token = Token{})
    {
        return start_call(detail::count_call(query()), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_count(diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::count_call(query()), &details, std::forward<Token>(token));
    }

    //! Counts what a query selects.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_count(waymark::query wanted, Token&& token = Token{})
    {
        return start_call(detail::count_call(std::move(wanted)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_count(waymark::query wanted, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::count_call(std::move(wanted)), &details, std::forward<Token>(token));
    }

    //! All checkpoints of this session as a tree.
    //! @par Handler signature
    //! `void(std::error_code, history)`
    template <detail::token_for<history> Token = detail::default_token>
    auto async_history(Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id(), scope = scope()](store& from) {
                              return detail::read_history(from, agent, scope);
                          }),
                          nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<history> Token = detail::default_token>
    auto async_history(diagnostics& details, Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id(), scope = scope()](store& from) {
                              return detail::read_history(from, agent, scope);
                          }),
                          &details, std::forward<Token>(token));
    }

    //! What is different between two checkpoints, from `before` to `after`.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint_diff)`
    //! @par Errors
    //! `errc::not_found`
    template <detail::token_for<checkpoint_diff> Token = detail::default_token>
    auto async_diff(std::string before, std::string after, Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id(), scope = scope(), before = std::move(before),
                                     after = std::move(after)](store& from) {
                              return detail::diff(from, agent, scope, before, after);
                          }),
                          nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<checkpoint_diff> Token = detail::default_token>
    auto async_diff(std::string before, std::string after, diagnostics& details, Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id(), scope = scope(), before = std::move(before),
                                     after = std::move(after)](store& from) {
                              return detail::diff(from, agent, scope, before, after);
                          }),
                          &details, std::forward<Token>(token));
    }

    //! Counts, names, times and bytes. Reads all headers, page by page.
    //! @par Handler signature
    //! `void(std::error_code, summary)`
    template <detail::token_for<summary> Token = detail::default_token>
    auto async_summary(Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id(), scope = scope()](store& from) {
                              return detail::summarize(from, agent, scope);
                          }),
                          nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<summary> Token = detail::default_token>
    auto async_summary(diagnostics& details, Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id(), scope = scope()](store& from) {
                              return detail::summarize(from, agent, scope);
                          }),
                          &details, std::forward<Token>(token));
    }

    // Going back and branching

    //! Saves a new head that has the content of the target, and the target as its parent; completes with it.
    //! Nothing is deleted, and a crash right after it resumes there.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint)`
    //! @par Errors
    //! `errc::not_found` if this session's scope has no such checkpoint, and those of `async_checkpoint`
    template <detail::token_for<checkpoint> Token = detail::default_token>
    auto async_rollback_to(std::string id, Token&& token = Token{})
    {
        return start<detail::rollback_task>(std::move(id), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<checkpoint> Token = detail::default_token>
    auto async_rollback_to(std::string id, diagnostics& details, Token&& token = Token{})
    {
        return start<detail::rollback_task>(std::move(id), &details, std::forward<Token>(token));
    }

    //! Starts another agent from a checkpoint: a copy of it becomes the first checkpoint of the new agent, in
    //! the same scope. The records of steps that it builds on are copied, too, so that the new agent does not
    //! make those side effects again. Completes with the key of the new checkpoint.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint_key)`
    //! @par Errors
    //! `errc::not_found` if this session's scope has no such checkpoint; `errc::conflict` if the agent exists
    template <detail::token_for<checkpoint_key> Token = detail::default_token>
    auto async_fork(std::string id, std::string new_agent, Token&& token = Token{})
    {
        return start_call(detail::call<checkpoint_key>(
                              detail::job::kind::write, agent_id(),
                              [agent = agent_id(), scope = scope(), id = std::move(id), new_agent](
                                  store& in) { return detail::fork(in, agent, scope, id, new_agent); },
                              new_agent),
                          nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<checkpoint_key> Token = detail::default_token>
    auto async_fork(std::string id, std::string new_agent, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::call<checkpoint_key>(
                              detail::job::kind::write, agent_id(),
                              [agent = agent_id(), scope = scope(), id = std::move(id), new_agent](
                                  store& in) { return detail::fork(in, agent, scope, id, new_agent); },
                              new_agent),
                          &details, std::forward<Token>(token));
    }

    // Letting go

    //! Lets go of what the policies do not keep, in this session's scope, or the one that they name
    //! (`retention::only_scope`). Completes with what went and how many bytes became free. `async_store`
    //! prunes all scopes of an agent at once.
    //! @par Handler signature
    //! `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(retention policies, Token&& token = Token{})
    {
        return start_call(detail::prune_call(agent_id(), detail::own_retention(std::move(policies), scope())),
                          nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(retention policies, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::prune_call(agent_id(), detail::own_retention(std::move(policies), scope())),
                          &details, std::forward<Token>(token));
    }

    //! The same, or with `dry_run::yes` only tells what would go.
    //! @par Handler signature
    //! `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(retention policies, dry_run dry, Token&& token = Token{})
    {
        return start_call(
            detail::prune_call(agent_id(), detail::own_retention(std::move(policies), scope()), dry), nullptr,
            std::forward<Token>(token));
    }
    template <detail::token_for<prune_result> Token = detail::default_token>
    auto async_prune(retention policies, dry_run dry, diagnostics& details, Token&& token = Token{})
    {
        return start_call(
            detail::prune_call(agent_id(), detail::own_retention(std::move(policies), scope()), dry),
            &details, std::forward<Token>(token));
    }

    //! Keeps a checkpoint, whatever retention says. Completes with whether it exists.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_pin(std::string id, Token&& token = Token{})
    {
        return start_call(detail::pin_call(agent_id(), scope(), std::move(id), true), nullptr,
                          std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_pin(std::string id, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::pin_call(agent_id(), scope(), std::move(id), true), &details,
                          std::forward<Token>(token));
    }

    //! Leaves a checkpoint to retention again. Completes with whether it exists.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_unpin(std::string id, Token&& token = Token{})
    {
        return start_call(detail::pin_call(agent_id(), scope(), std::move(id), false), nullptr,
                          std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_unpin(std::string id, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::pin_call(agent_id(), scope(), std::move(id), false), &details,
                          std::forward<Token>(token));
    }

    //! Removes all checkpoints, pinned or not, and all steps of this session's scope. Completes with the
    //! number of checkpoints. The session then starts a new root.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_clear(Token&& token = Token{})
    {
        return start<detail::call_task<std::uint64_t>>(
            {detail::job::kind::write,
             [agent = agent_id(), scope = scope()](store& in, const detail::session_position&) {
                 return in.erase_scope(agent, scope);
             },
             [](detail::session_core& core, std::uint64_t) { core.move_to({}); }},
            nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::uint64_t> Token = detail::default_token>
    auto async_clear(diagnostics& details, Token&& token = Token{})
    {
        return start<detail::call_task<std::uint64_t>>(
            {detail::job::kind::write,
             [agent = agent_id(), scope = scope()](store& in, const detail::session_position&) {
                 return in.erase_scope(agent, scope);
             },
             [](detail::session_core& core, std::uint64_t) { core.move_to({}); }},
            &details, std::forward<Token>(token));
    }

    // Side effects that happen once

    //! Makes a side effect once per (agent, scope, key), whatever crashes: `action` is run if the step was
    //! never made, and its result is durable before it is handed out; if the step is done, its result is
    //! handed out and the action dropped. The key is normally the id of the tool call.
    //!
    //!     auto receipt = co_await session.async_step(call.id(), book_hotel("Lisbon"));
    //!
    //! The action runs on the executor of the caller. If it throws, the step counts as not begun, and the
    //! exception is passed on; so a call that may have taken effect must not throw but return what is known.
    //! If it is cancelled (`operation_aborted`), the step stays in doubt.
    //!
    //! @par Handler signature
    //! `void(std::exception_ptr, boost::json::value)`, as `asio::co_spawn` has it
    //! @par Cancellation
    //! Terminal cancellation, which reaches the action while that runs. The recording of its end is not
    //! cancelled.
    //! @par Errors (as waymark::error)
    //! `errc::step_in_doubt` if the step began and its end was never recorded (see step_options),
    //! `errc::conflict` if another caller of this session is making it, or in an exclusive session if someone
    //! else moved the head; those of the store
    template <asio::completion_token_for<void(std::exception_ptr, boost::json::value)> Token =
                  detail::default_token>
    auto async_step(std::string key, asio::awaitable<boost::json::value> action, Token&& token = Token{})
    {
        return start_step(std::move(key), {}, std::move(action), std::forward<Token>(token));
    }
    template <asio::completion_token_for<void(std::exception_ptr, boost::json::value)> Token =
                  detail::default_token>
    auto async_step(std::string key, asio::awaitable<boost::json::value> action, step_options options,
                    Token&& token = Token{})
    {
        return start_step(std::move(key), options, std::move(action), std::forward<Token>(token));
    }
    //! The same with a function that makes the awaitable. Name a lambda that captures by value: g++ 12
    //! destroys one twice that is written inside a `co_await` expression, and here that does not compile.
    //!
    //!     auto book = [city]() -> asio::awaitable<boost::json::value> { … };
    //!     auto receipt = co_await session.async_step(call.id(), book);
    template <step_action Action, asio::completion_token_for<void(std::exception_ptr, boost::json::value)>
                                      Token = detail::default_token>
        requires detail::safe_in_co_await<Action>
    auto async_step(std::string key, Action&& action, Token&& token = Token{})
    {
        return start_step(std::move(key), {}, std::decay_t<Action>(std::forward<Action>(action)),
                          std::forward<Token>(token));
    }
    template <step_action Action, asio::completion_token_for<void(std::exception_ptr, boost::json::value)>
                                      Token = detail::default_token>
        requires detail::safe_in_co_await<Action>
    auto async_step(std::string key, Action&& action, step_options options, Token&& token = Token{})
    {
        return start_step(std::move(key), options, std::decay_t<Action>(std::forward<Action>(action)),
                          std::forward<Token>(token));
    }
    //! Name the action first: `auto action = …; co_await session.async_step(key, action);`
    template <step_action Action, class... Rest>
        requires(!detail::safe_in_co_await<Action>)
    void async_step(std::string key, Action&& action, Rest&&... rest) = delete;

    //! Loads the records of this session's steps, by key.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<step>)`
    template <detail::token_for<std::vector<step>> Token = detail::default_token>
    auto async_steps(Token&& token = Token{})
    {
        return start_call(detail::load_steps_call(step_query(agent_id()).scope(scope())), nullptr,
                          std::forward<Token>(token));
    }
    template <detail::token_for<std::vector<step>> Token = detail::default_token>
    auto async_steps(diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::load_steps_call(step_query(agent_id()).scope(scope())), &details,
                          std::forward<Token>(token));
    }

    //! Records the result of a step that is in doubt, when it is known that it took effect. Completes with
    //! whether it was in doubt: false if it was done already, with this result.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    //! @par Errors
    //! `errc::not_found`; `errc::conflict` if it is done with another result
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_settle_step(std::string key, json_input result, Token&& token = Token{})
    {
        return start_call(detail::call<bool>(detail::job::kind::write, agent_id(),
                                             [agent = agent_id(), scope = scope(), key = std::move(key),
                                              result = std::move(result).take()](store& in) {
                                                 return detail::settle_step(in, agent, scope, key, result);
                                             }),
                          nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_settle_step(std::string key, json_input result, diagnostics& details, Token&& token = Token{})
    {
        return start_call(detail::call<bool>(detail::job::kind::write, agent_id(),
                                             [agent = agent_id(), scope = scope(), key = std::move(key),
                                              result = std::move(result).take()](store& in) {
                                                 return detail::settle_step(in, agent, scope, key, result);
                                             }),
                          &details, std::forward<Token>(token));
    }

    //! Removes the record of a step that is in doubt, when it is known that it did not take effect: it will
    //! be made anew. Completes with whether it was there.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    //! @par Errors
    //! `errc::conflict` if it has ended meanwhile: whoever made it was only slow
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_forget_step(std::string key, Token&& token = Token{})
    {
        return start_call(forget_call(std::move(key)), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<bool> Token = detail::default_token>
    auto async_forget_step(std::string key, diagnostics& details, Token&& token = Token{})
    {
        return start_call(forget_call(std::move(key)), &details, std::forward<Token>(token));
    }

    // Export and import

    //! This agent as one JSON document: checkpoints of all scopes, pins and steps.
    //! @par Handler signature
    //! `void(std::error_code, std::string)`
    template <detail::token_for<std::string> Token = detail::default_token>
    auto async_export(Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id()](store& from) {
                              return export_json(from, export_options().of_agent(agent));
                          }),
                          nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<std::string> Token = detail::default_token>
    auto async_export(diagnostics& details, Token&& token = Token{})
    {
        return start_call(read_call([agent = agent_id()](store& from) {
                              return export_json(from, export_options().of_agent(agent));
                          }),
                          &details, std::forward<Token>(token));
    }

    //! Imports what `async_export` or Breakpilot wrote, as this agent's. Bad input changes nothing.
    //! Afterwards `async_resume` moves the session to the new head.
    //! @par Handler signature
    //! `void(std::error_code, transfer_result)`
    //! @par Errors
    //! `errc::invalid_argument`, `errc::unsupported_format`, `errc::conflict` (with `existing::fail`)
    template <detail::token_for<transfer_result> Token = detail::default_token>
    auto async_import(std::string json, Token&& token = Token{})
    {
        return import_text(std::move(json), {}, nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<transfer_result> Token = detail::default_token>
    auto async_import(std::string json, diagnostics& details, Token&& token = Token{})
    {
        return import_text(std::move(json), {}, &details, std::forward<Token>(token));
    }

    //! The same with options; `as_agent` is the session's agent in any case.
    template <detail::token_for<transfer_result> Token = detail::default_token>
    auto async_import(std::string json, import_options options, Token&& token = Token{})
    {
        return import_text(std::move(json), std::move(options), nullptr, std::forward<Token>(token));
    }
    template <detail::token_for<transfer_result> Token = detail::default_token>
    auto async_import(std::string json, import_options options, diagnostics& details, Token&& token = Token{})
    {
        return import_text(std::move(json), std::move(options), &details, std::forward<Token>(token));
    }

private:
    detail::call<bool> forget_call(std::string key) const
    {
        return {detail::job::kind::write, agent_id(),
                [agent = agent_id(), scope = scope(), key = std::move(key)](store& in) {
                    return detail::forget_step(in, agent, scope, key);
                }};
    }

    void close() noexcept
    {
        if (core_)
            core_->close();
    }

    template <class Task, class Token>
    auto start(typename Task::description wanted, diagnostics* details, Token&& token)
    {
        return asio::async_initiate<Token, void(std::error_code, typename Task::result_type)>(
            detail::initiation<Task, detail::session_core>(core_, executor_), token, std::move(wanted),
            details);
    }

    template <class Result, class Token>
    auto start_call(detail::call<Result> wanted, diagnostics* details, Token&& token)
    {
        return detail::start_call(engine_, executor_, std::move(wanted), details, std::forward<Token>(token));
    }

    template <class Function>
    static auto read_call(Function function)
    {
        using result = std::invoke_result_t<Function&, store&>;
        return detail::call<result>(detail::job::kind::read, {}, std::move(function));
    }

    template <class Result, class Token>
    auto resume(resume_options options, diagnostics* details, Token&& token)
    {
        return start<detail::call_task<Result>>(
            {detail::job::kind::read,
             [agent = agent_id(), scope = scope(),
              options = std::move(options)](store& from, const detail::session_position&) -> Result {
                 auto found = detail::resume(from, agent, scope, options);
                 if constexpr (std::is_same_v<Result, resumed>)
                     return found;
                 else
                     return found ? Result(*found) : Result();
             },
             [](detail::session_core& core, const Result& found) {
                 core.move_to(detail::position_of(found));
             }},
            details, std::forward<Token>(token));
    }

    template <class Token>
    auto import_text(std::string json, import_options options, diagnostics* details, Token&& token)
    {
        options.as_agent(agent_id());
        return start_call(read_call([json = std::move(json), options = std::move(options)](store& into) {
                              return import_json(into, json, options);
                          }),
                          details, std::forward<Token>(token));
    }

    template <class Action, class Token>
    auto start_step(std::string key, step_options options, Action action, Token&& token)
    {
        return asio::async_initiate<Token, void(std::exception_ptr, boost::json::value)>(
            detail::step_initiation(executor_), token,
            detail::step_maker<executor_type>(core_, engine_, executor_, std::move(key), options),
            std::move(action));
    }

    executor_type executor_;
    std::shared_ptr<detail::engine> engine_;
    std::shared_ptr<detail::session_core> core_;
};

} // namespace waymark
