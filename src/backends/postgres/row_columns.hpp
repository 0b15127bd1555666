//! The columns of each table in SQL, and the rows that come back.
#pragma once

#include "../../tables/database.hpp"
#include "connection.hpp"

#include <optional>
#include <vector>

namespace waymark::postgres {

inline tables::agent_row read_agent(const rows& found, int at)
{
    tables::agent_row row;
    row.id = found.text(at, 0);
    row.number = found.number(at, 1);
    row.last_sequence = found.number(at, 2);
    row.next_message = found.number(at, 3);
    row.next_object = found.number(at, 4);
    row.scopes = found.number(at, 5);
    row.sweeps = found.number(at, 6);
    row.changes = found.number(at, 7);
    row.stamp = found.number(at, 8);
    row.has_garbage = found.flag(at, 9);
    row.check = found.text(at, 10);
    return row;
}

inline tables::scope_row read_scope(const rows& found, int at)
{
    tables::scope_row row;
    row.agent = found.number(at, 0);
    row.scope = found.text(at, 1);
    row.checkpoints = found.number(at, 2);
    row.head = found.number(at, 3);
    row.steps = found.number(at, 4);
    row.check = found.text(at, 5);
    return row;
}

inline tables::checkpoint_row read_checkpoint(const rows& found, int at)
{
    tables::checkpoint_row row;
    row.agent = found.number(at, 0);
    row.sequence = found.number(at, 1);
    row.scope = found.text(at, 2);
    row.id = found.text(at, 3);
    row.parent = found.optional_text(at, 4);
    row.name = found.text(at, 5);
    row.iteration = found.number(at, 6);
    row.created_at = found.number(at, 7);
    row.messages = found.number(at, 8);
    row.metadata = found.text(at, 9);
    row.chain = found.text(at, 10);
    row.body = found.text(at, 11);
    row.pinned = found.flag(at, 12);
    row.stored_bytes = found.number(at, 13);
    row.content_bytes = found.number(at, 14);
    row.check = found.text(at, 15);
    return row;
}

inline tables::step_row read_step(const rows& found, int at)
{
    tables::step_row row;
    row.agent = found.number(at, 0);
    row.scope = found.text(at, 1);
    row.key = found.text(at, 2);
    row.checkpoint = found.optional_text(at, 3);
    row.made_on = found.number(at, 4);
    row.started_at = found.number(at, 5);
    row.result = found.optional_text(at, 6);
    row.attempt = found.text(at, 7);
    row.failure = found.optional_text(at, 8);
    row.check = found.text(at, 9);
    return row;
}

inline tables::object_row read_object(const rows& found, int at)
{
    return {found.number(at, 0), found.number(at, 1), found.text(at, 2), found.text(at, 3)};
}

template <class Row>
std::optional<Row> first_of(const rows& found, Row (*read)(const rows&, int))
{
    return found.size() > 0 ? std::optional(read(found, 0)) : std::nullopt;
}

template <class Row>
std::vector<Row> all_of(const rows& found, Row (*read)(const rows&, int))
{
    std::vector<Row> result;
    for (int at = 0; at < found.size(); ++at)
        result.push_back(read(found, at));
    return result;
}

inline std::string read_text(const rows& found, int at)
{
    return found.text(at, 0);
}

#define AGENT_COLUMNS                                                                                        \
    "SELECT agent_id, number, last_sequence, next_message, next_object, scopes, sweeps, changes, stamp, "    \
    "has_garbage, checksum FROM waymark.agents "
#define SCOPE_COLUMNS "SELECT agent, scope, checkpoints, head, steps, checksum FROM waymark.scopes "
#define CHECKPOINT_COLUMNS                                                                                   \
    "SELECT agent, sequence, scope, id, parent, name, iteration, created_at, messages, metadata, chain, "    \
    "body, pinned, stored_bytes, content_bytes, checksum FROM waymark.checkpoints "
#define STEP_COLUMNS                                                                                         \
    "SELECT agent, scope, key, checkpoint, made_on, started_at, result, attempt, failure, checksum FROM "    \
    "waymark.steps "
#define OBJECT_COLUMNS "SELECT agent, number, hash, body FROM waymark.objects "

// The rows of an agent whose number is known, and of one that the same round trip asks for.
#define OF_AGENT "WHERE agent_id = $1 AND agent = $2 "
#define OF_AGENT_WITH_ID                                                                                     \
    "WHERE agent_id = $1 AND agent = (SELECT number FROM waymark.agents WHERE agent_id = $1) "

// The row that may hold a message.
#define STAMP_AT(rows_of, number)                                                                            \
    "SELECT first, count, stamp FROM waymark.messages " rows_of "AND first <= " number                       \
    " ORDER BY first DESC LIMIT 1"

inline std::optional<std::int64_t> read_stamp(const rows& found, std::int64_t number)
{
    if (found.size() == 0 || tables::extent{found.number(0, 0), found.number(0, 1)}.end() <= number)
        return std::nullopt;
    return found.number(0, 2);
}

// The row that holds the first number may begin before it. Not max(): while the server knows nothing about
// the table yet, it would go through all rows before that.
#define ROWS_IN_RANGE(of_these)                                                                              \
    "FROM waymark.messages " OF_AGENT of_these "AND first < $4 AND first >= "                                \
    "coalesce((SELECT first FROM waymark.messages " OF_AGENT                                                 \
    "AND first <= $3 ORDER BY first DESC LIMIT 1), $3) "                                                     \
    "ORDER BY first LIMIT $5"

inline constexpr const char* messages_in_range =
    "SELECT first, digests, body, stamp, parts " ROWS_IN_RANGE("");
inline constexpr const char* sizes_in_range = "SELECT first, count, bytes " ROWS_IN_RANGE("");
inline constexpr const char* parts_in_range =
    "SELECT first, count, parts " ROWS_IN_RANGE("AND parts IS NOT NULL ");

//! Of messages_in_range.
inline tables::message_row read_message_row(std::int64_t agent, const rows& found, int at)
{
    return {agent,
            found.number(at, 0),
            found.text(at, 1),
            found.text(at, 2),
            found.number(at, 3),
            found.text(at, 4)};
}

//! How many rows of messages are read at a time. A conversation is held in memory anyway; all messages of an
//! agent are not.
constexpr std::int64_t page_of(const tables::extent& range)
{
    constexpr std::int64_t longest_conversation = 1 << 30;
    return range.count < longest_conversation ? 2'048 : 64;
}

} // namespace waymark::postgres
