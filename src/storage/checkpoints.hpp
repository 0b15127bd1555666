//! Saving and loading checkpoints, inside transactions that others begin and end.
#pragma once

#include "body.hpp"
#include "ledger.hpp"
#include "stored_conversation.hpp"

#include <waymark/store.hpp>

#include <vector>

namespace waymark::storage {

//! The saves of one transaction.
class saver {
public:
    //! `store_number` tells store objects apart, see storage_place.
    saver(tables& in, ledger& records, std::uint64_t store_number, std::size_t largest_value) noexcept
        : tables_(in), ledger_(records), store_number_(store_number), largest_value_(largest_value)
    {
    }
    saver(const saver&) = delete;
    saver& operator=(const saver&) = delete;
    ~saver();

    //! @throws waymark::error; nothing of this checkpoint is written then, unless `is_broken`.
    save_result save(const save_request& request);
    //! Whether a failure came too late: the transaction has to be undone.
    bool is_broken() const noexcept { return writing_; }
    //! Before the commit.
    void finish() { ledger_.write(); }
    //! When it was not committed: what conversations remember of it is void.
    void undo() noexcept;

private:
    class new_objects;

    enum class comparison { same, different, unreadable };
    comparison compare(const checkpoint_row& existing, const checkpoint& wanted, const agent_row& agent);
    placed_conversation place(const checkpoint& wanted, const agent_row& agent, const scope_row* scope,
                              trust in_stored);
    std::vector<extent_list> related_to(const checkpoint& wanted, const agent_row& agent,
                                        const scope_row* scope);
    std::optional<save_result> write(const checkpoint& wanted, const agent_row& before,
                                     placed_conversation& placed, const checkpoint_row* existing,
                                     trust in_stored = trust::yes);
    void remember(const checkpoint& wanted, const agent_row& agent, placed_conversation& placed);

    tables& tables_;
    ledger& ledger_;
    std::uint64_t store_number_;
    std::size_t largest_value_;
    std::vector<const remembered_prefix*> remembered_; // each with a reference
    bool writing_ = false;
    last_read compared_;
};

//! The whole checkpoint. @throws waymark::error `corrupt` that names it.
checkpoint load_checkpoint(const checkpoint_row& row, const agent_row& agent, std::uint64_t store_number,
                           tables& from);
//! The same for one of several, which share what they have in common.
checkpoint load_checkpoint(const checkpoint_row& row, const agent_row& agent, std::uint64_t store_number,
                           tables& from, last_read& last);

//! What lists show. A row that cannot be read becomes a header that says so.
checkpoint_header read_header(const checkpoint_row& row, const agent_row& agent);

//! "checkpoint 'c7' of agent 'planner'"
std::string describe(const checkpoint_row& row, const agent_row& agent);

timestamp to_timestamp(std::int64_t microseconds) noexcept;
std::int64_t to_number(timestamp time) noexcept;

} // namespace waymark::storage
