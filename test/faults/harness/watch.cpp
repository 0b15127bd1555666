#include "watch.hpp"

#include <atomic>
#include <cerrno>
#include <utility>

namespace waymark::faults {

std::string_view name_of(call which)
{
    constexpr std::array names = {"open",   "read",   "write",       "sync", "truncate",
                                  "rename", "remove", "make_folder", "look", "list"};
    return names[static_cast<std::size_t>(which)];
}

namespace {

std::atomic<bool> is_watching = false;
thread_local int inside = 0; // calls that a call makes are the system's own

std::string parent_of(const std::string& path)
{
    return path.substr(0, path.rfind('/'));
}
std::string name_in(const std::string& path)
{
    return path.substr(path.rfind('/') + 1);
}

std::string below(const std::string& path)
{
    return path.substr(state().folder.size());
}

} // namespace

watch& state()
{
    static watch instance;
    return instance;
}

bool is_entered_from_outside() noexcept
{
    return is_watching.load(std::memory_order_acquire) && inside == 0;
}

void enter() noexcept
{
    ++inside;
}

void leave() noexcept
{
    --inside;
}

fate fate_of(call which)
{
    auto& all = state();
    const auto number = ++all.counts[static_cast<std::size_t>(which)];
    if (which == call::write && std::exchange(all.fails_next_write, false)) {
        errno = all.next ? all.next->error : EIO;
        return fate::fails;
    }
    if (!all.next || all.next->where != which)
        return fate::as_it_should;
    const auto& planned = *all.next;
    if (number != planned.nth && !(planned.forever && number > planned.nth))
        return fate::as_it_should;
    all.has_failed = true;
    if (planned.what == fault::kind::error || number != planned.nth) {
        errno = planned.error;
        return fate::fails;
    }
    all.fails_next_write = planned.what == fault::kind::cut_error && which == call::write;
    return fate::cut;
}

// Recording

int node_of(const std::string& path)
{
    const auto& nodes = state().log.nodes;
    const auto found = nodes.find(below(path));
    return found == nodes.end() ? 0 : found->second;
}

void note_made(const std::string& path, bool folder)
{
    auto& all = state();
    if (!all.is_recording || node_of(path) != 0)
        return;
    const int node = folder ? all.log.add_folder() : all.log.add_file();
    all.log.nodes[below(path)] = node;
    all.log.add(
        {.what = disk_event::kind::entries, .entries = {{node_of(parent_of(path)), name_in(path), node}}});
}

void note_removed(const std::string& path)
{
    auto& all = state();
    if (!all.is_recording || node_of(path) == 0)
        return;
    all.log.nodes.erase(below(path));
    all.log.add(
        {.what = disk_event::kind::entries, .entries = {{node_of(parent_of(path)), name_in(path), 0}}});
}

void note_renamed(const std::string& from, const std::string& to)
{
    auto& all = state();
    const int node = node_of(from);
    if (!all.is_recording || node == 0)
        return;
    const auto before = below(from);
    std::map<std::string, int> moved;
    for (auto it = all.log.nodes.begin(); it != all.log.nodes.end();) {
        const auto& path = it->first;
        const bool goes = path == before || path.starts_with(before + "/");
        if (goes)
            moved[below(to) + path.substr(before.size())] = it->second;
        it = goes ? all.log.nodes.erase(it) : std::next(it);
    }
    for (const auto& [path, which] : moved)
        all.log.nodes[path] = which;
    all.log.add({.what = disk_event::kind::entries,
                 .entries = {{node_of(parent_of(from)), name_in(from), 0},
                             {node_of(parent_of(to)), name_in(to), node}}});
}

void note_written(int node, std::uint64_t offset, const void* bytes, ssize_t count)
{
    if (state().is_recording && count > 0 && node != 0)
        state().log.add({.what = disk_event::kind::write,
                         .node = node,
                         .offset = offset,
                         .bytes = {static_cast<const char*>(bytes), static_cast<std::size_t>(count)}});
}

void note(disk_event::kind what, int node, std::uint64_t size)
{
    if (state().is_recording && node != 0)
        state().log.add({.what = what, .node = node, .offset = size});
}

// watched_folder

watched_folder::watched_folder(const std::filesystem::path& folder)
{
    auto& all = state();
    const std::lock_guard lock(all.mutex);
    all.folder = folder.native();
    all.counts = {};
    all.next.reset();
    all.fails_next_write = all.has_failed = all.is_recording = false;
    all.ignored = ignored::nothing;
    all.files.clear();
    all.listings.clear();
    all.log = {};
    is_watching = true;
}

watched_folder::~watched_folder()
{
    is_watching = false;
    const std::lock_guard lock(state().mutex); // nobody is inside any more
}

std::uint64_t watched_folder::count(call of) const
{
    const std::lock_guard lock(state().mutex);
    return state().counts[static_cast<std::size_t>(of)];
}

void watched_folder::set(const std::optional<fault>& next)
{
    const std::lock_guard lock(state().mutex);
    state().next = next;
    state().counts = {};
    state().fails_next_write = state().has_failed = false;
}

bool watched_folder::has_failed() const
{
    const std::lock_guard lock(state().mutex);
    return state().has_failed;
}

void watched_folder::record(disk_log begun)
{
    const std::lock_guard lock(state().mutex);
    state().log = std::move(begun);
    state().is_recording = true;
}

disk_log watched_folder::take_log()
{
    const std::lock_guard lock(state().mutex);
    state().is_recording = false;
    return std::exchange(state().log, {});
}

std::size_t watched_folder::place_in_log() const
{
    const std::lock_guard lock(state().mutex);
    return state().log.size();
}

void watched_folder::ignore(ignored what)
{
    const std::lock_guard lock(state().mutex);
    state().ignored = what;
}

} // namespace waymark::faults
