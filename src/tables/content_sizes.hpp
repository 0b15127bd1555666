//! What checkpoints hold on to: for retention, which asks what would become free, and for sweeping.
#pragma once

#include "body.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace waymark::tables {

//! The rows of an agent's messages and objects, each of which can be taken once. Who takes a row of messages
//! takes the objects that hold its large parts, too.
class content_sizes {
public:
    content_sizes(transaction& from, std::int64_t agent);

    //! Takes what a checkpoint needs. Returns the bytes of what nobody took before.
    std::int64_t take(const body_references& needed);

    //! False if a row of messages does not tell which objects it needs: any of them may be.
    bool is_readable() const noexcept { return is_readable_; }

    //! What nobody took.
    std::vector<extent> messages_left() const;
    std::vector<std::int64_t> objects_left() const;

private:
    std::size_t next_free(std::size_t row);
    std::int64_t take_object(std::int64_t number);

    std::vector<transaction::message_size> messages_; // by number
    std::vector<std::size_t> next_; // a row that is not taken leads to itself, others onwards
    std::unordered_map<std::int64_t, std::int64_t> objects_;
    std::unordered_map<std::int64_t, std::vector<std::int64_t>>
        parts_; // objects by the first message of a row
    bool is_readable_ = true;
};

} // namespace waymark::tables
