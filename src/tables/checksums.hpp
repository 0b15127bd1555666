//! What tells a damaged row from one that was written so.
#pragma once

#include "rows.hpp"

#include <utility>

namespace waymark::tables {

std::string checksum(const agent_row& row);
std::string checksum(const scope_row& row);
std::string checksum(const checkpoint_row& row);
std::string checksum(const step_row& row);

//! Adds the checksum to a row whose messages are complete.
void seal(message_row& row);
bool has_checksum(const message_row& row) noexcept;
//! Whether it has a checksum, and that is right.
bool is_intact(const message_row& row);

template <class Row>
bool is_intact(const Row& row)
{
    return row.check == checksum(row);
}

template <class Row>
Row&& seal(Row&& row)
{
    row.check = checksum(row);
    return std::forward<Row>(row);
}

//! What a checkpoint's row counts for in `stored_bytes` and retention.
std::int64_t row_bytes(const checkpoint_row& row) noexcept;

} // namespace waymark::tables
