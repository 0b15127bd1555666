//! What was not true of what several callers were told.
#pragma once

#include <waymark/store.hpp>

#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace waymark::faults {

//! Several threads may tell it at once.
class claims {
public:
    void fail(const std::string& text)
    {
        const std::lock_guard lock(mutex_);
        wrong_.push_back(text);
    }
    //! Runs something that has no reason to fail.
    template <class Action>
    void expect(const std::string& what, Action action)
    {
        try {
            action();
        } catch (const std::exception& failure) {
            fail(what + ": " + failure.what());
        }
    }
    std::vector<std::string> take() { return std::move(wrong_); }

private:
    std::mutex mutex_;
    std::vector<std::string> wrong_;
};

inline void judge_damage(store& in, const std::string& story, claims& to)
{
    to.expect(story, [&] {
        if (const auto report = in.verify(); !report.ok())
            to.fail(story + ": verify: " + report.damages()[0].what);
    });
}

} // namespace waymark::faults
