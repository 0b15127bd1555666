#include <waymark/async_options.hpp>
#include <waymark/error.hpp>

namespace waymark {

async_options& async_options::with_max_queued_operations(std::size_t count) & noexcept
{
    max_queued_operations_ = count;
    return *this;
}

async_options&& async_options::with_max_queued_operations(std::size_t count) && noexcept
{
    return std::move(with_max_queued_operations(count));
}

async_options& async_options::with_max_queued_bytes(std::size_t bytes) & noexcept
{
    max_queued_bytes_ = bytes;
    return *this;
}

async_options&& async_options::with_max_queued_bytes(std::size_t bytes) && noexcept
{
    return std::move(with_max_queued_bytes(bytes));
}

async_options& async_options::with_max_waiting_operations(std::size_t count) & noexcept
{
    max_waiting_operations_ = count;
    return *this;
}

async_options&& async_options::with_max_waiting_operations(std::size_t count) && noexcept
{
    return std::move(with_max_waiting_operations(count));
}

async_options& async_options::with_max_waiting_bytes(std::size_t bytes) & noexcept
{
    max_waiting_bytes_ = bytes;
    return *this;
}

async_options&& async_options::with_max_waiting_bytes(std::size_t bytes) && noexcept
{
    return std::move(with_max_waiting_bytes(bytes));
}

async_options& async_options::with_max_batch_operations(std::size_t count) & noexcept
{
    max_batch_operations_ = count;
    return *this;
}

async_options&& async_options::with_max_batch_operations(std::size_t count) && noexcept
{
    return std::move(with_max_batch_operations(count));
}

async_options& async_options::with_read_threads(std::size_t count) & noexcept
{
    read_threads_ = count;
    return *this;
}

async_options&& async_options::with_read_threads(std::size_t count) && noexcept
{
    return std::move(with_read_threads(count));
}

void async_options::validate() const
{
    const auto require = [](std::size_t number, const char* name) {
        if (number == 0)
            throw error(errc::invalid_argument, std::string("async_options::with_") + name +
                                                    "(0) would let nothing through; use at least 1");
    };
    require(max_queued_operations_, "max_queued_operations");
    require(max_batch_operations_, "max_batch_operations");
    require(read_threads_, "read_threads");
}

} // namespace waymark
