#include "catch.hpp"

#include <waymark/error.hpp>
#include <waymark/version.hpp>

using namespace waymark;

TEST_CASE("error codes belong to their category and name a remedy")
{
    const std::error_code code = errc::conflict;
    CHECK(code.category() == category());
    CHECK(std::string(code.category().name()) == "waymark");
    for (int value = 1; value <= static_cast<int>(errc::api_refused); ++value) {
        const auto message = make_error_code(static_cast<errc>(value)).message();
        CHECK(message.find(';') != std::string::npos); // what happened; what to do
        CHECK(message.find("unknown error") == std::string::npos);
    }
    CHECK(category().message(999) == "unknown error 999");
}

TEST_CASE("error codes equal the conditions of the standard library where they mean the same")
{
    CHECK(make_error_code(errc::invalid_argument) == std::errc::invalid_argument);
    CHECK(make_error_code(errc::busy) == std::errc::device_or_resource_busy);
    CHECK(make_error_code(errc::overloaded) == std::errc::resource_unavailable_try_again);
    CHECK(make_error_code(errc::io) == std::errc::io_error);
    CHECK(make_error_code(errc::conflict) != std::errc::invalid_argument);
}

TEST_CASE("an error carries its code and its details")
{
    const error failure(errc::corrupt, "checkpoint 'c7' is damaged");
    CHECK(failure.code() == errc::corrupt);
    CHECK(failure.details().message() == "checkpoint 'c7' is damaged");
    const std::string text = failure.what();
    CHECK(text.find("c7") != std::string::npos);
    CHECK(text.find("verify()") != std::string::npos);
}

TEST_CASE("headers and library are of the same version")
{
    CHECK(std::string(version()) == std::to_string(WAYMARK_VERSION_MAJOR) + "." +
                                        std::to_string(WAYMARK_VERSION_MINOR) + "." +
                                        std::to_string(WAYMARK_VERSION_PATCH));
}
