#include "json_document.hpp"
#include "timestamp.hpp"

#include <waymark/error.hpp>
#include <waymark/query.hpp>

#include <boost/json/array.hpp>

#include <algorithm>

namespace waymark {

namespace json = boost::json;

query::query(std::string agent_id) : agent_id_(std::move(agent_id))
{
    if (agent_id_->empty())
        throw error(errc::invalid_argument,
                    "a query needs an agent id; query::all_agents() asks for everything");
}

bool query::matches(const checkpoint_header& header) const
{
    if (agent_id_ && header.agent_id() != *agent_id_)
        return false;
    if (scope_ && header.scope() != *scope_)
        return false;
    if (named_ && header.name() != *named_)
        return false;
    if (since_ && header.created_at() <= *since_)
        return false;
    if (between_ && (header.created_at() < between_->first || header.created_at() > between_->second))
        return false;
    if (after_) {
        const auto order = header.agent_id().compare(after_->agent_id());
        if (order < 0)
            return false;
        if (order == 0 && (oldest_first_ ? header.sequence() <= after_->sequence()
                                         : header.sequence() >= after_->sequence()))
            return false;
    }
    return std::all_of(metadata_.begin(), metadata_.end(), [&](const auto& wanted) {
        const auto* value = header.metadata().if_contains(wanted.first);
        return value != nullptr && *value == wanted.second;
    });
}

void query::validate() const
{
    if (agent_id_)
        validate_id(*agent_id_, "the agent id");
    if (scope_)
        validate_label(*scope_, "the scope");
    if (named_)
        validate_label(*named_, "the name");
    if (before_) {
        validate_id(*before_, "the checkpoint id");
        if (!agent_id_)
            throw error(errc::invalid_argument,
                        "before() needs a query for one agent: an id has no meaning across agents");
    }
    if (after_)
        validate_label(after_->agent_id(), "the agent id of the cursor");
    for (const auto& [key, value] : metadata_) {
        detail::check_json(json::object{{key, value}}, limits{}.max_depth(), "a query's metadata");
    }
}

void tag_invoke(json::value_from_tag, json::value& to, const query& from)
{
    auto& object = to.emplace_object();
    if (from.agent_id())
        object["agent_id"] = *from.agent_id();
    if (from.scope())
        object["scope"] = *from.scope();
    if (from.named())
        object["named"] = *from.named();
    if (from.since())
        object["since"] = detail::to_rfc3339(*from.since());
    if (from.between())
        object["between"] = json::array{detail::to_rfc3339(from.between()->first),
                                        detail::to_rfc3339(from.between()->second)};
    if (from.before())
        object["before"] = *from.before();
    for (const auto& [key, value] : from.metadata()) {
        auto& conditions = object["metadata"];
        if (!conditions.is_array())
            conditions.emplace_array();
        conditions.get_array().push_back(json::object{{"key", key}, {"value", value}});
    }
    if (from.limit())
        object["limit"] = *from.limit();
    if (from.after())
        object["after"] =
            json::object{{"agent_id", from.after()->agent_id()}, {"sequence", from.after()->sequence()}};
    if (from.is_oldest_first())
        object["oldest_first"] = true;
}

query tag_invoke(json::value_to_tag<query>, const json::value& from)
{
    const detail::object_reader reader(from, "query");
    reader.refuse_others({"agent_id", "scope", "named", "since", "between", "before", "metadata", "limit",
                          "after", "oldest_first"},
                         "those are the conditions");
    const auto agent = reader.optional_string("agent_id");
    auto result = agent ? query(*agent) : query::all_agents();
    result.scope_ = reader.optional_string("scope");
    result.named_ = reader.optional_string("named");
    result.before_ = reader.optional_string("before");
    if (reader.find("since"))
        result.since(reader.time("since"));
    if (const auto* range = reader.find("between")) {
        const auto* ends = range->if_array();
        if (ends == nullptr || ends->size() != 2 || !(*ends)[0].is_string() || !(*ends)[1].is_string())
            reader.fail("between", "must be an array of two times");
        result.between(detail::from_rfc3339((*ends)[0].get_string(), "query: member 'between'"),
                       detail::from_rfc3339((*ends)[1].get_string(), "query: member 'between'"));
    }
    if (const auto* conditions = reader.find("metadata")) {
        if (!conditions->is_array())
            reader.fail("metadata", "must be an array of {key, value}");
        for (const auto& condition : conditions->get_array()) {
            const detail::object_reader pair(condition, "query: metadata");
            result.metadata(pair.string("key"), pair.require("value"));
        }
    }
    if (reader.find("limit"))
        result.limit(reader.unsigned_or("limit", 0));
    if (const auto* place = reader.find("after")) {
        const detail::object_reader parts(*place, "query: after");
        result.after({parts.string("agent_id"), parts.integer_or("sequence", 0)});
    }
    if (reader.boolean_or("oldest_first", false))
        result.oldest_first();
    return result;
}

} // namespace waymark
