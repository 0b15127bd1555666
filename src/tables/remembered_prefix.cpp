#include "remembered_prefix.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>

namespace waymark::tables {

using detail::conversation_access;
using detail::message_access;

remembered_prefix::remembered_prefix(detail::storage_place place, const void* transaction, const origin& from,
                                     const remembered_prefix* base, std::size_t known, extent_list messages,
                                     std::vector<digest> chains, std::shared_ptr<history_line> line)
    : stored_prefix(place, transaction),
      line_(line != nullptr ? std::move(line) : std::make_shared<history_line>(from.agent.stamp)),
      sweeps_(from.agent.sweeps),
      stamp_(from.agent.stamp),
      sequence_(from.sequence),
      newest_(from.newest),
      known_(known),
      chains_(std::move(chains))
{
    // A base that holds fewer extents itself is not worth the way to it.
    constexpr std::size_t fewest_extents = 64;
    while (base != nullptr && known <= base->base_count_)
        base = base->goes_on_from();
    if (base != nullptr && base->own_.all().size() >= fewest_extents) {
        base_count_ = known;
    } else if (base != nullptr) {
        base_count_ = base->base_count_;
        base = base->goes_on_from();
    }
    own_ = base_count_ == 0 ? std::move(messages) : messages.behind(static_cast<std::int64_t>(base_count_));
    if (base != nullptr)
        go_on_from(*base);
}

extent_list remembered_prefix::messages(std::size_t count) const
{
    if (base() == nullptr)
        return own_.truncated(static_cast<std::int64_t>(count));
    struct part {
        const remembered_prefix* of;
        std::size_t count;
    };
    std::vector<part> parts; // newest first
    for (const auto* next = this; next != nullptr; next = next->goes_on_from()) {
        if (count > next->base_count_)
            parts.push_back({next, count});
        count = std::min(count, next->base_count_);
    }
    extent_list result;
    for (auto next = parts.rbegin(); next != parts.rend(); ++next)
        for (const auto& each :
             next->of->own_.truncated(static_cast<std::int64_t>(next->count - next->of->base_count_)).all())
            result.append(each);
    return result;
}

extent_list remembered_prefix::messages_behind(std::size_t count) const
{
    return count >= base_count_ ? own_.behind(static_cast<std::int64_t>(count - base_count_))
                                : messages(length()).behind(static_cast<std::int64_t>(count));
}

std::int64_t remembered_prefix::number_at(std::size_t position) const
{
    auto left = static_cast<std::int64_t>(position - base_count_);
    for (const auto& next : own_.all()) {
        if (left < next.count)
            return next.first + left;
        left -= next.count;
    }
    throw std::logic_error("a message remembers a position that its conversation does not have");
}

namespace {

//! Whether all these messages are there.
bool all_exist(const extent_list& messages, std::int64_t agent, transaction& in)
{
    std::vector<std::int64_t> next;
    for (const auto& wanted : messages.all())
        next.push_back(wanted.first);
    in.message_sizes(agent, messages.all(), [&](std::size_t range, const transaction::message_size& found) {
        if (found.numbers.first <= next[range])
            next[range] = std::max(next[range], found.numbers.end());
    });
    for (std::size_t i = 0; i < next.size(); ++i)
        if (next[i] < messages.all()[i].end())
            return false;
    return true;
}

//! Those that are there.
number_set existing(const extent_list& messages, std::int64_t agent, transaction& in)
{
    number_set found;
    if (messages.size() > 0)
        in.message_sizes(agent, messages.all(), [&](std::size_t, const transaction::message_size& row) {
            found.insert(row.numbers);
        });
    return found;
}

//! Whether the database has been where the prefix was, see witness.
bool has_newest(const remembered_prefix& prefix, const agent_row& agent, transaction& in)
{
    const auto& newest = prefix.newest();
    return newest.stamp != 0 && in.message_stamp(agent.number, newest.number) == newest.stamp;
}

} // namespace

known_part find_known(const conversation& chat, const agent_row& agent, std::uint64_t store_number,
                      const void* asked_by, transaction& in)
{
    const auto found = conversation_access::find_stored(chat, {store_number, agent.number}, asked_by);
    const auto* const memory = static_cast<const remembered_prefix*>(found.prefix);
    if (memory == nullptr)
        return {};
    const auto known = [&](extent_list messages) {
        return known_part{memory, found.length, std::move(messages), memory->chain_at(found.length)};
    };
    if (memory->is_as_seen(agent))
        return known(memory->messages(found.length));
    if (!has_newest(*memory, agent, in))
        return {};
    auto messages = memory->messages(found.length);
    if (memory->seen_at() != agent.sweeps) {
        if (!all_exist(messages, agent.number, in))
            return {};
        if (found.length ==
            memory->length()) // what is behind it, for longer conversations, was not looked at
            memory->see_at(agent.sweeps);
    }
    return known(std::move(messages));
}

bool has_stored_before(const conversation& chat, std::size_t known)
{
    // Who stores a message needs its digest, and hardly anybody else does.
    const auto rest = conversation_access::messages_from(chat, known);
    return std::any_of(rest.begin(), rest.end(), [](const message* next) {
        return message_access::digest_of(*next).get().has_value();
    });
}

// What messages remember

namespace {

// Each costs a question. Where more have to be asked, reading a conversation in one piece is faster.
constexpr std::size_t most_stamps = 64;

} // namespace

remembered_messages::remembered_messages(std::span<const message* const> messages,
                                         const detail::storage_place& place, const void* asked_by)
    : count_(messages.size())
{
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto found = message_access::place_of(*messages[i]).get();
        if (found.prefix == nullptr || found.prefix->place() != place || !found.prefix->is_known_to(asked_by))
            continue;
        entries_.resize(count_);
        entries_[i].prefix = static_cast<const remembered_prefix*>(found.prefix);
        entries_[i].number = entries_[i].prefix->number_at(found.position);
    }
}

std::vector<const remembered_prefix*> remembered_messages::prefixes() const
{
    std::vector<const remembered_prefix*> found;
    for (const auto& next : entries_) // most follow others of the same save
        if (next.prefix != nullptr && (found.empty() || found.back() != next.prefix))
            found.push_back(next.prefix);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

std::vector<const remembered_prefix*> remembered_messages::newest_of_lines(const agent_row& agent) const
{
    auto found = prefixes();
    std::erase_if(
        found, [&](const auto* prefix) { return prefix->newest().stamp == 0 || prefix->is_as_seen(agent); });
    std::sort(found.begin(), found.end(), [](const auto* left, const auto* right) {
        return left->line() != right->line() ? std::less<>()(left->line(), right->line())
                                             : left->newest().number > right->newest().number;
    });
    found.erase(
        std::unique(found.begin(), found.end(),
                    [](const auto* left, const auto* right) { return left->line() == right->line(); }),
        found.end());
    return found;
}

std::vector<std::int64_t> remembered_messages::stamps_to_ask(const agent_row& agent) const
{
    std::vector<std::int64_t> numbers;
    for (const auto* prefix : newest_of_lines(agent))
        if (numbers.size() < most_stamps)
            numbers.push_back(prefix->newest().number);
    return numbers;
}

void remembered_messages::check(const agent_row& agent, transaction& in)
{
    std::map<const history_line*, std::int64_t> reached; // the newest message of each line that is there
    std::size_t asked = 0;
    for (const auto* newest : newest_of_lines(agent))
        if (++asked <= most_stamps && has_newest(*newest, agent, in))
            reached[newest->line()] = newest->newest().number;
    std::vector<const remembered_prefix*> valid; // sorted, as they come
    for (const auto* prefix : prefixes()) {
        const auto line = reached.find(prefix->line());
        const bool is_behind =
            line != reached.end() && prefix->newest().stamp != 0 && prefix->newest().number <= line->second;
        if (!is_behind && !prefix->is_as_seen(agent) &&
            (++asked > most_stamps || !has_newest(*prefix, agent, in)))
            continue;
        valid.push_back(prefix);
        newest_.see(prefix->newest());
        if (line_ == nullptr)
            line_ = prefix->line_as_seen(agent);
    }
    extent_list doubtful; // a sweep may have removed them
    for (auto& next : entries_) {
        if (!std::binary_search(valid.begin(), valid.end(), next.prefix))
            next.number = 0;
        else if (next.prefix->seen_at() != agent.sweeps)
            doubtful.append({next.number, 1});
    }
    if (doubtful.size() == 0)
        return;
    const auto found = existing(doubtful, agent.number, in);
    for (auto& next : entries_)
        if (next.number != 0 && next.prefix->seen_at() != agent.sweeps && !found.intersects({next.number, 1}))
            next.number = 0;
}

bool remembered_messages::some_are_open() const noexcept
{
    return entries_.size() < count_ ||
           std::any_of(entries_.begin(), entries_.end(), [](const entry& next) { return next.number == 0; });
}

bool remembered_messages::are_worth_reading(std::int64_t stored) const noexcept
{
    constexpr std::int64_t read_for_each = 8;
    const auto count = static_cast<std::int64_t>(count_);
    const auto known =
        std::count_if(entries_.begin(), entries_.end(), [](const entry& next) { return next.number != 0; });
    return known == 0 || stored / read_for_each <= count - known;
}

} // namespace waymark::tables
