//! What PostgreSQL costs, with fsync and synchronous_commit on: saves a second with one and with many agents
//! in flight, bytes a turn, the load of a long conversation.
#include "../test/support/postgres_probe.hpp"
#include "fleet.hpp"

#include <waymark/postgres_store.hpp>

#include <boost/json/serialize.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

using namespace waymark;
using bench::median;

namespace {

//! A schema that is gone before and after.
class bench_schema {
public:
    explicit bench_schema(const std::string& conninfo) : sql(conninfo) { drop(); }
    bench_schema(const bench_schema&) = delete;
    ~bench_schema() { drop(); }

    static constexpr const char* name = "waymark_bench";
    test::server_connection sql;

private:
    void drop() { sql.run(std::string("DROP SCHEMA IF EXISTS ") + name + " CASCADE"); }
};

//! Figures of a server that does not sync are worth nothing.
void require_synced(const std::string& conninfo)
{
    test::server_connection sql(conninfo);
    for (const auto* setting : {"fsync", "synchronous_commit", "full_page_writes"})
        if (sql.run(std::string("SHOW ") + setting).at(0) != "on")
            throw std::runtime_error(std::string("the server has ") + setting +
                                     " off; turn it on, or measure another server");
}

void run_in_flight(const std::string& conninfo, const std::string& what, const postgres_options& options)
{
    std::vector<double> one, many, ratios, per_commit;
    const bench_schema schema(conninfo);
    const auto store =
        std::make_shared<postgres_store>(conninfo, postgres_options(options).with_schema(schema.name));
    for (int round = 0; round < 5; ++round) {
        const auto name = "round-" + std::to_string(round);
        const auto alone = bench::run_fleet(store, name + "-one", 1, 300);
        const auto fleet = bench::run_fleet(store, name + "-many", 64, 60);
        one.push_back(alone.saves_per_second);
        many.push_back(fleet.saves_per_second);
        ratios.push_back(fleet.saves_per_second / alone.saves_per_second);
        per_commit.push_back(fleet.saves_per_commit);
    }
    std::printf("%-22s: %5.0f saves a second with 1 in flight, %5.0f with 64 (%.0f a commit): %.1f x\n",
                what.c_str(), median(one), median(many), median(per_commit), median(ratios));
}

void run_growth(const std::string& conninfo)
{
    bench_schema schema(conninfo);
    const auto options = postgres_options().with_schema(schema.name);
    constexpr int turns = 1'000;
    postgres_store store(conninfo, options);
    bench::growth agent("1b4e28ba-2fa1-11d2-883f-0016d3cca427");
    std::uint64_t payload = 0;
    const auto before = schema.sql.run("SELECT pg_current_wal_insert_lsn()").at(0);
    const auto bytes_before = store.stats().bytes;
    checkpoint last("none");
    for (int turn = 0; turn < turns; ++turn) {
        last = agent.next();
        const auto& chat = last.conversation();
        for (auto i = chat.size() - 2; i < chat.size(); ++i)
            payload += boost::json::serialize(boost::json::value_from(chat[i])).size();
        store.save(last);
    }
    const auto wal = schema.sql.number("SELECT pg_current_wal_insert_lsn() - '" + before + "'::pg_lsn");
    schema.sql.run("VACUUM");
    const auto bytes = store.stats().bytes - bytes_before;
    std::printf(
        "growth, %d turns    : %.2f x the payload in tables and indices (%.0f bytes a turn, of which %.0f "
        "are payload); %.0f bytes of WAL a turn\n",
        turns, static_cast<double>(bytes) / static_cast<double>(payload), static_cast<double>(bytes) / turns,
        static_cast<double>(payload) / turns, static_cast<double>(wal) / turns);

    std::vector<double> milliseconds;
    postgres_store other(conninfo, options); // which remembers nothing
    for (int i = 0; i < 21; ++i) {
        const auto begin = bench::wall_seconds();
        const auto loaded = other.load_latest(last.agent_id());
        milliseconds.push_back((bench::wall_seconds() - begin) * 1e3);
        if (loaded != last)
            throw std::runtime_error("what was saved is not what is loaded");
    }
    std::printf("load of the latest     : %.1f ms for a conversation of %d turns (%zu messages, %.1f MB)\n",
                median(milliseconds), turns, last.conversation().size(), static_cast<double>(payload) / 1e6);
}

} // namespace

int main(int argc, char** argv)
try {
    const char* const given = argc > 1 ? argv[1] : std::getenv("WAYMARK_POSTGRES");
    if (given == nullptr)
        throw std::invalid_argument(
            "usage: postgres_bench CONNECTION, or scripts/with-postgres postgres_bench");
    require_synced(given);
    run_in_flight(given, "4 lanes", postgres_options());
    run_in_flight(given, "1 lane", postgres_options().with_write_lanes(1));
    run_in_flight(given, "prepared statements", postgres_options().with_prepared_statements());
    run_in_flight(given, "16 partitions", postgres_options().with_partitions(16));
    run_growth(given);
    return 0;
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
