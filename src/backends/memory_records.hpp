//! What memory_store keeps: records by sequence, per scope, per agent.
#pragma once

#include <waymark/store.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace waymark::detail {

struct record {
    checkpoint value;
    std::uint64_t stored_bytes = 0;
    bool pinned = false;

    checkpoint_header header() const
    {
        return checkpoint_header(value).with_pinned(pinned).with_stored_bytes(stored_bytes);
    }
};

struct step_record {
    step value;
    std::int64_t made_on = 0; // the sequence of its checkpoint; 0: none
};

//! One (agent, scope). Ordered by sequence; the last is the head.
struct scope_data {
    std::map<std::int64_t, record> by_sequence;
    std::unordered_map<std::string, std::int64_t> sequence_of;
    std::map<std::string, step_record> steps;
    std::set<std::string> pending; // their keys: retention asks for them, whatever the number of the others

    bool empty() const { return by_sequence.empty() && steps.empty(); }

    record* find(std::string_view id)
    {
        const auto found = sequence_of.find(std::string(id));
        return found == sequence_of.end() ? nullptr : &by_sequence.at(found->second);
    }

    const step_record* find_step(const std::string& key) const
    {
        const auto found = steps.find(key);
        return found == steps.end() ? nullptr : &found->second;
    }

    void put_step(step_record added)
    {
        const auto key = added.value.key();
        const bool is_done = added.value.done();
        if (!is_done)
            pending.insert(key); // if memory runs out now, one too many does no harm
        steps.insert_or_assign(key, std::move(added));
        if (is_done)
            pending.erase(key);
    }

    void erase_step(const std::string& key)
    {
        pending.erase(key);
        steps.erase(key);
    }

    const record* head() const { return by_sequence.empty() ? nullptr : &by_sequence.rbegin()->second; }

    using const_position = std::map<std::int64_t, record>::const_iterator;

    //! What would become free with this one while all newer ones stay: all but what it shares with the next.
    std::uint64_t held_bytes(const_position where) const
    {
        const auto next = std::next(where);
        return bytes_besides(where->second.value, next == by_sequence.end() ? nullptr : &next->second.value);
    }

    //! The payload of a checkpoint without what it shares with another one.
    static std::uint64_t bytes_besides(const checkpoint& value, const checkpoint* other)
    {
        const auto& chat = value.conversation();
        auto shared = chat;
        shared.truncate(other == nullptr ? 0 : chat.shared_prefix(other->conversation()));
        return chat.bytes() - shared.bytes() + value.bytes_besides_conversation();
    }

    //! All or nothing, also when memory runs out.
    void insert(record added)
    {
        const auto sequence = added.value.sequence();
        const auto where = by_sequence.emplace(sequence, std::move(added)).first;
        try {
            sequence_of.emplace(where->second.value.id(), sequence);
        } catch (...) {
            by_sequence.erase(where);
            throw;
        }
    }

    void remove(std::int64_t sequence)
    {
        const auto where = by_sequence.find(sequence);
        sequence_of.erase(where->second.value.id());
        by_sequence.erase(where);
    }

    void drop_steps_without_checkpoint()
    {
        const auto newest = by_sequence.empty() ? -1 : by_sequence.rbegin()->first;
        std::erase_if(steps, [newest](const auto& entry) { return entry.second.made_on > newest; });
        std::erase_if(pending, [this](const auto& key) { return !steps.contains(key); });
    }

    //! The checkpoints that pending steps were made on.
    std::unordered_set<std::string_view> needed_by_steps() const
    {
        std::unordered_set<std::string_view> needed;
        for (const auto& key : pending)
            if (const auto* found = find_step(key); found != nullptr && found->value.checkpoint_id())
                needed.insert(*found->value.checkpoint_id());
        return needed;
    }
};

struct agent_data {
    std::int64_t last_sequence = 0; // stays when checkpoints go: sequences are not used twice
    std::map<std::string, scope_data, std::less<>> scopes;

    bool empty() const
    {
        return std::all_of(scopes.begin(), scopes.end(),
                           [](const auto& entry) { return entry.second.empty(); });
    }

    void add_to(store_stats& sum) const
    {
        sum.agents += empty() ? 0 : 1;
        for (const auto& [name, scope] : scopes) {
            sum.checkpoints += scope.by_sequence.size();
            sum.steps += scope.steps.size();
            for (auto where = scope.by_sequence.cbegin(); where != scope.by_sequence.cend(); ++where)
                sum.bytes += scope.held_bytes(where);
        }
    }

    std::uint64_t count() const
    {
        std::uint64_t sum = 0;
        for (const auto& [name, scope] : scopes)
            sum += scope.by_sequence.size();
        return sum;
    }
};

} // namespace waymark::detail
