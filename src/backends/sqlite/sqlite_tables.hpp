//! The tables in SQL.
#pragma once

#include "../../tables/database.hpp"
#include "connection.hpp"

#include <atomic>

namespace waymark::sqlite {

//! Whoever derives from it begins the transaction, and ends it.
class sqlite_tables : public tables::transaction {
public:
    //! `agents_are_sound`: see require_sound_agents.
    sqlite_tables(connection& db, std::size_t page_bytes, std::atomic<bool>& agents_are_sound) noexcept
        : db_(db), page_bytes_(page_bytes), agents_are_sound_(agents_are_sound)
    {
    }

    std::uint64_t number() const noexcept override { return number_; }
    bool follows(std::uint64_t other) override { return other != 0 && other == follows_; }
    std::size_t page_bytes() const noexcept override { return page_bytes_; }

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
    void confirm_absence_of_scope(const tables::agent_row& agent) override;
    void put_scope(const tables::scope_row& row) override;
    void remove_scope(std::int64_t agent, std::string_view scope) override;

    std::optional<tables::checkpoint_row> find_checkpoint(std::int64_t agent, std::string_view scope,
                                                          std::string_view id) override;
    void confirm_absence(std::int64_t agent, std::string_view scope, std::string_view id) override;
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
    void put_erased(std::int64_t number);

    connection& db_;
    std::size_t page_bytes_;
    std::atomic<bool>& agents_are_sound_;
    std::uint64_t number_ = 0;
    std::uint64_t follows_ = 0;
};

} // namespace waymark::sqlite
