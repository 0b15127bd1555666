//! How the messages of a conversation get into rows and out of them.
#pragma once

#include "tables.hpp"

#include <waymark/checkpoint.hpp>

#include <atomic>
#include <cstdint>
#include <vector>

namespace waymark::storage {

//! What a conversation remembers of its place in a database.
class remembered_prefix final : public detail::stored_prefix {
public:
    //! `chains` are the digests of the conversation behind its oldest `base` messages.
    remembered_prefix(detail::storage_place place, const void* transaction, const agent_row& agent,
                      extent_list messages, std::size_t base, std::vector<digest> chains) noexcept
        : stored_prefix(place, transaction),
          sweeps_(agent.sweeps),
          sequence_(agent.last_sequence),
          messages_(std::move(messages)),
          base_(base),
          chains_(std::move(chains))
    {
    }

    const extent_list& messages() const noexcept { return messages_; }
    //! @pre `length` is above the base
    const digest& chain_at(std::size_t length) const { return chains_.at(length - base_ - 1); }

    //! False if the agent is as it was before: the database has lost what was committed last (a failover to a
    //! standby that did not have it, a crash without syncs), and counts on from there.
    bool is_older_than(const agent_row& agent) const noexcept { return sequence_ <= agent.last_sequence; }
    //! When the messages were known to be there, see agent_row::sweeps.
    std::int64_t seen_at() const noexcept { return sweeps_.load(std::memory_order_relaxed); }
    void see_at(std::int64_t sweeps) const noexcept { sweeps_.store(sweeps, std::memory_order_relaxed); }

private:
    mutable std::atomic<std::int64_t> sweeps_;
    std::int64_t sequence_;
    extent_list messages_;
    std::size_t base_;
    std::vector<digest> chains_;
};

//! A conversation that is about to be stored: which of its messages are there, and rows for the others.
struct placed_conversation {
    extent_list messages;
    digest chain{};
    std::vector<message_row> added;
    std::int64_t next_message = 0; // the agent's counter, once they are added
    // What it will remember. Its oldest `known` messages do so already.
    std::size_t known = 0;
    std::vector<digest> chains;

    std::int64_t bytes_added() const noexcept;
};

//! Whether to rely on what is stored. `no` stores everything anew, where something was found damaged.
enum class trust : bool { no, yes };

//! Finds the messages of a conversation that are stored already: those that it remembers, if they are still
//! there, and else those of the checkpoints that it is `related` to (asked for when needed), by digest.
//! @throws waymark::error `invalid_argument` if a message is longer than `largest_value`.
placed_conversation place_conversation(const conversation& chat, const agent_row& agent,
                                       std::uint64_t store_number, const void* transaction, tables& in,
                                       const std::function<std::vector<extent_list>()>& related,
                                       std::size_t largest_value, trust in_stored);

//! The conversation that was read last. Of several checkpoints that are read in one transaction, most begin
//! with the messages of the one before: these are neither read nor held twice.
struct last_read {
    std::int64_t agent = 0;
    extent_list messages;
    conversation chat;
    std::vector<digest> chains; // behind each message
};

//! Reads the messages of an empty conversation. It remembers its place afterwards.
//! @throws waymark::error `corrupt`, also if the digest of the whole is not `expected`.
void read_conversation(conversation& chat, const extent_list& messages, std::string_view expected,
                       const agent_row& agent, std::uint64_t store_number, tables& from, last_read& last);

//! Calls `visit` with the text and the digest of each message that a row holds.
//! @throws waymark::error `corrupt` if the row does not hold what it says.
void split_row(
    const message_row& row,
    const std::function<void(std::int64_t number, std::string_view text, std::string_view digest)>& visit);

} // namespace waymark::storage
