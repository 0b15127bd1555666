//! Any id as the name of a file, and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace waymark::file {

//! A name without suffix. Lower-case letters, digits, '-', '_' and '.' (not in front or at the end) stand for
//! themselves, every other byte is "%" and two hex digits, so that no two ids share a name, on file systems
//! that fold case either. The empty string is "%". What gets too long is its beginning, "~" and a SHA-256.
std::string to_name(std::string_view id);

//! The id, or none if the name was not made by `to_name`, or is one with a SHA-256.
std::optional<std::string> from_name(std::string_view name);

//! Whether the id is not in the name but has to be looked up in the file.
bool is_shortened(std::string_view name);

} // namespace waymark::file
