//! Expects that something is refused, and gives the reason back.
#pragma once

#include "catch.hpp"

#include <waymark/error.hpp>

#include <functional>
#include <string>

namespace waymark::test {

inline std::string refusal(const std::function<void()>& action, errc expected = errc::invalid_argument)
{
    try {
        action();
    } catch (const error& failure) {
        CHECK(failure.code() == expected);
        return failure.details().message();
    }
    FAIL("nothing was refused");
    return {};
}

} // namespace waymark::test
