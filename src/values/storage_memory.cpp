#include "conversation_node.hpp"

namespace waymark::detail {

// Accounting of what is stored. A place is the number of a store. Marks are closed towards the past: a marked
// message has only marked ones before it. Marking therefore stops at the first that is marked (O(new)), and
// the border is found by jumps (O(log n)). A message keeps its first mark, so that a conversation which goes
// to two stores counts in full for the second. The marks are for accounting only: they know nothing of agents
// and erasures, and no store relies on them.

std::size_t unstored_bytes(const conversation& chat, std::uint64_t place) noexcept
{
    const auto* tip = chat.tip_.get();
    if (tip == nullptr)
        return 0;
    const auto* stored = walk_back(tip, [place](const conversation_node& node) {
        return node.place.load(std::memory_order_relaxed) == place;
    });
    return tip->bytes - (stored == nullptr ? 0 : stored->bytes);
}

void mark_stored(const conversation& chat, std::uint64_t place) noexcept
{
    for (const auto* node = chat.tip_.get();
         node != nullptr && node->place.load(std::memory_order_relaxed) == 0; node = node->previous)
        node->place.store(place, std::memory_order_relaxed);
}

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

void conversation_access::remember(const conversation& chat, const stored_prefix& prefix, std::size_t first)
{
    const auto* tip = chat.tip_.get();
    bool remembered = tip == nullptr;
    for (const auto* node = tip; node != nullptr && node->length > first; node = node->previous) {
        const stored_prefix* expected = nullptr;
        if (!node->home.compare_exchange_strong(expected, &prefix, std::memory_order_release,
                                                std::memory_order_relaxed))
            continue;
        stored_prefix::add_reference(&prefix);
        remembered = remembered || node == tip;
    }
    if (remembered || prefix_at(*tip, prefix.place(), nullptr) != nullptr)
        return;
    auto* cell = new prefix_cell{&prefix, tip->elsewhere.load(std::memory_order_relaxed)};
    stored_prefix::add_reference(&prefix);
    while (!tip->elsewhere.compare_exchange_weak(cell->next, cell, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
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
