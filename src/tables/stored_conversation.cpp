#include "stored_conversation.hpp"

#include "checksums.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>

namespace waymark::tables {

using detail::conversation_access;
using detail::message_access;

namespace {

// A longer row would have to be read in one piece when a part of it is needed.
constexpr std::size_t longest_row = std::size_t{32} << 10;
// In PostgreSQL, the digests of a row have to fit a page.
constexpr std::int64_t most_messages = 100;

//! How long a row may be before the next message begins another one. The new messages of a save share a row,
//! except where that row would fill more than half a page and leave the rest of it empty: then three rows
//! share a page. Rows of more than a page take several, and fill them.
std::size_t row_bytes_for(std::span<const message* const> added, std::size_t page_bytes)
{
    constexpr std::size_t frame = 140; // the JSON around the texts of a message, and its digest
    std::size_t bytes = 0;
    for (const auto* next : added)
        bytes += next->bytes() + frame;
    return bytes > page_bytes / 2 && bytes < page_bytes ? page_bytes / 3 : longest_row;
}

std::string text_of(const message& value, std::size_t largest_value)
{
    auto text = message_access::to_json(value);
    if (text.size() > largest_value)
        throw error(errc::invalid_argument, "a message takes " + std::to_string(text.size()) +
                                                " bytes as JSON, and the database holds at most " +
                                                std::to_string(largest_value) + " in one value; split it");
    return text;
}

digest digest_of(const message& value, std::string& text, std::size_t largest_value)
{
    const auto& memory = message_access::digest_of(value);
    if (const auto known = memory.get())
        return *known;
    if (text.empty())
        text = text_of(value, largest_value);
    const auto computed = sha256(text);
    memory.set(computed);
    return computed;
}

digest to_digest(std::string_view bytes) noexcept
{
    digest value;
    std::memcpy(value.data(), bytes.data(), value.size());
    return value;
}

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

struct digest_hash {
    std::size_t operator()(const digest& value) const noexcept
    {
        std::size_t hash;
        std::memcpy(&hash, value.data(), sizeof hash);
        return hash;
    }
};

using stored_messages = std::unordered_map<digest, witness, digest_hash>;

//! The messages of other checkpoints, by digest. A row that cannot be read is not known: its messages are
//! stored anew, which mends them.
stored_messages read_stored(const std::vector<extent_list>& stored, std::int64_t agent, transaction& in)
{
    stored_messages found;
    for (const auto& messages : stored)
        in.read_messages(agent, messages.all(), [&](std::size_t i, message_row&& row) {
            const auto range = messages.all()[i];
            try {
                const auto is_checked = is_intact(row);
                split_row(row, [&](std::int64_t number, std::string_view text, std::string_view digest_text) {
                    const auto value = to_digest(digest_text);
                    if (number >= range.first && number < range.end() &&
                        (is_checked || sha256(text) == value))
                        found.emplace(value, witness{number, row.stamp});
                });
            } catch (const error& failure) {
                if (failure.code() != errc::corrupt)
                    throw;
            }
        });
    return found;
}

} // namespace

std::int64_t placed_conversation::bytes_added() const noexcept
{
    std::int64_t sum = 0;
    for (const auto& row : added)
        sum += row.bytes();
    return sum;
}

remembered_prefix::remembered_prefix(detail::storage_place place, const void* transaction, const origin& from,
                                     const remembered_prefix* base, std::size_t known, extent_list messages,
                                     std::vector<digest> chains)
    : stored_prefix(place, transaction),
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
    if (agent.is_as_with(memory->stamp()))
        return known(memory->messages(found.length));
    const auto& newest = memory->newest();
    if (newest.stamp == 0 || in.message_stamp(agent.number, newest.number) != newest.stamp)
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

placed_conversation place_conversation(const conversation& chat, const agent_row& agent, known_part known,
                                       const std::vector<extent_list>& stored, transaction& in,
                                       std::size_t largest_value)
{
    placed_conversation result;
    result.next_message = agent.next_message;
    result.messages = std::move(known.messages);
    result.chain = known.chain;
    if (known.memory != nullptr)
        result.newest = known.memory->newest();
    const auto rest = conversation_access::messages_from(chat, known.length);
    const auto found = rest.empty() ? stored_messages() : read_stored(stored, agent.number, in);
    result.known = std::move(known);
    result.chains.reserve(rest.size());
    const auto row_bytes = row_bytes_for(rest, in.page_bytes());
    bool row_is_open = false;
    for (const auto* next : rest) {
        std::string text;
        const auto value = digest_of(*next, text, largest_value);
        result.chain = chain(result.chain, value);
        result.chains.push_back(result.chain);
        if (const auto known_message = found.find(value); known_message != found.end()) {
            result.messages.append({known_message->second.number, 1});
            result.newest.see(known_message->second);
            row_is_open = false;
            continue;
        }
        if (text.empty())
            text = text_of(*next, largest_value);
        if (!row_is_open || result.added.back().body.size() + text.size() >= row_bytes ||
            result.added.back().count() == most_messages) {
            result.added.push_back({agent.number, result.next_message, {}, {}, 0});
            row_is_open = true;
        } else {
            result.added.back().body += '\n';
        }
        result.added.back().body += text;
        result.added.back().digests += view(value);
        result.messages.append({result.next_message++, 1});
    }
    for (auto& row : result.added)
        seal(row);
    return result;
}

void split_row(const message_row& row,
               const std::function<void(std::int64_t, std::string_view, std::string_view)>& visit)
{
    if (row.numbers().end() - row.first != row.count())
        throw error(errc::corrupt, "the number of a row of messages is damaged");
    std::string_view left = row.body;
    for (std::int64_t i = 0; i < row.count(); ++i) {
        const auto length = left.find('\n');
        const bool is_last = i + 1 == row.count();
        if (is_last != (length == std::string_view::npos))
            throw error(errc::corrupt, "the row of messages " + std::to_string(row.first) + " to " +
                                           std::to_string(row.numbers().end() - 1) +
                                           " holds another number of messages");
        visit(row.first + i, left.substr(0, length), row.digest_at(i));
        if (!is_last)
            left.remove_prefix(length + 1);
    }
}

last_read find_last_read(const conversation& chat, const agent_row& agent, std::uint64_t store_number,
                         transaction& from)
{
    auto known = find_known(chat, agent, store_number, nullptr, from);
    if (known.memory == nullptr)
        return {};
    last_read result{agent.number, std::move(known.messages), chat, known.memory->newest()};
    result.chat.truncate(known.length);
    return result;
}

void read_conversation(conversation& chat, const extent_list& messages, const checkpoint_row& row,
                       const agent_row& agent, std::uint64_t store_number, transaction& from, last_read& last)
{
    const detail::storage_place place{store_number, agent.number};
    last.chat.truncate(
        last.agent == agent.number ? static_cast<std::size_t>(messages.common_prefix(last.messages)) : 0);
    // Its messages remember the digest of the conversation up to each of them: nothing is computed again, nor
    // copied for each checkpoint of a long history.
    const auto before = conversation_access::find_stored(last.chat, place);
    const auto* const base = static_cast<const remembered_prefix*>(before.prefix);
    const auto known = static_cast<std::int64_t>(before.length);
    last.chat.truncate(before.length);
    auto running = base == nullptr ? digest{} : base->chain_at(before.length);
    std::vector<digest> chains; // behind those
    if (known > 0)
        chat = conversation_access::framed(last.chat, chat);
    auto newest = known > 0 ? last.newest : witness();
    last.agent = 0; // until this one is known to be whole
    const auto fail = [](std::int64_t number, const char* what) {
        throw error(errc::corrupt, "stored message " + std::to_string(number) + " " + what);
    };
    const auto rest = messages.behind(known);
    const auto ranges = std::span(rest.all());
    std::size_t current = 0;
    auto next = ranges.empty() ? 0 : ranges[0].first;
    const auto finish_ranges_before = [&](std::size_t range) {
        for (; current < range; next = ++current < ranges.size() ? ranges[current].first : 0)
            if (next < ranges[current].end())
                fail(next, "is missing");
    };
    from.read_messages(agent.number, ranges, [&](std::size_t range, message_row&& stored_row) {
        finish_ranges_before(range);
        const auto is_checked =
            is_intact(stored_row); // otherwise the hash of each message says which are damaged
        newest.see({std::min(stored_row.numbers().end(), ranges[range].end()) - 1, stored_row.stamp});
        split_row(stored_row, [&](std::int64_t number, std::string_view text, std::string_view stored) {
            if (number != next || number >= ranges[range].end())
                return;
            ++next;
            const auto value = to_digest(stored);
            if (!is_checked && sha256(text) != value)
                fail(number, "is damaged (its stored hash differs)");
            bool is_current = false;
            try {
                chat.push(message_access::from_json(text, limits::highest_max_depth + 8, "a stored message",
                                                    &is_current));
            } catch (const error& failure) {
                fail(number, failure.details().message().c_str());
            }
            if (is_current) // otherwise it is written in another form from now on
                message_access::digest_of(chat.back()).set(value);
            running = chain(running, value);
            chains.push_back(running);
        });
    });
    finish_ranges_before(ranges.size());
    if (view(running) != row.chain)
        throw error(errc::corrupt, "the messages are not the ones that were saved (the hash of the "
                                   "conversation differs)");
    if (rest.size() > 0) { // the others remember where they are
        const auto* prefix = new remembered_prefix(place, nullptr, {agent, row.sequence, newest}, base,
                                                   before.length, messages, std::move(chains));
        try {
            conversation_access::remember(chat, *prefix, before.length);
        } catch (...) {
            detail::stored_prefix::release(prefix);
            throw;
        }
        detail::stored_prefix::release(prefix);
    }
    last = {agent.number, messages, chat, newest};
}

} // namespace waymark::tables
