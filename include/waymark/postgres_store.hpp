//! Checkpoints in a PostgreSQL database: for a fleet of machines. CMake target `waymark::postgres`.
#pragma once

#include <waymark/detail/table_store.hpp>
#include <waymark/durability.hpp>
#include <waymark/store_observer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace waymark {

//! Whether a store makes its tables.
enum class migration {
    if_needed, //!< makes them in an empty schema, and brings those of an older version up to date
    never,     //!< touches none: they were made with the SQL of postgres_store::ddl() or upgrade_ddl()
};

//! Options of postgres_store.
class postgres_options {
public:
    postgres_options() = default;

    // clang-format off
    //! The schema that holds the tables. Default: "waymark".
    //! @throws waymark::error `invalid_argument` unless the name has 1 to 63 bytes and no NUL.
    postgres_options& with_schema(std::string name);
    //! Default: `if_needed`.
    postgres_options& with_migration(waymark::migration allowed) noexcept
    { migration_ = allowed; return *this; }
    //! How many partitions the tables are made with, by hash of the agent's id; 0: none. Default: 0.
    postgres_options& with_partitions(std::size_t count) noexcept { partitions_ = count; return *this; }
    //! How many transactions write at the same time, each on a connection of its own. An async_store spreads
    //! its agents over them. Loads use further connections. Default: 4.
    //! @throws waymark::error `invalid_argument` if it is 0.
    postgres_options& with_write_lanes(std::size_t count);
    //! For each host of the connection string, unless that says `connect_timeout`; at least 2 seconds.
    //! Default: 5 seconds.
    postgres_options& with_connect_timeout(std::chrono::milliseconds timeout) noexcept;
    //! For each statement, and for each answer of the server. A statement that writes more than 4 MiB, or
    //! loads a checkpoint that holds more, has a second more for each MiB. Default: 30 seconds.
    //! @throws waymark::error `invalid_argument` if it is not above 0, or above a day.
    postgres_options& with_statement_timeout(std::chrono::milliseconds timeout);
    //! How long a transaction is repeated that failed for a passing reason (a lost connection, a restart, a
    //! failover, a serialization failure); 0: never, at most a day. Default: 30 seconds.
    postgres_options& with_retry_for(std::chrono::milliseconds time) noexcept;
    //! `full`: `synchronous_commit` is `on` in our transactions, or the server's setting if that is stronger.
    //! `relaxed`: it is `off`; a crash of the server may lose the newest saves. Default: `full`.
    postgres_options& with_durability(waymark::durability level) noexcept
    { durability_ = level; return *this; }
    //! Keeps prepared statements on the server: small batches cost less. Not for a pooler in transaction mode
    //! that does not support them. Default: off.
    postgres_options& with_prepared_statements(bool keep = true) noexcept
    { prepares_statements_ = keep; return *this; }
    postgres_options& with_limits(waymark::limits bounds) noexcept { limits_ = bounds; return *this; }
    //! Told of connections, and of transactions that are run again. Give it to the
    //! async_store, too. Default: none.
    postgres_options& with_observer(std::shared_ptr<store_observer> observer) noexcept
    { observer_ = std::move(observer); return *this; }
    // clang-format on

    const std::string& schema() const noexcept { return schema_; }
    waymark::migration migration() const noexcept { return migration_; }
    std::size_t partitions() const noexcept { return partitions_; }
    std::size_t write_lanes() const noexcept { return write_lanes_; }
    std::chrono::milliseconds connect_timeout() const noexcept { return connect_timeout_; }
    std::chrono::milliseconds statement_timeout() const noexcept { return statement_timeout_; }
    std::chrono::milliseconds retry_for() const noexcept { return retry_for_; }
    waymark::durability durability() const noexcept { return durability_; }
    bool prepares_statements() const noexcept { return prepares_statements_; }
    const waymark::limits& limits() const noexcept { return limits_; }
    const std::shared_ptr<store_observer>& observer() const noexcept { return observer_; }

private:
    std::string schema_ = "waymark";
    waymark::migration migration_ = waymark::migration::if_needed;
    std::size_t partitions_ = 0;
    std::size_t write_lanes_ = 4;
    std::chrono::milliseconds connect_timeout_ = std::chrono::seconds(5);
    std::chrono::milliseconds statement_timeout_ = std::chrono::seconds(30);
    std::chrono::milliseconds retry_for_ = std::chrono::seconds(30);
    waymark::durability durability_ = waymark::durability::full;
    bool prepares_statements_ = false;
    waymark::limits limits_;
    std::shared_ptr<store_observer> observer_;
};

//! A store in a PostgreSQL database, which any number of processes on any number of machines may use at once.
//!
//! A batch of saves is one transaction and a constant number of round trips, whatever its size. Agents are
//! independent of each other: every row is found by its agent, and writers of different agents never wait for
//! each other. Nothing is bound to a server session, so that a pooler may stand between.
//!
//! When a connection is lost, a transaction is run again on another one, for `retry_for`. If it was lost in
//! the middle of a commit, the checkpoints are looked up by key and sequence first; only if that does not
//! tell, or cannot be done in time, the outcome is `errc::outcome_unknown`.
//!
//! Thread safety: all functions may be called concurrently. Do not use an object in a child after `fork()`.
class postgres_store final : public detail::table_store {
public:
    //! Connects, and makes the tables if that is needed and allowed.
    //! @param conninfo A connection string of libpq: "postgresql://user@host1,host2/database?sslmode=…" or
    //! "host=… dbname=…". With several hosts, the one that takes writes is used.
    //! @throws waymark::error `invalid_argument` (a connection string that cannot be read, no tables, no
    //! right to make them), `unsupported_format` (tables of a newer version; left untouched), `unavailable`,
    //! `io`. No message contains a password of the connection string.
    explicit postgres_store(const std::string& conninfo, const postgres_options& options = {});
    ~postgres_store() override;

    //! The SQL that makes the tables, for a role that may. Of the options, the schema and the partitions
    //! matter.
    static std::string ddl(const postgres_options& options = {});
    //! The SQL that takes tables of an older format to the present one; nothing if they have it. The number
    //! is in the table `format`. To be run in one transaction, after the services that use the tables were
    //! stopped.
    //! @throws waymark::error `invalid_argument` if there is no such format.
    static std::string upgrade_ddl(std::int64_t from, const postgres_options& options = {});
};

} // namespace waymark
