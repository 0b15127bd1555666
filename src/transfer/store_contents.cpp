#include "store_contents.hpp"

#include "../store/request_checks.hpp"

#include <algorithm>

namespace waymark::transfer {

// Checkpoints

namespace {

checkpoint without_messages(checkpoint value)
{
    auto chat = value.conversation();
    chat.clear();
    return std::move(value).with_conversation(std::move(chat));
}

} // namespace

std::vector<counterpart> stored_checkpoints::look_up(std::span<const entry> entries)
{
    constexpr std::size_t about_bytes = 16'000'000;
    std::vector<checkpoint_key> keys;
    for (const auto& next : entries)
        keys.push_back(next.point->key());
    std::vector<counterpart> result;
    while (result.size() < keys.size()) {
        const auto rest = std::span(keys).subspan(result.size());
        const auto found = store_.load_some(rest, earlier(rest), about_bytes);
        detail::require_some_outcomes(found.size(), rest.size());
        for (const auto& next : found)
            result.push_back(compare(entries[result.size()], next));
    }
    // A history goes on with the next page; those of other agents are over.
    if (!entries.empty())
        std::erase_if(last_,
                      [&](const auto& pair) { return pair.first.first != entries.back().point->agent_id(); });
    return result;
}

//! The last checkpoints of the scopes that the keys are in: a store reads what goes on from them faster.
std::vector<checkpoint> stored_checkpoints::earlier(std::span<const checkpoint_key> keys) const
{
    std::set<agent_scope> scopes;
    std::vector<checkpoint> result;
    for (const auto& key : keys)
        if (const auto [here, is_new] = scopes.emplace(key.agent_id(), key.scope()); is_new)
            if (const auto known = last_.find(*here); known != last_.end())
                result.push_back(known->second.stored);
    return result;
}

counterpart stored_checkpoints::compare(const entry& next, const load_outcome& found)
{
    if (found.code() == errc::corrupt)
        return {counterpart::kind::unreadable, found.details().message()};
    if (found.code())
        throw error(found.code(), next.where + ": " + found.details().message());
    if (!found.value())
        return {};
    const auto& wanted = *next.point;
    const auto& stored = *found.value();
    const auto equal = count_equal(wanted, stored);
    const bool is_same = equal == wanted.conversation().size() && equal == stored.conversation().size() &&
                         without_messages(wanted) == without_messages(stored);
    last_.insert_or_assign({wanted.agent_id(), wanted.scope()},
                           compared{wanted.conversation(), stored, equal});
    return {is_same ? counterpart::kind::same : counterpart::kind::different};
}

std::size_t stored_checkpoints::count_equal(const checkpoint& wanted, const checkpoint& stored) const
{
    const auto& left = wanted.conversation();
    const auto& right = stored.conversation();
    std::size_t equal = 0;
    if (const auto known = last_.find({wanted.agent_id(), wanted.scope()}); known != last_.end())
        equal = std::min({known->second.equal, left.shared_prefix(known->second.wanted),
                          right.shared_prefix(known->second.stored.conversation())});
    while (equal < left.size() && equal < right.size() && left[equal] == right[equal])
        ++equal;
    return equal;
}

// Pins

bool stored_pins::may_contain(const checkpoint_key& key)
{
    if (agent_id_ != key.agent_id())
        read(key.agent_id());
    return pins_.contains(key);
}

void stored_pins::read(const std::string& agent_id)
{
    constexpr std::size_t headers_at_a_time = 1'000;
    pins_.clear();
    agent_id_ = agent_id;
    auto wanted = query(agent_id).oldest_first().limit(headers_at_a_time);
    for (;;) {
        const auto headers = store_.list(wanted);
        for (const auto& header : headers)
            if (header.pinned() || header.damage())
                pins_.insert(header.key());
        if (headers.size() < headers_at_a_time)
            return;
        wanted.after(cursor(headers.back()));
    }
}

// Steps

std::optional<step> stored_steps::find(const step& wanted)
{
    if (agent_id_ != wanted.agent_id())
        read(wanted.agent_id());
    if (are_known_) {
        const auto found = steps_.find({wanted.scope(), wanted.key()});
        return found == steps_.end() ? std::nullopt : std::optional(found->second);
    }
    auto found = store_.load_steps(step_query(wanted.agent_id()).scope(wanted.scope()).key(wanted.key()));
    return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

void stored_steps::read(const std::string& agent_id)
{
    steps_.clear();
    agent_id_ = agent_id;
    are_known_ = true;
    try {
        for (auto& record : store_.load_steps(step_query(agent_id))) {
            std::pair key(record.scope(), record.key());
            steps_.emplace(std::move(key), std::move(record));
        }
    } catch (const error& failure) {
        if (failure.code() != errc::corrupt)
            throw;
        are_known_ = false; // one of them is damaged, perhaps none of the input's
    }
}

} // namespace waymark::transfer
