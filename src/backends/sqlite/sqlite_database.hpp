//! Connections, transactions and the log of one SQLite file.
#pragma once

#include "../../tables/database.hpp"
#include "../files.hpp"
#include "connection.hpp"
#include "fair_mutex.hpp"

#include <waymark/sqlite_store.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace waymark::sqlite {

//! One connection writes, guarded by a mutex; each reader has one of its own; a thread runs the log's
//! checkpoints on a third kind.
class sqlite_database final : public tables::database {
public:
    //! An empty path is a database in memory: one connection does everything.
    sqlite_database(const std::filesystem::path& path, const sqlite_options& options);
    ~sqlite_database() override;

    std::unique_ptr<tables::transaction> begin_read(tables::agent_ids agents) override;
    std::unique_ptr<tables::transaction> begin_write(tables::agent_ids agents) override;
    std::size_t largest_value() const noexcept override { return largest_value_; }
    std::uint64_t shrink(const upkeep_control& control) override;
    std::uint64_t bytes() override;
    std::size_t write_lanes() const noexcept override { return 1; }

private:
    class read_transaction;
    class write_transaction;

    bool is_in_memory() const noexcept { return path_.empty(); }
    //! @throws waymark::error `io` if a failure has put the store out of use.
    void require_sound() const;
    //! Also if the file is not the one that was opened. Costs a system call.
    void require_usable();
    //! Also if its log is not. Costs another one.
    void require_its_files();
    bool is_same_file() const noexcept;
    bool has_its_log() const noexcept;
    //! Nothing goes from now on.
    void poison(const std::string& why) noexcept;
    void poison_as_moved() noexcept;
    void settle_log();
    void commit(sql_transaction& work);
    void after_commit();

    std::unique_ptr<connection> take_reader();
    void give_back(std::unique_ptr<connection> reader);

    void keep_log_short(const std::stop_token& stop);
    void vacuum_some();
    bool write_log_back(int mode);
    void cut_log_file() noexcept;
    int checkpoint_log(int mode);

    const std::string path_;
    const std::string log_path_;
    const std::filesystem::path folder_; // here, since nothing may be allocated after a commit
    const sqlite_options options_;
    std::optional<files::identity> file_; // what the writer has open; none for a database in memory
    std::optional<files::identity> log_;
    std::size_t largest_value_ = 0;
    std::size_t page_bytes_ = 0;
    std::atomic<bool> agents_are_sound_ = false; // not known yet

    fair_mutex writer_mutex_;
    std::unique_ptr<connection> writer_; // guarded by writer_mutex_, as is what follows
    std::uint64_t last_transaction_ = 0;
    std::uint64_t last_committed_ = 0;
    std::int64_t seen_version_ = 0; // changes when another process or connection has written
    bool folder_is_synced_ = false;

    std::mutex readers_mutex_;
    std::vector<std::unique_ptr<connection>> idle_readers_;

    mutable std::mutex failure_mutex_;
    std::string failure_; // why nothing goes any more, and what to do; empty: all is well
    std::atomic<bool> poisoned_ = false;

    std::size_t log_bytes_ = 0;                     // guarded by writer_mutex_
    std::mutex log_mutex_;                          // taken before writer_mutex_
    std::unique_ptr<connection> keeper_connection_; // guarded by log_mutex_
    std::mutex keeper_mutex_;                       // guards what follows
    std::condition_variable_any keeper_wakes_;
    enum class log_state { empty, used, long_enough } log_state_ = log_state::empty;
    std::uint64_t commits_ = 0;
    std::size_t next_write_back_ = 0; // when the log is that long
    std::jthread keeper_;             // last: it uses the members above
};

} // namespace waymark::sqlite
