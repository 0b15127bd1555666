//! What is different between two checkpoints.
#pragma once

#include <waymark/checkpoint.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace waymark {

//! A member of a JSON object that is not the same on both sides.
class member_change {
public:
    member_change(std::string path, std::optional<boost::json::value> before,
                  std::optional<boost::json::value> after)
        : path_(std::move(path)), before_(std::move(before)), after_(std::move(after))
    {
    }

    //! A JSON pointer (RFC 6901): "/files/main.cpp". Objects are looked into, arrays are compared whole.
    const std::string& path() const& noexcept { return path_; }
    std::string path() && { return std::move(path_); }
    //! None: the member was added.
    const std::optional<boost::json::value>& before() const& noexcept { return before_; }
    std::optional<boost::json::value> before() && { return std::move(before_); }
    //! None: the member was removed.
    const std::optional<boost::json::value>& after() const& noexcept { return after_; }
    std::optional<boost::json::value> after() && { return std::move(after_); }

private:
    std::string path_;
    std::optional<boost::json::value> before_;
    std::optional<boost::json::value> after_;
};

//! What one has to add to a checkpoint, and take away, to get another one.
class checkpoint_diff {
public:
    checkpoint_diff() = default;
    checkpoint_diff(const checkpoint& from, const checkpoint& to);

    //! Messages that only `to` has, in its order. One that moved is both removed and added.
    const std::vector<message>& messages_added() const& noexcept { return added_; }
    std::vector<message> messages_added() && { return std::move(added_); }
    //! Messages that only `from` has, in its order.
    const std::vector<message>& messages_removed() const& noexcept { return removed_; }
    std::vector<message> messages_removed() && { return std::move(removed_); }
    //! How many messages both have.
    std::size_t messages_shared() const noexcept { return shared_; }
    const std::vector<member_change>& state_changes() const& noexcept { return state_; }
    std::vector<member_change> state_changes() && { return std::move(state_); }
    const std::vector<member_change>& metadata_changes() const& noexcept { return metadata_; }
    std::vector<member_change> metadata_changes() && { return std::move(metadata_); }

    //! True when messages, state and metadata are the same, but for the order of members in state and
    //! metadata.
    bool empty() const noexcept
    {
        return added_.empty() && removed_.empty() && state_.empty() && metadata_.empty();
    }

private:
    std::vector<message> added_;
    std::vector<message> removed_;
    std::size_t shared_ = 0;
    std::vector<member_change> state_;
    std::vector<member_change> metadata_;
};

} // namespace waymark
