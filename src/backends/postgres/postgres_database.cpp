#include "postgres_database.hpp"

#include "../../tables/transactions.hpp"
#include "schema.hpp"

#include <random>
#include <set>
#include <thread>

namespace waymark::postgres {

namespace {

constexpr std::size_t idle_for_loads = 12;

//! How long to wait before the next attempt, and whether there is one.
class attempts final : public tables::retries {
public:
    //! `observer` may be null.
    attempts(std::chrono::milliseconds all, store_observer* observer)
        : end_(clock::now() + all), observer_(observer)
    {
    }

    void wait_after(const error& failure) override
    {
        const auto* const reason = dynamic_cast<const database_error*>(&failure);
        if (reason == nullptr || !reason->is_transient())
            throw; // NOLINT: the caller handles it
        wait_or_throw(*reason);
    }

private:
    //! Sleeps, or throws `failure` when the time is over.
    void wait_or_throw(const database_error& failure)
    {
        ++count_;
        if (failure.is_of_old_connection() && count_ == 1) { // it was idle when the server went
            tell(failure, {});
            return;
        }
        // Each waits for another time, so that those that failed together do not come back together.
        std::minstd_rand random{std::random_device()()};
        std::uniform_int_distribution<std::int64_t> jitter(delay_.count() / 2, delay_.count());
        const std::chrono::milliseconds wait(jitter(random));
        if (clock::now() + wait >= end_) {
            if (count_ == 1)
                throw failure;
            throw database_error(static_cast<errc>(failure.code().value()),
                                 failure.details().message() + " (tried " + std::to_string(count_) +
                                     " times)",
                                 failure.sqlstate(), failure.is_connection_lost());
        }
        tell(failure, wait);
        std::this_thread::sleep_for(wait);
        delay_ = std::min(delay_ * 2, longest_delay);
    }

    void tell(const database_error& failure, std::chrono::milliseconds wait) const noexcept
    {
        if (observer_ != nullptr)
            observer_->retries_after(failure.details().message(), wait);
    }

    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds longest_delay{1'000};

    clock::time_point end_;
    store_observer* observer_;
    std::chrono::milliseconds delay_{10};
    int count_ = 0;
};

} // namespace

postgres_database::postgres_database(const std::string& conninfo, const postgres_options& options)
    : options_(options),
      connections_(connection_settings(conninfo, options.schema(), options.connect_timeout(),
                                       options.statement_timeout(), options.prepares_statements()),
                   options.write_lanes() + idle_for_loads, options.observer())
{
    // Whoever has mistyped a host or a password wants to know it now. Once it was there, the server is
    // waited for.
    try {
        const borrowed_connection first(connections_);
    } catch (const database_error& failure) {
        throw error(failure.code(),
                    failure.details().message() +
                        "; if it was never there, check the host, the port, the database, the "
                        "role and the password of the connection string");
    }
    partitions_ = repeat(*this, [&] {
        const borrowed_connection db(connections_);
        return prepare_schema(*db, options_);
    });
}

std::unique_ptr<tables::retries> postgres_database::make_retries()
{
    return std::make_unique<attempts>(options_.retry_for(), options_.observer().get());
}

//! A generic plan is made once for all agents, and locks every partition; a custom one is made for each
//! agent, and locks the partitions of that one. Measured without prepared statements, generic plans become
//! faster between 8 and 16 agents with 16 partitions, and at 64 with 64; by then there are few partitions
//! left to save locks on. With prepared statements they are faster for any number of agents, and locks
//! decide.
transaction_settings postgres_database::settings_for(tables::agent_ids about) const
{
    // A batch of one agent names it for each of its checkpoints.
    const auto agents = partitions_ == 0 ? 0 : std::set(about.begin(), about.end()).size();
    return {options_.statement_timeout(), options_.durability() == durability::full ? "on" : "off",
            agents >= partitions_ ? "force_generic_plan" : "force_custom_plan"};
}

std::size_t postgres_database::largest_value() const noexcept
{
    return std::size_t{512} << 20; // a row has to fit into one message of the protocol, of 1 GiB
}

std::unique_ptr<tables::transaction> postgres_database::begin_read(tables::agent_ids agents)
{
    return std::make_unique<postgres_tables>(borrowed_connection(connections_), postgres_tables::mode::read,
                                             settings_for(agents), agents);
}

std::unique_ptr<tables::transaction> postgres_database::begin_write(tables::agent_ids agents)
{
    return std::make_unique<postgres_tables>(borrowed_connection(connections_), postgres_tables::mode::write,
                                             settings_for(agents), agents);
}

std::uint64_t postgres_database::bytes()
{
    return repeat(*this, [&]() -> std::uint64_t {
        const borrowed_connection db(connections_);
        try {
            return static_cast<std::uint64_t>(
                db->run(statement("SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS int8) "
                                  "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                                  "WHERE n.nspname = $1 AND c.relkind = 'r'")
                            .add(options_.schema()))
                    .number(0, 0));
        } catch (const database_error& failure) {
            if (failure.sqlstate() != "42883") // a server of another make, which does not tell
                throw;
            return 0;
        }
    });
}

} // namespace waymark::postgres
