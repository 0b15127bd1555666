#include "catch.hpp"
#include "mutants.hpp"

#include <waymark/testing/random_operations.hpp>

#include <algorithm>
#include <set>

using namespace waymark;
using test::mutant;

namespace {

std::vector<mutant> all_mutants()
{
    std::vector<mutant> all;
    for (const auto& part : {test::mutants_of_values(), test::mutants_of_saves(), test::mutants_of_queries(),
                             test::mutants_of_upkeep(), test::mutants_of_steps(), test::mutants_of_races()})
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

const testing::conformance_case* find_case(const std::string& name)
{
    const auto& suite = testing::conformance_suite();
    const auto found =
        std::find_if(suite.begin(), suite.end(), [&](const auto& one) { return one.name() == name; });
    return found == suite.end() ? nullptr : &*found;
}

//! What it says of a store, or nothing.
std::string complaint_of(const std::string& name, const testing::backend_under_test& backend)
{
    try {
        if (name == test::the_model) {
            // As many operations as "every backend agrees with the plain model" makes on a store in memory.
            for (std::uint64_t seed = 1; seed <= 500; ++seed)
                testing::compare_with_model(backend, seed, 40);
            return {};
        }
        const auto* const promise = find_case(name);
        REQUIRE(promise != nullptr); // the mutant names a case that is not there
        promise->run(backend);
    } catch (const std::exception& failure) {
        return failure.what();
    }
    return {};
}

void check_that_all_are_noticed(const std::vector<mutant>& mutants)
{
    std::vector<std::string> unnoticed;
    for (const auto& wrong : mutants)
        for (const auto& name : wrong.noticed_by())
            if (complaint_of(name, wrong.backend()).empty())
                unnoticed.push_back("a store that " + wrong.name() + " passes: " + name);
    CHECK(unnoticed == std::vector<std::string>());
}

} // namespace

TEST_CASE("stores that lose a part of what is saved are noticed")
{
    check_that_all_are_noticed(test::mutants_of_values());
}

TEST_CASE("stores that save or load wrongly are noticed")
{
    check_that_all_are_noticed(test::mutants_of_saves());
}

TEST_CASE("stores that answer queries wrongly are noticed")
{
    check_that_all_are_noticed(test::mutants_of_queries());
}

TEST_CASE("stores that erase, copy, prune or count wrongly are noticed")
{
    check_that_all_are_noticed(test::mutants_of_upkeep());
}

TEST_CASE("stores that keep steps wrongly are noticed")
{
    check_that_all_are_noticed(test::mutants_of_steps());
}

TEST_CASE("stores that look and then write are noticed")
{
    check_that_all_are_noticed(test::mutants_of_races());
}

TEST_CASE("a mutant without a fault passes the suite and agrees with the model")
{
    const auto right = mutant("nothing", {}, test::faults{}).backend();
    for (const auto& promise : testing::conformance_suite())
        CHECK(complaint_of(promise.name(), right) == "");
    CHECK(complaint_of(test::the_model, right) == "");
}

TEST_CASE("every case of the conformance suite can fail")
{
    std::set<std::string> unproved;
    for (const auto& promise : testing::conformance_suite())
        unproved.insert(promise.name());
    for (const auto& wrong : all_mutants())
        for (const auto& name : wrong.noticed_by())
            unproved.erase(name);
    CHECK(unproved == std::set<std::string>());
}
