//! Several store objects on one database: whatever one of them does, the others, and conversations that are
//! still in memory, never make a save wrong, a step run twice or an acknowledgement untrue.
#include "attack.hpp"
#include "forwarding_store.hpp"
#include "forwarding_tables.hpp"
#include "model_round.hpp"
#include "races.hpp"
#include "tables/checksums.hpp"

#include <map>

namespace waymark::faults {

namespace {

constexpr std::size_t operations_per_round = 80;

std::shared_ptr<store> open_as_it_is(shared_database& database)
{
    return database.open();
}

// Stores that are broken on purpose

//! Takes the step of another process, begun in the same microsecond, for its own that was acknowledged and
//! not heard.
class credulous_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        auto outcomes = forwarding_store::put_steps(batch);
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto found = detail::find_step(*this, batch[i].step());
            if (outcomes[i].code() == errc::conflict && found && !found->done() &&
                found->started_at() == batch[i].step().started_at())
                outcomes[i] = stored{};
        }
        return outcomes;
    }
};

//! Removes by key what it has chosen before, whatever the key holds by now.
class key_pruning_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                       const upkeep_control& control) override
    {
        auto plan = forwarding_store::prune(agent, policies, dry_run::yes, control);
        if (dry == dry_run::no)
            for (const auto& key : plan.removed())
                erase(key.agent_id(), key.scope(), key.id());
        return plan;
    }
};

step put(store& in, const step& record)
{
    const auto request = step_request(record).restored();
    in.put_steps(std::span(&request, 1)).at(0).value_or_throw();
    return record;
}

//! Each of these looks, and then writes, as if nobody else had come in between.
step_calls look_then_withdraw()
{
    step_calls calls;
    calls.withdraw = [](store& in, const step& begun) {
        if (const auto found = detail::find_step(in, begun); found && !found->done())
            in.erase_step(begun.agent_id(), begun.scope(), begun.key());
    };
    return calls;
}

step_calls look_then_end()
{
    step_calls calls;
    calls.end = [](store& in, const step& done) {
        const auto found = detail::find_step(in, done);
        return found && found->done() ? *found : put(in, done);
    };
    return calls;
}

step_calls look_then_settle()
{
    step_calls calls;
    calls.settle = [](store& in, const step& of, const boost::json::value& result) {
        auto found = detail::find_step(in, of);
        if (!found || found->done())
            return false;
        put(in, found->with_result(result));
        return true;
    };
    return calls;
}

//! Does not say that messages were removed since a conversation has seen its own.
class discreet_tables final : public test::forwarding_tables {
public:
    using forwarding_tables::forwarding_tables;

    std::optional<tables::agent_row> find_agent(std::string_view id) override
    {
        auto found = forwarding_tables::find_agent(id);
        if (found)
            true_sweeps_[found->number] = std::exchange(found->sweeps, 0);
        return found ? std::optional(tables::seal(*found)) : found;
    }
    void put_agent(const tables::agent_row& row) override
    {
        auto written = row;
        if (row.sweeps == 0) // otherwise it is a new one
            written.sweeps = true_sweeps_[row.number];
        forwarding_tables::put_agent(tables::seal(written));
    }

private:
    std::map<std::int64_t, std::int64_t> true_sweeps_;
};

//! Takes a message that has the number of one that it wrote once for that one, as if a database never went
//! back.
class trusting_database final : public test::forwarding_database {
public:
    using forwarding_database::forwarding_database;

protected:
    std::unique_ptr<tables::transaction> behind(std::unique_ptr<tables::transaction> begun) override
    {
        return std::make_unique<trusting_tables>(std::move(begun), first_stamps_);
    }

private:
    using stamps = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>; // by agent and number

    class trusting_tables final : public test::forwarding_tables {
    public:
        trusting_tables(std::unique_ptr<tables::transaction> inner, stamps& first)
            : forwarding_tables(std::move(inner)), first_(first)
        {
        }

        void insert_messages(const tables::message_row& row) override
        {
            forwarding_tables::insert_messages(row);
            for (auto number = row.first; number < row.numbers().end(); ++number)
                first_.emplace(std::pair(row.agent, number), row.stamp);
        }
        std::optional<std::int64_t> message_stamp(std::int64_t agent, std::int64_t number) override
        {
            const auto known = first_.find({agent, number});
            return known == first_.end() ? forwarding_tables::message_stamp(agent, number) : known->second;
        }

    private:
        stamps& first_;
    };

    stamps first_stamps_;
};

//! Knows nothing of attempts: records that were begun in the same microsecond are the same to it.
class attemptless_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        std::vector<step_request> without;
        for (const auto& request : batch) {
            without.emplace_back(step(request.step()).with_attempt(""), request.is_create_only());
            if (request.is_restored())
                without.back().restored();
            if (request.replaced())
                without.back().replacing("");
        }
        return forwarding_store::put_steps(without);
    }
    bool erase_step(std::string_view agent, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt) override
    {
        return forwarding_store::erase_step(agent, scope, key, attempt ? std::optional("") : std::nullopt);
    }
};

//! Says that nobody else has written since its last transaction.
class lonely_tables final : public test::forwarding_tables {
public:
    using forwarding_tables::forwarding_tables;

    bool follows(std::uint64_t other) override { return other != 0; }
};

template <class Tables>
std::unique_ptr<tables::database> behind(std::unique_ptr<tables::database> inner)
{
    return std::make_unique<test::database_with<Tables>>(std::move(inner));
}

std::unique_ptr<tables::database> trusting(std::unique_ptr<tables::database> inner)
{
    return std::make_unique<trusting_database>(std::move(inner));
}

template <class Store>
std::shared_ptr<store> around(std::shared_ptr<store> inner)
{
    return std::make_shared<Store>(std::move(inner));
}

//! Whether any of these seeds shows it, on a SQLite file of its own each.
bool is_seen(std::uint64_t seeds, const std::function<bool(shared_database&, std::uint64_t)>& round)
{
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        if (round(*make_shared_database(database_kind::sqlite), seed))
            return true;
    return false;
}

bool is_seen_interrupted(const step_calls& calls, const store_change& change = {},
                         const shared_database::layer& layer = {})
{
    return is_seen(40, [&](shared_database& database, std::uint64_t seed) {
        return !run_interrupted(database, seed, calls, change, layer).empty();
    });
}

bool is_seen_by_model(const shared_database::layer& layer, restores how = restores::yes)
{
    return is_seen(40, [&](shared_database& database, std::uint64_t seed) {
        return run_model_round(
                   database, seed, operations_per_round,
                   [&](shared_database& in) { return in.open_behind(layer); }, how)
            .has_value();
    });
}

class shared_database_attack final : public attack {
public:
    std::string_view name() const override { return "shared-database"; }
    std::string_view promise() const override
    {
        return "several store objects on one database do each other no harm";
    }
    std::string_view unit() const override { return "rounds"; }
    std::uint64_t full_size() const override { return 1'000; }

    void check_harness(report& to) override
    {
        to.self_check("a store that takes another's step for its own",
                      is_seen_interrupted({}, around<credulous_store>));
        to.self_check("a store without attempts", is_seen_interrupted({}, around<attemptless_store>));
        to.self_check("a withdrawal that looks and then removes", is_seen_interrupted(look_then_withdraw()));
        to.self_check("an end that looks and then writes", is_seen_interrupted(look_then_end()));
        to.self_check("a settlement that looks and then writes", is_seen_interrupted(look_then_settle()));
        to.self_check("a store that prunes by key", is_seen_interrupted({}, around<key_pruning_store>));
        // Without restores, numbers can be trusted in as long as sweeps are told of.
        to.self_check("a database that hides its sweeps",
                      is_seen_by_model(
                          [](std::unique_ptr<tables::database> inner) {
                              return behind<discreet_tables>(trusting(std::move(inner)));
                          },
                          restores::no));
        to.self_check("a database that trusts in numbers after it went back", is_seen_by_model(trusting));
        to.self_check("a database that hides what others wrote", is_seen_by_model(behind<lonely_tables>));
    }

    void round(std::uint64_t seed, report& to) override
    {
        auto database = database_for(seed);
        const auto name = database->name();
        const auto tell = [&](const std::string& wrong) { to.violation(name + ": " + wrong); };
        if (const auto wrong = run_model_round(*database, seed, operations_per_round, open_as_it_is)) {
            tell(*wrong);
            database.reset();
            database = database_for(seed); // what is damaged would be found again and again
        }
        if (database->has_rows())
            for (const auto& wrong : run_interrupted(*database, seed, {}, {}, {}))
                tell(wrong);
        for (const auto& wrong : run_threads(*database, seed, {}, {}))
            tell(wrong);
        for (const auto& wrong : run_sessions(*database, {}))
            tell(wrong);
        to.attacked();
        on_server_ += database->name() == "PostgreSQL" ? 1 : 0;
    }

    void finish(report& to) override
    {
        to.note(on_server_ == 0 ? "PostgreSQL was left out: there is no server, or no libpq"
                                : "PostgreSQL in " + std::to_string(on_server_) + " rounds");
    }

private:
    //! SQLite mostly, which has the most to get wrong and is quick.
    static std::unique_ptr<shared_database> database_for(std::uint64_t seed)
    {
        if (seed % 8 == 0)
            if (auto on_server = make_shared_database(database_kind::postgres))
                return on_server;
        return make_shared_database(seed % 8 == 4 ? database_kind::files : database_kind::sqlite);
    }

    std::uint64_t on_server_ = 0;
};

} // namespace

std::unique_ptr<attack> make_shared_database_attack()
{
    return std::make_unique<shared_database_attack>();
}

} // namespace waymark::faults
