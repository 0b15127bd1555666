//! A user's check of a backend with the installed test kit.
#include <waymark/memory_store.hpp>
#include <waymark/testing/conformance.hpp>

#include <iostream>

int main()
{
    const waymark::testing::backend_under_test backend(
        "memory", [] { return std::make_shared<waymark::memory_store>(); });
    return waymark::testing::run_conformance_suite(backend, std::cout) == 0 ? 0 : 1;
}
