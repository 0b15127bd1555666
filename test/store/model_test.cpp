#include "backends.hpp"
#include "catch.hpp"

#include <waymark/testing/random_operations.hpp>

#include <cstdlib>

using namespace waymark;

// The seed can be given in WAYMARK_SEED, to run a failure again.
TEST_CASE("every backend agrees with the plain model in random sequences of operations", "[stores]")
{
    const char* given = std::getenv("WAYMARK_SEED");
    const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            // Those that sync take a hundred times as long. The attack "agreement" makes thousands on all of
            // them.
            const bool in_memory = backend.name() == "memory";
            const std::uint64_t sequences = given != nullptr ? 1 : in_memory ? 500 : 20;
            for (auto seed = first; seed < first + sequences; ++seed)
                testing::compare_with_model(backend, seed, 40);
            for (auto seed = first; seed < first + (in_memory ? 3 : 1); ++seed)
                testing::compare_with_model(backend, seed, 1'000);
            SUCCEED();
        }
}

TEST_CASE("the backends agree with each other in random sequences of operations", "[stores]")
{
    const auto backends = test::all_backends();
    const auto others = test::embedded_backends();
    for (const auto& left : backends)
        for (const auto& right : others) {
            if (left.name() >= right.name())
                continue; // the same, or compared the other way round
            DYNAMIC_SECTION(left.name() << " and " << right.name())
            {
                for (std::uint64_t seed = 10'000; seed < 10'004; ++seed)
                    testing::compare_stores(left.make_empty(), right.make_empty(), seed, 60);
                SUCCEED();
            }
        }
}

TEST_CASE("the plain model keeps the promises of a store, too")
{
    // All but these: it checks no ids that it is only asked about, is not for threads, and searches its lists
    // from end to end, which takes ten seconds for ten thousand.
    const testing::backend_under_test model("model", testing::make_model_store);
    for (const auto& promise : testing::conformance_suite()) {
        const std::string name = promise.name();
        if (name == "bad ids are refused by every function" || name == "threads may share a store" ||
            name.starts_with("of many who") || name == "what is done at once is all there" ||
            name == "ten thousand checkpoints")
            continue;
        DYNAMIC_SECTION(name)
        {
            promise.run(model);
            SUCCEED();
        }
    }
}
