//! The expectations of the test kit, which has no test framework to lean on.
#pragma once

#include <waymark/error.hpp>
#include <waymark/testing/conformance.hpp>

#include <string>

namespace waymark::testing {

[[noreturn]] inline void fail(const char* file, int line, const std::string& what)
{
    throw failed_expectation(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

//! Runs `action`, which must throw waymark::error with this code. Returns the details.
template <class Action>
std::string expect_error(const char* file, int line, errc wanted, Action action)
{
    try {
        action();
    } catch (const error& failure) {
        if (failure.code() != wanted)
            fail(file, line,
                 "expected '" + make_error_code(wanted).message() + "', got '" + failure.what() + "'");
        return failure.details().message();
    }
    fail(file, line, "expected '" + make_error_code(wanted).message() + "', but it succeeded");
}

} // namespace waymark::testing

#define WAYMARK_EXPECT(condition)                                                                            \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            ::waymark::testing::fail(__FILE__, __LINE__, "expected: " #condition);                           \
    } while (false)

#define WAYMARK_EXPECT_ERROR(code, ...)                                                                      \
    ::waymark::testing::expect_error(__FILE__, __LINE__, code, [&] { __VA_ARGS__; })
