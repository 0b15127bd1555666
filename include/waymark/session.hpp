//! One agent's view of a store: what an agent loop holds in its hand.
#pragma once

#include <waymark/async_store.hpp>
#include <waymark/detail/asio_session.hpp>
#include <waymark/detail/session_functions.hpp>
#include <waymark/detail/step_operation.hpp>
#include <waymark/hooks.hpp>
#include <waymark/resume.hpp>
#include <waymark/session_options.hpp>
#include <waymark/session_view.hpp>
#include <waymark/transfer.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace waymark {

//! What `session::async_step` runs: an awaitable of JSON, or a function without arguments that returns one.
template <class Action>
concept step_action = std::same_as<std::remove_cvref_t<Action>, asio::awaitable<boost::json::value>> ||
                      requires(Action& action) {
                          {
                              action()
                          } -> std::same_as<asio::awaitable<boost::json::value>>;
                      };

//! Checkpoints one agent: decides when, keeps the parents, tells the hooks, resumes, goes back and branches.
//!
//! What is said of async_store holds for every function here whose name begins with `async_`: how handlers
//! are called, which tokens work and how errors are told. What only reads is in `session_view`, which every
//! session is. The comments here say what is particular to a session.
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
//! What changes the agent or the session (`async_resume`, `async_notify`, `async_checkpoint`, `async_pin`,
//! `async_rollback_to`, `async_fork`, `async_prune`, `async_clear`, `async_import`, the beginning of
//! `async_step`, and so on) is carried out one after the other, in the order in which it was started. (A step
//! joins that order when its coroutine starts: at once if it is started on its handler's executor.)
//!
//! @par Position
//! A save's parent is the checkpoint that this session last saved, resumed or rolled back to. A session that
//! did none of these looks for the head before its first save, and goes on from there (see
//! `session_options::start_new_root`).
//!
//! @par Cancellation
//! As for async_store. What waits in the session's queue, or for something to be looked up, completes with
//! `operation_aborted` and has had no effect. If the caller of a save leaves with `errc::outcome_unknown`,
//! the session goes on behind that save in order: the next one has it as its parent, if it was saved.
//!
//! @par Lifetimes
//! The destructor completes what waits with `operation_aborted`; what has begun completes with its outcome.
//! Hooks are not called any more (if another thread runs the executor at that time, one may still be
//! running). The async_store may be destroyed first: operations then end with `operation_aborted` or
//! `errc::closed`. The context of the executor must exist until the session's operations have completed.
class session : public session_view {
public:
    //! Runs on the executor of the store.
    //! @throws waymark::error `invalid_argument` if the agent's id or the scope cannot be stored.
    session(async_store& store, std::string agent_id, session_options options = {})
        : session(store.get_executor(), store, std::move(agent_id), std::move(options))
    {
    }
    //! Runs on this executor.
    session(executor_type executor, async_store& store, std::string agent_id, session_options options = {})
        : session_view(executor, store, agent_id, options.scope()),
          core_(std::make_shared<detail::session_core>(
              std::move(agent_id), std::move(options), detail::scheduler_of(store),
              std::make_unique<detail::asio_session_executor>(std::move(executor))))
    {
    }
    //! What was moved from may only be destroyed or assigned to. Operations under way and hooks go along.
    session(session&&) noexcept = default;
    session& operator=(session&& other) noexcept
    {
        if (this != &other) {
            close();
            core_ = std::move(other.core_);
            session_view::operator=(std::move(other));
        }
        return *this;
    }
    ~session() { close(); }

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
    //! Called when a save fails (also when it finds no room; several of these are told together), a hook
    //! throws or automatic retention fails. What it throws is ignored.
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
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_resume(Token&& token = Token{})
    {
        return take_turn(
            request::schedule::read, store_operation::load, std::forward<Token>(token),
            [agent = agent_id(), scope = scope()](store& from, const detail::session_position&) {
                return detail::load_head(from, agent, scope);
            },
            [](detail::session_core& core, const std::optional<checkpoint>& found) {
                core.move_to(detail::position_of(found));
            });
    }

    //! The same, with tool calls repaired or a damaged head passed over if the options say so.
    //! @par Handler signature
    //! `void(std::error_code, resumed)`
    //! @par Errors
    //! `errc::corrupt` if the head is damaged, or with `fall_back` if no checkpoint can be read
    template <detail::token_for<resumed> Token = default_token>
    auto async_resume(resume_options options, Token&& token = Token{})
    {
        return take_turn(
            request::schedule::read, store_operation::load, std::forward<Token>(token),
            [agent = agent_id(), scope = scope(),
             options = std::move(options)](store& from, const detail::session_position&) {
                return detail::resume(from, agent, scope, options);
            },
            [](detail::session_core& core, const resumed& found) {
                core.move_to(detail::position_of(found));
            });
    }

    // Saving

    //! Reports an event; saves a checkpoint if the strategy asks for one. Completes with the header of what
    //! was saved, when it is durable and the hooks have run, or with nothing.
    //!
    //! The draft holds everything: conversation, state, name, metadata, an id. The session sets its parent,
    //! and saves it once: an id that exists with other content is `errc::conflict`.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint_header>)`
    //! @par Errors
    //! those of `async_store::async_save`; in an exclusive session `errc::conflict` if someone else moved the
    //! head; `errc::overloaded` (see `session_options::with_max_pending`)
    template <detail::token_for<std::optional<checkpoint_header>> Token = default_token>
    auto async_notify(event what, checkpoint draft, Token&& token = Token{})
    {
        return notify(std::forward<Token>(token), what, std::move(draft));
    }
    //! The same with a conversation. Handler signature: `void(std::error_code,
    //! std::optional<checkpoint_header>)`
    template <detail::token_for<std::optional<checkpoint_header>> Token = default_token>
    auto async_notify(event what, std::int64_t iteration, conversation conversation, Token&& token = Token{})
    {
        return async_notify(what, iteration, std::move(conversation), boost::json::object(),
                            std::forward<Token>(token));
    }
    //! The same with a conversation and a state. Handler signature:
    //! `void(std::error_code, std::optional<checkpoint_header>)`
    template <detail::token_for<std::optional<checkpoint_header>> Token = default_token>
    auto async_notify(event what, std::int64_t iteration, conversation conversation,
                      boost::json::object state, Token&& token = Token{})
    {
        return notify(std::forward<Token>(token), what, iteration,
                      [core = core_, iteration, conversation = std::move(conversation),
                       state = std::move(state)]() mutable {
                          return checkpoint(core->agent_id(), std::move(conversation), iteration)
                              .with_scope(core->options().scope())
                              .with_state(std::move(state));
                      });
    }

    //! Saves a draft, whatever the strategy says.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint_header)`
    //! @par Errors
    //! as `async_notify`, and `errc::vetoed` if a `before_save` hook said no
    template <detail::token_for<checkpoint_header> Token = default_token>
    auto async_checkpoint(checkpoint draft, Token&& token = Token{})
    {
        return detail::start_request<detail::checkpoint_save>(core_, get_executor(),
                                                              std::forward<Token>(token), std::move(draft));
    }
    //! Saves a conversation under a name. Handler signature: `void(std::error_code, checkpoint_header)`
    template <detail::token_for<checkpoint_header> Token = default_token>
    auto async_checkpoint(std::string name, std::int64_t iteration, conversation conversation,
                          Token&& token = Token{})
    {
        return async_checkpoint(draft(std::move(conversation), iteration).with_name(std::move(name)),
                                std::forward<Token>(token));
    }
    //! Saves a conversation and a state. Handler signature: `void(std::error_code, checkpoint_header)`
    template <detail::token_for<checkpoint_header> Token = default_token>
    auto async_checkpoint(std::string name, std::int64_t iteration, conversation conversation,
                          boost::json::object state, Token&& token = Token{})
    {
        return async_checkpoint(
            draft(std::move(conversation), iteration).with_name(std::move(name)).with_state(std::move(state)),
            std::forward<Token>(token));
    }

    //! Completes when everything that this session was asked for before has ended: it is durable, or has
    //! failed, which its own handler and `on_error` tell. Of a step it waits for the beginning only.
    //! `async_store::async_flush` waits for all sessions, and for the ends of steps.
    //! @par Handler signature
    //! `void(std::error_code)`
    //! @par Errors
    //! those of a look at a save whose outcome is unknown
    template <asio::completion_token_for<void(std::error_code)> Token = default_token>
    auto async_flush(Token&& token = Token{})
    {
        return detail::start_request<detail::session_flush>(core_, get_executor(), std::forward<Token>(token),
                                                            agent_id());
    }

    // Going back and branching

    //! Saves a new head that has the content of the target, and the target as its parent; completes with it.
    //! Nothing is deleted, and a crash right after it resumes there.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint)`
    //! @par Errors
    //! `errc::not_found` if this session's scope has no such checkpoint, and those of `async_checkpoint`
    template <detail::token_for<checkpoint> Token = default_token>
    auto async_rollback_to(std::string id, Token&& token = Token{})
    {
        return detail::start_request<detail::rollback_save>(core_, get_executor(), std::forward<Token>(token),
                                                            agent_id(), std::move(id));
    }

    //! Starts another agent from a checkpoint: a copy of it becomes the first checkpoint of the new agent, in
    //! the same scope. The records of steps that it builds on are copied, too, so that the new agent does not
    //! make those side effects again. Completes with the key of the new checkpoint.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint_key)`
    //! @par Errors
    //! `errc::not_found` if this session's scope has no such checkpoint; `errc::conflict` if the agent exists
    template <detail::token_for<checkpoint_key> Token = default_token>
    auto async_fork(std::string id, std::string new_agent, Token&& token = Token{})
    {
        return take_turn(
            request::schedule::ordered, store_operation::copy, std::forward<Token>(token),
            [agent = agent_id(), scope = scope(), id = std::move(id),
             new_agent](store& in, const detail::session_position&) {
                return detail::fork(in, agent, scope, id, new_agent);
            },
            [](detail::session_core&, const checkpoint_key&) {}, new_agent);
    }

    // Removing and keeping

    //! Deletes the checkpoints that the policies do not keep, or with `dry_run::yes` only says which: in this
    //! session's scope, or the one that they name (`retention::only_scope`). Completes with what went and how
    //! many bytes became free. `async_store` prunes all scopes of an agent at once.
    //! @par Handler signature
    //! `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = default_token>
    auto async_prune(retention policies, dry_run dry, Token&& token = Token{})
    {
        return take_turn(
            request::schedule::background, store_operation::prune, std::forward<Token>(token),
            [agent = agent_id(), policies = detail::own_retention(std::move(policies), scope()),
             dry](store& in, const detail::session_position&, const upkeep_control& control) {
                return in.prune(agent, policies, dry, control);
            },
            [](detail::session_core&, const prune_result&) {});
    }
    //! Deletes them. Handler signature: `void(std::error_code, prune_result)`
    template <detail::token_for<prune_result> Token = default_token>
    auto async_prune(retention policies, Token&& token = Token{})
    {
        return async_prune(std::move(policies), dry_run::no, std::forward<Token>(token));
    }

    //! Keeps a checkpoint, whatever retention says. Completes with whether it exists.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = default_token>
    auto async_pin(std::string id, Token&& token = Token{})
    {
        return set_pin(std::move(id), true, std::forward<Token>(token));
    }
    //! Leaves a checkpoint to retention again. Completes with whether it exists.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    template <detail::token_for<bool> Token = default_token>
    auto async_unpin(std::string id, Token&& token = Token{})
    {
        return set_pin(std::move(id), false, std::forward<Token>(token));
    }

    //! Removes all checkpoints, pinned or not, and all steps of this session's scope. Completes with the
    //! number of checkpoints. The session then starts a new root.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_clear(Token&& token = Token{})
    {
        return take_turn(
            request::schedule::background, store_operation::erase, std::forward<Token>(token),
            [agent = agent_id(), scope = scope()](store& in, const detail::session_position&,
                                                  const upkeep_control& control) {
                return in.erase_scope(agent, scope, control);
            },
            [](detail::session_core& core, std::uint64_t) { core.move_to({}); });
    }

    // Side effects that happen once

    //! Makes a side effect once per (agent, scope, key), whatever crashes: `action` is run if the step was
    //! never made, and its result is durable before it is handed out; if the step is done, its result is
    //! handed out and the action dropped. The key is normally the id of the tool call, and then the message
    //! with that call is to be saved before the step: a model that is asked again gives its calls other ids.
    //!
    //!     auto receipt = co_await session.async_step(call.id(), book_hotel("Lisbon"));
    //!
    //! The action is an awaitable, or a function that makes one. It runs on the executor of the caller. If it
    //! throws, the exception is passed on, and the step is in doubt: a connection that breaks does not tell
    //! whether the other side has acted. What was thrown is recorded, and `errc::step_in_doubt` repeats it.
    //! An action that knows that nothing has happened throws waymark::not_begun; then the step may be made
    //! again.
    //!
    //! Name a function that captures by value first: g++ 12 destroys one twice that is written inside a
    //! `co_await` expression, and here that does not compile.
    //!
    //!     auto book = [city]() -> asio::awaitable<boost::json::value> { … };
    //!     auto receipt = co_await session.async_step(call.id(), book);
    //!
    //! @par Handler signature
    //! `void(std::exception_ptr, boost::json::value)`, as `asio::co_spawn` has it
    //! @par Cancellation
    //! Terminal cancellation. Before the action runs, it does not run any more, and the step is withdrawn. It
    //! reaches the action while that runs. While the end is being recorded, it completes with
    //! `errc::outcome_unknown`, or with what the action has thrown, and the recording goes on.
    //! @par Errors (as waymark::error)
    //! `errc::step_in_doubt` if the step began and its end was never recorded (see step_options),
    //! `errc::conflict` if another caller of this session is making it, or in an exclusive session if someone
    //! else moved the head; those of the store
    template <step_action Action,
              asio::completion_token_for<void(std::exception_ptr, boost::json::value)> Token = default_token>
        requires detail::safe_in_co_await<Action>
    auto async_step(std::string key, Action&& action, step_options options, Token&& token = Token{})
    {
        return asio::async_initiate<Token, void(std::exception_ptr, boost::json::value)>(
            detail::step_initiation(get_executor()), token,
            detail::step_maker<executor_type>(core_, get_executor(), std::move(key), options),
            std::decay_t<Action>(std::forward<Action>(action)));
    }
    //! The same without options. Handler signature: `void(std::exception_ptr, boost::json::value)`
    template <step_action Action,
              asio::completion_token_for<void(std::exception_ptr, boost::json::value)> Token = default_token>
        requires detail::safe_in_co_await<Action>
    auto async_step(std::string key, Action&& action, Token&& token = Token{})
    {
        return async_step(std::move(key), std::forward<Action>(action), step_options(),
                          std::forward<Token>(token));
    }
    //! Name the action first: `auto action = …; co_await session.async_step(key, action);`
    template <step_action Action, class... Rest>
        requires(!detail::safe_in_co_await<Action>)
    void async_step(std::string key, Action&& action, Rest&&... rest) = delete;

    //! Records the result of a step that is in doubt, when it is known that it took effect. Completes with
    //! whether it was in doubt: false if it was done already, with this result.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    //! @par Errors
    //! `errc::not_found`; `errc::conflict` if it is done with another result
    template <detail::token_for<bool> Token = default_token>
    auto async_settle_step(std::string key, json_input result, Token&& token = Token{})
    {
        return take_turn(
            request::schedule::ordered, store_operation::step, std::forward<Token>(token),
            [agent = agent_id(), scope = scope(), key = std::move(key),
             result = std::move(result).take()](store& in, const detail::session_position&) {
                return detail::settle_step(in, agent, scope, key, result);
            },
            [](detail::session_core&, bool) {});
    }

    //! Removes the record of a step that is in doubt, when it is known that it did not take effect: it will
    //! be made anew. Completes with whether it was there.
    //! @par Handler signature
    //! `void(std::error_code, bool)`
    //! @par Errors
    //! `errc::conflict` if it has ended meanwhile: whoever made it was only slow
    template <detail::token_for<bool> Token = default_token>
    auto async_forget_step(std::string key, Token&& token = Token{})
    {
        return take_turn(
            request::schedule::ordered, store_operation::step, std::forward<Token>(token),
            [agent = agent_id(), scope = scope(), key = std::move(key)](store& in,
                                                                        const detail::session_position&) {
                return detail::forget_step(in, agent, scope, key);
            },
            [](detail::session_core&, bool) {});
    }

    // Import

    //! Imports what `async_export` or Breakpilot wrote, as this agent's, whatever the options say of that.
    //! Bad input changes nothing. Afterwards `async_resume` moves the session to the new head.
    //! @par Handler signature
    //! `void(std::error_code, transfer_result)`
    //! @par Errors
    //! `errc::invalid_argument`, `errc::unsupported_format`, `errc::conflict` (with `existing::fail`)
    template <detail::token_for<transfer_result> Token = default_token>
    auto async_import(std::string json, import_options options, Token&& token = Token{})
    {
        options.as_agent(agent_id());
        return take_turn(
            request::schedule::background, store_operation::import_lines, std::forward<Token>(token),
            [json = std::move(json), options = std::move(options)](
                store& into, const detail::session_position&, const upkeep_control& control) {
                return import_json(into, json, import_options(options).stop_with(control));
            },
            [](detail::session_core&, const transfer_result&) {});
    }
    //! The same without options. Handler signature: `void(std::error_code, transfer_result)`
    template <detail::token_for<transfer_result> Token = default_token>
    auto async_import(std::string json, Token&& token = Token{})
    {
        return async_import(std::move(json), import_options(), std::forward<Token>(token));
    }

private:
    using request = detail::request;

    void close() noexcept
    {
        if (core_)
            core_->close();
    }

    //! Stands in the session's queue first.
    template <class Function, class Then, class Token>
    auto take_turn(request::schedule when, store_operation what, Token&& token, Function function, Then then,
                   std::string other_agent_id = {})
    {
        return detail::start_request<detail::session_function<Function, Then>>(
            core_, get_executor(), std::forward<Token>(token), when, what, agent_id(), std::move(function),
            std::move(then), std::move(other_agent_id));
    }

    template <class Token, class... Arguments>
    auto notify(Token&& token, Arguments&&... arguments)
    {
        return asio::async_initiate<Token, void(std::error_code, std::optional<checkpoint_header>)>(
            detail::notify_initiation(core_, get_executor()), token, std::forward<Arguments>(arguments)...);
    }

    template <class Token>
    auto set_pin(std::string id, bool pinned, Token&& token)
    {
        return take_turn(
            request::schedule::ordered, store_operation::pin, std::forward<Token>(token),
            [agent = agent_id(), scope = scope(), id = std::move(id),
             pinned](store& in, const detail::session_position&) { return in.pin(agent, scope, id, pinned); },
            [](detail::session_core&, bool) {});
    }

    std::shared_ptr<detail::session_core> core_;
};

} // namespace waymark
