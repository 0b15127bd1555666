#include "mutants.hpp"

#include <mutex>
#include <thread>

namespace waymark::test {

namespace {

constexpr const char* one_head = "of many who expect the same head, one saves";
constexpr const char* one_checkpoint = "of many who create the same checkpoint, one does";
constexpr const char* one_begin = "of many who begin the same step, one does";
constexpr const char* one_replacement = "of many who replace the same attempt, one does";
constexpr const char* one_end = "of many who end or erase the same attempt, one does";
constexpr const char* one_copy = "of many who copy onto the same agent, one does";
constexpr const char* nothing_lost = "what is done at once is all there";

//! Between the look and the write: long enough for the others to run meanwhile, on busy cores, too.
void pause()
{
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

//! Looks whether the options hold, and saves later, without them.
save_result look_then_save(store& inner, const save_request& request)
{
    const auto& wanted = request.checkpoint();
    const auto& options = request.options();
    validate(wanted);
    const auto existing = inner.load(wanted.agent_id(), wanted.scope(), wanted.id());
    if (existing && *existing == wanted)
        return inner.save(wanted);
    if (options.is_create_only() && existing)
        throw error(errc::conflict, "'" + wanted.id() + "' exists");
    const auto head = head_of(inner, wanted);
    if (options.expects_head() && options.expected_head() != head)
        throw error(errc::conflict, "the head is '" + head.value_or("none") + "'");
    if (options.is_create_only() || options.expects_head())
        pause();
    return inner.save(wanted);
}

void look_then_put(store& inner, const step_request& request)
{
    const auto& wanted = request.step();
    validate(wanted);
    const auto existing = find_step(inner, wanted);
    if (existing && *existing == wanted)
        return;
    if (request.is_create_only() && existing)
        throw error(errc::conflict, "begun before");
    if (request.replaced()) {
        if (!existing && !request.is_restored())
            throw error(errc::not_found, "no such step");
        if (existing && (existing->done() || existing->attempt() != *request.replaced()))
            throw error(errc::conflict, "done, or another attempt's");
    }
    if (request.is_create_only() || request.replaced())
        pause();
    auto unconditional = step_request(wanted);
    if (request.is_restored())
        unconditional.restored();
    put_one(inner, unconditional);
}

bool look_then_erase(store& inner, text agent, text scope, text key,
                     const std::optional<std::string>& attempt)
{
    validate_id(key, "the step's key");
    const auto existing = find_step(inner, agent, scope, key);
    if (!existing || (attempt && (existing->done() || existing->attempt() != *attempt)))
        return false;
    if (attempt)
        pause();
    return inner.erase_step(agent, scope, key);
}

std::uint64_t look_then_copy(store& inner, text from, text to)
{
    const auto origin = query(std::string(from));
    if (inner.count(origin) == 0 || inner.count(query(std::string(to))) > 0)
        return inner.copy_agent(from, to);
    pause();
    for (const auto& each : inner.load_all(query(origin).oldest_first()))
        inner.save(checkpoint(each).with_agent(std::string(to)));
    for (const auto& each : inner.list(origin))
        inner.pin(to, each.scope(), each.id(), each.pinned());
    for (const auto& each : inner.load_steps(step_query(std::string(from))))
        put_one(inner, step_request(step(each).with_agent(std::string(to))).restored());
    return inner.count(origin);
}

//! Reads, changes and writes back the whole record.
bool pin_by_rewriting(store& inner, text agent, text scope, text id, bool pinned)
{
    const auto read = inner.load(agent, scope, id);
    if (!read)
        return false;
    pause();
    inner.save(*read);
    return inner.pin(agent, scope, id, pinned);
}

//! Keeps the pin, as it was when the save began.
save_result save_with_old_pin(store& inner, const save_request& request)
{
    const auto& wanted = request.checkpoint();
    validate(wanted);
    const auto before = find_header(inner, wanted.agent_id(), wanted.scope(), wanted.id());
    if (before)
        pause();
    const auto result = inner.save(wanted, request.options());
    if (before)
        inner.pin(wanted.agent_id(), wanted.scope(), wanted.id(), before->pinned());
    return result;
}

//! Holds a lock from the look to the write: enough for the threads of one object.
template <class Result, class... Arguments>
auto under_a_lock_of_its_own(Result (*apply)(store&, Arguments...))
{
    return [apply, mutex = std::make_shared<std::mutex>()](store& inner, Arguments... arguments) {
        const std::lock_guard lock(*mutex);
        return apply(inner, arguments...);
    };
}

} // namespace

std::vector<mutant> mutants_of_races()
{
    return {
        {"looks at the conditions of a save and then saves",
         {one_head, one_checkpoint},
         saving_each(look_then_save)},
        {"looks at the conditions of a step and then records it",
         {one_begin, one_replacement, one_end},
         recording_each(look_then_put)},
        {"looks at the attempt and then erases the step", {one_end}, faults{.erase_step = look_then_erase}},
        {"looks whether the agent exists and then copies", {one_copy}, faults{.copy_agent = look_then_copy}},
        {"pins by writing the checkpoint back", {nothing_lost}, faults{.pin = pin_by_rewriting}},
        {"writes the old pin back with a save", {nothing_lost}, saving_each(save_with_old_pin)},
        {"guards the conditions of a save by a lock of the object",
         {one_head, one_checkpoint},
         [] { return saving_each(under_a_lock_of_its_own(look_then_save)); }},
        {"guards the conditions of a step by a lock of the object",
         {one_begin, one_replacement, one_end},
         [] { return recording_each(under_a_lock_of_its_own(look_then_put)); }},
        {"guards the erasure of a step by a lock of the object",
         {one_end},
         [] { return faults{.erase_step = under_a_lock_of_its_own(look_then_erase)}; }},
        {"guards a copy by a lock of the object",
         {one_copy},
         [] { return faults{.copy_agent = under_a_lock_of_its_own(look_then_copy)}; }},
    };
}

} // namespace waymark::test
