//! How long others hold the write lock of a SQLite file at a time, as another process sees it.
#pragma once

#include "measure.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <sqlite3.h>
#include <stdexcept>
#include <thread>

namespace waymark::bench {

//! Asks for the lock again and again, and gives it back at once.
class lock_watch {
public:
    explicit lock_watch(const std::filesystem::path& file)
    {
        if (sqlite3_open(file.c_str(), &db_) != SQLITE_OK)
            throw std::runtime_error("'" + file.native() + "' cannot be watched");
        thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    }
    lock_watch(const lock_watch&) = delete;
    lock_watch& operator=(const lock_watch&) = delete;
    ~lock_watch()
    {
        thread_.request_stop();
        thread_.join();
        sqlite3_close(db_);
    }

    //! In milliseconds, since the last call.
    double take_longest() { return longest_ms_.exchange(0); }

private:
    void watch(const std::stop_token& stop)
    {
        double free_at = wall_seconds();
        while (!stop.stop_requested()) {
            const auto code = sqlite3_exec(db_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
            const auto now = wall_seconds();
            if (code == SQLITE_OK) {
                sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
                free_at = now;
            }
            // Also what has not ended yet.
            longest_ms_ = std::max(longest_ms_.load(), (now - free_at) * 1e3);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }

    sqlite3* db_ = nullptr;
    std::atomic<double> longest_ms_ = 0;
    std::jthread thread_;
};

} // namespace waymark::bench
