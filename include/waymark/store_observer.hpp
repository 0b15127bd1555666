//! What happens in a store: counted, measured, and told to a log.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace waymark {

//! What is asked of an async_store, by itself or through its sessions.
enum class store_operation : unsigned char {
    save,
    step, //!< the beginning or the end of one, or its removal
    load,
    list, //!< and counts
    stats,
    erase,
    pin,
    prune,
    sweep, //!< removing what erasures have left
    copy,
    verify,
    compact,
    export_lines,
    import_lines,
    flush,
    open, //!< see async_open
};
inline constexpr std::size_t store_operations = 16;

//! "save", "export", …
std::string_view to_string(store_operation operation) noexcept;

//! How many values of which size were seen. Small values are counted exactly, others in steps of a quarter of
//! a power of two, so that a quantile is at most a quarter too high.
class histogram {
public:
    static constexpr std::size_t buckets = 252;

    std::uint64_t count() const noexcept { return count_; }
    std::uint64_t sum() const noexcept { return sum_; }
    std::uint64_t largest() const noexcept { return largest_; }
    //! How many values are in a bucket.
    std::uint64_t in_bucket(std::size_t bucket) const noexcept { return in_buckets_[bucket]; }
    //! The largest value that belongs into a bucket.
    static std::uint64_t upper_bound(std::size_t bucket) noexcept;
    static std::size_t bucket_of(std::uint64_t value) noexcept;
    //! A value that this fraction of all values does not exceed; 0 if there are none.
    //! @pre 0 <= fraction <= 1
    std::uint64_t quantile(double fraction) const noexcept;

    //! What came since an earlier look. The largest value is then known as well as a quantile.
    friend histogram operator-(histogram now, const histogram& earlier) noexcept;

private:
    friend class store_observer;

    std::array<std::uint64_t, buckets> in_buckets_{};
    std::uint64_t count_ = 0;
    std::uint64_t sum_ = 0;
    std::uint64_t largest_ = 0;
};

//! What became of all operations of one kind.
struct operation_figures {
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
    std::uint64_t aborted = 0; //!< cancelled, or their store was destroyed, before they began
    histogram latency;         //!< nanoseconds, from the start until it was durable or had failed
};

//! What a store_observer has seen so far.
struct store_figures {
    std::array<operation_figures, store_operations> operations;
    histogram batches;               //!< operations that shared a commit
    histogram commits;               //!< nanoseconds from the beginning of a batch to its end
    histogram queue_depths;          //!< writes that were queued or under way when one was started
    std::uint64_t overloaded = 0;    //!< operations that found no room
    std::uint64_t bytes_written = 0; //!< by saves
    histogram busy_waits;            //!< SQLite: nanoseconds that a transaction waited for another process
    std::uint64_t connections = 0;   //!< PostgreSQL: opened
    std::uint64_t connections_lost = 0;
    std::uint64_t lost_commits = 0; //!< PostgreSQL: whose acknowledgement was lost; they are looked up
    std::uint64_t retries = 0;      //!< PostgreSQL: transactions that were run again

    const operation_figures& of(store_operation operation) const noexcept
    {
        return operations[static_cast<std::size_t>(operation)];
    }

    //! What came since an earlier look: the last second, say.
    friend store_figures operator-(store_figures now, const store_figures& earlier) noexcept;
};

enum class log_level : unsigned char {
    debug, //!< every operation
    info,  //!< upkeep that has ended; operations that were refused for a reason of their own: a conflict, say
    warning, //!< trouble that passes: retries, lost connections, a busy or full store
    error,   //!< what someone should look at: damage, I/O errors, unknown outcomes, a store out of use
};

//! "debug", …
std::string_view to_string(log_level level) noexcept;

//! One line of the log. It names agents and checkpoints, and never what they contain. Valid during the call.
class log_record {
public:
    log_record(log_level level, std::string_view operation, std::string_view agent_id,
               std::string_view message) noexcept
        : level_(level), operation_(operation), agent_id_(agent_id), message_(message)
    {
    }

    log_level level() const noexcept { return level_; }
    //! What was asked for; empty if nothing was: a connection was lost, say.
    std::string_view operation() const noexcept { return operation_; }
    //! Empty if it is about no agent, or about all of them.
    std::string_view agent_id() const noexcept { return agent_id_; }
    std::string_view message() const noexcept { return message_; }

private:
    log_level level_;
    std::string_view operation_;
    std::string_view agent_id_;
    std::string_view message_;
};

//! "warning: save of agent 'planner': …"
std::ostream& operator<<(std::ostream& to, const log_record& record);

//! Counts what happens in a store, and tells it to a log. One object may be given to a backend and to the
//! async_store in front of it (`with_observer` of their options), and to several of both.
//!
//! Counting takes 0.1 to 0.2 microseconds an operation, and no memory. Without an observer nothing is
//! measured.
//!
//! Thread safety: `figures` may be called at any time. `on_log` must be called before a store uses the
//! object.
class store_observer {
public:
    using log_function = std::function<void(const log_record&)>;

    store_observer();
    store_observer(const store_observer&) = delete;
    store_observer& operator=(const store_observer&) = delete;
    ~store_observer();

    //! Has `log` called for everything that is at least as severe as `least`, on a thread of the store,
    //! perhaps on several at once. It must neither wait nor call the store; what it throws is ignored.
    store_observer& on_log(log_level least, log_function log);
    //! What it has seen. Taken while others count, the figures may be some operations apart from each other.
    store_figures figures() const;

    // For async_store and backends

    //! An operation has ended. `code` is empty after a success; `details` says how it failed.
    void ended(store_operation operation, std::string_view agent_id, std::chrono::nanoseconds latency,
               std::error_code code, std::string_view details) noexcept;
    //! It was cancelled, or its store was destroyed, before it began.
    void aborted(store_operation operation) noexcept;
    void batch_ended(std::size_t operations, std::chrono::nanoseconds took) noexcept;
    void write_started(std::size_t queue_depth) noexcept;
    void wrote(std::uint64_t bytes) noexcept;
    void waited_for_others(std::chrono::nanoseconds time) noexcept;
    void connected() noexcept;
    void lost_connection(std::string_view why) noexcept;
    void lost_commit(std::string_view why) noexcept;
    void retries_after(std::string_view failure, std::chrono::milliseconds pause) noexcept;
    //! Something that is no operation has happened.
    void log(log_level level, std::string_view message) noexcept;

private:
    class counters;

    bool logs(log_level level) const noexcept { return log_ && level >= least_; }
    void tell(const log_record& record) const noexcept;

    std::unique_ptr<counters> counters_;
    log_level least_ = log_level::error;
    log_function log_;
};

} // namespace waymark
