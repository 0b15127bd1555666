//! The backends that the tests run on. A new one registers itself here.
#pragma once

#include <waymark/testing/conformance.hpp>
#include <waymark/testing/random_operations.hpp>

#include <vector>

namespace waymark::test {

//! Those that need nothing but this machine.
std::vector<testing::backend_under_test> embedded_backends();

//! PostgreSQL with plain tables and with partitioned ones; none without a server.
std::vector<testing::backend_under_test> postgres_backends();

//! Those that this run is about: the embedded ones, or PostgreSQL with WAYMARK_BACKENDS=postgres.
std::vector<testing::backend_under_test> all_backends();

} // namespace waymark::test
