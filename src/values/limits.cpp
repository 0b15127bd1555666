#include <waymark/error.hpp>
#include <waymark/limits.hpp>

#include <string>
#include <utility>

namespace waymark {

limits& limits::with_max_depth(std::size_t depth) &
{
    if (depth > highest_max_depth)
        throw error(errc::invalid_argument, "limits::with_max_depth(" + std::to_string(depth) +
                                                ") is more than " + std::to_string(highest_max_depth));
    max_depth_ = depth;
    return *this;
}

limits&& limits::with_max_depth(std::size_t depth) &&
{
    return std::move(with_max_depth(depth));
}

limits& limits::with_max_message_bytes(std::size_t bytes) & noexcept
{
    max_message_bytes_ = bytes;
    return *this;
}

limits&& limits::with_max_message_bytes(std::size_t bytes) && noexcept
{
    return std::move(with_max_message_bytes(bytes));
}

limits& limits::with_max_state_bytes(std::size_t bytes) & noexcept
{
    max_state_bytes_ = bytes;
    return *this;
}

limits&& limits::with_max_state_bytes(std::size_t bytes) && noexcept
{
    return std::move(with_max_state_bytes(bytes));
}

limits& limits::with_max_metadata_bytes(std::size_t bytes) & noexcept
{
    max_metadata_bytes_ = bytes;
    return *this;
}

limits&& limits::with_max_metadata_bytes(std::size_t bytes) && noexcept
{
    return std::move(with_max_metadata_bytes(bytes));
}

limits& limits::with_max_document_bytes(std::size_t bytes) & noexcept
{
    max_document_bytes_ = bytes;
    return *this;
}

limits&& limits::with_max_document_bytes(std::size_t bytes) && noexcept
{
    return std::move(with_max_document_bytes(bytes));
}

} // namespace waymark
