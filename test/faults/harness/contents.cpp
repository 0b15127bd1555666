#include "contents.hpp"

#include <boost/json/serialize.hpp>

#include <set>
#include <sstream>

namespace waymark::faults {

namespace {

template <class Value>
std::string as_json(const Value& value)
{
    return boost::json::serialize(boost::json::value_from(value));
}

} // namespace

std::string everything_in(store& from)
{
    std::ostringstream text;
    text.exceptions(std::ios::badbit); // without memory it would just stop
    for (const auto& agent_id : from.list_agents()) {
        text << "agent " << agent_id << '\n';
        std::set<std::string> scopes;
        for (const auto& header : from.list(query(agent_id).oldest_first())) {
            scopes.insert(header.scope());
            // A damaged one is named here; reading it below is the error.
            text << "  header " << as_json(checkpoint_header(header).with_stored_bytes(0)) << ' '
                 << header.sequence() << (header.pinned() ? " pinned" : "") << '\n';
        }
        for (const auto& value : from.load_all(query(agent_id)))
            text << "  whole " << value.sequence() << ' ' << value.to_bytes() << '\n';
        for (const auto& scope : scopes)
            text << "  latest of '" << scope << "' " << from.load_latest(agent_id, scope).value().sequence()
                 << '\n';
        for (const auto& record : from.load_steps(step_query(agent_id)))
            text << "  step " << as_json(record) << '\n';
        const auto stats = from.stats(agent_id);
        text << "  " << from.count(query(agent_id)) << ' ' << stats.checkpoints << ' ' << stats.steps << '\n';
    }
    const auto stats = from.stats();
    text << stats.agents << ' ' << stats.checkpoints << ' ' << stats.steps << '\n';
    return text.str();
}

} // namespace waymark::faults
