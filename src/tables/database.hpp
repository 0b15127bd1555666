//! What can be asked of a database that holds checkpoints. A backend (SQLite, PostgreSQL) implements these
//! interfaces with SQL and nothing else; everything that decides is in this folder.
#pragma once

#include "rows.hpp"

#include <waymark/error.hpp>
#include <waymark/upkeep.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::tables {

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
class transaction {
public:
    virtual ~transaction() = default;

    //! Durable when it returns; nothing may be asked of the tables any more. A transaction that only reads
    //! is committed, too: one that is not is taken for failed.
    //! @throws waymark::error `outcome_unknown` if it cannot be known whether it took place; after any other
    //! failure nothing was written.
    virtual void commit() = 0;

    //! The number of this transaction, and whether it is certain that nobody has written since another one
    //! was committed: what that one read and wrote is still as it was. 0: transactions run side by side, and
    //! nothing is certain.
    virtual std::uint64_t number() const noexcept = 0;
    virtual bool follows(std::uint64_t other) = 0;

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

    //! Nobody finds it by its id any more; its rows stay until they are removed. Takes as long for every
    //! agent.
    virtual void erase_agent(const agent_row& row) = 0;
    //! An agent that nobody finds until it is published. `time` (microseconds since 1970) tells others that
    //! it is not forgotten.
    virtual erased_agent add_hidden_agent(std::string_view id, std::int64_t time) = 0;
    //! Locks it, and sets its time. Returns false if someone has condemned it. What follows may write its
    //! rows.
    virtual bool keep_hidden_agent(const erased_agent& agent, std::int64_t time) = 0;
    //! From now on it is found as `row.id`, which no agent has.
    virtual void publish_agent(const erased_agent& agent, const agent_row& row) = 0;

    //! Those that were erased, and hidden ones from before that time.
    virtual std::vector<erased_agent> erased_agents(std::size_t limit, std::int64_t before) = 0;
    //! Locks it; a hidden one cannot be kept any more. Returns false if it is gone, or was published.
    virtual bool condemn(const erased_agent& agent) = 0;
    //! Removes some of its rows. Returns whether there were any.
    virtual bool remove_rows(const erased_agent& agent) = 0;
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
    struct message_parts {
        extent numbers;
        std::string parts; // see message_row
    };
    //! Only rows with large parts, without reading bodies either.
    virtual void large_parts(std::int64_t agent, std::span<const extent> ranges,
                             const std::function<void(std::size_t range, message_parts&& row)>& visit) = 0;
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

    virtual totals count_all() = 0;
    //! Messages and objects, or about as many: for a look at how far something is.
    virtual std::uint64_t estimate_content() = 0;
    //! What the database itself finds wrong with its file.
    //! @throws waymark::error `std::errc::operation_canceled` if it is to stop.
    virtual std::vector<std::string> check_structure(const upkeep_control& control) = 0;
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
    virtual std::unique_ptr<transaction> begin_read(agent_ids agents = {}) = 0;
    //! A transaction that is alone in writing to these agents, until it is destroyed.
    virtual std::unique_ptr<transaction> begin_write(agent_ids agents) = 0;

    //! Null where a transaction that failed has failed. A server may be away for a moment, or ask for
    //! another attempt.
    virtual std::unique_ptr<retries> make_retries() { return nullptr; }
    //! Whether a commit may take place, even later, without our learning of it: see lost_commits.hpp.
    virtual bool loses_commits() const noexcept { return false; }

    //! The longest value that fits into a row.
    virtual std::size_t largest_value() const noexcept = 0;
    //! Gives space back to the operating system. Returns how many bytes.
    virtual std::uint64_t shrink(const upkeep_control& control) = 0;
    virtual std::uint64_t bytes() = 0;
    virtual std::size_t write_lanes() const noexcept = 0;
};

} // namespace waymark::tables
