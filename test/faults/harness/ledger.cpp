#include "ledger.hpp"

#include "tables/quick_checksum.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace waymark::faults {

namespace {

constexpr const char* kind_names[] = {"trying", "saved", "removing", "removed", "trying-step", "step-saved"};

std::string described(const checkpoint_key& key)
{
    return "'" + key.id() + "' of agent '" + key.agent_id() + "', scope '" + key.scope() + "'";
}

} // namespace

std::string ledger_entry::to_line() const
{
    std::ostringstream line;
    // A scope may be empty; a word must not be.
    line << kind_names[static_cast<int>(what)] << ' ' << key.agent_id() << " =" << key.scope() << ' '
         << key.id() << ' ' << content << ' ' << sequence;
    return line.str();
}

ledger_entry ledger_entry::from_line(const std::string& line)
{
    std::istringstream words(line);
    std::string what, agent, scope, id;
    ledger_entry result;
    words >> what >> agent >> scope >> id >> result.content >> result.sequence;
    const auto* const found = std::find(std::begin(kind_names), std::end(kind_names), what);
    if (!words || found == std::end(kind_names))
        throw std::runtime_error("a line of a worker makes no sense: " + line);
    result.what = static_cast<kind>(found - std::begin(kind_names));
    result.key = checkpoint_key(agent, scope.substr(1), id);
    return result;
}

ledger_entry ledger_entry::only_tried() const
{
    auto tried = *this;
    if (what == kind::saved)
        tried.what = kind::trying;
    if (what == kind::step_saved)
        tried.what = kind::trying_step;
    if (what == kind::removed)
        tried.what = kind::removing;
    return tried;
}

std::uint64_t content_of(const checkpoint& value)
{
    return tables::quick_checksum(checkpoint(value).with_sequence(0).to_bytes(), 0);
}

std::uint64_t content_of(const step& value)
{
    return tables::quick_checksum(boost::json::serialize(boost::json::value_from(value)), 0);
}

void ledger::add(const ledger_entry& entry)
{
    using kind = ledger_entry::kind;
    const bool is_step = entry.what == kind::trying_step || entry.what == kind::step_saved;
    auto& known = (is_step ? steps_ : checkpoints_)[entry.key];
    switch (entry.what) {
    case kind::trying:
    case kind::trying_step:
        if (!known.may_be_there)
            known = {};
        known.may_be_there = true;
        known.contents.insert(entry.content);
        return;
    case kind::saved:
    case kind::step_saved:
        ++acknowledged_;
        if (known.acknowledged_at == 0)
            known.acknowledged_at = acknowledged_;
        known.contents = {entry.content};
        known.sequence = entry.sequence;
        known.must_be_there = known.may_be_there = true;
        return;
    case kind::removing:
        known.must_be_there = false;
        return;
    case kind::removed:
        known = {};
        return;
    }
}

//! How many checkpoints there are if all are there.
std::size_t ledger::wanted_of(const std::string& agent_id) const
{
    std::size_t count = 0;
    for (const auto& [key, expected] : checkpoints_)
        count += key.agent_id() == agent_id && expected.may_be_there ? 1 : 0;
    return count;
}

void ledger::check_agent(store& subject, const std::string& agent_id, std::vector<std::string>& wrong) const
{
    std::set<checkpoint_key> found;
    std::int64_t last_sequence = 0;
    std::map<std::string, std::int64_t> heads;
    std::vector<std::pair<std::size_t, std::int64_t>> order;
    for (const auto& header : subject.list(query(agent_id).oldest_first())) {
        found.insert(header.key());
        heads[header.scope()] = header.sequence();
        if (header.sequence() <= last_sequence)
            wrong.push_back("the sequences of agent '" + agent_id + "' do not grow");
        last_sequence = header.sequence();
        const auto known = checkpoints_.find(header.key());
        if (known == checkpoints_.end() || !known->second.may_be_there) {
            wrong.push_back("nobody saved " + described(header.key()) + ", or it was removed");
            continue;
        }
        const auto& expected = known->second;
        if (expected.sequence != 0 && expected.sequence != header.sequence())
            wrong.push_back(described(header.key()) + " has another sequence than was acknowledged");
        if (expected.acknowledged_at != 0)
            order.emplace_back(expected.acknowledged_at, header.sequence());
        const auto loaded = subject.load(agent_id, header.scope(), header.id());
        if (!loaded)
            wrong.push_back(described(header.key()) + " is in a list and cannot be loaded");
        else if (!expected.contents.contains(content_of(*loaded)))
            wrong.push_back(described(header.key()) + " has other content than was saved");
    }
    if (agent_id == the_copy && !found.empty() && found.size() != wanted_of(agent_id))
        wrong.push_back("a part of a copy is there: " + std::to_string(found.size()) + " of " +
                        std::to_string(wanted_of(agent_id)) + " checkpoints");
    std::sort(order.begin(), order.end());
    for (std::size_t i = 1; i < order.size(); ++i)
        if (order[i - 1].second >= order[i].second)
            wrong.push_back("the order of agent '" + agent_id + "' is not that of the acknowledgements");
    for (const auto& [key, expected] : checkpoints_)
        if (key.agent_id() == agent_id && expected.must_be_there && !found.contains(key))
            wrong.push_back(described(key) + " was acknowledged and is not there");
    for (const auto& [scope, sequence] : heads) {
        const auto head = subject.load_latest(agent_id, scope);
        if (!head || head->sequence() != sequence)
            wrong.push_back("the latest of agent '" + agent_id + "', scope '" + scope + "' is not the head");
    }
}

void ledger::check_steps(store& subject, const std::string& agent_id, std::vector<std::string>& wrong) const
{
    std::set<checkpoint_key> found;
    for (const auto& there : subject.load_steps(step_query(agent_id))) {
        const checkpoint_key key(agent_id, there.scope(), there.key());
        found.insert(key);
        const auto known = steps_.find(key);
        if (known == steps_.end() || !known->second.contents.contains(content_of(there)))
            wrong.push_back("step " + described(key) + " is not what was recorded");
    }
    for (const auto& [key, expected] : steps_)
        if (key.agent_id() == agent_id && expected.must_be_there && !found.contains(key))
            wrong.push_back("step " + described(key) + " was acknowledged and is not there");
}

std::vector<std::string> ledger::check(store& subject) const
{
    std::vector<std::string> wrong;
    try {
        std::set<std::string> agents;
        for (const auto& [key, expected] : checkpoints_)
            agents.insert(key.agent_id());
        for (const auto& [key, expected] : steps_)
            agents.insert(key.agent_id());
        for (const auto& agent_id : agents) {
            check_agent(subject, agent_id, wrong);
            check_steps(subject, agent_id, wrong);
        }
        for (const auto& agent_id : subject.list_agents())
            if (!agents.contains(agent_id))
                wrong.push_back("nobody saved anything for agent '" + agent_id + "'");
        const auto verified = subject.verify();
        for (const auto& damage : verified.damages())
            wrong.push_back("damage: " + damage.what);
    } catch (const std::exception& failure) {
        wrong.emplace_back(failure.what());
    }
    return wrong;
}

} // namespace waymark::faults
