#include <waymark/summary.hpp>

namespace waymark {

namespace json = boost::json;

void summary::add(const checkpoint_header& next)
{
    ++checkpoints_;
    if (!next.name().empty())
        ++names_[next.name()];
    if (!first_)
        first_ = next;
    last_ = next;
}

void summary::set_bytes(std::uint64_t content, std::uint64_t stored) noexcept
{
    bytes_stored_ = stored;
    bytes_shared_ = content > stored ? content - stored : 0;
}

std::chrono::microseconds summary::duration() const noexcept
{
    return first_ ? last_->created_at() - first_->created_at() : std::chrono::microseconds(0);
}

void tag_invoke(json::value_from_tag, json::value& to, const summary& from)
{
    const auto header = [](const std::optional<checkpoint_header>& point) {
        return point ? json::value_from(*point) : json::value(nullptr);
    };
    auto& object = to.emplace_object();
    object["total_count"] = from.checkpoints();
    object["unique_names"] = from.unique_names();
    auto& names = object["names"].emplace_object();
    for (const auto& [name, count] : from.names())
        names[name] = count;
    object["first_checkpoint"] = header(from.first());
    object["last_checkpoint"] = header(from.last());
    object["duration_seconds"] = std::chrono::duration<double>(from.duration()).count();
    object["bytes_stored"] = from.bytes_stored();
    object["bytes_shared"] = from.bytes_shared();
}

} // namespace waymark
