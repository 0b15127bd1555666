//! The list behind a conversation.
#pragma once

#include "freeing_pace.hpp"
#include "storage_memory.hpp"

#include <waymark/conversation.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

namespace waymark::detail {

//! One more place where a conversation is stored.
struct prefix_cell {
    const stored_prefix* prefix; // owns one reference
    const prefix_cell* next;
};

//! A message and everything before it. Immutable but for its counter and its mark, and never copied.
//!
//! `jump` makes the list a skew-binary one (Myers 1983): it leads far enough back that any earlier node is
//! O(log n) steps away, at the price of one pointer.
struct conversation_node {
    conversation_node(message content, const conversation_node* before)
        : value(std::move(content)), previous(before)
    {
        bytes = value.bytes();
        tokens = value.estimated_tokens();
        largest = bytes;
        depth = value.depth();
        if (before == nullptr)
            return;
        length += before->length;
        bytes += before->bytes;
        tokens += before->tokens;
        largest = std::max(largest, before->largest);
        depth = std::max(depth, before->depth);
        const auto* far = before->jump;
        const bool same_stride = far != nullptr && before->length - far->length ==
                                                       far->length - (far->jump ? far->jump->length : 0);
        jump = same_stride ? far->jump : before;
    }

    conversation_node(const conversation_node&) = delete;
    conversation_node& operator=(const conversation_node&) = delete;

    ~conversation_node()
    {
        if (const auto* known = home.load(std::memory_order_relaxed))
            stored_prefix::release(known);
        for (auto* next = elsewhere.load(std::memory_order_relaxed); next != nullptr;) {
            stored_prefix::release(next->prefix);
            delete std::exchange(next, next->next);
        }
    }

    message value;
    const conversation_node* previous; // owned: holds one reference
    const conversation_node* jump = nullptr;
    mutable std::atomic<std::size_t> references = 1;
    mutable std::atomic<const stored_prefix*> home = nullptr; // see conversation_access; owns one reference
    mutable std::atomic<const prefix_cell*> elsewhere = nullptr;
    std::size_t length = 1;
    // Sums and maxima from the first message up to this one.
    std::size_t bytes;
    std::uint64_t tokens;
    std::size_t largest;
    std::size_t depth;
};

inline const conversation_node* add_reference(const conversation_node* node) noexcept
{
    if (node != nullptr)
        node->references.fetch_add(1, std::memory_order_relaxed);
    return node;
}

//! A loop, because a million messages would be a recursion a million deep.
inline void drop_reference(const conversation_node* node) noexcept
{
    for (freeing_pace pace;
         node != nullptr && node->references.fetch_sub(1, std::memory_order_acq_rel) == 1;) {
        const auto* previous = node->previous;
        delete node;
        node = previous;
        pace.count_one();
    }
}

//! The newest node for which `stop` holds, given that it holds for every node before such a one.
template <class Predicate>
const conversation_node* walk_back(const conversation_node* node, Predicate stop) noexcept
{
    while (node != nullptr && !stop(*node))
        node = node->jump != nullptr && !stop(*node->jump) ? node->jump : node->previous;
    return node;
}

inline const conversation_node* node_at(const conversation_node* tip, std::size_t index) noexcept
{
    return walk_back(tip, [index](const conversation_node& node) { return node.length <= index + 1; });
}

inline std::size_t length_of(const conversation_node* tip) noexcept
{
    return tip == nullptr ? 0 : tip->length;
}

} // namespace waymark::detail
