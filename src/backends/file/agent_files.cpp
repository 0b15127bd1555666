#include "agent_files.hpp"

#include "../../values/text.hpp"
#include "file_names.hpp"

#include <waymark/error.hpp>

#include <algorithm>

namespace waymark::file {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t highest_sequence = std::int64_t{1} << 62;

// Whether something lies in a file or folder of that (shortened) name. The name may be an id as well, whose
// file has another name then.

bool lies_in(const checkpoint_file& entry, const std::string& name)
{
    return entry.path.stem() == name;
}

bool lies_in(const step_file& entry, const std::string& name)
{
    return entry.path.stem() == name;
}

bool lies_in(const scope_files& scope, const std::string& name)
{
    const auto is_in_folder = [&](const auto& entry) {
        return entry.second.path.parent_path().filename() == name;
    };
    return std::any_of(scope.checkpoints().begin(), scope.checkpoints().end(), is_in_folder) ||
           std::any_of(scope.steps.begin(), scope.steps.end(), is_in_folder);
}

//! Looks for an id, and for a damaged file that is known only by the shortened name of the id.
template <class Map>
auto* find_in(Map& map, std::string_view id)
{
    auto found = map.find(id);
    if (found != map.end())
        return &found->second;
    if (const auto name = to_name(id); is_shortened(name))
        if (found = map.find(name); found != map.end() && lies_in(found->second, name))
            return &found->second;
    return static_cast<decltype(&found->second)>(nullptr);
}

} // namespace

checkpoint_file* scope_files::find(std::string_view id)
{
    return find_in(checkpoints_, id);
}

step_file* scope_files::find_step(std::string_view key)
{
    return find_in(steps, key);
}

const checkpoint_file* scope_files::without_sequence() const
{
    return without_sequence_.empty() ? nullptr : &checkpoints_.at(*without_sequence_.begin());
}

void scope_files::put(checkpoint_file added)
{
    remove(added.header.id());
    if (added.has_sequence)
        order_.emplace(added.header.sequence(), added.header.id());
    else
        without_sequence_.insert(added.header.id());
    checkpoints_.emplace(added.header.id(), std::move(added));
}

void scope_files::remove(std::string_view id)
{
    const auto found = checkpoints_.find(id);
    if (found == checkpoints_.end())
        return;
    order_.erase({found->second.header.sequence(), found->first});
    without_sequence_.erase(found->first);
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
    return find_in(scopes, scope);
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

bool agent_files::all_sequences_are_known() const noexcept
{
    return !record_damage && std::all_of(scopes.begin(), scopes.end(), [](const auto& entry) {
        return entry.second.without_sequence() == nullptr;
    });
}

std::int64_t agent_files::last_possible_sequence() const noexcept
{
    constexpr std::int64_t room = (std::int64_t{1} << 20) - 1; // for what cannot be read
    const auto last = last_sequence();
    return all_sequences_are_known() || last >= highest_sequence ? last : last + room;
}

std::int64_t agent_files::next_sequence() const
{
    const auto last = last_possible_sequence();
    if (last >= highest_sequence)
        throw error(errc::corrupt, "agent " + detail::quoted(record.agent_id) +
                                       " has a checkpoint with sequence " + std::to_string(last) +
                                       "; repair that file");
    return last + 1;
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

} // namespace waymark::file
