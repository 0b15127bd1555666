//! What each question and each write is in SQL.
#include "postgres_tables.hpp"

#include "../../values/text.hpp"
#include "row_columns.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace waymark::postgres {

using namespace tables;

namespace {

//! As many as a page holds at first, then more.
class page_size {
public:
    std::int64_t next() noexcept { return std::exchange(size_, std::min<std::int64_t>(size_ * 4, 512)); }

private:
    std::int64_t size_ = 32;
};

std::int64_t to_limit(std::size_t limit)
{
    constexpr auto largest = std::numeric_limits<std::int64_t>::max();
    return limit > static_cast<std::uint64_t>(largest) ? largest : static_cast<std::int64_t>(limit);
}

} // namespace

// Agents

void postgres_tables::remember(const std::optional<agent_row>& row, std::string_view id)
{
    if (row)
        ids_[row->number] = row->id;
    agents_[std::string(id)] = row;
}

std::optional<agent_row> postgres_tables::find_agent(std::string_view id)
{
    if (!has_begun_)
        end_trip(begin_trip()); // which asks for the agents that the transaction is about
    if (const auto known = agents_.find(id); known != agents_.end())
        return known->second;
    remember(first_of(ask(statement(AGENT_COLUMNS "WHERE agent_id = $1").add(id)), read_agent), id);
    return agents_.find(id)->second;
}

std::vector<agent_row> postgres_tables::agents_after(std::string_view id, std::size_t limit)
{
    auto result =
        all_of(ask(statement(AGENT_COLUMNS "WHERE agent_id > $1 AND scopes > 0 ORDER BY agent_id LIMIT $2")
                       .add(id)
                       .add(to_limit(limit))),
               read_agent);
    for (const auto& row : result)
        remember(row, row.id);
    return result;
}

std::vector<std::string> postgres_tables::agents_with_garbage(std::string_view after, std::size_t limit)
{
    return all_of(ask(statement("SELECT agent_id FROM waymark.agents WHERE has_garbage AND agent_id > $1 "
                                "ORDER BY agent_id LIMIT $2")
                          .add(after)
                          .add(to_limit(limit))),
                  read_text);
}

std::int64_t postgres_tables::add_agent(std::string_view id)
{
    agent_row row;
    row.number = new_mark(); // by the client: no counter that all agents share
    row.id = id;
    write(kind::new_agent,
          statement("INSERT INTO waymark.agents (agent_id, number, last_sequence, next_message, "
                    "next_object, scopes, sweeps, changes, stamp, has_garbage, checksum) "
                    "VALUES ($1, $2, 0, 1, 1, 0, 0, 0, 0, false, '')")
              .add(id)
              .add(row.number));
    pending_.back().order = id; // who makes the same agents does so in the same order: no deadlocks
    new_agents_.insert(row.number);
    remember(row, id);
    return row.number;
}

void postgres_tables::put_agent(const agent_row& row)
{
    write(kind::agent, by_agent("UPDATE waymark.agents SET last_sequence = $3, next_message = $4, "
                                "next_object = $5, scopes = $6, sweeps = $7, changes = $8, stamp = $9, "
                                "has_garbage = $10, checksum = $11 WHERE agent_id = $1 AND number = $2",
                                row.number)
                           .add(row.last_sequence)
                           .add(row.next_message)
                           .add(row.next_object)
                           .add(row.scopes)
                           .add(row.sweeps)
                           .add(row.changes)
                           .add(row.stamp)
                           .add_flag(row.has_garbage)
                           .add_bytes(row.check));
    agents_[id_of(row.number)] = row;
}

std::vector<std::string> postgres_tables::check_structure(const upkeep_control& /*control*/)
{
    // Agents that are erased or hidden have no record there.
    const auto lost =
        ask(statement("SELECT DISTINCT agent_id FROM waymark.scopes s WHERE NOT EXISTS (SELECT 1 FROM "
                      "waymark.agents a WHERE a.agent_id = s.agent_id AND a.number = s.agent) AND NOT EXISTS "
                      "(SELECT 1 FROM waymark.erased_agents e WHERE e.agent_id = s.agent_id AND e.agent = "
                      "s.agent) LIMIT 20"));
    std::vector<std::string> complaints;
    for (int i = 0; i < lost.size(); ++i)
        complaints.push_back("the record of agent " + detail::quoted(lost.text(i, 0)) +
                             " is missing; restore a backup");
    return complaints;
}

void postgres_tables::erase_agent(const agent_row& row)
{
    write(kind::in_order,
          by_agent("DELETE FROM waymark.agents WHERE agent_id = $1 AND number = $2", row.number));
    write(kind::in_order,
          by_agent("INSERT INTO waymark.erased_agents (agent_id, agent) VALUES ($1, $2)", row.number));
    std::erase_if(scopes_, [&](const auto& known) { return known.first.first == row.number; });
    scope_counts_.erase(row.number);
    agents_[row.id] = std::nullopt;
}

// A copy that is being made stands among the erased agents, with a time.

erased_agent postgres_tables::add_hidden_agent(std::string_view id, std::int64_t time)
{
    erased_agent hidden{std::string(id), new_mark()};
    write(kind::in_order,
          statement("INSERT INTO waymark.erased_agents (agent_id, agent, copied_at) VALUES ($1, $2, $3)")
              .add(hidden.id)
              .add(hidden.number)
              .add(time));
    return hidden;
}

bool postgres_tables::keep_hidden_agent(const erased_agent& agent, std::int64_t time)
{
    ids_[agent.number] = agent.id;    // its rows are written from now on
    new_agents_.insert(agent.number); // and none of them twice
    return ask(statement("UPDATE waymark.erased_agents SET copied_at = $3 " OF_AGENT
                         "AND copied_at IS NOT NULL")
                   .add(agent.id)
                   .add(agent.number)
                   .add(time))
               .changes() == 1;
}

void postgres_tables::publish_agent(const erased_agent& agent, const agent_row& row)
{
    forget(agent);
    write(kind::in_order,
          statement("INSERT INTO waymark.agents (agent_id, number, last_sequence, next_message, "
                    "next_object, scopes, sweeps, changes, stamp, has_garbage, checksum) "
                    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
              .add(row.id)
              .add(row.number)
              .add(row.last_sequence)
              .add(row.next_message)
              .add(row.next_object)
              .add(row.scopes)
              .add(row.sweeps)
              .add(row.changes)
              .add(row.stamp)
              .add_flag(row.has_garbage)
              .add_bytes(row.check));
    agents_[row.id] = row;
}

std::vector<erased_agent> postgres_tables::erased_agents(std::size_t limit, std::int64_t before)
{
    const auto found = ask(statement("SELECT agent_id, agent FROM waymark.erased_agents WHERE copied_at IS "
                                     "NULL OR copied_at < $1 LIMIT $2")
                               .add(before)
                               .add(to_limit(limit)));
    std::vector<erased_agent> result;
    for (int at = 0; at < found.size(); ++at)
        result.push_back({found.text(at, 0), found.number(at, 1)});
    return result;
}

//! One at a time: who finds nothing left must know that nobody else is still removing.
bool postgres_tables::condemn(const erased_agent& agent)
{
    return ask(statement("UPDATE waymark.erased_agents SET copied_at = NULL " OF_AGENT)
                   .add(agent.id)
                   .add(agent.number))
               .changes() == 1;
}

// The first few by the primary key: whatever the server knows of the table, it reads no others.
#define FIRST_FEW(table, column)                                                                             \
    "DELETE FROM waymark." table " " OF_AGENT "AND " column " <= (SELECT max(" column                        \
    ") FROM (SELECT " column " FROM waymark." table " " OF_AGENT "ORDER BY " column " LIMIT $3) few)"

bool postgres_tables::remove_rows(const erased_agent& agent)
{
    constexpr std::int64_t at_a_time = 256;
    for (const auto* sql : {
             FIRST_FEW("messages", "first"),
             FIRST_FEW("objects", "number"),
             FIRST_FEW("checkpoints", "sequence"),
             FIRST_FEW("scopes", "scope"),
             "DELETE FROM waymark.steps " OF_AGENT
             "AND (scope, key) IN (SELECT scope, key FROM waymark.steps " OF_AGENT
             "ORDER BY scope, key LIMIT $3)",
         })
        if (ask(statement(sql).add(agent.id).add(agent.number).add(at_a_time)).changes() > 0)
            return true;
    return false;
}

#undef FIRST_FEW

void postgres_tables::forget(const erased_agent& agent)
{
    write(kind::in_order,
          statement("DELETE FROM waymark.erased_agents " OF_AGENT).add(agent.id).add(agent.number));
}

// Scopes

std::optional<scope_row> postgres_tables::find_scope(std::int64_t agent, std::string_view scope)
{
    const in_agent key(agent, scope);
    if (const auto known = scopes_.find(key); known != scopes_.end())
        return known->second;
    if (is_new(agent))
        return std::nullopt;
    return scopes_[key] =
               first_of(ask(by_agent(SCOPE_COLUMNS OF_AGENT "AND scope = $3", agent).add(scope)), read_scope);
}

std::vector<scope_row> postgres_tables::scopes_of(std::int64_t agent)
{
    return all_of(ask(by_agent(SCOPE_COLUMNS OF_AGENT "ORDER BY scope", agent)), read_scope);
}

std::int64_t postgres_tables::count_scopes(std::int64_t agent)
{
    if (is_new(agent))
        return std::count_if(scopes_.begin(), scopes_.end(),
                             [&](const auto& known) { return known.first.first == agent && known.second; });
    if (const auto known = scope_counts_.find(agent); known != scope_counts_.end())
        return known->second;
    return scope_counts_[agent] =
               ask(by_agent("SELECT count(*) FROM waymark.scopes " OF_AGENT, agent)).number(0, 0);
}

void postgres_tables::put_scope(const scope_row& row)
{
    write(kind::scope,
          by_agent("INSERT INTO waymark.scopes (agent_id, agent, scope, checkpoints, head, steps, checksum) "
                   "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (agent_id, agent, scope) DO UPDATE SET "
                   "checkpoints = excluded.checkpoints, head = excluded.head, steps = excluded.steps, "
                   "checksum = excluded.checksum",
                   row.agent)
              .add(row.scope)
              .add(row.checkpoints)
              .add(row.head)
              .add(row.steps)
              .add_bytes(row.check));
    scopes_[{row.agent, row.scope}] = row;
    scope_counts_.erase(row.agent);
}

void postgres_tables::remove_scope(std::int64_t agent, std::string_view scope)
{
    write(kind::in_order,
          by_agent("DELETE FROM waymark.scopes " OF_AGENT "AND scope = $3", agent).add(scope));
    scopes_[{agent, std::string(scope)}] = std::nullopt;
    scope_counts_.erase(agent);
}

// Checkpoints

void postgres_tables::remember(std::int64_t agent, const std::string& scope, const std::string& id,
                               std::optional<checkpoint_row> row)
{
    if (row)
        note_size(*row);
    auto& known = checkpoints_[{agent, scope, id}];
    known.exists = row.has_value();
    known.row = std::move(row);
}

std::optional<checkpoint_row> postgres_tables::find_checkpoint(std::int64_t agent, std::string_view scope,
                                                               std::string_view id)
{
    const in_scope key(agent, scope, id);
    if (const auto known = checkpoints_.find(key); known != checkpoints_.end()) {
        if (!known->second.exists || known->second.row)
            return known->second.row;
    } else if (is_new(agent)) {
        return std::nullopt;
    }
    auto row = first_of(
        ask(by_agent(CHECKPOINT_COLUMNS OF_AGENT "AND id = $4 AND scope = $3", agent).add(scope).add(id)),
        read_checkpoint);
    remember(agent, std::get<1>(key), std::get<2>(key), row);
    return row;
}

std::optional<checkpoint_row> postgres_tables::checkpoint_at(std::int64_t agent, std::int64_t sequence)
{
    if (const auto known = by_sequence_.find({agent, sequence}); known != by_sequence_.end())
        return known->second;
    auto row = first_of(ask(by_agent(CHECKPOINT_COLUMNS OF_AGENT "AND sequence = $3", agent).add(sequence)),
                        read_checkpoint);
    if (row)
        note_size(*row);
    return by_sequence_[{agent, sequence}] = std::move(row);
}

std::vector<checkpoint_row> postgres_tables::checkpoints_of(std::int64_t agent, std::string_view id)
{
    auto rows = all_of(ask(by_agent(CHECKPOINT_COLUMNS OF_AGENT "AND id = $3 ORDER BY scope", agent).add(id)),
                       read_checkpoint);
    for (const auto& row : rows)
        note_size(row);
    return rows;
}

std::vector<std::string> postgres_tables::owners_of(std::string_view id, std::size_t limit)
{
    return all_of(ask(statement("SELECT DISTINCT c.agent_id FROM waymark.checkpoints c JOIN waymark.agents a "
                                "ON a.agent_id = c.agent_id AND a.number = c.agent WHERE c.id = $1 LIMIT $2")
                          .add(id)
                          .add(to_limit(limit))),
                  read_text);
}

void postgres_tables::scan_checkpoints(std::int64_t agent, const scan_range& range,
                                       const visitor<checkpoint_row>& visit)
{
    const auto* const oldest_first = CHECKPOINT_COLUMNS OF_AGENT
        "AND sequence > $3 AND sequence < $4 AND ($5 IS NULL OR scope = $5) ORDER BY sequence LIMIT $6";
    const auto* const newest_first = CHECKPOINT_COLUMNS OF_AGENT
        "AND sequence > $3 AND sequence < $4 AND ($5 IS NULL OR scope = $5) ORDER BY sequence DESC LIMIT $6";
    auto above = range.above.value_or(std::numeric_limits<std::int64_t>::min());
    auto below = range.below.value_or(std::numeric_limits<std::int64_t>::max());
    for (page_size size;;) {
        const auto wanted = size.next();
        auto page = all_of(ask(by_agent(range.newest_first ? newest_first : oldest_first, agent)
                                   .add(above)
                                   .add(below)
                                   .add(range.scope)
                                   .add(wanted)),
                           read_checkpoint);
        for (auto& row : page) {
            (range.newest_first ? below : above) = row.sequence;
            note_size(row);
            if (!visit(std::move(row)))
                return;
        }
        if (static_cast<std::int64_t>(page.size()) < wanted)
            return;
    }
}

std::int64_t postgres_tables::count_checkpoints(std::int64_t agent, std::string_view scope)
{
    return ask(by_agent("SELECT count(*) FROM waymark.checkpoints " OF_AGENT "AND scope = $3", agent)
                   .add(scope))
        .number(0, 0);
}

std::int64_t postgres_tables::newest_sequence(std::int64_t agent, std::string_view scope)
{
    const auto found = ask(by_agent("SELECT sequence FROM waymark.checkpoints " OF_AGENT
                                    "AND scope = $3 ORDER BY sequence DESC LIMIT 1",
                                    agent)
                               .add(scope));
    return found.size() > 0 ? found.number(0, 0) : 0;
}

namespace {

statement& add_content(statement& to, const checkpoint_row& row)
{
    return to.add(row.sequence)
        .add(row.scope)
        .add(row.id)
        .add(row.parent)
        .add(row.name)
        .add(row.iteration)
        .add(row.created_at)
        .add(row.messages)
        .add_bytes(row.metadata)
        .add_bytes(row.chain)
        .add_bytes(row.body)
        .add_flag(row.pinned)
        .add(row.stored_bytes)
        .add(row.content_bytes)
        .add_bytes(row.check);
}

} // namespace

bool postgres_tables::insert_checkpoint(const checkpoint_row& row)
{
    const in_scope key(row.agent, row.scope, row.id);
    auto known = checkpoints_.find(key);
    if (known == checkpoints_.end() && !is_new(row.agent)) {
        find_checkpoint(row.agent, row.scope, row.id);
        known = checkpoints_.find(key);
    }
    if (known != checkpoints_.end() && known->second.exists)
        return false;
    auto added =
        by_agent("INSERT INTO waymark.checkpoints (agent_id, agent, sequence, scope, id, parent, name, "
                 "iteration, created_at, messages, metadata, chain, body, pinned, stored_bytes, "
                 "content_bytes, checksum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, "
                 "$13, $14, $15, $16, $17)",
                 row.agent);
    add_content(added, row);
    write(kind::checkpoint, std::move(added));
    checkpoints_[key] = {true, std::nullopt};
    by_sequence_.erase({row.agent, row.sequence});
    return true;
}

void postgres_tables::update_checkpoint(const checkpoint_row& row)
{
    auto changed = by_agent("UPDATE waymark.checkpoints SET sequence = $3, scope = $4, id = $5, parent = $6, "
                            "name = $7, iteration = $8, created_at = $9, messages = $10, metadata = $11, "
                            "chain = $12, body = $13, pinned = $14, stored_bytes = $15, content_bytes = $16, "
                            "checksum = $17 " OF_AGENT "AND id = $5 AND scope = $4",
                            row.agent);
    add_content(changed, row);
    write(kind::in_order, std::move(changed), row.id);
    checkpoints_[{row.agent, row.scope, row.id}] = {true, std::nullopt};
    by_sequence_.erase({row.agent, row.sequence});
}

void postgres_tables::remove_checkpoint(std::int64_t agent, std::string_view scope, std::string_view id)
{
    write(kind::in_order,
          by_agent("DELETE FROM waymark.checkpoints " OF_AGENT "AND id = $4 AND scope = $3", agent)
              .add(scope)
              .add(id),
          std::string(id));
    checkpoints_[{agent, std::string(scope), std::string(id)}] = {};
    by_sequence_.clear();
}

// Messages

void postgres_tables::read_messages(std::int64_t agent, std::span<const extent> ranges,
                                    const std::function<void(std::size_t, message_row&&)>& visit)
{
    const auto ahead = std::find_if(messages_.begin(), messages_.end(), [&](const auto& known) {
        return known.agent == agent && std::equal(known.ranges.begin(), known.ranges.end(), ranges.begin(),
                                                  ranges.end(), [](const extent& a, const extent& b) {
                                                      return a.first == b.first && a.count == b.count;
                                                  });
    });
    if (ahead != messages_.end()) {
        auto known = std::move(*ahead);
        messages_.erase(ahead);
        for (auto& [range, row] : known.found)
            visit(range, std::move(row));
        return;
    }
    read_ranges(messages_in_range, agent, ranges,
                [&](std::size_t range, std::int64_t from, const rows& found, int at) {
                    auto row = read_message_row(agent, found, at);
                    const extent numbers{row.first, row.count()};
                    if (numbers.end() > from)
                        visit(range, std::move(row));
                    return numbers.end();
                });
}

void postgres_tables::message_sizes(std::int64_t agent, std::span<const extent> ranges,
                                    const std::function<void(std::size_t, message_size)>& visit)
{
    read_ranges(sizes_in_range, agent, ranges,
                [&](std::size_t range, std::int64_t from, const rows& found, int at) {
                    const message_size row{{found.number(at, 0), found.number(at, 1)}, found.number(at, 2)};
                    if (row.numbers.end() > from)
                        visit(range, row);
                    return row.numbers.end();
                });
}

void postgres_tables::large_parts(std::int64_t agent, std::span<const extent> ranges,
                                  const std::function<void(std::size_t, message_parts&&)>& visit)
{
    read_ranges(parts_in_range, agent, ranges,
                [&](std::size_t range, std::int64_t from, const rows& found, int at) {
                    message_parts row{{found.number(at, 0), found.number(at, 1)}, found.text(at, 2)};
                    const auto end = row.numbers.end();
                    if (end > from)
                        visit(range, std::move(row));
                    return end;
                });
}

//! Many ranges in one round trip, and a long range page by page. `visit` is told where the page begins, since
//! its first row may end before that, and returns where a row ends.
void postgres_tables::read_ranges(const char* sql, std::int64_t agent, std::span<const extent> ranges,
                                  const range_visitor& visit)
{
    constexpr std::size_t ranges_per_trip = 64;
    if (const auto begun = begin_trip(); !begun.is_empty())
        end_trip(begun);
    for (std::size_t begin = 0; begin < ranges.size(); begin += ranges_per_trip) {
        const auto some = ranges.subspan(begin, std::min(ranges_per_trip, ranges.size() - begin));
        const auto ask_for = [&](std::int64_t first, const extent& range) {
            db_.add(by_agent(sql, agent).add(first).add(range.end()).add(page_of(range)));
        };
        for (const auto& range : some)
            ask_for(range.first, range);
        auto pages = db_.run();
        for (std::size_t i = 0; i < some.size(); ++i) {
            auto page = std::move(pages[i]);
            auto from = some[i].first;
            for (bool more = true; more;) {
                auto end = from;
                for (int at = 0; at < page.size(); ++at)
                    end = visit(begin + i, from, page, at);
                more = page.size() == page_of(some[i]) && end > from && end < some[i].end();
                if (more) {
                    from = end;
                    ask_for(from, some[i]);
                    page = std::move(db_.run().front());
                }
            }
        }
    }
}

std::optional<std::int64_t> postgres_tables::message_stamp(std::int64_t agent, std::int64_t number)
{
    const std::pair key(agent, number);
    if (const auto known = stamps_.find(key); known != stamps_.end())
        return known->second;
    if (is_new(agent))
        return std::nullopt;
    return stamps_[key] = read_stamp(ask(by_agent(STAMP_AT(OF_AGENT, "$3"), agent).add(number)), number);
}

void postgres_tables::insert_messages(const message_row& row)
{
    write(kind::messages,
          by_agent("INSERT INTO waymark.messages (agent_id, agent, first, count, bytes, digests, "
                   "body, stamp, parts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                   row.agent)
              .add(row.first)
              .add(row.count())
              .add(row.bytes())
              .add_bytes(row.digests)
              .add_bytes(row.body)
              .add(row.stamp)
              .add_bytes(row.parts.empty() ? std::nullopt : std::optional(row.parts)));
}

void postgres_tables::remove_messages(std::int64_t agent, std::int64_t first)
{
    write(kind::in_order,
          by_agent("DELETE FROM waymark.messages " OF_AGENT "AND first = $3", agent).add(first));
    messages_.clear();
    stamps_.clear();
}

// Objects

std::optional<std::int64_t> postgres_tables::find_object(std::int64_t agent, std::string_view hash)
{
    const in_agent key(agent, hash);
    if (const auto known = object_numbers_.find(key); known != object_numbers_.end())
        return known->second;
    if (is_new(agent))
        return std::nullopt;
    const auto found = ask(by_agent("SELECT number FROM waymark.objects " OF_AGENT
                                    "AND hash = $3 ORDER BY number DESC LIMIT 1",
                                    agent)
                               .add_bytes(hash));
    return object_numbers_[key] = found.size() > 0 ? std::optional(found.number(0, 0)) : std::nullopt;
}

void postgres_tables::read_objects(std::int64_t agent, std::span<const std::int64_t> numbers,
                                   const visitor<object_row>& visit)
{
    std::vector<std::int64_t> unknown;
    std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(unknown), [&](std::int64_t number) {
        return !objects_.contains({agent, number});
    });
    std::map<std::int64_t, object_row> found;
    if (!unknown.empty())
        for (auto& row :
             all_of(ask(by_agent(OBJECT_COLUMNS OF_AGENT "AND number = ANY ($3)", agent).add_list(unknown)),
                    read_object)) {
            const auto number = row.number;
            found.emplace(number, std::move(row));
        }
    for (const auto number : numbers) {
        if (const auto asked = found.find(number); asked != found.end()) {
            if (!visit(std::move(asked->second)))
                return;
        } else if (const auto known = objects_.find({agent, number});
                   known != objects_.end() && known->second) {
            if (!visit(object_row(*known->second)))
                return;
        }
    }
}

void postgres_tables::scan_objects(std::int64_t agent, const visitor<object_row>& visit)
{
    auto last = std::numeric_limits<std::int64_t>::min();
    for (page_size size;;) {
        const auto wanted = size.next();
        auto page =
            all_of(ask(by_agent(OBJECT_COLUMNS OF_AGENT "AND number > $3 ORDER BY number LIMIT $4", agent)
                           .add(last)
                           .add(wanted)),
                   read_object);
        for (auto& row : page) {
            last = row.number;
            if (!visit(std::move(row)))
                return;
        }
        if (static_cast<std::int64_t>(page.size()) < wanted)
            return;
    }
}

void postgres_tables::object_sizes(std::int64_t agent, const visitor<object_size>& visit)
{
    const auto found =
        ask(by_agent("SELECT number, bytes FROM waymark.objects " OF_AGENT "ORDER BY number", agent));
    for (int at = 0; at < found.size(); ++at)
        if (!visit({found.number(at, 0), found.number(at, 1)}))
            return;
}

void postgres_tables::insert_object(const object_row& row)
{
    write(kind::object, by_agent("INSERT INTO waymark.objects (agent_id, agent, number, bytes, hash, body) "
                                 "VALUES ($1, $2, $3, $4, $5, $6)",
                                 row.agent)
                            .add(row.number)
                            .add(row.bytes())
                            .add_bytes(row.hash)
                            .add_bytes(row.body));
    object_numbers_[{row.agent, row.hash}] = row.number;
    objects_.erase({row.agent, row.number});
}

void postgres_tables::remove_object(std::int64_t agent, std::int64_t number)
{
    write(kind::in_order,
          by_agent("DELETE FROM waymark.objects " OF_AGENT "AND number = $3", agent).add(number));
    object_numbers_.clear();
    objects_.erase({agent, number});
}

// Steps

std::optional<step_row> postgres_tables::find_step(std::int64_t agent, std::string_view scope,
                                                   std::string_view key)
{
    const in_scope whole(agent, scope, key);
    if (const auto known = steps_.find(whole); known != steps_.end())
        return known->second;
    if (is_new(agent))
        return std::nullopt;
    return steps_[whole] = first_of(
               ask(by_agent(STEP_COLUMNS OF_AGENT "AND scope = $3 AND key = $4", agent).add(scope).add(key)),
               read_step);
}

void postgres_tables::scan_steps(std::int64_t agent, const std::optional<std::string>& scope,
                                 const visitor<step_row>& visit)
{
    const auto* const first_page =
        STEP_COLUMNS OF_AGENT "AND ($3 IS NULL OR scope = $3) ORDER BY scope, key LIMIT $4";
    const auto* const next_page = STEP_COLUMNS OF_AGENT
        "AND ($3 IS NULL OR scope = $3) AND (scope, key) > ($5, $6) ORDER BY scope, key LIMIT $4";
    std::optional<std::pair<std::string, std::string>> last;
    for (page_size size;;) {
        const auto wanted = size.next();
        auto next = by_agent(last ? next_page : first_page, agent).add(scope).add(wanted);
        if (last)
            next.add(last->first).add(last->second);
        auto page = all_of(ask(std::move(next)), read_step);
        for (auto& row : page) {
            last.emplace(row.scope, row.key);
            if (!visit(std::move(row)))
                return;
        }
        if (static_cast<std::int64_t>(page.size()) < wanted)
            return;
    }
}

void postgres_tables::scan_pending_steps(std::int64_t agent, std::string_view scope,
                                         const visitor<step_row>& visit)
{
    for (auto& row :
         all_of(ask(by_agent(STEP_COLUMNS OF_AGENT "AND scope = $3 AND result IS NULL", agent).add(scope)),
                read_step))
        if (!visit(std::move(row)))
            return;
}

std::int64_t postgres_tables::count_steps(std::int64_t agent, std::string_view scope)
{
    return ask(by_agent("SELECT count(*) FROM waymark.steps " OF_AGENT "AND scope = $3", agent).add(scope))
        .number(0, 0);
}

void postgres_tables::put_step(const step_row& row)
{
    write(
        kind::step,
        by_agent("INSERT INTO waymark.steps (agent_id, agent, scope, key, checkpoint, made_on, started_at, "
                 "result, attempt, failure, checksum) "
                 "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) "
                 "ON CONFLICT (agent_id, agent, scope, key) DO UPDATE SET checkpoint = excluded.checkpoint, "
                 "made_on = excluded.made_on, started_at = excluded.started_at, result = excluded.result, "
                 "attempt = excluded.attempt, failure = excluded.failure, checksum = excluded.checksum",
                 row.agent)
            .add(row.scope)
            .add(row.key)
            .add(row.checkpoint)
            .add(row.made_on)
            .add(row.started_at)
            .add_bytes(row.result)
            .add(row.attempt)
            .add_bytes(row.failure)
            .add_bytes(row.check));
    steps_[{row.agent, row.scope, row.key}] = row;
}

bool postgres_tables::remove_step(std::int64_t agent, std::string_view scope, std::string_view key)
{
    steps_[{agent, std::string(scope), std::string(key)}] = std::nullopt;
    return ask(by_agent("DELETE FROM waymark.steps " OF_AGENT "AND scope = $3 AND key = $4", agent)
                   .add(scope)
                   .add(key))
               .changes() > 0;
}

std::int64_t postgres_tables::remove_steps_after(std::int64_t agent, std::string_view scope,
                                                 std::int64_t sequence)
{
    steps_.clear();
    return ask(by_agent("DELETE FROM waymark.steps " OF_AGENT "AND scope = $3 AND made_on > $4", agent)
                   .add(scope)
                   .add(sequence))
        .changes();
}

// Whole agents, and the whole database

totals postgres_tables::count_all()
{
    const auto found = ask(statement("SELECT CAST(count(DISTINCT agent_id) AS int8), "
                                     "CAST(coalesce(sum(checkpoints), 0) AS int8), "
                                     "CAST(coalesce(sum(steps), 0) AS int8) FROM waymark.scopes s WHERE "
                                     "NOT EXISTS (SELECT 1 FROM waymark.erased_agents e WHERE e.agent_id = "
                                     "s.agent_id AND e.agent = s.agent)"));
    totals all;
    all.agents = static_cast<std::uint64_t>(found.number(0, 0));
    all.checkpoints = static_cast<std::uint64_t>(found.number(0, 1));
    all.steps = static_cast<std::uint64_t>(found.number(0, 2));
    return all;
}

std::uint64_t postgres_tables::estimate_content()
{
    // What the planner believes; counting would read everything.
    const auto found =
        ask(statement("SELECT CAST(coalesce(sum(greatest(c.reltuples, 0)), 0) AS int8) FROM "
                      "pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
                      "WHERE n.nspname = $1 AND c.relkind = 'r' "
                      "AND (c.relname LIKE 'messages%' OR c.relname LIKE 'objects%')")
                .add(db_.schema()));
    return static_cast<std::uint64_t>(found.number(0, 0));
}

} // namespace waymark::postgres
