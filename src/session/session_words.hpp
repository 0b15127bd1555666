//! Words for what went wrong in a session.
#pragma once

#include <exception>
#include <string>

namespace waymark::detail {

//! Of the exception that is being handled.
inline std::string what_was_thrown()
{
    try {
        throw;
    } catch (const std::exception& thrown) {
        return thrown.what();
    } catch (...) {
        return "something that is no exception";
    }
}

//! A sentence for people, or nothing if there is no memory for it.
template <class Write>
std::string if_memory_allows(Write write) noexcept
{
    try {
        return write();
    } catch (...) {
        return {};
    }
}

} // namespace waymark::detail
