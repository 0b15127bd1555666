//! The file: what makes it ours, its tables, and how an older format becomes the present one.
#pragma once

#include "connection.hpp"

#include <waymark/sqlite_store.hpp>

#include <memory>
#include <string>

namespace waymark::sqlite {

//! "WAYM" in the file's header.
inline constexpr std::int64_t application_id = 0x5741594d;
inline constexpr std::int64_t format_version = 5;
//! Of new files; a file keeps the size that it was made with. Larger pages would hold somewhat more, but
//! every commit writes some eight of them, and syncs them.
inline constexpr std::size_t new_page_bytes = 4096;

enum class role { writer, reader };

//! A connection with our settings. The file must be there, but for a writer.
std::unique_ptr<connection> connect(const std::string& path, const sqlite_options& options, role purpose);

//! Makes sure that the database is ours and of the present format; makes the tables of a new one.
//! @throws waymark::error `invalid_argument`, `unsupported_format`, `corrupt`, and touches nothing then.
void prepare_schema(connection& db, const std::string& path, const sqlite_options& options);

} // namespace waymark::sqlite
