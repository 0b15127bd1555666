#include "../values/random_bits.hpp"
#include "request_checks.hpp"

#include <waymark/store.hpp>

namespace waymark {

store::store() : identity_(detail::random_bits()) {}

store::~store() = default;

void store::await_outcome(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
}

void store::sweep(std::string_view agent_id, const upkeep_control& /*control*/)
{
    validate_id(agent_id, "the agent id");
}

commit_outcomes store::commit(std::span<const save_request> saves, std::span<const step_request> steps)
{
    commit_outcomes outcomes;
    if (!saves.empty())
        outcomes.saves = save(saves);
    if (steps.empty())
        return outcomes;
    if (saves.empty()) {
        outcomes.steps = put_steps(steps);
        return outcomes;
    }
    outcomes.steps.reserve(steps.size()); // the saves are durable: nothing may hide that any more
    try {
        outcomes.steps = put_steps(steps);
    } catch (const error& failure) {
        outcomes.steps.assign(steps.size(), failure);
    } catch (const std::exception& failure) {
        outcomes.steps.assign(steps.size(), error(errc::outcome_unknown, failure.what()));
    }
    return outcomes;
}

const waymark::limits& store::accepted_limits() const noexcept
{
    static const waymark::limits defaults;
    return defaults;
}

std::vector<load_outcome> store::load_some(std::span<const checkpoint_key> keys,
                                           std::span<const checkpoint> /*earlier*/, std::size_t about_bytes)
{
    for (const auto& key : keys)
        detail::validate_key(key.agent_id(), key.scope(), key.id());
    std::vector<load_outcome> outcomes;
    std::size_t bytes = 0;
    for (const auto& key : keys) {
        if (bytes >= about_bytes && !outcomes.empty())
            break;
        try {
            auto found = load(key.agent_id(), key.scope(), key.id());
            bytes += found ? found->content_bytes() : 0;
            outcomes.push_back(std::move(found));
        } catch (const error& failure) {
            if (!detail::concerns_one_request(failure))
                throw;
            outcomes.push_back(failure);
        }
    }
    return outcomes;
}

save_result store::save(const checkpoint& checkpoint, const save_options& options)
{
    const save_request request(checkpoint, options);
    const auto outcomes = save(std::span(&request, 1));
    detail::require_one_outcome(outcomes.size());
    return outcomes.front().value_or_throw();
}

} // namespace waymark
