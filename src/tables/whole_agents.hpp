//! What is done to an agent as a whole, inside a transaction of the caller.
#pragma once

#include "database.hpp"

#include <waymark/store.hpp>

namespace waymark::tables {

//! What an agent has, and what its checkpoints take.
store_stats measure(transaction& from, const agent_row& agent);

//! Makes the agent invisible at once; its rows are for `remove_erased_agents`. Returns how many checkpoints
//! it had.
std::uint64_t erase_agent(transaction& in, std::string_view agent_id);

} // namespace waymark::tables
