//! What conversations and messages remember of where they are stored, and whether that is still true.
#pragma once

#include "database.hpp"
#include "digest.hpp"

#include <waymark/conversation.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
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

//! Conversations of an agent that one store has read or written one after the other, while nobody else wrote.
//! Each transaction that finds the agent with the stamp of the line leaves its own there when it is
//! committed, so that none of them has to be looked at again, however old it is.
class history_line {
public:
    explicit history_line(std::int64_t stamp) noexcept : stamp_(stamp) {}

    std::int64_t stamp() const noexcept { return stamp_.load(std::memory_order_acquire); }
    //! @pre the transaction that has left this stamp is committed, and found the one that stood here
    void go_on(std::int64_t stamp) noexcept { stamp_.store(stamp, std::memory_order_release); }

private:
    std::atomic<std::int64_t> stamp_;
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
    //! `line` is one that it goes on with, or null.
    remembered_prefix(detail::storage_place place, const void* transaction, const origin& from,
                      const remembered_prefix* base, std::size_t known, extent_list messages,
                      std::vector<digest> chains, std::shared_ptr<history_line> line = nullptr);

    std::size_t length() const noexcept { return known_ + chains_.size(); }
    //! The oldest `count`. @pre `count` is at most the length
    extent_list messages(std::size_t count) const;
    //! The others.
    extent_list messages_behind(std::size_t count) const;
    //! @pre `count` is above what was known, and at most the length
    const digest& chain_at(std::size_t count) const { return chains_.at(count - known_ - 1); }

    //! The number of the message at that position, which is behind those that were known.
    std::int64_t number_at(std::size_t position) const;

    std::int64_t sequence() const noexcept { return sequence_; }
    //! Whether nobody has written to the agent since this was known to be there.
    bool is_as_seen(const agent_row& agent) const noexcept
    {
        return agent.is_as_with(stamp_) || agent.is_as_with(line_->stamp());
    }
    //! Null unless that is so of everything in the line.
    std::shared_ptr<history_line> line_as_seen(const agent_row& agent) const noexcept
    {
        return agent.is_as_with(line_->stamp()) ? line_ : nullptr;
    }
    const witness& newest() const noexcept { return newest_; }
    //! Never null. What is in one line happened one after the other: a database that has the newest message
    //! of one of its prefixes has been where those with a lower number were.
    const history_line* line() const noexcept { return line_.get(); }
    //! When the messages were known to be there, see agent_row::sweeps.
    std::int64_t seen_at() const noexcept { return sweeps_.load(std::memory_order_relaxed); }
    void see_at(std::int64_t sweeps) const noexcept { sweeps_.store(sweeps, std::memory_order_relaxed); }

private:
    const remembered_prefix* goes_on_from() const noexcept
    {
        return static_cast<const remembered_prefix*>(base());
    }

    std::shared_ptr<history_line> line_;
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

//! @pre `asked_by` is the transaction's saver, or null
known_part find_known(const conversation& chat, const agent_row& agent, std::uint64_t store_number,
                      const void* asked_by, transaction& in);

//! What messages remember themselves: those behind the part that their conversation remembers, as a tail
//! behind a summary.
class remembered_messages {
public:
    remembered_messages() = default;
    //! What they say, which is not looked at yet.
    remembered_messages(std::span<const message* const> messages, const detail::storage_place& place,
                        const void* asked_by);

    //! What `check` will ask the transaction for: stamps of messages with these numbers.
    std::vector<std::int64_t> stamps_to_ask(const agent_row& agent) const;
    //! Forgets what is not there any more.
    void check(const agent_row& agent, transaction& in);

    //! The number of the message; 0: not known.
    std::int64_t number(std::size_t index) const noexcept
    {
        return index < entries_.size() ? entries_[index].number : 0;
    }
    //! Whether there are any that are not known.
    bool some_are_open() const noexcept;
    //! Whether to look for those among that many messages of other checkpoints. They may be there: none is
    //! known when a conversation was read from JSON. A few messages among others that are known are new, as a
    //! rule: a summary in front of a tail. Even if they are there, storing them again is cheaper than reading
    //! a long history.
    bool are_worth_reading(std::int64_t stored) const noexcept;
    //! After `check`: of those that are known.
    const witness& newest() const noexcept { return newest_; }
    const std::shared_ptr<history_line>& line() const noexcept { return line_; }

private:
    struct entry {
        const remembered_prefix* prefix = nullptr; // lives as long as the message
        std::int64_t number = 0;
    };
    std::vector<const remembered_prefix*> prefixes() const; // each once
    //! Of those that have to be asked for, the one with the newest message of each line.
    std::vector<const remembered_prefix*> newest_of_lines(const agent_row& agent) const;

    std::size_t count_ = 0;
    std::vector<entry> entries_; // one for each message, or none if none is known
    witness newest_;
    std::shared_ptr<history_line> line_;
};

//! Whether one of the messages behind the oldest `known` has been in a store before.
bool has_stored_before(const conversation& chat, std::size_t known);

} // namespace waymark::tables
