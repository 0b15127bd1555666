#include "backends.hpp"
#include "catch.hpp"

#include <waymark/testing/random_operations.hpp>

#include <cstdlib>

using namespace waymark;

// The seed can be given in WAYMARK_SEED, to run a failure again.
TEST_CASE("every backend agrees with the plain model in random sequences of operations")
{
    const char* given = std::getenv("WAYMARK_SEED");
    const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            // Those that sync take a hundred times as long.
            const bool in_memory = backend.name() == "memory";
            const std::uint64_t sequences = given != nullptr ? 1 : in_memory ? 2'000 : 60;
            for (auto seed = first; seed < first + sequences; ++seed)
                testing::compare_with_model(backend, seed, 40);
            for (auto seed = first; seed < first + (in_memory ? 10 : 2); ++seed)
                testing::compare_with_model(backend, seed, 1'000);
            SUCCEED();
        }
}

TEST_CASE("the backends agree with each other in random sequences of operations")
{
    const auto backends = test::all_backends();
    for (std::size_t left = 0; left < backends.size(); ++left)
        for (std::size_t right = left + 1; right < backends.size(); ++right)
            DYNAMIC_SECTION(backends[left].name() << " and " << backends[right].name())
            {
                for (std::uint64_t seed = 10'000; seed < 10'010; ++seed)
                    testing::compare_stores(backends[left].make_empty(), backends[right].make_empty(), seed,
                                            60);
                SUCCEED();
            }
}

TEST_CASE("the plain model keeps the promises of a store, too")
{
    // All but two: it checks no ids that it is only asked about, and is not for threads.
    const testing::backend_under_test model("model", testing::make_model_store);
    for (const auto& promise : testing::conformance_suite()) {
        const std::string name = promise.name();
        if (name == "bad ids are refused by every function" || name == "threads may share a store")
            continue;
        DYNAMIC_SECTION(name)
        {
            promise.run(model);
            SUCCEED();
        }
    }
}
