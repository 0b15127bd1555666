//! Random sequences of operations on several stores that must agree after each of them.
#pragma once

#include <waymark/store.hpp>
#include <waymark/testing/conformance.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace waymark::testing {

//! A store so plain that it can be checked by reading: one list, searched from end to end. It is what random
//! sequences compare a backend with; it is not thread-safe and not fast.
std::shared_ptr<store> make_model_store();

//! One of the stores that are compared, and what it is called in messages.
class compared_store {
public:
    using reopener = backend_under_test::reopener;

    //! With `reopen`, the store is closed and opened again within a sequence now and then.
    compared_store(std::string name, std::shared_ptr<store> backend, reopener reopen = {});

    const std::string& name() const noexcept { return name_; }
    store& get() const noexcept { return *backend_; }
    void reopen();

private:
    std::string name_;
    std::shared_ptr<store> backend_;
    reopener reopen_;
};

//! How thorough a comparison is.
class comparison_options {
public:
    comparison_options() = default;

    // clang-format off
    //! Compares all headers, pins and steps after each operation that writes. Default: once, at the end.
    comparison_options& after_each_operation() noexcept { after_each_operation_ = true; return *this; }
    //! Erases all agents at the end and compares that, too, so that the stores can be used again. Default:
    //! off.
    comparison_options& erase_at_the_end() noexcept { erase_at_the_end_ = true; return *this; }
    // clang-format on

    bool is_after_each_operation() const noexcept { return after_each_operation_; }
    bool erases_at_the_end() const noexcept { return erase_at_the_end_; }

private:
    bool after_each_operation_ = false;
    bool erase_at_the_end_ = false;
};

//! Applies `operations` random operations to all stores and compares each outcome, then everything that they
//! hold. The same seed gives the same operations, whatever the options.
//! @pre All hold the same; nothing, in the simplest case.
//! @throws failed_expectation that names the seed, the operation, the stores and what differs.
void compare_stores(std::span<compared_store> stores, std::uint64_t seed, std::size_t operations,
                    const comparison_options& options = {});

//! The same for two.
void compare_stores(std::shared_ptr<store> left, std::shared_ptr<store> right, std::uint64_t seed,
                    std::size_t operations);

//! Compares a backend with the plain model in this way, and closes and opens it now and then.
void compare_with_model(const backend_under_test& backend, std::uint64_t seed, std::size_t operations);

} // namespace waymark::testing
