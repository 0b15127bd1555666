//! How the messages of a conversation get into rows and out of them.
#pragma once

#include "packed_list.hpp"
#include "remembered_prefix.hpp"

#include <waymark/checkpoint.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace waymark::tables {

//! What a conversation that is to be stored remembers, and what of that is still there.
struct remembered_part {
    known_part known;
    std::vector<const message*> rest; // behind what is known
    remembered_messages messages;     // of the rest
};

remembered_part find_remembered(const conversation& chat, const agent_row& agent, std::uint64_t store_number,
                                const void* asked_by, transaction& in);
//! See remembered_messages::are_worth_reading.
bool is_worth_reading(const remembered_messages& messages, const std::vector<extent_list>& stored);
//! Nothing, where something was found damaged: everything is stored anew.
remembered_part forget_everything(const conversation& chat);

//! A conversation that is about to be stored: which of its messages are there, and rows for the others.
struct placed_conversation {
    known_part known;
    extent_list messages;
    digest chain{};
    std::vector<message_row> added;
    std::int64_t next_message = 0;      // the agent's counter, once they are added
    witness newest;                     // of those that are there
    std::vector<digest> chains;         // behind what is known
    std::shared_ptr<history_line> line; // null if none goes on

    std::int64_t bytes_added() const noexcept;
};

//! Looks for messages that nobody remembers among others that are stored, by digest, and makes rows for those
//! that are not there. `stored` are those others; it is called if there are such messages. Their large parts
//! go to `objects`.
//! @throws waymark::error `invalid_argument` if something is longer than `largest_value`.
placed_conversation place_conversation(remembered_part&& remembered, const agent_row& agent,
                                       const std::function<std::vector<extent_list>()>& stored,
                                       transaction& in, object_sink& objects, std::size_t largest_value);

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
