//! The checkpoints of a scope as a tree.
#pragma once

#include <waymark/checkpoint.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace waymark {

//! Checkpoints with their parent links: what was made from what, where the ways part, and where the head is.
//! A value; pointers that its functions return are into it.
//!
//! A parent that is not there (pruned, or of another agent for a fork) makes a checkpoint a root. Links that
//! would close a circle are left out.
class history {
public:
    history() = default;
    //! The checkpoints of one scope, in any order.
    explicit history(std::vector<checkpoint_header> checkpoints);
    history(const history&) = default;
    history(history&&) = default;
    history& operator=(const history&) = default;
    history& operator=(history&&) = default;

    //! Oldest first.
    const std::vector<checkpoint_header>& checkpoints() const& noexcept { return checkpoints_; }
    std::vector<checkpoint_header> checkpoints() && { return std::move(checkpoints_); }
    std::size_t size() const noexcept { return checkpoints_.size(); }
    bool empty() const noexcept { return checkpoints_.empty(); }

    //! Null when it is not there.
    const checkpoint_header* find(std::string_view id) const;
    //! The newest; null when there is none.
    const checkpoint_header* head() const noexcept;
    //! What this one was made from; null for a root, and for an id that is not there.
    const checkpoint_header* parent(std::string_view id) const;
    //! What was made from this one, oldest first. Not of a temporary, which the pointers would outlive; nor
    //! are the three below.
    std::vector<const checkpoint_header*> children(std::string_view id) const&;
    std::vector<const checkpoint_header*> children(std::string_view id) const&& = delete;
    //! Those without a parent, oldest first.
    std::vector<const checkpoint_header*> roots() const&;
    std::vector<const checkpoint_header*> roots() const&& = delete;
    //! The ends of the branches: those that nothing was made from, newest first.
    std::vector<const checkpoint_header*> branches() const&;
    std::vector<const checkpoint_header*> branches() const&& = delete;
    //! From the root to this one; empty for an id that is not there.
    std::vector<const checkpoint_header*> path_to(std::string_view id) const&;
    std::vector<const checkpoint_header*> path_to(std::string_view id) const&& = delete;

    //! A drawing for people and logs, a line for each checkpoint. The way to the head runs straight down;
    //! what was left behind stands beside it.
    std::string to_text() const;

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    std::size_t index_of(std::string_view id) const;
    std::vector<const checkpoint_header*> pointers(const std::vector<std::size_t>& indices) const;

    std::vector<checkpoint_header> checkpoints_; // by sequence
    std::unordered_map<std::string, std::size_t> index_;
    std::vector<std::size_t> parent_;
    std::vector<std::vector<std::size_t>> children_;
};

} // namespace waymark
