#include "../store/request_checks.hpp"
#include "../values/text.hpp"
#include "../values/timestamp.hpp"

#include <waymark/detail/session_functions.hpp>

#include <algorithm>
#include <unordered_set>

namespace waymark::detail {

namespace {

constexpr std::size_t page_size = 1000;

//! Visits all headers of a query page by page, so that no list is longer than a page.
template <class Visit>
void for_each_header(store& from, query wanted, Visit visit)
{
    wanted.limit(page_size);
    for (;;) {
        const auto page = from.list(wanted);
        for (const auto& header : page)
            visit(header);
        if (page.size() < page_size)
            return;
        wanted.after(cursor(page.back()));
    }
}

} // namespace

checkpoint require_checkpoint(store& from, const std::string& agent_id, const std::string& scope,
                              const std::string& id)
{
    auto found = from.load(agent_id, scope, id);
    if (!found)
        throw error(errc::not_found, "agent " + detail::quoted(agent_id) + " has no checkpoint " +
                                         detail::quoted(id) +
                                         (scope.empty() ? "" : " in scope " + detail::quoted(scope)));
    return std::move(*found);
}

std::optional<checkpoint> load_latest_named(store& from, const std::string& agent_id,
                                            const std::string& scope, const std::string& name)
{
    auto found = from.load_all(query(agent_id).scope(scope).named(name).limit(1));
    return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

history read_history(store& from, const std::string& agent_id, const std::string& scope)
{
    std::vector<checkpoint_header> all;
    for_each_header(from, query(agent_id).scope(scope).oldest_first(),
                    [&](const checkpoint_header& header) { all.push_back(header); });
    return history(std::move(all));
}

checkpoint_diff diff(store& from, const std::string& agent_id, const std::string& scope,
                     const std::string& before, const std::string& after)
{
    return {require_checkpoint(from, agent_id, scope, before),
            require_checkpoint(from, agent_id, scope, after)};
}

summary summarize(store& from, const std::string& agent_id, const std::string& scope)
{
    summary result;
    std::uint64_t content = 0;
    for_each_header(from, query(agent_id).oldest_first(), [&](const checkpoint_header& header) {
        content += header.content_bytes();
        if (header.scope() == scope)
            result.add(header);
    });
    result.set_bytes(content, from.stats(agent_id).bytes);
    return result;
}

// Forks

namespace {

//! The steps that a checkpoint builds on: those that were made on it or on what it was made from, and those
//! from before the first checkpoint. Where that was pruned, the time decides.
std::vector<step> steps_up_to(store& from, const checkpoint& target)
{
    const auto all = read_history(from, target.agent_id(), target.scope());
    std::unordered_set<std::string> ancestors;
    for (const auto* point : all.path_to(target.id()))
        ancestors.insert(point->id());
    const auto next = std::find_if(all.checkpoints().begin(), all.checkpoints().end(),
                                   [&](const auto& point) { return point.sequence() > target.sequence(); });
    auto steps = from.load_steps(step_query(target.agent_id()).scope(target.scope()));
    std::erase_if(steps, [&](const step& one) {
        if (!one.checkpoint_id() || ancestors.contains(*one.checkpoint_id()))
            return false;
        const bool is_elsewhere = all.find(*one.checkpoint_id()) != nullptr;
        return is_elsewhere || (next != all.checkpoints().end() && one.started_at() > next->created_at());
    });
    return steps;
}

} // namespace

checkpoint_key fork(store& in, const std::string& agent_id, const std::string& scope, const std::string& id,
                    const std::string& new_agent)
{
    validate_id(new_agent, "the new agent id");
    const auto target = require_checkpoint(in, agent_id, scope, id);
    std::vector<step_request> steps;
    for (auto& one : steps_up_to(in, target)) // for the new agent, they are from before its first checkpoint
        steps.emplace_back(one.with_agent(new_agent).with_checkpoint(std::nullopt), true);

    const auto exists = [&] {
        throw error(errc::conflict,
                    "agent " + detail::quoted(new_agent) + " exists; choose another id, or erase it");
    };
    if (in.count(query(new_agent).limit(1)) != 0)
        exists();
    const auto there = in.load_steps(step_query(new_agent)).size();
    // The steps first: a fork that was interrupted must not make side effects again that are known. Steps
    // that are there already are those of an earlier attempt.
    for (const auto& outcome : in.put_steps(steps)) {
        if (outcome.code() == errc::conflict)
            exists();
        outcome.value_or_throw();
    }
    if (there > steps.size())
        exists();
    auto first = target;
    // The parent is of the other agent: this one begins here, and still tells where it comes from.
    first.with_agent(new_agent).with_id(random_id()).with_parent(id).with_created_at(now());
    in.save(first, save_options().create_only().expect_head(std::nullopt));
    return first.key();
}

// Steps

std::optional<step> find_step(store& in, const step& wanted)
{
    auto found = in.load_steps(step_query(wanted.agent_id()).scope(wanted.scope()).key(wanted.key()));
    return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

namespace {

// Others may change a record between a look and a write. Writes are conditional, and after one that came too
// late the record is looked at again. So often only if several callers settle and forget one step again and
// again.
constexpr int most_looks = 16;

void put_step(store& in, const step_request& request)
{
    const auto outcomes = in.put_steps(std::span(&request, 1));
    require_one_outcome(outcomes.size());
    outcomes.front().value_or_throw();
}

//! Whether a write came too late: the record is not the one that was looked at.
bool is_too_late(const error& failure) noexcept
{
    return failure.code() == errc::conflict || failure.code() == errc::not_found;
}

//! `look` returns what is to be returned, or none after a write that came too late.
template <class Look>
auto look_again(const step& wanted, Look look)
{
    for (int looks = 0; looks < most_looks; ++looks)
        if (auto result = look())
            return std::move(*result);
    throw error(errc::busy, "the record of step " + detail::quoted(wanted.key()) + " of agent " +
                                detail::quoted(wanted.agent_id()) +
                                " is being changed by others all the time; try again");
}

[[noreturn]] void fail_in_doubt(const step& begun)
{
    throw error(errc::step_in_doubt,
                "step " + detail::quoted(begun.key()) + " of agent " + detail::quoted(begun.agent_id()) +
                    " began at " + to_rfc3339(begun.started_at()) +
                    (begun.checkpoint_id() ? " on checkpoint " + detail::quoted(*begun.checkpoint_id())
                                           : std::string(" before the first checkpoint")) +
                    (begun.failure() ? ", and its action threw '" + failure_text(*begun.failure()) + "'"
                                     : std::string(", and its end was never recorded")) +
                    "; look whether it took effect, then call async_settle_step (it did) or "
                    "async_forget_step (it did not). If running it twice does no harm, pass "
                    "step_options().safe_to_repeat()");
}

void require_head(store& in, const step& wanted, const session_position& position)
{
    const auto head = head_of(in, wanted.agent_id(), wanted.scope(), position);
    const auto id = head ? std::optional(head->id()) : std::nullopt;
    if (id != position.head)
        throw error(errc::conflict, "another writer moved the head of agent " +
                                        detail::quoted(wanted.agent_id()) + " to " +
                                        (id ? detail::quoted(*id) : std::string("nothing")) + "; step " +
                                        detail::quoted(wanted.key()) +
                                        " was not begun; async_resume() loads what is there now");
}

} // namespace

std::string failure_text(std::string_view said)
{
    constexpr std::size_t longest = 1000;
    return printable(said, longest);
}

begun_step begin_step(store& in, const step& wanted, const step_options& options,
                      const std::optional<session_position>& exclusive)
{
    if (exclusive)
        require_head(in, wanted, *exclusive);
    return look_again(wanted, [&]() -> std::optional<begun_step> {
        auto found = find_step(in, wanted);
        if (found && found->done())
            return begun_step(std::move(*found), false);
        if (found && !options.is_safe_to_repeat())
            fail_in_doubt(*found);
        try {
            if (found) { // from now on it is this caller's: whoever tried before cannot end or withdraw it
                const auto before = found->attempt();
                found->with_attempt(wanted.attempt()).with_started_at(wanted.started_at()).with_failure({});
                put_step(in, step_request(*found).replacing(before));
                return begun_step(std::move(*found), false);
            }
            put_step(in, {wanted, true});
            return begun_step(wanted, true);
        } catch (const error& failure) {
            if (!is_too_late(failure))
                throw;
            if (found || failure.code() == errc::conflict)
                return std::nullopt; // someone else was faster
        }
        // The checkpoint that the session stands on was erased. The step is as good without.
        begun_step unattached(step(wanted).with_checkpoint(std::nullopt), true);
        try {
            put_step(in, {unattached.record, true});
        } catch (const error& failure) {
            if (failure.code() != errc::conflict)
                throw;
            return std::nullopt;
        }
        return unattached;
    });
}

step end_step(store& in, const step& made)
{
    return look_again(made, [&]() -> std::optional<step> {
        try {
            // The checkpoint that it was made on, and its record with it, may have been removed meanwhile. It
            // took effect all the same.
            put_step(in, step_request(made).replacing(made.attempt()).restored());
            return made;
        } catch (const error& failure) {
            if (failure.code() != errc::conflict)
                throw;
        }
        auto found = find_step(in, made);
        if (found && !found->done() && found->attempt() != made.attempt())
            throw error(errc::conflict, "it was begun anew at " + to_rfc3339(found->started_at()) +
                                            " by another caller, whose result will count");
        return found && found->done() ? std::move(found) : std::nullopt;
    });
}

void withdraw_step(store& in, const step& begun)
{
    in.erase_step(begun.agent_id(), begun.scope(), begun.key(), begun.attempt());
}

bool settle_step(store& in, const std::string& agent_id, const std::string& scope, const std::string& key,
                 const boost::json::value& result)
{
    const step wanted(agent_id, scope, key);
    return look_again(wanted, [&]() -> std::optional<bool> {
        auto found = find_step(in, wanted);
        if (!found)
            throw error(errc::not_found,
                        "agent " + detail::quoted(agent_id) + " has no step " + detail::quoted(key));
        if (found->done()) {
            if (*found->result() != result)
                throw error(errc::conflict, "step " + detail::quoted(key) + " is done, with another result");
            return false;
        }
        try {
            const auto attempt = found->attempt();
            put_step(in, step_request(found->with_result(result)).replacing(attempt));
            return true;
        } catch (const error& failure) {
            if (!is_too_late(failure))
                throw;
        }
        return std::nullopt;
    });
}

bool forget_step(store& in, const std::string& agent_id, const std::string& scope, const std::string& key)
{
    const step wanted(agent_id, scope, key);
    return look_again(wanted, [&]() -> std::optional<bool> {
        const auto found = find_step(in, wanted);
        if (!found)
            return false;
        if (found->done())
            throw error(errc::conflict,
                        "step " + detail::quoted(key) + " of agent " + detail::quoted(agent_id) +
                            " has ended, and its result is recorded; store::erase_step removes "
                            "that, too");
        return in.erase_step(agent_id, scope, key, found->attempt()) ? std::optional(true) : std::nullopt;
    });
}

} // namespace waymark::detail
