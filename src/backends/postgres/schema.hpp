//! The tables: their SQL, and how they come into a database.
#pragma once

#include "connection.hpp"

#include <waymark/postgres_store.hpp>

namespace waymark::postgres {

inline constexpr std::int64_t format_version = 4;

//! The statements that make the tables.
std::string ddl(const postgres_options& options);
//! See postgres_store::upgrade_ddl.
std::string upgrade_ddl(std::int64_t from, const postgres_options& options);

//! Makes sure that the tables are there and of the present format; makes them if that is allowed. Processes
//! that do so at the same time wait for each other.
//! Returns how many partitions they have, whoever has made them; 0: none. If they differ, the most.
//! @throws waymark::error `invalid_argument`, `unsupported_format`, and touches nothing then.
std::size_t prepare_schema(connection& db, const postgres_options& options);

} // namespace waymark::postgres
