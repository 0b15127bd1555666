#include <waymark/detail/session_functions.hpp>
#include <waymark/resume.hpp>

#include <algorithm>
#include <limits>

namespace waymark::detail {

namespace {

//! From the newest to the oldest, until one is enough, which is returned then.
//!
//! One by one, from a place behind all of them: a store that misses its newest checkpoint, or another one,
//! lists nothing where it would have to list it.
template <class IsEnough>
std::optional<checkpoint_header> find_header(store& from, const std::string& agent_id,
                                             const std::string& scope, IsEnough is_enough)
{
    auto wanted = query(agent_id).scope(scope).limit(1);
    auto place = cursor(agent_id, std::numeric_limits<std::int64_t>::max());
    for (;;) {
        auto next = from.list(wanted.after(place));
        if (next.empty())
            return std::nullopt;
        place = cursor(next.front());
        if (is_enough(next.front()))
            return std::move(next.front());
    }
}

struct readable_checkpoint {
    std::optional<checkpoint> value;            // the newest
    std::vector<checkpoint_header> passed_over; // those that are newer, newest first
    std::optional<std::string> head;            // the newest with a header that can be read
};

readable_checkpoint find_readable(store& from, const std::string& agent_id, const std::string& scope)
{
    readable_checkpoint found;
    find_header(from, agent_id, scope, [&](const checkpoint_header& header) {
        if (header.damage()) {
            found.passed_over.push_back(header);
            return false;
        }
        try {
            found.value = from.load(agent_id, scope, header.id());
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            found.passed_over.push_back(checkpoint_header(header).with_damage(failure.details().message()));
        }
        if (!found.head)
            found.head = header.id();
        return found.value.has_value();
    });
    return found;
}

} // namespace

std::optional<checkpoint_header> head_of(store& from, const std::string& agent_id, const std::string& scope,
                                         const session_position& position)
{
    if (position.past_damage)
        return find_header(from, agent_id, scope,
                           [](const checkpoint_header& header) { return !header.damage(); });
    auto newest = from.list(query(agent_id).scope(scope).limit(1));
    return newest.empty() ? std::nullopt : std::optional(std::move(newest.front()));
}

std::optional<checkpoint> load_head(store& from, const std::string& agent_id, const std::string& scope)
{
    try {
        return from.load_latest(agent_id, scope);
    } catch (const error& failure) {
        if (failure.code() != errc::corrupt)
            throw;
        throw error(failure.code(),
                    failure.details().message() +
                        "; resume_options().fall_back() goes on from the newest that can be read");
    }
}

resumed resume(store& from, const std::string& agent_id, const std::string& scope,
               const resume_options& options)
{
    readable_checkpoint readable;
    auto& found = readable.value;
    std::optional<std::string> damage;
    try {
        found = options.falls_back() ? from.load_latest(agent_id, scope) : load_head(from, agent_id, scope);
    } catch (const error& failure) {
        if (failure.code() != errc::corrupt || !options.falls_back())
            throw;
        damage = failure.details().message();
        readable = find_readable(from, agent_id, scope);
        if (!found) // nothing to fall back to is not "nothing there"
            throw;
    }
    if (!found)
        return {};
    auto unanswered = found->conversation().unanswered_tool_calls();
    if (options.repairs()) {
        auto chat = found->conversation();
        if (options.repair_text())
            chat.repair(*options.repair_text());
        else
            chat.repair();
        found->with_conversation(std::move(chat));
    }
    resumed result(std::move(*found), std::move(unanswered), std::move(readable.passed_over),
                   std::move(damage));
    result.readable_head_ = std::move(readable.head);
    return result;
}

session_position position_of(const std::optional<checkpoint>& found)
{
    return found ? session_position{found->id(), found->id(), found->sequence(), found->parent_id()}
                 : session_position();
}

session_position position_of(const resumed& found)
{
    if (!found)
        return {};
    session_position position{found->id(), found->id(), found->sequence(), found->parent_id()};
    if (found.readable_head_) {
        position.head = found.readable_head_;
        position.past_damage = true;
    }
    if (!found.passed_over().empty())
        position.sequence = std::max(position.sequence, found.passed_over().front().sequence());
    return position;
}

} // namespace waymark::detail
