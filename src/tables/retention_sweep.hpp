//! Choosing what retention removes, and removing what nobody needs any more. Functions that are given a
//! `transaction` run inside that of the caller; those that are given a `database` run several short ones, so
//! that savers get their turn.
#pragma once

#include "database.hpp"

#include <waymark/store.hpp>

namespace waymark::tables {

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
prune_plan plan_prune(transaction& from, const agent_row& agent, const retention& policies);
//! Removes checkpoints of the plan, as many as a short transaction can, if they are still what was chosen,
//! and neither head nor protected.
struct pruned {
    std::vector<checkpoint_key> removed;
    std::size_t looked_at = 0; // from the beginning of `chosen`
};
pruned remove_pruned(transaction& in, std::string_view agent_id, const prune_plan& plan,
                     std::span<const prune_plan::entry> chosen);

//! Removes what no checkpoint of the agent needs any more. Safe beside savers, of other processes too: each
//! transaction looks at what was saved since the one before.
void sweep(database& in, std::string_view agent_id, const upkeep_control& control);
//! Removes an agent that was erased or is hidden.
void remove_erased(database& in, const erased_agent& agent, const upkeep_control& control);
//! Removes all that were erased, and copies that were never finished.
void remove_erased_agents(database& in, const upkeep_control& control);
//! All of that, of all agents.
void sweep_all(database& in, const upkeep_control& control);

} // namespace waymark::tables
