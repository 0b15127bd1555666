//! Where a session is in the history of its agent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace waymark::detail {

//! What the next save goes on from.
struct session_position {
    std::optional<std::string> parent; // the next save's parent
    std::optional<std::string> head;   // what the store's head is expected to be
    std::int64_t sequence = 0;         // the head's
    std::optional<std::string> before; // what the last save had as its parent, should it be repeated
    bool past_damage = false;          // `head` is the newest that can be read, not what the store calls so
};

} // namespace waymark::detail
