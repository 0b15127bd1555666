//! A suite that checks a backend against the promises of `waymark::store`. Link `waymark::testing`.
//!
//! It needs no test framework. In the simplest case:
//!
//!     waymark::testing::backend_under_test mine{"mine", [] { return std::make_shared<my_store>(); }};
//!     return waymark::testing::run_conformance_suite(mine, std::cout) == 0 ? 0 : 1;
//!
//! or register each case of `conformance_suite()` with a framework of your choice.
#pragma once

#include <waymark/store.hpp>

#include <functional>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace waymark::testing {

//! An expectation did not hold; `what()` says which, and where.
class failed_expectation : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

//! How to get stores of the kind that is tested.
class backend_under_test {
public:
    using maker = std::function<std::shared_ptr<store>()>;
    using reopener = std::function<std::shared_ptr<store>(std::shared_ptr<store>)>;
    using opener = std::function<std::shared_ptr<store>(const std::shared_ptr<store>&)>;

    //! @param make_empty makes an empty store with default limits, independent of those made before.
    backend_under_test(std::string name, maker make_empty);

    // clang-format off
    //! For backends that outlive their object: closes the store and opens it again with what it holds.
    backend_under_test& with_reopen(reopener reopen) { reopen_ = std::move(reopen); return *this; }
    //! For backends that several objects may share, as processes and machines do: opens what the given store
    //! holds once more, while it stays open. The suite then lets objects race each other, and not only
    //! threads on one object.
    backend_under_test& with_open_beside(opener open_beside)
    { open_beside_ = std::move(open_beside); return *this; }
    // clang-format on

    const std::string& name() const noexcept { return name_; }
    std::shared_ptr<store> make_empty() const { return make_empty_(); }
    //! The same store where the backend cannot be reopened.
    std::shared_ptr<store> reopen(std::shared_ptr<store> current) const;
    bool can_open_beside() const noexcept { return static_cast<bool>(open_beside_); }
    //! The same store where the backend cannot be opened twice.
    std::shared_ptr<store> open_beside(const std::shared_ptr<store>& current) const;

private:
    std::string name_;
    maker make_empty_;
    reopener reopen_;
    opener open_beside_;
};

//! One promise, and how to check it.
class conformance_case {
public:
    using check = void (*)(const backend_under_test&);

    conformance_case(const char* name, check body) noexcept : name_(name), body_(body) {}

    //! A sentence: "saving an existing key keeps its sequence".
    const char* name() const noexcept { return name_; }
    //! @throws failed_expectation, or what the backend throws.
    void run(const backend_under_test& backend) const { body_(backend); }

private:
    const char* name_;
    check body_;
};

//! All cases.
const std::vector<conformance_case>& conformance_suite();

//! Runs all cases, prints one line for each and the reason for each failure. Returns the number of failures.
std::size_t run_conformance_suite(const backend_under_test& backend, std::ostream& log);

} // namespace waymark::testing
