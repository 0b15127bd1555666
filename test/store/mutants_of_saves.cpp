#include "mutants.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <thread>

namespace waymark::test {

namespace {

constexpr const char* replaced_in_place = "an existing key is replaced and keeps its sequence and pin";
constexpr const char* any_change = "a parent, an order or a type alone is a change";
constexpr const char* created_once = "create_only refuses other content and accepts a retry";
constexpr const char* head_guarded = "expect_head guards the head and accepts a retry";
constexpr const char* own_outcomes = "each request of a batch has its own outcome";
constexpr const char* batch_of_one_key = "a batch may save one key twice, or be empty";
constexpr const char* latest_by_sequence = "the latest is decided by sequence, not by the clock";
constexpr const char* apart = "agents and scopes are apart";
constexpr const char* absence = "absence is a value";
constexpr const char* hostile = "hostile ids are data";
constexpr const char* bad_ids = "bad ids are refused by every function";
constexpr const char* bad_values = "bad values are refused and nothing is changed";

std::optional<checkpoint> existing_of(store& inner, const save_request& request)
{
    const auto& wanted = request.checkpoint();
    validate(wanted);
    return inner.load(wanted.agent_id(), wanted.scope(), wanted.id());
}

//! Changes ids on the way in: two that become the same meet.
faults folding(std::string (*fold)(std::string))
{
    const auto by = [fold](text id) { return fold(std::string(id)); };
    auto result = saving_instead([by](const checkpoint& from) {
        return checkpoint(from)
            .with_id(by(from.id()))
            .with_agent(by(from.agent_id()))
            .with_scope(by(from.scope()));
    });
    result.load = [by](store& inner, text agent, text scope, text id) {
        return inner.load(by(agent), by(scope), by(id));
    };
    result.load_latest = [by](store& inner, text agent, text scope) {
        return inner.load_latest(by(agent), by(scope));
    };
    return result;
}

std::string in_lower_case(std::string id)
{
    std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) {
        return c < 0x80 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c);
    });
    return id;
}

std::string without_trailing_dots(std::string id)
{
    const auto end = id.find_last_not_of(". ");
    return end == std::string::npos ? id : id.substr(0, end + 1);
}

std::string composed(std::string id)
{
    return id == "e\xcc\x81" ? "\xc3\xa9" : id;
}

std::string cut_to_200_bytes(std::string id)
{
    return id.substr(0, std::min(id.size(), std::size_t{200}));
}

//! A store that says what the inner one says, but never that something is not valid.
template <class Result, class... Arguments>
auto accepting(Result (store::*call)(Arguments...))
{
    return [call](store& inner, Arguments... arguments) -> Result {
        try {
            return (inner.*call)(arguments...);
        } catch (const error& failure) {
            if (failure.code() != errc::invalid_argument)
                throw;
            return Result();
        }
    };
}

//! The same for a call that takes a control as well.
template <class Call>
auto accepting_upkeep(Call call)
{
    return [call](store& inner, const auto&... arguments) -> decltype(call(inner, arguments...)) {
        try {
            return call(inner, arguments...);
        } catch (const error& failure) {
            if (failure.code() != errc::invalid_argument)
                throw;
            return {};
        }
    };
}

std::vector<mutant> conditions()
{
    return {
        {"ignores create_only",
         {created_once, the_model},
         saving_each([](store& inner, const save_request& request) {
             auto options = save_options();
             if (request.options().expects_head())
                 options.expect_head(request.options().expected_head());
             return inner.save(request.checkpoint(), options);
         })},
        {"ignores expect_head",
         {head_guarded, own_outcomes, the_model},
         saving_each([](store& inner, const save_request& request) {
             auto options = save_options();
             if (request.options().is_create_only())
                 options.create_only();
             return inner.save(request.checkpoint(), options);
         })},
        {"ignores expect_readable_head",
         {head_guarded},
         saving_each([](store& inner, const save_request& request) {
             return inner.save(request.checkpoint(),
                               request.options().passes_over_damage() ? save_options() : request.options());
         })},
        {"takes the expectation of no head for none",
         {head_guarded, the_model},
         saving_each([](store& inner, const save_request& request) {
             const bool expects_none = request.options().expects_head() && !request.options().expected_head();
             return inner.save(request.checkpoint(), expects_none ? save_options() : request.options());
         })},
        {"has one head for all scopes",
         {head_guarded, the_model},
         saving_each([](store& inner, const save_request& request) {
             const auto& wanted = request.checkpoint();
             if (!request.options().expects_head() || existing_of(inner, request))
                 return inner.save(wanted, request.options());
             const auto newest = inner.list(query(wanted.agent_id()).limit(1));
             const auto head = newest.empty() ? std::nullopt : std::optional(newest.front().id());
             if (head != request.options().expected_head())
                 throw error(errc::conflict, "the head is '" + head.value_or("none") + "'");
             return inner.save(wanted);
         })},
        {"refuses a retry with create_only",
         {created_once, own_outcomes, the_model},
         saving_each([](store& inner, const save_request& request) {
             if (request.options().is_create_only() && existing_of(inner, request))
                 throw error(errc::conflict, "'" + request.checkpoint().id() + "' exists");
             return inner.save(request.checkpoint(), request.options());
         })},
        {"refuses a retry with expect_head",
         {head_guarded, own_outcomes, the_model},
         saving_each([](store& inner, const save_request& request) {
             const auto& options = request.options();
             if (existing_of(inner, request) && options.expects_head() &&
                 options.expected_head() != head_of(inner, request.checkpoint()))
                 throw error(errc::conflict, "another head");
             return inner.save(request.checkpoint(), options);
         })},
        {"writes a retry once more",
         {head_guarded},
         saving_each([](store& inner, const save_request& request) {
             const auto result = inner.save(request.checkpoint(), request.options());
             return save_result(result.sequence(), result.bytes_written() + 1);
         })},
        {"does not say whose id is taken, nor which head there is",
         {created_once, head_guarded},
         saving_each([](store& inner, const save_request& request) {
             try {
                 return inner.save(request.checkpoint(), request.options());
             } catch (const error& failure) {
                 throw error(failure.code(), "failed");
             }
         })},
    };
}

//! Takes a checkpoint for the one that is there if both are the same in the eyes of `seen`.
faults replacing_unless_same(std::function<std::string(const checkpoint&)> seen)
{
    return saving_each([seen = std::move(seen)](store& inner, const save_request& request) {
        const auto existing = existing_of(inner, request);
        if (existing && seen(*existing) == seen(request.checkpoint()))
            return save_result(existing->sequence(), 0);
        return inner.save(request.checkpoint(), request.options());
    });
}

std::string as_json(const checkpoint& from)
{
    return boost::json::serialize(boost::json::value_from(checkpoint(from).with_sequence(0)));
}

boost::json::object with_sorted_members(const boost::json::object& from)
{
    std::map<std::string, boost::json::value> members;
    for (const auto& member : from)
        members.emplace(member.key(), member.value());
    return {members.begin(), members.end()};
}

//! 2.0 as 2.
boost::json::object with_integers(boost::json::object from)
{
    for (auto& member : from)
        if (const auto* number = member.value().if_double(); number != nullptr && *number == 2.0)
            member.value() = 2;
    return from;
}

//! As JSON, with the metadata changed.
std::string as_json(const checkpoint& from, boost::json::object (*metadata)(const boost::json::object&))
{
    auto all = boost::json::value_from(checkpoint(from).with_sequence(0));
    all.as_object()["metadata"] = metadata(from.metadata());
    return boost::json::serialize(all);
}

std::vector<mutant> replacements()
{
    return {
        {"does not notice another parent", {any_change}, replacing_unless_same([](const checkpoint& from) {
             return as_json(checkpoint(from).with_parent(std::nullopt));
         })},
        {"does not notice another name", {any_change}, replacing_unless_same([](const checkpoint& from) {
             return as_json(checkpoint(from).with_name(""));
         })},
        {"does not notice another iteration", {any_change}, replacing_unless_same([](const checkpoint& from) {
             return as_json(checkpoint(from).with_iteration(0));
         })},
        {"does not notice another time", {any_change}, replacing_unless_same([](const checkpoint& from) {
             return as_json(checkpoint(from).with_created_at(timestamp()));
         })},
        {"does not notice another order of the metadata",
         {any_change},
         replacing_unless_same([](const checkpoint& from) { return as_json(from, with_sorted_members); })},
        {"does not notice another type of a number in the metadata",
         {any_change},
         replacing_unless_same([](const checkpoint& from) {
             return as_json(from,
                            [](const boost::json::object& metadata) { return with_integers(metadata); });
         })},
        {"does not notice another order of the state",
         {any_change},
         replacing_unless_same([](const checkpoint& from) {
             return as_json(checkpoint(from).with_state(with_sorted_members(from.state())));
         })},
        {"does not notice another type of a number in the state",
         {any_change},
         replacing_unless_same([](const checkpoint& from) {
             return as_json(checkpoint(from).with_state(with_integers(from.state())));
         })},
        {"does not notice another budget of the conversation",
         {any_change},
         replacing_unless_same([](const checkpoint& from) {
             conversation chat(1);
             chat.with_extra(from.conversation().extra());
             for (const auto& each : from.conversation())
                 chat.push(each);
             return as_json(checkpoint(from).with_conversation(std::move(chat)));
         })},
        {"keeps the old content of a key that exists",
         {replaced_in_place, the_model},
         saving_each([](store& inner, const save_request& request) {
             if (const auto existing = existing_of(inner, request);
                 existing && !request.options().is_create_only() && !request.options().expects_head())
                 return save_result(existing->sequence(), 1);
             return inner.save(request.checkpoint(), request.options());
         })},
        {"keeps the old conversation of a key that exists",
         {replaced_in_place, the_model},
         saving_each([](store& inner, const save_request& request) {
             auto wanted = request.checkpoint();
             if (const auto existing = existing_of(inner, request); existing && !(*existing == wanted))
                 wanted.with_conversation(existing->conversation());
             return inner.save(wanted, request.options());
         })},
        {"keeps the old state of a key that exists",
         {replaced_in_place, the_model},
         saving_each([](store& inner, const save_request& request) {
             auto wanted = request.checkpoint();
             if (const auto existing = existing_of(inner, request); existing && !(*existing == wanted))
                 wanted.with_state(existing->state());
             return inner.save(wanted, request.options());
         })},
        {"makes what is replaced the newest",
         {replaced_in_place, batch_of_one_key, the_model},
         saving_each([](store& inner, const save_request& request) {
             const auto& wanted = request.checkpoint();
             const auto existing = existing_of(inner, request);
             const auto result = inner.save(wanted, request.options());
             if (!existing || *existing == wanted)
                 return result;
             const auto pinned = find_header(inner, wanted.agent_id(), wanted.scope(), wanted.id())->pinned();
             inner.erase(wanted.agent_id(), wanted.scope(), wanted.id());
             const auto again = inner.save(wanted);
             inner.pin(wanted.agent_id(), wanted.scope(), wanted.id(), pinned);
             return again;
         })},
        {"unpins what is replaced",
         {replaced_in_place, the_model},
         saving_each([](store& inner, const save_request& request) {
             const auto& wanted = request.checkpoint();
             const auto existing = existing_of(inner, request);
             const auto result = inner.save(wanted, request.options());
             if (existing && !(*existing == wanted))
                 inner.pin(wanted.agent_id(), wanted.scope(), wanted.id(), false);
             return result;
         })},
        {"trusts the sequence that a checkpoint brings",
         {"the store ignores the sequence that a checkpoint brings"},
         [] {
             struct memory {
                 std::mutex mutex;
                 std::map<checkpoint_key, std::int64_t> brought;
             };
             const auto known = std::make_shared<memory>();
             auto result = saving_instead([known](const checkpoint& from) {
                 const std::lock_guard lock(known->mutex);
                 if (from.sequence() != 0)
                     known->brought[from.key()] = from.sequence();
                 return from;
             });
             result.load = [known](store& inner, text agent, text scope, text id) {
                 auto found = inner.load(agent, scope, id);
                 const std::lock_guard lock(known->mutex);
                 if (found)
                     if (const auto brought = known->brought.find(found->key());
                         brought != known->brought.end())
                         found->with_sequence(brought->second);
                 return found;
             };
             return result;
         }},
    };
}

std::vector<mutant> batches()
{
    const auto plain = [](store& inner, const save_request& request) {
        return inner.save(std::span(&request, 1)).at(0);
    };
    return {
        {"returns the outcomes of a batch the other way round",
         {own_outcomes, the_model},
         {.save =
              [](store& inner, std::span<const save_request> batch) {
                  auto outcomes = inner.save(batch);
                  std::reverse(outcomes.begin(), outcomes.end());
                  return outcomes;
              }}},
        {"stops a batch at the first failure",
         {own_outcomes, the_model},
         {.save =
              [plain](store& inner, std::span<const save_request> batch) {
                  std::vector<save_outcome> outcomes;
                  for (const auto& request : batch)
                      outcomes.push_back(!outcomes.empty() && outcomes.back().code() ? outcomes.back()
                                                                                     : plain(inner, request));
                  return outcomes;
              }}},
        {"throws when one request of a batch fails",
         {own_outcomes, the_model},
         {.save =
              [](store& inner, std::span<const save_request> batch) {
                  auto outcomes = inner.save(batch);
                  if (batch.size() > 1)
                      for (const auto& each : outcomes)
                          each.value_or_throw();
                  return outcomes;
              }}},
        {"looks at all conditions of a batch before it saves",
         {own_outcomes, the_model},
         {.save =
              [plain](store& inner, std::span<const save_request> batch) {
                  std::vector<bool> fits;
                  for (const auto& request : batch)
                      fits.push_back(!request.options().expects_head() || existing_of(inner, request) ||
                                     head_of(inner, request.checkpoint()) ==
                                         request.options().expected_head());
                  std::vector<save_outcome> outcomes;
                  for (std::size_t i = 0; i < batch.size(); ++i)
                      outcomes.push_back(fits[i] ? plain(inner, batch[i])
                                                 : save_outcome(error(errc::conflict, "another head")));
                  return outcomes;
              }}},
        {"saves a batch from its end",
         {own_outcomes, batch_of_one_key, the_model},
         {.save =
              [](store& inner, std::span<const save_request> batch) {
                  std::vector<save_request> turned(batch.rbegin(), batch.rend());
                  auto outcomes = inner.save(turned);
                  std::reverse(outcomes.begin(), outcomes.end());
                  return outcomes;
              }}},
        {"saves the first request of a batch only",
         {own_outcomes, "ten thousand checkpoints", the_model},
         {.save =
              [plain](store& inner, std::span<const save_request> batch) {
                  std::vector<save_outcome> outcomes(batch.size());
                  if (!batch.empty())
                      outcomes.front() = plain(inner, batch.front());
                  return outcomes;
              }}},
        {"refuses an empty batch",
         {batch_of_one_key},
         {.save =
              [](store& inner, std::span<const save_request> batch) {
                  if (batch.empty())
                      throw error(errc::invalid_argument, "an empty batch");
                  return inner.save(batch);
              }}},
        {"lets one thread in at a time, and sends the others away",
         {"threads may share a store"},
         [] {
             return faults{.save = [busy = std::make_shared<std::mutex>()](
                                       store& inner, std::span<const save_request> batch) {
                 const std::unique_lock lock(*busy, std::try_to_lock);
                 if (!lock)
                     throw error(errc::busy, "another thread is at work");
                 // As long as a disk takes.
                 std::this_thread::sleep_for(std::chrono::microseconds(50));
                 return inner.save(batch);
             }};
         }},
    };
}

std::vector<mutant> loads()
{
    return {
        {"loads the latest by the clock",
         {latest_by_sequence, the_model},
         {.load_latest =
              [](store& inner, text agent, text scope) {
                  auto latest = inner.load_latest(agent, scope);
                  if (latest)
                      for (const auto& each :
                           inner.load_all(query(std::string(agent)).scope(std::string(scope))))
                          if (each.created_at() > latest->created_at())
                              latest = each;
                  return latest;
              }}},
        {"loads the latest of any scope",
         {absence, apart, the_model},
         {.load_latest =
              [](store& inner, text agent, text scope) {
                  inner.load_latest(agent, scope);
                  const auto newest = inner.load_all(query(std::string(agent)).limit(1));
                  return newest.empty() ? std::nullopt : std::optional(newest.front());
              }}},
        {"loads the latest of the default scope",
         {absence, the_model},
         {.load_latest =
              [](store& inner, text agent, text scope) {
                  const auto own = inner.load_latest(agent, scope);
                  return own ? own : inner.load_latest(agent);
              }}},
        {"loads a checkpoint from any scope",
         {absence, the_model},
         {.load =
              [](store& inner, text agent, text scope, text id) {
                  const auto own = inner.load(agent, scope, id);
                  return own ? own : inner.load(agent, "", id);
              }}},
        {"finds the first of several with the same id",
         {apart, the_model},
         {.load_by_id = [](store& inner, text id) -> std::optional<checkpoint> {
             validate_id(id, "the checkpoint id");
             for (auto& each : inner.load_all(query::all_agents()))
                 if (each.id() == id)
                     return each;
             return std::nullopt;
         }}},
        {"finds ids in the default scope only",
         {"what was saved is loaded, every field of it", the_model},
         {.load_by_id =
              [](store& inner, text id) {
                  auto found = inner.load(id);
                  return found && found->scope().empty() ? found : std::nullopt;
              }}},
        {"fails to load what is not there",
         {absence, the_model},
         {.load =
              [](store& inner, text agent, text scope, text id) {
                  auto found = inner.load(agent, scope, id);
                  if (!found)
                      throw error(errc::not_found, "no such checkpoint");
                  return found;
              }}},
        {"finds an id without its sequence",
         {"what was saved is loaded, every field of it"},
         {.load_by_id =
              [](store& inner, text id) {
                  auto found = inner.load(id);
                  if (found)
                      found->with_sequence(0);
                  return found;
              }}},
        {"loads the latest without its sequence",
         {"what was saved is loaded, every field of it", latest_by_sequence},
         {.load_latest =
              [](store& inner, text agent, text scope) {
                  auto found = inner.load_latest(agent, scope);
                  if (found)
                      found->with_sequence(0);
                  return found;
              }}},
        {"loads without a sequence",
         {"what was saved is loaded, every field of it"},
         {.load =
              [](store& inner, text agent, text scope, text id) {
                  auto found = inner.load(agent, scope, id);
                  if (found)
                      found->with_sequence(0);
                  return found;
              }}},
    };
}

std::vector<mutant> inputs()
{
    return {
        {"folds the case of ids", {hostile, "agents are listed in order"}, folding(in_lower_case)},
        {"drops dots and spaces at the end of ids", {hostile}, folding(without_trailing_dots)},
        {"composes the characters of ids", {hostile}, folding(composed)},
        {"cuts long ids", {hostile}, folding(cut_to_200_bytes)},
        {"accepts values that cannot be stored",
         {bad_ids, bad_values},
         {.save =
              [](store& inner, std::span<const save_request> batch) {
                  auto outcomes = inner.save(batch);
                  for (auto& each : outcomes)
                      if (each.code() == errc::invalid_argument)
                          each = save_result();
                  return outcomes;
              }}},
        {"refuses a bad value after it has erased the old one",
         {bad_values},
         saving_each([](store& inner, const save_request& request) {
             const auto& wanted = request.checkpoint();
             try {
                 return inner.save(wanted, request.options());
             } catch (const error& failure) {
                 if (failure.code() == errc::invalid_argument && wanted.id() == "good")
                     inner.erase(wanted.agent_id(), wanted.scope(), wanted.id());
                 throw;
             }
         })},
        {"refuses without a word",
         {bad_ids, bad_values},
         saving_each([](store& inner, const save_request& request) {
             try {
                 return inner.save(request.checkpoint(), request.options());
             } catch (const error& failure) {
                 throw error(failure.code(), "");
             }
         })},
        {"loads by any id",
         {bad_ids},
         {.load = accepting<std::optional<checkpoint>, text, text, text>(&store::load)}},
        {"finds any id", {bad_ids}, {.load_by_id = accepting<std::optional<checkpoint>, text>(&store::load)}},
        {"loads the latest of any id", {bad_ids}, {.load_latest = accepting(&store::load_latest)}},
        {"lists by any id", {bad_ids}, {.list = accepting(&store::list)}},
        {"loads all by any id", {bad_ids}, {.load_all = accepting(&store::load_all)}},
        {"counts by any id", {bad_ids}, {.count = accepting(&store::count)}},
        {"lists agents after any id", {bad_ids}, {.list_agents = accepting(&store::list_agents)}},
        {"erases by any id", {bad_ids}, {.erase = accepting(&store::erase)}},
        {"erases scopes by any id",
         {bad_ids},
         {.erase_scope = accepting_upkeep(
              [](store& inner, text agent, text scope) { return inner.erase_scope(agent, scope); })}},
        {"erases agents by any id", {bad_ids}, {.erase_agent = accepting(&store::erase_agent)}},
        {"copies by any id", {bad_ids}, {.copy_agent = accepting_upkeep([](store& inner, text from, text to) {
                                             return inner.copy_agent(from, to);
                                         })}},
        {"prunes by any id",
         {bad_ids},
         {.prune = accepting_upkeep([](store& inner, text agent, const retention& policies, dry_run dry) {
              return inner.prune(agent, policies, dry);
          })}},
        {"pins by any id", {bad_ids}, {.pin = accepting(&store::pin)}},
        {"erases steps by any id", {bad_ids}, {.erase_step = accepting(&store::erase_step)}},
        {"has statistics of any id", {bad_ids}, {.stats_of = accepting<store_stats, text>(&store::stats)}},
        {"records steps of any key",
         {bad_ids},
         {.put_steps =
              [](store& inner, std::span<const step_request> batch) {
                  auto outcomes = inner.put_steps(batch);
                  for (auto& each : outcomes)
                      if (each.code() == errc::invalid_argument)
                          each = stored{};
                  return outcomes;
              }}},
    };
}

} // namespace

std::vector<mutant> mutants_of_saves()
{
    std::vector<mutant> all;
    for (const auto& part : {conditions(), replacements(), batches(), loads(), inputs()})
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

} // namespace waymark::test
