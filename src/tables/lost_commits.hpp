//! Commits whose end was not seen, in databases that may lose one on its way (`database::loses_commits`): the
//! connection broke, and the server may have committed, or may do so yet.
#pragma once

#include "transactions.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>

namespace waymark::tables {

//! A checkpoint that a transaction has written.
struct written_checkpoint {
    std::string agent_id;
    std::int64_t agent = 0;
    std::int64_t sequence = 0;
    std::string scope;
    std::string id;
    std::string check;
    std::optional<std::string> check_before; // of the row that it replaced
};

//! Whether a transaction was committed that may have been: its checkpoints are looked up by key and sequence.
//! None if that does not tell, because others have changed or removed them since.
std::optional<bool> was_committed(std::span<const written_checkpoint> written, transaction& in);

//! How often, and how long, one looks for what became of a commit.
class lost_commit {
public:
    //! Returns if the transaction is to be run again. @throws what is being handled, or `outcome_unknown` if
    //! a commit was lost before and it is time to give up.
    void look_again_after(const error& failure);

private:
    int looks_ = 0;
    std::optional<error> lost_;
    std::chrono::steady_clock::time_point end_;
};

//! For transactions that may be run twice: where a commit was lost, the next one tells whether it took place.
template <class Transaction>
auto until_known(database& in, Transaction run)
{
    if (!in.loses_commits())
        return run();
    for (lost_commit lost;;) {
        try {
            return run();
        } catch (const error& failure) {
            lost.look_again_after(failure);
        }
    }
}

template <class Body>
auto write_until_known(database& in, agent_ids agents, Body body)
{
    return until_known(in, [&] { return write(in, agents, body); });
}

} // namespace waymark::tables
