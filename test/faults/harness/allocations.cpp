#include "allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <malloc.h>
#include <new>
#include <sqlite3.h>
#include <stdexcept>

namespace waymark::faults {

namespace {

std::atomic<std::size_t> in_use = 0;
std::atomic<std::size_t> peak = 0;

constexpr auto never = std::numeric_limits<std::uint64_t>::max();
std::atomic<bool> is_armed = false;
std::atomic<std::uint64_t> counted = 0;
std::atomic<std::uint64_t> first_to_fail = 0;
std::atomic<std::uint64_t> last_to_fail = 0;
std::atomic<bool> an_allocation_failed = false;
std::atomic<const void*> the_only_thread = nullptr; // null: all of them
thread_local int spared_scopes = 0;                 // its address tells threads apart

bool fails() noexcept
{
    if (!is_armed.load(std::memory_order_relaxed) || spared_scopes > 0)
        return false;
    if (const auto* only = the_only_thread.load(std::memory_order_relaxed);
        only != nullptr && only != &spared_scopes)
        return false;
    const auto number = ++counted;
    if (number < first_to_fail || number > last_to_fail)
        return false;
    an_allocation_failed = true;
    return true;
}

void* note(void* given) noexcept
{
    if (given == nullptr)
        return nullptr;
    const auto now = in_use += ::malloc_usable_size(given);
    for (auto seen = peak.load(); seen < now && !peak.compare_exchange_weak(seen, now);) {
    }
    return given;
}

void* allocate(std::size_t size) noexcept
{
    return fails() ? nullptr : note(std::malloc(size == 0 ? 1 : size));
}

void* allocate_aligned(std::size_t size, std::size_t alignment) noexcept
{
    return fails() ? nullptr
                   : note(std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
}

void release(void* given) noexcept
{
    if (given != nullptr)
        in_use -= ::malloc_usable_size(given);
    std::free(given);
}

void* or_throw(void* given)
{
    if (given == nullptr)
        throw std::bad_alloc();
    return given;
}

} // namespace

std::size_t bytes_in_use() noexcept
{
    return in_use;
}

std::size_t take_peak_bytes() noexcept
{
    return peak.exchange(in_use);
}

failing_allocations::failing_allocations(std::uint64_t first, std::uint64_t last, const void* thread) noexcept
{
    counted = 0;
    an_allocation_failed = false;
    first_to_fail = first;
    last_to_fail = last;
    the_only_thread = thread;
    is_armed = true;
}

failing_allocations::failing_allocations(std::uint64_t nth, repeat how) noexcept
    : failing_allocations(nth == 0 ? never : nth, how == repeat::once && nth != 0 ? nth : never, nullptr)
{
}

failing_allocations failing_allocations::on_this_thread(std::uint64_t nth, std::uint64_t count) noexcept
{
    return {nth, nth + count - 1, &spared_scopes};
}

failing_allocations::~failing_allocations()
{
    is_armed = false;
}

std::uint64_t failing_allocations::count() noexcept
{
    return counted;
}

bool failing_allocations::has_failed() noexcept
{
    return an_allocation_failed;
}

spared_allocations::spared_allocations() noexcept
{
    ++spared_scopes;
}

spared_allocations::~spared_allocations()
{
    --spared_scopes;
}

void count_memory_of_sqlite()
{
    sqlite3_mem_methods methods{};
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &methods);
    methods.xMalloc = [](int size) { return allocate(static_cast<std::size_t>(size)); };
    methods.xFree = release;
    methods.xRealloc = [](void* given, int size) -> void* {
        if (fails())
            return nullptr;
        const auto before = ::malloc_usable_size(given);
        auto* const moved = std::realloc(given, static_cast<std::size_t>(size));
        if (moved != nullptr)
            in_use -= before;
        return note(moved);
    };
    methods.xSize = [](void* given) { return static_cast<int>(::malloc_usable_size(given)); };
    methods.xRoundup = [](int size) { return (size + 7) & ~7; };
    methods.xInit = [](void*) { return SQLITE_OK; };
    methods.xShutdown = [](void*) {};
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
        throw std::logic_error("SQLite's memory cannot be counted: SQLite is in use already");
}

} // namespace waymark::faults

// NOLINTBEGIN(misc-new-delete-overloads)
using waymark::faults::allocate;
using waymark::faults::allocate_aligned;
using waymark::faults::or_throw;
using waymark::faults::release;

void* operator new(std::size_t size)
{
    return or_throw(allocate(size));
}
void* operator new[](std::size_t size)
{
    return or_throw(allocate(size));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept
{
    return allocate(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept
{
    return allocate(size);
}
void* operator new(std::size_t size, std::align_val_t alignment)
{
    return or_throw(allocate_aligned(size, static_cast<std::size_t>(alignment)));
}
void* operator new[](std::size_t size, std::align_val_t alignment)
{
    return or_throw(allocate_aligned(size, static_cast<std::size_t>(alignment)));
}
void operator delete(void* given) noexcept
{
    release(given);
}
void operator delete[](void* given) noexcept
{
    release(given);
}
void operator delete(void* given, std::size_t) noexcept
{
    release(given);
}
void operator delete[](void* given, std::size_t) noexcept
{
    release(given);
}
void operator delete(void* given, std::align_val_t) noexcept
{
    release(given);
}
void operator delete[](void* given, std::align_val_t) noexcept
{
    release(given);
}
void operator delete(void* given, std::size_t, std::align_val_t) noexcept
{
    release(given);
}
void operator delete[](void* given, std::size_t, std::align_val_t) noexcept
{
    release(given);
}
// NOLINTEND(misc-new-delete-overloads)
