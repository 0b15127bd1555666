//! The rows of a database that holds checkpoints. docs/format.md describes them.
#pragma once

#include "extents.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace waymark::tables {

// Rows. `check` is the first half of a SHA-256 over everything else in the row (checksums.hpp). Messages and
// objects carry whole digests instead, which their checkpoints refer to.

struct agent_row {
    std::int64_t number = 0; // never used again, not even after the agent was erased
    std::string id;
    std::int64_t last_sequence = 0;
    std::int64_t next_message = 1;
    std::int64_t next_object = 1;
    std::int64_t scopes = 0; // how many records of scopes there are
    // Marks, see new_mark. While one stands, nothing of the kind has happened; a counter could not say that
    // of a database that went back to a backup and counted on.
    std::int64_t sweeps = 0;       // set when messages are removed
    std::int64_t changes = 0;      // set when a checkpoint is replaced or removed
    std::int64_t stamp = 0;        // set by every transaction that writes the record
    std::int64_t stamp_before = 0; // what it was when the transaction began; not stored
    bool has_garbage = false;      // something may be unreachable
    std::string check;

    //! Whether the agent is as it was when it had that stamp.
    bool is_as_with(std::int64_t seen) const noexcept
    {
        return seen != 0 && (seen == stamp || seen == stamp_before);
    }
};

//! A number that no transaction has used before, nor will.
std::int64_t new_mark();

//! An agent that nobody finds any more; its rows are being removed.
struct erased_agent {
    std::string id; // empty where the number is enough
    std::int64_t number = 0;
};

//! What is there, so that a vanished row is noticed. A scope without content has no row.
struct scope_row {
    std::int64_t agent = 0;
    std::string scope;
    std::int64_t checkpoints = 0;
    std::int64_t head = 0; // a sequence; 0: none
    std::int64_t steps = 0;
    std::string check;
};

struct checkpoint_row {
    std::int64_t agent = 0;
    std::int64_t sequence = 0;
    std::string scope;
    std::string id;
    std::optional<std::string> parent;
    std::string name;
    std::int64_t iteration = 0;
    std::int64_t created_at = 0; // microseconds since 1970
    std::int64_t messages = 0;
    std::string metadata; // JSON; empty: {}
    std::string chain;    // the digest of the conversation, see chain in digest.hpp
    std::string body;     // see body.hpp
    bool pinned = false;
    std::int64_t stored_bytes = 0;
    std::int64_t content_bytes = 0; // see checkpoint_header; 0: not noted
    std::string check;
};

//! Consecutive messages, each a line: its JSON, without the parts that are objects.
struct message_row {
    std::int64_t agent = 0;
    std::int64_t first = 0;
    // A SHA-256 for each message. Behind them 8 bytes: a checksum of them and the body, so that a load needs
    // not hash each message again. Rows that were written before there was one have none.
    std::string digests;
    std::string body;
    std::int64_t stamp = 0; // the agent's, of the transaction that wrote it; 0: from before there were any
    std::string parts;      // the objects that hold large parts, see large_parts.hpp; empty: there are none

    std::int64_t count() const noexcept { return static_cast<std::int64_t>(digests.size() / 32); }
    extent numbers() const noexcept { return {first, count()}; }
    std::int64_t bytes() const noexcept
    {
        return static_cast<std::int64_t>(digests.size() + body.size() + parts.size());
    }
    std::string_view digest_at(std::int64_t index) const
    {
        return std::string_view(digests).substr(static_cast<std::size_t>(index) * 32, 32);
    }
};

struct object_row {
    std::int64_t agent = 0;
    std::int64_t number = 0;
    std::string hash; // SHA-256 of the body
    std::string body;

    std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(hash.size() + body.size()); }
};

struct step_row {
    std::int64_t agent = 0;
    std::string scope;
    std::string key;
    std::optional<std::string> checkpoint;
    std::int64_t made_on = 0; // the sequence of its checkpoint; 0: none
    std::int64_t started_at = 0;
    std::optional<std::string> result;  // JSON; none: pending
    std::optional<std::string> failure; // none: it did not fail
    std::string attempt;                // empty: from before there were any
    std::string check;
};

} // namespace waymark::tables
