//! Random sequences of operations on two stores that must agree after each of them.
#pragma once

#include <waymark/store.hpp>
#include <waymark/testing/conformance.hpp>

#include <cstdint>
#include <memory>

namespace waymark::testing {

//! A store so plain that it can be checked by reading: one list, searched from end to end. It is what random
//! sequences compare a backend with; it is not thread-safe and not fast.
std::shared_ptr<store> make_model_store();

//! Applies `operations` random operations to both stores and compares each outcome, then everything that
//! both hold. The same seed gives the same operations.
//! @throws failed_expectation that names the seed, the operation and what differs.
void compare_stores(std::shared_ptr<store> left, std::shared_ptr<store> right, std::uint64_t seed,
                    std::size_t operations);

//! Compares a backend with the plain model in this way, and closes and opens it now and then.
void compare_with_model(const backend_under_test& backend, std::uint64_t seed, std::size_t operations);

} // namespace waymark::testing
