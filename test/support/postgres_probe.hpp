//! A look into PostgreSQL from outside of the library, and a schema that nobody else uses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct pg_conn;

namespace waymark::test {

//! How to connect to the server that scripts/test has started; none without one, which is said in a line that
//! makes ctest report the test as skipped.
std::optional<std::string> postgres_for_tests();

//! A connection of another program.
class server_connection {
public:
    explicit server_connection(const std::string& conninfo);
    server_connection(const server_connection&) = delete;
    server_connection& operator=(const server_connection&) = delete;
    ~server_connection();

    //! Runs SQL; returns the first column of each row as text.
    std::vector<std::string> run(const std::string& sql);
    std::int64_t number(const std::string& sql) { return std::stoll(run(sql).at(0)); }

private:
    pg_conn* connection_ = nullptr;
};

//! A schema for one test at a time. Schemas stay with the server and are used again, since making tables
//! takes longer than most tests.
class leased_schema {
public:
    leased_schema(const std::string& conninfo, std::size_t partitions);

    const std::string& name() const noexcept { return name_; }

private:
    server_connection lease_; // holds a lock as long as it is open
    std::string name_;
};

} // namespace waymark::test
