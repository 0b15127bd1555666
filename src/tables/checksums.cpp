#include "checksums.hpp"

#include "digest.hpp"
#include "quick_checksum.hpp"

namespace waymark::tables {

namespace {

//! The bytes of a row, such that no two rows have the same.
class row_content {
public:
    row_content() { bytes_.reserve(512); }

    row_content& add(std::int64_t number)
    {
        auto left = static_cast<std::uint64_t>(number);
        for (int i = 0; i < 8; ++i, left >>= 8)
            bytes_ += static_cast<char>(left & 0xff);
        return *this;
    }

    row_content& add(std::string_view text)
    {
        add(static_cast<std::int64_t>(text.size()));
        bytes_ += text;
        return *this;
    }

    row_content& add(const std::optional<std::string>& text)
    {
        return add(text ? 1 : 0).add(text ? std::string_view(*text) : std::string_view());
    }

    std::string check() const { return std::string(view(sha256(bytes_)).substr(0, 16)); }

private:
    std::string bytes_;
};

} // namespace

std::string checksum(const agent_row& row)
{
    row_content content;
    content.add(row.number)
        .add(std::string_view(row.id))
        .add(row.last_sequence)
        .add(row.next_message)
        .add(row.next_object)
        .add(row.scopes)
        .add(row.sweeps)
        .add(row.changes)
        .add(row.has_garbage ? 1 : 0);
    if (row.stamp != 0) // rows from before there were stamps have none
        content.add(row.stamp);
    return content.check();
}

std::string checksum(const scope_row& row)
{
    return row_content()
        .add(row.agent)
        .add(std::string_view(row.scope))
        .add(row.checkpoints)
        .add(row.head)
        .add(row.steps)
        .check();
}

std::string checksum(const checkpoint_row& row)
{
    row_content content;
    content.add(row.agent)
        .add(row.sequence)
        .add(std::string_view(row.scope))
        .add(std::string_view(row.id))
        .add(row.parent)
        .add(std::string_view(row.name))
        .add(row.iteration)
        .add(row.created_at)
        .add(row.messages)
        .add(std::string_view(row.metadata))
        .add(std::string_view(row.chain))
        .add(std::string_view(row.body))
        .add(row.pinned ? 1 : 0)
        .add(row.stored_bytes);
    if (row.content_bytes != 0) // rows from before it was noted have none
        content.add(row.content_bytes);
    return content.check();
}

std::string checksum(const step_row& row)
{
    row_content content;
    content.add(row.agent)
        .add(std::string_view(row.scope))
        .add(std::string_view(row.key))
        .add(row.checkpoint)
        .add(row.made_on)
        .add(row.started_at)
        .add(row.result);
    if (!row.attempt.empty()) // rows from before there were attempts have none
        content.add(std::string_view(row.attempt));
    if (row.failure) // nor failures
        content.add(row.failure);
    return content.check();
}

std::int64_t row_bytes(const checkpoint_row& row) noexcept
{
    constexpr std::size_t numbers_and_check = 64;
    return static_cast<std::int64_t>(
        row.scope.size() + row.id.size() + (row.parent ? row.parent->size() : 0) + row.name.size() +
        row.metadata.size() + row.chain.size() + row.body.size() + numbers_and_check);
}

namespace {

//! Of the digests, and of the body with that as its seed.
std::string quick_check(std::string_view digests, std::string_view body)
{
    auto value = quick_checksum(body, quick_checksum(digests));
    std::string bytes;
    for (int i = 0; i < 8; ++i, value >>= 8)
        bytes += static_cast<char>(value & 0xff);
    return bytes;
}

} // namespace

void seal(message_row& row)
{
    row.digests += quick_check(row.digests, row.body);
}

bool has_checksum(const message_row& row) noexcept
{
    return row.digests.size() % 32 != 0;
}

bool is_intact(const message_row& row)
{
    const auto digests = std::string_view(row.digests).substr(0, row.digests.size() / 32 * 32);
    return std::string_view(row.digests).substr(digests.size()) == quick_check(digests, row.body);
}

} // namespace waymark::tables
