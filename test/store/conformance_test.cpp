#include "backends.hpp"
#include "catch.hpp"
#include "forwarding_store.hpp"

#include <waymark/testing/conformance.hpp>

#include <sstream>

using namespace waymark;

TEST_CASE("every backend keeps the promises of a store", "[stores]")
{
    for (const auto& backend : test::all_backends())
        for (const auto& promise : testing::conformance_suite())
            DYNAMIC_SECTION(backend.name() << ": " << promise.name())
            {
                promise.run(backend);
                SUCCEED();
            }
}

TEST_CASE("the conformance suite notices a store that breaks its promises")
{
    // A store that forgets conditions and pins.
    class forgetful final : public test::forwarding_store {
    public:
        std::vector<save_outcome> save(std::span<const save_request> batch) override
        {
            std::vector<save_request> plain;
            for (const auto& request : batch)
                plain.emplace_back(request.checkpoint());
            return forwarding_store::save(plain);
        }
        bool pin(std::string_view, std::string_view, std::string_view, bool) override { return true; }
    };

    const testing::backend_under_test backend("forgetful", [] { return std::make_shared<forgetful>(); });
    std::ostringstream log;
    const auto failures = testing::run_conformance_suite(backend, log);
    CHECK(failures >= 5);
    CHECK(log.str().find("FAILED  forgetful: expect_head") != std::string::npos);
    CHECK(log.str().find("ok      forgetful: names select") != std::string::npos);

    CHECK_THROWS_AS(testing::compare_with_model(backend, 1, 2'000), testing::failed_expectation);
}

TEST_CASE("the conformance suite survives a store that does nothing")
{
    class idle final : public test::forwarding_store {
    public:
        std::vector<save_outcome> save(std::span<const save_request> batch) override
        {
            return std::vector<save_outcome>(batch.size());
        }
    };
    const testing::backend_under_test backend("idle", [] { return std::make_shared<idle>(); });
    std::ostringstream log;
    CHECK(testing::run_conformance_suite(backend, log) > 20);
}
