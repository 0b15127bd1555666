//! Which checkpoints a query means, and whether all are there that should be.
#pragma once

#include "agent_records.hpp"

#include <waymark/query.hpp>

#include <functional>
#include <string_view>

namespace waymark::tables {

using selection_visitor = std::function<void(const agent_row&, checkpoint_row&&, checkpoint_header&&)>;

//! Calls `visit` for each match, in the order of the query.
//! @throws waymark::error `corrupt` if one that should be there is missing.
void select(transaction& from, const query& wanted, const selection_visitor& visit);

//! The agent if it exists and is sound.
std::optional<agent_row> find_agent(transaction& from, std::string_view id);

//! Absence is certain only if nothing is missing that should be there.
//! @throws waymark::error `corrupt`
void require_complete(transaction& from, const agent_row& agent, std::string_view scope);

} // namespace waymark::tables
