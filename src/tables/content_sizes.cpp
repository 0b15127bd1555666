#include "content_sizes.hpp"

#include "large_parts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace waymark::tables {

content_sizes::content_sizes(transaction& from, std::int64_t agent)
{
    const extent everything{0, std::numeric_limits<std::int64_t>::max()};
    from.message_sizes(agent, std::span(&everything, 1),
                       [this](std::size_t, transaction::message_size row) { messages_.push_back(row); });
    from.large_parts(agent, std::span(&everything, 1), [this](std::size_t, transaction::message_parts&& row) {
        try {
            parts_.emplace(row.numbers.first, read_parts(row.parts, row.numbers.first));
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            is_readable_ = false;
        }
    });
    next_.resize(messages_.size() + 1);
    std::iota(next_.begin(), next_.end(), std::size_t{0});
    from.object_sizes(agent, [this](transaction::object_size&& row) {
        objects_.emplace(row.number, row.bytes);
        return true;
    });
}

//! Union-find with halved paths: checkpoints of a growing conversation overlap almost wholly, and what they
//! share is stepped over at once.
std::size_t content_sizes::next_free(std::size_t row)
{
    while (next_[row] != row)
        row = next_[row] = next_[next_[row]];
    return row;
}

std::int64_t content_sizes::take(const body_references& needed)
{
    std::int64_t bytes = 0;
    for (const auto& range : needed.messages.all()) {
        const auto first = std::partition_point(messages_.begin(), messages_.end(), [&](const auto& row) {
            return row.numbers.end() <= range.first;
        });
        for (auto row = next_free(static_cast<std::size_t>(first - messages_.begin()));
             row < messages_.size() && messages_[row].numbers.first < range.end(); row = next_free(row)) {
            bytes += messages_[row].bytes;
            next_[row] = row + 1;
            if (const auto parts = parts_.find(messages_[row].numbers.first); parts != parts_.end())
                for (const auto number : parts->second)
                    bytes += take_object(number);
        }
    }
    for (const auto& object : needed.objects)
        bytes += take_object(object.number);
    return bytes;
}

std::int64_t content_sizes::take_object(std::int64_t number)
{
    const auto found = objects_.find(number);
    if (found == objects_.end())
        return 0;
    const auto bytes = found->second;
    objects_.erase(found);
    return bytes;
}

std::vector<extent> content_sizes::messages_left() const
{
    std::vector<extent> left;
    for (std::size_t row = 0; row < messages_.size(); ++row)
        if (next_[row] == row)
            left.push_back(messages_[row].numbers);
    return left;
}

std::vector<std::int64_t> content_sizes::objects_left() const
{
    std::vector<std::int64_t> left;
    for (const auto& [number, bytes] : objects_)
        left.push_back(number);
    std::sort(left.begin(), left.end());
    return left;
}

} // namespace waymark::tables
