//! What a session asks of its store: blocking functions, which run on the pool.
#pragma once

#include <waymark/detail/session_position.hpp>
#include <waymark/diff.hpp>
#include <waymark/history.hpp>
#include <waymark/resume.hpp>
#include <waymark/session_options.hpp>
#include <waymark/store.hpp>
#include <waymark/summary.hpp>
#include <waymark/transcript.hpp>
#include <waymark/transfer.hpp>

#include <string>

namespace waymark::detail {

resumed resume(store& from, const std::string& agent_id, const std::string& scope,
               const resume_options& options);
//! The head, or nothing. @throws waymark::error `corrupt`, which says how to go on.
std::optional<checkpoint> load_head(store& from, const std::string& agent_id, const std::string& scope);
session_position position_of(const resumed& found);
//! What the store's head is, for a session with this position.
std::optional<checkpoint_header> head_of(store& from, const std::string& agent_id, const std::string& scope,
                                         const session_position& position);
session_position position_of(const std::optional<checkpoint>& found);

//! @throws waymark::error `not_found`
checkpoint require_checkpoint(store& from, const std::string& agent_id, const std::string& scope,
                              const std::string& id);
//! The newest with that name.
std::optional<checkpoint> load_latest_named(store& from, const std::string& agent_id,
                                            const std::string& scope, const std::string& name);

//! Starts another agent from a checkpoint, with the records of the steps up to it: what was done is not done
//! again. @throws waymark::error `not_found`, `conflict` if the agent exists.
checkpoint_key fork(store& in, const std::string& agent_id, const std::string& scope, const std::string& id,
                    const std::string& new_agent);

history read_history(store& from, const std::string& agent_id, const std::string& scope);
checkpoint_diff diff(store& from, const std::string& agent_id, const std::string& scope,
                     const std::string& before, const std::string& after);
transcript_page read_transcript(store& from, const std::string& agent_id, const std::string& scope,
                                const transcript_options& options);
summary summarize(store& from, const std::string& agent_id, const std::string& scope);

//! The record with the same agent, scope and key.
std::optional<step> find_step(store& in, const step& wanted);

struct begun_step {
    begun_step(step found, bool began) : record(std::move(found)), is_new(began) {}
    step record;
    bool is_new; // this call began it
};
//! Begins a step, or finds that it is done. What it returns is pending only if the action is to be run now.
//! @throws waymark::error `step_in_doubt`, and in an exclusive session `conflict` if the head was moved.
begun_step begin_step(store& in, const step& wanted, const step_options& options,
                      const std::optional<session_position>& exclusive);
//! Records the result, unless someone else, who repeated it meanwhile, was faster. Returns what is recorded.
step end_step(store& in, const step& made);
//! What an exception says, as it is recorded: not longer than a few lines, and such that every store can hold
//! it.
std::string failure_text(std::string_view said);
//! Removes the record of a step that has not ended.
void withdraw_step(store& in, const step& begun);
//! Records how a step that is in doubt ended. Returns whether it was in doubt.
//! @throws waymark::error `not_found`, `conflict`
bool settle_step(store& in, const std::string& agent_id, const std::string& scope, const std::string& key,
                 const boost::json::value& result);

//! Removes the record of a step that is in doubt. Returns whether it was there.
//! @throws waymark::error `conflict` if it is done.
bool forget_step(store& in, const std::string& agent_id, const std::string& scope, const std::string& key);

} // namespace waymark::detail
