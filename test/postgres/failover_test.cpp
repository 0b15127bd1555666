//! Two servers with synchronous replication, each in a network namespace of its own. The primary is killed or
//! cut off, the standby takes over, and clients find it through a connection string that names both.
#include "catch.hpp"
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

//! This process gets a network of its own, with a bridge; each server is behind a cable to it.
class network {
public:
    network()
    {
        run_command("ip link set lo up");
        run_command("ip link add bridge0 type bridge && ip address add 10.77.0.1/24 dev bridge0 && "
                    "ip link set bridge0 up");
    }
    network(const network&) = delete;
    network& operator=(const network&) = delete;
    ~network()
    {
        for (const auto& name : names_)
            run_command("ip netns delete " + name);
    }

    //! The name of a namespace whose address is 10.77.0.(2 + number).
    std::string add(int number)
    {
        const auto name = "waymark-" + std::to_string(::getpid()) + "-" + std::to_string(number);
        const auto cable = cable_of(number);
        run_command("ip netns add " + name);
        names_.push_back(name);
        run_command("ip link add " + cable + " type veth peer name inside netns " + name +
                    " && ip link set " + cable + " master bridge0 up");
        run_command("ip -n " + name + " link set lo up && ip -n " + name + " address add " + address(number) +
                    "/24 dev inside && ip -n " + name + " link set inside up");
        return name;
    }

    static std::string address(int number) { return "10.77.0." + std::to_string(2 + number); }
    //! Waits until the other server is reached again.
    void plug(int number) const
    {
        run_command("ip link set " + cable_of(number) + " up && for i in $(seq 100); do ip netns exec " +
                    names_.at(static_cast<std::size_t>(number)) + " timeout 1 bash -c '</dev/tcp/" +
                    address(1 - number) + "/5432' 2>/dev/null && exit; sleep 0.1; done; exit 1");
    }
    static void unplug(int number) { run_command("ip link set " + cable_of(number) + " down"); }

private:
    static std::string cable_of(int number) { return "cable" + std::to_string(number); }

    std::vector<std::string> names_;
};

postgres_server::setup setup_of(const std::filesystem::path& folder, const std::string& name_space,
                                int number)
{
    return {folder,
            {"listen_addresses = '" + network::address(number) + "'", "wal_receiver_timeout = 2s",
             "wal_sender_timeout = 2s", "synchronous_standby_names = ''"},
            "ip netns exec " + name_space,
            "",
            "10.77.0.0/24"};
}

//! From now on a commit waits for the standby.
void replicate_synchronously(const postgres_server& primary)
{
    test::server_connection sql(primary.conninfo());
    sql.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
    sql.run("SELECT pg_reload_conf()");
    while (sql.number("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 0)
        std::this_thread::sleep_for(10ms);
}

} // namespace

TEST_CASE("no acknowledged save is lost when the primary is killed or cut off, in 20 rounds")
{
    if (!test::postgres_for_tests())
        return;
    if (::geteuid() != 0 || !test::has_program("ip") || ::unshare(CLONE_NEWNET) != 0) {
        std::cout << "skipped: network namespaces need root and iproute2\n";
        return;
    }
    constexpr int rounds = 20;
    constexpr int savers = 3;
    network cables;
    const std::string name_spaces[2] = {cables.add(0), cables.add(1)};
    std::unique_ptr<test::temporary_folder> folders[2];
    std::unique_ptr<postgres_server> servers[2];
    int primary = 0;
    const auto new_folder = [&](int number) {
        folders[number] = std::make_unique<test::temporary_folder>();
        return setup_of(folders[number]->path(), name_spaces[number], number);
    };
    const auto add_standby = [&] {
        const int standby = 1 - primary;
        servers[standby] = std::make_unique<postgres_server>(
            new_folder(standby), "host=" + network::address(primary) + " user=waymark dbname=postgres");
        replicate_synchronously(*servers[primary]);
    };
    servers[0] = std::make_unique<postgres_server>(new_folder(0));
    add_standby();

    const auto conninfo = "host=" + network::address(0) + "," + network::address(1) +
                          " user=waymark dbname=postgres connect_timeout=2 tcp_user_timeout=1500 "
                          "keepalives_idle=1 keepalives_interval=1 keepalives_count=2";
    postgres_store store(conninfo, postgres_options().with_retry_for(60s).with_statement_timeout(5s));

    std::mutex mutex; // guards what follows
    std::set<std::string> acknowledged[savers];
    std::vector<std::string> failures;
    std::atomic<int> count = 0;
    std::atomic<bool> done = false;
    std::vector<std::jthread> threads;
    for (int i = 0; i < savers; ++i)
        threads.emplace_back([&, i] {
            conversation chat;
            for (int number = 0; !done; ++number) {
                chat.push(message::user("question " + std::to_string(number)));
                const checkpoint next("agent " + std::to_string(i), chat, number);
                try {
                    store.save(next);
                    const std::lock_guard lock(mutex);
                    acknowledged[i].insert(next.id());
                    ++count;
                } catch (const error& failure) {
                    const std::lock_guard lock(mutex);
                    failures.emplace_back(failure.what());
                }
            }
        });

    struct stop_savers {
        std::atomic<bool>& done;
        ~stop_savers() { done = true; }
    } const at_end{done};

    const auto wait_for_saves = [&](int more) {
        const int wanted = count + more;
        for (int patience = 0; patience < 9'000 && count < wanted; ++patience)
            std::this_thread::sleep_for(10ms);
        return count >= wanted;
    };
    int lost = 0;
    bool goes_on = true;
    for (int round = 0; round < rounds && goes_on; ++round) {
        goes_on = wait_for_saves(100);
        const int old = primary;
        if (round % 2 == 0)
            servers[old]->stop("immediate");
        else
            network::unplug(old);
        primary = 1 - old;
        servers[primary]->promote();
        goes_on = goes_on && wait_for_saves(30);
        // Everything that was acknowledged is on the new primary.
        std::set<std::string> present[savers];
        for (int i = 0; i < savers; ++i) {
            std::set<std::string> expected;
            {
                const std::lock_guard lock(mutex);
                expected = acknowledged[i];
            }
            for (const auto& header : store.list(query("agent " + std::to_string(i))))
                present[i].insert(header.id());
            for (const auto& id : expected)
                lost += present[i].contains(id) ? 0 : 1;
        }
        servers[old].reset(); // what was cut off must not come back as it was
        cables.plug(old);
        add_standby();
    }
    done = true;
    for (auto& thread : threads)
        thread.join();
    CHECK(goes_on);
    CHECK(lost == 0);
    CHECK(failures == std::vector<std::string>());
    CHECK(store.verify().ok());
    std::cout << count << " saves were acknowledged in " << rounds << " rounds\n";
}
