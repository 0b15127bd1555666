//! The interface that a backend implements: blocking, batch-first, without Asio.
#pragma once

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>
#include <waymark/query.hpp>
#include <waymark/retention.hpp>
#include <waymark/step.hpp>
#include <waymark/upkeep.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark {

//! The conditions of a save. If one does not hold, the outcome is `errc::conflict` and nothing changes. But
//! if the key already holds identical content, the save succeeds whatever its options, so that a retry after
//! a lost acknowledgement is harmless.
class save_options {
public:
    save_options() = default;

    //! The key must not exist yet.
    save_options& create_only() noexcept
    {
        create_only_ = true;
        return *this;
    }
    //! The head of the checkpoint's agent and scope must be this one; `std::nullopt`: there must be none.
    save_options& expect_head(std::optional<std::string> id)
    {
        expects_head_ = true;
        passes_over_damage_ = false;
        expected_head_ = std::move(id);
        return *this;
    }
    //! The newest checkpoint of the agent and scope whose header can be read must be this one. For saves that
    //! continue after a damaged head: `expect_head` is `errc::corrupt` where the head has vanished, or where
    //! damage hides which one it is.
    save_options& expect_readable_head(std::string id)
    {
        expect_head(std::move(id));
        passes_over_damage_ = true;
        return *this;
    }

    bool is_create_only() const noexcept { return create_only_; }
    bool expects_head() const noexcept { return expects_head_; }
    const std::optional<std::string>& expected_head() const noexcept { return expected_head_; }
    //! Whether damaged checkpoints are passed over when the head is looked for.
    bool passes_over_damage() const noexcept { return passes_over_damage_; }

private:
    bool create_only_ = false;
    bool expects_head_ = false;
    bool passes_over_damage_ = false;
    std::optional<std::string> expected_head_;
};

//! One entry of a batch.
class save_request {
public:
    save_request(waymark::checkpoint checkpoint, save_options options = {})
        : checkpoint_(std::move(checkpoint)), options_(std::move(options))
    {
    }

    const waymark::checkpoint& checkpoint() const& noexcept { return checkpoint_; }
    waymark::checkpoint checkpoint() && { return std::move(checkpoint_); }
    const save_options& options() const noexcept { return options_; }

private:
    waymark::checkpoint checkpoint_;
    save_options options_;
};

//! What a save did.
class save_result {
public:
    save_result() = default;
    save_result(std::int64_t sequence, std::uint64_t bytes_written) noexcept
        : sequence_(sequence), bytes_written_(bytes_written)
    {
    }

    //! The checkpoint's number in the order of its agent.
    std::int64_t sequence() const noexcept { return sequence_; }
    //! What it added to the store; 0 if the same content was there already.
    std::uint64_t bytes_written() const noexcept { return bytes_written_; }

private:
    std::int64_t sequence_ = 0;
    std::uint64_t bytes_written_ = 0;
};

//! How one entry of a batch ended: a value, or an error with its details.
template <class Value>
class outcome {
public:
    outcome() = default;
    outcome(Value value) : value_(std::move(value)) {}
    outcome(const error& failure) : code_(failure.code()), details_(failure.details()) {}

    std::error_code code() const noexcept { return code_; }
    const diagnostics& details() const& noexcept { return details_; }
    diagnostics details() && { return std::move(details_); }
    //! What is there by default after a failure.
    const Value& value() const& noexcept { return value_; }
    Value value() && { return std::move(value_); }

    //! @throws waymark::error if this is a failure.
    const Value& value_or_throw() const&
    {
        if (code_)
            throw error(code_, details_.message());
        return value_;
    }
    Value value_or_throw() &&
    {
        value_or_throw();
        return std::move(value_);
    }

private:
    std::error_code code_;
    diagnostics details_;
    Value value_{};
};

using save_outcome = outcome<save_result>;

//! Of `store::load_some`; `std::nullopt` is absence.
using load_outcome = outcome<std::optional<checkpoint>>;

//! One entry of a batch of steps.
class step_request {
public:
    //! With `create_only`, a step that is there already with other content is `errc::conflict`.
    step_request(waymark::step step, bool create_only = false)
        : step_(std::move(step)), create_only_(create_only)
    {
    }

    const waymark::step& step() const noexcept { return step_; }
    bool is_create_only() const noexcept { return create_only_; }

    //! Replaces the record of this attempt while it is pending, and no other. If the step is done, or is
    //! another attempt's by now, the outcome is `errc::conflict`; if it is not there, `errc::not_found`,
    //! unless the request is `restored`. That a record equals the step is a success, as always. Not for
    //! `create_only`.
    step_request& replacing(std::string attempt) &
    {
        replaced_ = std::move(attempt);
        return *this;
    }
    step_request&& replacing(std::string attempt) && { return std::move(replacing(std::move(attempt))); }
    const std::optional<std::string>& replaced() const noexcept { return replaced_; }

    //! The head of the step's agent and scope must be this one; `std::nullopt`: there must be none. Otherwise
    //! the outcome is `errc::conflict`.
    step_request& expect_head(std::optional<std::string> id) &
    {
        expects_head_ = true;
        expected_head_ = std::move(id);
        return *this;
    }
    step_request&& expect_head(std::optional<std::string> id) &&
    {
        return std::move(expect_head(std::move(id)));
    }
    bool expects_head() const noexcept { return expects_head_; }
    const std::optional<std::string>& expected_head() const noexcept { return expected_head_; }

    //! For imports: the step is accepted although the checkpoint that it was made on is gone. It then stays
    //! as long as its scope has a checkpoint.
    step_request& restored() & noexcept
    {
        restored_ = true;
        return *this;
    }
    step_request&& restored() && noexcept { return std::move(restored()); }
    bool is_restored() const noexcept { return restored_; }

private:
    waymark::step step_;
    bool create_only_;
    std::optional<std::string> replaced_;
    bool restored_ = false;
    bool expects_head_ = false;
    std::optional<std::string> expected_head_;
};

struct stored {}; // an outcome that carries nothing but success
using step_outcome = outcome<stored>;

//! How the parts of `store::commit` ended.
struct commit_outcomes {
    std::vector<save_outcome> saves;
    std::vector<step_outcome> steps;
};

enum class dry_run : bool { no, yes };

//! What retention removed, or with a dry run would remove.
class prune_result {
public:
    prune_result() = default;
    prune_result(std::vector<checkpoint_key> removed, std::uint64_t bytes)
        : removed_(std::move(removed)), bytes_(bytes)
    {
    }

    //! By scope, oldest first.
    const std::vector<checkpoint_key>& removed() const& noexcept { return removed_; }
    std::vector<checkpoint_key> removed() && { return std::move(removed_); }
    std::size_t count() const noexcept { return removed_.size(); }
    //! What became free. What a remaining checkpoint shares with them did not.
    std::uint64_t bytes() const noexcept { return bytes_; }

private:
    std::vector<checkpoint_key> removed_;
    std::uint64_t bytes_ = 0;
};

//! What verification found.
class verify_report {
public:
    //! A record that is damaged, and how.
    struct damage {
        checkpoint_key key;
        std::string what;
    };

    verify_report() = default;
    verify_report(std::uint64_t checked, std::vector<damage> damages)
        : checked_(checked), damages_(std::move(damages))
    {
    }

    std::uint64_t checked() const noexcept { return checked_; }
    const std::vector<damage>& damages() const& noexcept { return damages_; }
    std::vector<damage> damages() && { return std::move(damages_); }
    bool ok() const noexcept { return damages_.empty(); }

private:
    std::uint64_t checked_ = 0;
    std::vector<damage> damages_;
};

//! What a store holds.
struct store_stats {
    std::uint64_t agents = 0;
    std::uint64_t checkpoints = 0;
    std::uint64_t steps = 0;
    //! What it occupies: on disk, or the payload for a store in memory.
    std::uint64_t bytes = 0;
};

//! Where checkpoints live.
//!
//! Every function may be called from several threads at once, blocks until it is done, and throws
//! waymark::error when it fails. What a backend promises:
//!
//! 1. What `save` reported as saved stays, also if the process is killed (and, where the backend is durable,
//!    the power fails).
//! 2. Absence is a value: `std::nullopt`, `false`, an empty list. A store that cannot be read is an error,
//!    never a shorter list.
//! 3. A checkpoint is whole or absent. The requests of a batch are applied in order, each with an outcome of
//!    its own; if the batch as a whole fails, `save` throws. A failure before the commit leaves the store as
//!    it was; one at the commit is `errc::outcome_unknown`.
//! 4. Saving an existing key replaces its content and keeps its sequence and its pin.
//! 5. Ids, names and metadata keys are data, and compared byte by byte.
//! 6. What is not valid (see `validate`) is refused before anything is written.
//!
//! `waymark::testing` has a conformance suite that checks a backend against these.
//! docs/writing-a-backend.md shows how to write one.
class store {
public:
    store();
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    virtual ~store();

    //! Saves a batch; durable when it returns. One outcome for each request, in order.
    virtual std::vector<save_outcome> save(std::span<const save_request> batch) = 0;
    //! Saves one. @throws waymark::error with the outcome's error
    save_result save(const checkpoint& checkpoint, const save_options& options = {});

    virtual std::optional<checkpoint> load(std::string_view agent_id, std::string_view scope,
                                           std::string_view id) = 0;
    //! Finds an id in any agent and scope. Two matches are `errc::conflict`.
    virtual std::optional<checkpoint> load(std::string_view id) = 0;
    //! The head: the checkpoint with the highest sequence.
    virtual std::optional<checkpoint> load_latest(std::string_view agent_id, std::string_view scope = {}) = 0;

    virtual std::vector<checkpoint_header> list(const query& query) = 0;
    virtual std::vector<checkpoint> load_all(const query& query) = 0;
    //! Loads checkpoints by their keys, for those who go through a long history page by page. One outcome for
    //! each key, in order; a checkpoint that is damaged fails alone. There are fewer outcomes than keys once
    //! the checkpoints take about `about_bytes` (what they share counts once), but never none.
    //!
    //! `earlier` are checkpoints that this store gave before, such as the last one of the page before: what
    //! the next ones share with them need not be read again. By default, calls `load` for each key.
    //! @throws waymark::error `invalid_argument` for a key that no store can hold.
    virtual std::vector<load_outcome> load_some(std::span<const checkpoint_key> keys,
                                                std::span<const checkpoint> earlier, std::size_t about_bytes);
    virtual std::uint64_t count(const query& query) = 0;
    //! Agents that have checkpoints or steps, byte by byte in order, those behind `after`.
    virtual std::vector<std::string> list_agents(std::string_view after = {}, std::size_t limit = 1000) = 0;

    //! Removes one checkpoint, pinned or not, and the steps that were made on it or later if no later
    //! checkpoint of the scope is left. Returns whether it was there. A short write: what only that
    //! checkpoint needed may stay until `sweep`.
    virtual bool erase(std::string_view agent_id, std::string_view scope, std::string_view id) = 0;
    //! Removes all checkpoints and steps of one scope, oldest first. Returns how many checkpoints there were.
    virtual std::uint64_t erase_scope(std::string_view agent_id, std::string_view scope,
                                      const upkeep_control& control = {}) = 0;
    //! Removes everything of an agent, all scopes, steps and pins. Returns how many checkpoints there were. A
    //! short write, however much that is: nobody finds the agent any more, and `sweep` removes the rest.
    virtual std::uint64_t erase_agent(std::string_view agent_id) = 0;
    //! Copies all scopes, steps and pins, with ids and order. `errc::not_found` without an origin,
    //! `errc::conflict` if the target exists. Returns how many checkpoints. Nobody sees the copy before it is
    //! whole. `errc::busy` if checkpoints of the origin are replaced or removed all the time.
    virtual std::uint64_t copy_agent(std::string_view from, std::string_view to,
                                     const upkeep_control& control = {}) = 0;

    virtual prune_result prune(std::string_view agent_id, const retention& policies, dry_run dry,
                               const upkeep_control& control = {}) = 0;
    //! Pins or unpins. Returns whether the checkpoint exists.
    virtual bool pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned) = 0;

    //! Records steps, new or in place of the ones with the same key; durable when it returns. A step whose
    //! checkpoint does not exist is `errc::not_found`, unless it was recorded with that checkpoint before or
    //! is `restored`.
    virtual std::vector<step_outcome> put_steps(std::span<const step_request> batch) = 0;
    //! Does what `save` does and then what `put_steps` does, in one commit if the backend has those; durable
    //! when it returns. One outcome for each request, in order. By default, calls the two: what the second
    //! throws is then the outcome of each step.
    virtual commit_outcomes commit(std::span<const save_request> saves, std::span<const step_request> steps);
    virtual std::vector<step> load_steps(const step_query& query) = 0;
    //! Removes the record of one step, as if it had never begun; with an attempt, only while the step is
    //! pending and that attempt's. Returns whether it was removed.
    virtual bool erase_step(std::string_view agent_id, std::string_view scope, std::string_view key,
                            const std::optional<std::string>& attempt = std::nullopt) = 0;

    //! After a call for this agent ended with `errc::outcome_unknown`: returns when nothing that was begun
    //! before can change the agent any more, so that a look at it tells what became of the call. A server may
    //! still be working on a commit whose connection was lost; a store whose calls never outlive it has
    //! nothing to wait for, which is the default.
    //! @throws waymark::error `busy`, `unavailable`, …: it is still unknown; try again
    virtual void await_outcome(std::string_view agent_id);

    //! Re-reads everything and reports what is damaged.
    virtual verify_report verify(const upkeep_control& control = {}) = 0;
    //! Removes what erasures have left: of this agent what no checkpoint needs any more, and the rest of
    //! agents that were erased as a whole. By default does nothing, for stores whose erasures leave nothing.
    virtual void sweep(std::string_view agent_id, const upkeep_control& control = {});
    //! Sweeps everything, and gives space back. Returns how many bytes. A copy that was never finished,
    //! because its process was killed, is swept when it has stood still for an hour.
    virtual std::uint64_t compact(const upkeep_control& control = {}) = 0;
    virtual store_stats stats() = 0;
    //! What it holds of one agent; `bytes` is what its checkpoints take, without steps and free space.
    virtual store_stats stats(std::string_view agent_id) = 0;
    //! How many threads can usefully save at once, at least 1.
    virtual std::size_t write_lanes() const noexcept = 0;
    //! What it accepts; the default limits unless it says otherwise. `async_store` refuses what is too large
    //! for them before it is queued.
    virtual const waymark::limits& accepted_limits() const noexcept;

    //! A random number that tells this object from all others. Conversations remember it with what is stored.
    std::uint64_t identity() const noexcept { return identity_; }

private:
    const std::uint64_t identity_;
};

} // namespace waymark
