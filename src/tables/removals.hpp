//! Removing checkpoints, inside a transaction of the caller. What only they needed stays behind for `sweep`.
#pragma once

#include "agent_records.hpp"

#include <string_view>

namespace waymark::tables {

//! Takes the checkpoint out of the records, too. The head is looked up again if it was the one.
void remove_row(transaction& in, agent_records& records, agent_row& agent, const checkpoint_row& row);

//! Removes one checkpoint and the steps that no checkpoint is left for. Returns whether it was there.
bool remove_checkpoint(transaction& in, std::string_view agent_id, std::string_view scope,
                       std::string_view id);

//! Removes the oldest checkpoints of a scope, as many as a short transaction can, and then its steps.
struct scope_removal {
    std::size_t checkpoints = 0; // how many it removed
    bool is_done = true;
};
scope_removal remove_some_of_scope(transaction& in, std::string_view agent_id, std::string_view scope);

} // namespace waymark::tables
