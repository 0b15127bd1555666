//! The tables in SQL, for one transaction.
//!
//! Every question is a trip to the server, so that those that are known in advance are asked together, and
//! what is written is sent with the commit. What was asked or written is remembered; a question whose answer
//! is not known sends what was written first. Transactions that write are alone with the agents that they are
//! about, so that what they remember stays true.
//!
//! Every table is accessed by `agent_id`, with SQL that PostgreSQL shares with databases that spread tables
//! over servers by such a column.
#pragma once

#include "../../tables/questions.hpp"
#include "connection_pool.hpp"

#include <map>
#include <set>
#include <tuple>

namespace waymark::postgres {

//! What a transaction sets for itself.
struct transaction_settings {
    std::chrono::milliseconds statement_timeout;
    const char* synchronous_commit; // "on": at least that; "off"
    const char* plan_cache_mode;
};

//! Adds the beginning of a transaction to the next round trip: `begin`, and a statement that gives it the
//! settings that promises rely on, whatever the role, the database and the connection string say.
void add_begin(connection& db, const char* begin, const transaction_settings& settings);

class postgres_tables final : public tables::transaction {
public:
    enum class mode { read, write };

    //! The transaction begins with the first round trip, which asks for the agents, too; one that writes
    //! locks them.
    postgres_tables(borrowed_connection db, mode purpose, const transaction_settings& settings,
                    tables::agent_ids agents);

    //! Sends what was written, and ends the transaction.
    //! @throws database_error; waymark::error `outcome_unknown`
    void commit() override;

    std::uint64_t number() const noexcept override { return 0; }
    bool follows(std::uint64_t /*other*/) override { return false; }
    std::size_t page_bytes() const noexcept override { return 8192; }
    bool asks_together() const noexcept override { return true; }
    void expect(std::span<const tables::question> questions) override;
    bool is_usable() const noexcept override { return !db_.is_in_failed_transaction(); }

    std::optional<tables::agent_row> find_agent(std::string_view id) override;
    std::vector<tables::agent_row> agents_after(std::string_view id, std::size_t limit) override;
    std::vector<std::string> agents_with_garbage(std::string_view after, std::size_t limit) override;
    std::int64_t add_agent(std::string_view id) override;
    void put_agent(const tables::agent_row& row) override;
    void erase_agent(const tables::agent_row& row) override;
    tables::erased_agent add_hidden_agent(std::string_view id, std::int64_t time) override;
    bool keep_hidden_agent(const tables::erased_agent& agent, std::int64_t time) override;
    void publish_agent(const tables::erased_agent& agent, const tables::agent_row& row) override;
    std::vector<tables::erased_agent> erased_agents(std::size_t limit, std::int64_t before) override;
    bool condemn(const tables::erased_agent& agent) override;
    bool remove_rows(const tables::erased_agent& agent) override;
    void forget(const tables::erased_agent& agent) override;

    std::optional<tables::scope_row> find_scope(std::int64_t agent, std::string_view scope) override;
    std::vector<tables::scope_row> scopes_of(std::int64_t agent) override;
    std::int64_t count_scopes(std::int64_t agent) override;
    void put_scope(const tables::scope_row& row) override;
    void remove_scope(std::int64_t agent, std::string_view scope) override;

    std::optional<tables::checkpoint_row> find_checkpoint(std::int64_t agent, std::string_view scope,
                                                          std::string_view id) override;
    std::optional<tables::checkpoint_row> checkpoint_at(std::int64_t agent, std::int64_t sequence) override;
    std::vector<tables::checkpoint_row> checkpoints_of(std::int64_t agent, std::string_view id) override;
    std::vector<std::string> owners_of(std::string_view id, std::size_t limit) override;
    void scan_checkpoints(std::int64_t agent, const tables::scan_range& range,
                          const tables::visitor<tables::checkpoint_row>& visit) override;
    std::int64_t count_checkpoints(std::int64_t agent, std::string_view scope) override;
    std::int64_t newest_sequence(std::int64_t agent, std::string_view scope) override;
    bool insert_checkpoint(const tables::checkpoint_row& row) override;
    void update_checkpoint(const tables::checkpoint_row& row) override;
    void remove_checkpoint(std::int64_t agent, std::string_view scope, std::string_view id) override;

    void
    read_messages(std::int64_t agent, std::span<const tables::extent> ranges,
                  const std::function<void(std::size_t range, tables::message_row&& row)>& visit) override;
    void message_sizes(std::int64_t agent, std::span<const tables::extent> ranges,
                       const std::function<void(std::size_t range, message_size row)>& visit) override;
    void large_parts(std::int64_t agent, std::span<const tables::extent> ranges,
                     const std::function<void(std::size_t range, message_parts&& row)>& visit) override;
    std::optional<std::int64_t> message_stamp(std::int64_t agent, std::int64_t number) override;
    void insert_messages(const tables::message_row& row) override;
    void remove_messages(std::int64_t agent, std::int64_t first) override;

    std::optional<std::int64_t> find_object(std::int64_t agent, std::string_view hash) override;
    void read_objects(std::int64_t agent, std::span<const std::int64_t> numbers,
                      const tables::visitor<tables::object_row>& visit) override;
    void scan_objects(std::int64_t agent, const tables::visitor<tables::object_row>& visit) override;
    void object_sizes(std::int64_t agent, const tables::visitor<object_size>& visit) override;
    void insert_object(const tables::object_row& row) override;
    void remove_object(std::int64_t agent, std::int64_t number) override;

    std::optional<tables::step_row> find_step(std::int64_t agent, std::string_view scope,
                                              std::string_view key) override;
    void scan_steps(std::int64_t agent, const std::optional<std::string>& scope,
                    const tables::visitor<tables::step_row>& visit) override;
    void scan_pending_steps(std::int64_t agent, std::string_view scope,
                            const tables::visitor<tables::step_row>& visit) override;
    std::int64_t count_steps(std::int64_t agent, std::string_view scope) override;
    void put_step(const tables::step_row& row) override;
    bool remove_step(std::int64_t agent, std::string_view scope, std::string_view key) override;
    std::int64_t remove_steps_after(std::int64_t agent, std::string_view scope,
                                    std::int64_t sequence) override;

    tables::totals count_all() override;
    std::uint64_t estimate_content() override;
    std::vector<std::string> check_structure(const upkeep_control& control) override;

private:
    using in_agent = std::pair<std::int64_t, std::string>;
    using in_scope = std::tuple<std::int64_t, std::string, std::string>;

    //! Of a checkpoint it may be known only that it exists.
    struct known_checkpoint {
        bool exists = false;
        std::optional<tables::checkpoint_row> row;
    };

    //! Writes that may be sent in another order than they came in, kind by kind.
    enum class kind { new_agent, checkpoint, messages, object, step, scope, agent, in_order };
    struct pending_write {
        kind what;
        statement sent;
        std::string must_change; // a checkpoint whose row has to be there
        std::string order;       // within a kind
    };

    statement by_agent(const char* sql, std::int64_t agent) const;
    const std::string& id_of(std::int64_t agent) const;
    void remember(const std::optional<tables::agent_row>& row, std::string_view id);
    void remember(std::int64_t agent, const std::string& scope, const std::string& id,
                  std::optional<tables::checkpoint_row> row);
    bool is_new(std::int64_t agent) const { return new_agents_.contains(agent); }

    //! What stands in front of the questions of a round trip.
    struct trip {
        bool begins_transaction = false;
        std::vector<std::string> must_change; // for each statement the checkpoint that it must change, if any

        bool is_empty() const noexcept { return !begins_transaction && must_change.empty(); }
    };
    rows ask(statement next);
    trip begin_trip();
    void add_beginning();
    void add_writes(trip& to);
    std::vector<rows> end_trip(const trip& begun);
    void commit_writes();
    void write(kind what, statement next, std::string must_change = {});
    void note_size(const tables::checkpoint_row& row) noexcept;

    void add_questions(std::vector<const tables::question*>& questions);
    void answer(std::span<const tables::question* const> questions, std::vector<rows>& results);
    using range_visitor =
        std::function<std::int64_t(std::size_t range, std::int64_t from, const rows& found, int at)>;
    void read_ranges(const char* sql, std::int64_t agent, std::span<const tables::extent> ranges,
                     const range_visitor& visit);

    borrowed_connection borrowed_;
    connection& db_ = *borrowed_;
    const mode purpose_;
    const transaction_settings settings_;
    const std::set<std::string> agents_of_beginning_; // in order: no deadlocks
    bool has_begun_ = false;
    std::int64_t largest_content_ = 0; // of what is being loaded: a statement may read all of it
    std::int64_t allowed_for_ = 0;     // bytes that the present statement time-out is long enough for
    std::vector<pending_write> pending_;

    std::map<std::string, std::optional<tables::agent_row>, std::less<>> agents_;
    std::map<std::int64_t, std::string> ids_;
    std::set<std::int64_t> new_agents_; // there is nothing of them in the database but what we wrote
    std::map<in_agent, std::optional<tables::scope_row>> scopes_;
    std::map<std::int64_t, std::int64_t> scope_counts_;
    std::map<in_scope, known_checkpoint> checkpoints_;
    std::map<std::pair<std::int64_t, std::int64_t>, std::optional<tables::checkpoint_row>> by_sequence_;
    std::map<in_scope, std::optional<tables::step_row>> steps_;
    std::map<in_agent, std::optional<std::int64_t>> object_numbers_; // by hash
    std::map<std::pair<std::int64_t, std::int64_t>, std::optional<tables::object_row>> objects_;
    std::map<std::pair<std::int64_t, std::int64_t>, std::optional<std::int64_t>> stamps_;
    struct read_ahead {
        std::int64_t agent;
        std::vector<tables::extent> ranges;
        std::vector<std::pair<std::size_t, tables::message_row>> found;
    };
    std::vector<read_ahead> messages_;
};

} // namespace waymark::postgres
