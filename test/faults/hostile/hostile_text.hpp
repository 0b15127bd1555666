//! What a store has to think of a string, judged without the library.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::faults {

//! With every `what` replaced.
std::string replaced(std::string text, std::string_view what, std::string_view by);

//! The string with the folder's path in place of "{outside}".
std::string aimed_at(std::string text, const std::string& outside);

//! Written for the harness alone, so that a mistake of the library is not made twice.
bool is_utf8(std::string_view text);
//! What a scope or a name may be: UTF-8 without NUL, of at most 255 bytes.
bool is_label(std::string_view text);
//! What an id or a key may be: the same, and not empty.
bool is_id(std::string_view text);
//! Whether a terminal or a log shows it as one line of text: UTF-8 without control characters.
bool is_printable(std::string_view text);

//! Ids that a careless comparison takes for this one: the name that a file for it has (first, if it is
//! another), other case, other normal form, a prefix, a trailing space, a pattern that matches it.
std::vector<std::string> neighbours_of(std::string_view id);

//! For messages: pure ASCII, and short.
std::string shown(std::string_view text, std::size_t longest = 100);

} // namespace waymark::faults
