#include "ledger.hpp"

#include "../values/text.hpp"

#include <waymark/error.hpp>

namespace waymark::storage {

using detail::quoted;

std::optional<agent_row> intact_agent(std::optional<agent_row> found)
{
    if (found && !is_intact(*found))
        throw error(errc::corrupt, "the record of agent " + quoted(found->id) + " is damaged");
    return found;
}

std::optional<scope_row> intact_scope(std::optional<scope_row> found)
{
    if (found && !is_intact(*found))
        throw error(errc::corrupt, "the record of scope " + quoted(found->scope) + " of agent number " +
                                       std::to_string(found->agent) + " is damaged");
    return found;
}

namespace {

constexpr std::size_t most_known = 10'000;

} // namespace

void ledger::begin(tables& in)
{
    tables_ = &in;
    if (!in.follows(transaction_) || agents_.size() + scopes_.size() > most_known) {
        agents_.clear();
        scopes_.clear();
    }
    transaction_ = in.number();
}

ledger::entry<agent_row>& ledger::look_up(std::string_view id)
{
    if (const auto known = agents_.find(id); known != agents_.end())
        return known->second;
    auto found = intact_agent(tables_->find_agent(id));
    auto& added = agents_[std::string(id)];
    added.exists = found.has_value();
    if (found)
        added.row = std::move(*found);
    return added;
}

ledger::entry<scope_row>& ledger::look_up(const agent_row& agent, std::string_view scope)
{
    const std::pair key(agent.number, std::string(scope));
    if (const auto known = scopes_.find(key); known != scopes_.end())
        return known->second;
    auto found = intact_scope(tables_->find_scope(agent.number, scope));
    auto& added = scopes_[key];
    added.exists = found.has_value();
    if (found)
        added.row = std::move(*found);
    return added;
}

const agent_row* ledger::find_agent(std::string_view id)
{
    const auto& found = look_up(id);
    return found.exists || found.changed ? &found.row : nullptr;
}

const scope_row* ledger::find_scope(const agent_row& agent, std::string_view scope)
{
    const auto& found = look_up(agent, scope);
    return found.exists || found.changed ? &found.row : nullptr;
}

agent_row& ledger::change_agent(std::string_view id)
{
    auto& found = look_up(id);
    if (!found.exists && !found.changed) {
        found.row.id = id;
        found.row.number = tables_->add_agent(id);
    }
    found.changed = true;
    return found.row;
}

scope_row& ledger::change_scope(const agent_row& agent, std::string_view scope)
{
    auto& found = look_up(agent, scope);
    found.row.agent = agent.number;
    found.row.scope = scope;
    found.changed = true;
    return found.row;
}

void ledger::write()
{
    for (auto& [id, known] : agents_)
        if (std::exchange(known.changed, false)) {
            tables_->put_agent(seal(known.row));
            known.exists = true;
        }
    for (auto& [key, known] : scopes_) {
        if (!std::exchange(known.changed, false))
            continue;
        if (known.row.checkpoints == 0 && known.row.steps == 0) {
            tables_->remove_scope(known.row.agent, known.row.scope);
            known.exists = false;
        } else {
            tables_->put_scope(seal(known.row));
            known.exists = true;
        }
    }
}

} // namespace waymark::storage
