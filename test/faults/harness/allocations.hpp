//! Memory of this process: how much is in use, and allocations that fail when told.
//!
//! `operator new` is replaced for the whole program. SQLite has an allocator of its own, which is led through
//! the same count.
#pragma once

#include <cstddef>
#include <cstdint>

namespace waymark::faults {

//! What `operator new` and SQLite have given out and not got back, in bytes.
std::size_t bytes_in_use() noexcept;

//! The most that was in use since the last call.
std::size_t take_peak_bytes() noexcept;

//! While it lives, allocations are counted, and the Nth fails; with `repeat::forever` all later ones, too.
//! One at a time.
class failing_allocations {
public:
    enum class repeat { once, forever };

    //! 0: none fails.
    explicit failing_allocations(std::uint64_t nth, repeat how = repeat::once) noexcept;
    //! From the Nth of this thread on, `count` fail; those of other threads do not count.
    static failing_allocations on_this_thread(std::uint64_t nth, std::uint64_t count) noexcept;
    failing_allocations(const failing_allocations&) = delete;
    failing_allocations& operator=(const failing_allocations&) = delete;
    ~failing_allocations();

    //! Allocations so far, those that failed included.
    static std::uint64_t count() noexcept;
    static bool has_failed() noexcept;

private:
    failing_allocations(std::uint64_t first, std::uint64_t last, const void* thread) noexcept;
};

//! Allocations of the harness itself, which do not count and do not fail.
class spared_allocations {
public:
    spared_allocations() noexcept;
    spared_allocations(const spared_allocations&) = delete;
    spared_allocations& operator=(const spared_allocations&) = delete;
    ~spared_allocations();
};

//! Leads SQLite's memory through the count. Before SQLite is used for the first time.
void count_memory_of_sqlite();

} // namespace waymark::faults
