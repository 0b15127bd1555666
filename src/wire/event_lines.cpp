#include "event_lines.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <utility>

namespace waymark::wire {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

[[noreturn]] void refuse_long_event()
{
    throw error(errc::invalid_argument,
                "the stream holds an event of more than 64 MiB; is it a stream of server-sent events?");
}

} // namespace

void event_lines::append(std::string_view bytes)
{
    bytes_.erase(0, begin_);
    searched_ -= std::min(searched_, begin_);
    begin_ = 0;
    bytes_ += bytes;
}

bool event_lines::is_at_other_body() const
{
    // Each line begins with a name, or with the colon of a comment.
    auto rest = std::string_view(bytes_).substr(begin_);
    if (skips_line_feed_ && rest.starts_with('\n'))
        rest.remove_prefix(1);
    if (is_at_start_ && rest.starts_with(byte_order_mark))
        rest.remove_prefix(byte_order_mark.size());
    const auto first = rest.find_first_not_of(" \t");
    return first != rest.npos && std::string_view("{[<").find(rest[first]) != std::string_view::npos;
}

std::optional<std::string> event_lines::take_other_body()
{
    if (!is_at_other_body())
        return std::nullopt;
    auto body = bytes_.substr(bytes_.find_first_of("{[<", begin_));
    begin_ = bytes_.size();
    return body;
}

std::optional<std::string> event_lines::next()
{
    while (!is_at_other_body()) {
        const auto line = next_line();
        if (!line)
            break;
        if (!line->empty()) {
            take_line(*line);
        } else if (std::exchange(has_data_, false)) {
            return std::exchange(data_, {});
        }
    }
    return std::nullopt;
}

std::optional<std::string_view> event_lines::next_line()
{
    if (skips_line_feed_ && begin_ < bytes_.size()) {
        begin_ += bytes_[begin_] == '\n';
        skips_line_feed_ = false;
    }
    const auto end = bytes_.find_first_of("\r\n", std::max(begin_, searched_));
    if (end == std::string::npos) {
        searched_ = bytes_.size();
        if (bytes_.size() - begin_ > longest_event) {
            begin_ = bytes_.size();
            refuse_long_event();
        }
        return std::nullopt;
    }
    std::string_view line(bytes_.data() + begin_, end - begin_);
    skips_line_feed_ = bytes_[end] == '\r';
    begin_ = end + 1;
    if (std::exchange(is_at_start_, false) && line.starts_with(byte_order_mark))
        line.remove_prefix(byte_order_mark.size());
    if (line.size() > longest_event)
        refuse_long_event();
    return line;
}

void event_lines::take_line(std::string_view line)
{
    const auto colon = line.find(':');
    if (line.substr(0, colon) != "data") // a comment, or a member that the APIs repeat in their data
        return;
    auto value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' '))
        value.remove_prefix(1);
    if (data_.size() + value.size() > longest_event) {
        data_.clear();
        has_data_ = false;
        refuse_long_event();
    }
    if (std::exchange(has_data_, true))
        data_ += '\n';
    data_ += value;
}

} // namespace waymark::wire
