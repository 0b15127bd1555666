//! Connections and transactions of one PostgreSQL database.
#pragma once

#include "postgres_tables.hpp"

#include <waymark/postgres_store.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace waymark::postgres {

//! Each transaction takes a connection, or opens one, and gives it back. One that fails for a reason that
//! passes is run again, on another connection if need be, until the time for that is over.
class postgres_database final : public storage::database {
public:
    postgres_database(const std::string& conninfo, const postgres_options& options);

    using storage::database::read;
    using storage::database::write;
    void read(const storage::access& about, const std::function<void(storage::tables&)>& body) override;
    void write(const storage::access& about, const std::function<void(storage::tables&)>& body,
               const undone_callback& undone) override;
    bool may_commit_later() const noexcept override { return true; } // the server, without us
    std::size_t largest_value() const noexcept override;
    std::uint64_t shrink() override { return 0; } // the server reuses space by itself
    std::uint64_t bytes() override;
    std::size_t write_lanes() const noexcept override { return options_.write_lanes(); }

private:
    class attempts;

    std::unique_ptr<connection> take();
    void give_back(std::unique_ptr<connection> used);
    void drop_idle();
    transaction_settings settings_for(const storage::access& about) const;
    enum class phase { opening, working };
    void repeat(const std::function<void(connection&)>& transaction, phase when = phase::working);

    const postgres_options options_;
    const connection_settings settings_;
    std::size_t partitions_ = 0; // as they were when the store was opened
    std::mutex mutex_;
    std::vector<std::unique_ptr<connection>> idle_; // guarded by mutex_
};

} // namespace waymark::postgres
