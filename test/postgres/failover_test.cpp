//! Two servers with synchronous replication, each in a network namespace of its own. The primary is killed or
//! cut off, the standby takes over, and clients find it through a connection string that names both.
#include "catch.hpp"
#include "child_process.hpp"
#include "postgres_probe.hpp"
#include "postgres_server.hpp"
#include "temporary_folder.hpp"

#include <waymark/postgres_store.hpp>

#include <atomic>
#include <iostream>
#include <mutex>
#include <sched.h>
#include <set>
#include <thread>
#include <unistd.h>

using namespace waymark;
using namespace std::chrono_literals;
using test::postgres_server;
using test::run_command;

namespace {

//! This process gets a network of its own, with a bridge; each server is behind a cable to it, in a namespace
//! that a sleeping process holds. (Those of `ip netns` are mounts, which not every machine allows.)
class network {
public:
    network()
    {
        if (::unshare(CLONE_NEWNET) != 0)
            throw std::runtime_error("this process may not have a network of its own");
        run_command("ip link set lo up");
        run_command("ip link add bridge0 type bridge && ip address add 10.77.0.1/24 dev bridge0 && "
                    "ip link set bridge0 up");
        for (const int number : {0, 1})
            add(number);
    }

    //! Words before a command that is to run there.
    std::string inside(int number) const
    {
        return "nsenter -n -t " + std::to_string(holders_.at(static_cast<std::size_t>(number)).id()) + " ";
    }

    static std::string address(int number) { return "10.77.0." + std::to_string(2 + number); }
    static void plug(int number) { run_command("ip link set " + cable_of(number) + " up"); }
    static void unplug(int number) { run_command("ip link set " + cable_of(number) + " down"); }

    //! Until the server reaches the other one.
    void wait_for(int number) const
    {
        run_command("for i in $(seq 100); do " + inside(number) + "timeout 1 bash -c '</dev/tcp/" +
                    address(1 - number) + "/5432' 2>/dev/null && exit; sleep 0.1; done; exit 1");
    }

private:
    static std::string cable_of(int number) { return "cable" + std::to_string(number); }

    //! The address is 10.77.0.(2 + number).
    void add(int number)
    {
        holders_.emplace_back(std::vector<std::string>{"/usr/bin/unshare", "-n", "/usr/bin/sleep", "1800"});
        const auto id = std::to_string(holders_.back().id());
        for (int patience = 0; is_ours(id); ++patience) {
            if (patience == 1'000)
                throw std::runtime_error("a network namespace cannot be made");
            std::this_thread::sleep_for(5ms);
        }
        run_command("ip link add " + cable_of(number) + " type veth peer name inside netns " + id +
                    " && ip link set " + cable_of(number) + " master bridge0 up");
        run_command(inside(number) + "ip link set lo up && " + inside(number) + "ip address add " +
                    address(number) + "/24 dev inside && " + inside(number) + "ip link set inside up");
    }

    //! Whether the process is still in our own network.
    static bool is_ours(const std::string& id)
    {
        std::error_code failed;
        const auto theirs = std::filesystem::read_symlink("/proc/" + id + "/ns/net", failed);
        return failed || theirs == std::filesystem::read_symlink("/proc/self/ns/net");
    }

    std::vector<test::child_process> holders_;
};

enum class replication { synchronous, asynchronous };

//! A primary and a standby.
class replicated_pair {
public:
    replicated_pair(const network& cables, replication how) : how_(how), cables_(cables)
    {
        servers_[0] = std::make_unique<postgres_server>(new_setup(0));
        add_standby();
    }

    static std::string conninfo()
    {
        return "host=" + network::address(0) + "," + network::address(1) +
               " user=waymark dbname=postgres connect_timeout=2 tcp_user_timeout=1500 keepalives_idle=1 "
               "keepalives_interval=1 keepalives_count=2";
    }

    void kill_primary() { servers_[primary_]->stop("immediate"); }
    void cut_off_primary() { network::unplug(primary_); }
    void cut_off_standby() { network::unplug(1 - primary_); }
    void reconnect_standby() { network::plug(1 - primary_); }

    void promote()
    {
        primary_ = 1 - primary_;
        servers_[primary_]->promote();
    }

    //! What was cut off must not come back as it was.
    void replace_old_primary()
    {
        servers_[1 - primary_].reset();
        network::plug(1 - primary_);
        cables_.wait_for(1 - primary_);
        add_standby();
    }

private:
    postgres_server::setup new_setup(int number)
    {
        folders_[number] = std::make_unique<test::temporary_folder>();
        return {folders_[number]->path(),
                {"listen_addresses = '" + network::address(number) + "'", "wal_receiver_timeout = 2s",
                 "wal_sender_timeout = 2s", "synchronous_standby_names = ''"},
                cables_.inside(number),
                "",
                "10.77.0.0/24"};
    }

    void add_standby()
    {
        const int standby = 1 - primary_;
        servers_[standby] = std::make_unique<postgres_server>(
            new_setup(standby), "host=" + network::address(primary_) + " user=waymark dbname=postgres");
        test::server_connection sql(servers_[primary_]->conninfo());
        if (how_ == replication::synchronous) { // from now on a commit waits for the standby
            sql.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
            sql.run("SELECT pg_reload_conf()");
        }
        const std::string state = how_ == replication::synchronous ? "sync" : "async";
        const auto is_there = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = '" + state + "'";
        for (int patience = 0; sql.number(is_there) == 0; ++patience) {
            if (patience == 6'000)
                throw std::runtime_error("the standby does not come");
            std::this_thread::sleep_for(10ms);
        }
    }

    replication how_;
    const network& cables_;
    std::unique_ptr<test::temporary_folder> folders_[2];
    std::unique_ptr<postgres_server> servers_[2];
    int primary_ = 0;
};

//! Agents that save all the time, and what they were told.
class savers {
public:
    explicit savers(postgres_store& store) : store_(store)
    {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([this, i] { run(i); });
    }
    ~savers() { stop(); }

    void stop()
    {
        done_ = true;
        threads_.clear();
    }

    bool wait_for(int more)
    {
        const int wanted = total + more;
        for (int patience = 0; patience < 9'000 && total < wanted; ++patience)
            std::this_thread::sleep_for(10ms);
        return total >= wanted;
    }

    //! How many of the saves that were acknowledged are not there.
    int lost()
    {
        int result = 0;
        for (int i = 0; i < count; ++i) {
            std::set<std::string> missing;
            {
                const std::lock_guard lock(mutex_);
                missing = acknowledged_[i];
            }
            for (const auto& header : store_.list(query(name_of(i))))
                missing.erase(header.id());
            result += static_cast<int>(missing.size());
        }
        return result;
    }

    std::vector<std::string> failures()
    {
        const std::lock_guard lock(mutex_);
        return failures_;
    }

    std::atomic<int> total = 0;

private:
    static constexpr int count = 3;

    static std::string name_of(int number) { return "agent " + std::to_string(number); }

    void run(int number)
    {
        conversation chat;
        for (int turn = 0; !done_; ++turn) {
            chat.push(message::user("question " + std::to_string(turn)));
            const checkpoint next(name_of(number), chat, turn);
            try {
                store_.save(next);
                const std::lock_guard lock(mutex_);
                acknowledged_[number].insert(next.id());
                ++total;
            } catch (const error& failure) {
                const std::lock_guard lock(mutex_);
                failures_.emplace_back(failure.what());
            }
        }
    }

    postgres_store& store_;
    std::mutex mutex_; // guards what follows
    std::set<std::string> acknowledged_[count];
    std::vector<std::string> failures_;
    std::atomic<bool> done_ = false;
    std::vector<std::jthread> threads_; // last: they use the members above
};

//! None where that is not allowed, which is said in a line that makes ctest report the test as skipped.
std::unique_ptr<network> make_network()
{
    if (!test::postgres_for_tests())
        return nullptr;
    try {
        return std::make_unique<network>();
    } catch (const std::exception& failure) {
        std::cout << "this test is skipped: " << failure.what() << '\n';
        return nullptr;
    }
}

} // namespace

// scripts/torture says how many rounds it wants in WAYMARK_FAILOVER_ROUNDS; every other one cuts the cable.
TEST_CASE("no acknowledged save is lost when the primary is killed or cut off")
{
    const char* wanted = std::getenv("WAYMARK_FAILOVER_ROUNDS");
    const long rounds = wanted == nullptr ? 6 : std::strtol(wanted, nullptr, 10);
    REQUIRE(rounds > 0);
    const auto cables = make_network();
    if (!cables)
        return;
    replicated_pair servers(*cables, replication::synchronous);
    postgres_store store(servers.conninfo(),
                         postgres_options().with_retry_for(60s).with_statement_timeout(5s));
    savers agents(store);
    int lost = 0;
    for (long round = 0; round < rounds; ++round) {
        REQUIRE(agents.wait_for(100));
        round % 2 == 0 ? servers.kill_primary() : servers.cut_off_primary();
        servers.promote();
        REQUIRE(agents.wait_for(30));
        lost += agents.lost();
        servers.replace_old_primary();
    }
    agents.stop();
    CHECK(lost == 0);
    CHECK(agents.failures().empty());
    CHECK(store.verify().ok());
    std::cout << agents.total << " saves were acknowledged in " << rounds << " rounds\n";
}

TEST_CASE("without synchronous replication, the same test notices that saves are lost")
{
    const auto cables = make_network();
    if (!cables)
        return;
    replicated_pair servers(*cables, replication::asynchronous);
    postgres_store store(servers.conninfo(),
                         postgres_options().with_retry_for(60s).with_statement_timeout(5s));
    savers agents(store);
    REQUIRE(agents.wait_for(50));
    servers.cut_off_standby();
    REQUIRE(agents.wait_for(50)); // which the standby never hears of
    servers.kill_primary();
    servers.reconnect_standby();
    servers.promote();
    REQUIRE(agents.wait_for(30));
    agents.stop();
    CHECK(agents.lost() >= 50);
    CHECK(store.verify().ok()); // what is there is whole
}
