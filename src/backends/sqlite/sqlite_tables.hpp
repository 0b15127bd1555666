//! The tables in SQL.
#pragma once

#include "../../storage/tables.hpp"
#include "connection.hpp"

#include <atomic>

namespace waymark::sqlite {

//! Whoever derives from it begins the transaction, and ends it.
class sqlite_tables : public storage::tables {
public:
    //! `agents_are_sound`: see require_sound_agents.
    sqlite_tables(connection& db, std::size_t page_bytes, std::atomic<bool>& agents_are_sound) noexcept
        : db_(db), page_bytes_(page_bytes), agents_are_sound_(agents_are_sound)
    {
    }

    std::uint64_t number() const noexcept override { return number_; }
    bool follows(std::uint64_t transaction) override { return transaction != 0 && transaction == follows_; }
    std::size_t page_bytes() const noexcept override { return page_bytes_; }

    std::optional<storage::agent_row> find_agent(std::string_view id) override;
    std::vector<storage::agent_row> agents_after(std::string_view id, std::size_t limit) override;
    std::vector<std::string> agents_with_garbage(std::string_view after, std::size_t limit) override;
    std::int64_t add_agent(std::string_view id) override;
    void put_agent(const storage::agent_row& row) override;
    storage::erased_agent erase_agent(const storage::agent_row& row) override;
    std::vector<storage::erased_agent> erased_agents(std::size_t limit) override;
    bool remove_rows(const storage::erased_agent& agent, std::size_t about) override;
    void forget(const storage::erased_agent& agent) override;

    std::optional<storage::scope_row> find_scope(std::int64_t agent, std::string_view scope) override;
    std::vector<storage::scope_row> scopes_of(std::int64_t agent) override;
    std::int64_t count_scopes(std::int64_t agent) override;
    void confirm_absence_of_scope(const storage::agent_row& agent) override;
    void put_scope(const storage::scope_row& row) override;
    void remove_scope(std::int64_t agent, std::string_view scope) override;

    std::optional<storage::checkpoint_row> find_checkpoint(std::int64_t agent, std::string_view scope,
                                                           std::string_view id) override;
    void confirm_absence(std::int64_t agent, std::string_view scope, std::string_view id) override;
    std::optional<storage::checkpoint_row> checkpoint_at(std::int64_t agent, std::int64_t sequence) override;
    std::vector<storage::checkpoint_row> checkpoints_of(std::int64_t agent, std::string_view id) override;
    std::vector<std::string> owners_of(std::string_view id, std::size_t limit) override;
    void scan_checkpoints(std::int64_t agent, const storage::scan_range& range,
                          const storage::visitor<storage::checkpoint_row>& visit) override;
    std::int64_t count_checkpoints(std::int64_t agent, std::string_view scope) override;
    std::int64_t newest_sequence(std::int64_t agent, std::string_view scope) override;
    bool insert_checkpoint(const storage::checkpoint_row& row) override;
    void update_checkpoint(const storage::checkpoint_row& row) override;
    void remove_checkpoint(std::int64_t agent, std::string_view scope, std::string_view id) override;

    void
    read_messages(std::int64_t agent, std::span<const storage::extent> ranges,
                  const std::function<void(std::size_t range, storage::message_row&& row)>& visit) override;
    void message_sizes(std::int64_t agent, std::span<const storage::extent> ranges,
                       const std::function<void(std::size_t range, message_size row)>& visit) override;
    std::optional<std::int64_t> message_stamp(std::int64_t agent, std::int64_t number) override;
    void insert_messages(const storage::message_row& row) override;
    void remove_messages(std::int64_t agent, std::int64_t first) override;

    std::optional<std::int64_t> find_object(std::int64_t agent, std::string_view hash) override;
    void read_objects(std::int64_t agent, std::span<const std::int64_t> numbers,
                      const storage::visitor<storage::object_row>& visit) override;
    void scan_objects(std::int64_t agent, const storage::visitor<storage::object_row>& visit) override;
    void object_sizes(std::int64_t agent, const storage::visitor<object_size>& visit) override;
    void insert_object(const storage::object_row& row) override;
    void remove_object(std::int64_t agent, std::int64_t number) override;

    std::optional<storage::step_row> find_step(std::int64_t agent, std::string_view scope,
                                               std::string_view key) override;
    void scan_steps(std::int64_t agent, const std::optional<std::string>& scope,
                    const storage::visitor<storage::step_row>& visit) override;
    void scan_pending_steps(std::int64_t agent, std::string_view scope,
                            const storage::visitor<storage::step_row>& visit) override;
    std::int64_t count_steps(std::int64_t agent, std::string_view scope) override;
    void put_step(const storage::step_row& row) override;
    bool remove_step(std::int64_t agent, std::string_view scope, std::string_view key) override;
    std::int64_t remove_steps_after(std::int64_t agent, std::string_view scope,
                                    std::int64_t sequence) override;

    void copy_content(std::int64_t from, std::int64_t to) override;

    storage::totals count_all() override;
    std::uint64_t estimate_content() override;
    std::vector<std::string> check_structure() override;

protected:
    //! `follows`: the transaction that was committed right before this one, 0 if that is not known.
    void set_number(std::uint64_t number, std::uint64_t follows) noexcept
    {
        number_ = number;
        follows_ = follows;
    }
    connection& db() const noexcept { return db_; }

private:
    //! Makes sure that every agent is found by its id. Once for each store, before it first says that there
    //! is no such agent: a damaged page of the index would make an agent that is there begin anew.
    void require_sound_agents();

    connection& db_;
    std::size_t page_bytes_;
    std::atomic<bool>& agents_are_sound_;
    std::uint64_t number_ = 0;
    std::uint64_t follows_ = 0;
};

} // namespace waymark::sqlite
