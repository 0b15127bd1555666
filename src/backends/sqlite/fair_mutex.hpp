//! A mutex that is handed on in the order in which it was asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace waymark::sqlite {

//! A std::mutex may be taken again at once by the thread that gives it back, again and again: upkeep would
//! starve the saves that wait. With this one a save waits for those before it, and no longer.
class fair_mutex {
public:
    void lock()
    {
        std::unique_lock held(mutex_);
        const auto mine = next_ticket_++;
        given_back_.wait(held, [&] { return mine == served_; });
    }
    void unlock()
    {
        const std::lock_guard held(mutex_);
        ++served_;
        given_back_.notify_all();
    }

private:
    std::mutex mutex_; // guards what follows
    std::condition_variable given_back_;
    std::uint64_t next_ticket_ = 0;
    std::uint64_t served_ = 0;
};

} // namespace waymark::sqlite
