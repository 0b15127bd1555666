#include "../values/text.hpp"

#include <waymark/history.hpp>

#include <algorithm>
#include <numeric>

namespace waymark {

namespace {

//! "#4 'plan_ready', iteration 5, 11 messages, id 'c4'"
std::string line_of(const checkpoint_header& point)
{
    std::string line = "#" + std::to_string(point.sequence());
    if (!point.name().empty())
        line += " " + detail::quoted(point.name());
    if (point.damage())
        return line + ", id " + detail::quoted(point.id()) + ", damaged: " + *point.damage();
    line += ", iteration " + std::to_string(point.iteration()) + ", " +
            std::to_string(point.message_count()) + (point.message_count() == 1 ? " message" : " messages") +
            ", id " + detail::quoted(point.id());
    return point.pinned() ? line + ", pinned" : line;
}

//! Finds the root of a tree, and shortens the way for the next time.
std::size_t root_of(std::vector<std::size_t>& up, std::size_t node)
{
    while (up[node] != node)
        node = up[node] = up[up[node]];
    return node;
}

} // namespace

history::history(std::vector<checkpoint_header> checkpoints) : checkpoints_(std::move(checkpoints))
{
    std::sort(checkpoints_.begin(), checkpoints_.end(),
              [](const auto& a, const auto& b) { return a.sequence() < b.sequence(); });
    for (std::size_t i = 0; i < checkpoints_.size(); ++i)
        index_.emplace(checkpoints_[i].id(), i);
    parent_.assign(checkpoints_.size(), none);
    children_.resize(checkpoints_.size());
    std::vector<std::size_t> up(checkpoints_.size());
    std::iota(up.begin(), up.end(), std::size_t{0});
    for (std::size_t i = 0; i < checkpoints_.size(); ++i) {
        const auto& parent_id = checkpoints_[i].parent_id();
        const auto parent = parent_id ? index_of(*parent_id) : none;
        if (parent == none || root_of(up, parent) == i)
            continue; // a root, or the last link of a circle
        up[i] = parent;
        parent_[i] = parent;
        children_[parent].push_back(i);
    }
}

std::size_t history::index_of(std::string_view id) const
{
    const auto found = index_.find(std::string(id));
    return found == index_.end() ? none : found->second;
}

const checkpoint_header* history::find(std::string_view id) const
{
    const auto index = index_of(id);
    return index == none ? nullptr : &checkpoints_[index];
}

const checkpoint_header* history::head() const noexcept
{
    return checkpoints_.empty() ? nullptr : &checkpoints_.back();
}

const checkpoint_header* history::parent(std::string_view id) const
{
    const auto index = index_of(id);
    return index == none || parent_[index] == none ? nullptr : &checkpoints_[parent_[index]];
}

std::vector<const checkpoint_header*> history::pointers(const std::vector<std::size_t>& indices) const
{
    std::vector<const checkpoint_header*> result;
    result.reserve(indices.size());
    for (const auto index : indices)
        result.push_back(&checkpoints_[index]);
    return result;
}

std::vector<const checkpoint_header*> history::children(std::string_view id) const&
{
    const auto index = index_of(id);
    return index == none ? std::vector<const checkpoint_header*>() : pointers(children_[index]);
}

std::vector<const checkpoint_header*> history::roots() const&
{
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < parent_.size(); ++i)
        if (parent_[i] == none)
            found.push_back(i);
    return pointers(found);
}

std::vector<const checkpoint_header*> history::branches() const&
{
    std::vector<std::size_t> found;
    for (auto i = children_.size(); i-- > 0;)
        if (children_[i].empty())
            found.push_back(i);
    return pointers(found);
}

std::vector<const checkpoint_header*> history::path_to(std::string_view id) const&
{
    std::vector<std::size_t> path;
    for (auto index = index_of(id); index != none; index = parent_[index])
        path.push_back(index);
    std::reverse(path.begin(), path.end());
    return pointers(path);
}

std::string history::to_text() const
{
    // What continues straight down: the way to the head, elsewhere the newest child.
    std::vector<bool> leads_to_head(checkpoints_.size(), false);
    for (auto index = checkpoints_.empty() ? none : checkpoints_.size() - 1; index != none;
         index = parent_[index])
        leads_to_head[index] = true;

    struct line {
        std::size_t node;
        std::string indent;
        bool begins_branch;
    };
    std::vector<line> left; // a stack: no depth of branching can exhaust it
    for (auto i = checkpoints_.size(); i-- > 0;)
        if (parent_[i] == none)
            left.push_back({i, {}, false});

    std::string text;
    while (!left.empty()) {
        auto [node, indent, begins_branch] = std::move(left.back());
        left.pop_back();
        text += indent + (begins_branch ? "├─ " : "") + line_of(checkpoints_[node]) +
                (node + 1 == checkpoints_.size() ? "  <- head\n" : "\n");
        if (begins_branch)
            indent += "│  ";
        const auto& children = children_[node];
        if (children.empty())
            continue;
        const auto on_way = std::find_if(children.begin(), children.end(),
                                         [&](std::size_t child) { return leads_to_head[child]; });
        const auto straight = on_way == children.end() ? children.back() : *on_way;
        left.push_back({straight, indent, false});
        for (auto child = children.rbegin(); child != children.rend(); ++child)
            if (*child != straight)
                left.push_back({*child, indent, true});
    }
    return text;
}

} // namespace waymark
