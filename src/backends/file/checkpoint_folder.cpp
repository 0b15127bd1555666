#include "checkpoint_folder.hpp"

#include "../../store/request_checks.hpp"
#include "../../values/text.hpp"
#include "file_names.hpp"

#include <algorithm>
#include <cerrno>
#include <unordered_set>

namespace waymark::file {

void fail_damaged(const checkpoint_file& found)
{
    throw error(found.is_newer ? errc::unsupported_format : errc::corrupt,
                "checkpoint " + detail::quoted(found.header.id()) + " of agent " +
                    detail::quoted(found.header.agent_id()) +
                    " is damaged: " + detail::quoted(found.path.native()) + ": " + *found.header.damage() +
                    (found.is_newer ? "" : "; save it again, or erase it"));
}

void fail_if_there(const checkpoint_file& found)
{
    if (!stamp_of(found.path))
        throw files::vanished(found.path); // removed by hand since it was found
    fail_damaged(found);
}

void fail_damaged(const step_file& found)
{
    throw error(errc::corrupt, "step " + detail::quoted(found.content.value.key()) + " of agent " +
                                   detail::quoted(found.content.value.agent_id()) + " is damaged: " +
                                   detail::quoted(found.path.native()) + ": " + found.damage.value_or(""));
}

namespace {

//! The checkpoints that pending steps were made on.
struct needed_by_steps {
    explicit needed_by_steps(const scope_files& scope)
    {
        for (const auto& [key, entry] : scope.steps) {
            may_be_any = may_be_any || entry.damage;
            if (!entry.content.value.done() && entry.content.value.checkpoint_id())
                ids.insert(*entry.content.value.checkpoint_id());
        }
    }
    bool contains(std::string_view id) const { return may_be_any || ids.contains(id); }

    std::unordered_set<std::string_view> ids;
    bool may_be_any = false; // a damaged step does not tell which one it needs
};

} // namespace

void checkpoint_folder::require_record(const agent_files& agent)
{
    if (agent.record_damage)
        throw error(errc::corrupt, "the record of agent " + detail::quoted(agent.record.agent_id) +
                                       " is damaged: " + *agent.record_damage +
                                       "; remove it and open the store again to go on without pins");
}

checkpoint checkpoint_folder::read(const checkpoint_file& found, const fs::path& path) const
{
    if (found.header.damage())
        fail_if_there(found);
    try {
        auto value = read_checkpoint(files::read_whole(path));
        if (value.sequence() <= 0) // of another program
            value.with_sequence(found.header.sequence());
        return value;
    } catch (const error& failure) {
        if (failure.code() != errc::corrupt && failure.code() != errc::unsupported_format)
            throw;
        auto damaged = found;
        damaged.is_newer = failure.code() == errc::unsupported_format;
        damaged.header.with_damage(failure.details().message());
        fail_damaged(damaged);
    }
}

bool checkpoint_folder::holds_same(const checkpoint_file& existing, const checkpoint& wanted,
                                   const file_changes& changes) const
{
    if (existing.is_newer)
        fail_damaged(existing); // it must not be overwritten
    if (existing.header.damage())
        return false;
    const auto& path = changes.current(existing.path);
    try {
        return read(existing, path) == wanted;
    } catch (const error& failure) {
        if (failure.code() == errc::corrupt || !stamp_of(path))
            return false; // damaged or removed since; saving mends it
        throw;
    }
}

save_result checkpoint_folder::save(const save_request& request, file_changes& changes)
{
    const auto& wanted = request.checkpoint();
    validate(wanted, options.limits());
    auto* known_agent = files_in.find(wanted.agent_id());
    auto* scope = known_agent == nullptr ? nullptr : known_agent->find_scope(wanted.scope());
    auto* existing = scope == nullptr ? nullptr : scope->find(wanted.id());
    if (existing != nullptr && holds_same(*existing, wanted, changes))
        return {existing->header.sequence(), 0};
    if (request.options().expects_head() && !request.options().passes_over_damage() && scope != nullptr &&
        scope->without_sequence() != nullptr)
        fail_damaged(*scope->without_sequence()); // it may be the head
    const auto* head = scope == nullptr ? nullptr : scope->head();
    detail::require_options(request, existing != nullptr,
                            head == nullptr ? std::nullopt : std::optional(head->header.id()));

    // A damaged file has lost its place; what is saved over it comes last.
    const bool all_are_known = known_agent == nullptr || known_agent->all_sequences_are_known();
    const auto sequence = existing != nullptr && existing->has_sequence ? existing->header.sequence()
                          : known_agent == nullptr                      ? 1
                                                                        : known_agent->next_sequence();
    // A file that came without a sequence keeps its place, which follows from its time.
    const auto text = write_checkpoint(checkpoint(wanted).with_sequence(std::max<std::int64_t>(sequence, 0)),
                                       options.limits());
    auto& agent = files_in.find_or_add(wanted.agent_id());
    write_record_of_new(agent, changes);
    if (!all_are_known && !agent.record_damage && agent.record.last_sequence < sequence) {
        // Beside what cannot be read, the file of this checkpoint alone would not do: if it is damaged, too,
        // its sequence must not be given again.
        agent.record.last_sequence = sequence;
        agent.has_record = true;
        changes.write(agent.record_path(), write_agent(agent.record));
    }
    const auto path = existing != nullptr ? existing->path : agent.path_of(wanted.scope(), wanted.id());
    changes.write(path, text);
    const bool pinned = existing != nullptr && existing->header.pinned();
    if (existing != nullptr)
        scope->remove(std::string(existing->header.id())); // a damaged one may be known by another name
    agent.scopes[wanted.scope()].put(
        {path,
         {},
         checkpoint_header(wanted).with_sequence(sequence).with_stored_bytes(text.size()).with_pinned(pinned),
         true,
         false});
    return {sequence, text.size()};
}

void checkpoint_folder::write_record_of_new(agent_files& agent, file_changes& changes)
{
    if (agent.has_record || !is_shortened(agent.folders.front().filename().native()))
        return;
    changes.write(agent.record_path(), write_agent(agent.record));
    agent.has_record = true;
}

void checkpoint_folder::write_record(agent_files& agent)
{
    const std::vector<std::string> touched = {agent.record.agent_id};
    file_changes changes(root, aside(), known_folders);
    try {
        changes.write(agent.record_path(), write_agent(agent.record));
    } catch (...) {
        forget(touched);
        throw;
    }
    agent.has_record = true;
    publish(changes, touched);
}

void checkpoint_folder::put_step(const step_request& request, file_changes& changes)
{
    const auto& wanted = request.step();
    validate(wanted, options.limits());
    auto* known_agent = files_in.find(wanted.agent_id());
    auto* scope = known_agent == nullptr ? nullptr : known_agent->find_scope(wanted.scope());
    const auto* existing = scope == nullptr ? nullptr : scope->find_step(wanted.key());
    if (existing != nullptr && !existing->damage && existing->content.value == wanted)
        return;
    if (existing != nullptr && existing->damage && request.replaced())
        fail_damaged(*existing); // it does not tell whose it is
    detail::require_condition(request, existing == nullptr ? nullptr : &existing->content.value);
    if (request.expects_head() && scope != nullptr && scope->without_sequence() != nullptr)
        fail_damaged(*scope->without_sequence()); // it may be the head
    const auto* head = scope == nullptr ? nullptr : scope->head();
    detail::require_head(request, head == nullptr ? std::nullopt : std::optional(head->header.id()));
    step_document next{wanted, 0};
    if (wanted.checkpoint_id()) {
        const auto* made_on = scope == nullptr ? nullptr : scope->find(*wanted.checkpoint_id());
        if (made_on != nullptr && made_on->has_sequence)
            next.made_on = made_on->header.sequence();
        else if (existing != nullptr && existing->content.value.checkpoint_id() == wanted.checkpoint_id())
            next.made_on = existing->content.made_on;
        else if (made_on == nullptr && !request.is_restored())
            detail::fail_without_checkpoint(wanted);
    }
    auto& agent = files_in.find_or_add(wanted.agent_id());
    write_record_of_new(agent, changes);
    const auto path = agent.path_of_step(wanted.scope(), wanted.key());
    changes.write(path, write_step(next));
    agent.scopes[wanted.scope()].steps.insert_or_assign(wanted.key(),
                                                        step_file{path, {}, std::move(next), std::nullopt});
}

std::int64_t checkpoint_folder::resolve_before(const query& wanted)
{
    const checkpoint_file* found = nullptr;
    if (auto* agent = files_in.find(*wanted.agent_id()))
        for (auto& [name, scope] : agent->scopes) {
            if (wanted.scope() && name != *wanted.scope())
                continue;
            const auto* match = scope.find(*wanted.before());
            if (match != nullptr && found != nullptr)
                detail::fail_ambiguous_before(wanted);
            found = match != nullptr ? match : found;
        }
    if (found == nullptr)
        detail::fail_unknown_before(wanted);
    if (!found->has_sequence)
        fail_damaged(*found); // nobody knows what was before it
    return found->header.sequence();
}

std::vector<const checkpoint_file*> checkpoint_folder::select(const query& wanted)
{
    wanted.validate();
    const auto before = wanted.before() ? std::optional(resolve_before(wanted)) : std::nullopt;
    std::vector<const checkpoint_file*> result;
    const auto add_agent = [&](agent_files& agent) {
        std::vector<const checkpoint_file*> matches;
        for (auto& [name, scope] : agent.scopes) {
            if (wanted.scope() && name != *wanted.scope())
                continue;
            for (const auto& [id, entry] : scope.checkpoints())
                if ((!before || !entry.has_sequence || entry.header.sequence() < *before) &&
                    matches_query(wanted, entry))
                    matches.push_back(&entry);
        }
        std::sort(matches.begin(), matches.end(), [&](const auto* a, const auto* b) {
            const auto left = std::pair(a->header.sequence(), a->header.key());
            const auto right = std::pair(b->header.sequence(), b->header.key());
            return wanted.is_oldest_first() ? left < right : right < left;
        });
        result.insert(result.end(), matches.begin(), matches.end());
    };
    if (wanted.agent_id()) {
        if (auto* agent = files_in.find(*wanted.agent_id()))
            add_agent(*agent);
    } else {
        for (const auto& agent_id : files_in.agents())
            add_agent(*files_in.find(agent_id));
    }
    if (wanted.limit() && result.size() > *wanted.limit())
        result.resize(*wanted.limit());
    return result;
}

bool checkpoint_folder::matches_query(const query& wanted, const checkpoint_file& entry)
{
    if (!entry.header.damage())
        return wanted.matches(entry.header);
    auto place = wanted.agent_id() ? query(*wanted.agent_id()) : query::all_agents();
    if (wanted.after())
        place.after(*wanted.after());
    if (wanted.is_oldest_first())
        place.oldest_first();
    return place.matches(entry.header);
}

void checkpoint_folder::remove(agent_files& agent, const std::string& scope_name,
                               const std::vector<std::string>& ids)
{
    require_record(agent);
    auto& scope = *agent.find_scope(scope_name);
    const auto last = agent.last_sequence();
    const auto last_of_unknown = agent.last_possible_sequence();
    bool record_changed = false;
    std::vector<fs::path> paths;
    for (const auto& id : ids) {
        const auto& entry = *scope.find(id);
        paths.push_back(entry.path);
        const auto used = entry.has_sequence ? entry.header.sequence() : last_of_unknown;
        if (used >= last && agent.record.last_sequence < used) {
            agent.record.last_sequence = used; // not used again, although the file goes
            record_changed = true;
        }
        record_changed = agent.record.pins.erase({scope_name, id}) != 0 || record_changed;
    }
    if (record_changed)
        write_record(agent);
    remove_files(paths, agent.record.agent_id);
    for (const auto& id : ids)
        scope.remove(std::string(scope.find(id)->header.id()));
}

void checkpoint_folder::drop_steps_without_checkpoint(agent_files& agent, scope_files& scope)
{
    if (scope.without_sequence() != nullptr)
        return; // it may be the one that a step was made on
    const auto* head = scope.head();
    const auto newest = head == nullptr ? -1 : std::max<std::int64_t>(head->header.sequence(), 0);
    remove_steps(agent, scope, [newest](const step_file& entry) { return entry.content.made_on > newest; });
}

void checkpoint_folder::remove_steps(agent_files& agent, scope_files& scope,
                                     const std::function<bool(const step_file&)>& chosen)
{
    std::vector<fs::path> paths;
    for (const auto& [key, entry] : scope.steps)
        if (chosen(entry))
            paths.push_back(entry.path);
    remove_files(paths, agent.record.agent_id);
    std::erase_if(scope.steps, [&](const auto& entry) { return chosen(entry.second); });
}

void checkpoint_folder::remove_folders(const agent_files& agent)
{
    std::vector<fs::path> gone;
    commit(
        [&](bool& begun) {
            const auto move_aside = [&](const fs::path& path) {
                gone.push_back(aside() / random_id());
                if (::rename(path.c_str(), gone.back().c_str()) == 0)
                    begun = true;
                else if (errno != ENOENT)
                    files::fail(path, "removed", errno);
            };
            for (const auto& folder : agent.folders) {
                if (holds_only_ours(folder)) {
                    move_aside(folder);
                    continue;
                }
                for (const auto& path : documents_in(folder))
                    move_aside(path);
                move_aside(folder / reserved_folder);
                files::sync_folder(folder);
            }
            files::sync_folder(root);
        },
        {agent.record.agent_id});
    for (const auto& path : gone) {
        std::error_code ignored; // what is left is removed at the next opening
        fs::remove_all(path, ignored);
    }
}

std::uint64_t checkpoint_folder::copy(agent_files& origin, std::string_view to, const agent_files* old)
{
    require_record(origin);
    const auto made = aside() / random_id();
    agent_files copy;
    copy.folders = {made};
    copy.record = origin.record;
    copy.record.agent_id = to;
    copy.record.last_sequence = std::max(origin.last_sequence(), old == nullptr ? 0 : old->last_sequence());
    std::set<fs::path> folders;
    const auto write = [&](const fs::path& path, const std::string& text) {
        files::make_folders(path.parent_path());
        files::sync_file(files::write_new(path, text), path);
        for (auto folder = path.parent_path(); folder != aside(); folder = folder.parent_path())
            folders.insert(folder);
    };
    write(copy.record_path(), write_agent(copy.record));
    for (auto& [name, scope] : origin.scopes) {
        for (const auto& [id, entry] : scope.checkpoints())
            write(copy.path_of(name, id),
                  write_checkpoint(read(entry, entry.path).with_agent(std::string(to)), options.limits()));
        for (auto [key, entry] : scope.steps) {
            if (entry.damage)
                throw error(errc::corrupt, "step " + detail::quoted(key) + " is damaged: " + *entry.damage);
            entry.content.value.with_agent(std::string(to));
            write(copy.path_of_step(name, key), write_step(entry.content));
        }
    }
    for (const auto& folder : folders)
        files::sync_folder(folder);
    const auto count = origin.count();
    if (old != nullptr)
        remove_folders(*old);
    commit(
        [&](bool& begun) {
            const auto target = root / to_name(to);
            if (::rename(made.c_str(), target.c_str()) != 0)
                files::fail(target, "put in place", errno);
            begun = true;
            files::sync_folder(root);
        },
        {std::string(to)});
    files_in.remove(to);
    files_in.forget(to);
    return count;
}

prune_result checkpoint_folder::prune(agent_files& agent, const retention& policies, dry_run dry)
{
    std::vector<checkpoint_key> removed;
    std::uint64_t bytes = 0;
    const auto at = now();
    require_record(agent);
    for (auto& [name, scope] : agent.scopes) {
        if (!policies.applies_to(name))
            continue;
        auto ordered = scope.in_order();
        // What cannot be read is kept for whoever repairs it, and does not count, nor does what was removed
        // by hand: the newest that can be read stays, too.
        std::erase_if(ordered, [](const auto* entry) {
            return entry->header.damage().has_value() || !stamp_of(entry->path);
        });
        const needed_by_steps needed(scope);
        std::vector<retention_candidate> candidates;
        for (const auto* entry : ordered)
            candidates.push_back({entry->header.created_at(), entry->header.name(),
                                  entry->header.stored_bytes(),
                                  entry->header.pinned() || needed.contains(entry->header.id())});
        std::vector<std::string> ids;
        for (const auto index : policies.select(candidates, at)) {
            ids.push_back(ordered[index]->header.id());
            removed.push_back(ordered[index]->header.key());
            bytes += candidates[index].held_bytes;
        }
        if (dry == dry_run::no && !ids.empty())
            remove(agent, name, ids);
    }
    return {std::move(removed), bytes};
}

} // namespace waymark::file
