//! Large parts of messages, stored once.
//!
//! An image, a document or a long tool result inside a message is an object of the agent, like a large member
//! of a state: the same image in a message that is written anew, in another branch or in a compacted
//! conversation costs a reference. What stands in the row of the message is a *line*: its JSON, out of which
//! the large parts are cut, and in front of it where they were and what they were:
//!
//!     #offset:sha256;offset:sha256;#{"role":"user","content":""}
//!
//! The line depends on the message alone, so that equal messages have equal lines wherever they are stored.
//! Which objects hold the parts is said beside it, in the column `parts` of the row. The line of a message
//! without large parts is its JSON.
#pragma once

#include "packed_list.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::tables {

//! What takes more than this, as JSON, is a large part.
inline constexpr std::size_t large_part_bytes = std::size_t{16} << 10;

//! The JSON of a message, and the line that stands for it.
class outlined_message {
public:
    //! @throws waymark::error `invalid_argument` if the text is longer than a load would put together.
    explicit outlined_message(std::string json);

    const std::string& line() const noexcept { return parts_.empty() ? json_ : line_; }
    bool has_parts() const noexcept { return !parts_.empty(); }
    //! The numbers of its parts, in order. `objects` stores those that are new, together.
    std::vector<std::int64_t> store_parts(object_sink& objects) const;

private:
    struct part {
        std::size_t begin; // in json_
        std::size_t size;
        std::string hash;
    };
    std::string_view text_of(const part& which) const
    {
        return std::string_view(json_).substr(which.begin, which.size);
    }

    std::string json_;
    std::vector<part> parts_;
    std::string line_; // if there are parts
};

//! Whether that is the line of its message. Rows from before large parts were cut out hold them whole.
bool is_present_form(std::string_view line);

//! A line, taken apart.
class stored_line {
public:
    //! @throws waymark::error `corrupt`
    explicit stored_line(std::string_view line);

    struct hole {
        std::size_t offset; // in the text
        std::string hash;
    };
    const std::vector<hole>& holes() const noexcept { return holes_; }
    //! The JSON. `numbers` are the objects in the holes, which `objects` has read.
    //! @throws waymark::error `corrupt`
    std::string filled(std::span<const std::int64_t> numbers, const object_map& objects) const;

private:
    std::string_view text_;
    std::vector<hole> holes_;
};

//! The column `parts` of the row that begins with message `first`: the objects in its holes, one after the
//! other, and a checksum, because a sweep removes what no row refers to. Empty without holes.
std::string write_parts(std::span<const std::int64_t> numbers, std::int64_t first);
//! @throws waymark::error `corrupt`
std::vector<std::int64_t> read_parts(std::string_view parts, std::int64_t first);

//! Hands the numbers in a row's `parts` out to its lines.
class row_parts {
public:
    //! @throws waymark::error `corrupt`, also below.
    explicit row_parts(const message_row& row) : numbers_(read_parts(row.parts, row.first)) {}

    const std::vector<std::int64_t>& all() const noexcept { return numbers_; }
    //! Those of the next line. @throws if they are too few.
    std::span<const std::int64_t> take(const stored_line& line);
    //! After the last line. @throws if there are more.
    void require_end() const;

private:
    std::vector<std::int64_t> numbers_;
    std::size_t taken_ = 0;
};

} // namespace waymark::tables
