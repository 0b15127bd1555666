#include "agent_records.hpp"

#include "../values/random_bits.hpp"
#include "../values/text.hpp"
#include "checksums.hpp"

#include <waymark/error.hpp>

namespace waymark::tables {

using detail::quoted;

std::int64_t new_mark()
{
    return static_cast<std::int64_t>(detail::random_bits()); // above 0, which stands for none
}

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

std::optional<scope_row> intact_scope(transaction& from, const agent_row& agent, std::string_view scope)
{
    auto found = intact_scope(from.find_scope(agent.number, scope));
    if (found)
        return found;
    if (from.count_scopes(agent.number) != agent.scopes)
        throw error(errc::corrupt, "agent " + quoted(agent.id) + " should have " +
                                       std::to_string(agent.scopes) +
                                       " scopes; the record of one is missing");
    from.confirm_absence_of_scope(agent);
    return found;
}

namespace {

constexpr std::size_t most_known = 10'000;

} // namespace

void agent_records::begin(transaction& in)
{
    tables_ = &in;
    if (!in.follows(transaction_) || agents_.size() + scopes_.size() + objects_.size() > most_known) {
        agents_.clear();
        scopes_.clear();
        objects_.clear();
    }
    changed_agents_.clear();
    changed_scopes_.clear();
    transaction_ = in.number();
}

agent_records::entry<agent_row>& agent_records::look_up(std::string_view id)
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

agent_records::entry<scope_row>& agent_records::look_up(const agent_row& agent, std::string_view scope)
{
    const std::pair key(agent.number, std::string(scope));
    if (const auto known = scopes_.find(key); known != scopes_.end())
        return known->second;
    auto found = intact_scope(*tables_, agent, scope);
    auto& added = scopes_[key];
    added.exists = found.has_value();
    if (found)
        added.row = std::move(*found);
    return added;
}

const agent_row* agent_records::find_agent(std::string_view id)
{
    const auto& found = look_up(id);
    return found.exists || found.changed ? &found.row : nullptr;
}

const scope_row* agent_records::find_scope(const agent_row& agent, std::string_view scope)
{
    const auto& found = look_up(agent, scope);
    return found.exists || found.changed ? &found.row : nullptr;
}

agent_row& agent_records::change_agent(std::string_view id)
{
    auto& found = look_up(id);
    if (!found.exists && !found.changed) {
        found.row.id = id;
        found.row.number = tables_->add_agent(id);
    }
    if (!std::exchange(found.changed, true)) {
        changed_agents_.push_back(&found);
        found.row.stamp_before = std::exchange(found.row.stamp, new_mark());
    }
    return found.row;
}

scope_row& agent_records::change_scope(agent_row& agent, std::string_view scope)
{
    auto& found = look_up(agent, scope);
    found.owner = &agent;
    found.row.agent = agent.number;
    found.row.scope = scope;
    if (!std::exchange(found.changed, true))
        changed_scopes_.push_back(&found);
    return found.row;
}

std::optional<std::int64_t> agent_records::find_object(std::int64_t agent, const std::string& hash)
{
    if (const auto known = objects_.find(hash); known != objects_.end() && known->second.first == agent)
        return known->second.second;
    const auto found = tables_->find_object(agent, hash);
    if (found)
        note_object(agent, hash, *found);
    return found;
}

void agent_records::note_object(std::int64_t agent, const std::string& hash, std::int64_t number)
{
    objects_.insert_or_assign(hash, std::pair(agent, number)); // one hash has one agent, as a rule
}

void agent_records::write()
{
    for (auto* const next : std::exchange(changed_scopes_, {})) {
        const bool stays = next->row.checkpoints != 0 || next->row.steps != 0;
        if (stays)
            tables_->put_scope(seal(next->row));
        else
            tables_->remove_scope(next->row.agent, next->row.scope);
        next->owner->scopes += (stays ? 1 : 0) - (next->exists ? 1 : 0);
        next->exists = stays;
        next->changed = false;
    }
    for (auto* const next : std::exchange(changed_agents_, {})) {
        tables_->put_agent(seal(next->row));
        next->row.stamp_before = 0;
        next->exists = true;
        next->changed = false;
    }
}

} // namespace waymark::tables
