//! Behind pgbouncer in transaction mode, where each transaction may run on another server connection.
#include "catch.hpp"
#include "child_process.hpp"
#include "postgres_probe.hpp"
#include "postgres_server.hpp"
#include "temporary_folder.hpp"

#include <waymark/postgres_store.hpp>
#include <waymark/testing/conformance.hpp>
#include <waymark/testing/random_operations.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace waymark;
using namespace std::chrono_literals;

namespace {

constexpr const char* pgbouncer = "/usr/sbin/pgbouncer";

//! Two server connections for all clients.
class pooler {
public:
    pooler() : process_(start(folder_.path()))
    {
        for (int patience = 0; patience < 500 && !std::filesystem::exists(folder_.path() / ".s.PGSQL.6432");
             ++patience)
            std::this_thread::sleep_for(10ms);
    }

    std::string conninfo() const
    {
        return "host=" + folder_.path().native() + " port=6432 user=waymark dbname=postgres";
    }

private:
    static test::child_process start(const std::filesystem::path& folder)
    {
        std::ofstream(folder / "users") << "\"waymark\" \"\"\n";
        std::ofstream(folder / "pgbouncer.ini")
            << "[databases]\npostgres = host=" << std::getenv("WAYMARK_POSTGRES_FOLDER")
            << " dbname=postgres\n[pgbouncer]\npool_mode = transaction\ndefault_pool_size = 2\n"
            << "listen_addr =\nunix_socket_dir = " << folder.native()
            << "\nauth_type = trust\nauth_file = " << (folder / "users").native()
            << "\nlogfile = " << (folder / "log").native() << "\n";
        std::vector<std::string> command = {pgbouncer, "-q", (folder / "pgbouncer.ini").native()};
        if (::geteuid() == 0) { // it refuses to run as root
            test::run_command("chown -R postgres " + folder.native());
            command.insert(command.begin(),
                           {"/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"});
        }
        return test::child_process(std::move(command));
    }

    test::temporary_folder folder_;
    test::child_process process_;
};

} // namespace

TEST_CASE("behind pgbouncer in transaction mode, the promises are the same")
{
    if (!test::postgres_for_tests())
        return;
    if (!std::filesystem::exists(pgbouncer)) {
        std::cout << "this test is skipped: there is no pgbouncer\n";
        return;
    }
    const pooler between;
    std::vector<std::shared_ptr<test::leased_schema>> schemas;
    const testing::backend_under_test backend("behind pgbouncer", [&]() -> std::shared_ptr<store> {
        schemas.clear();
        schemas.push_back(std::make_shared<test::leased_schema>(*test::postgres_for_tests(), 0));
        return std::make_shared<postgres_store>(between.conninfo(),
                                                postgres_options().with_schema(schemas.back()->name()));
    });
    std::ostringstream log;
    const auto failures = testing::run_conformance_suite(backend, log);
    CAPTURE(log.str());
    CHECK(failures == 0);
    testing::compare_with_model(backend, 1, 200);

    // Many clients, two server connections.
    auto shared = backend.make_empty();
    std::vector<std::thread> clients;
    std::atomic<int> saved = 0;
    for (int i = 0; i < 8; ++i)
        clients.emplace_back([&, i] {
            postgres_store own(between.conninfo(), postgres_options().with_schema(schemas.back()->name()));
            for (int number = 0; number < 25; ++number) {
                own.save(checkpoint("agent " + std::to_string(i), {}, number));
                saved += own.load_latest("agent " + std::to_string(i))->iteration() == number ? 1 : 0;
            }
        });
    for (auto& client : clients)
        client.join();
    CHECK(saved == 8 * 25);
    CHECK(shared->verify().ok());
}
