#include "mutants.hpp"

#include <algorithm>

namespace waymark::test {

namespace {

constexpr const char* recorded = "steps are recorded and found";
constexpr const char* begun_once = "a step is begun once";
constexpr const char* go_with_checkpoints = "steps go with the last checkpoint that knows them";
constexpr const char* step_erased = "a step can be erased";
constexpr const char* same_attempt = "a step is replaced while it is the same attempt";
constexpr const char* restored = "a restored step needs no checkpoint";
constexpr const char* results = "results of steps come back, whatever they are";
constexpr const char* by_the_thousand_steps = "ten thousand checkpoints";
constexpr const char* any_change_of_a_step = "a parent, an order or a type alone is a change";
constexpr const char* microseconds = "times come back to the microsecond";

//! The step without its result.
step pending(const step& from)
{
    return step(from.agent_id(), from.scope(), from.key())
        .with_attempt(from.attempt())
        .with_checkpoint(from.checkpoint_id())
        .with_started_at(from.started_at());
}

//! The same request with fewer conditions.
step_request relaxed(const step_request& from, bool create_only, bool replacing)
{
    step_request to(from.step(), from.is_create_only() && create_only);
    if (replacing && from.replaced())
        to.replacing(*from.replaced());
    if (from.is_restored())
        to.restored();
    if (from.expects_head())
        to.expect_head(from.expected_head());
    return to;
}

faults finding(std::function<std::vector<step>(store&, const step_query&)> find)
{
    return {.load_steps = std::move(find)};
}

std::vector<mutant> records()
{
    return {
        {"loses the results of steps", {recorded, results, the_model}, recording_instead(pending)},
        {"takes a null result for none", {results}, recording_instead([](const step& from) {
             return from.done() && from.result()->is_null() ? pending(from) : from;
         })},
        {"loses how steps failed",
         {"a step remembers how it failed", the_model},
         recording_instead([](const step& from) { return from.failure() ? pending(from) : from; })},
        {"loses the attempts of steps",
         {recorded, same_attempt, the_model},
         recording_instead([](const step& from) { return step(from).with_attempt(""); })},
        {"loses the checkpoints of steps",
         {recorded, "pins and pending steps protect from retention", the_model},
         recording_instead([](const step& from) { return step(from).with_checkpoint(std::nullopt); })},
        {"loses the times of steps",
         {recorded, microseconds, the_model},
         recording_instead([](const step& from) { return step(from).with_started_at(timestamp()); })},
        {"cuts the times of steps to milliseconds",
         {recorded, microseconds},
         recording_instead([](const step& from) {
             return step(from).with_started_at(
                 std::chrono::floor<std::chrono::milliseconds>(from.started_at()));
         })},
        {"keeps the first record of a step",
         {recorded, the_model},
         recording_each([](store& inner, const step_request& request) {
             if (!find_step(inner, request.step()) || request.is_create_only() || request.replaced())
                 put_one(inner, request);
         })},
        {"records the first step of a batch only",
         {begun_once, the_model},
         {.put_steps =
              [](store& inner, std::span<const step_request> batch) {
                  std::vector<step_outcome> outcomes(batch.size());
                  if (!batch.empty())
                      outcomes.front() = inner.put_steps(batch.first(1)).front();
                  return outcomes;
              }}},
        {"stops a batch of steps at the first failure",
         {begun_once, the_model},
         {.put_steps =
              [](store& inner, std::span<const step_request> batch) {
                  std::vector<step_outcome> outcomes;
                  for (const auto& request : batch)
                      outcomes.push_back(!outcomes.empty() && outcomes.back().code()
                                             ? outcomes.back()
                                             : inner.put_steps(std::span(&request, 1)).front());
                  return outcomes;
              }}},
        {"returns the outcomes of steps the other way round",
         {begun_once, the_model},
         {.put_steps =
              [](store& inner, std::span<const step_request> batch) {
                  auto outcomes = inner.put_steps(batch);
                  std::reverse(outcomes.begin(), outcomes.end());
                  return outcomes;
              }}},
        {"finds steps without regard to the scope",
         {recorded},
         finding([](store& inner, const step_query& asked) {
             auto wider = step_query(asked.agent_id());
             if (asked.key())
                 wider.key(*asked.key());
             if (asked.is_pending_only())
                 wider.pending_only();
             return inner.load_steps(wider);
         })},
        {"finds steps without regard to the key",
         {recorded},
         finding([](store& inner, const step_query& asked) {
             auto wider = step_query(asked.agent_id());
             if (asked.scope())
                 wider.scope(*asked.scope());
             if (asked.is_pending_only())
                 wider.pending_only();
             return inner.load_steps(wider);
         })},
        {"finds finished steps among the pending ones",
         {recorded, the_model},
         finding([](store& inner, const step_query& asked) {
             auto wider = step_query(asked.agent_id());
             if (asked.scope())
                 wider.scope(*asked.scope());
             if (asked.key())
                 wider.key(*asked.key());
             return inner.load_steps(wider);
         })},
        {"finds steps in any order",
         {recorded, the_model},
         finding([](store& inner, const step_query& asked) {
             auto found = inner.load_steps(asked);
             std::reverse(found.begin(), found.end());
             return found;
         })},
        {"finds a hundred steps at most",
         {by_the_thousand_steps},
         finding([](store& inner, const step_query& asked) {
             auto found = inner.load_steps(asked);
             found.erase(found.begin() +
                             static_cast<std::ptrdiff_t>(std::min<std::size_t>(found.size(), 100)),
                         found.end());
             return found;
         })},
        {"takes results that Boost.JSON calls equal for the same",
         {any_change_of_a_step},
         recording_each([](store& inner, const step_request& request) {
             const auto existing = find_step(inner, request.step());
             const bool is_equal = existing && existing->done() && request.step().done() &&
                                   existing->attempt() == request.step().attempt() &&
                                   *existing->result() == *request.step().result();
             if (!is_equal)
                 put_one(inner, request);
         })},
        {"finds the steps of the default scope only",
         {recorded, the_model},
         finding([](store& inner, const step_query& asked) {
             return inner.load_steps(asked.scope() ? asked : step_query(asked).scope(""));
         })},
    };
}

std::vector<mutant> conditions_of_steps()
{
    return {
        {"does not say which step is taken, done or not there",
         {begun_once, same_attempt},
         recording_each([](store& inner, const step_request& request) {
             try {
                 put_one(inner, request);
             } catch (const error& failure) {
                 throw error(failure.code(), "");
             }
         })},
        {"begins a step twice",
         {begun_once, the_model},
         recording_each([](store& inner, const step_request& request) {
             put_one(inner, relaxed(request, false, true));
         })},
        {"refuses a retry of a step",
         {begun_once, the_model},
         recording_each([](store& inner, const step_request& request) {
             if (request.is_create_only() && find_step(inner, request.step()))
                 throw error(errc::conflict, "begun before");
             put_one(inner, request);
         })},
        {"tells those who begin a step apart by the time",
         {begun_once},
         recording_each([](store& inner, const step_request& request) {
             const auto existing = find_step(inner, request.step());
             if (request.is_create_only() && existing && !existing->done() && !request.step().done() &&
                 existing->started_at() == request.step().started_at())
                 return;
             put_one(inner, request);
         })},
        {"does not look at the head that a step expects",
         {"a step can expect a head", the_model},
         recording_each([](store& inner, const step_request& request) {
             step_request careless(request.step(), request.is_create_only());
             if (request.replaced())
                 careless.replacing(*request.replaced());
             if (request.is_restored())
                 careless.restored();
             put_one(inner, careless);
         })},
        {"records steps before the saves that they are committed with",
         {"saves and steps can be committed together"},
         {.commit =
              [](store& inner, std::span<const save_request> saves, std::span<const step_request> steps) {
                  commit_outcomes all;
                  all.steps = inner.put_steps(steps);
                  all.saves = inner.save(saves);
                  return all;
              }}},
        {"records steps on checkpoints that are not there",
         {begun_once, the_model},
         recording_each([](store& inner, const step_request& request) {
             put_one(inner, request.replaced() ? request : step_request(request).restored());
         })},
        {"replaces any attempt",
         {same_attempt, the_model},
         recording_each([](store& inner, const step_request& request) {
             put_one(inner, relaxed(request, true, false));
         })},
        {"replaces the attempt of another",
         {same_attempt, the_model},
         recording_each([](store& inner, const step_request& request) {
             const auto existing = find_step(inner, request.step());
             const bool is_pending = existing && !existing->done();
             put_one(inner, relaxed(request, true, !is_pending));
         })},
        {"replaces a step that is done",
         {same_attempt, the_model},
         recording_each([](store& inner, const step_request& request) {
             const auto existing = find_step(inner, request.step());
             const bool was_its_own =
                 existing && existing->done() && request.replaced() == existing->attempt();
             put_one(inner, relaxed(request, true, !was_its_own));
         })},
        {"replaces a step that is not there",
         {same_attempt, the_model},
         recording_each([](store& inner, const step_request& request) {
             const bool is_there = find_step(inner, request.step()).has_value();
             put_one(inner, relaxed(request, true, is_there));
         })},
        {"refuses a retry of a replacement",
         {same_attempt, the_model},
         recording_each([](store& inner, const step_request& request) {
             const auto existing = find_step(inner, request.step());
             if (request.replaced() && existing && existing->done())
                 throw error(errc::conflict, "done already");
             put_one(inner, request);
         })},
        {"refuses restored steps whose checkpoint is gone",
         {restored, the_model},
         recording_each([](store& inner, const step_request& request) {
             auto strict = step_request(request.step(), request.is_create_only());
             if (request.replaced())
                 strict.replacing(*request.replaced());
             put_one(inner, request.step().checkpoint_id() ? strict : request);
         })},
        {"refuses restored steps that replace one that is gone",
         {same_attempt, the_model},
         recording_each([](store& inner, const step_request& request) {
             if (request.replaced() && !find_step(inner, request.step()))
                 throw error(errc::not_found, "no such step");
             put_one(inner, request);
         })},
        {"refuses the end of a step whose checkpoint is gone",
         {go_with_checkpoints, the_model},
         recording_each([](store& inner, const step_request& request) {
             const auto& wanted = request.step();
             if (wanted.checkpoint_id() && !request.is_restored() &&
                 !inner.load(wanted.agent_id(), wanted.scope(), *wanted.checkpoint_id()))
                 throw error(errc::not_found, "no such checkpoint");
             put_one(inner, request);
         })},
    };
}

std::vector<mutant> erasures_of_steps()
{
    return {
        {"forgets to erase a step",
         {step_erased, same_attempt, the_model},
         {.erase_step =
              [](store& inner, text agent, text scope, text key, const std::optional<std::string>& attempt) {
                  validate_id(key, "the step's key");
                  const auto found = find_step(inner, agent, scope, key);
                  return found && (!attempt || (!found->done() && found->attempt() == *attempt));
              }}},
        {"erases steps that are not there",
         {step_erased, the_model},
         {.erase_step =
              [](store& inner, text agent, text scope, text key, const std::optional<std::string>& attempt) {
                  return inner.erase_step(agent, scope, key, attempt) || !attempt;
              }}},
        {"erases the step in every scope",
         {step_erased, the_model},
         {.erase_step =
              [](store& inner, text agent, text scope, text key, const std::optional<std::string>& attempt) {
                  bool was_there = inner.erase_step(agent, scope, key, attempt);
                  for (const auto* each : {"", "sub"})
                      was_there = inner.erase_step(agent, each, key, attempt) || was_there;
                  return was_there;
              }}},
        {"erases any attempt",
         {same_attempt, the_model},
         {.erase_step =
              [](store& inner, text agent, text scope, text key, const std::optional<std::string>&) {
                  return inner.erase_step(agent, scope, key);
              }}},
        {"erases an attempt that is done",
         {same_attempt, the_model},
         {.erase_step =
              [](store& inner, text agent, text scope, text key, const std::optional<std::string>& attempt) {
                  if (key.empty())
                      return inner.erase_step(agent, scope, key);
                  const auto found = find_step(inner, agent, scope, key);
                  return found && (!attempt || found->attempt() == *attempt) &&
                         inner.erase_step(agent, scope, key);
              }}},
        {"leaves steps when their last checkpoint goes",
         {go_with_checkpoints, restored, the_model},
         {.erase =
              [](store& inner, text agent, text scope, text id) {
                  std::vector<step> before;
                  if (!agent.empty() && agent.size() <= max_id_bytes)
                      before = inner.load_steps(step_query(std::string(agent)));
                  const bool was_there = inner.erase(agent, scope, id);
                  for (const auto& each : before)
                      put_one(inner, step_request(each).restored());
                  return was_there;
              }}},
        {"erases steps with the checkpoint that they were made on",
         {go_with_checkpoints, the_model},
         {.erase =
              [](store& inner, text agent, text scope, text id) {
                  const bool was_there = inner.erase(agent, scope, id);
                  if (was_there)
                      for (const auto& each :
                           inner.load_steps(step_query(std::string(agent)).scope(std::string(scope))))
                          if (each.checkpoint_id() == id)
                              inner.erase_step(agent, scope, each.key());
                  return was_there;
              }}},
        {"erases steps with any checkpoint",
         {go_with_checkpoints, the_model},
         {.erase =
              [](store& inner, text agent, text scope, text id) {
                  const bool was_there = inner.erase(agent, scope, id);
                  if (was_there)
                      for (const auto& each :
                           inner.load_steps(step_query(std::string(agent)).scope(std::string(scope))))
                          inner.erase_step(agent, scope, each.key());
                  return was_there;
              }}},
    };
}

} // namespace

std::vector<mutant> mutants_of_steps()
{
    std::vector<mutant> all;
    for (const auto& part : {records(), conditions_of_steps(), erasures_of_steps()})
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

} // namespace waymark::test
