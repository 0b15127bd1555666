#include "mutants.hpp"

#include <algorithm>

namespace waymark::test {

namespace {

constexpr const char* erased = "erase removes one checkpoint";
constexpr const char* agent_erased = "erase_agent removes everything of an agent";
constexpr const char* scope_erased = "erase_scope removes one scope";
constexpr const char* copied = "copy_agent copies everything of an agent";
constexpr const char* pruned = "prune keeps the newest and the head, and has a dry run";
constexpr const char* pruned_by_size = "prune by age and by bytes";
constexpr const char* thinned = "prune thins as Breakpilot did";
constexpr const char* pruned_by_any = "what any policy removes is removed";
constexpr const char* pruned_in_a_scope = "prune can be limited to a scope";
constexpr const char* kept = "pins and pending steps protect from retention";
constexpr const char* counted = "verify reports and stats count";
constexpr const char* counted_for_one = "stats of an agent count its own";

retention without_scope(const retention& from)
{
    retention to;
    if (from.keep_last())
        to.keep_last(*from.keep_last());
    if (from.max_age())
        to.max_age(*from.max_age());
    if (from.max_bytes())
        to.max_bytes(*from.max_bytes());
    if (from.thin_after())
        to.thin_after(*from.thin_after());
    return to;
}

//! The policies, but for those that `change` sets anew.
faults pruning_by(std::function<retention(const retention&)> change)
{
    return {.prune = [change = std::move(change)](store& inner, text agent, const retention& policies,
                                                  dry_run dry) {
        auto changed = change(policies);
        if (policies.scope() && !changed.scope())
            changed.only_scope(*policies.scope());
        return inner.prune(agent, changed, dry);
    }};
}

//! Removes what prune of a store in memory would keep, behind its back.
void remove(store& inner, const checkpoint_header& which)
{
    inner.erase(which.agent_id(), which.scope(), which.id());
}

//! Everything of an agent anew, as if it had never held anything else: checkpoints and pins.
void renumber(store& inner, text agent)
{
    const auto all = query(std::string(agent)).oldest_first();
    const auto headers = inner.list(all);
    const auto whole = inner.load_all(all);
    const auto steps = inner.load_steps(step_query(std::string(agent)));
    inner.erase_agent(agent);
    for (std::size_t i = 0; i < whole.size(); ++i) {
        inner.save(whole[i]);
        inner.pin(agent, whole[i].scope(), whole[i].id(), headers[i].pinned());
    }
    for (const auto& each : steps)
        put_one(inner, step_request(each).restored());
}

std::vector<mutant> erasures()
{
    return {
        {"forgets to erase a checkpoint",
         {erased, the_model},
         {.erase = [](store& inner, text agent, text scope,
                      text id) { return inner.load(agent, scope, id).has_value(); }}},
        {"erases a checkpoint that is not there",
         {erased, "absence is a value", the_model},
         {.erase =
              [](store& inner, text agent, text scope, text id) {
                  inner.erase(agent, scope, id);
                  return true;
              }}},
        {"does not erase what is pinned",
         {erased, the_model},
         {.erase =
              [](store& inner, text agent, text scope, text id) {
                  const auto found = find_header(inner, agent, scope, id);
                  return !(found && found->pinned()) && inner.erase(agent, scope, id);
              }}},
        {"uses the sequence of an erased head again",
         {erased},
         {.erase =
              [](store& inner, text agent, text scope, text id) {
                  const bool was_there = inner.erase(agent, scope, id);
                  if (was_there)
                      renumber(inner, agent);
                  return was_there;
              }}},
        {"erases the id in every scope",
         {erased, the_model},
         {.erase =
              [](store& inner, text agent, text scope, text id) {
                  const bool was_there = inner.erase(agent, scope, id);
                  if (was_there)
                      for (const auto& each : inner.list(query(std::string(agent))))
                          if (each.id() == id)
                              remove(inner, each);
                  return was_there;
              }}},
        {"leaves the other scopes when it erases an agent",
         {agent_erased, the_model},
         {.erase_agent = [](store& inner, text agent) { return inner.erase_scope(agent, ""); }}},
        {"leaves the steps of an erased agent",
         {agent_erased, the_model},
         {.erase_agent =
              [](store& inner, text agent) {
                  const auto steps =
                      agent.empty() ? std::vector<step>() : inner.load_steps(step_query(std::string(agent)));
                  const auto count = inner.erase_agent(agent);
                  for (const auto& each : steps)
                      put_one(inner, step_request(each).restored());
                  return count;
              }}},
        {"erases agents whose names begin the same",
         {agent_erased},
         {.erase_agent =
              [](store& inner, text agent) {
                  const auto count = inner.erase_agent(agent);
                  for (const auto& each : inner.list_agents())
                      if (each.starts_with(agent))
                          inner.erase_agent(each);
                  return count;
              }}},
        {"miscounts what it erases of an agent",
         {agent_erased, the_model},
         {.erase_agent = [](store& inner, text agent) { return inner.erase_agent(agent) / 2; }}},
        {"leaves the steps of an erased scope",
         {scope_erased, the_model},
         {.erase_scope =
              [](store& inner, text agent, text scope) {
                  const auto steps =
                      agent.empty()
                          ? std::vector<step>()
                          : inner.load_steps(step_query(std::string(agent)).scope(std::string(scope)));
                  const auto count = inner.erase_scope(agent, scope);
                  for (const auto& each : steps)
                      put_one(inner, step_request(each).restored());
                  return count;
              }}},
        {"erases the agent instead of its scope",
         {scope_erased, the_model},
         {.erase_scope = [](store& inner, text agent, text) { return inner.erase_agent(agent); }}},
        {"forgets to erase a scope",
         {scope_erased, the_model},
         {.erase_scope =
              [](store& inner, text agent, text scope) {
                  validate_id(agent, "the agent id");
                  return inner.count(query(std::string(agent)).scope(std::string(scope)));
              }}},
        {"leaves pinned checkpoints of an erased scope",
         {scope_erased, the_model},
         {.erase_scope = [](store& inner, text agent, text scope) -> std::uint64_t {
             validate_id(agent, "the agent id");
             std::uint64_t count = 0;
             bool has_pinned = false;
             for (const auto& each : inner.list(query(std::string(agent)).scope(std::string(scope))))
                 if (each.pinned())
                     has_pinned = true;
                 else
                     count += inner.erase(agent, scope, each.id()) ? 1 : 0;
             return has_pinned ? count : count + inner.erase_scope(agent, scope);
         }}},
        {"begins to count anew after a scope was erased",
         {scope_erased},
         {.erase_scope =
              [](store& inner, text agent, text scope) {
                  const auto count = inner.erase_scope(agent, scope);
                  renumber(inner, agent);
                  return count;
              }}},
    };
}

std::vector<mutant> copies()
{
    return {
        {"forgets the steps of a copy",
         {copied, the_model},
         {.copy_agent =
              [](store& inner, text from, text to) {
                  const auto count = inner.copy_agent(from, to);
                  for (const auto& each : inner.load_steps(step_query(std::string(to))))
                      inner.erase_step(to, each.scope(), each.key());
                  return count;
              }}},
        {"forgets the results of a copy's steps",
         {copied, the_model},
         {.copy_agent =
              [](store& inner, text from, text to) {
                  const auto count = inner.copy_agent(from, to);
                  for (const auto& each : inner.load_steps(step_query(std::string(to))))
                      put_one(inner, step_request(step(std::string(to), each.scope(), each.key())
                                                      .with_attempt(each.attempt())
                                                      .with_checkpoint(each.checkpoint_id())
                                                      .with_started_at(each.started_at()))
                                         .restored());
                  return count;
              }}},
        {"forgets the pins of a copy",
         {copied, the_model},
         {.copy_agent =
              [](store& inner, text from, text to) {
                  const auto count = inner.copy_agent(from, to);
                  for (const auto& each : inner.list(query(std::string(to))))
                      inner.pin(to, each.scope(), each.id(), false);
                  return count;
              }}},
        {"forgets the scopes of a copy",
         {copied, the_model},
         {.copy_agent =
              [](store& inner, text from, text to) {
                  auto count = inner.copy_agent(from, to);
                  for (const auto& each : inner.list(query(std::string(to))))
                      if (!each.scope().empty())
                          remove(inner, each);
                  return count;
              }}},
        {"turns the order of a copy round",
         {copied, the_model},
         {.copy_agent =
              [](store& inner, text from, text to) {
                  const auto count = inner.copy_agent(from, to);
                  const auto all = inner.load_all(query(std::string(to)));
                  const auto headers = inner.list(query(std::string(to)));
                  const auto steps = inner.load_steps(step_query(std::string(to)));
                  inner.erase_agent(to);
                  for (std::size_t i = 0; i < all.size(); ++i) {
                      inner.save(all[i]);
                      inner.pin(to, all[i].scope(), all[i].id(), headers[i].pinned());
                  }
                  for (const auto& each : steps)
                      put_one(inner, step_request(each).restored());
                  return count;
              }}},
        {"copies over an agent that exists",
         {copied, the_model},
         {.copy_agent =
              [](store& inner, text from, text to) {
                  validate_id(from, "the agent id");
                  if (from == to)
                      return inner.count(query(std::string(from)));
                  const auto agents = inner.list_agents(); // without the origin there is nothing to copy over
                  if (std::find(agents.begin(), agents.end(), from) != agents.end())
                      inner.erase_agent(to);
                  return inner.copy_agent(from, to);
              }}},
        {"copies an agent that is not there",
         {copied, the_model},
         {.copy_agent = [](store& inner, text from, text to) -> std::uint64_t {
             try {
                 return inner.copy_agent(from, to);
             } catch (const error& failure) {
                 if (failure.code() != errc::not_found)
                     throw;
                 return 0;
             }
         }}},
        {"moves instead of copying",
         {copied, the_model},
         {.copy_agent =
              [](store& inner, text from, text to) {
                  const auto count = inner.copy_agent(from, to);
                  inner.erase_agent(from);
                  return count;
              }}},
    };
}

std::vector<mutant> prunings()
{
    return {
        {"keeps one too few",
         {pruned, "ten thousand checkpoints", the_model},
         pruning_by([](const retention& from) {
             return from.keep_last() && *from.keep_last() > 0
                        ? retention(from).keep_last(*from.keep_last() - 1)
                        : from;
         })},
        {"keeps one too many",
         {pruned, "ten thousand checkpoints", the_model},
         pruning_by([](const retention& from) {
             return from.keep_last() ? retention(from).keep_last(*from.keep_last() + 1) : from;
         })},
        {"prunes although it runs dry",
         {pruned, the_model},
         {.prune = [](store& inner, text agent, const retention& policies,
                      dry_run) { return inner.prune(agent, policies, dry_run::no); }}},
        {"only says that it prunes",
         {pruned, pruned_by_any, pruned_in_a_scope, the_model},
         {.prune = [](store& inner, text agent, const retention& policies,
                      dry_run) { return inner.prune(agent, policies, dry_run::yes); }}},
        {"prunes the head where none is to be kept",
         {pruned, the_model},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  auto result = inner.prune(agent, policies, dry);
                  if (dry == dry_run::no && policies.keep_last() == 0)
                      for (const auto& each : inner.list(query(std::string(agent))))
                          if (!each.pinned())
                              remove(inner, each);
                  return result;
              }}},
        {"names what it pruned the newest first",
         {pruned, the_model},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  const auto result = inner.prune(agent, policies, dry);
                  return prune_result({result.removed().rbegin(), result.removed().rend()}, result.bytes());
              }}},
        {"does not say how many bytes became free",
         {pruned, pruned_in_a_scope},
         {.prune = [](store& inner, text agent, const retention& policies,
                      dry_run dry) { return prune_result(inner.prune(agent, policies, dry).removed(), 0); }}},
        {"says another number of bytes when it runs dry",
         {pruned},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  const auto result = inner.prune(agent, policies, dry);
                  return prune_result(result.removed(), result.bytes() + (dry == dry_run::yes ? 1 : 0));
              }}},
        {"prunes messages that others share",
         {pruned, the_model},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  const auto result = inner.prune(agent, policies, dry);
                  if (dry == dry_run::no && result.count() > 0)
                      for (const auto& each : inner.load_all(query(std::string(agent)))) {
                          conversation rest(each.conversation().max_tokens());
                          for (std::size_t i = 1; i < each.conversation().size(); ++i)
                              rest.push(each.conversation()[i]);
                          inner.save(checkpoint(each).with_conversation(rest));
                      }
                  return result;
              }}},
        {"prunes other agents, too",
         {pruned},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  const auto result = inner.prune(agent, policies, dry);
                  for (const auto& each : inner.list_agents())
                      if (each != agent)
                          inner.prune(each, policies, dry);
                  return result;
              }}},
        {"takes all scopes for one when it prunes",
         {pruned, the_model},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  const auto result = inner.prune(agent, policies, dry);
                  if (dry == dry_run::no && policies.keep_last() && !policies.scope()) {
                      const auto left = inner.list(query(std::string(agent)));
                      for (auto i = std::max<std::size_t>(*policies.keep_last(), 1); i < left.size(); ++i)
                          if (!left[i].pinned())
                              remove(inner, left[i]);
                  }
                  return result;
              }}},
        {"ignores the greatest age",
         {pruned_by_size, pruned_by_any, the_model},
         pruning_by([](const retention& from) {
             return from.max_age() ? without_scope(from).max_age(std::chrono::microseconds::max()) : from;
         })},
        {"keeps 200 bytes too many", {pruned_by_size}, pruning_by([](const retention& from) {
             return from.max_bytes() ? retention(from).max_bytes(*from.max_bytes() + 200) : from;
         })},
        {"keeps a byte too many", {pruned_by_size}, pruning_by([](const retention& from) {
             return from.max_bytes() ? retention(from).max_bytes(*from.max_bytes() + 1) : from;
         })},
        {"keeps a byte too few", {pruned_by_size}, pruning_by([](const retention& from) {
             return from.max_bytes()
                        ? retention(from).max_bytes(std::max<std::uint64_t>(*from.max_bytes(), 1) - 1)
                        : from;
         })},
        {"says one byte too many of what became free",
         {pruned},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  const auto result = inner.prune(agent, policies, dry);
                  return prune_result(result.removed(), result.bytes() + 1);
              }}},
        {"ignores the greatest size", {pruned_by_size}, pruning_by([](const retention& from) {
             return from.max_bytes() ? without_scope(from).max_bytes(~std::uint64_t{0}) : from;
         })},
        {"does not thin", {thinned}, pruning_by([](const retention& from) {
             return from.thin_after() ? without_scope(from).thin_after(static_cast<std::size_t>(-1)) : from;
         })},
        {"thins one too early", {thinned}, pruning_by([](const retention& from) {
             return from.thin_after()
                        ? without_scope(from).thin_after(std::max<std::size_t>(*from.thin_after(), 1) - 1)
                        : from;
         })},
        {"obeys one policy of several", {pruned_by_any, the_model}, pruning_by([](const retention& from) {
             return from.keep_last() ? retention().keep_last(*from.keep_last()) : from;
         })},
        {"prunes all scopes where one was meant",
         {pruned_in_a_scope, the_model},
         {.prune = [](store& inner, text agent, const retention& policies,
                      dry_run dry) { return inner.prune(agent, without_scope(policies), dry); }}},
        {"forgets pins",
         {"an existing key is replaced and keeps its sequence and pin", kept, copied, the_model},
         {.pin = [](store& inner, text agent, text scope, text id,
                    bool) { return inner.load(agent, scope, id).has_value(); }}},
        {"never unpins",
         {kept, the_model},
         {.pin = [](store& inner, text agent, text scope, text id,
                    bool) { return inner.pin(agent, scope, id, true); }}},
        {"pins what is not there",
         {"absence is a value", the_model},
         {.pin =
              [](store& inner, text agent, text scope, text id, bool pinned) {
                  inner.pin(agent, scope, id, pinned);
                  return true;
              }}},
        {"prunes what is pinned",
         {kept, the_model},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  std::vector<checkpoint_header> pinned;
                  if (!agent.empty())
                      for (const auto& each : inner.list(query(std::string(agent))))
                          if (each.pinned())
                              pinned.push_back(each);
                  for (const auto& each : pinned)
                      inner.pin(agent, each.scope(), each.id(), false);
                  const auto result = inner.prune(agent, policies, dry);
                  for (const auto& each : pinned)
                      inner.pin(agent, each.scope(), each.id(), true);
                  return result;
              }}},
        {"prunes what a pending step needs",
         {kept, the_model},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  std::vector<step> pending;
                  if (!agent.empty())
                      pending = inner.load_steps(step_query(std::string(agent)).pending_only());
                  for (const auto& each : pending)
                      inner.erase_step(agent, each.scope(), each.key());
                  const auto result = inner.prune(agent, policies, dry);
                  for (const auto& each : pending)
                      put_one(inner, step_request(each).restored());
                  return result;
              }}},
        {"keeps what a finished step was made on",
         {kept, the_model},
         {.prune =
              [](store& inner, text agent, const retention& policies, dry_run dry) {
                  std::vector<step> done;
                  if (!agent.empty())
                      done = inner.load_steps(step_query(std::string(agent)));
                  std::erase_if(done, [](const step& each) { return !each.done() || !each.checkpoint_id(); });
                  for (const auto& each : done)
                      inner.pin(agent, each.scope(), *each.checkpoint_id(), true);
                  return inner.prune(agent, policies, dry);
              }}},
        {"forgets pins when it is opened again",
         {kept, "an existing key is replaced and keeps its sequence and pin"},
         [] {
             const auto pins = std::make_shared<std::vector<checkpoint_key>>();
             const auto forget_others = [pins](store& inner) {
                 for (const auto& each : inner.list(query::all_agents()))
                     if (each.pinned() && std::find(pins->begin(), pins->end(), each.key()) == pins->end())
                         inner.pin(each.agent_id(), each.scope(), each.id(), false);
             };
             return faults{.list =
                               [=](store& inner, const query& asked) {
                                   forget_others(inner);
                                   return inner.list(asked);
                               },
                           .prune =
                               [=](store& inner, text agent, const retention& policies, dry_run dry) {
                                   forget_others(inner);
                                   return inner.prune(agent, policies, dry);
                               },
                           .pin =
                               [=](store& inner, text agent, text scope, text id, bool pinned) {
                                   pins->emplace_back(std::string(agent), std::string(scope),
                                                      std::string(id));
                                   return inner.pin(agent, scope, id, pinned);
                               }};
         }},
    };
}

std::vector<mutant> statistics()
{
    return {
        {"reports damage where there is none",
         {counted, pruned, erased, the_model},
         {.verify =
              [](store& inner, const upkeep_control& control) {
                  const auto report = inner.verify(control);
                  return verify_report(report.checked(), {{checkpoint_key(), "looks odd"}});
              }}},
        {"verifies without looking",
         {counted},
         {.verify = [](store&, const upkeep_control&) { return verify_report(); }}},
        {"verifies without saying how far it is",
         {counted},
         {.verify = [](store& inner, const upkeep_control&) { return inner.verify(); }}},
        {"does not say when it has verified all",
         {counted},
         {.verify =
              [](store& inner, const upkeep_control& control) {
                  control.report({0, 5});
                  return inner.verify();
              }}},
        {"loses checkpoints when it compacts",
         {counted},
         {.compact =
              [](store& inner) {
                  for (const auto& agent : inner.list_agents())
                      inner.prune(agent, retention().keep_last(1), dry_run::no);
                  return inner.compact();
              }}},
        {"removes steps without a checkpoint when it compacts",
         {counted},
         {.compact =
              [](store& inner) {
                  for (const auto& agent : inner.list_agents())
                      for (const auto& each : inner.load_steps(step_query(agent)))
                          if (!each.checkpoint_id())
                              inner.erase_step(agent, each.scope(), each.key());
                  return inner.compact();
              }}},
        {"removes the steps of scopes without a checkpoint when it compacts",
         {counted},
         {.compact =
              [](store& inner) {
                  for (const auto& agent : inner.list_agents())
                      for (const auto& each : inner.load_steps(step_query(agent)))
                          if (!inner.load_latest(agent, each.scope()))
                              inner.erase_step(agent, each.scope(), each.key());
                  return inner.compact();
              }}},
        {"never knows what became of a call",
         {"on a healthy store there is no outcome to wait for"},
         {.await_outcome = [](store&, text) { throw error(errc::busy, "it is still unknown; try again"); }}},
        {"has no lane for writes", {counted}, {.write_lanes = [](const store&) { return std::size_t{0}; }}},
        {"counts agents that are gone",
         {agent_erased, counted, the_model},
         {.stats =
              [](store& inner) {
                  auto result = inner.stats();
                  ++result.agents;
                  return result;
              }}},
        {"counts steps as checkpoints",
         {"steps are recorded and found", the_model},
         {.stats =
              [](store& inner) {
                  auto result = inner.stats();
                  result.checkpoints += result.steps;
                  result.steps = 0;
                  return result;
              }}},
        {"does not count bytes",
         {counted},
         {.stats =
              [](store& inner) {
                  auto result = inner.stats();
                  result.bytes = 0;
                  return result;
              }}},
        {"counts everything for every agent",
         {counted_for_one, the_model},
         {.stats_of =
              [](store& inner, text agent) {
                  inner.stats(agent);
                  return inner.stats();
              }}},
        {"does not count the steps of an agent",
         {counted_for_one, the_model},
         {.stats_of =
              [](store& inner, text agent) {
                  auto result = inner.stats(agent);
                  result.steps = 0;
                  return result;
              }}},
        {"counts the bytes of all agents for one",
         {counted_for_one},
         {.stats_of =
              [](store& inner, text agent) {
                  auto result = inner.stats(agent);
                  result.bytes = inner.stats().bytes;
                  return result;
              }}},
    };
}

} // namespace

std::vector<mutant> mutants_of_upkeep()
{
    std::vector<mutant> all;
    for (const auto& part : {erasures(), copies(), prunings(), statistics()})
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

} // namespace waymark::test
