#include <waymark/error.hpp>
#include <waymark/upkeep.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

namespace waymark {

namespace {

// Longer than it takes another process to notice that the write lock of a SQLite file is free.
constexpr auto pause = std::chrono::milliseconds(2);

} // namespace

bool upkeep_control::is_stopped() const noexcept
{
    return std::any_of(stops_.begin(), stops_.end(),
                       [](const std::stop_token& each) { return each.stop_requested(); });
}

void upkeep_control::require_wanted() const
{
    if (is_stopped())
        throw error(
            std::make_error_code(std::errc::operation_canceled),
            "it was stopped, as its caller asked; what was done stays, and calling it again does the rest");
}

void upkeep_control::give_way() const
{
    require_wanted();
    std::this_thread::sleep_for(pause);
    require_wanted();
}

} // namespace waymark
