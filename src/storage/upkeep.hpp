//! Removing and copying. Functions that are given a `tables` run inside a transaction of the caller; those
//! that are given a `database` run several short ones, so that savers get their turn.
#pragma once

#include "ledger.hpp"
#include "tables.hpp"

#include <waymark/store.hpp>

namespace waymark::storage {

//! Removes one checkpoint and the steps that no checkpoint is left for. What only it needed stays behind for
//! `sweep`. Returns whether it was there.
bool remove_checkpoint(tables& in, std::string_view agent_id, std::string_view scope, std::string_view id);

//! Removes the oldest checkpoints of a scope, likewise, and its steps with the last of them. Returns how
//! many.
std::size_t remove_some_of_scope(tables& in, std::string_view agent_id, std::string_view scope);

//! What an agent has, and what its checkpoints take.
store_stats measure(tables& from, const agent_row& agent);

//! What retention would remove now, and what it would free.
struct prune_plan {
    struct entry {
        checkpoint_key key;
        std::string check; // of its row: what was saved again since is not what was chosen
    };

    std::int64_t agent = 0; // the number of the agent's present life
    std::vector<entry> chosen;
    std::uint64_t bytes = 0;
};
prune_plan plan_prune(tables& from, const agent_row& agent, const retention& policies);
//! Removes these checkpoints of the plan, if they are still what was chosen, and neither head nor protected.
//! Returns those that it removed.
std::vector<checkpoint_key> remove_pruned(tables& in, std::string_view agent_id, const prune_plan& plan,
                                          std::span<const prune_plan::entry> chosen);

//! Removes what no checkpoint of the agent needs any more. Safe beside savers, of other processes too: each
//! transaction looks at what was saved since the one before.
void sweep(database& in, std::string_view agent_id);
//! Removes the rows of an agent that was erased.
void remove_erased(database& in, const erased_agent& agent);
//! Finishes what erasures and sweeps that were interrupted left.
void sweep_all(database& in);

//! Makes the agent invisible at once; its rows are for `remove_erased`. None if there is no such agent.
std::optional<erased_agent> erase_agent(tables& in, std::string_view agent_id, std::uint64_t& checkpoints);

std::uint64_t copy_agent(tables& in, std::string_view from, std::string_view to);

} // namespace waymark::storage
