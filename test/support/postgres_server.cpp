#include "postgres_server.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

namespace waymark::test {

void run_command(const std::string& command)
{
    auto* const pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr)
        throw std::runtime_error(command + " cannot be run");
    std::string output;
    std::array<char, 512> part{};
    while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr)
        output += part.data();
    if (::pclose(pipe) != 0)
        throw std::runtime_error(command + " has failed: " + output);
}

bool has_program(const std::string& name)
{
    return std::system(("command -v " + name + " >/dev/null").c_str()) == 0; // NOLINT(concurrency-mt-unsafe)
}

namespace {

//! The folder of the server's programs, as scripts/with-postgres found it.
std::string programs()
{
    const auto* const folder = std::getenv("WAYMARK_POSTGRES_PROGRAMS");
    return folder == nullptr ? "/usr/lib/postgresql/15/bin" : folder;
}

//! The server refuses to run as root.
std::string as_user()
{
    return ::geteuid() == 0 ? "runuser -u postgres -- " : "";
}

} // namespace

postgres_server::postgres_server(setup how) : how_(std::move(how))
{
    if (::geteuid() == 0)
        run_command("chown postgres " + how_.folder.native());
    auto authentication = std::string(" -A trust");
    if (!how_.password.empty()) {
        std::ofstream(how_.folder / "password") << how_.password << '\n';
        authentication = " -A scram-sha-256 --pwfile=" + (how_.folder / "password").native();
    }
    run("initdb -D " + data().native() + " -U waymark -E UTF8 --locale=C -N" + authentication);
    configure();
    start();
}

postgres_server::postgres_server(setup how, const std::string& primary) : how_(std::move(how))
{
    if (::geteuid() == 0)
        run_command("chown postgres " + how_.folder.native());
    run("pg_basebackup -D " + data().native() + " -R -X stream -c fast --no-sync -d '" + primary + "'");
    configure();
    start();
}

postgres_server::~postgres_server()
{
    try {
        if (is_running_)
            stop("immediate");
    } catch (const std::exception& failure) {
        std::fputs(failure.what(), stderr);
    }
}

void postgres_server::run(const std::string& program_and_arguments) const
{
    run_command("cd / && " + how_.run_in + " " + as_user() + programs() + "/" + program_and_arguments);
}

void postgres_server::configure() const
{
    std::ofstream file(data() / "postgresql.conf", std::ios::app);
    file << "\nlisten_addresses = ''\nmax_connections = 60\nunix_socket_directories = '"
         << how_.folder.native() << "'\n";
    for (const auto& line : how_.settings)
        file << line << '\n';
    if (!how_.network.empty())
        std::ofstream(data() / "pg_hba.conf", std::ios::app)
            << "host all all " << how_.network << " trust\n"
            << "host replication all " << how_.network << " trust\n";
}

void postgres_server::start()
{
    try {
        run("pg_ctl start -w -t 60 -D " + data().native() + " -l " + (how_.folder / "log").native());
    } catch (...) {
        std::system(
            (how_.run_in + " " + as_user() + programs() + "/pg_ctl stop -m immediate -D " + data().native())
                .c_str()); // what may have started after all
        throw;
    }
    is_running_ = true;
}

void postgres_server::stop(const std::string& mode)
{
    is_running_ = false;
    run("pg_ctl stop -w -t 60 -m " + mode + " -D " + data().native());
}

void postgres_server::promote()
{
    run("pg_ctl promote -w -t 60 -D " + data().native());
}

std::string postgres_server::conninfo(const std::string& more) const
{
    return "host=" + how_.folder.native() + " user=waymark dbname=postgres " + more;
}

} // namespace waymark::test
