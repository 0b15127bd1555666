#include <waymark/error.hpp>
#include <waymark/limits.hpp>

#include <string>

namespace waymark {

limits& limits::with_max_depth(std::size_t depth)
{
    if (depth > highest_max_depth)
        throw error(errc::invalid_argument, "limits::with_max_depth(" + std::to_string(depth) +
                                                ") is more than " + std::to_string(highest_max_depth));
    max_depth_ = depth;
    return *this;
}

} // namespace waymark
