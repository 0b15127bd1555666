//! One saved point of an agent, and the header that lists return.
#pragma once

#include <waymark/conversation.hpp>
#include <waymark/limits.hpp>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark {

//! The name of a checkpoint in a store. The same id may exist under another agent or scope.
class checkpoint_key {
public:
    checkpoint_key() = default;
    checkpoint_key(std::string agent_id, std::string scope, std::string id)
        : agent_id_(std::move(agent_id)), scope_(std::move(scope)), id_(std::move(id))
    {
    }

    const std::string& agent_id() const& noexcept { return agent_id_; }
    std::string agent_id() && { return std::move(agent_id_); }
    const std::string& scope() const& noexcept { return scope_; }
    std::string scope() && { return std::move(scope_); }
    const std::string& id() const& noexcept { return id_; }
    std::string id() && { return std::move(id_); }

    friend auto operator<=>(const checkpoint_key&, const checkpoint_key&) = default;

private:
    std::string agent_id_;
    std::string scope_;
    std::string id_;
};

//! A UUID of version 7 in its usual form: the time in milliseconds, and 74 bits of the system's entropy, so
//! that processes which share a fork do not share ids. Nothing depends on the order of ids; see `sequence`.
std::string random_id();

//! What an agent knows at one point. Cheap to copy: conversation and state are shared between copies.
//!
//! Setters accept anything; `validate` (which every store calls before it writes) refuses what cannot be
//! stored, by name.
class checkpoint {
public:
    //! Of no agent, without an id: what an operation that failed hands over. No store takes it.
    checkpoint() = default;
    //! A checkpoint of `agent_id` with a random id, made now.
    explicit checkpoint(std::string agent_id, waymark::conversation conversation = {},
                        std::int64_t iteration = 0);

    const std::string& id() const& noexcept { return key_.id(); }
    std::string id() && { return std::move(key_).id(); }
    const std::string& agent_id() const& noexcept { return key_.agent_id(); }
    std::string agent_id() && { return std::move(key_).agent_id(); }
    const std::string& scope() const& noexcept { return key_.scope(); }
    std::string scope() && { return std::move(key_).scope(); }
    const checkpoint_key& key() const& noexcept { return key_; }
    checkpoint_key key() && { return std::move(key_); }
    //! The checkpoint that this one was made from. It may have been pruned since.
    const std::optional<std::string>& parent_id() const& noexcept { return parent_id_; }
    std::optional<std::string> parent_id() && { return std::move(parent_id_); }
    //! A label with meaning ("task_started"), or empty. Many checkpoints may carry the same one.
    const std::string& name() const& noexcept { return name_; }
    std::string name() && { return std::move(name_); }
    std::int64_t iteration() const noexcept { return iteration_; }
    const waymark::conversation& conversation() const& noexcept { return conversation_; }
    waymark::conversation conversation() && { return std::move(conversation_); }
    const boost::json::object& state() const& noexcept;
    boost::json::object state() && { return state(); }
    const boost::json::object& metadata() const& noexcept { return metadata_; }
    boost::json::object metadata() && { return std::move(metadata_); }
    //! For people. What is latest, `sequence()` decides.
    timestamp created_at() const noexcept { return created_at_; }
    //! The order within the agent, assigned by the store when it first commits the checkpoint; 0 before.
    std::int64_t sequence() const noexcept { return sequence_; }

    checkpoint& with_id(std::string id) &;
    checkpoint&& with_id(std::string id) &&;
    checkpoint& with_agent(std::string agent_id) &;
    checkpoint&& with_agent(std::string agent_id) &&;
    checkpoint& with_scope(std::string scope) &;
    checkpoint&& with_scope(std::string scope) &&;
    checkpoint& with_parent(std::optional<std::string> parent_id) &;
    checkpoint&& with_parent(std::optional<std::string> parent_id) &&;
    checkpoint& with_name(std::string name) &;
    checkpoint&& with_name(std::string name) &&;
    checkpoint& with_iteration(std::int64_t iteration) & noexcept;
    checkpoint&& with_iteration(std::int64_t iteration) && noexcept;
    checkpoint& with_conversation(waymark::conversation conversation) &;
    checkpoint&& with_conversation(waymark::conversation conversation) &&;
    //! Replaces the state. It is copied if it lives in a memory resource of its own.
    checkpoint& with_state(boost::json::object state) &;
    checkpoint&& with_state(boost::json::object state) &&;
    //! Sets one member of the metadata; `query::metadata` finds it again.
    checkpoint& with_metadata(std::string_view key, json_input value) &;
    checkpoint&& with_metadata(std::string_view key, json_input value) &&;
    checkpoint& with_created_at(timestamp time) & noexcept;
    checkpoint&& with_created_at(timestamp time) && noexcept;
    //! For backends. A store ignores the number that a checkpoint brings along.
    checkpoint& with_sequence(std::int64_t sequence) & noexcept;
    checkpoint&& with_sequence(std::int64_t sequence) && noexcept;

    //! The payload of the state, O(1).
    std::size_t state_bytes() const noexcept { return state_ ? state_->bytes : 0; }
    //! The payload of everything but the messages, O(1) in the state.
    std::size_t bytes_besides_conversation() const noexcept;
    //! The payload of messages, state and metadata.
    std::size_t content_bytes() const noexcept;
    //! True when the two hold the same state object in memory, so that comparing it is not needed.
    bool shares_state(const checkpoint& other) const noexcept { return state_ == other.state_; }

    //! The whole checkpoint as one JSON document.
    //! @throws waymark::error `invalid_argument` if it is not valid or exceeds the bounds.
    std::string to_bytes(const limits& bounds = {}) const;
    //! Reads what `to_bytes` wrote, and the checkpoint files of smooth-operator.
    //! @throws waymark::error `invalid_argument` (not a checkpoint, or beyond the bounds) or
    //! `unsupported_format` (written by a newer version).
    static checkpoint from_bytes(std::string_view bytes, const limits& bounds = {});

    //! The same content, as for `message`: state and metadata are the same JSON, byte by byte. `sequence` is
    //! the store's and does not count.
    friend bool operator==(const checkpoint& left, const checkpoint& right) noexcept;

private:
    struct shared_state {
        boost::json::object object;
        std::size_t bytes;
    };

    checkpoint_key key_;
    std::optional<std::string> parent_id_;
    std::string name_;
    std::int64_t iteration_ = 0;
    waymark::conversation conversation_;
    std::shared_ptr<const shared_state> state_; // null: empty
    boost::json::object metadata_;
    timestamp created_at_;
    std::int64_t sequence_ = 0;
};

//! Refuses what no store may hold: an empty or over-long id, a NUL, invalid UTF-8, NaN or an infinity, a
//! time that RFC 3339 cannot write, nesting and sizes beyond `bounds`. Backends call it for each request.
//! @throws waymark::error `invalid_argument`, naming the member.
void validate(const checkpoint& checkpoint, const limits& bounds = {});
//! The part of it that concerns the sizes of messages and state, O(1).
void validate_sizes(const checkpoint& checkpoint, const limits& bounds);
//! The part of it that concerns an id (of an agent or checkpoint) or a step's key; `what` names it.
void validate_id(std::string_view id, std::string_view what);
//! The part of it that concerns a scope or a name, which may be empty.
void validate_label(std::string_view label, std::string_view what);

//! A checkpoint without conversation and state: what lists return.
class checkpoint_header {
public:
    //! Of no checkpoint: what an operation that failed hands over.
    checkpoint_header() = default;
    explicit checkpoint_header(const checkpoint& from);

    const std::string& id() const& noexcept { return key_.id(); }
    std::string id() && { return std::move(key_).id(); }
    const std::string& agent_id() const& noexcept { return key_.agent_id(); }
    std::string agent_id() && { return std::move(key_).agent_id(); }
    const std::string& scope() const& noexcept { return key_.scope(); }
    std::string scope() && { return std::move(key_).scope(); }
    const checkpoint_key& key() const& noexcept { return key_; }
    checkpoint_key key() && { return std::move(key_); }
    const std::optional<std::string>& parent_id() const& noexcept { return parent_id_; }
    std::optional<std::string> parent_id() && { return std::move(parent_id_); }
    const std::string& name() const& noexcept { return name_; }
    std::string name() && { return std::move(name_); }
    std::int64_t iteration() const noexcept { return iteration_; }
    const boost::json::object& metadata() const& noexcept { return metadata_; }
    boost::json::object metadata() && { return std::move(metadata_); }
    timestamp created_at() const noexcept { return created_at_; }
    std::int64_t sequence() const noexcept { return sequence_; }
    std::size_t message_count() const noexcept { return message_count_; }
    //! Pinned checkpoints are kept by every retention policy.
    bool pinned() const noexcept { return pinned_; }
    //! What this checkpoint added to the store when it was saved. What it shares with others is not in it.
    std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }
    //! The payload of its messages, state and metadata, whether or not it shares them with others; 0 if it
    //! was saved by a version that did not note it.
    std::uint64_t content_bytes() const noexcept { return content_bytes_; }
    //! What a list finds damaged, or none. Such a checkpoint is shown with what is still known of it; loading
    //! it is `errc::corrupt`. Damage in what a list does not read is found by a load and by `verify`.
    const std::optional<std::string>& damage() const& noexcept { return damage_; }
    std::optional<std::string> damage() && { return std::move(damage_); }

    checkpoint_header& with_pinned(bool pinned) & noexcept;
    checkpoint_header&& with_pinned(bool pinned) && noexcept;
    checkpoint_header& with_sequence(std::int64_t sequence) & noexcept;
    checkpoint_header&& with_sequence(std::int64_t sequence) && noexcept;
    checkpoint_header& with_stored_bytes(std::uint64_t bytes) & noexcept;
    checkpoint_header&& with_stored_bytes(std::uint64_t bytes) && noexcept;
    checkpoint_header& with_content_bytes(std::uint64_t bytes) & noexcept;
    checkpoint_header&& with_content_bytes(std::uint64_t bytes) && noexcept;
    checkpoint_header& with_message_count(std::size_t count) & noexcept;
    checkpoint_header&& with_message_count(std::size_t count) && noexcept;
    checkpoint_header& with_damage(std::optional<std::string> damage) &;
    checkpoint_header&& with_damage(std::optional<std::string> damage) &&;

    //! Equal members; the metadata as for `message`.
    friend bool operator==(const checkpoint_header& left, const checkpoint_header& right) noexcept;

private:
    checkpoint_key key_;
    std::optional<std::string> parent_id_;
    std::string name_;
    std::int64_t iteration_ = 0;
    boost::json::object metadata_;
    timestamp created_at_;
    std::int64_t sequence_ = 0;
    std::size_t message_count_ = 0;
    bool pinned_ = false;
    std::uint64_t stored_bytes_ = 0;
    std::uint64_t content_bytes_ = 0;
    std::optional<std::string> damage_;
};

//! Reads a Breakpilot export, an array of `{id, name, timestamp, data, metadata}`, oldest first. `data`
//! becomes the state. The format names no agent, so the caller does.
//! @throws waymark::error `invalid_argument`, naming the entry and the member.
std::vector<checkpoint> checkpoints_from_breakpilot(std::string_view json, std::string_view agent_id,
                                                    const limits& bounds = {});

void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const checkpoint& from);
checkpoint tag_invoke(boost::json::value_to_tag<checkpoint>, const boost::json::value& from);
void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const checkpoint_header& from);
checkpoint_header tag_invoke(boost::json::value_to_tag<checkpoint_header>, const boost::json::value& from);

} // namespace waymark
