//! The whole story of a conversation, across compactions.
#pragma once

#include <waymark/message.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace waymark {

//! Where a transcript goes on: the messages of a checkpoint before an index. That of a fork goes on in the
//! agent that it was made from.
class transcript_cursor {
public:
    transcript_cursor(std::string agent_id, std::string checkpoint_id, std::size_t end)
        : agent_id_(std::move(agent_id)), checkpoint_id_(std::move(checkpoint_id)), end_(end)
    {
    }

    const std::string& agent_id() const& noexcept { return agent_id_; }
    std::string agent_id() && { return std::move(agent_id_); }
    const std::string& checkpoint_id() const& noexcept { return checkpoint_id_; }
    std::string checkpoint_id() && { return std::move(checkpoint_id_); }
    std::size_t end() const noexcept { return end_; }

private:
    std::string agent_id_;
    std::string checkpoint_id_;
    std::size_t end_;
};

//! What to read of a transcript.
class transcript_options {
public:
    transcript_options() = default;

    // clang-format off
    //! At most so many messages. Default: 1,000.
    transcript_options& limit(std::size_t messages) noexcept { limit_ = messages; return *this; }
    //! What came before that place, see `transcript_page::earlier`. Default: the end of the head.
    transcript_options& before(transcript_cursor place) { before_ = std::move(place); return *this; }
    // clang-format on

    std::size_t limit() const noexcept { return limit_; }
    const std::optional<transcript_cursor>& before() const noexcept { return before_; }

private:
    std::size_t limit_ = 1'000;
    std::optional<transcript_cursor> before_;
};

//! A part of a transcript. Pages are read from the newest to the oldest, as a person scrolls back.
class transcript_page {
public:
    transcript_page() = default;
    transcript_page(std::vector<message> messages, std::optional<transcript_cursor> earlier,
                    std::size_t missing)
        : messages_(std::move(messages)), earlier_(std::move(earlier)), missing_(missing)
    {
    }

    //! Oldest first. A summary is not among them where the messages are known that it stands for.
    const std::vector<message>& messages() const& noexcept { return messages_; }
    std::vector<message> messages() && { return std::move(messages_); }
    //! Where to go on; none at the beginning of the story.
    const std::optional<transcript_cursor>& earlier() const& noexcept { return earlier_; }
    std::optional<transcript_cursor> earlier() && { return std::move(earlier_); }
    //! How many messages in front of these were compacted away and are in no checkpoint: that was pruned, or
    //! they were never saved. Where none is left, the page begins with their summary.
    std::size_t missing() const noexcept { return missing_; }

private:
    std::vector<message> messages_;
    std::optional<transcript_cursor> earlier_;
    std::size_t missing_ = 0;
};

} // namespace waymark
