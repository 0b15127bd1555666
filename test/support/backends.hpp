//! The backends that the tests run on. A new one registers itself here.
#pragma once

#include <waymark/memory_store.hpp>
#include <waymark/testing/conformance.hpp>
#include <waymark/testing/random_operations.hpp>

#include <vector>

namespace waymark::test {

inline std::vector<testing::backend_under_test> all_backends()
{
    return {
        {"memory", [] { return std::make_shared<memory_store>(); }},
    };
}

} // namespace waymark::test
