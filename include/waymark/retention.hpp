//! Which checkpoints to let go.
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
    //! What would become free with it while all newer ones stay.
    std::uint64_t held_bytes = 0;
    //! Pinned, or a pending step needs it.
    bool is_protected = false;
};

//! A set of policies. Each applies to every scope on its own; what any of them removes is removed. The head
//! of a scope and protected checkpoints always stay.
class retention {
public:
    //! Removes nothing.
    retention() = default;

    //! Keep the newest `count`; 0 keeps just the head.
    retention& keep_last(std::size_t count) & noexcept;
    retention&& keep_last(std::size_t count) && noexcept;
    //! Remove what is older than this.
    retention& max_age(std::chrono::microseconds age) & noexcept;
    retention&& max_age(std::chrono::microseconds age) && noexcept;
    //! Keep the newest that together hold no more than this. What they share counts once, with the newest.
    retention& max_bytes(std::uint64_t bytes) & noexcept;
    retention&& max_bytes(std::uint64_t bytes) && noexcept;
    //! With more than `count`: keep the first, the newest 20 and of those between the newest of each name.
    retention& thin_after(std::size_t count) & noexcept;
    retention&& thin_after(std::size_t count) && noexcept;

    //! Only in this scope; in all scopes of the agent unless told.
    retention& only_scope(std::string scope) &;
    retention&& only_scope(std::string scope) &&;

    std::optional<std::size_t> keep_last() const noexcept { return keep_last_; }
    std::optional<std::chrono::microseconds> max_age() const noexcept { return max_age_; }
    std::optional<std::uint64_t> max_bytes() const noexcept { return max_bytes_; }
    std::optional<std::size_t> thin_after() const noexcept { return thin_after_; }

    const std::optional<std::string>& scope() const noexcept { return scope_; }

    //! For backends: whether a scope is to be looked at.
    bool applies_to(std::string_view scope) const noexcept { return !scope_ || *scope_ == scope; }
    //! For backends: which of one scope's checkpoints (oldest first) go at this time, as ascending indices.
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
