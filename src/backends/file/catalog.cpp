#include "catalog.hpp"

#include "../../values/text.hpp"
#include "../files.hpp"
#include "file_names.hpp"

#include <waymark/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <sys/stat.h>

namespace waymark::file {

namespace fs = std::filesystem;

namespace {

// A folder that changes so often while it is read is given up.
constexpr int most_looks = 1'000;

fs::file_type type_of(const fs::path& path)
{
    std::error_code failure;
    const auto found = fs::symlink_status(path, failure).type();
    if (found == fs::file_type::none) // there may be one: that is not the same as none
        files::fail(path, "looked at", failure.value());
    return found;
}

bool is_real_folder(const fs::path& path)
{
    return type_of(path) == fs::file_type::directory;
}

//! For what was listed. @throws files::vanished
bool is_still_folder(const fs::path& path)
{
    const auto found = type_of(path);
    if (found == fs::file_type::not_found)
        throw files::vanished(path);
    return found == fs::file_type::directory;
}

bool is_document(const fs::path& path)
{
    return path.extension() == suffix && !path.filename().native().starts_with('.') && !is_still_folder(path);
}

//! The folders in a folder. @throws files::vanished
std::vector<fs::path> folders_in(const fs::path& folder)
{
    auto entries = files::list(folder);
    std::erase_if(entries, [](const fs::path& path) { return !is_still_folder(path); });
    return entries;
}

//! Calls `look` until nothing vanishes under its hands.
template <class Look>
auto look_until_settled(const fs::path& folder, Look look)
{
    for (int looks = 0; looks < most_looks; ++looks) {
        try {
            return look();
        } catch (const files::vanished&) { // NOLINT(bugprone-empty-catch): that is why it looks again
        }
    }
    files::fail_restless(folder);
}

//! What the documents of a folder say. What was read before and has the same stamp is not read again.
template <class File>
class document_reader {
public:
    //! Keeps what an earlier question has read.
    void remember(const File& file)
    {
        if (file.stamp.is_telling)
            read_.insert_or_assign(file.path, file);
    }

    //! Adds them in the order of their names. @throws waymark::error `busy`, `io`
    template <class Read>
    void read(const fs::path& folder, std::vector<File>& to, Read read)
    {
        const auto begin = to.size();
        look_until_settled(folder, [&] {
            to.erase(to.begin() + static_cast<std::ptrdiff_t>(begin), to.end());
            bool has_vanished = false;
            for (const auto& path : documents_in(folder)) {
                try {
                    to.push_back(read_one(path, read));
                } catch (const files::vanished&) {
                    has_vanished = true; // the others are read meanwhile, or it would never come to an end
                }
            }
            if (has_vanished)
                throw files::vanished(folder);
        });
    }

private:
    template <class Read>
    const File& read_one(const fs::path& path, Read read)
    {
        const auto stamp = stamp_of(path);
        if (!stamp)
            throw files::vanished(path);
        const auto known = read_.find(path);
        if (known != read_.end() && known->second.stamp == *stamp)
            return known->second;
        return read_.insert_or_assign(path, read(path, *stamp)).first->second;
    }

    std::map<fs::path, File> read_; // by path
};

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
    // The checksum of a file of a newer version held, or we would not know that it is one.
    return {path, stamp, checkpoint_header(known).with_stored_bytes(stamp.bytes).with_damage(damage),
            is_newer && sequence.has_value(), is_newer};
}

step_file read_step_file(const fs::path& path, const file_stamp& stamp, const std::string& agent_id)
{
    step_file found{
        path,
        stamp,
        {step(agent_id, meaning_of(path.parent_path().filename().native()), meaning_of(path.stem().native())),
         0},
        std::nullopt};
    bool is_newer = false;
    auto damage = damage_of([&] { found.content = read_step(files::read_whole(path)); }, is_newer);
    if (!damage.empty())
        found.damage = std::move(damage);
    return found;
}

//! A damaged file in a folder with a shortened name does not tell its scope. Others in folders of that name
//! do: they belong together, and what decides about a scope has to know of its damage.
void name_scopes_of_damaged(std::vector<checkpoint_file>& checkpoints, std::vector<step_file>& steps)
{
    const auto folder_of = [](const auto& entry) { return entry.path.parent_path().filename().native(); };
    std::map<std::string, std::string> scopes; // by the name of their folders
    for (const auto& entry : checkpoints)
        if (const auto name = folder_of(entry); is_shortened(name) && !entry.header.damage())
            scopes.emplace(name, entry.header.scope());
    for (const auto& entry : steps)
        if (const auto name = folder_of(entry); is_shortened(name) && !entry.damage)
            scopes.emplace(name, entry.content.value.scope());
    for (auto& entry : checkpoints) {
        const auto& old = entry.header;
        if (const auto found = scopes.find(folder_of(entry)); found != scopes.end() && old.damage()) {
            checkpoint known(old.agent_id());
            known.with_id(old.id())
                .with_scope(found->second)
                .with_created_at({})
                .with_sequence(old.sequence());
            entry.header =
                checkpoint_header(known).with_stored_bytes(old.stored_bytes()).with_damage(*old.damage());
        }
    }
    for (auto& entry : steps)
        if (const auto found = scopes.find(folder_of(entry)); found != scopes.end() && entry.damage) {
            const auto& old = entry.content.value;
            entry.content.value = step(old.agent_id(), found->second, old.key());
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

//! An erasure that was interrupted may have left steps of a checkpoint that is gone. A later checkpoint would
//! make them valid again, so that a writer removes them for good.
void drop_orphaned_steps(agent_files& agent, bool for_good)
{
    for (auto& [name, scope] : agent.scopes) {
        if (scope.without_sequence() != nullptr)
            continue; // it may be the one that they were made on
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
    constexpr auto coarsest_clock = std::chrono::seconds(2);
    const auto at = now();
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) {
        if (errno == ENOENT)
            return std::nullopt;
        files::fail(path, "looked at", errno);
    }
    const auto changed_at = found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec;
    return file_stamp{found.st_ino, static_cast<std::uint64_t>(found.st_size), changed_at,
                      timestamp(std::chrono::microseconds(changed_at / 1'000)) + coarsest_clock < at};
}

std::vector<fs::path> documents_in(const fs::path& folder)
{
    auto entries = files::list(folder);
    std::erase_if(entries, [](const fs::path& path) { return !is_document(path); });
    return entries;
}

bool holds_only_ours(const fs::path& folder)
{
    const auto entries = files::list(folder);
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
    // The documents come first: a writer makes the record before them, so that it is there if they are.
    const auto before = stamp_of(folder);
    const bool has_documents = !documents_in(folder).empty();
    const auto reserved = folder / reserved_folder;
    const bool has_reserved = is_real_folder(reserved);
    if (!has_reserved && !has_documents)
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
    } else if (!has_documents) {
        return std::nullopt;
    }
    const auto after = stamp_of(folder);
    if (!before || !after || before->inode != after->inode)
        throw files::vanished(folder); // the documents were those of an agent that was erased meanwhile
    return name;
}

void catalog::list_agents()
{
    if (is_listed_)
        return;
    auto found = look_until_settled(root_, [this] { // all that can fail comes first
        std::map<std::string, std::vector<fs::path>> all;
        for (const auto& folder : folders_in(root_)) {
            const auto agent_id = look_until_settled(folder, [&] { return agent_of(folder); });
            if (!agent_id)
                continue;
            auto& folders = all[*agent_id];
            const bool is_ours = to_name(*agent_id) == folder.filename();
            folders.insert(is_ours ? folders.begin() : folders.end(), folder);
        }
        return all;
    });
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
    document_reader<checkpoint_file> checkpoints;
    document_reader<step_file> steps;
    for (const auto& [name, scope] : agent.files.scopes) {
        for (const auto& [id, entry] : scope.checkpoints())
            checkpoints.remember(entry);
        for (const auto& [key, entry] : scope.steps)
            steps.remember(entry);
    }

    // What is found is told, and whoever asks may rely on it. Who put it there may have been killed, or have
    // failed, before the folder was synced.
    const auto settled = [this](const fs::path& folder) -> const fs::path& {
        if (for_writing_ && is_real_folder(folder))
            files::sync_folder(folder);
        return folder;
    };
    // Steps come first: the checkpoint that one was made on was there before it, and is looked for after it.
    const bool has_reserved = is_real_folder(now.reserved());
    std::vector<step_file> found_steps;
    if (has_reserved) {
        settled(now.reserved());
        for (const auto& folder : folders_in(settled(now.reserved() / "steps")))
            steps.read(settled(folder), found_steps, [&](const fs::path& path, const file_stamp& stamp) {
                return read_step_file(path, stamp, agent_id);
            });
    }
    std::vector<checkpoint_file> found_checkpoints;
    const auto read_folder = [&](const fs::path& folder, const std::string& scope_name) {
        checkpoints.read(settled(folder), found_checkpoints,
                         [&](const fs::path& path, const file_stamp& stamp) {
                             return read_file(path, stamp, agent_id, scope_name);
                         });
    };
    for (const auto& folder : now.folders)
        read_folder(folder, "%");
    if (has_reserved) {
        for (const auto& folder : folders_in(settled(now.reserved() / "scopes")))
            read_folder(folder, folder.filename());
        read_record(now, agent_id);
    }
    name_scopes_of_damaged(found_checkpoints, found_steps);
    for (auto& found : found_checkpoints) {
        found.header.with_pinned(false); // the record says so below
        auto& scope = now.scopes[found.header.scope()];
        if (!scope.checkpoints().contains(found.header.id())) // our own spelling comes first
            scope.put(std::move(found));
    }
    for (auto& found : found_steps) {
        auto& scope = now.scopes[found.content.value.scope()];
        scope.steps.emplace(found.content.value.key(), std::move(found));
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
    if (auto& agent = found->second; !agent.is_read)
        look_until_settled(agent.files.folders.front(), [&] { read(agent, found->first); });
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
