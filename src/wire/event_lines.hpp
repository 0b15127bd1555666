//! Server-sent events, cut out of bytes that come in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace waymark::wire {

//! Knows nothing of what is in the events but their data: the APIs repeat the name of the event there.
class event_lines {
public:
    //! The longest line, and the longest data of one event.
    static constexpr std::size_t longest_event = std::size_t{64} << 20;

    void append(std::string_view bytes);

    //! The data of the next event; none until more bytes come.
    //! @throws waymark::error `invalid_argument` for an event that is too long, which is gone then.
    std::optional<std::string> next();
    //! What comes next, if it cannot be server-sent events: JSON, or a page of some proxy. It is gone then.
    //! @pre `next` has returned none
    std::optional<std::string> take_other_body();

private:
    bool is_at_other_body() const;
    std::optional<std::string_view> next_line();
    void take_line(std::string_view line);

    std::string bytes_; // what was not read yet, from `begin_` on
    std::size_t begin_ = 0;
    std::size_t searched_ = 0;     // no line ends before
    bool skips_line_feed_ = false; // the rest of a CRLF
    bool is_at_start_ = true;
    bool has_data_ = false;
    std::string data_; // of the event so far
};

} // namespace waymark::wire
