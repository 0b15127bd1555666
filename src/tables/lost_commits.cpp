#include "lost_commits.hpp"

#include "questions.hpp"

#include <algorithm>

namespace waymark::tables {

void lost_commit::look_again_after(const error& failure)
{
    constexpr int fewest_looks = 2, most_looks = 10;
    constexpr auto longest = std::chrono::seconds(30);
    ++looks_;
    std::string last_look;
    if (failure.code() == errc::outcome_unknown) {
        if (!lost_)
            end_ = std::chrono::steady_clock::now() + longest;
        lost_ = failure;
    } else if (lost_) {
        last_look = "; looking it up failed: " + failure.details().message();
    } else {
        throw; // NOLINT: the caller handles it
    }
    // Busy: someone is in the way, or has cancelled the look.
    const bool may_help = failure.code() == errc::outcome_unknown || failure.code() == errc::busy;
    const bool has_time = looks_ < most_looks && std::chrono::steady_clock::now() < end_;
    if (!may_help || (looks_ >= fewest_looks && !has_time))
        throw error(errc::outcome_unknown, lost_->details().message() + last_look);
}

std::optional<bool> was_committed(std::span<const written_checkpoint> written, transaction& in)
{
    expect(in, [&] {
        questions wanted;
        for (const auto& next : written)
            wanted.emplace_back(question::kind::at, next.agent_id).number = next.sequence;
        return wanted;
    });
    // The transaction was atomic: one checkpoint tells for all.
    for (const auto& next : written) {
        const auto agent = in.find_agent(next.agent_id);
        if (!agent || agent->number != next.agent)
            continue; // new then and not there, or erased since
        const auto row = in.checkpoint_at(agent->number, next.sequence);
        const bool is_ours = row && row->id == next.id && row->scope == next.scope;
        if (is_ours && row->check == next.check)
            return true;
        if (next.check_before ? is_ours && row->check == *next.check_before
                              : agent->last_sequence < next.sequence || (row && !is_ours))
            return false;
    }
    // Agents that were new and are not there: saving is safe, whatever happened to them.
    const bool all_gone = std::none_of(written.begin(), written.end(), [&](const auto& next) {
        return in.find_agent(next.agent_id).has_value();
    });
    return all_gone ? std::optional(false) : std::nullopt;
}

} // namespace waymark::tables
