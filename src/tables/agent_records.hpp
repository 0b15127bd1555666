//! The records of agents and scopes that a transaction needs, each read once and written once, and where
//! objects are. They stay known for the next transaction, if nobody else has written in between.
#pragma once

#include "database.hpp"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace waymark::tables {

class agent_records {
public:
    agent_records() = default;
    explicit agent_records(transaction& in) { begin(in); }
    agent_records(const agent_records&) = delete; // entries refer to each other
    agent_records& operator=(const agent_records&) = delete;

    //! At the beginning of each transaction.
    void begin(transaction& in);

    //! Null if there is none. @throws waymark::error `corrupt`, also below.
    const agent_row* find_agent(std::string_view id);
    const scope_row* find_scope(const agent_row& agent, std::string_view scope);

    //! To be changed; made if there is none.
    agent_row& change_agent(std::string_view id);
    scope_row& change_scope(agent_row& agent, std::string_view scope);

    //! The number of the object with that hash.
    std::optional<std::int64_t> find_object(std::int64_t agent, const std::string& hash);
    void note_object(std::int64_t agent, const std::string& hash, std::int64_t number);

    //! Writes what was changed. Scopes without content go, and agents count those that stay.
    void write();

private:
    template <class Row>
    struct entry {
        Row row;
        bool exists = false;
        bool changed = false;
        agent_row* owner = nullptr; // of a scope that was changed
    };
    entry<agent_row>& look_up(std::string_view id);
    entry<scope_row>& look_up(const agent_row& agent, std::string_view scope);

    transaction* tables_ = nullptr;
    std::uint64_t transaction_ = 0;
    std::map<std::string, entry<agent_row>, std::less<>> agents_;
    std::map<std::pair<std::int64_t, std::string>, entry<scope_row>> scopes_;
    std::unordered_map<std::string, std::pair<std::int64_t, std::int64_t>> objects_; // by hash: agent, number
    // Of those, in the order in which they were first changed.
    std::vector<entry<agent_row>*> changed_agents_;
    std::vector<entry<scope_row>*> changed_scopes_;
};

//! The record, after a look at its checksum. @throws waymark::error `corrupt`
std::optional<agent_row> intact_agent(std::optional<agent_row> found);
std::optional<scope_row> intact_scope(std::optional<scope_row> found);
//! None only if it is certain that there is none.
std::optional<scope_row> intact_scope(transaction& from, const agent_row& agent, std::string_view scope);

} // namespace waymark::tables
