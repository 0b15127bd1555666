#include "postgres_database.hpp"

#include "schema.hpp"

#include <random>
#include <set>
#include <thread>

namespace waymark::postgres {

namespace {

constexpr std::size_t idle_for_loads = 12;

} // namespace

//! How long to wait before the next attempt, and whether there is one.
class postgres_database::attempts {
public:
    explicit attempts(std::chrono::milliseconds all) : end_(begin_ + all) {}

    //! There is little hope.
    void shorten() { end_ = std::min(end_, begin_ + std::chrono::seconds(2)); }

    //! Sleeps, or throws `failure` when the time is over.
    void next(const database_error& failure, bool may_be_old_connection)
    {
        ++count_;
        if (may_be_old_connection && count_ == 1)
            return; // a connection that was idle when the server went; a new one may do
        // Each waits for another time, so that those that failed together do not come back together.
        std::uniform_int_distribution<std::int64_t> jitter(delay_.count() / 2, delay_.count());
        const std::chrono::milliseconds wait(jitter(random_));
        if (clock::now() + wait >= end_) {
            if (count_ == 1)
                throw failure;
            throw database_error(static_cast<errc>(failure.code().value()),
                                 failure.details().message() + " (tried " + std::to_string(count_) +
                                     " times)",
                                 failure.sqlstate(), failure.is_connection_lost());
        }
        std::this_thread::sleep_for(wait);
        delay_ = std::min(delay_ * 2, longest_delay);
    }

private:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds longest_delay{1'000};

    clock::time_point begin_ = clock::now();
    clock::time_point end_;
    std::chrono::milliseconds delay_{10};
    int count_ = 0;
    std::minstd_rand random_{std::random_device()()};
};

postgres_database::postgres_database(const std::string& conninfo, const postgres_options& options)
    : options_(options),
      settings_(conninfo, options.schema(), options.connect_timeout(), options.statement_timeout(),
                options.prepares_statements())
{
    repeat([&](connection& db) { partitions_ = prepare_schema(db, options_); }, phase::opening);
}

//! A generic plan is made once for all agents, and locks every partition; a custom one is made for each
//! agent, and locks the partitions of that one. Measured without prepared statements, generic plans become
//! faster between 8 and 16 agents with 16 partitions, and at 64 with 64; by then there are few partitions
//! left to save locks on. With prepared statements they are faster for any number of agents, and locks
//! decide.
transaction_settings postgres_database::settings_for(const storage::access& about) const
{
    // A batch of one agent names it for each of its checkpoints.
    const auto agents = partitions_ == 0 ? 0 : std::set(about.agents.begin(), about.agents.end()).size();
    return {options_.statement_timeout(), options_.durability() == durability::full ? "on" : "off",
            agents >= partitions_ ? "force_generic_plan" : "force_custom_plan"};
}

std::size_t postgres_database::largest_value() const noexcept
{
    return std::size_t{512} << 20; // a row has to fit into one message of the protocol, of 1 GiB
}

std::unique_ptr<connection> postgres_database::take()
{
    const std::lock_guard lock(mutex_);
    if (idle_.empty())
        return nullptr;
    auto taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
}

void postgres_database::give_back(std::unique_ptr<connection> used)
{
    const std::lock_guard lock(mutex_);
    if (idle_.size() < options_.write_lanes() + idle_for_loads)
        idle_.push_back(std::move(used));
}

//! After one was of no use, the others are likely to be of none, too; and the next server may be another one.
void postgres_database::drop_idle()
{
    std::vector<std::unique_ptr<connection>> dropped;
    const std::lock_guard lock(mutex_);
    idle_.swap(dropped);
}

void postgres_database::repeat(const std::function<void(connection&)>& transaction, phase when)
{
    attempts left(options_.retry_for());
    for (;;) {
        auto db = take();
        const bool was_idle = db != nullptr;
        try {
            if (!db)
                db = std::make_unique<connection>(settings_);
            transaction(*db);
            return give_back(std::move(db));
        } catch (const database_error& failure) {
            const bool had_connection = db != nullptr;
            const bool must_go = failure.is_connection_useless();
            if (db && !must_go && db->roll_back())
                give_back(std::move(db));
            db.reset(); // before the wait: it may hold locks
            if (must_go)
                drop_idle();
            if (!failure.is_transient())
                throw;
            // A wrong password does not get better; once it was right, the server is waited for.
            if (when == phase::opening && !had_connection && settings_.are_refused())
                left.shorten();
            left.next(failure, was_idle && must_go);
        } catch (...) {
            if (db && db->roll_back())
                give_back(std::move(db));
            else
                drop_idle(); // lost, perhaps in the middle of a commit
            throw;
        }
    }
}

void postgres_database::read(const storage::access& about, const std::function<void(storage::tables&)>& body)
{
    repeat([&](connection& db) {
        postgres_tables tables(db, postgres_tables::mode::read, settings_for(about), about);
        body(tables);
        db.add(query("COMMIT"));
        db.send(); // nothing depends on it
    });
}

void postgres_database::write(const storage::access& about, const std::function<void(storage::tables&)>& body,
                              const undone_callback& undone)
{
    repeat([&](connection& db) {
        std::optional<postgres_tables> tables;
        try {
            tables.emplace(db, postgres_tables::mode::write, settings_for(about), about);
            body(*tables);
            tables->commit();
        } catch (...) {
            if (undone)
                undone(!tables || tables->is_undone());
            throw;
        }
    });
}

std::uint64_t postgres_database::bytes()
{
    std::uint64_t result = 0;
    repeat([&](connection& db) {
        try {
            result = static_cast<std::uint64_t>(
                db.run(query("SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS int8) "
                             "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                             "WHERE n.nspname = $1 AND c.relkind = 'r'")
                           .add(options_.schema()))
                    .number(0, 0));
        } catch (const database_error& failure) {
            if (failure.sqlstate() != "42883") // a server of another make, which does not tell
                throw;
        }
    });
    return result;
}

} // namespace waymark::postgres
