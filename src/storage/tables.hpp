//! The rows of a database that holds checkpoints, and what can be asked of it. A backend (SQLite, PostgreSQL)
//! implements the two interfaces with SQL and nothing else; everything that decides is in this folder.
#pragma once

#include "digest.hpp"
#include "extents.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
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
    std::string id;          // empty: erased, its rows are being removed
    std::int64_t last_sequence = 0;
    std::int64_t next_message = 1;
    std::int64_t next_object = 1;
    std::int64_t scopes = 0; // how many records of scopes there are
    // How often messages were removed. As long as it stands, messages that were there are there.
    std::int64_t sweeps = 0;
    std::int64_t changes = 0; // how often a checkpoint was replaced or removed
    bool has_garbage = false; // something may be unreachable
    std::string check;
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
    std::string digests; // 32 bytes for each message
    std::string body;

    std::int64_t count() const noexcept { return static_cast<std::int64_t>(digests.size() / 32); }
    std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(digests.size() + body.size()); }
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
    std::string check;
};

std::string checksum(const agent_row& row);
std::string checksum(const scope_row& row);
std::string checksum(const checkpoint_row& row);
std::string checksum(const step_row& row);

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

template <class Row>
using visitor = std::function<bool(Row&&)>; // false: enough

struct totals {
    std::uint64_t agents = 0;
    std::uint64_t checkpoints = 0;
    std::uint64_t steps = 0;
    std::uint64_t rows = 0; // with messages and objects
};

//! The tables, as one transaction sees them.
class tables {
public:
    virtual ~tables() = default;

    //! The number of this transaction, and whether it is certain that nobody has written since another one
    //! was committed: what that one read and wrote is still as it was.
    virtual std::uint64_t number() const noexcept = 0;
    virtual bool follows(std::uint64_t transaction) = 0;

    virtual std::optional<agent_row> find_agent(std::string_view id) = 0;
    virtual std::optional<agent_row> agent_with(std::int64_t number) = 0;
    //! Agents that have content, by id.
    virtual std::vector<agent_row> agents_after(std::string_view id, std::size_t limit) = 0;
    //! Those that are erased or have garbage, by number.
    virtual std::vector<agent_row> agents_to_sweep(std::int64_t after, std::size_t limit) = 0;
    virtual std::int64_t add_agent(std::string_view id) = 0;
    //! Everything but the id, which never changes.
    virtual void put_agent(const agent_row& row) = 0;
    //! Erased: nobody finds it by its id any more.
    virtual void take_id_from_agent(std::int64_t number) = 0;
    virtual void remove_agent(std::int64_t number) = 0;

    virtual std::optional<scope_row> find_scope(std::int64_t agent, std::string_view scope) = 0;
    virtual std::vector<scope_row> scopes_of(std::int64_t agent) = 0;
    virtual std::int64_t count_scopes(std::int64_t agent) = 0;
    virtual void put_scope(const scope_row& row) = 0;
    virtual void remove_scope(std::int64_t agent, std::string_view scope) = 0;

    virtual std::optional<checkpoint_row> find_checkpoint(std::int64_t agent, std::string_view scope,
                                                          std::string_view id) = 0;
    virtual std::optional<checkpoint_row> checkpoint_at(std::int64_t agent, std::int64_t sequence) = 0;
    virtual std::vector<checkpoint_row> checkpoints_with_id(std::string_view id, std::size_t limit) = 0;
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

    //! Rows that hold any of these messages, in order.
    virtual void read_messages(std::int64_t agent, extent range, const visitor<message_row>& visit) = 0;
    struct message_size {
        extent numbers;
        std::int64_t bytes = 0;
    };
    //! The same without reading bodies.
    virtual void message_sizes(std::int64_t agent, extent range, const visitor<message_size>& visit) = 0;
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
    virtual std::int64_t count_steps(std::int64_t agent, std::string_view scope) = 0;
    virtual void put_step(const step_row& row) = 0;
    //! Returns whether it was there.
    virtual bool remove_step(std::int64_t agent, std::string_view scope, std::string_view key) = 0;
    //! Those made on a later checkpoint than this. Returns how many.
    virtual std::int64_t remove_steps_after(std::int64_t agent, std::string_view scope,
                                            std::int64_t sequence) = 0;

    //! Messages and objects, as they are.
    virtual void copy_content(std::int64_t from, std::int64_t to) = 0;
    //! Removes about so many rows of an agent, of any table but the agents'. Returns whether any are left.
    virtual bool remove_rows(std::int64_t agent, std::size_t about) = 0;

    virtual totals count_all() = 0;
    //! What the database itself finds wrong with its file.
    virtual std::vector<std::string> check_structure() = 0;
};

//! Runs transactions.
class database {
public:
    virtual ~database() = default;

    //! A consistent view that nobody's writing disturbs.
    virtual void read(const std::function<void(tables&)>& body) = 0;
    //! A transaction that is alone in writing. Durable when it returns; undone when the body throws. `undone`
    //! is called when it was not committed, before anyone else writes.
    //! @throws waymark::error `outcome_unknown` if the commit itself failed.
    virtual void write(const std::function<void(tables&)>& body, const std::function<void()>& undone) = 0;
    void write(const std::function<void(tables&)>& body) { write(body, {}); }

    //! The longest value that fits into a row.
    virtual std::size_t largest_value() const noexcept = 0;
    //! Gives space back to the operating system. Returns how many bytes.
    virtual std::uint64_t shrink() = 0;
    virtual std::uint64_t bytes() = 0;
    virtual std::size_t write_lanes() const noexcept = 0;
};

} // namespace waymark::storage
