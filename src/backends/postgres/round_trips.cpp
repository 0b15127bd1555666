//! What goes to the server together: the beginning, questions that are known, writes, the commit.
#include "../../values/text.hpp"
#include "postgres_tables.hpp"
#include "row_columns.hpp"

#include <algorithm>
#include <stdexcept>

namespace waymark::postgres {

using namespace tables;

namespace {

// The statement time-out is for work of ordinary size. Each MiB that a statement writes or reads may take a
// second more, on the server or on the way.
constexpr std::int64_t ordinary_bytes = std::int64_t{4} << 20;
constexpr std::int64_t least_bytes_per_second = std::int64_t{1} << 20;

} // namespace

// The transaction

void add_begin(connection& db, const char* begin, const transaction_settings& settings)
{
    db.set_answer_timeout(settings.statement_timeout);
    db.add(statement(begin));
    // For this transaction only: behind a pooler, the next one may be someone else's. Settings that a server
    // does not have are left alone.
    //
    // - Time-outs are ours alone.
    // - Citus wants to see parameters when it plans.
    // - A server may be told to be more durable than "on", never less.
    // - A commit that the standby lacks shows in nothing but a warning.
    // - Functions and operators are the server's, though a path may put others before them: in this statement
    //   because they are named with their schema, and then because that comes first.
    db.add(
        statement(
            "SELECT pg_catalog.set_config('statement_timeout', $1, true), "
            "CASE WHEN pg_catalog.current_setting('idle_in_transaction_session_timeout', true) IS NOT NULL "
            "THEN pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true) END, "
            "pg_catalog.set_config('lock_timeout', '0', true), "
            "CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL "
            "THEN pg_catalog.set_config('transaction_timeout', '0', true) END, "
            "CASE WHEN pg_catalog.current_setting('plan_cache_mode', true) IS NOT NULL "
            "AND pg_catalog.current_setting('citus.shard_count', true) IS NULL "
            "THEN pg_catalog.set_config('plan_cache_mode', $3, true) END, "
            "CASE WHEN $2 OPERATOR(pg_catalog.=) 'off' OR pg_catalog.current_setting('synchronous_commit', "
            "true) OPERATOR(pg_catalog.<>) 'remote_apply' THEN pg_catalog.set_config('synchronous_commit', "
            "$2, true) END, "
            "pg_catalog.set_config('client_min_messages', 'warning', true), "
            "CASE WHEN pg_catalog.strpos(pg_catalog.current_setting('search_path', true), 'pg_catalog') "
            "OPERATOR(pg_catalog.>) 0 "
            "THEN pg_catalog.set_config('search_path', pg_catalog.concat('pg_catalog, ', "
            "pg_catalog.current_setting('search_path', true)), true) END")
            .add(std::to_string(settings.statement_timeout.count()))
            .add(std::string_view(settings.synchronous_commit))
            .add(std::string_view(settings.plan_cache_mode)));
}

postgres_tables::postgres_tables(borrowed_connection db, mode purpose, const transaction_settings& settings,
                                 agent_ids agents)
    : borrowed_(std::move(db)),
      purpose_(purpose),
      settings_(settings),
      agents_of_beginning_(agents.begin(), agents.end())
{
}

void postgres_tables::commit()
{
    if (purpose_ == mode::write) {
        commit_writes();
    } else if (has_begun_) {
        db_.add(statement("COMMIT"));
        db_.send(); // nothing depends on it
    }
    borrowed_.give_back();
}

void postgres_tables::commit_writes()
{
    // Rows that have to be there are looked at while everything can still be undone.
    if (std::any_of(pending_.begin(), pending_.end(),
                    [](const auto& next) { return !next.must_change.empty(); }))
        end_trip(begin_trip());
    begin_trip();
    db_.add(statement("COMMIT"));
    try {
        const auto results = db_.run();
        // A wait for the synchronous standby that was cancelled looks like success, but for a warning: what
        // is committed here may be missing there.
        for (const auto& warning : db_.warnings())
            if (warning == "01000" || warning == "57P01")
                throw error(errc::outcome_unknown, "PostgreSQL has committed and warned that the standby may "
                                                   "not have it");
        if (results.back().tag() != "COMMIT")
            throw error(errc::io, "PostgreSQL has undone the transaction after an earlier error");
    } catch (const database_error& failure) {
        if (!failure.is_connection_lost() && failure.code() != errc::outcome_unknown)
            throw;
        if (auto* const observer = borrowed_.observer())
            observer->lost_commit(failure.details().message());
        throw error(errc::outcome_unknown, failure.details().message());
    }
}

rows postgres_tables::ask(statement next)
{
    const auto begun = begin_trip();
    db_.add(std::move(next));
    return std::move(end_trip(begun).front());
}

postgres_tables::trip postgres_tables::begin_trip()
{
    trip result;
    result.begins_transaction = !has_begun_;
    if (!has_begun_)
        add_beginning();
    add_writes(result);
    return result;
}

void postgres_tables::add_beginning()
{
    add_begin(db_,
              purpose_ == mode::write ? "BEGIN ISOLATION LEVEL READ COMMITTED"
                                      : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
              settings_);
    for (const auto& id : agents_of_beginning_)
        db_.add(statement(purpose_ == mode::write ? AGENT_COLUMNS "WHERE agent_id = $1 FOR UPDATE"
                                                  : AGENT_COLUMNS "WHERE agent_id = $1")
                    .add(id));
    has_begun_ = true;
}

//! What was written, and more time if that is large.
void postgres_tables::add_writes(trip& to)
{
    // Statements of one kind behind each other are parsed once.
    auto sent = std::exchange(pending_, {});
    for (auto begin = sent.begin(); begin != sent.end();) {
        const auto end =
            std::find_if(begin, sent.end(), [](const auto& next) { return next.what == kind::in_order; });
        std::stable_sort(begin, end, [](const auto& a, const auto& b) {
            return std::tie(a.what, a.order) < std::tie(b.what, b.order);
        });
        begin = end == sent.end() ? end : std::next(end);
    }
    auto largest = largest_content_;
    for (const auto& next : sent)
        largest = std::max(largest, static_cast<std::int64_t>(next.sent.bytes()));
    if (largest > ordinary_bytes && largest > allowed_for_) {
        allowed_for_ = largest;
        const auto timeout =
            settings_.statement_timeout + std::chrono::seconds(largest / least_bytes_per_second);
        db_.add(statement("SELECT pg_catalog.set_config('statement_timeout', $1, true)")
                    .add(std::to_string(timeout.count())));
        db_.set_answer_timeout(timeout);
        to.must_change.emplace_back();
    }
    for (auto& next : sent) {
        db_.add(std::move(next.sent));
        to.must_change.push_back(std::move(next.must_change));
    }
}

//! Returns the answers to what was added since.
std::vector<rows> postgres_tables::end_trip(const trip& begun)
{
    auto results = db_.run();
    std::size_t at = 0;
    if (begun.begins_transaction) {
        at = 2; // BEGIN and the settings
        for (const auto& id : agents_of_beginning_)
            remember(first_of(results.at(at++), read_agent), id);
    }
    for (const auto& checkpoint : begun.must_change)
        if (const auto& written = results.at(at++); !checkpoint.empty() && written.changes() != 1)
            throw error(errc::corrupt,
                        "the row of checkpoint " + detail::quoted(checkpoint) + " cannot be found again");
    results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(at));
    return results;
}

void postgres_tables::note_size(const checkpoint_row& row) noexcept
{
    if (purpose_ == mode::read)
        largest_content_ = std::max(largest_content_, row.content_bytes);
}

void postgres_tables::write(kind what, statement next, std::string must_change)
{
    pending_.push_back({what, std::move(next), std::move(must_change), {}});
}

const std::string& postgres_tables::id_of(std::int64_t agent) const
{
    const auto known = ids_.find(agent);
    if (known == ids_.end())
        throw std::logic_error("the row of agent " + std::to_string(agent) +
                               " was not read in this transaction");
    return known->second;
}

statement postgres_tables::by_agent(const char* sql, std::int64_t agent) const
{
    statement result(sql);
    result.add(id_of(agent)).add(agent);
    return result;
}

// Asking together

void postgres_tables::add_questions(std::vector<const question*>& questions)
{
    // An agent that does not exist has nothing, and a list without end is read page by page.
    constexpr std::size_t most_ranges = 256;
    std::erase_if(questions, [&](const question* next) {
        const auto agent = agents_.find(next->agent_id);
        if (next->about == question::kind::messages &&
            (agent == agents_.end() || next->ranges.empty() || next->ranges.size() > most_ranges))
            return true;
        return agent != agents_.end() && !agent->second;
    });
    std::stable_sort(questions.begin(), questions.end(),
                     [](const question* a, const question* b) { return a->about < b->about; });
    for (const auto* next : questions) {
        switch (next->about) {
        case question::kind::scope:
            db_.add(statement(SCOPE_COLUMNS OF_AGENT_WITH_ID "AND scope = $2")
                        .add(next->agent_id)
                        .add(next->scope));
            break;
        case question::kind::scope_count:
            db_.add(statement("SELECT count(*) FROM waymark.scopes " OF_AGENT_WITH_ID).add(next->agent_id));
            break;
        case question::kind::checkpoint:
            db_.add(statement(CHECKPOINT_COLUMNS OF_AGENT_WITH_ID "AND id = $3 AND scope = $2")
                        .add(next->agent_id)
                        .add(next->scope)
                        .add(next->id));
            break;
        case question::kind::head:
            db_.add(statement(CHECKPOINT_COLUMNS OF_AGENT_WITH_ID
                              "AND sequence = (SELECT head FROM waymark.scopes " OF_AGENT_WITH_ID
                              "AND scope = $2)")
                        .add(next->agent_id)
                        .add(next->scope));
            break;
        case question::kind::at:
            db_.add(statement(CHECKPOINT_COLUMNS OF_AGENT_WITH_ID "AND sequence = $2")
                        .add(next->agent_id)
                        .add(next->number));
            break;
        case question::kind::step:
            db_.add(statement(STEP_COLUMNS OF_AGENT_WITH_ID "AND scope = $2 AND key = $3")
                        .add(next->agent_id)
                        .add(next->scope)
                        .add(next->id));
            break;
        case question::kind::object:
            db_.add(statement("SELECT number FROM waymark.objects " OF_AGENT_WITH_ID
                              "AND hash = $2 ORDER BY number DESC LIMIT 1")
                        .add(next->agent_id)
                        .add_bytes(next->id));
            break;
        case question::kind::objects:
            db_.add(statement(OBJECT_COLUMNS OF_AGENT_WITH_ID "AND number = ANY ($2)")
                        .add(next->agent_id)
                        .add_list(next->numbers));
            break;
        case question::kind::stamp:
            db_.add(statement(STAMP_AT(OF_AGENT_WITH_ID, "$2")).add(next->agent_id).add(next->number));
            break;
        case question::kind::messages:
            for (const auto& range : next->ranges)
                db_.add(by_agent(messages_in_range, agents_.find(next->agent_id)->second->number)
                            .add(range.first)
                            .add(range.end())
                            .add(page_of(range)));
            break;
        }
    }
}

void postgres_tables::answer(std::span<const question* const> questions, std::vector<rows>& results)
{
    std::size_t first = 0;
    for (const auto* next : questions) {
        const auto& found = results.at(first++);
        const auto known = agents_.find(next->agent_id);
        if (known == agents_.end() || !known->second)
            continue;
        const auto agent = known->second->number;
        switch (next->about) {
        case question::kind::scope:
            scopes_[{agent, next->scope}] = first_of(found, read_scope);
            break;
        case question::kind::scope_count:
            scope_counts_[agent] = found.number(0, 0);
            break;
        case question::kind::checkpoint:
            remember(agent, next->scope, next->id, first_of(found, read_checkpoint));
            break;
        case question::kind::head:
            if (auto row = first_of(found, read_checkpoint)) {
                note_size(*row);
                const auto sequence = row->sequence;
                by_sequence_[{agent, sequence}] = std::move(row);
            }
            break;
        case question::kind::at:
            if (auto& row = by_sequence_[{agent, next->number}] = first_of(found, read_checkpoint))
                note_size(*row);
            break;
        case question::kind::step:
            steps_[{agent, next->scope, next->id}] = first_of(found, read_step);
            break;
        case question::kind::object:
            object_numbers_[{agent, next->id}] =
                found.size() > 0 ? std::optional(found.number(0, 0)) : std::nullopt;
            break;
        case question::kind::objects:
            for (const auto number : next->numbers)
                objects_.try_emplace({agent, number}, std::nullopt);
            for (auto& row : all_of(found, read_object)) {
                const auto number = row.number;
                objects_[{agent, number}] = std::move(row);
            }
            break;
        case question::kind::stamp:
            stamps_[{agent, next->number}] = read_stamp(found, next->number);
            break;
        case question::kind::messages: {
            read_ahead ahead{agent, next->ranges, {}};
            bool is_whole = true;
            for (std::size_t i = 0; i < next->ranges.size(); ++i) {
                const auto& page = i == 0 ? found : results.at(first++);
                is_whole = is_whole && page.size() < page_of(next->ranges[i]);
                for (int row = 0; row < page.size(); ++row) {
                    auto message = read_message_row(agent, page, row);
                    if (message.numbers().end() > next->ranges[i].first)
                        ahead.found.emplace_back(i, std::move(message));
                }
            }
            if (is_whole)
                messages_.push_back(std::move(ahead));
            break;
        }
        }
    }
}

void postgres_tables::expect(std::span<const question> wanted)
{
    std::vector<const question*> questions;
    for (const auto& next : wanted)
        questions.push_back(&next);
    const auto begun = begin_trip();
    add_questions(questions);
    if (questions.empty() && begun.is_empty())
        return;
    auto results = end_trip(begun);
    answer(questions, results);
}

} // namespace waymark::postgres
