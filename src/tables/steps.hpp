//! Recording and reading steps, inside transactions that others begin and end.
#pragma once

#include "agent_records.hpp"

#include <waymark/store.hpp>

namespace waymark::tables {

//! @throws waymark::error; nothing is written then.
void put_step(const step_request& request, agent_records& records, transaction& in,
              std::size_t largest_value);

//! See store::erase_step.
bool remove_step(transaction& in, std::string_view agent_id, std::string_view scope, std::string_view key,
                 const std::optional<std::string>& attempt);

//! @throws waymark::error `corrupt` that names it.
step read_step(const step_row& row, const agent_row& agent);

} // namespace waymark::tables
