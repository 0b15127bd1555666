#include "checkpoints.hpp"

#include "../store/request_checks.hpp"
#include "../values/json_document.hpp"
#include "../values/text.hpp"
#include "checksums.hpp"
#include "digest.hpp"
#include "questions.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <unordered_map>

namespace waymark::tables {

namespace json = boost::json;
using detail::quoted;

timestamp to_timestamp(std::int64_t microseconds) noexcept
{
    return timestamp(std::chrono::microseconds(microseconds));
}

std::int64_t to_number(timestamp time) noexcept
{
    return time.time_since_epoch().count();
}

std::string describe(const checkpoint_row& row, const agent_row& agent)
{
    return "checkpoint " + quoted(row.id) + " of agent " + quoted(agent.id) +
           (row.scope.empty() ? "" : ", scope " + quoted(row.scope));
}

namespace {

std::string metadata_text(const json::object& metadata)
{
    return metadata.empty() ? std::string() : json::serialize(metadata);
}

json::object parse_metadata(const std::string& text)
{
    if (text.empty())
        return {};
    auto parsed = detail::parse_json(text, limits::highest_max_depth, "stored metadata");
    if (!parsed.is_object())
        throw error(errc::corrupt, "stored metadata is no JSON object");
    return std::move(parsed.get_object());
}

//! The members that a header has, too.
checkpoint read_head_members(const checkpoint_row& row, const agent_row& agent)
{
    checkpoint result(agent.id, {}, row.iteration);
    result.with_id(row.id)
        .with_scope(row.scope)
        .with_parent(row.parent)
        .with_name(row.name)
        .with_created_at(to_timestamp(row.created_at))
        .with_sequence(row.sequence);
    for (auto& member : parse_metadata(row.metadata))
        result.with_metadata(member.key(), member.value());
    return result;
}

} // namespace

// Saving

//! Objects that a save needs, looked up in its transaction; new ones are kept until all is known to fit.
class saver::new_objects final : public object_sink {
public:
    new_objects(transaction& in, agent_records& records, const agent_row& agent, std::size_t largest_value,
                trust in_stored) noexcept
        : next_number(agent.next_object),
          tables_(in),
          records_(records),
          agent_(agent.number),
          agent_id_(agent.id),
          largest_value_(largest_value),
          in_stored_(in_stored)
    {
    }

    object_reference store(std::string_view body) override
    {
        require_fitting(body, "a value in state");
        const std::string hash(view(sha256(body)));
        return {find_or_add(body, hash), reference_check(hash)};
    }

    void expect(std::span<const std::string_view> hashes) override
    {
        if (agent_ == 0)
            return;
        tables::expect(tables_, [&] {
            questions wanted;
            for (const auto hash : hashes)
                if (!numbers_.contains(std::string(hash)))
                    wanted.emplace_back(question::kind::object, agent_id_, "", hash);
            return wanted;
        });
    }

    std::int64_t store_part(std::string_view body, const std::string& hash) override
    {
        require_fitting(body, "a part of a message");
        return find_or_add(body, hash);
    }

    std::int64_t bytes_added() const noexcept
    {
        std::int64_t sum = 0;
        for (const auto& row : rows)
            sum += row.bytes();
        return sum;
    }

    std::vector<object_row> rows;
    std::int64_t next_number;

private:
    void require_fitting(std::string_view body, const char* what) const
    {
        if (body.size() > largest_value_)
            throw error(errc::invalid_argument, std::string(what) + " takes " + std::to_string(body.size()) +
                                                    " bytes as JSON, and the database holds at most " +
                                                    std::to_string(largest_value_) + " in one; split it");
    }

    std::int64_t find_or_add(std::string_view body, const std::string& hash)
    {
        if (const auto known = numbers_.find(hash); known != numbers_.end())
            return known->second;
        auto number = agent_ == 0 ? std::nullopt : records_.find_object(agent_, hash); // 0: a new agent
        if (!number || (in_stored_ == trust::no && !holds(*number, body))) {
            number = next_number++;
            rows.push_back({agent_, *number, hash, std::string(body)});
        }
        numbers_.emplace(hash, *number);
        return *number;
    }

    bool holds(std::int64_t number, std::string_view body)
    {
        bool same = false;
        tables_.read_objects(agent_, std::span(&number, 1), [&](object_row&& row) {
            same = row.body == body;
            return true;
        });
        return same;
    }

    transaction& tables_;
    agent_records& records_;
    std::int64_t agent_;
    const std::string& agent_id_;
    std::size_t largest_value_;
    trust in_stored_;
    std::unordered_map<std::string, std::int64_t> numbers_;
};

saver::~saver()
{
    for (const auto* prefix : remembered_) {
        if (!is_committed_)
            prefix->make_void();
        detail::stored_prefix::release(prefix);
    }
}

void saver::confirm() noexcept
{
    is_committed_ = true;
    for (const auto* prefix : remembered_)
        prefix->confirm();
    for (const auto& [line, stamp] : lines_)
        line->go_on(stamp);
}

//! Whether the parent or the head may hold messages that the conversation is not known to begin with. One
//! that goes on from the head is not compared with anything: its save costs what is new.
bool saver::may_have_relatives(const checkpoint& wanted, const known_part& known,
                               const scope_row& scope) const
{
    if (wanted.conversation().size() == known.length || known.comes_from(scope.head))
        return false;
    // Without a parent the head may be anybody's. It counts if messages come from a store.
    return known.length == 0 || wanted.parent_id() || has_stored_before(wanted.conversation(), known.length);
}

//! The messages of the checkpoints that most likely hold the same ones, the parent and the head, without
//! those that the conversation begins with.
std::vector<extent_list> saver::related_to(const checkpoint& wanted, const agent_row& agent,
                                           const scope_row* scope, const known_part& known)
{
    std::vector<extent_list> related;
    if (scope == nullptr)
        return related;
    const auto add = [&](const extent_list& messages) {
        if (messages.size() > 0)
            related.push_back(messages);
    };
    if (known.comes_from(scope->head))
        add(known.memory->messages_behind(known.length)); // those that it has dropped since
    if (!may_have_relatives(wanted, known, *scope))
        return related;
    const auto add_row = [&](const std::optional<checkpoint_row>& row) {
        if (!row || !is_intact(*row))
            return;
        try {
            object_map groups;
            const auto messages = read_references(row->body, tables_, agent.number, groups).messages;
            add(messages.behind(messages.common_prefix(known.messages)));
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt) // then its messages are not known
                throw;
        }
    };
    std::int64_t parent = 0;
    if (wanted.parent_id())
        if (const auto row = tables_.find_checkpoint(agent.number, wanted.scope(), *wanted.parent_id())) {
            parent = row->sequence;
            if (known.comes_from(parent)) { // whatever the head is
                add(known.memory->messages_behind(known.length));
                return related;
            }
            add_row(row);
        }
    if (scope->head != 0 && scope->head != parent)
        add_row(tables_.checkpoint_at(agent.number, scope->head));
    return related;
}

saver::comparison saver::compare(const checkpoint_row& existing, const checkpoint& wanted,
                                 const agent_row& agent)
{
    if (!is_intact(existing))
        return comparison::unreadable;
    if (existing.parent != wanted.parent_id() || existing.name != wanted.name() ||
        existing.iteration != wanted.iteration() || existing.created_at != to_number(wanted.created_at()) ||
        existing.messages != static_cast<std::int64_t>(wanted.conversation().size()))
        return comparison::different;
    try {
        // An import that is repeated compares checkpoint after checkpoint.
        return load_checkpoint(existing, agent, store_number_, tables_, compared_) == wanted
                   ? comparison::same
                   : comparison::different;
    } catch (const error& failure) {
        if (failure.code() != errc::corrupt)
            throw;
        return comparison::unreadable;
    }
}

placed_conversation saver::place(const checkpoint& wanted, const agent_row& agent, const scope_row* scope,
                                 trust in_stored, new_objects& objects)
{
    const auto& chat = wanted.conversation();
    auto remembered = in_stored == trust::yes ? find_remembered(chat, agent, store_number_, this, tables_)
                                              : forget_everything(chat);
    const auto related = [&] { return related_to(wanted, agent, scope, remembered.known); };
    return place_conversation(std::move(remembered), agent, std::cref(related), tables_, objects,
                              largest_value_);
}

std::string saver::find_head(const save_request& request, const agent_row& agent, const scope_row& scope)
{
    const bool passes_over_damage = request.options().passes_over_damage();
    if (const auto row = tables_.checkpoint_at(agent.number, scope.head);
        row && !(passes_over_damage && read_header(*row, agent).damage()))
        return row->id;
    std::optional<std::string> found;
    if (passes_over_damage) {
        scan_range range;
        range.scope = scope.scope;
        range.newest_first = true;
        tables_.scan_checkpoints(agent.number, range, [&](checkpoint_row&& row) {
            if (!read_header(row, agent).damage())
                found = std::move(row.id);
            return !found;
        });
    }
    if (!found)
        throw error(errc::corrupt, "the newest checkpoint of agent " + quoted(agent.id) + ", scope " +
                                       quoted(scope.scope) + " is missing");
    return *std::move(found);
}

save_result saver::save(const save_request& request)
{
    const auto& wanted = request.checkpoint();
    static const agent_row nobody;
    const auto* known_agent = records_.find_agent(wanted.agent_id());
    const auto& before = known_agent == nullptr ? nobody : *known_agent;
    const auto* scope = known_agent == nullptr ? nullptr : records_.find_scope(before, wanted.scope());

    const bool has_conditions = request.options().is_create_only() || request.options().expects_head();
    if (!has_conditions || scope == nullptr) {
        detail::require_options(request, false, std::nullopt);
        new_objects objects(tables_, records_, before, largest_value_, trust::yes);
        auto placed = place(wanted, before, scope, trust::yes, objects);
        if (const auto saved = write(wanted, placed, objects, nullptr))
            return *saved;
    }
    const auto existing = tables_.find_checkpoint(before.number, wanted.scope(), wanted.id());
    const auto compared = existing ? compare(*existing, wanted, before) : comparison::different;
    if (compared == comparison::same)
        return {existing->sequence, 0};
    const auto head = request.options().expects_head() && scope->head != 0
                          ? std::optional(find_head(request, before, *scope))
                          : std::nullopt;
    detail::require_options(request, existing.has_value(), head);
    // What replaces something damaged must not rely on the damaged part.
    const auto in_stored = compared == comparison::unreadable ? trust::no : trust::yes;
    new_objects objects(tables_, records_, before, largest_value_, in_stored);
    auto placed = place(wanted, before, scope, in_stored, objects);
    return write(wanted, placed, objects, existing ? &*existing : nullptr).value();
}

//! None if the key turns out to exist; nothing is written then.
std::optional<save_result> saver::write(const checkpoint& wanted, placed_conversation& placed,
                                        new_objects& objects, const checkpoint_row* existing)
{
    checkpoint_row row;
    row.body = write_body(wanted.conversation(), placed.messages, wanted.state(), objects);

    // From here on nothing is refused any more.
    writing_ = true;
    auto& agent = records_.change_agent(wanted.agent_id());
    row.agent = agent.number;
    row.sequence = existing != nullptr ? existing->sequence : agent.last_sequence + 1;
    row.scope = wanted.scope();
    row.id = wanted.id();
    row.parent = wanted.parent_id();
    row.name = wanted.name();
    row.iteration = wanted.iteration();
    row.created_at = to_number(wanted.created_at());
    row.messages = static_cast<std::int64_t>(wanted.conversation().size());
    row.metadata = metadata_text(wanted.metadata());
    row.chain = view(placed.chain);
    row.pinned = existing != nullptr && existing->pinned;
    const auto added = row_bytes(row) + placed.bytes_added() + objects.bytes_added();
    row.stored_bytes = added;
    row.content_bytes = static_cast<std::int64_t>(wanted.content_bytes());
    seal(row);
    if (existing != nullptr) {
        tables_.update_checkpoint(row);
        agent.changes = new_mark();
        agent.has_garbage = true;
    } else if (tables_.insert_checkpoint(row)) {
        agent.last_sequence = row.sequence;
        auto& record = records_.change_scope(agent, wanted.scope());
        ++record.checkpoints;
        record.head = row.sequence;
    } else {
        writing_ = false;
        return std::nullopt;
    }
    for (auto& messages : placed.added) {
        messages.agent = agent.number;
        messages.stamp = agent.stamp;
        tables_.insert_messages(messages);
    }
    for (auto& object : objects.rows) {
        object.agent = agent.number;
        tables_.insert_object(object);
        records_.note_object(agent.number, object.hash, object.number);
    }
    agent.next_message = placed.next_message;
    agent.next_object = objects.next_number;
    remember(wanted, agent, row.sequence, placed);
    if (written_ != nullptr)
        written_->push_back({agent.id, agent.number, row.sequence, row.scope, row.id, row.check,
                             existing != nullptr ? std::optional(existing->check) : std::nullopt});
    writing_ = false;
    return save_result(row.sequence, static_cast<std::uint64_t>(added));
}

void saver::remember(const checkpoint& wanted, const agent_row& agent, std::int64_t sequence,
                     placed_conversation& placed)
{
    auto line = placed.line;
    if (line != nullptr)
        lines_.emplace_back(line, agent.stamp);
    if (placed.chains.empty())
        return;
    if (!placed.added.empty())
        placed.newest.see({placed.next_message - 1, agent.stamp});
    remembered_.reserve(remembered_.size() + 1);
    remembered_.push_back(new remembered_prefix(
        {store_number_, agent.number}, this, {agent, sequence, placed.newest}, placed.known.memory,
        placed.known.length, std::move(placed.messages), std::move(placed.chains), std::move(line)));
    detail::conversation_access::remember(wanted.conversation(), *remembered_.back(), placed.known.length);
}

// Loading

checkpoint load_checkpoint(const checkpoint_row& row, const agent_row& agent, std::uint64_t store_number,
                           transaction& from)
{
    last_read none;
    return load_checkpoint(row, agent, store_number, from, none);
}

checkpoint load_checkpoint(const checkpoint_row& row, const agent_row& agent, std::uint64_t store_number,
                           transaction& from, last_read& last)
{
    try {
        if (!is_intact(row))
            throw error(errc::corrupt, "the checksum of its row differs");
        auto result = read_head_members(row, agent);
        auto content = read_body(row.body, from, agent.number);
        if (content.messages.size() != row.messages)
            throw error(errc::corrupt, "it should have " + std::to_string(row.messages) +
                                           " messages and has " + std::to_string(content.messages.size()));
        read_conversation(content.chat, content.messages, row, agent, store_number, from, last);
        result.with_conversation(std::move(content.chat)).with_state(std::move(content.state));
        return result;
    } catch (const error& failure) {
        if (failure.code() == errc::corrupt || failure.code() == errc::invalid_argument)
            throw error(errc::corrupt, describe(row, agent) + " is damaged: " + failure.details().message());
        throw;
    }
}

last_read& history_reader::last_of(const std::string& scope, const agent_row& agent)
{
    if (agent_ != agent.number) {
        agent_ = agent.number;
        last_.clear();
    }
    const auto [found, is_new] = last_.try_emplace(scope);
    if (is_new)
        for (const auto& value : earlier_)
            if (value.agent_id() == agent.id && value.scope() == scope)
                found->second = find_last_read(value.conversation(), agent, store_number_, tables_);
    return found->second;
}

checkpoint history_reader::load(const checkpoint_row& row, const agent_row& agent)
{
    auto& last = last_of(row.scope, agent);
    const auto before = last.chat;
    auto result = load_checkpoint(row, agent, store_number_, tables_, last);
    auto shared = result.conversation();
    shared.truncate(shared.shared_prefix(before));
    bytes_ += result.conversation().bytes() - shared.bytes() + result.bytes_besides_conversation();
    return result;
}

checkpoint_header read_header(const checkpoint_row& row, const agent_row& agent)
{
    std::string damage = "the checksum of its row differs";
    try {
        if (is_intact(row))
            return checkpoint_header(read_head_members(row, agent))
                .with_message_count(static_cast<std::size_t>(row.messages))
                .with_pinned(row.pinned)
                .with_stored_bytes(static_cast<std::uint64_t>(row.stored_bytes))
                .with_content_bytes(static_cast<std::uint64_t>(row.content_bytes));
    } catch (const error& failure) {
        damage = failure.details().message();
    }
    checkpoint known(agent.id);
    known.with_id(row.id).with_scope(row.scope).with_sequence(row.sequence);
    return checkpoint_header(known.with_created_at({})).with_damage(std::move(damage));
}

} // namespace waymark::tables
