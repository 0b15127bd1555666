//! Which message numbers make up a conversation.
#pragma once

#include <waymark/error.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

namespace waymark::tables {

//! Consecutive message numbers of an agent.
struct extent {
    std::int64_t first = 0;
    std::int64_t count = 0;

    //! Damage may have made numbers of any size: it ends at the largest, and never wraps around.
    std::int64_t end() const noexcept
    {
        constexpr auto largest = std::numeric_limits<std::int64_t>::max();
        return count > 0 && first > largest - count ? largest : first + count;
    }
    //! Whether these can be numbers of messages.
    bool is_sound() const noexcept
    {
        return first >= 0 && count >= 0 && first <= std::numeric_limits<std::int64_t>::max() - count;
    }
    friend bool operator==(const extent&, const extent&) = default;
};

//! The messages of a conversation, in order. A conversation that only ever grew is one extent.
class extent_list {
public:
    const std::vector<extent>& all() const& noexcept { return extents_; }
    std::vector<extent> all() && noexcept { return std::move(extents_); }
    std::int64_t size() const noexcept { return size_; }

    //! Joins it with the last one where it continues that.
    void append(extent next)
    {
        if (next.count == 0)
            return;
        if (next.count > std::numeric_limits<std::int64_t>::max() - size_)
            throw error(errc::corrupt, "a stored list holds more messages than can be counted");
        if (!extents_.empty() && extents_.back().end() == next.first)
            extents_.back().count += next.count;
        else
            extents_.push_back(next);
        size_ += next.count;
    }

    //! The oldest `count` messages.
    extent_list truncated(std::int64_t count) const
    {
        extent_list result;
        for (const auto& next : extents_) {
            if (result.size_ == count)
                break;
            result.append({next.first, std::min(next.count, count - result.size_)});
        }
        return result;
    }

    //! All but the oldest `count` messages.
    extent_list behind(std::int64_t count) const
    {
        extent_list result;
        for (const auto& next : extents_) {
            const auto skipped = std::min(next.count, count);
            count -= skipped;
            result.append({next.first + skipped, next.count - skipped});
        }
        return result;
    }

    //! How many of the oldest messages the two have in common.
    std::int64_t common_prefix(const extent_list& other) const
    {
        std::int64_t common = 0;
        for (std::size_t i = 0; i < extents_.size() && i < other.extents_.size(); ++i) {
            const auto& a = extents_[i];
            const auto& b = other.extents_[i];
            if (a.first != b.first)
                break;
            common += std::min(a.count, b.count);
            if (a.count != b.count)
                break;
        }
        return common;
    }

private:
    std::vector<extent> extents_;
    std::int64_t size_ = 0;
};

//! A set of numbers, as ranges.
class number_set {
public:
    void insert(extent added)
    {
        if (added.count == 0)
            return;
        auto first = added.first, end = added.end();
        auto where = ranges_.upper_bound(first);
        if (where != ranges_.begin() && std::prev(where)->second >= first)
            --where;
        while (where != ranges_.end() && where->first <= end) {
            first = std::min(first, where->first);
            end = std::max(end, where->second);
            where = ranges_.erase(where);
        }
        ranges_.emplace(first, end);
    }

    std::vector<extent> all() const
    {
        std::vector<extent> result;
        for (const auto& [first, end] : ranges_)
            result.push_back({first, end - first});
        return result;
    }

    bool intersects(extent wanted) const
    {
        auto where = ranges_.lower_bound(wanted.end());
        return where != ranges_.begin() && std::prev(where)->second > wanted.first;
    }

private:
    std::map<std::int64_t, std::int64_t> ranges_; // first -> end
};

} // namespace waymark::tables
