//! How the messages of a conversation get into rows and out of them.
#pragma once

#include "database.hpp"
#include "digest.hpp"

#include <waymark/checkpoint.hpp>

#include <atomic>
#include <cstdint>
#include <vector>

namespace waymark::tables {

//! A stored message, and the stamp of its row. A database that has them at the highest number of a
//! conversation has all of the conversation, but for what was swept: messages are numbered in the order of
//! their transactions. One that went back, and counted on from there, has another stamp.
struct witness {
    std::int64_t number = 0;
    std::int64_t stamp = 0;

    //! The higher of the two.
    void see(const witness& other) noexcept
    {
        if (other.number > number)
            *this = other;
    }
};

//! What a conversation remembers of its place in a database.
//!
//! Its list of messages goes on from that of an earlier one where that is long. A conversation whose last
//! message is replaced again and again has one extent more at each save: lists that were whole would be
//! quadratic.
class remembered_prefix final : public detail::stored_prefix {
public:
    //! How and when it came to be known.
    struct origin {
        const agent_row& agent;
        std::int64_t sequence; // of the checkpoint whose conversation it is
        witness newest;
    };

    //! `base` is one that begins with the same `known` messages, or null. `chains` are the digests of the
    //! conversation up to each of the messages behind these.
    remembered_prefix(detail::storage_place place, const void* transaction, const origin& from,
                      const remembered_prefix* base, std::size_t known, extent_list messages,
                      std::vector<digest> chains);

    std::size_t length() const noexcept { return known_ + chains_.size(); }
    //! The oldest `count`. @pre `count` is at most the length
    extent_list messages(std::size_t count) const;
    //! The others.
    extent_list messages_behind(std::size_t count) const;
    //! @pre `count` is above what was known, and at most the length
    const digest& chain_at(std::size_t count) const { return chains_.at(count - known_ - 1); }

    std::int64_t sequence() const noexcept { return sequence_; }
    std::int64_t stamp() const noexcept { return stamp_; }
    const witness& newest() const noexcept { return newest_; }
    //! When the messages were known to be there, see agent_row::sweeps.
    std::int64_t seen_at() const noexcept { return sweeps_.load(std::memory_order_relaxed); }
    void see_at(std::int64_t sweeps) const noexcept { sweeps_.store(sweeps, std::memory_order_relaxed); }

private:
    const remembered_prefix* goes_on_from() const noexcept
    {
        return static_cast<const remembered_prefix*>(base());
    }

    mutable std::atomic<std::int64_t> sweeps_;
    std::int64_t stamp_;
    std::int64_t sequence_;
    witness newest_;
    std::size_t base_count_ = 0; // so many messages are those of the base
    extent_list own_;            // those behind them
    std::size_t known_;
    std::vector<digest> chains_;
};

//! The part of a conversation that it remembers, and that is there.
struct known_part {
    const remembered_prefix* memory = nullptr; // null: none; lives as long as the conversation
    std::size_t length = 0;
    extent_list messages;
    digest chain{};

    //! Whether it is the conversation of that checkpoint, or what is left of it.
    bool comes_from(std::int64_t sequence) const noexcept
    {
        return memory != nullptr && memory->sequence() == sequence;
    }
};

known_part find_known(const conversation& chat, const agent_row& agent, std::uint64_t store_number,
                      const void* asked_by, transaction& in);

//! Whether one of the messages behind the oldest `known` has been in a store before.
bool has_stored_before(const conversation& chat, std::size_t known);

//! A conversation that is about to be stored: which of its messages are there, and rows for the others.
struct placed_conversation {
    known_part known;
    extent_list messages;
    digest chain{};
    std::vector<message_row> added;
    std::int64_t next_message = 0; // the agent's counter, once they are added
    witness newest;                // of those that are there
    std::vector<digest> chains;    // behind what is known

    std::int64_t bytes_added() const noexcept;
};

//! Whether to rely on what is stored. `no` stores everything anew, where something was found damaged.
enum class trust : bool { no, yes };

//! Looks for the messages behind those that are known among others that are stored, by digest, and makes rows
//! for those that are not there.
//! @throws waymark::error `invalid_argument` if a message is longer than `largest_value`.
placed_conversation place_conversation(const conversation& chat, const agent_row& agent, known_part known,
                                       const std::vector<extent_list>& stored, transaction& in,
                                       std::size_t largest_value);

//! The conversation that was read last. Of several checkpoints that are read in one transaction, most begin
//! with the messages of the one before: these are neither read nor held twice.
struct last_read {
    std::int64_t agent = 0;
    extent_list messages;
    conversation chat; // which remembers its place
    witness newest;
};

//! What is left in the database of a conversation that was read or saved before, as if it had just been read.
last_read find_last_read(const conversation& chat, const agent_row& agent, std::uint64_t store_number,
                         transaction& from);

//! Reads the messages of an empty conversation. It remembers its place afterwards.
//! @throws waymark::error `corrupt`, also if the digest of the whole is not the row's.
void read_conversation(conversation& chat, const extent_list& messages, const checkpoint_row& row,
                       const agent_row& agent, std::uint64_t store_number, transaction& from,
                       last_read& last);

//! Calls `visit` with the text and the digest of each message that a row holds.
//! @throws waymark::error `corrupt` if the row does not hold what it says.
void split_row(
    const message_row& row,
    const std::function<void(std::int64_t number, std::string_view text, std::string_view digest)>& visit);

} // namespace waymark::tables
