#include "json_document.hpp"
#include "text.hpp"
#include "timestamp.hpp"

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>

#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid_io.hpp>

namespace waymark {

namespace json = boost::json;

std::string random_id()
{
    // Each id comes from the system's entropy. A generator that is seeded once would give parent and child
    // of a fork the same ids, and one would overwrite the other's checkpoints.
    auto id = boost::uuids::random_generator_pure{}();
    // Version 7: the milliseconds since 1970 stand first. Ids that are made one after the other then stand
    // side by side in an index, so that a commit of many agents writes a page of it instead of dozens.
    auto time = std::chrono::floor<std::chrono::milliseconds>(now()).time_since_epoch().count();
    for (int i = 5; i >= 0; --i, time >>= 8)
        id.data[i] = static_cast<std::uint8_t>(time & 0xff);
    id.data[6] = static_cast<std::uint8_t>((id.data[6] & 0x0f) | 0x70);
    return boost::uuids::to_string(id);
}

checkpoint::checkpoint(std::string agent_id, waymark::conversation conversation, std::int64_t iteration)
    : key_(std::move(agent_id), {}, random_id()),
      iteration_(iteration),
      conversation_(std::move(conversation)),
      created_at_(now())
{
}

const json::object& checkpoint::state() const& noexcept
{
    static const json::object empty;
    return state_ == nullptr ? empty : state_->object;
}

std::size_t checkpoint::content_bytes() const noexcept
{
    return conversation_.bytes() + state_bytes() + detail::payload_bytes(metadata_);
}

std::size_t checkpoint::bytes_besides_conversation() const noexcept
{
    constexpr std::size_t numbers = 32;
    return key_.agent_id().size() + key_.scope().size() + key_.id().size() + name_.size() +
           (parent_id_ ? parent_id_->size() : 0) + detail::payload_bytes(metadata_) +
           detail::payload_bytes(conversation_.extra()) + (state_ ? state_->bytes : 0) + numbers;
}

checkpoint& checkpoint::with_id(std::string id) &
{
    key_ = {key_.agent_id(), key_.scope(), std::move(id)};
    return *this;
}

checkpoint&& checkpoint::with_id(std::string id) &&
{
    return std::move(with_id(std::move(id)));
}

checkpoint& checkpoint::with_agent(std::string agent_id) &
{
    key_ = {std::move(agent_id), key_.scope(), key_.id()};
    return *this;
}

checkpoint&& checkpoint::with_agent(std::string agent_id) &&
{
    return std::move(with_agent(std::move(agent_id)));
}

checkpoint& checkpoint::with_scope(std::string scope) &
{
    key_ = {key_.agent_id(), std::move(scope), key_.id()};
    return *this;
}

checkpoint&& checkpoint::with_scope(std::string scope) &&
{
    return std::move(with_scope(std::move(scope)));
}

checkpoint& checkpoint::with_parent(std::optional<std::string> parent_id) &
{
    parent_id_ = std::move(parent_id);
    return *this;
}

checkpoint&& checkpoint::with_parent(std::optional<std::string> parent_id) &&
{
    return std::move(with_parent(std::move(parent_id)));
}

checkpoint& checkpoint::with_name(std::string name) &
{
    name_ = std::move(name);
    return *this;
}

checkpoint&& checkpoint::with_name(std::string name) &&
{
    return std::move(with_name(std::move(name)));
}

checkpoint& checkpoint::with_iteration(std::int64_t iteration) & noexcept
{
    iteration_ = iteration;
    return *this;
}

checkpoint&& checkpoint::with_iteration(std::int64_t iteration) && noexcept
{
    return std::move(with_iteration(iteration));
}

checkpoint& checkpoint::with_conversation(waymark::conversation conversation) &
{
    conversation_ = std::move(conversation);
    return *this;
}

checkpoint&& checkpoint::with_conversation(waymark::conversation conversation) &&
{
    return std::move(with_conversation(std::move(conversation)));
}

checkpoint& checkpoint::with_state(json::object state) &
{
    if (state.empty()) {
        state_ = nullptr;
        return *this;
    }
    const auto bytes = detail::payload_bytes(state);
    state_ = std::make_shared<const shared_state>(shared_state{detail::rehome(std::move(state)), bytes});
    return *this;
}

checkpoint&& checkpoint::with_state(json::object state) &&
{
    return std::move(with_state(std::move(state)));
}

checkpoint& checkpoint::with_metadata(std::string_view key, json_input value) &
{
    metadata_.insert_or_assign(key, std::move(value).take());
    return *this;
}

checkpoint&& checkpoint::with_metadata(std::string_view key, json_input value) &&
{
    return std::move(with_metadata(key, std::move(value)));
}

checkpoint& checkpoint::with_created_at(timestamp time) & noexcept
{
    created_at_ = time;
    return *this;
}

checkpoint&& checkpoint::with_created_at(timestamp time) && noexcept
{
    return std::move(with_created_at(time));
}

checkpoint& checkpoint::with_sequence(std::int64_t sequence) & noexcept
{
    sequence_ = sequence;
    return *this;
}

checkpoint&& checkpoint::with_sequence(std::int64_t sequence) && noexcept
{
    return std::move(with_sequence(sequence));
}

bool operator==(const checkpoint& left, const checkpoint& right) noexcept
{
    return left.key() == right.key() && left.parent_id() == right.parent_id() &&
           left.name() == right.name() && left.iteration() == right.iteration() &&
           left.created_at() == right.created_at() &&
           detail::same_content(left.metadata(), right.metadata()) &&
           left.conversation() == right.conversation() &&
           (left.shares_state(right) || detail::same_content(left.state(), right.state()));
}

// What may be stored

void validate_label(std::string_view label, std::string_view what)
{
    if (label.size() > max_id_bytes)
        throw error(errc::invalid_argument, std::string(what) + " is " + std::to_string(label.size()) +
                                                " bytes long, more than " + std::to_string(max_id_bytes) +
                                                "; shorten or hash it: " + detail::quoted(label));
    if (label.find('\0') != std::string_view::npos)
        throw error(errc::invalid_argument,
                    std::string(what) + " contains a NUL; remove it: " + detail::quoted(label));
    detail::require_utf8(label, what);
}

void validate_id(std::string_view id, std::string_view what)
{
    if (id.empty())
        throw error(errc::invalid_argument, std::string(what) + " is empty; give it a name");
    validate_label(id, what);
}

namespace {

void require_at_most(std::size_t bytes, std::size_t limit, std::string_view what, std::string_view option)
{
    if (bytes > limit)
        throw error(errc::invalid_argument, std::string(what) + " has " + std::to_string(bytes) +
                                                " bytes, more than " + std::to_string(limit) +
                                                "; make it smaller or raise limits::" + std::string(option));
}

} // namespace

void validate_sizes(const checkpoint& checkpoint, const limits& bounds)
{
    require_at_most(checkpoint.conversation().largest_message_bytes(), bounds.max_message_bytes(),
                    "a message", "max_message_bytes");
    require_at_most(checkpoint.state_bytes(), bounds.max_state_bytes(), "state", "max_state_bytes");
}

void validate(const checkpoint& checkpoint, const limits& bounds)
{
    validate_sizes(checkpoint, bounds);
    validate_id(checkpoint.agent_id(), "the agent id");
    validate_label(checkpoint.scope(), "the scope");
    validate_id(checkpoint.id(), "the checkpoint id");
    if (checkpoint.parent_id())
        validate_id(*checkpoint.parent_id(), "the parent id");
    validate_label(checkpoint.name(), "the name");
    if (!detail::is_printable(checkpoint.created_at()))
        throw error(errc::invalid_argument, "created_at is outside the years 0 to 9999");

    require_at_most(detail::payload_bytes(checkpoint.metadata()), bounds.max_metadata_bytes(), "metadata",
                    "max_metadata_bytes");
    detail::check_json(checkpoint.metadata(), bounds.max_depth(), "metadata");
    detail::check_json(checkpoint.state(), bounds.max_depth(), "state");

    // Messages were checked when they were made; their conversation keeps the maxima.
    const auto& chat = checkpoint.conversation();
    require_at_most(detail::payload_bytes(chat.extra()), bounds.max_metadata_bytes(),
                    "what the conversation holds besides messages", "max_metadata_bytes");
    detail::check_json(chat.extra(), bounds.max_depth(), "the conversation's extra members");
    if (chat.depth() > bounds.max_depth())
        throw error(errc::invalid_argument,
                    "a message nests " + std::to_string(chat.depth()) + " levels deep, more than " +
                        std::to_string(bounds.max_depth()) + "; flatten it or raise limits::max_depth");
}

// Headers

checkpoint_header::checkpoint_header(const checkpoint& from)
    : key_(from.key()),
      parent_id_(from.parent_id()),
      name_(from.name()),
      iteration_(from.iteration()),
      metadata_(from.metadata()),
      created_at_(from.created_at()),
      sequence_(from.sequence()),
      message_count_(from.conversation().size()),
      content_bytes_(from.content_bytes())
{
}

bool operator==(const checkpoint_header& left, const checkpoint_header& right) noexcept
{
    return left.key() == right.key() && left.parent_id() == right.parent_id() &&
           left.name() == right.name() && left.iteration() == right.iteration() &&
           detail::same_content(left.metadata(), right.metadata()) &&
           left.created_at() == right.created_at() && left.sequence() == right.sequence() &&
           left.message_count() == right.message_count() && left.pinned() == right.pinned() &&
           left.stored_bytes() == right.stored_bytes() && left.content_bytes() == right.content_bytes() &&
           left.damage() == right.damage();
}

checkpoint_header& checkpoint_header::with_pinned(bool pinned) & noexcept
{
    pinned_ = pinned;
    return *this;
}

checkpoint_header&& checkpoint_header::with_pinned(bool pinned) && noexcept
{
    return std::move(with_pinned(pinned));
}

checkpoint_header& checkpoint_header::with_sequence(std::int64_t sequence) & noexcept
{
    sequence_ = sequence;
    return *this;
}

checkpoint_header&& checkpoint_header::with_sequence(std::int64_t sequence) && noexcept
{
    return std::move(with_sequence(sequence));
}

checkpoint_header& checkpoint_header::with_content_bytes(std::uint64_t bytes) & noexcept
{
    content_bytes_ = bytes;
    return *this;
}

checkpoint_header&& checkpoint_header::with_content_bytes(std::uint64_t bytes) && noexcept
{
    return std::move(with_content_bytes(bytes));
}

checkpoint_header& checkpoint_header::with_stored_bytes(std::uint64_t bytes) & noexcept
{
    stored_bytes_ = bytes;
    return *this;
}

checkpoint_header&& checkpoint_header::with_stored_bytes(std::uint64_t bytes) && noexcept
{
    return std::move(with_stored_bytes(bytes));
}

checkpoint_header& checkpoint_header::with_message_count(std::size_t count) & noexcept
{
    message_count_ = count;
    return *this;
}

checkpoint_header&& checkpoint_header::with_message_count(std::size_t count) && noexcept
{
    return std::move(with_message_count(count));
}

checkpoint_header& checkpoint_header::with_damage(std::optional<std::string> damage) &
{
    damage_ = std::move(damage);
    return *this;
}

checkpoint_header&& checkpoint_header::with_damage(std::optional<std::string> damage) &&
{
    return std::move(with_damage(std::move(damage)));
}

} // namespace waymark
