//! Tables and a database that pass everything on to others; tests change what they need, and put a store on
//! them.
#pragma once

#include "tables/database.hpp"

#include <waymark/detail/table_store.hpp>

#include <memory>
#include <utility>

namespace waymark::test {

class forwarding_tables : public tables::transaction {
public:
    explicit forwarding_tables(std::unique_ptr<tables::transaction> inner) noexcept : inner_(std::move(inner))
    {
    }

    void commit() override { inner_->commit(); }
    std::uint64_t number() const noexcept override { return inner_->number(); }
    bool follows(std::uint64_t other) override { return inner_->follows(other); }
    std::size_t page_bytes() const noexcept override { return inner_->page_bytes(); }
    bool asks_together() const noexcept override { return inner_->asks_together(); }
    void expect(std::span<const tables::question> questions) override { inner_->expect(questions); }
    bool is_usable() const noexcept override { return inner_->is_usable(); }

    std::optional<tables::agent_row> find_agent(std::string_view id) override
    {
        return inner_->find_agent(id);
    }
    std::vector<tables::agent_row> agents_after(std::string_view id, std::size_t limit) override
    {
        return inner_->agents_after(id, limit);
    }
    std::vector<std::string> agents_with_garbage(std::string_view after, std::size_t limit) override
    {
        return inner_->agents_with_garbage(after, limit);
    }
    std::int64_t add_agent(std::string_view id) override { return inner_->add_agent(id); }
    void put_agent(const tables::agent_row& row) override { inner_->put_agent(row); }
    void erase_agent(const tables::agent_row& row) override { inner_->erase_agent(row); }
    std::vector<tables::erased_agent> erased_agents(std::size_t limit, std::int64_t before) override
    {
        return inner_->erased_agents(limit, before);
    }
    tables::erased_agent add_hidden_agent(std::string_view id, std::int64_t time) override
    {
        return inner_->add_hidden_agent(id, time);
    }
    bool keep_hidden_agent(const tables::erased_agent& agent, std::int64_t time) override
    {
        return inner_->keep_hidden_agent(agent, time);
    }
    void publish_agent(const tables::erased_agent& agent, const tables::agent_row& row) override
    {
        inner_->publish_agent(agent, row);
    }
    bool condemn(const tables::erased_agent& agent) override { return inner_->condemn(agent); }
    bool remove_rows(const tables::erased_agent& agent) override { return inner_->remove_rows(agent); }
    void forget(const tables::erased_agent& agent) override { inner_->forget(agent); }

    std::optional<tables::scope_row> find_scope(std::int64_t agent, std::string_view scope) override
    {
        return inner_->find_scope(agent, scope);
    }
    std::vector<tables::scope_row> scopes_of(std::int64_t agent) override { return inner_->scopes_of(agent); }
    std::int64_t count_scopes(std::int64_t agent) override { return inner_->count_scopes(agent); }
    void confirm_absence_of_scope(const tables::agent_row& agent) override
    {
        inner_->confirm_absence_of_scope(agent);
    }
    void put_scope(const tables::scope_row& row) override { inner_->put_scope(row); }
    void remove_scope(std::int64_t agent, std::string_view scope) override
    {
        inner_->remove_scope(agent, scope);
    }

    std::optional<tables::checkpoint_row> find_checkpoint(std::int64_t agent, std::string_view scope,
                                                          std::string_view id) override
    {
        return inner_->find_checkpoint(agent, scope, id);
    }
    void confirm_absence(std::int64_t agent, std::string_view scope, std::string_view id) override
    {
        inner_->confirm_absence(agent, scope, id);
    }
    std::optional<tables::checkpoint_row> checkpoint_at(std::int64_t agent, std::int64_t sequence) override
    {
        return inner_->checkpoint_at(agent, sequence);
    }
    std::vector<tables::checkpoint_row> checkpoints_of(std::int64_t agent, std::string_view id) override
    {
        return inner_->checkpoints_of(agent, id);
    }
    std::vector<std::string> owners_of(std::string_view id, std::size_t limit) override
    {
        return inner_->owners_of(id, limit);
    }
    void scan_checkpoints(std::int64_t agent, const tables::scan_range& range,
                          const tables::visitor<tables::checkpoint_row>& visit) override
    {
        inner_->scan_checkpoints(agent, range, visit);
    }
    std::int64_t count_checkpoints(std::int64_t agent, std::string_view scope) override
    {
        return inner_->count_checkpoints(agent, scope);
    }
    std::int64_t newest_sequence(std::int64_t agent, std::string_view scope) override
    {
        return inner_->newest_sequence(agent, scope);
    }
    bool insert_checkpoint(const tables::checkpoint_row& row) override
    {
        return inner_->insert_checkpoint(row);
    }
    void update_checkpoint(const tables::checkpoint_row& row) override { inner_->update_checkpoint(row); }
    void remove_checkpoint(std::int64_t agent, std::string_view scope, std::string_view id) override
    {
        inner_->remove_checkpoint(agent, scope, id);
    }

    void
    read_messages(std::int64_t agent, std::span<const tables::extent> ranges,
                  const std::function<void(std::size_t range, tables::message_row&& row)>& visit) override
    {
        inner_->read_messages(agent, ranges, visit);
    }
    void message_sizes(std::int64_t agent, std::span<const tables::extent> ranges,
                       const std::function<void(std::size_t range, message_size row)>& visit) override
    {
        inner_->message_sizes(agent, ranges, visit);
    }
    void large_parts(std::int64_t agent, std::span<const tables::extent> ranges,
                     const std::function<void(std::size_t range, message_parts&& row)>& visit) override
    {
        inner_->large_parts(agent, ranges, visit);
    }
    std::optional<std::int64_t> message_stamp(std::int64_t agent, std::int64_t number) override
    {
        return inner_->message_stamp(agent, number);
    }
    void insert_messages(const tables::message_row& row) override { inner_->insert_messages(row); }
    void remove_messages(std::int64_t agent, std::int64_t first) override
    {
        inner_->remove_messages(agent, first);
    }

    std::optional<std::int64_t> find_object(std::int64_t agent, std::string_view hash) override
    {
        return inner_->find_object(agent, hash);
    }
    void read_objects(std::int64_t agent, std::span<const std::int64_t> numbers,
                      const tables::visitor<tables::object_row>& visit) override
    {
        inner_->read_objects(agent, numbers, visit);
    }
    void scan_objects(std::int64_t agent, const tables::visitor<tables::object_row>& visit) override
    {
        inner_->scan_objects(agent, visit);
    }
    void object_sizes(std::int64_t agent, const tables::visitor<object_size>& visit) override
    {
        inner_->object_sizes(agent, visit);
    }
    void insert_object(const tables::object_row& row) override { inner_->insert_object(row); }
    void remove_object(std::int64_t agent, std::int64_t number) override
    {
        inner_->remove_object(agent, number);
    }

    std::optional<tables::step_row> find_step(std::int64_t agent, std::string_view scope,
                                              std::string_view key) override
    {
        return inner_->find_step(agent, scope, key);
    }
    void scan_steps(std::int64_t agent, const std::optional<std::string>& scope,
                    const tables::visitor<tables::step_row>& visit) override
    {
        inner_->scan_steps(agent, scope, visit);
    }
    void scan_pending_steps(std::int64_t agent, std::string_view scope,
                            const tables::visitor<tables::step_row>& visit) override
    {
        inner_->scan_pending_steps(agent, scope, visit);
    }
    std::int64_t count_steps(std::int64_t agent, std::string_view scope) override
    {
        return inner_->count_steps(agent, scope);
    }
    void put_step(const tables::step_row& row) override { inner_->put_step(row); }
    bool remove_step(std::int64_t agent, std::string_view scope, std::string_view key) override
    {
        return inner_->remove_step(agent, scope, key);
    }
    std::int64_t remove_steps_after(std::int64_t agent, std::string_view scope,
                                    std::int64_t sequence) override
    {
        return inner_->remove_steps_after(agent, scope, sequence);
    }

    tables::totals count_all() override { return inner_->count_all(); }
    std::uint64_t estimate_content() override { return inner_->estimate_content(); }
    std::vector<std::string> check_structure(const upkeep_control& control) override
    {
        return inner_->check_structure(control);
    }

private:
    std::unique_ptr<tables::transaction> inner_;
};

class forwarding_database : public tables::database {
public:
    explicit forwarding_database(std::unique_ptr<tables::database> inner) noexcept : inner_(std::move(inner))
    {
    }

    std::unique_ptr<tables::transaction> begin_read(tables::agent_ids agents) override
    {
        return behind(inner_->begin_read(agents));
    }
    std::unique_ptr<tables::transaction> begin_write(tables::agent_ids agents) override
    {
        return behind(inner_->begin_write(agents));
    }
    std::unique_ptr<tables::retries> make_retries() override { return inner_->make_retries(); }
    bool loses_commits() const noexcept override { return inner_->loses_commits(); }
    std::size_t largest_value() const noexcept override { return inner_->largest_value(); }
    std::uint64_t shrink(const upkeep_control& control) override { return inner_->shrink(control); }
    std::uint64_t bytes() override { return inner_->bytes(); }
    std::size_t write_lanes() const noexcept override { return inner_->write_lanes(); }

protected:
    //! A database that lies about its rows puts tables of its own before those that have them.
    virtual std::unique_ptr<tables::transaction> behind(std::unique_ptr<tables::transaction> begun)
    {
        return begun;
    }

private:
    std::unique_ptr<tables::database> inner_;
};

//! A database whose tables are of this class, made of those that they stand before.
template <class Tables>
class database_with : public forwarding_database {
public:
    using forwarding_database::forwarding_database;

protected:
    std::unique_ptr<tables::transaction> behind(std::unique_ptr<tables::transaction> begun) override
    {
        return std::make_unique<Tables>(std::move(begun));
    }
};

//! A store on any database.
class store_on_database final : public detail::table_store {
public:
    explicit store_on_database(std::unique_ptr<tables::database> database)
        : table_store(std::move(database), limits())
    {
    }
};

} // namespace waymark::test
