#include "conversation_node.hpp"

#include <new>

namespace waymark::detail {

// Where messages are stored. A message that is loaded or saved first keeps the place in `home`; most live in
// one store and one agent. A conversation that goes to a second place (a fork, another store) leaves a cell
// at its newest message there. Both are only ever added, so that other threads may look while one adds.

namespace {

const stored_prefix* prefix_at(const conversation_node& node, const storage_place& place,
                               const void* transaction) noexcept
{
    const auto fits = [&](const stored_prefix* known) {
        return known != nullptr && known->place() == place && known->is_known_to(transaction);
    };
    if (const auto* known = node.home.load(std::memory_order_acquire); fits(known))
        return known;
    for (const auto* next = node.elsewhere.load(std::memory_order_acquire); next != nullptr;
         next = next->next)
        if (fits(next->prefix))
            return next->prefix;
    return nullptr;
}

} // namespace

conversation_access::found conversation_access::find_stored(const conversation& chat,
                                                            const storage_place& place,
                                                            const void* transaction) noexcept
{
    for (const auto* node = chat.tip_.get(); node != nullptr; node = node->previous)
        if (const auto* known = prefix_at(*node, place, transaction))
            return {known, node->length};
    return {};
}

namespace {

enum class who : bool { nodes, messages_too };

void remember(const conversation_node* tip, const stored_prefix& prefix, std::size_t first, who remembers)
{
    bool remembered = tip == nullptr;
    std::size_t references =
        0; // added together: the conversation holds all of these, and we hold a reference
    for (const auto* node = tip; node != nullptr && node->length > first; node = node->previous) {
        if (remembers == who::messages_too && message_access::digest_of(node->value).get() &&
            message_access::place_of(node->value).set(prefix, node->length - 1))
            ++references;
        const stored_prefix* expected = nullptr;
        if (!node->home.compare_exchange_strong(expected, &prefix, std::memory_order_release,
                                                std::memory_order_relaxed))
            continue;
        ++references;
        remembered = remembered || node == tip;
    }
    stored_prefix::add_reference(&prefix, references);
    if (remembered || prefix_at(*tip, prefix.place(), nullptr) != nullptr)
        return;
    auto* cell = new prefix_cell{&prefix, tip->elsewhere.load(std::memory_order_relaxed)};
    stored_prefix::add_reference(&prefix);
    while (!tip->elsewhere.compare_exchange_weak(cell->next, cell, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
    }
}

} // namespace

void conversation_access::remember(const conversation& chat, const stored_prefix& prefix, std::size_t first)
{
    detail::remember(chat.tip_.get(), prefix, first, who::messages_too);
}

std::size_t conversation_access::unstored_bytes(const conversation& chat, std::uint64_t store) noexcept
{
    const auto is_stored = [store](const conversation_node& node) {
        const auto fits = [store](const stored_prefix* known) {
            return known != nullptr && known->place().store == store && !known->is_void();
        };
        if (fits(node.home.load(std::memory_order_acquire)))
            return true;
        const auto* next = node.elsewhere.load(std::memory_order_acquire);
        while (next != nullptr && !fits(next->prefix))
            next = next->next;
        return next != nullptr;
    };
    const auto* const tip = chat.tip_.get();
    if (tip == nullptr)
        return 0;
    // Step by step at first: a conversation that lives in two stores remembers the second at single messages,
    // which a jump would miss. Then by jumps, since a whole history may be new.
    constexpr int most_steps = 64;
    const auto* node = tip;
    for (int steps = 0; node != nullptr && !is_stored(*node) && steps < most_steps; ++steps)
        node = node->previous;
    const auto* const stored = walk_back(node, is_stored);
    return tip->bytes - (stored == nullptr ? 0 : stored->bytes);
}

void conversation_access::mark_stored(const conversation& chat, const stored_prefix& mark) noexcept
{
    if (unstored_bytes(chat, mark.place().store) == 0)
        return; // the store remembers by itself
    try {
        // Not the messages: they remember one place, and a mark would say nothing about it.
        detail::remember(chat.tip_.get(), mark, find_stored(chat, mark.place()).length, who::nodes);
    } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): its next save counts more than is new
    }
}

conversation conversation_access::framed(const conversation& chat, const conversation& frame)
{
    auto result = frame;
    result.tip_ = chat.tip_;
    return result;
}

std::vector<const message*> conversation_access::messages_from(const conversation& chat, std::size_t first)
{
    std::vector<const message*> result(chat.size() - std::min(first, chat.size()));
    const auto* node = chat.tip_.get();
    for (auto i = result.size(); i-- > 0; node = node->previous)
        result[i] = &node->value;
    return result;
}

} // namespace waymark::detail
