#include <waymark/detail/session_calls.hpp>
#include <waymark/resume.hpp>

#include <algorithm>
#include <limits>

namespace waymark {

resume_options& resume_options::repair() &
{
    repair_ = true;
    return *this;
}

resume_options&& resume_options::repair() &&
{
    return std::move(repair());
}

resume_options& resume_options::repair(std::string text) &
{
    repair_text_ = std::move(text);
    return repair();
}

resume_options&& resume_options::repair(std::string text) &&
{
    return std::move(repair(std::move(text)));
}

resume_options& resume_options::fall_back() & noexcept
{
    fall_back_ = true;
    return *this;
}

resume_options&& resume_options::fall_back() && noexcept
{
    return std::move(fall_back());
}

namespace detail {

namespace {

//! The newest checkpoint that can be read, and those before it.
std::optional<checkpoint> newest_readable(store& from, const std::string& agent_id, const std::string& scope,
                                          std::vector<checkpoint_header>& passed_over)
{
    // One by one, from a place behind all of them: a store that misses its newest checkpoint, or another one,
    // lists nothing where it would have to list it.
    auto wanted = query(agent_id).scope(scope).limit(1);
    auto place = cursor(agent_id, std::numeric_limits<std::int64_t>::max());
    for (;;) {
        const auto next = from.list(wanted.after(place));
        if (next.empty())
            return std::nullopt;
        const auto& header = next.front();
        place = cursor(header);
        if (header.damage()) {
            passed_over.push_back(header);
            continue;
        }
        try {
            if (auto found = from.load(agent_id, scope, header.id()))
                return found;
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            passed_over.push_back(checkpoint_header(header).with_damage(failure.details().message()));
        }
    }
}

} // namespace

resumed resume(store& from, const std::string& agent_id, const std::string& scope,
               const resume_options& options)
{
    std::optional<checkpoint> found;
    std::vector<checkpoint_header> passed_over;
    std::optional<std::string> damage;
    try {
        found = from.load_latest(agent_id, scope);
    } catch (const error& failure) {
        if (failure.code() != errc::corrupt || !options.falls_back())
            throw;
        damage = failure.details().message();
        found = newest_readable(from, agent_id, scope, passed_over);
        if (!found) // nothing to fall back to is not "nothing there"
            throw;
    }
    if (!found)
        return {};
    auto unanswered = found->conversation().unanswered_tool_calls();
    if (options.repairs() && !unanswered.empty()) {
        auto chat = found->conversation();
        if (options.repair_text())
            chat.repair(*options.repair_text());
        else
            chat.repair();
        found->with_conversation(std::move(chat));
    }
    return {std::move(*found), std::move(unanswered), std::move(passed_over), std::move(damage)};
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
    if (!found.passed_over().empty()) { // the damaged one is still the head
        position.head = found.passed_over().front().id();
        position.sequence = std::max(position.sequence, found.passed_over().front().sequence());
    }
    return position;
}

} // namespace detail

} // namespace waymark
