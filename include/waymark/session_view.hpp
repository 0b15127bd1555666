//! What is stored of one agent, for reading.
#pragma once

#include <waymark/async_store.hpp>
#include <waymark/detail/session_functions.hpp>
#include <waymark/diff.hpp>
#include <waymark/history.hpp>
#include <waymark/summary.hpp>
#include <waymark/transfer.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace waymark {

//! Reads the checkpoints and steps of one agent in one scope. A `session` is one that also saves.
//!
//! What is said of async_store holds for every function here whose name begins with `async_`. They see what
//! completed before they were started.
class session_view {
public:
    using executor_type = asio::any_io_executor;

    //! Handlers without an executor of their own run on that of the store.
    //! @throws waymark::error `invalid_argument` if the agent's id or the scope cannot be stored.
    session_view(async_store& store, std::string agent_id, std::string scope = {})
        : session_view(store.get_executor(), store, std::move(agent_id), std::move(scope))
    {
    }
    //! They run on this executor.
    session_view(executor_type executor, async_store& store, std::string agent_id, std::string scope)
        : executor_(std::move(executor)),
          scheduler_(detail::scheduler_of(store)),
          agent_id_(std::move(agent_id)),
          scope_(std::move(scope))
    {
        if (!executor_)
            throw error(errc::invalid_argument, "a session needs an executor; this one is empty");
        validate_id(agent_id_, "the agent id");
        validate_label(scope_, "the scope");
    }

    executor_type get_executor() const noexcept { return executor_; }
    const std::string& agent_id() const noexcept { return agent_id_; }
    const std::string& scope() const noexcept { return scope_; }
    //! All checkpoints of this agent and scope; narrow it for `async_list`, `async_load_all` or
    //! `async_count`.
    waymark::query query() const { return waymark::query(agent_id_).scope(scope_); }

    //! Loads a checkpoint by its id, or nothing.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_load(std::string id, Token&& token = Token{})
    {
        return read(store_operation::load, std::forward<Token>(token),
                    [agent = agent_id_, scope = scope_, id = std::move(id)](store& from) {
                        return from.load(agent, scope, id);
                    });
    }

    //! Loads the head, or nothing.
    //! @par Handler signature
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_load_latest(Token&& token = Token{})
    {
        return read(
            store_operation::load, std::forward<Token>(token),
            [agent = agent_id_, scope = scope_](store& from) { return from.load_latest(agent, scope); });
    }
    //! Loads the newest checkpoint with this name, or nothing. Handler signature:
    //! `void(std::error_code, std::optional<checkpoint>)`
    template <detail::token_for<std::optional<checkpoint>> Token = default_token>
    auto async_load_latest(std::string name, Token&& token = Token{})
    {
        return read(store_operation::load, std::forward<Token>(token),
                    [agent = agent_id_, scope = scope_, name = std::move(name)](store& from) {
                        return detail::load_latest_named(from, agent, scope, name);
                    });
    }

    //! Lists what a query selects, newest first unless it says otherwise:
    //! `session.query().named("x").oldest_first()`, a page after a cursor, or with
    //! `waymark::query(session.agent_id())` across scopes.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint_header>)`
    template <detail::token_for<std::vector<checkpoint_header>> Token = default_token>
    auto async_list(waymark::query wanted, Token&& token = Token{})
    {
        return read(store_operation::list, std::forward<Token>(token),
                    [wanted = std::move(wanted)](store& from) { return from.list(wanted); });
    }
    //! Lists all of them. Handler signature: `void(std::error_code, std::vector<checkpoint_header>)`
    template <detail::token_for<std::vector<checkpoint_header>> Token = default_token>
    auto async_list(Token&& token = Token{})
    {
        return async_list(query(), std::forward<Token>(token));
    }

    //! Loads what a query selects. Give it a limit when the history may be long.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<checkpoint>)`
    template <detail::token_for<std::vector<checkpoint>> Token = default_token>
    auto async_load_all(waymark::query wanted, Token&& token = Token{})
    {
        return read(store_operation::load, std::forward<Token>(token),
                    [wanted = std::move(wanted)](store& from) { return from.load_all(wanted); });
    }

    //! Counts what a query selects.
    //! @par Handler signature
    //! `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_count(waymark::query wanted, Token&& token = Token{})
    {
        return read(store_operation::list, std::forward<Token>(token),
                    [wanted = std::move(wanted)](store& from) { return from.count(wanted); });
    }
    //! Counts all of them. Handler signature: `void(std::error_code, std::uint64_t)`
    template <detail::token_for<std::uint64_t> Token = default_token>
    auto async_count(Token&& token = Token{})
    {
        return async_count(query(), std::forward<Token>(token));
    }

    //! All checkpoints as a tree.
    //! @par Handler signature
    //! `void(std::error_code, history)`
    template <detail::token_for<history> Token = default_token>
    auto async_history(Token&& token = Token{})
    {
        return read(store_operation::list, std::forward<Token>(token),
                    [agent = agent_id_, scope = scope_](store& from) {
                        return detail::read_history(from, agent, scope);
                    });
    }

    //! The whole story of the head's conversation, from the newest message back: where a summary stands for
    //! older messages (`conversation::compacted`), the checkpoints from before the compaction have them. In
    //! pages:
    //!
    //! @code
    //! waymark::transcript_options options;
    //! for (;;) {
    //!     auto page = co_await session.async_transcript(options);
    //!     show(page.messages());
    //!     if (!page.earlier())
    //!         break;
    //!     options.before(*page.earlier());
    //! }
    //! @endcode
    //!
    //! A page loads the checkpoint that has its messages; going over a compaction loads a few more.
    //! @par Handler signature
    //! `void(std::error_code, transcript_page)`
    //! @par Errors
    //! `errc::not_found` if the checkpoint of `before` was pruned meanwhile
    template <detail::token_for<transcript_page> Token = default_token>
    auto async_transcript(transcript_options options, Token&& token = Token{})
    {
        return read(store_operation::load, std::forward<Token>(token),
                    [agent = agent_id_, scope = scope_, options = std::move(options)](store& from) {
                        return detail::read_transcript(from, agent, scope, options);
                    });
    }
    //! Its newest page. Handler signature: `void(std::error_code, transcript_page)`
    template <detail::token_for<transcript_page> Token = default_token>
    auto async_transcript(Token&& token = Token{})
    {
        return async_transcript(transcript_options(), std::forward<Token>(token));
    }

    //! What is different between two checkpoints, from `before` to `after`.
    //! @par Handler signature
    //! `void(std::error_code, checkpoint_diff)`
    //! @par Errors
    //! `errc::not_found`
    template <detail::token_for<checkpoint_diff> Token = default_token>
    auto async_diff(std::string before, std::string after, Token&& token = Token{})
    {
        return read(store_operation::load, std::forward<Token>(token),
                    [agent = agent_id_, scope = scope_, before = std::move(before), after = std::move(after)](
                        store& from) { return detail::diff(from, agent, scope, before, after); });
    }

    //! Counts, names, times and bytes. Reads all headers, page by page.
    //! @par Handler signature
    //! `void(std::error_code, summary)`
    template <detail::token_for<summary> Token = default_token>
    auto async_summary(Token&& token = Token{})
    {
        return read(store_operation::list, std::forward<Token>(token),
                    [agent = agent_id_, scope = scope_](store& from) {
                        return detail::summarize(from, agent, scope);
                    });
    }

    //! Loads the records of steps, by key.
    //! @par Handler signature
    //! `void(std::error_code, std::vector<step>)`
    template <detail::token_for<std::vector<step>> Token = default_token>
    auto async_load_steps(Token&& token = Token{})
    {
        return read(store_operation::list, std::forward<Token>(token),
                    [agent = agent_id_, scope = scope_](store& from) {
                        return from.load_steps(step_query(agent).scope(scope));
                    });
    }

    //! The agent as one JSON document: checkpoints of all scopes, pins and steps.
    //! @par Handler signature
    //! `void(std::error_code, std::string)`
    //! @par Errors
    //! `errc::not_found` if there is nothing of the agent
    template <detail::token_for<std::string> Token = default_token>
    auto async_export(Token&& token = Token{})
    {
        return start_upkeep(detail::request::schedule::survey, store_operation::export_lines,
                            std::forward<Token>(token),
                            [agent = agent_id_](store& from, const upkeep_control& control) {
                                return export_json(from, export_options().of_agent(agent).stop_with(control));
                            });
    }

private:
    template <class Function, class Token>
    auto read(store_operation what, Token&& token, Function function)
    {
        return detail::start_request<detail::function_request<Function>>(
            scheduler_, executor_, std::forward<Token>(token), detail::request::schedule::read, what,
            agent_id_, std::move(function));
    }

    template <class Function, class Token>
    auto start_upkeep(detail::request::schedule when, store_operation what, Token&& token, Function function)
    {
        return detail::start_request<detail::upkeep_request<Function>>(
            scheduler_, executor_, std::forward<Token>(token), when, what, agent_id_, upkeep_control(),
            std::move(function));
    }

    executor_type executor_;
    std::shared_ptr<detail::scheduler> scheduler_;
    std::string agent_id_;
    std::string scope_;
};

} // namespace waymark
