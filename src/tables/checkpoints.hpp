//! Saving and loading checkpoints, inside transactions that others begin and end.
#pragma once

#include "agent_records.hpp"
#include "body.hpp"
#include "lost_commits.hpp"
#include "stored_conversation.hpp"

#include <waymark/store.hpp>

#include <map>
#include <span>
#include <vector>

namespace waymark::tables {

//! Whether to rely on what is stored. `no` stores everything anew, where something was found damaged.
enum class trust : bool { no, yes };

//! The saves of one transaction. It has to go before the transaction does: what conversations remember of one
//! that was not committed is void before anyone else can write to their agents.
class saver {
public:
    //! `store_number` tells store objects apart, see storage_place. `written` is where to note what is
    //! written; null if the commit cannot be lost.
    saver(transaction& in, agent_records& records, std::uint64_t store_number, std::size_t largest_value,
          std::vector<written_checkpoint>* written) noexcept
        : tables_(in),
          records_(records),
          store_number_(store_number),
          largest_value_(largest_value),
          written_(written)
    {
    }
    saver(const saver&) = delete;
    saver& operator=(const saver&) = delete;
    ~saver();

    //! Asks together for what saving the valid ones of a batch will ask for one by one, if that is of use.
    void prepare(std::span<const save_request> batch, std::span<const std::size_t> valid);
    //! @throws waymark::error; nothing of this checkpoint is written then, unless `is_broken`.
    save_result save(const save_request& request);
    //! Whether a failure came too late: the transaction has to be undone.
    bool is_broken() const noexcept { return writing_; }
    //! Before the commit.
    void finish() { records_.write(); }
    //! When it was committed: from now on others may rely on what conversations remember of it.
    void confirm() noexcept;

private:
    class new_objects;

    enum class comparison { same, different, unreadable };
    comparison compare(const checkpoint_row& existing, const checkpoint& wanted, const agent_row& agent);
    //! The id of the head that a condition is about. @throws waymark::error `corrupt` if it is missing.
    std::string find_head(const save_request& request, const agent_row& agent, const scope_row& scope);
    placed_conversation place(const checkpoint& wanted, const agent_row& agent, const scope_row* scope,
                              trust in_stored, new_objects& objects);
    bool may_have_relatives(const checkpoint& wanted, const known_part& known, const scope_row& scope) const;
    std::vector<extent_list> related_to(const checkpoint& wanted, const agent_row& agent,
                                        const scope_row* scope, const known_part& known);
    std::optional<save_result> write(const checkpoint& wanted, placed_conversation& placed,
                                     new_objects& objects, const checkpoint_row* existing);
    void remember(const checkpoint& wanted, const agent_row& agent, std::int64_t sequence,
                  placed_conversation& placed);
    void prepare_records(std::span<const save_request* const> batch);
    void prepare_conversations(std::span<const save_request* const> batch);
    void prepare_objects(std::span<const save_request* const> batch);

    transaction& tables_;
    agent_records& records_;
    std::uint64_t store_number_;
    std::size_t largest_value_;
    std::vector<written_checkpoint>* written_;
    std::vector<const remembered_prefix*> remembered_;                          // each with a reference
    std::vector<std::pair<std::shared_ptr<history_line>, std::int64_t>> lines_; // and where they will be
    bool writing_ = false;
    bool is_committed_ = false;
    last_read compared_;
};

//! The whole checkpoint. @throws waymark::error `corrupt` that names it.
checkpoint load_checkpoint(const checkpoint_row& row, const agent_row& agent, std::uint64_t store_number,
                           transaction& from);
//! The same for one of several, which share what they have in common.
checkpoint load_checkpoint(const checkpoint_row& row, const agent_row& agent, std::uint64_t store_number,
                           transaction& from, last_read& last);

//! Loads checkpoints one after the other. What one has in common with the last one of its scope is neither
//! read nor held twice.
class history_reader {
public:
    //! `earlier` are checkpoints that were loaded before, in other transactions.
    history_reader(transaction& from, std::uint64_t store_number,
                   std::span<const checkpoint> earlier = {}) noexcept
        : tables_(from), store_number_(store_number), earlier_(earlier)
    {
    }

    //! Asks together for what loading these, all of one agent, will ask for.
    void prepare(std::span<const checkpoint_row> rows, const agent_row& agent);
    //! @throws waymark::error `corrupt` that names it.
    checkpoint load(const checkpoint_row& row, const agent_row& agent);
    //! The payload of what was loaded so far. What checkpoints share counts once.
    std::size_t bytes() const noexcept { return bytes_; }

private:
    last_read& last_of(const std::string& scope, const agent_row& agent);

    transaction& tables_;
    std::uint64_t store_number_;
    std::span<const checkpoint> earlier_;
    std::int64_t agent_ = 0;
    std::map<std::string, last_read> last_; // by scope, of that agent
    std::size_t bytes_ = 0;
};

//! What lists show. A row that cannot be read becomes a header that says so.
checkpoint_header read_header(const checkpoint_row& row, const agent_row& agent);

//! "checkpoint 'c7' of agent 'planner'"
std::string describe(const checkpoint_row& row, const agent_row& agent);

timestamp to_timestamp(std::int64_t microseconds) noexcept;
std::int64_t to_number(timestamp time) noexcept;

} // namespace waymark::tables
