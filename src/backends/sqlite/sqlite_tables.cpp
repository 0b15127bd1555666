#include "sqlite_tables.hpp"

#include "../../tables/checksums.hpp"
#include "../../values/text.hpp"

#include <algorithm>
#include <limits>
#include <sqlite3.h>

namespace waymark::sqlite {

using namespace tables;

namespace {

std::int64_t to_limit(std::size_t limit)
{
    constexpr auto largest = std::numeric_limits<std::int64_t>::max();
    return limit > static_cast<std::uint64_t>(largest) ? largest : static_cast<std::int64_t>(limit);
}

} // namespace

// Agents

#define AGENT_COLUMNS                                                                                        \
    "SELECT number, id, last_sequence, next_message, next_object, scopes, sweeps, changes, stamp, "          \
    "has_garbage, checksum FROM agents "

namespace {

agent_row read_agent(const statement& found)
{
    agent_row row;
    row.number = found.number(0);
    row.id = found.text(1);
    row.last_sequence = found.number(2);
    row.next_message = found.number(3);
    row.next_object = found.number(4);
    row.scopes = found.number(5);
    row.sweeps = found.number(6);
    row.changes = found.number(7);
    row.stamp = found.number(8);
    row.has_garbage = found.number(9) != 0;
    row.check = found.text(10);
    return row;
}

std::string read_text(const statement& found)
{
    return found.text(0);
}

template <class Row>
std::vector<Row> read_all(statement& found, Row (*read)(const statement&))
{
    std::vector<Row> rows;
    while (found.step())
        rows.push_back(read(found));
    return rows;
}

template <class Row>
std::optional<Row> read_one(statement& found, Row (*read)(const statement&))
{
    return found.step() ? std::optional(read(found)) : std::nullopt;
}

} // namespace

std::optional<agent_row> sqlite_tables::find_agent(std::string_view id)
{
    auto found = db_.use(AGENT_COLUMNS "WHERE id = ?");
    auto row = read_one(found.bind(id), read_agent);
    if (!row)
        require_sound_agents();
    return row;
}

void sqlite_tables::require_sound_agents()
{
    if (agents_are_sound_)
        return;
    // The name of the index is SQLite's own for a UNIQUE column.
    const auto lost = db_.number(
        "SELECT count(*) FROM agents AS a NOT INDEXED WHERE id IS NOT NULL AND (SELECT number FROM "
        "agents INDEXED BY sqlite_autoindex_agents_1 WHERE id = a.id) IS NOT a.number");
    const auto in_index =
        db_.number("SELECT count(*) FROM agents INDEXED BY sqlite_autoindex_agents_1 WHERE id >= ''");
    if (lost != 0 || in_index != db_.number("SELECT count(*) FROM agents NOT INDEXED WHERE id IS NOT NULL"))
        throw error(errc::corrupt, "the index of agents is damaged: some cannot be found by their id; "
                                   "SQLite's REINDEX repairs it");
    agents_are_sound_ = true;
}

std::vector<agent_row> sqlite_tables::agents_after(std::string_view id, std::size_t limit)
{
    require_sound_agents();
    auto found = db_.use(AGENT_COLUMNS "WHERE id > ? ORDER BY id");
    found.bind(id);
    std::vector<agent_row> rows;
    while (rows.size() < limit && found.step()) {
        auto row = read_agent(found);
        if (row.scopes > 0 || !is_intact(row)) // a damaged one may have some; whoever asks looks at that
            rows.push_back(std::move(row));
    }
    return rows;
}

std::vector<std::string> sqlite_tables::agents_with_garbage(std::string_view after, std::size_t limit)
{
    auto found = db_.use("SELECT id FROM agents WHERE has_garbage AND id > ? ORDER BY id LIMIT ?");
    return read_all(found.bind(after).bind(to_limit(limit)), read_text);
}

std::int64_t sqlite_tables::add_agent(std::string_view id)
{
    db_.use("INSERT INTO agents (id, last_sequence, next_message, next_object, scopes, sweeps, changes, "
            "has_garbage, checksum) VALUES (?, 0, 1, 1, 0, 0, 0, 0, x'')")
        .bind(id)
        .run();
    return sqlite3_last_insert_rowid(db_.get());
}

void sqlite_tables::put_agent(const agent_row& row)
{
    db_.use("UPDATE agents SET last_sequence = ?, next_message = ?, next_object = ?, scopes = ?, sweeps = ?, "
            "changes = ?, stamp = ?, has_garbage = ?, checksum = ? WHERE number = ?")
        .bind(row.last_sequence)
        .bind(row.next_message)
        .bind(row.next_object)
        .bind(row.scopes)
        .bind(row.sweeps)
        .bind(row.changes)
        .bind(row.stamp)
        .bind(row.has_garbage ? 1 : 0)
        .bind_blob(row.check)
        .bind(row.number)
        .run();
}

// An agent without an id is erased; one without an id and with a time is a copy that is being made.

void sqlite_tables::erase_agent(const agent_row& row)
{
    db_.use("UPDATE agents SET id = NULL WHERE number = ?").bind(row.number).run();
    put_erased(row.number);
}

//! A record that has lost its id without being sealed so is damaged, and not erased.
void sqlite_tables::put_erased(std::int64_t number)
{
    agent_row left;
    left.number = number;
    left.has_garbage = true;
    put_agent(seal(left));
}

erased_agent sqlite_tables::add_hidden_agent(std::string_view /*id*/, std::int64_t time)
{
    db_.use("INSERT INTO agents (id, last_sequence, next_message, next_object, scopes, sweeps, changes, "
            "has_garbage, copied_at, checksum) VALUES (NULL, 0, 1, 1, 0, 0, 0, 0, ?, x'')")
        .bind(time)
        .run();
    return {{}, sqlite3_last_insert_rowid(db_.get())};
}

bool sqlite_tables::keep_hidden_agent(const erased_agent& agent, std::int64_t time)
{
    db_.use("UPDATE agents SET copied_at = ? WHERE number = ? AND id IS NULL AND copied_at IS NOT NULL")
        .bind(time)
        .bind(agent.number)
        .run();
    return sqlite3_changes(db_.get()) == 1;
}

void sqlite_tables::publish_agent(const erased_agent& agent, const agent_row& row)
{
    db_.use("UPDATE agents SET id = ?, copied_at = NULL WHERE number = ?")
        .bind(row.id)
        .bind(agent.number)
        .run();
    put_agent(row);
}

std::vector<erased_agent> sqlite_tables::erased_agents(std::size_t limit, std::int64_t before)
{
    auto found = db_.use(AGENT_COLUMNS "WHERE id IS NULL AND copied_at IS NULL");
    std::vector<erased_agent> agents;
    while (agents.size() < limit && found.step())
        if (const auto row = read_agent(found); is_intact(row))
            agents.push_back({{}, row.number});
    auto left = db_.use("SELECT number FROM agents WHERE id IS NULL AND copied_at < ? LIMIT ?");
    left.bind(before).bind(to_limit(limit - agents.size()));
    while (left.step())
        agents.push_back({{}, left.number(0)});
    return agents;
}

bool sqlite_tables::condemn(const erased_agent& agent)
{
    db_.use("UPDATE agents SET copied_at = NULL WHERE number = ? AND id IS NULL").bind(agent.number).run();
    if (sqlite3_changes(db_.get()) == 0)
        return false;
    put_erased(agent.number);
    return true;
}

bool sqlite_tables::remove_rows(const erased_agent& agent)
{
    // Few at a time: a row may have many pages.
    const auto* const some_scopes = "DELETE FROM scopes WHERE (agent, scope) IN "
                                    "(SELECT agent, scope FROM scopes WHERE agent = ? LIMIT 4)";
    std::int64_t removed = 0;
    for (const auto* sql : {
             some_scopes,
             "DELETE FROM checkpoints WHERE row IN (SELECT row FROM checkpoints WHERE agent = ? LIMIT 4)",
             "DELETE FROM messages WHERE row IN (SELECT row FROM messages WHERE agent = ? LIMIT 4)",
             "DELETE FROM objects WHERE row IN (SELECT row FROM objects WHERE agent = ? LIMIT 4)",
             "DELETE FROM steps WHERE row IN (SELECT row FROM steps WHERE agent = ? LIMIT 4)",
         }) {
        db_.use(sql).bind(agent.number).run();
        removed += sqlite3_changes(db_.get());
    }
    return removed > 0;
}

void sqlite_tables::forget(const erased_agent& agent)
{
    db_.use("DELETE FROM agents WHERE number = ?").bind(agent.number).run();
}

// Scopes

namespace {

scope_row read_scope(const statement& found)
{
    scope_row row;
    row.agent = found.number(0);
    row.scope = found.text(1);
    row.checkpoints = found.number(2);
    row.head = found.number(3);
    row.steps = found.number(4);
    row.check = found.text(5);
    return row;
}

} // namespace

std::optional<scope_row> sqlite_tables::find_scope(std::int64_t agent, std::string_view scope)
{
    auto found = db_.use("SELECT agent, scope, checkpoints, head, steps, checksum FROM scopes "
                         "WHERE agent = ? AND scope = ?");
    return read_one(found.bind(agent).bind(scope), read_scope);
}

std::vector<scope_row> sqlite_tables::scopes_of(std::int64_t agent)
{
    auto found = db_.use("SELECT agent, scope, checkpoints, head, steps, checksum FROM scopes "
                         "WHERE agent = ? ORDER BY scope");
    return read_all(found.bind(agent), read_scope);
}

std::int64_t sqlite_tables::count_scopes(std::int64_t agent)
{
    auto found = db_.use("SELECT count(*) FROM scopes WHERE agent = ?");
    found.bind(agent).step();
    return found.number(0);
}

void sqlite_tables::confirm_absence_of_scope(const agent_row& agent)
{
    if (agent.scopes == 0)
        return;
    for (const auto& other : scopes_of(agent.number))
        if (!is_intact(other))
            throw error(errc::corrupt, "the record of scope " + detail::quoted(other.scope) + " of agent " +
                                           detail::quoted(agent.id) + " is damaged; it may be another's");
}

void sqlite_tables::put_scope(const scope_row& row)
{
    db_.use("INSERT INTO scopes (agent, scope, checkpoints, head, steps, checksum) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (agent, scope) DO UPDATE SET checkpoints = excluded.checkpoints, "
            "head = excluded.head, steps = excluded.steps, checksum = excluded.checksum")
        .bind(row.agent)
        .bind(row.scope)
        .bind(row.checkpoints)
        .bind(row.head)
        .bind(row.steps)
        .bind_blob(row.check)
        .run();
}

void sqlite_tables::remove_scope(std::int64_t agent, std::string_view scope)
{
    db_.use("DELETE FROM scopes WHERE agent = ? AND scope = ?").bind(agent).bind(scope).run();
}

// Checkpoints

#define CHECKPOINT_COLUMNS                                                                                   \
    "SELECT agent, sequence, scope, id, parent, name, iteration, created_at, messages, "                     \
    "metadata, chain, body, pinned, stored_bytes, content_bytes, checksum FROM checkpoints "

namespace {

checkpoint_row read_checkpoint(const statement& found)
{
    checkpoint_row row;
    row.agent = found.number(0);
    row.sequence = found.number(1);
    row.scope = found.text(2);
    row.id = found.text(3);
    row.parent = found.optional_text(4);
    row.name = found.text(5);
    row.iteration = found.number(6);
    row.created_at = found.number(7);
    row.messages = found.number(8);
    row.metadata = found.text(9);
    row.chain = found.text(10);
    row.body = found.text(11);
    row.pinned = found.number(12) != 0;
    row.stored_bytes = found.number(13);
    row.content_bytes = found.number(14);
    row.check = found.text(15);
    return row;
}

void bind_content(statement& to, const checkpoint_row& row)
{
    to.bind(row.scope)
        .bind(row.id)
        .bind(row.parent)
        .bind(row.name)
        .bind(row.iteration)
        .bind(row.created_at)
        .bind(row.messages)
        .bind(row.metadata)
        .bind_blob(row.chain)
        .bind_blob(row.body)
        .bind(row.pinned ? 1 : 0)
        .bind(row.stored_bytes)
        .bind(row.content_bytes)
        .bind_blob(row.check);
}

} // namespace

std::optional<checkpoint_row> sqlite_tables::find_checkpoint(std::int64_t agent, std::string_view scope,
                                                             std::string_view id)
{
    auto found = db_.use(CHECKPOINT_COLUMNS "WHERE id = ? AND agent = ? AND scope = ?");
    return read_one(found.bind(id).bind(agent).bind(scope), read_checkpoint);
}

void sqlite_tables::confirm_absence(std::int64_t agent, std::string_view scope, std::string_view id)
{
    auto found = db_.use("SELECT 1 FROM checkpoints INDEXED BY checkpoint_order "
                         "WHERE agent = ? AND scope = ? AND id = ? LIMIT 1");
    if (found.bind(agent).bind(scope).bind(id).step())
        throw error(errc::corrupt,
                    "checkpoint " + detail::quoted(id) + ", scope " + detail::quoted(scope) +
                        ", is there and is not found by its key: the index of keys is damaged; "
                        "SQLite's REINDEX repairs it");
}

std::optional<checkpoint_row> sqlite_tables::checkpoint_at(std::int64_t agent, std::int64_t sequence)
{
    auto found = db_.use(CHECKPOINT_COLUMNS "WHERE agent = ? AND sequence = ?");
    return read_one(found.bind(agent).bind(sequence), read_checkpoint);
}

std::vector<checkpoint_row> sqlite_tables::checkpoints_of(std::int64_t agent, std::string_view id)
{
    auto found = db_.use(CHECKPOINT_COLUMNS "WHERE id = ? AND agent = ? ORDER BY scope");
    return read_all(found.bind(id).bind(agent), read_checkpoint);
}

std::vector<std::string> sqlite_tables::owners_of(std::string_view id, std::size_t limit)
{
    auto found = db_.use("SELECT DISTINCT agents.id FROM checkpoints JOIN agents ON agents.number = agent "
                         "WHERE checkpoints.id = ? AND agents.id IS NOT NULL LIMIT ?");
    return read_all(found.bind(id).bind(to_limit(limit)), read_text);
}

void sqlite_tables::scan_checkpoints(std::int64_t agent, const scan_range& range,
                                     const visitor<checkpoint_row>& visit)
{
    const auto* const oldest_first = CHECKPOINT_COLUMNS
        "WHERE agent = ?1 AND sequence > ?2 AND sequence < ?3 AND (?4 IS NULL OR scope = ?4) "
        "ORDER BY sequence";
    const auto* const newest_first = CHECKPOINT_COLUMNS
        "WHERE agent = ?1 AND sequence > ?2 AND sequence < ?3 AND (?4 IS NULL OR scope = ?4) "
        "ORDER BY sequence DESC";
    auto found = db_.use(range.newest_first ? newest_first : oldest_first);
    found.bind(agent)
        .bind(range.above.value_or(std::numeric_limits<std::int64_t>::min()))
        .bind(range.below.value_or(std::numeric_limits<std::int64_t>::max()))
        .bind(range.scope);
    while (found.step() && visit(read_checkpoint(found))) {
    }
}

std::int64_t sqlite_tables::count_checkpoints(std::int64_t agent, std::string_view scope)
{
    auto found = db_.use("SELECT count(*) FROM checkpoints WHERE agent = ? AND scope = ?");
    found.bind(agent).bind(scope).step();
    return found.number(0);
}

std::int64_t sqlite_tables::newest_sequence(std::int64_t agent, std::string_view scope)
{
    auto found = db_.use("SELECT sequence FROM checkpoints WHERE agent = ? AND scope = ? "
                         "ORDER BY sequence DESC LIMIT 1");
    return found.bind(agent).bind(scope).step() ? found.number(0) : 0;
}

bool sqlite_tables::insert_checkpoint(const checkpoint_row& row)
{
    auto added = db_.use("INSERT INTO checkpoints (agent, sequence, scope, id, parent, name, iteration, "
                         "created_at, messages, metadata, chain, body, pinned, stored_bytes, content_bytes, "
                         "checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                         "ON CONFLICT (id, agent, scope) DO NOTHING");
    added.bind(row.agent).bind(row.sequence);
    bind_content(added, row);
    added.run();
    return sqlite3_changes(db_.get()) > 0;
}

namespace {

//! What was just read must be there to be changed.
void require_one_change(const connection& db, std::string_view id)
{
    if (sqlite3_changes(db.get()) != 1)
        throw error(errc::corrupt, "the row of checkpoint " + detail::quoted(id) + " cannot be found again");
}

} // namespace

void sqlite_tables::update_checkpoint(const checkpoint_row& row)
{
    auto changed = db_.use("UPDATE checkpoints SET scope = ?, id = ?, parent = ?, name = ?, iteration = ?, "
                           "created_at = ?, messages = ?, metadata = ?, chain = ?, body = ?, pinned = ?, "
                           "stored_bytes = ?, content_bytes = ?, checksum = ?, sequence = ? WHERE id = ? AND "
                           "agent = ? AND scope = ?");
    bind_content(changed, row);
    changed.bind(row.sequence).bind(row.id).bind(row.agent).bind(row.scope).run();
    require_one_change(db_, row.id);
}

void sqlite_tables::remove_checkpoint(std::int64_t agent, std::string_view scope, std::string_view id)
{
    db_.use("DELETE FROM checkpoints WHERE id = ? AND agent = ? AND scope = ?")
        .bind(id)
        .bind(agent)
        .bind(scope)
        .run();
    require_one_change(db_, id);
}

// Messages

// The row that holds the first number may begin before it.
#define ROWS_IN_RANGE                                                                                        \
    "FROM messages WHERE agent = ?1 AND first < ?3 AND first >= "                                            \
    "coalesce((SELECT max(first) FROM messages WHERE agent = ?1 AND first <= ?2), ?2) ORDER BY first"

void sqlite_tables::read_messages(std::int64_t agent, std::span<const extent> ranges,
                                  const std::function<void(std::size_t, message_row&&)>& visit)
{
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        auto found = db_.use("SELECT first, digests, body, stamp, parts " ROWS_IN_RANGE);
        found.bind(agent).bind(ranges[i].first).bind(ranges[i].end());
        while (found.step()) {
            message_row row{agent,         found.number(0), found.text(1),
                            found.text(2), found.number(3), found.text(4)};
            if (row.numbers().end() > ranges[i].first)
                visit(i, std::move(row));
        }
    }
}

void sqlite_tables::message_sizes(std::int64_t agent, std::span<const extent> ranges,
                                  const std::function<void(std::size_t, message_size)>& visit)
{
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        auto found = db_.use("SELECT first, count, bytes " ROWS_IN_RANGE);
        found.bind(agent).bind(ranges[i].first).bind(ranges[i].end());
        while (found.step()) {
            const message_size row{{found.number(0), found.number(1)}, found.number(2)};
            if (row.numbers.end() > ranges[i].first)
                visit(i, row);
        }
    }
}

void sqlite_tables::large_parts(std::int64_t agent, std::span<const extent> ranges,
                                const std::function<void(std::size_t, message_parts&&)>& visit)
{
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        auto found = db_.use("SELECT first, count, parts FROM messages INDEXED BY message_parts "
                             "WHERE parts IS NOT NULL AND agent = ?1 AND first < ?3 AND first >= coalesce("
                             "(SELECT max(first) FROM messages WHERE agent = ?1 AND first <= ?2), ?2) "
                             "ORDER BY first");
        found.bind(agent).bind(ranges[i].first).bind(ranges[i].end());
        while (found.step()) {
            message_parts row{{found.number(0), found.number(1)}, found.text(2)};
            if (row.numbers.end() > ranges[i].first)
                visit(i, std::move(row));
        }
    }
}

std::optional<std::int64_t> sqlite_tables::message_stamp(std::int64_t agent, std::int64_t number)
{
    auto found = db_.use("SELECT first, count, stamp FROM messages WHERE agent = ? AND first <= ? "
                         "ORDER BY first DESC LIMIT 1");
    if (!found.bind(agent).bind(number).step() || extent{found.number(0), found.number(1)}.end() <= number)
        return std::nullopt;
    return found.number(2);
}

void sqlite_tables::insert_messages(const message_row& row)
{
    auto added = db_.use("INSERT INTO messages (agent, first, count, bytes, digests, body, stamp, parts) "
                         "VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    added.bind(row.agent)
        .bind(row.first)
        .bind(row.count())
        .bind(row.bytes())
        .bind_blob(row.digests)
        .bind(row.body)
        .bind(row.stamp);
    if (row.parts.empty())
        added.bind_null();
    else
        added.bind_blob(row.parts);
    added.run();
}

void sqlite_tables::remove_messages(std::int64_t agent, std::int64_t first)
{
    db_.use("DELETE FROM messages WHERE agent = ? AND first = ?").bind(agent).bind(first).run();
}

// Objects

std::optional<std::int64_t> sqlite_tables::find_object(std::int64_t agent, std::string_view hash)
{
    auto found =
        db_.use("SELECT number FROM objects WHERE agent = ? AND hash = ? ORDER BY number DESC LIMIT 1");
    return found.bind(agent).bind_blob(hash).step() ? std::optional(found.number(0)) : std::nullopt;
}

void sqlite_tables::read_objects(std::int64_t agent, std::span<const std::int64_t> numbers,
                                 const visitor<object_row>& visit)
{
    std::string list = "[";
    for (const auto number : numbers)
        list += (list.size() == 1 ? "" : ",") + std::to_string(number);
    list += ']';
    auto found = db_.use("SELECT number, hash, body FROM objects WHERE agent = ? "
                         "AND number IN (SELECT value FROM json_each(?))");
    found.bind(agent).bind(list);
    while (found.step() && visit({agent, found.number(0), found.text(1), found.text(2)})) {
    }
}

void sqlite_tables::scan_objects(std::int64_t agent, const visitor<object_row>& visit)
{
    auto found = db_.use("SELECT number, hash, body FROM objects WHERE agent = ? ORDER BY number");
    found.bind(agent);
    while (found.step() && visit({agent, found.number(0), found.text(1), found.text(2)})) {
    }
}

void sqlite_tables::object_sizes(std::int64_t agent, const visitor<object_size>& visit)
{
    auto found = db_.use("SELECT number, bytes FROM objects WHERE agent = ? ORDER BY number");
    found.bind(agent);
    while (found.step() && visit({found.number(0), found.number(1)})) {
    }
}

void sqlite_tables::insert_object(const object_row& row)
{
    db_.use("INSERT INTO objects (agent, number, bytes, hash, body) VALUES (?, ?, ?, ?, ?)")
        .bind(row.agent)
        .bind(row.number)
        .bind(row.bytes())
        .bind_blob(row.hash)
        .bind_blob(row.body)
        .run();
}

void sqlite_tables::remove_object(std::int64_t agent, std::int64_t number)
{
    db_.use("DELETE FROM objects WHERE agent = ? AND number = ?").bind(agent).bind(number).run();
}

// Steps

#define STEP_COLUMNS                                                                                         \
    "SELECT agent, scope, key, checkpoint, made_on, started_at, result, attempt, failure, checksum FROM "    \
    "steps "

namespace {

step_row read_step_row(const statement& found)
{
    step_row row;
    row.agent = found.number(0);
    row.scope = found.text(1);
    row.key = found.text(2);
    row.checkpoint = found.optional_text(3);
    row.made_on = found.number(4);
    row.started_at = found.number(5);
    row.result = found.optional_text(6);
    row.attempt = found.text(7);
    row.failure = found.optional_text(8);
    row.check = found.text(9);
    return row;
}

} // namespace

std::optional<step_row> sqlite_tables::find_step(std::int64_t agent, std::string_view scope,
                                                 std::string_view key)
{
    auto found = db_.use(STEP_COLUMNS "WHERE agent = ? AND scope = ? AND key = ?");
    return read_one(found.bind(agent).bind(scope).bind(key), read_step_row);
}

void sqlite_tables::scan_steps(std::int64_t agent, const std::optional<std::string>& scope,
                               const visitor<step_row>& visit)
{
    auto found = db_.use(STEP_COLUMNS "WHERE agent = ?1 AND (?2 IS NULL OR scope = ?2) ORDER BY scope, key");
    found.bind(agent).bind(scope);
    while (found.step() && visit(read_step_row(found))) {
    }
}

void sqlite_tables::scan_pending_steps(std::int64_t agent, std::string_view scope,
                                       const visitor<step_row>& visit)
{
    auto found =
        db_.use(STEP_COLUMNS "INDEXED BY pending_steps WHERE agent = ? AND scope = ? AND result IS NULL");
    found.bind(agent).bind(scope);
    while (found.step() && visit(read_step_row(found))) {
    }
}

std::int64_t sqlite_tables::count_steps(std::int64_t agent, std::string_view scope)
{
    auto found = db_.use("SELECT count(*) FROM steps WHERE agent = ? AND scope = ?");
    found.bind(agent).bind(scope).step();
    return found.number(0);
}

void sqlite_tables::put_step(const step_row& row)
{
    db_.use("INSERT INTO steps (agent, scope, key, checkpoint, made_on, started_at, result, attempt, "
            "failure, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, scope, key) DO UPDATE SET "
            "checkpoint = excluded.checkpoint, made_on = excluded.made_on, "
            "started_at = excluded.started_at, result = excluded.result, "
            "attempt = excluded.attempt, failure = excluded.failure, checksum = excluded.checksum")
        .bind(row.agent)
        .bind(row.scope)
        .bind(row.key)
        .bind(row.checkpoint)
        .bind(row.made_on)
        .bind(row.started_at)
        .bind(row.result)
        .bind(row.attempt)
        .bind(row.failure)
        .bind_blob(row.check)
        .run();
}

bool sqlite_tables::remove_step(std::int64_t agent, std::string_view scope, std::string_view key)
{
    db_.use("DELETE FROM steps WHERE agent = ? AND scope = ? AND key = ?")
        .bind(agent)
        .bind(scope)
        .bind(key)
        .run();
    return sqlite3_changes(db_.get()) > 0;
}

std::int64_t sqlite_tables::remove_steps_after(std::int64_t agent, std::string_view scope,
                                               std::int64_t sequence)
{
    db_.use("DELETE FROM steps WHERE agent = ? AND scope = ? AND made_on > ?")
        .bind(agent)
        .bind(scope)
        .bind(sequence)
        .run();
    return sqlite3_changes(db_.get());
}

// Whole agents, and the whole file

totals sqlite_tables::count_all()
{
    const auto rows = [this](const char* sql) { return static_cast<std::uint64_t>(db_.number(sql)); };
    totals all;
    // Of agents that are erased or hidden there may be scopes, too.
#define VISIBLE_SCOPES "FROM scopes WHERE agent NOT IN (SELECT number FROM agents WHERE id IS NULL)"
    all.agents = rows("SELECT count(DISTINCT agent) " VISIBLE_SCOPES);
    all.checkpoints = rows("SELECT coalesce(sum(checkpoints), 0) " VISIBLE_SCOPES);
    all.steps = rows("SELECT coalesce(sum(steps), 0) " VISIBLE_SCOPES);
#undef VISIBLE_SCOPES
    return all;
}

std::uint64_t sqlite_tables::estimate_content()
{
    return static_cast<std::uint64_t>(
        db_.number("SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM objects)"));
}

namespace {

//! Lets a long statement be stopped.
class interruption {
public:
    interruption(sqlite3* db, const upkeep_control& control) : db_(db), control_(control)
    {
        constexpr int instructions_between_looks = 10'000;
        sqlite3_progress_handler(
            db_, instructions_between_looks,
            [](void* watched) { return static_cast<const upkeep_control*>(watched)->is_stopped() ? 1 : 0; },
            const_cast<upkeep_control*>(&control));
    }
    interruption(const interruption&) = delete;
    interruption& operator=(const interruption&) = delete;
    ~interruption() { sqlite3_progress_handler(db_, 0, nullptr, nullptr); }

    template <class Step>
    bool goes_on(Step step) const
    {
        try {
            return step();
        } catch (const error&) {
            control_.require_wanted();
            throw;
        }
    }

private:
    sqlite3* db_;
    const upkeep_control& control_;
};

} // namespace

std::vector<std::string> sqlite_tables::check_structure(const upkeep_control& control)
{
    std::vector<std::string> complaints;
    {
        const interruption watched(db_.get(), control);
        auto found = db_.use("PRAGMA integrity_check(20)");
        while (watched.goes_on([&] { return found.step(); }))
            if (auto line = found.text(0); line != "ok")
                complaints.push_back("SQLite: " + line);
    }
    const auto complain = [&](std::string_view scope) {
        complaints.push_back("the record of the agent of a scope " + detail::quoted(scope) +
                             " is missing; restore a backup");
    };
    auto lost = db_.use("SELECT scope FROM scopes WHERE agent NOT IN (SELECT number FROM agents) LIMIT 20");
    while (lost.step())
        complain(lost.text(0));
    auto nameless = db_.use(AGENT_COLUMNS "WHERE id IS NULL AND copied_at IS NULL");
    while (complaints.size() < 20 && nameless.step())
        if (const auto row = read_agent(nameless); !is_intact(row))
            for (const auto& scope : scopes_of(row.number))
                complain(scope.scope);
    return complaints;
}

} // namespace waymark::sqlite
