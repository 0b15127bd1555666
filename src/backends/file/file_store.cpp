#include "../../store/conditions.hpp"
#include "../../values/text.hpp"
#include "../files.hpp"
#include "catalog.hpp"
#include "file_changes.hpp"
#include "file_names.hpp"

#include <waymark/file_store.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <mutex>
#include <sys/file.h>
#include <unistd.h>
#include <unordered_set>

namespace waymark {

namespace fs = std::filesystem;
using file::agent_files;
using file::checkpoint_file;
using file::scope_files;

file_options& file_options::read_only(bool only) & noexcept
{
    read_only_ = only;
    return *this;
}

file_options&& file_options::read_only(bool only) && noexcept
{
    return std::move(read_only(only));
}

file_options& file_options::with_limits(waymark::limits bounds) & noexcept
{
    limits_ = bounds;
    return *this;
}

file_options&& file_options::with_limits(waymark::limits bounds) && noexcept
{
    return std::move(with_limits(bounds));
}

namespace {

constexpr std::string_view format_text = "{\n  \"waymark_files\": 1\n}\n";

//! "checkpoint 'c7' of agent 'planner' is damaged: '…/c7.json': …"
[[noreturn]] void fail_damaged(const checkpoint_file& found)
{
    throw error(found.is_newer ? errc::unsupported_format : errc::corrupt,
                "checkpoint " + detail::quoted(found.header.id()) + " of agent " +
                    detail::quoted(found.header.agent_id()) +
                    " is damaged: " + detail::quoted(found.path.native()) + ": " + *found.header.damage());
}

//! Whether a failure is about one request; otherwise the batch fails as a whole.
bool concerns_one_request(const error& failure)
{
    return failure.code() == errc::invalid_argument || failure.code() == errc::conflict ||
           failure.code() == errc::not_found || failure.code() == errc::corrupt ||
           failure.code() == errc::unsupported_format;
}

std::unordered_set<std::string_view> needed_by_steps(const scope_files& scope)
{
    std::unordered_set<std::string_view> needed;
    for (const auto& [key, entry] : scope.steps)
        if (!entry.content.value.done() && entry.content.value.checkpoint_id())
            needed.insert(*entry.content.value.checkpoint_id());
    return needed;
}

} // namespace

class file_store::impl {
public:
    impl(const fs::path& folder, file_options chosen)
        : root(resolve(folder)), options(std::move(chosen)), files_in(root, !options.is_read_only())
    {
        if (!options.is_read_only()) {
            files::make_folders(root);
            files::sync_folder(root.parent_path());
            files::make_folders_below(root, aside());
            files::sync_folder(root); // who made a folder may have been killed before it was synced
            take_lock();
        } else if (!fs::is_directory(root)) {
            throw error(errc::io, detail::quoted(root.native()) + " is no folder; nothing to read there");
        }
        check_format();
        if (!options.is_read_only())
            clean_up();
    }

    //! Without a slash at its end.
    static fs::path resolve(const fs::path& folder)
    {
        if (folder.empty())
            throw error(errc::invalid_argument, "the path of a file store is empty; name a folder");
        auto path = fs::absolute(folder).lexically_normal();
        return path.has_filename() ? path : path.parent_path();
    }

    fs::path reserved() const { return root / file::reserved_folder; }
    fs::path aside() const { return reserved() / "temporary"; }

    //! For functions that read: a reader looks at what the writing process did since.
    std::unique_lock<std::mutex> lock_to_read()
    {
        std::unique_lock lock(mutex);
        require_usable();
        if (options.is_read_only())
            files_in.look_again();
        return lock;
    }

    std::unique_lock<std::mutex> lock_to_write()
    {
        if (options.is_read_only())
            throw error(errc::invalid_argument,
                        detail::quoted(root.native()) + " was opened read-only; open it without that option");
        std::unique_lock lock(mutex);
        require_usable();
        return lock;
    }

    void publish(file::file_changes& changes, const std::vector<std::string>& touched)
    {
        commit(
            [&](bool& begun) {
                changes.sync();
                try {
                    changes.publish();
                } catch (...) {
                    begun = changes.is_visible();
                    throw;
                }
            },
            touched);
    }

    //! What was noted in memory did not happen: the folders are read again.
    void forget(const std::vector<std::string>& agents)
    {
        for (const auto& agent_id : agents)
            files_in.forget(agent_id);
    }

    //! Runs what changes the disk. If it fails before anything was changed, all is as before; after that, it
    //! is in doubt what is on the disk.
    template <class Action>
    void commit(Action action, const std::vector<std::string>& touched)
    {
        bool begun = false;
        try {
            action(begun);
        } catch (const error& failure) {
            forget(touched);
            if (!begun)
                throw;
            poison = failure.details().message();
            throw error(errc::outcome_unknown, failure.details().message());
        } catch (...) {
            forget(touched);
            throw;
        }
    }

    //! Pins, and sequences of what was erased, are in the record.
    static void require_record(const agent_files& agent)
    {
        if (agent.record_damage)
            throw error(errc::corrupt, "the record of agent " + detail::quoted(agent.record.agent_id) +
                                           " is damaged: " + *agent.record_damage +
                                           "; remove it to go on without pins");
    }

    checkpoint read(const checkpoint_file& found, const fs::path& path) const
    {
        if (found.header.damage())
            fail_damaged(found);
        try {
            return file::read_checkpoint(files::read_whole(path)).with_sequence(found.header.sequence());
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt && failure.code() != errc::unsupported_format)
                throw;
            auto damaged = found;
            damaged.is_newer = failure.code() == errc::unsupported_format;
            damaged.header.with_damage(failure.details().message());
            fail_damaged(damaged);
        }
    }

    bool holds_same(const checkpoint_file& existing, const checkpoint& wanted,
                    const file::file_changes& changes) const
    {
        if (existing.is_newer)
            fail_damaged(existing); // it must not be overwritten
        if (existing.header.damage())
            return false;
        const auto& path = changes.current(existing.path);
        try {
            return read(existing, path) == wanted;
        } catch (const error& failure) {
            if (failure.code() == errc::corrupt || !file::stamp_of(path))
                return false; // damaged or removed since; saving mends it
            throw;
        }
    }

    save_result save(const save_request& request, file::file_changes& changes)
    {
        const auto& wanted = request.checkpoint();
        validate(wanted, options.limits());
        auto* known_agent = files_in.find(wanted.agent_id());
        auto* scope = known_agent == nullptr ? nullptr : known_agent->find_scope(wanted.scope());
        auto* existing = scope == nullptr ? nullptr : scope->find(wanted.id());
        if (existing != nullptr && holds_same(*existing, wanted, changes))
            return {existing->header.sequence(), 0};
        if (request.options().expects_head() && scope != nullptr && scope->without_sequence() != nullptr)
            fail_damaged(*scope->without_sequence()); // it may be the head
        const auto* head = scope == nullptr ? nullptr : scope->head();
        detail::require_options(request, existing != nullptr,
                                head == nullptr ? std::nullopt : std::optional(head->header.id()));

        const auto sequence = existing != nullptr && existing->has_sequence ? existing->header.sequence()
                              : known_agent == nullptr                      ? 1
                                                                            : known_agent->next_sequence();
        // A file that came without a sequence keeps its place, which follows from its time.
        const auto text = file::write_checkpoint(
            checkpoint(wanted).with_sequence(std::max<std::int64_t>(sequence, 0)), options.limits());
        auto& agent = files_in.find_or_add(wanted.agent_id());
        write_record_of_new(agent, changes);
        const auto path = existing != nullptr ? existing->path : agent.path_of(wanted.scope(), wanted.id());
        changes.write(path, text);
        const bool pinned = existing != nullptr && existing->header.pinned();
        if (existing != nullptr)
            scope->remove(std::string(existing->header.id())); // a damaged one may be known by another name
        agent.scopes[wanted.scope()].put({path,
                                          {},
                                          checkpoint_header(wanted)
                                              .with_sequence(sequence)
                                              .with_stored_bytes(text.size())
                                              .with_pinned(pinned),
                                          true,
                                          false});
        return {sequence, text.size()};
    }

    //! A shortened name does not tell whose folder it is.
    void write_record_of_new(agent_files& agent, file::file_changes& changes)
    {
        if (agent.has_record || !file::is_shortened(agent.folders.front().filename().native()))
            return;
        changes.write(agent.record_path(), file::write_agent(agent.record));
        agent.has_record = true;
    }

    void write_record(agent_files& agent)
    {
        const std::vector<std::string> touched = {agent.record.agent_id};
        file::file_changes changes(root, aside(), known_folders);
        try {
            changes.write(agent.record_path(), file::write_agent(agent.record));
        } catch (...) {
            forget(touched);
            throw;
        }
        agent.has_record = true;
        publish(changes, touched);
    }

    void put_step(const step_request& request, file::file_changes& changes)
    {
        const auto& wanted = request.step();
        validate(wanted, options.limits());
        auto* known_agent = files_in.find(wanted.agent_id());
        auto* scope = known_agent == nullptr ? nullptr : known_agent->find_scope(wanted.scope());
        const auto* existing = scope == nullptr ? nullptr : scope->find_step(wanted.key());
        if (existing != nullptr && !existing->damage && existing->content.value == wanted)
            return;
        if (existing != nullptr && request.is_create_only())
            detail::fail_recorded_before(wanted);
        file::step_document next{wanted, 0};
        if (wanted.checkpoint_id()) {
            const auto* made_on = scope == nullptr ? nullptr : scope->find(*wanted.checkpoint_id());
            if (made_on != nullptr)
                next.made_on = made_on->header.sequence();
            else if (existing != nullptr && existing->content.value.checkpoint_id() == wanted.checkpoint_id())
                next.made_on = existing->content.made_on;
            else
                detail::fail_without_checkpoint(wanted);
        }
        auto& agent = files_in.find_or_add(wanted.agent_id());
        write_record_of_new(agent, changes);
        const auto path = agent.path_of_step(wanted.scope(), wanted.key());
        changes.write(path, file::write_step(next));
        agent.scopes[wanted.scope()].steps.insert_or_assign(
            wanted.key(), file::step_file{path, std::move(next), std::nullopt});
    }

    //! Applies each request and publishes what they wrote.
    template <class Outcome, class Request, class Apply, class AgentOf>
    std::vector<Outcome> apply_batch(std::span<const Request> batch, Apply apply, AgentOf agent_of)
    {
        file::file_changes changes(root, aside(), known_folders);
        std::vector<Outcome> outcomes;
        std::vector<std::string> touched;
        try {
            for (const auto& request : batch) {
                try {
                    touched.push_back(agent_of(request));
                    outcomes.push_back(apply(request, changes));
                } catch (const error& failure) {
                    if (!concerns_one_request(failure))
                        throw;
                    outcomes.push_back(failure);
                }
            }
        } catch (...) { // nothing is visible
            forget(touched);
            throw;
        }
        publish(changes, touched);
        return outcomes;
    }

    //! The sequence that `before(id)` stands for.
    std::int64_t resolve_before(const query& wanted)
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
        return found->header.sequence();
    }

    //! The matches, in the order of the query. Damaged ones are shown unless their place is known to be
    //! outside.
    std::vector<const checkpoint_file*> select(const query& wanted)
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
                    if ((!before || entry.header.sequence() < *before) && matches_query(wanted, entry))
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

    static bool matches_query(const query& wanted, const checkpoint_file& entry)
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

    //! Removes files, then syncs their folders.
    void remove_files(const std::vector<fs::path>& paths, const std::string& agent_id)
    {
        commit(
            [&](bool& begun) {
                std::set<fs::path> folders;
                for (const auto& path : paths) {
                    files::remove(path);
                    begun = true;
                    folders.insert(path.parent_path());
                }
                for (const auto& folder : folders)
                    files::sync_folder(folder);
            },
            {agent_id});
    }

    //! Takes away checkpoints of a scope.
    void remove(agent_files& agent, const std::string& scope_name, const std::vector<std::string>& ids)
    {
        require_record(agent);
        auto& scope = *agent.find_scope(scope_name);
        const auto last = agent.last_sequence();
        bool record_changed = false;
        std::vector<fs::path> paths;
        for (const auto& id : ids) {
            const auto& entry = *scope.find(id);
            paths.push_back(entry.path);
            if (entry.header.sequence() == last && agent.record.last_sequence < last) {
                agent.record.last_sequence = last; // not used again, although the file goes
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

    void drop_steps_without_checkpoint(agent_files& agent, scope_files& scope)
    {
        if (scope.without_sequence() != nullptr)
            return; // it may be the one that a step was made on
        const auto* head = scope.head();
        const auto newest = head == nullptr ? -1 : std::max<std::int64_t>(head->header.sequence(), 0);
        std::vector<fs::path> paths;
        for (const auto& [key, entry] : scope.steps)
            if (entry.content.made_on > newest)
                paths.push_back(entry.path);
        remove_files(paths, agent.record.agent_id);
        std::erase_if(scope.steps,
                      [newest](const auto& entry) { return entry.second.content.made_on > newest; });
    }

    //! Takes the folders of an agent out of sight, then removes them. What is not ours in them stays.
    void remove_folders(const agent_files& agent)
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
                    if (file::holds_only_ours(folder)) {
                        move_aside(folder);
                        continue;
                    }
                    for (const auto& path : file::documents_in(folder))
                        move_aside(path);
                    move_aside(folder / file::reserved_folder);
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

    //! `old`: what is left of an agent of that name, which has no content; or null.
    std::uint64_t copy(agent_files& origin, std::string_view to, const agent_files* old)
    {
        require_record(origin);
        const auto made = aside() / random_id();
        agent_files copy;
        copy.folders = {made};
        copy.record = origin.record;
        copy.record.agent_id = to;
        copy.record.last_sequence =
            std::max(origin.last_sequence(), old == nullptr ? 0 : old->last_sequence());
        std::set<fs::path> folders;
        const auto write = [&](const fs::path& path, const std::string& text) {
            files::make_folders(path.parent_path());
            files::sync_file(files::write_new(path, text), path);
            for (auto folder = path.parent_path(); folder != aside(); folder = folder.parent_path())
                folders.insert(folder);
        };
        write(copy.record_path(), file::write_agent(copy.record));
        for (auto& [name, scope] : origin.scopes) {
            for (const auto& [id, entry] : scope.checkpoints())
                write(copy.path_of(name, id),
                      file::write_checkpoint(read(entry, entry.path).with_agent(std::string(to)),
                                             options.limits()));
            for (auto [key, entry] : scope.steps) {
                if (entry.damage)
                    throw error(errc::corrupt,
                                "step " + detail::quoted(key) + " is damaged: " + *entry.damage);
                entry.content.value.with_agent(std::string(to));
                write(copy.path_of_step(name, key), file::write_step(entry.content));
            }
        }
        for (const auto& folder : folders)
            files::sync_folder(folder);
        const auto count = origin.count();
        if (old != nullptr)
            remove_folders(*old);
        commit(
            [&](bool& begun) {
                const auto target = root / file::to_name(to);
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

    prune_result prune(agent_files& agent, const retention& policies, dry_run dry)
    {
        std::vector<checkpoint_key> removed;
        std::uint64_t bytes = 0;
        const auto at = now();
        require_record(agent);
        for (auto& [name, scope] : agent.scopes) {
            const auto ordered = scope.in_order();
            const auto needed = needed_by_steps(scope);
            std::vector<retention_candidate> candidates;
            for (const auto* entry : ordered) // a damaged one is kept for whoever repairs it
                candidates.push_back({entry->header.created_at(), entry->header.name(),
                                      entry->header.stored_bytes(),
                                      entry->header.pinned() || entry->header.damage() ||
                                          needed.contains(entry->header.id())});
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

    const fs::path root;
    const file_options options;
    std::mutex mutex; // guards what follows
    file::catalog files_in;
    std::set<fs::path> known_folders; // see file_changes
    std::string poison;               // why nothing goes any more; empty: all is well

private:
    void require_usable() const
    {
        if (!poison.empty())
            throw error(errc::io, "the store is out of use since a sync failed (" + poison +
                                      "); what was not written is known after it is opened again");
    }

    void take_lock()
    {
        writer_lock = files::open(reserved() / "lock", O_RDWR | O_CREAT);
        if (::flock(writer_lock.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK)
                files::fail(reserved() / "lock", "locked", errno);
            throw error(errc::busy, detail::quoted(root.native()) +
                                        " is being written by another process or store; close that one, or "
                                        "open this one with file_options{}.read_only()");
        }
    }

    void check_format()
    {
        const auto path = reserved() / "format.json";
        if (!file::stamp_of(path)) {
            if (options.is_read_only())
                return; // of another program, perhaps
            file::file_changes changes(root, aside(), known_folders);
            changes.write(path, format_text);
            changes.sync();
            changes.publish();
            return;
        }
        if (files::read_whole(path) != format_text)
            throw error(errc::unsupported_format,
                        detail::quoted(path.native()) + " names a format that this library does not know");
    }

    //! Left by a process that was killed. Nobody else writes here: we have the lock.
    void clean_up() const
    {
        std::error_code failure;
        for (const auto& entry : fs::directory_iterator(aside(), failure)) {
            std::error_code ignored;
            fs::remove_all(entry.path(), ignored);
        }
    }

    files::descriptor writer_lock;
};

file_store::file_store(const fs::path& folder, file_options options)
    : impl_(std::make_unique<impl>(folder, std::move(options)))
{
}

file_store::~file_store() = default;

std::vector<save_outcome> file_store::save(std::span<const save_request> batch)
{
    const auto lock = impl_->lock_to_write();
    return impl_->apply_batch<save_outcome>(
        batch,
        [this](const save_request& request, file::file_changes& changes) {
            return impl_->save(request, changes);
        },
        [](const save_request& request) { return request.checkpoint().agent_id(); });
}

std::optional<checkpoint> file_store::load(std::string_view agent_id, std::string_view scope,
                                           std::string_view id)
{
    detail::validate_key(agent_id, scope, id);
    const auto lock = impl_->lock_to_read();
    auto* agent = impl_->files_in.find(agent_id);
    const auto* found = agent == nullptr ? nullptr : agent->find(scope, id);
    return found == nullptr ? std::nullopt : std::optional(impl_->read(*found, found->path));
}

std::optional<checkpoint> file_store::load(std::string_view id)
{
    validate_id(id, "the checkpoint id");
    const auto lock = impl_->lock_to_read();
    const checkpoint_file* found = nullptr;
    for (const auto& agent_id : impl_->files_in.agents())
        for (auto& [name, scope] : impl_->files_in.find(agent_id)->scopes) {
            const auto* match = scope.find(id);
            if (match != nullptr && found != nullptr)
                detail::fail_ambiguous_id(id);
            found = match != nullptr ? match : found;
        }
    return found == nullptr ? std::nullopt : std::optional(impl_->read(*found, found->path));
}

std::optional<checkpoint> file_store::load_latest(std::string_view agent_id, std::string_view scope)
{
    validate_id(agent_id, "the agent id");
    validate_label(scope, "the scope");
    const auto lock = impl_->lock_to_read();
    auto* agent = impl_->files_in.find(agent_id);
    const auto* where = agent == nullptr ? nullptr : agent->find_scope(scope);
    const auto* head = where == nullptr ? nullptr : where->head();
    if (head == nullptr)
        return std::nullopt;
    if (const auto* damaged = where->without_sequence())
        fail_damaged(*damaged); // it may be the newest: nothing is guessed
    return impl_->read(*head, head->path);
}

std::vector<checkpoint_header> file_store::list(const query& query)
{
    const auto lock = impl_->lock_to_read();
    std::vector<checkpoint_header> result;
    for (const auto* match : impl_->select(query))
        result.push_back(match->header);
    return result;
}

std::vector<checkpoint> file_store::load_all(const query& query)
{
    const auto lock = impl_->lock_to_read();
    std::vector<checkpoint> result;
    for (const auto* match : impl_->select(query))
        result.push_back(impl_->read(*match, match->path));
    return result;
}

std::uint64_t file_store::count(const query& query)
{
    const auto lock = impl_->lock_to_read();
    return impl_->select(query).size();
}

std::vector<std::string> file_store::list_agents(std::string_view after, std::size_t limit)
{
    validate_label(after, "the agent id");
    const auto lock = impl_->lock_to_read();
    std::vector<std::string> result;
    for (auto& agent_id : impl_->files_in.agents()) {
        if (result.size() == limit)
            break;
        if (agent_id > after && !impl_->files_in.find(agent_id)->empty())
            result.push_back(std::move(agent_id));
    }
    return result;
}

bool file_store::erase(std::string_view agent_id, std::string_view scope, std::string_view id)
{
    detail::validate_key(agent_id, scope, id);
    const auto lock = impl_->lock_to_write();
    auto* agent = impl_->files_in.find(agent_id);
    if (agent == nullptr || agent->find(scope, id) == nullptr)
        return false;
    impl_->remove(*agent, std::string(scope), {std::string(id)});
    impl_->drop_steps_without_checkpoint(*agent, *agent->find_scope(scope));
    return true;
}

std::uint64_t file_store::erase_agent(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    const auto lock = impl_->lock_to_write();
    const auto* agent = impl_->files_in.find(agent_id);
    if (agent == nullptr)
        return 0;
    const auto count = agent->count();
    impl_->remove_folders(*agent);
    impl_->files_in.remove(agent_id);
    return count;
}

std::uint64_t file_store::copy_agent(std::string_view from, std::string_view to)
{
    validate_id(from, "the agent id");
    validate_id(to, "the new agent id");
    const auto lock = impl_->lock_to_write();
    auto* origin = impl_->files_in.find(from);
    if (origin == nullptr || origin->empty())
        detail::fail_nothing_to_copy(from);
    auto* target = impl_->files_in.find(to);
    if (target != nullptr && !target->empty())
        detail::fail_copy_onto(to);
    const auto folder = impl_->root / file::to_name(to);
    if (file::stamp_of(folder) && !file::holds_only_ours(folder))
        detail::fail_copy_onto(to); // with files of someone else
    return impl_->copy(*origin, to, target);
}

prune_result file_store::prune(std::string_view agent_id, const retention& policies, dry_run dry)
{
    validate_id(agent_id, "the agent id");
    const auto lock = dry == dry_run::yes ? impl_->lock_to_read() : impl_->lock_to_write();
    auto* agent = impl_->files_in.find(agent_id);
    return agent == nullptr ? prune_result() : impl_->prune(*agent, policies, dry);
}

bool file_store::pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned)
{
    detail::validate_key(agent_id, scope, id);
    const auto lock = impl_->lock_to_write();
    auto* agent = impl_->files_in.find(agent_id);
    auto* found = agent == nullptr ? nullptr : agent->find(scope, id);
    if (found == nullptr)
        return false;
    if (found->header.pinned() == pinned)
        return true;
    impl_->require_record(*agent);
    auto& pins = agent->record.pins;
    const std::pair<std::string, std::string> key(scope, id);
    if (pinned)
        pins.insert(key);
    else
        pins.erase(key);
    found->header.with_pinned(pinned);
    impl_->write_record(*agent);
    return true;
}

std::vector<step_outcome> file_store::put_steps(std::span<const step_request> batch)
{
    const auto lock = impl_->lock_to_write();
    return impl_->apply_batch<step_outcome>(
        batch,
        [this](const step_request& request, file::file_changes& changes) {
            impl_->put_step(request, changes);
            return stored{};
        },
        [](const step_request& request) { return request.step().agent_id(); });
}

std::vector<step> file_store::load_steps(const step_query& query)
{
    const auto lock = impl_->lock_to_read();
    std::vector<step> result;
    if (auto* agent = impl_->files_in.find(query.agent_id()))
        for (const auto& [name, scope] : agent->scopes)
            for (const auto& [key, entry] : scope.steps) {
                if (entry.damage && (!query.scope() || *query.scope() == name))
                    throw error(errc::corrupt, "step " + detail::quoted(key) + " of agent " +
                                                   detail::quoted(query.agent_id()) +
                                                   " is damaged: " + detail::quoted(entry.path.native()) +
                                                   ": " + *entry.damage);
                if (query.matches(entry.content.value))
                    result.push_back(entry.content.value);
            }
    return result;
}

verify_report file_store::verify(const verify_callback& progress)
{
    const auto lock = impl_->lock_to_read();
    verify_progress done;
    const auto everything = impl_->select(query::all_agents());
    done.total = everything.size();
    std::vector<verify_report::damage> damages;
    for (const auto* entry : everything) {
        try {
            impl_->read(*entry, entry->path);
        } catch (const error& failure) {
            damages.push_back({entry->header.key(), failure.details().message()});
        }
        ++done.checked;
        if (progress && done.checked < done.total)
            progress(done);
    }
    for (const auto& agent_id : impl_->files_in.agents()) {
        const auto& agent = *impl_->files_in.find(agent_id);
        if (agent.record_damage)
            damages.push_back(
                {{agent_id, {}, {}}, "the record of the agent is damaged: " + *agent.record_damage});
        for (const auto& [name, scope] : agent.scopes)
            for (const auto& [key, entry] : scope.steps) {
                try {
                    file::read_step(files::read_whole(entry.path));
                } catch (const error& failure) {
                    damages.push_back(
                        {{agent_id, name, {}},
                         "step " + detail::quoted(key) + " is damaged: " + failure.details().message()});
                }
            }
    }
    if (progress)
        progress(done);
    return {done.checked, std::move(damages)};
}

std::uint64_t file_store::compact()
{
    impl_->lock_to_write();
    return 0; // files take what they need
}

store_stats file_store::stats()
{
    const auto lock = impl_->lock_to_read();
    store_stats result;
    for (const auto& agent_id : impl_->files_in.agents()) {
        const auto& agent = *impl_->files_in.find(agent_id);
        result.agents += agent.empty() ? 0 : 1;
        result.checkpoints += agent.count();
        for (const auto& [name, scope] : agent.scopes) {
            result.steps += scope.steps.size();
            for (const auto& [id, entry] : scope.checkpoints())
                result.bytes += entry.header.stored_bytes();
            for (const auto& [key, entry] : scope.steps)
                result.bytes += files::size_of(entry.path);
        }
    }
    return result;
}

std::size_t file_store::write_lanes() const noexcept
{
    return 1;
}

const limits& file_store::bounds() const noexcept
{
    return impl_->options.limits();
}

} // namespace waymark
