#include "stored_conversation.hpp"

#include "checksums.hpp"
#include "large_parts.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
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
        if (next->bytes() <= large_part_bytes) // others are in rows of their own
            bytes += next->bytes() + frame;
    return bytes > page_bytes / 2 && bytes < page_bytes ? page_bytes / 3 : longest_row;
}

outlined_message outline_of(const message& value, std::size_t largest_value)
{
    outlined_message outlined(message_access::to_json(value));
    if (const auto bytes = outlined.line().size(); bytes > largest_value)
        throw error(errc::invalid_argument, "a message takes " + std::to_string(bytes) +
                                                " bytes as JSON, and the database holds at most " +
                                                std::to_string(largest_value) + " in one value; split it");
    return outlined;
}

//! Of the message's line, which is made if it is needed.
digest digest_of(const message& value, std::optional<outlined_message>& outlined, std::size_t largest_value)
{
    const auto& memory = message_access::digest_of(value);
    if (const auto known = memory.get())
        return *known;
    outlined = outline_of(value, largest_value);
    const auto computed = sha256(outlined->line());
    memory.set(computed);
    return computed;
}

digest to_digest(std::string_view bytes) noexcept
{
    digest value;
    std::memcpy(value.data(), bytes.data(), value.size());
    return value;
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

remembered_part find_remembered(const conversation& chat, const agent_row& agent, std::uint64_t store_number,
                                const void* asked_by, transaction& in)
{
    remembered_part result{find_known(chat, agent, store_number, asked_by, in), {}, {}};
    result.rest = conversation_access::messages_from(chat, result.known.length);
    if (result.rest.empty())
        return result;
    result.messages = remembered_messages(result.rest, {store_number, agent.number}, asked_by);
    result.messages.check(agent, in);
    return result;
}

bool is_worth_reading(const remembered_messages& messages, const std::vector<extent_list>& stored)
{
    std::int64_t count = 0;
    for (const auto& next : stored)
        count += next.size();
    return count > 0 && messages.are_worth_reading(count);
}

remembered_part forget_everything(const conversation& chat)
{
    return {{}, conversation_access::messages_from(chat, 0), {}};
}

namespace {

//! Makes the rows of new messages.
class row_writer {
public:
    row_writer(placed_conversation& to, std::int64_t agent, std::size_t row_bytes, object_sink& objects)
        : to_(to), agent_(agent), row_bytes_(row_bytes), objects_(objects)
    {
    }

    void add(const outlined_message& message, const digest& value)
    {
        const auto& line = message.line();
        // A row of its own for a message with large parts: they go when it does.
        if (message.has_parts() || !row_is_open_ || last().body.size() + line.size() >= row_bytes_ ||
            last().count() == most_messages) {
            to_.added.push_back({agent_, to_.next_message, {}, {}, 0, {}});
            row_is_open_ = !message.has_parts();
        } else {
            last().body += '\n';
        }
        last().body += line;
        last().digests += view(value);
        if (message.has_parts())
            last().parts = write_parts(message.store_parts(objects_), to_.next_message);
        to_.messages.append({to_.next_message++, 1});
    }
    //! The next message does not follow the last one.
    void end_row() noexcept { row_is_open_ = false; }

private:
    message_row& last() { return to_.added.back(); }

    placed_conversation& to_;
    std::int64_t agent_;
    std::size_t row_bytes_;
    object_sink& objects_;
    bool row_is_open_ = false;
};

} // namespace

placed_conversation place_conversation(remembered_part&& remembered, const agent_row& agent,
                                       const std::function<std::vector<extent_list>()>& stored,
                                       transaction& in, object_sink& objects, std::size_t largest_value)
{
    placed_conversation result;
    const auto& rest = remembered.rest;
    auto& known = remembered.known;
    const auto others = remembered.messages.some_are_open() ? stored() : std::vector<extent_list>();
    const auto found = is_worth_reading(remembered.messages, others) ? read_stored(others, agent.number, in)
                                                                     : stored_messages();
    result.next_message = agent.next_message;
    result.messages = std::move(known.messages);
    result.chain = known.chain;
    result.newest = remembered.messages.newest();
    result.line = remembered.messages.line();
    if (known.memory != nullptr) {
        result.newest.see(known.memory->newest());
        if (auto line = known.memory->line_as_seen(agent))
            result.line = std::move(line);
    }
    result.known = std::move(known);
    result.chains.reserve(rest.size());
    row_writer rows(result, agent.number, row_bytes_for(rest, in.page_bytes()), objects);
    for (std::size_t i = 0; i < rest.size(); ++i) {
        std::optional<outlined_message> outlined;
        const auto value = digest_of(*rest[i], outlined, largest_value);
        result.chain = chain(result.chain, value);
        result.chains.push_back(result.chain);
        if (const auto number = remembered.messages.number(i); number != 0) {
            result.messages.append({number, 1});
            rows.end_row();
        } else if (const auto equal = found.find(value); equal != found.end()) {
            result.messages.append({equal->second.number, 1});
            result.newest.see(equal->second);
            rows.end_row();
        } else {
            if (!outlined)
                outlined = outline_of(*rest[i], largest_value);
            rows.add(*outlined, value);
        }
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

namespace {

//! Puts large parts back into messages that are read row by row. Rows that have some wait for each other, so
//! that their objects are read together.
class large_part_reader {
public:
    large_part_reader(transaction& from, std::int64_t agent) noexcept : from_(from), agent_(agent) {}

    //! Calls `take` with the row, perhaps later.
    template <class Take>
    void add(std::size_t range, message_row&& row, const Take& take)
    {
        if (waiting_.empty() && row.parts.empty())
            return take(range, row);
        auto parts = parts_of(row);
        objects_waited_for_ += parts.all().size();
        waiting_.push_back({range, std::move(row), std::move(parts)});
        if (objects_waited_for_ >= most_objects)
            take_waiting(take);
    }

    template <class Take>
    void take_waiting(const Take& take)
    {
        if (objects_.bytes() > most_bytes)
            objects_ = {};
        std::vector<std::int64_t> numbers;
        for (const auto& next : waiting_)
            numbers.insert(numbers.end(), next.parts.all().begin(), next.parts.all().end());
        objects_.read(from_, agent_, numbers);
        for (auto& next : waiting_) {
            current_ = &next.parts;
            take(next.range, next.row);
            next.parts.require_end();
        }
        current_ = nullptr;
        waiting_.clear();
        objects_waited_for_ = 0;
    }

    //! The JSON of the next line of the row that is being taken. `room` holds it, if need be.
    std::string_view fill(std::string_view line, std::string& room)
    {
        const auto whole = take_apart(line);
        if (whole.line.holes().empty())
            return line;
        return room = whole.line.filled(whole.numbers, objects_);
    }
    void skip(std::string_view line) { take_apart(line); }

private:
    // Their bodies are held twice for a moment, there and in the messages.
    static constexpr std::size_t most_objects = 8;
    static constexpr std::size_t most_bytes = std::size_t{64} << 20;

    struct waiting_row {
        std::size_t range;
        message_row row;
        row_parts parts;
    };
    struct line_with_numbers {
        stored_line line;
        std::span<const std::int64_t> numbers;
    };

    static row_parts parts_of(const message_row& row)
    try {
        return row_parts(row);
    } catch (const error& failure) {
        throw error(failure.code(),
                    "stored message " + std::to_string(row.first) + ": " + failure.details().message());
    }

    line_with_numbers take_apart(std::string_view line)
    {
        stored_line parsed(line);
        if (current_ != nullptr) {
            const auto numbers = current_->take(parsed);
            return {std::move(parsed), numbers};
        }
        if (!parsed.holes().empty())
            throw error(errc::corrupt, "its row does not say which objects hold its large parts");
        return {std::move(parsed), {}};
    }

    transaction& from_;
    std::int64_t agent_;
    object_map objects_;
    std::vector<waiting_row> waiting_;
    std::size_t objects_waited_for_ = 0;
    row_parts* current_ = nullptr; // of the row that is being taken
};

} // namespace

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
    const auto fail = [](std::int64_t number, const std::string& what) {
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
    large_part_reader parts(from, agent.number);
    const auto take_row = [&](std::size_t range, const message_row& stored_row) {
        finish_ranges_before(range);
        const auto is_checked =
            is_intact(stored_row); // otherwise the hash of each message says which are damaged
        newest.see({std::min(stored_row.numbers().end(), ranges[range].end()) - 1, stored_row.stamp});
        split_row(stored_row, [&](std::int64_t number, std::string_view line, std::string_view stored) {
            const bool is_wanted = number == next && number < ranges[range].end();
            if (!is_wanted)
                return parts.skip(line);
            ++next;
            const auto value = to_digest(stored);
            if (!is_checked && sha256(line) != value)
                fail(number, "is damaged (its stored hash differs)");
            bool is_current = false;
            try {
                std::string filled;
                chat.push(message_access::from_json(parts.fill(line, filled), limits::highest_max_depth + 8,
                                                    "a stored message", &is_current));
            } catch (const error& failure) {
                fail(number, failure.details().message());
            }
            if (is_current && is_present_form(line)) // others are written in another form from now on
                message_access::digest_of(chat.back()).set(value);
            running = chain(running, value);
            chains.push_back(running);
        });
    };
    from.read_messages(agent.number, ranges, [&](std::size_t range, message_row&& stored_row) {
        parts.add(range, std::move(stored_row), take_row);
    });
    parts.take_waiting(take_row);
    finish_ranges_before(ranges.size());
    if (view(running) != row.chain)
        throw error(errc::corrupt, "the messages are not the ones that were saved (the hash of the "
                                   "conversation differs)");
    if (rest.size() > 0) { // the others remember where they are
        const auto* prefix = new remembered_prefix(place, nullptr, {agent, row.sequence, newest}, base,
                                                   before.length, messages, std::move(chains),
                                                   base != nullptr ? base->line_as_seen(agent) : nullptr);
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
