//! The rows of a database that holds checkpoints, and what can be asked of it. A backend (SQLite, PostgreSQL)
//! implements the two interfaces with SQL and nothing else; everything that decides is in this folder.
#pragma once

#include "digest.hpp"
#include "extents.hpp"

#include <waymark/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::storage {

// Rows. `check` is the first half of a SHA-256 over everything else in the row (records.cpp). Messages and
// objects carry whole digests instead, which their checkpoints refer to.

struct agent_row {
    std::int64_t number = 0; // never used again, not even after the agent was erased
    std::string id;
    std::int64_t last_sequence = 0;
    std::int64_t next_message = 1;
    std::int64_t next_object = 1;
    std::int64_t scopes = 0; // how many records of scopes there are
    // Marks, see new_mark. While one stands, nothing of the kind has happened; a counter could not say that
    // of a database that went back to a backup and counted on.
    std::int64_t sweeps = 0;       // set when messages are removed
    std::int64_t changes = 0;      // set when a checkpoint is replaced or removed
    std::int64_t stamp = 0;        // set by every transaction that writes the record
    std::int64_t stamp_before = 0; // what it was when the transaction began; not stored
    bool has_garbage = false;      // something may be unreachable
    std::string check;

    //! Whether the agent is as it was when it had that stamp.
    bool is_as_with(std::int64_t seen) const noexcept
    {
        return seen != 0 && (seen == stamp || seen == stamp_before);
    }
};

//! A number that no transaction has used before, nor will.
std::int64_t new_mark();

//! An agent that nobody finds any more; its rows are being removed.
struct erased_agent {
    std::string id; // empty where the number is enough
    std::int64_t number = 0;
};

//! What is there, so that a vanished row is noticed. A scope without content has no row.
struct scope_row {
    std::int64_t agent = 0;
    std::string scope;
    std::int64_t checkpoints = 0;
    std::int64_t head = 0; // a sequence; 0: none
    std::int64_t steps = 0;
    std::string check;
};

struct checkpoint_row {
    std::int64_t agent = 0;
    std::int64_t sequence = 0;
    std::string scope;
    std::string id;
    std::optional<std::string> parent;
    std::string name;
    std::int64_t iteration = 0;
    std::int64_t created_at = 0; // microseconds since 1970
    std::int64_t messages = 0;
    std::string metadata; // JSON; empty: {}
    std::string chain;    // the digest of the conversation, see storage::chain
    std::string body;     // see body.hpp
    bool pinned = false;
    std::int64_t stored_bytes = 0;
    std::int64_t content_bytes = 0; // see checkpoint_header; 0: not noted
    std::string check;
};

//! Consecutive messages, one JSON text a line.
struct message_row {
    std::int64_t agent = 0;
    std::int64_t first = 0;
    // A SHA-256 for each message. Behind them 8 bytes: a checksum of them and the body, so that a load needs
    // not hash each message again. Rows that were written before there was one have none.
    std::string digests;
    std::string body;
    std::int64_t stamp = 0; // the agent's, of the transaction that wrote it; 0: from before there were any

    std::int64_t count() const noexcept { return static_cast<std::int64_t>(digests.size() / 32); }
    extent numbers() const noexcept { return {first, count()}; }
    std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(digests.size() + body.size()); }
    std::string_view digest_at(std::int64_t index) const
    {
        return std::string_view(digests).substr(static_cast<std::size_t>(index) * 32, 32);
    }
};

struct object_row {
    std::int64_t agent = 0;
    std::int64_t number = 0;
    std::string hash; // SHA-256 of the body
    std::string body;

    std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(hash.size() + body.size()); }
};

struct step_row {
    std::int64_t agent = 0;
    std::string scope;
    std::string key;
    std::optional<std::string> checkpoint;
    std::int64_t made_on = 0; // the sequence of its checkpoint; 0: none
    std::int64_t started_at = 0;
    std::optional<std::string> result; // JSON; none: pending
    std::string attempt;               // empty: from before there were any
    std::string check;
};

std::string checksum(const agent_row& row);
std::string checksum(const scope_row& row);
std::string checksum(const checkpoint_row& row);
std::string checksum(const step_row& row);

//! Adds the checksum to a row whose messages are complete.
void seal(message_row& row);
bool has_checksum(const message_row& row) noexcept;
//! Whether it has a checksum, and that is right.
bool is_intact(const message_row& row);

template <class Row>
bool is_intact(const Row& row)
{
    return row.check == checksum(row);
}

template <class Row>
Row&& seal(Row&& row)
{
    row.check = checksum(row);
    return std::forward<Row>(row);
}

//! What a checkpoint's row counts for in `stored_bytes` and retention.
std::int64_t row_bytes(const checkpoint_row& row) noexcept;

//! A part of an agent's history, both borders exclusive.
struct scan_range {
    std::optional<std::int64_t> above;
    std::optional<std::int64_t> below;
    std::optional<std::string> scope;
    bool newest_first = false;
};

struct question;

template <class Row>
using visitor = std::function<bool(Row&&)>; // false: enough

struct totals {
    std::uint64_t agents = 0;
    std::uint64_t checkpoints = 0;
    std::uint64_t steps = 0;
};

//! A transaction: the tables as it sees them, until it is committed. One that goes without that is undone.
class tables {
public:
    virtual ~tables() = default;

    //! Durable when it returns; nothing may be asked of the tables any more. A transaction that only reads
    //! is committed, too: one that is not is taken for failed.
    //! @throws waymark::error `outcome_unknown` if it cannot be known whether it took place; after any other
    //! failure nothing was written.
    virtual void commit() = 0;

    //! The number of this transaction, and whether it is certain that nobody has written since another one
    //! was committed: what that one read and wrote is still as it was. 0: transactions run side by side, and
    //! nothing is certain.
    virtual std::uint64_t number() const noexcept = 0;
    virtual bool follows(std::uint64_t transaction) = 0;

    //! What the database reads and writes at once.
    virtual std::size_t page_bytes() const noexcept = 0;
    //! For databases that each question is a trip to: see questions.hpp, whose `expect` asks this first.
    virtual bool asks_together() const noexcept { return false; }
    virtual void expect(std::span<const question> /*questions*/) {}
    //! False after an error of the database that ends the transaction.
    virtual bool is_usable() const noexcept { return true; }

    // Functions that take the number of an agent are for agents whose row was read in this transaction.

    virtual std::optional<agent_row> find_agent(std::string_view id) = 0;
    //! Agents that have content, by id.
    virtual std::vector<agent_row> agents_after(std::string_view id, std::size_t limit) = 0;
    //! The ids of those that have something unreachable, in order.
    virtual std::vector<std::string> agents_with_garbage(std::string_view after, std::size_t limit) = 0;
    virtual std::int64_t add_agent(std::string_view id) = 0;
    //! Everything but the id, which never changes.
    virtual void put_agent(const agent_row& row) = 0;

    //! Nobody finds it by its id any more; its rows stay until they are removed.
    virtual erased_agent erase_agent(const agent_row& row) = 0;
    virtual std::vector<erased_agent> erased_agents(std::size_t limit) = 0;
    //! Removes about so many of its rows. Returns whether any were left.
    virtual bool remove_rows(const erased_agent& agent, std::size_t about) = 0;
    virtual void forget(const erased_agent& agent) = 0;

    virtual std::optional<scope_row> find_scope(std::int64_t agent, std::string_view scope) = 0;
    virtual std::vector<scope_row> scopes_of(std::int64_t agent) = 0;
    virtual std::int64_t count_scopes(std::int64_t agent) = 0;
    //! After find_scope has found nothing: makes sure that no record of the agent stands under a damaged
    //! name, where nobody else would notice. @throws waymark::error `corrupt`
    virtual void confirm_absence_of_scope(const agent_row& /*agent*/) {}
    virtual void put_scope(const scope_row& row) = 0;
    virtual void remove_scope(std::int64_t agent, std::string_view scope) = 0;

    virtual std::optional<checkpoint_row> find_checkpoint(std::int64_t agent, std::string_view scope,
                                                          std::string_view id) = 0;
    //! After find_checkpoint has found nothing: looks at the rows themselves, where an index may be damaged
    //! without anyone having noticed. @throws waymark::error `corrupt`
    virtual void confirm_absence(std::int64_t /*agent*/, std::string_view /*scope*/, std::string_view /*id*/)
    {
    }
    virtual std::optional<checkpoint_row> checkpoint_at(std::int64_t agent, std::int64_t sequence) = 0;
    //! Whatever their scope.
    virtual std::vector<checkpoint_row> checkpoints_of(std::int64_t agent, std::string_view id) = 0;
    //! Agents that have a checkpoint with that id, one for each.
    virtual std::vector<std::string> owners_of(std::string_view id, std::size_t limit) = 0;
    virtual void scan_checkpoints(std::int64_t agent, const scan_range& range,
                                  const visitor<checkpoint_row>& visit) = 0;
    virtual std::int64_t count_checkpoints(std::int64_t agent, std::string_view scope) = 0;
    //! 0 if there is none.
    virtual std::int64_t newest_sequence(std::int64_t agent, std::string_view scope) = 0;
    //! Returns false, and does nothing, if the key exists.
    virtual bool insert_checkpoint(const checkpoint_row& row) = 0;
    //! Found by agent, scope and id. @throws waymark::error `corrupt` if it is not there.
    virtual void update_checkpoint(const checkpoint_row& row) = 0;
    virtual void remove_checkpoint(std::int64_t agent, std::string_view scope, std::string_view id) = 0;

    //! Rows that hold any of these messages, range by range, in order. `visit` is told which range.
    virtual void read_messages(std::int64_t agent, std::span<const extent> ranges,
                               const std::function<void(std::size_t range, message_row&& row)>& visit) = 0;
    struct message_size {
        extent numbers;
        std::int64_t bytes = 0;
    };
    //! The same without reading bodies.
    virtual void message_sizes(std::int64_t agent, std::span<const extent> ranges,
                               const std::function<void(std::size_t range, message_size row)>& visit) = 0;
    //! Of the row that holds the message; none if no row does.
    virtual std::optional<std::int64_t> message_stamp(std::int64_t agent, std::int64_t number) = 0;
    virtual void insert_messages(const message_row& row) = 0;
    virtual void remove_messages(std::int64_t agent, std::int64_t first) = 0;

    //! The newest with that hash.
    virtual std::optional<std::int64_t> find_object(std::int64_t agent, std::string_view hash) = 0;
    virtual void read_objects(std::int64_t agent, std::span<const std::int64_t> numbers,
                              const visitor<object_row>& visit) = 0;
    virtual void scan_objects(std::int64_t agent, const visitor<object_row>& visit) = 0;
    struct object_size {
        std::int64_t number = 0;
        std::int64_t bytes = 0;
    };
    virtual void object_sizes(std::int64_t agent, const visitor<object_size>& visit) = 0;
    virtual void insert_object(const object_row& row) = 0;
    virtual void remove_object(std::int64_t agent, std::int64_t number) = 0;

    virtual std::optional<step_row> find_step(std::int64_t agent, std::string_view scope,
                                              std::string_view key) = 0;
    //! By scope and key.
    virtual void scan_steps(std::int64_t agent, const std::optional<std::string>& scope,
                            const visitor<step_row>& visit) = 0;
    //! Those without a result, whatever the number of the others; in no order.
    virtual void scan_pending_steps(std::int64_t agent, std::string_view scope,
                                    const visitor<step_row>& visit) = 0;
    virtual std::int64_t count_steps(std::int64_t agent, std::string_view scope) = 0;
    virtual void put_step(const step_row& row) = 0;
    //! Returns whether it was there.
    virtual bool remove_step(std::int64_t agent, std::string_view scope, std::string_view key) = 0;
    //! Those made on a later checkpoint than this. Returns how many.
    virtual std::int64_t remove_steps_after(std::int64_t agent, std::string_view scope,
                                            std::int64_t sequence) = 0;

    //! Messages and objects, as they are.
    virtual void copy_content(std::int64_t from, std::int64_t to) = 0;

    virtual totals count_all() = 0;
    //! Messages and objects, or about as many: for a look at how far something is.
    virtual std::uint64_t estimate_content() = 0;
    //! What the database itself finds wrong with its file.
    virtual std::vector<std::string> check_structure() = 0;
};

//! Whether a transaction that failed is run again, see `repeat`.
class retries {
public:
    virtual ~retries() = default;

    //! Returns when it is time for the next attempt. @throws what is being handled, if there is to be none.
    virtual void wait_after(const error& failure) = 0;
};

using agent_ids = std::span<const std::string_view>;

//! Begins transactions.
class database {
public:
    virtual ~database() = default;

    //! A consistent view that nobody's writing disturbs. `agents` are those that it is about, if they are
    //! known.
    virtual std::unique_ptr<tables> begin_read(agent_ids agents = {}) = 0;
    //! A transaction that is alone in writing to these agents, until it is destroyed.
    virtual std::unique_ptr<tables> begin_write(agent_ids agents) = 0;

    //! Null where a transaction that failed has failed. A server may be away for a moment, or ask for
    //! another attempt.
    virtual std::unique_ptr<retries> make_retries() { return nullptr; }
    //! Whether a commit may take place, even later, without our learning of it: see lost_commits.hpp.
    virtual bool loses_commits() const noexcept { return false; }

    //! The longest value that fits into a row.
    virtual std::size_t largest_value() const noexcept = 0;
    //! Gives space back to the operating system. Returns how many bytes.
    virtual std::uint64_t shrink() = 0;
    virtual std::uint64_t bytes() = 0;
    virtual std::size_t write_lanes() const noexcept = 0;
};

} // namespace waymark::storage
