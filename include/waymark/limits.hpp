//! The bounds of what is accepted, the same on the way in and on the way out: what can be saved can be
//! loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace waymark {

//! The longest id, scope, name or step key, in bytes. Fixed, because stores build keys from them.
inline constexpr std::size_t max_id_bytes = 255;

//! Bounds on the size and depth of values. Every backend and `checkpoint::from_bytes` take them as an option.
//!
//! Sizes count payload: the bytes of all strings and keys, unescaped, and eight for any other value. They are
//! therefore the same for a value that is about to be written and for the one that is read back.
class limits {
public:
    //! The highest depth that can be chosen: readers and writers recurse.
    static constexpr std::size_t highest_max_depth = 1000;

    limits() = default;

    //! How deep arrays and objects may nest inside `state`, `metadata`, tool-call arguments and `extra`.
    //! Default: 64.
    std::size_t max_depth() const noexcept { return max_depth_; }
    //! The payload of one message. Default: 256 MiB.
    std::size_t max_message_bytes() const noexcept { return max_message_bytes_; }
    //! The payload of `state`. Default: 256 MiB.
    std::size_t max_state_bytes() const noexcept { return max_state_bytes_; }
    //! The payload of `metadata`, which every list carries along, and of a conversation's extra members.
    //! Default: 1 MiB.
    std::size_t max_metadata_bytes() const noexcept { return max_metadata_bytes_; }
    //! The length of a whole checkpoint as JSON text (`to_bytes`, `from_bytes`). Default: 4 GiB.
    std::size_t max_document_bytes() const noexcept { return max_document_bytes_; }

    //! @throws waymark::error `invalid_argument` above `highest_max_depth`.
    limits& with_max_depth(std::size_t depth);
    // clang-format off
    limits& with_max_message_bytes(std::size_t bytes) noexcept { max_message_bytes_ = bytes; return *this; }
    limits& with_max_state_bytes(std::size_t bytes) noexcept { max_state_bytes_ = bytes; return *this; }
    limits& with_max_metadata_bytes(std::size_t bytes) noexcept { max_metadata_bytes_ = bytes; return *this; }
    limits& with_max_document_bytes(std::size_t bytes) noexcept { max_document_bytes_ = bytes; return *this; }
    // clang-format on

private:
    std::size_t max_depth_ = 64;
    std::size_t max_message_bytes_ = std::size_t{256} << 20;
    std::size_t max_state_bytes_ = std::size_t{256} << 20;
    std::size_t max_metadata_bytes_ = std::size_t{1} << 20;
    std::size_t max_document_bytes_ = std::numeric_limits<std::uint32_t>::max(); // 4 GiB
};

} // namespace waymark
