//! Connections and transactions of one PostgreSQL database.
#pragma once

#include "postgres_tables.hpp"

#include <waymark/postgres_store.hpp>

#include <memory>

namespace waymark::postgres {

//! Each transaction takes a connection, or opens one, and gives it back. One that fails for a reason that
//! passes is run again, on another connection if need be, until the time for that is over.
class postgres_database final : public tables::database {
public:
    postgres_database(const std::string& conninfo, const postgres_options& options);

    std::unique_ptr<tables::transaction> begin_read(tables::agent_ids agents) override;
    std::unique_ptr<tables::transaction> begin_write(tables::agent_ids agents) override;
    std::unique_ptr<tables::retries> make_retries() override;
    bool loses_commits() const noexcept override { return true; }
    std::size_t largest_value() const noexcept override;
    std::uint64_t shrink(const upkeep_control& /*control*/) override
    {
        return 0;
    } // the server reuses space by itself
    std::uint64_t bytes() override;
    std::size_t write_lanes() const noexcept override { return options_.write_lanes(); }

private:
    transaction_settings settings_for(tables::agent_ids agents) const;

    const postgres_options options_;
    connection_pool connections_;
    std::size_t partitions_ = 0; // as they were when the store was opened
};

} // namespace waymark::postgres
