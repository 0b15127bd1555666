//! Strings that cannot be ids: every function has to say so, and to change nothing.
#pragma once

#include <waymark/store.hpp>

#include <string>

namespace waymark::faults {

//! The string is no id. It may be a label (when it is empty) or text (when it is too long, or has a NUL); as
//! what it may be, it is accepted and comes back.
//! @throws broken_promise
void exercise_refusals(store& target, const std::string& text);

} // namespace waymark::faults
