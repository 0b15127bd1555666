#include "postgres_probe.hpp"

#include <waymark/postgres_store.hpp>

#include <cstdlib>
#include <iostream>
#include <libpq-fe.h>
#include <stdexcept>

namespace waymark::test {

std::optional<std::string> postgres_for_tests()
{
    if (const auto* conninfo = std::getenv("WAYMARK_POSTGRES"))
        return conninfo;
    std::cout << "this test is skipped: there is no PostgreSQL server for tests; run them with "
                 "scripts/with-postgres\n";
    return std::nullopt;
}

server_connection::server_connection(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str()))
{
    if (PQstatus(connection_) != CONNECTION_OK) {
        const std::string why = PQerrorMessage(connection_);
        PQfinish(connection_);
        throw std::runtime_error(why);
    }
    PQsetNoticeProcessor(
        connection_, [](void*, const char*) {}, nullptr);
}

server_connection::~server_connection()
{
    PQfinish(connection_);
}

std::vector<std::string> server_connection::run(const std::string& sql)
{
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(connection_, sql.c_str()), PQclear);
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK && PQresultStatus(result.get()) != PGRES_COMMAND_OK)
        throw std::runtime_error(PQresultErrorMessage(result.get()));
    std::vector<std::string> values;
    for (int row = 0; row < PQntuples(result.get()); ++row)
        values.emplace_back(PQgetvalue(result.get(), row, 0));
    return values;
}

leased_schema::leased_schema(const std::string& conninfo, std::size_t partitions) : lease_(conninfo)
{
    int slot = 0;
    while (lease_
               .run("SELECT pg_try_advisory_lock(" + std::to_string(partitions) + ", " +
                    std::to_string(slot) + ")")
               .at(0) != "t")
        ++slot;
    name_ = "test_" + std::to_string(partitions) + "_" + std::to_string(slot);
    if (lease_.run("SELECT to_regclass('" + name_ + ".format') IS NOT NULL").at(0) != "t") {
        lease_.run(postgres_store::ddl(postgres_options().with_schema(name_).with_partitions(partitions)));
        return;
    }
    for (const auto* table :
         {"agents", "erased_agents", "scopes", "checkpoints", "messages", "objects", "steps"})
        lease_.run("DELETE FROM " + name_ + "." + table);
}

} // namespace waymark::test
