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

//! A position in a list, from which the next page continues: `query.after(cursor(page.back()))`. It stays
//! valid when checkpoints are saved or deleted.
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

//! Selects checkpoints. Every condition that is added must hold.
//!
//! Order: newest first, or with `oldest_first()` the other way round; across agents by agent id (byte by
//! byte), then by sequence.
class query {
public:
    //! The checkpoints of one agent, all scopes.
    //! @throws waymark::error `invalid_argument` if the id is empty; see `all_agents()`.
    explicit query(std::string agent_id);
    static query all_agents() { return query{}; }

    // clang-format off
    //! Only this scope; `""` is the default scope.
    query& scope(std::string scope) { scope_ = std::move(scope); return *this; }
    //! Only checkpoints with this name.
    query& named(std::string name) { named_ = std::move(name); return *this; }
    //! Only checkpoints made after `time`, exclusive.
    query& since(timestamp time) { since_ = time; return *this; }
    //! Only checkpoints made from `first` to `last`, inclusive.
    query& between(timestamp first, timestamp last) { between_.emplace(first, last); return *this; }
    //! Only checkpoints saved before this one, by sequence. The store fails with `not_found` if it does not
    //! have it, and with `conflict` if it has it in several scopes (add `scope`). Needs one agent.
    query& before(std::string id) { before_ = std::move(id); return *this; }
    //! Only checkpoints whose metadata member `key` equals `value`, type included. Can be called repeatedly.
    query& metadata(std::string key, json_input value)
    { metadata_.emplace_back(std::move(key), std::move(value).take()); return *this; }
    //! At most `count` checkpoints. Default: all.
    query& limit(std::size_t count) { limit_ = count; return *this; }
    //! Continue the list after this position, in its direction.
    query& after(cursor last) { after_ = std::move(last); return *this; }
    query& oldest_first() { oldest_first_ = true; return *this; }
    // clang-format on

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
