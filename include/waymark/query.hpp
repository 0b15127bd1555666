//! Which checkpoints to list, load or count.
#pragma once

#include <waymark/checkpoint.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark {

//! A place in a list, to go on after it: `query.after(cursor(page.back()))`. Stays valid when checkpoints
//! come and go.
class cursor {
public:
    explicit cursor(const checkpoint_header& last) : cursor(last.agent_id(), last.sequence()) {}
    cursor(std::string agent_id, std::int64_t sequence) : agent_id_(std::move(agent_id)), sequence_(sequence)
    {
    }

    const std::string& agent_id() const noexcept { return agent_id_; }
    std::int64_t sequence() const noexcept { return sequence_; }

    friend bool operator==(const cursor&, const cursor&) = default;

private:
    std::string agent_id_;
    std::int64_t sequence_;
};

//! A description of checkpoints, built up by what it should be narrowed to. All conditions must hold.
//!
//! Order: newest first, or with `oldest_first()` the other way round; across agents by agent id (byte by
//! byte), then by sequence.
class query {
public:
    //! The checkpoints of one agent, all scopes.
    //! @throws waymark::error `invalid_argument` if the id is empty; see `all_agents()`.
    explicit query(std::string agent_id);
    static query all_agents() { return query{}; }

    //! Only this scope; `""` is the default scope.
    query& scope(std::string scope) &;
    query&& scope(std::string scope) &&;
    query& named(std::string name) &;
    query&& named(std::string name) &&;
    //! Made after `time`, exclusive.
    query& since(timestamp time) &;
    query&& since(timestamp time) &&;
    //! Made from `first` to `last`, inclusive.
    query& between(timestamp first, timestamp last) &;
    query&& between(timestamp first, timestamp last) &&;
    //! Saved before this checkpoint, by sequence. A store that does not know it answers `not_found`; one
    //! that knows it in several scopes, `conflict` (narrow it with `scope`). Needs one agent.
    query& before(std::string id) &;
    query&& before(std::string id) &&;
    //! The metadata member `key` equals `value`, type and all. May be given several times.
    query& metadata(std::string key, json_input value) &;
    query&& metadata(std::string key, json_input value) &&;
    query& limit(std::size_t count) &;
    query&& limit(std::size_t count) &&;
    //! Go on behind this place, in the direction of the list.
    query& after(cursor place) &;
    query&& after(cursor place) &&;
    query& oldest_first() &;
    query&& oldest_first() &&;

    const std::optional<std::string>& agent_id() const noexcept { return agent_id_; }
    const std::optional<std::string>& scope() const noexcept { return scope_; }
    const std::optional<std::string>& named() const noexcept { return named_; }
    const std::optional<timestamp>& since() const noexcept { return since_; }
    const std::optional<std::pair<timestamp, timestamp>>& between() const noexcept { return between_; }
    const std::optional<std::string>& before() const noexcept { return before_; }
    const std::vector<std::pair<std::string, boost::json::value>>& metadata() const noexcept
    {
        return metadata_;
    }
    const std::optional<std::size_t>& limit() const noexcept { return limit_; }
    const std::optional<cursor>& after() const noexcept { return after_; }
    bool is_oldest_first() const noexcept { return oldest_first_; }

    //! For backends: whether a header fulfils every condition but `before`, which needs the store, and
    //! `limit`.
    bool matches(const checkpoint_header& header) const;

    //! For backends: refuses ids that no store can hold, and `before` without an agent.
    //! @throws waymark::error `invalid_argument`
    void validate() const;

private:
    query() = default;
    friend query tag_invoke(boost::json::value_to_tag<query>, const boost::json::value& from);

    std::optional<std::string> agent_id_; // none: all agents
    std::optional<std::string> scope_;
    std::optional<std::string> named_;
    std::optional<timestamp> since_;
    std::optional<std::pair<timestamp, timestamp>> between_;
    std::optional<std::string> before_;
    std::vector<std::pair<std::string, boost::json::value>> metadata_;
    std::optional<std::size_t> limit_;
    std::optional<cursor> after_;
    bool oldest_first_ = false;
};

void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const query& from);
query tag_invoke(boost::json::value_to_tag<query>, const boost::json::value& from);

} // namespace waymark
