//! Which checkpoints to keep.
#pragma once

#include <waymark/checkpoint.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace waymark {

//! What a policy looks at, for one checkpoint.
struct retention_candidate {
    timestamp created_at;
    std::string name;
    //! The bytes that deleting it would free while all newer ones stay.
    std::uint64_t held_bytes = 0;
    //! Pinned, or a pending step needs it.
    bool is_protected = false;
};

//! A set of policies. Each applies to every scope separately; a checkpoint is deleted if any policy says so.
//! The head of a scope and protected checkpoints always stay.
class retention {
public:
    //! Deletes nothing.
    retention() = default;

    // clang-format off
    //! Keeps the newest `count`; with 0, only the head.
    retention& keep_last(std::size_t count) noexcept { keep_last_ = count; return *this; }
    //! Deletes checkpoints older than this.
    retention& max_age(std::chrono::microseconds age) noexcept { max_age_ = age; return *this; }
    //! Keeps the newest that together hold no more than this. What they share counts once, with the newest.
    retention& max_bytes(std::uint64_t bytes) noexcept { max_bytes_ = bytes; return *this; }
    //! Above `count` checkpoints, keeps the first, the newest 20, and of those in between the newest of
    //! each name.
    retention& thin_after(std::size_t count) noexcept { thin_after_ = count; return *this; }
    // clang-format on

    //! Applies the policies to this scope only. Default: all scopes of the agent.
    //! @throws waymark::error `invalid_argument` if it is not valid.
    retention& only_scope(std::string scope);

    std::optional<std::size_t> keep_last() const noexcept { return keep_last_; }
    std::optional<std::chrono::microseconds> max_age() const noexcept { return max_age_; }
    std::optional<std::uint64_t> max_bytes() const noexcept { return max_bytes_; }
    std::optional<std::size_t> thin_after() const noexcept { return thin_after_; }

    const std::optional<std::string>& scope() const noexcept { return scope_; }

    //! For backends: whether the policies apply to a scope.
    bool applies_to(std::string_view scope) const noexcept { return !scope_ || *scope_ == scope; }
    //! For backends: which of one scope's checkpoints (oldest first) to delete at this time, as ascending
    //! indices.
    std::vector<std::size_t> select(std::span<const retention_candidate> oldest_first, timestamp at) const;

private:
    std::optional<std::size_t> keep_last_;
    std::optional<std::chrono::microseconds> max_age_;
    std::optional<std::uint64_t> max_bytes_;
    std::optional<std::size_t> thin_after_;
    std::optional<std::string> scope_;
};

void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const retention& from);
retention tag_invoke(boost::json::value_to_tag<retention>, const boost::json::value& from);

} // namespace waymark
