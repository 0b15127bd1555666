//! The figures of an agent's checkpoints.
#pragma once

#include <waymark/checkpoint.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace waymark {

//! What a scope holds, and what the agent takes.
class summary {
public:
    summary() = default;

    //! Counts one more checkpoint; oldest first.
    void add(const checkpoint_header& next);
    //! The bytes of the whole agent: what they would be if nothing were shared, and what is stored.
    void set_bytes(std::uint64_t content, std::uint64_t stored) noexcept;

    std::uint64_t checkpoints() const noexcept { return checkpoints_; }
    //! How many checkpoints carry each name. Those without a name are not in it.
    const std::map<std::string, std::uint64_t>& names() const& noexcept { return names_; }
    std::map<std::string, std::uint64_t> names() && { return std::move(names_); }
    std::size_t unique_names() const noexcept { return names_.size(); }
    const std::optional<checkpoint_header>& first() const& noexcept { return first_; }
    std::optional<checkpoint_header> first() && { return std::move(first_); }
    const std::optional<checkpoint_header>& last() const& noexcept { return last_; }
    std::optional<checkpoint_header> last() && { return std::move(last_); }
    //! Between the first and the last, by their clocks.
    std::chrono::microseconds duration() const noexcept;
    //! What the agent's checkpoints take, all scopes together: they share what they have in common.
    std::uint64_t bytes_stored() const noexcept { return bytes_stored_; }
    //! What they would take more if each were stored alone. Checkpoints that an older version saved, without
    //! `content_bytes`, are not counted.
    std::uint64_t bytes_shared() const noexcept { return bytes_shared_; }

private:
    std::uint64_t checkpoints_ = 0;
    std::map<std::string, std::uint64_t> names_;
    std::optional<checkpoint_header> first_;
    std::optional<checkpoint_header> last_;
    std::uint64_t bytes_stored_ = 0;
    std::uint64_t bytes_shared_ = 0;
};

void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const summary& from);

} // namespace waymark
