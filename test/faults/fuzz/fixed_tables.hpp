//! Tables with one agent and whatever rows are put into them: what a decoder sees of a damaged database.
#pragma once

#include "tables/database.hpp"
#include "tables/digest.hpp"

#include <map>
#include <memory>
#include <stdexcept>

namespace waymark::faults {

class fixed_tables final : public tables::transaction {
public:
    tables::agent_row agent;
    std::vector<tables::scope_row> scopes;
    std::vector<tables::checkpoint_row> checkpoints;
    std::vector<tables::message_row> messages; // by number
    std::map<std::int64_t, tables::object_row> objects;
    std::vector<tables::step_row> steps;

    const tables::object_row& add_object(std::string_view body)
    {
        const auto number = static_cast<std::int64_t>(objects.size()) + 1;
        const std::string hash(tables::view(tables::sha256(body)));
        return objects[number] = {agent.number, number, hash, std::string(body)};
    }

    void commit() override {}
    std::uint64_t number() const noexcept override { return 0; }
    bool follows(std::uint64_t) override { return false; }
    std::size_t page_bytes() const noexcept override { return 4096; }

    std::vector<tables::agent_row> agents_after(std::string_view id, std::size_t) override
    {
        return id < agent.id ? std::vector{agent} : std::vector<tables::agent_row>();
    }
    std::vector<tables::scope_row> scopes_of(std::int64_t) override { return scopes; }
    void scan_checkpoints(std::int64_t, const tables::scan_range&,
                          const tables::visitor<tables::checkpoint_row>& visit) override
    {
        for (auto row : checkpoints)
            visit(std::move(row));
    }

    void read_messages(std::int64_t, std::span<const tables::extent> ranges,
                       const std::function<void(std::size_t, tables::message_row&&)>& visit) override
    {
        for (std::size_t range = 0; range < ranges.size(); ++range)
            for (const auto& row : messages)
                if (row.first < ranges[range].end() && row.numbers().end() > ranges[range].first)
                    visit(range, tables::message_row(row));
    }
    void message_sizes(std::int64_t, std::span<const tables::extent> ranges,
                       const std::function<void(std::size_t, message_size)>& visit) override
    {
        for (std::size_t range = 0; range < ranges.size(); ++range)
            for (const auto& row : messages)
                if (row.first < ranges[range].end() && row.numbers().end() > ranges[range].first)
                    visit(range, {row.numbers(), row.bytes()});
    }

    void large_parts(std::int64_t, std::span<const tables::extent> ranges,
                     const std::function<void(std::size_t, message_parts&&)>& visit) override
    {
        for (std::size_t range = 0; range < ranges.size(); ++range)
            for (const auto& row : messages)
                if (!row.parts.empty() && row.first < ranges[range].end() &&
                    row.numbers().end() > ranges[range].first)
                    visit(range, {row.numbers(), row.parts});
    }

    void read_objects(std::int64_t, std::span<const std::int64_t> numbers,
                      const tables::visitor<tables::object_row>& visit) override
    {
        for (const auto wanted : numbers)
            if (const auto found = objects.find(wanted); found != objects.end())
                visit(tables::object_row(found->second));
    }
    void scan_objects(std::int64_t, const tables::visitor<tables::object_row>& visit) override
    {
        for (const auto& [number, row] : objects)
            visit(tables::object_row(row));
    }
    void object_sizes(std::int64_t, const tables::visitor<object_size>& visit) override
    {
        for (const auto& [number, row] : objects)
            visit({number, row.bytes()});
    }

    void scan_steps(std::int64_t, const std::optional<std::string>&,
                    const tables::visitor<tables::step_row>& visit) override
    {
        for (auto row : steps)
            visit(std::move(row));
    }

    tables::totals count_all() override { return {1, checkpoints.size(), steps.size()}; }
    std::uint64_t estimate_content() override { return messages.size() + objects.size(); }
    std::vector<std::string> check_structure(const upkeep_control&) override { return {}; }

    // No decoder writes, or looks for other agents.

    std::optional<tables::agent_row> find_agent(std::string_view) override { fail(); }
    std::vector<std::string> agents_with_garbage(std::string_view, std::size_t) override { fail(); }
    std::int64_t add_agent(std::string_view) override { fail(); }
    void put_agent(const tables::agent_row&) override { fail(); }
    void erase_agent(const tables::agent_row&) override { fail(); }
    std::vector<tables::erased_agent> erased_agents(std::size_t, std::int64_t) override { fail(); }
    tables::erased_agent add_hidden_agent(std::string_view, std::int64_t) override { fail(); }
    bool keep_hidden_agent(const tables::erased_agent&, std::int64_t) override { fail(); }
    void publish_agent(const tables::erased_agent&, const tables::agent_row&) override { fail(); }
    bool condemn(const tables::erased_agent&) override { fail(); }
    bool remove_rows(const tables::erased_agent&) override { fail(); }
    void forget(const tables::erased_agent&) override { fail(); }
    std::optional<tables::scope_row> find_scope(std::int64_t, std::string_view) override { fail(); }
    std::int64_t count_scopes(std::int64_t) override { fail(); }
    void put_scope(const tables::scope_row&) override { fail(); }
    void remove_scope(std::int64_t, std::string_view) override { fail(); }
    std::optional<tables::checkpoint_row> find_checkpoint(std::int64_t, std::string_view,
                                                          std::string_view) override
    {
        fail();
    }
    std::optional<tables::checkpoint_row> checkpoint_at(std::int64_t, std::int64_t) override { fail(); }
    std::vector<tables::checkpoint_row> checkpoints_of(std::int64_t, std::string_view) override { fail(); }
    std::vector<std::string> owners_of(std::string_view, std::size_t) override { fail(); }
    std::int64_t count_checkpoints(std::int64_t, std::string_view) override { fail(); }
    std::int64_t newest_sequence(std::int64_t, std::string_view) override { fail(); }
    bool insert_checkpoint(const tables::checkpoint_row&) override { fail(); }
    void update_checkpoint(const tables::checkpoint_row&) override { fail(); }
    void remove_checkpoint(std::int64_t, std::string_view, std::string_view) override { fail(); }
    void insert_messages(const tables::message_row&) override { fail(); }
    void remove_messages(std::int64_t, std::int64_t) override { fail(); }
    std::optional<std::int64_t> find_object(std::int64_t, std::string_view) override { fail(); }
    void insert_object(const tables::object_row&) override { fail(); }
    void remove_object(std::int64_t, std::int64_t) override { fail(); }
    std::optional<tables::step_row> find_step(std::int64_t, std::string_view, std::string_view) override
    {
        fail();
    }
    void scan_pending_steps(std::int64_t, std::string_view, const tables::visitor<tables::step_row>&) override
    {
        fail();
    }
    std::int64_t count_steps(std::int64_t, std::string_view) override { fail(); }
    std::optional<std::int64_t> message_stamp(std::int64_t, std::int64_t) override { fail(); }
    void put_step(const tables::step_row&) override { fail(); }
    bool remove_step(std::int64_t, std::string_view, std::string_view) override { fail(); }
    std::int64_t remove_steps_after(std::int64_t, std::string_view, std::int64_t) override { fail(); }

private:
    [[noreturn]] static void fail() { throw std::logic_error("a decoder asked for what it does not need"); }
};

//! A database that shows these tables, for what takes one.
class fixed_database final : public tables::database {
public:
    explicit fixed_database(fixed_tables& tables) : tables_(tables) {}

    std::unique_ptr<tables::transaction> begin_read(tables::agent_ids) override
    {
        return std::make_unique<fixed_tables>(tables_);
    }
    std::unique_ptr<tables::transaction> begin_write(tables::agent_ids) override
    {
        throw std::logic_error("a decoder writes");
    }
    std::size_t largest_value() const noexcept override { return 1 << 20; }
    std::uint64_t shrink(const upkeep_control&) override { return 0; }
    std::uint64_t bytes() override { return 0; }
    std::size_t write_lanes() const noexcept override { return 1; }

private:
    fixed_tables& tables_;
};

} // namespace waymark::faults
