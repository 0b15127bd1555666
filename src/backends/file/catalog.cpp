#include "catalog.hpp"

#include "../../values/text.hpp"
#include "../files.hpp"
#include "file_names.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>

namespace waymark::file {

namespace fs = std::filesystem;

namespace {

//! The entries of a folder, in a fixed order. Empty if it is not there. Links are not followed.
std::vector<fs::directory_entry> entries_of(const fs::path& folder)
{
    std::vector<fs::directory_entry> entries;
    std::error_code failure;
    for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure))
        entries.push_back(*it);
    if (failure && failure != std::errc::no_such_file_or_directory)
        files::fail(folder, "listed", failure.value());
    std::sort(entries.begin(), entries.end());
    return entries;
}

bool is_real_folder(const fs::directory_entry& entry)
{
    std::error_code failure;
    return entry.symlink_status(failure).type() == fs::file_type::directory;
}

bool is_document(const fs::directory_entry& entry)
{
    std::error_code failure;
    return entry.path().extension() == suffix && !entry.path().filename().native().starts_with('.') &&
           entry.symlink_status(failure).type() != fs::file_type::directory;
}

//! What the name of a file or folder stands for; a name in another spelling stands for itself.
std::string meaning_of(const std::string& name)
{
    return from_name(name).value_or(name);
}

bool is_name_of(const std::string& name, std::string_view id)
{
    return to_name(id) == name || (!from_name(name) && !is_shortened(name) && name == id);
}

checkpoint_file read_file(const fs::path& path, const file_stamp& stamp, const std::string& agent_id,
                          const std::string& scope_name)
{
    const auto name = path.stem().native();
    std::string text;
    std::string damage;
    try {
        text = files::read_whole(path);
        const auto value = read_checkpoint(text);
        if (value.agent_id() == agent_id && is_name_of(scope_name, value.scope()) &&
            is_name_of(name, value.id()))
            return {path, stamp, checkpoint_header(value).with_stored_bytes(stamp.bytes), true};
        damage = "the file is for checkpoint " + detail::quoted(value.id()) + " of agent " +
                 detail::quoted(value.agent_id()) + ", scope " + detail::quoted(value.scope());
    } catch (const error& failure) {
        damage = failure.details().message();
    }
    checkpoint known(agent_id);
    const auto sequence = guess_sequence(text);
    known.with_id(meaning_of(name)).with_scope(meaning_of(scope_name)).with_created_at({});
    known.with_sequence(sequence.value_or(0));
    return {path, stamp, checkpoint_header(known).with_stored_bytes(stamp.bytes).with_damage(damage),
            sequence.has_value()};
}

step_file read_step_file(const fs::path& path, const std::string& agent_id)
{
    try {
        return {path, read_step(files::read_whole(path)), std::nullopt};
    } catch (const error& failure) {
        step unknown(agent_id, meaning_of(path.parent_path().filename().native()),
                     meaning_of(path.stem().native()));
        return {path, {std::move(unknown), 0}, failure.details().message()};
    }
}

//! Files of other programs have no sequence. They come first, by time and id.
void number_the_unnumbered(agent_files& agent)
{
    std::vector<checkpoint_header> unnumbered;
    for (const auto& [name, scope] : agent.scopes)
        for (const auto& [id, entry] : scope.checkpoints())
            if (entry.header.sequence() <= 0 && !entry.header.damage())
                unnumbered.push_back(entry.header);
    std::sort(unnumbered.begin(), unnumbered.end(), [](const auto& a, const auto& b) {
        return std::pair(a.created_at(), a.key()) < std::pair(b.created_at(), b.key());
    });
    auto next = -static_cast<std::int64_t>(unnumbered.size());
    for (const auto& header : unnumbered)
        agent.find_scope(header.scope())->number(header.id(), next++);
}

//! An erasure that was interrupted may have left steps of a checkpoint that is gone.
void drop_orphaned_steps(agent_files& agent)
{
    for (auto& [name, scope] : agent.scopes) {
        std::int64_t newest = 0;
        for (const auto& [id, entry] : scope.checkpoints()) {
            if (!entry.has_sequence)
                return; // who knows
            newest = std::max(newest, entry.header.sequence());
        }
        std::erase_if(scope.steps,
                      [newest](const auto& entry) { return entry.second.content.made_on > newest; });
    }
}

} // namespace

std::optional<file_stamp> stamp_of(const fs::path& path)
{
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) {
        if (errno == ENOENT)
            return std::nullopt;
        files::fail(path, "looked at", errno);
    }
    return file_stamp{found.st_ino, static_cast<std::uint64_t>(found.st_size),
                      found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
}

// Scopes and agents

checkpoint_file* scope_files::find(std::string_view id)
{
    const auto found = checkpoints_.find(id);
    return found == checkpoints_.end() ? nullptr : &found->second;
}

void scope_files::put(checkpoint_file added)
{
    remove(added.header.id());
    order_.emplace(added.header.sequence(), added.header.id());
    checkpoints_.emplace(added.header.id(), std::move(added));
}

void scope_files::remove(std::string_view id)
{
    const auto found = checkpoints_.find(id);
    if (found == checkpoints_.end())
        return;
    order_.erase({found->second.header.sequence(), found->first});
    checkpoints_.erase(found);
}

void scope_files::number(std::string_view id, std::int64_t sequence)
{
    const auto found = checkpoints_.find(id);
    order_.erase({found->second.header.sequence(), found->first});
    found->second.header.with_sequence(sequence);
    order_.emplace(sequence, found->first);
}

std::vector<const checkpoint_file*> scope_files::in_order() const
{
    std::vector<const checkpoint_file*> all;
    for (const auto& [sequence, id] : order_)
        all.push_back(&checkpoints_.at(id));
    return all;
}

const checkpoint_file* scope_files::head() const
{
    return order_.empty() ? nullptr : &checkpoints_.at(order_.rbegin()->second);
}

bool agent_files::empty() const noexcept
{
    return std::all_of(scopes.begin(), scopes.end(), [](const auto& entry) { return entry.second.empty(); });
}

std::uint64_t agent_files::count() const noexcept
{
    std::uint64_t sum = 0;
    for (const auto& [name, scope] : scopes)
        sum += scope.checkpoints().size();
    return sum;
}

scope_files* agent_files::find_scope(std::string_view scope)
{
    const auto found = scopes.find(scope);
    return found == scopes.end() ? nullptr : &found->second;
}

checkpoint_file* agent_files::find(std::string_view scope, std::string_view id)
{
    auto* where = find_scope(scope);
    return where == nullptr ? nullptr : where->find(id);
}

std::int64_t agent_files::last_sequence() const noexcept
{
    auto last = record.last_sequence;
    for (const auto& [name, scope] : scopes)
        if (const auto* head = scope.head())
            last = std::max(last, head->header.sequence());
    return last;
}

fs::path agent_files::folder_of(std::string_view scope) const
{
    return scope.empty() ? folders.front() : reserved() / "scopes" / to_name(scope);
}

fs::path agent_files::path_of(std::string_view scope, std::string_view id) const
{
    return folder_of(scope) / (to_name(id) + suffix);
}

fs::path agent_files::path_of_step(std::string_view scope, std::string_view key) const
{
    return reserved() / "steps" / to_name(scope) / (to_name(key) + suffix);
}

// The catalog

std::optional<std::string> catalog::agent_of(const fs::path& folder) const
{
    const auto name = folder.filename().native();
    if (name.starts_with('.'))
        return std::nullopt;
    if (!is_shortened(name))
        return meaning_of(name);
    try {
        auto record = read_agent(files::read_whole(folder / reserved_folder / "agent.json"));
        if (to_name(record.agent_id) == name)
            return record.agent_id;
    } catch (const error& failure) {
        throw error(errc::corrupt,
                    detail::quoted(folder.native()) +
                        " does not say which agent it belongs to: " + failure.details().message());
    }
    return name; // of another program
}

void catalog::list_agents()
{
    if (is_listed_)
        return;
    std::map<std::string, known_agent, std::less<>> found;
    for (const auto& entry : entries_of(root_)) {
        if (!is_real_folder(entry))
            continue;
        const auto agent_id = agent_of(entry.path());
        if (!agent_id)
            continue;
        auto& agent = found[*agent_id];
        if (const auto known = agents_.find(*agent_id);
            agent.files.folders.empty() && known != agents_.end()) {
            agent = std::move(known->second); // its files need not be read again if they did not change
            agent.files.folders.clear();
        }
        const bool is_ours = to_name(*agent_id) == entry.path().filename();
        agent.files.folders.insert(is_ours ? agent.files.folders.begin() : agent.files.folders.end(),
                                   entry.path());
    }
    for (auto& [agent_id, agent] : found)
        if (agent.files.folders.front().filename() != to_name(agent_id))
            agent.files.folders.insert(agent.files.folders.begin(), root_ / to_name(agent_id));
    agents_ = std::move(found);
    is_listed_ = true;
}

void catalog::read(known_agent& agent, const std::string& agent_id) const
{
    auto& files_of = agent.files;
    std::map<fs::path, checkpoint_file> before;
    for (const auto& [name, scope] : files_of.scopes)
        for (const auto& [id, entry] : scope.checkpoints())
            before.emplace(entry.path, entry);
    files_of.scopes.clear();
    files_of.record = {};
    files_of.record.agent_id = agent_id;

    const auto read_folder = [&](const fs::path& folder, const std::string& scope_name) {
        for (const auto& entry : entries_of(folder)) {
            if (!is_document(entry))
                continue;
            const auto stamp = stamp_of(entry.path());
            if (!stamp)
                continue; // gone since
            const auto known = before.find(entry.path());
            auto found = known != before.end() && known->second.stamp == *stamp
                             ? std::move(known->second)
                             : read_file(entry.path(), *stamp, agent_id, scope_name);
            found.header.with_pinned(false); // the record says so below
            auto& scope = files_of.scopes[found.header.scope()];
            if (scope.find(found.header.id()) == nullptr) // our own spelling comes first
                scope.put(std::move(found));
        }
    };
    for (const auto& folder : files_of.folders)
        read_folder(folder, "%");
    for (const auto& entry : entries_of(files_of.reserved() / "scopes"))
        if (is_real_folder(entry))
            read_folder(entry.path(), entry.path().filename());
    for (const auto& folder : entries_of(files_of.reserved() / "steps"))
        if (is_real_folder(folder))
            for (const auto& entry : entries_of(folder.path()))
                if (is_document(entry)) {
                    auto found = read_step_file(entry.path(), agent_id);
                    auto& scope = files_of.scopes[found.content.value.scope()];
                    scope.steps.emplace(found.content.value.key(), std::move(found));
                }
    files_of.has_record = stamp_of(files_of.record_path()).has_value();
    if (files_of.has_record) {
        try {
            files_of.record = read_agent(files::read_whole(files_of.record_path()));
        } catch (const error& failure) {
            throw error(errc::corrupt, "the record of agent " + detail::quoted(agent_id) + ", " +
                                           detail::quoted(files_of.record_path().native()) +
                                           ", is damaged: " + failure.details().message());
        }
    }
    for (const auto& [scope, id] : files_of.record.pins)
        if (auto* pinned = files_of.find(scope, id))
            pinned->header.with_pinned(true);
    number_the_unnumbered(files_of);
    drop_orphaned_steps(files_of);
    agent.is_read = true;
}

agent_files* catalog::find(std::string_view agent_id)
{
    list_agents();
    const auto found = agents_.find(agent_id);
    if (found == agents_.end())
        return nullptr;
    if (!found->second.is_read)
        read(found->second, found->first);
    return &found->second.files;
}

agent_files& catalog::find_or_add(std::string_view agent_id)
{
    if (auto* found = find(agent_id))
        return *found;
    auto& added = agents_[std::string(agent_id)];
    added.is_read = true;
    added.files.folders = {root_ / to_name(agent_id)};
    added.files.record.agent_id = agent_id;
    return added.files;
}

std::vector<std::string> catalog::agents()
{
    list_agents();
    std::vector<std::string> ids;
    for (const auto& [agent_id, agent] : agents_)
        ids.push_back(agent_id);
    return ids;
}

void catalog::forget(std::string_view agent_id)
{
    if (const auto found = agents_.find(agent_id); found != agents_.end())
        found->second.is_read = false;
    is_listed_ = false;
}

void catalog::remove(std::string_view agent_id)
{
    if (const auto found = agents_.find(agent_id); found != agents_.end())
        agents_.erase(found);
}

void catalog::look_again()
{
    is_listed_ = false;
    for (auto& [agent_id, agent] : agents_)
        agent.is_read = false;
}

} // namespace waymark::file
