#include "catalog.hpp"

#include "../../values/text.hpp"
#include "../files.hpp"
#include "file_names.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sys/stat.h>

namespace waymark::file {

namespace fs = std::filesystem;

namespace {

bool is_real_folder(const fs::path& path)
{
    std::error_code failure;
    const auto found = fs::symlink_status(path, failure);
    if (found.type() == fs::file_type::none) // there may be one: that is not the same as none
        files::fail(path, "looked at", failure.value());
    return found.type() == fs::file_type::directory;
}

//! The entries of a folder, in a fixed order. Empty if it is not there or is a link.
std::vector<fs::path> entries_of(const fs::path& folder)
{
    auto entries = files::list(folder);
    std::sort(entries.begin(), entries.end());
    return entries;
}

bool is_document(const fs::path& path)
{
    return path.extension() == suffix && !path.filename().native().starts_with('.') && !is_real_folder(path);
}

//! The folders in a folder.
std::vector<fs::path> folders_in(const fs::path& folder)
{
    auto entries = entries_of(folder);
    std::erase_if(entries, [](const fs::path& path) { return !is_real_folder(path); });
    return entries;
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

//! Calls `read`; damage is a value, an I/O error is not: that would make it last.
template <class Read>
std::string damage_of(Read read, bool& is_newer)
{
    try {
        read();
        return {};
    } catch (const error& failure) {
        is_newer = failure.code() == errc::unsupported_format;
        if (!is_newer && failure.code() != errc::corrupt)
            throw;
        return failure.details().message();
    }
}

checkpoint_file read_file(const fs::path& path, const file_stamp& stamp, const std::string& agent_id,
                          const std::string& scope_name)
{
    const auto name = path.stem().native();
    std::string text;
    std::optional<checkpoint> value;
    bool is_newer = false;
    auto damage = damage_of(
        [&] {
            text = files::read_whole(path);
            value = read_checkpoint(text);
        },
        is_newer);
    if (value) {
        if (value->agent_id() == agent_id && is_name_of(scope_name, value->scope()) &&
            is_name_of(name, value->id()))
            return {path, stamp, checkpoint_header(*value).with_stored_bytes(stamp.bytes), true, false};
        damage = "the file is for checkpoint " + detail::quoted(value->id()) + " of agent " +
                 detail::quoted(value->agent_id()) + ", scope " + detail::quoted(value->scope());
    }
    checkpoint known(agent_id);
    const auto sequence = guess_sequence(text);
    known.with_id(meaning_of(name)).with_scope(meaning_of(scope_name)).with_created_at({});
    known.with_sequence(sequence.value_or(0));
    return {path, stamp, checkpoint_header(known).with_stored_bytes(stamp.bytes).with_damage(damage),
            sequence.has_value(), is_newer};
}

step_file read_step_file(const fs::path& path, const std::string& agent_id)
{
    step_file found{
        path,
        {step(agent_id, meaning_of(path.parent_path().filename().native()), meaning_of(path.stem().native())),
         0},
        std::nullopt};
    bool is_newer = false;
    auto damage = damage_of([&] { found.content = read_step(files::read_whole(path)); }, is_newer);
    if (!damage.empty())
        found.damage = std::move(damage);
    return found;
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

//! An erasure that was interrupted may have left steps of a checkpoint that is gone. A later checkpoint would
//! make them valid again, so that a writer removes them for good.
void drop_orphaned_steps(agent_files& agent, bool for_good)
{
    for (auto& [name, scope] : agent.scopes) {
        if (scope.without_sequence() != nullptr)
            continue; // who knows
        const auto* head = scope.head();
        const auto newest = head == nullptr ? 0 : std::max<std::int64_t>(head->header.sequence(), 0);
        std::set<fs::path> folders;
        std::erase_if(scope.steps, [&](const auto& entry) {
            if (entry.second.content.made_on <= newest)
                return false;
            if (for_good) {
                files::remove(entry.second.path);
                folders.insert(entry.second.path.parent_path());
            }
            return true;
        });
        for (const auto& folder : folders)
            files::sync_folder(folder);
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

std::vector<fs::path> documents_in(const fs::path& folder)
{
    auto entries = entries_of(folder);
    std::erase_if(entries, [](const fs::path& path) { return !is_document(path); });
    return entries;
}

bool holds_only_ours(const fs::path& folder)
{
    const auto entries = entries_of(folder);
    return std::all_of(entries.begin(), entries.end(), [](const fs::path& path) {
        return is_document(path) || path.filename() == reserved_folder;
    });
}

//! None if the folder is nobody's.
std::optional<std::string> catalog::agent_of(const fs::path& folder) const
{
    const auto name = folder.filename().native();
    if (name.starts_with('.'))
        return std::nullopt;
    const auto reserved = folder / reserved_folder;
    const bool has_reserved = is_real_folder(reserved);
    if (!has_reserved && documents_in(folder).empty())
        return std::nullopt;
    if (!is_shortened(name))
        return meaning_of(name);
    // The id is in the record. Without one this is a folder of another program, or one that was being made
    // when its process was killed.
    const auto record_path = reserved / "agent.json";
    if (has_reserved && stamp_of(record_path)) {
        bool is_newer = false;
        agent_document record;
        damage_of([&] { record = read_agent(files::read_whole(record_path)); }, is_newer);
        if (to_name(record.agent_id) == name)
            return record.agent_id;
    } else if (documents_in(folder).empty()) {
        return std::nullopt;
    }
    return name;
}

void catalog::list_agents()
{
    if (is_listed_)
        return;
    std::map<std::string, std::vector<fs::path>> found; // all that can fail comes first
    for (const auto& folder : folders_in(root_)) {
        const auto agent_id = agent_of(folder);
        if (!agent_id)
            continue;
        auto& folders = found[*agent_id];
        const bool is_ours = to_name(*agent_id) == folder.filename();
        folders.insert(is_ours ? folders.begin() : folders.end(), folder);
    }
    std::map<std::string, known_agent, std::less<>> agents;
    for (auto& [agent_id, folders] : found) {
        if (folders.front().filename() != to_name(agent_id))
            folders.insert(folders.begin(), root_ / to_name(agent_id));
        agents[agent_id].files.folders = std::move(folders);
    }
    for (auto& [agent_id, agent] : agents)
        if (const auto known = agents_.find(agent_id); known != agents_.end()) {
            known->second.files.folders = std::move(agent.files.folders);
            agent = std::move(known->second); // files that did not change need not be read again
        }
    agents_ = std::move(agents);
    is_listed_ = true;
}

void catalog::read(known_agent& agent, const std::string& agent_id) const
{
    agent_files now;
    now.folders = agent.files.folders;
    now.record.agent_id = agent_id;
    std::map<fs::path, const checkpoint_file*> before;
    for (const auto& [name, scope] : agent.files.scopes)
        for (const auto& [id, entry] : scope.checkpoints())
            before.emplace(entry.path, &entry);

    // What is found is told, and whoever asks may rely on it. Who put it there may have been killed, or have
    // failed, before the folder was synced.
    const auto settled = [this](const fs::path& folder) -> const fs::path& {
        if (for_writing_ && is_real_folder(folder))
            files::sync_folder(folder);
        return folder;
    };
    const auto read_folder = [&](const fs::path& folder, const std::string& scope_name) {
        for (const auto& path : documents_in(settled(folder))) {
            const auto stamp = stamp_of(path);
            if (!stamp)
                continue; // gone since
            const auto known = before.find(path);
            try {
                auto found = known != before.end() && known->second->stamp == *stamp
                                 ? *known->second
                                 : read_file(path, *stamp, agent_id, scope_name);
                found.header.with_pinned(false); // the record says so below
                auto& scope = now.scopes[found.header.scope()];
                if (!scope.checkpoints().contains(found.header.id())) // our own spelling comes first
                    scope.put(std::move(found));
            } catch (const error&) {
                if (stamp_of(path))
                    throw; // it is there and cannot be read
            }
        }
    };
    for (const auto& folder : now.folders)
        read_folder(folder, "%");
    const bool has_reserved = is_real_folder(now.reserved());
    if (has_reserved) {
        settled(now.reserved());
        for (const auto& folder : folders_in(settled(now.reserved() / "scopes")))
            read_folder(folder, folder.filename());
        for (const auto& folder : folders_in(settled(now.reserved() / "steps")))
            for (const auto& path : documents_in(settled(folder))) {
                auto found = read_step_file(path, agent_id);
                auto& scope = now.scopes[found.content.value.scope()];
                scope.steps.emplace(found.content.value.key(), std::move(found));
            }
        read_record(now, agent_id);
    }
    for (const auto& [scope, id] : now.record.pins)
        if (auto* pinned = now.find(scope, id))
            pinned->header.with_pinned(true);
    number_the_unnumbered(now);
    drop_orphaned_steps(now, for_writing_);
    agent.files = std::move(now);
    agent.is_read = true;
}

void catalog::read_record(agent_files& agent, const std::string& agent_id) const
{
    const auto path = agent.record_path();
    agent.has_record = stamp_of(path).has_value();
    if (!agent.has_record)
        return;
    bool is_newer = false;
    agent_document record;
    auto damage = damage_of([&] { record = read_agent(files::read_whole(path)); }, is_newer);
    if (damage.empty() && record.agent_id != agent_id)
        damage = "it belongs to agent " + detail::quoted(record.agent_id);
    if (damage.empty())
        agent.record = std::move(record);
    else
        agent.record_damage = detail::quoted(path.native()) + ": " + damage;
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
