//! What the checks of hostile strings have in common.
#pragma once

#include "hostile_exercise.hpp"
#include "hostile_text.hpp"

#include <waymark/transfer.hpp>

#include <algorithm>
#include <sstream>

namespace waymark::faults {

inline constexpr const char* bystander = "bystander";

inline void require(bool holds, const std::string& complaint)
{
    if (!holds)
        throw broken_promise(complaint);
}

//! Text for people has no control characters, whatever it speaks of.
inline void require_printable(std::string_view text)
{
    require(is_printable(text), "a message is not printable: " + shown(text));
}

template <class Value>
std::error_code code_of(const outcome<Value>& ended)
{
    require_printable(ended.details().message());
    return ended.code();
}

//! Runs what may fail; the code of the failure, or none.
template <class Action>
std::error_code code_of_call(Action action)
{
    try {
        action();
    } catch (const error& failure) {
        require_printable(failure.what());
        require_printable(failure.details().message());
        return failure.code();
    }
    return {};
}

template <class Action>
void require_failure(errc wanted, const std::string& what, Action action)
{
    const auto code = code_of_call(action);
    require(code == wanted,
            what + (code ? " failed with '" + code.message() + "'" : std::string(" was accepted")));
}

//! An export of one agent. A line break in a string must not make a line.
inline std::string exported(store& from, const std::string& agent)
{
    std::ostringstream to;
    const auto count = export_lines(from, to, export_options().of_agent(agent));
    const auto lines = to.str();
    require(static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n')) ==
                count.checkpoints() + count.steps() + 2,
            "an export has other lines than it should");
    require(lines.find('\r') == std::string::npos && is_utf8(lines), "an export is not plain lines of text");
    return lines;
}

} // namespace waymark::faults
