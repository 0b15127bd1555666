//! A store whose saves and loads stand before a gate, so that a test can look at an operation in each phase.
#pragma once

#include "forwarding_store.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace waymark::test {

class gated_store : public forwarding_store {
public:
    explicit gated_store(std::size_t lanes = 1) : lanes_(lanes) {}

    void close_gate()
    {
        const std::lock_guard lock(mutex_);
        open_ = false;
    }

    void open_gate()
    {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

    std::size_t calls() const
    {
        const std::lock_guard lock(mutex_);
        return calls_;
    }
    //! Returns when that many calls have come to the gate in all.
    void wait_for_calls(std::size_t count)
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return calls_ >= count; });
    }

    //! Saves from now on throw this instead of saving.
    void fail_with(std::optional<error> failure)
    {
        const std::lock_guard lock(mutex_);
        failure_ = std::move(failure);
    }

    std::vector<std::size_t> batch_sizes() const
    {
        const std::lock_guard lock(mutex_);
        return batch_sizes_;
    }

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        pass_gate([&] { batch_sizes_.push_back(batch.size()); });
        {
            const std::lock_guard lock(mutex_);
            if (failure_)
                throw *failure_;
        }
        return forwarding_store::save(batch);
    }

    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        pass_gate([] {});
        return forwarding_store::put_steps(batch);
    }

    std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope = {}) override
    {
        pass_gate([] {});
        return forwarding_store::load_latest(agent, scope);
    }

    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control = {}) override
    {
        pass_gate([] {});
        return forwarding_store::copy_agent(from, to, control);
    }

    std::size_t write_lanes() const noexcept override { return lanes_; }

private:
    template <class Note>
    void pass_gate(Note note)
    {
        std::unique_lock lock(mutex_);
        ++calls_;
        note();
        changed_.notify_all();
        changed_.wait(lock, [&] { return open_; });
    }

    const std::size_t lanes_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = true;
    std::size_t calls_ = 0;
    std::vector<std::size_t> batch_sizes_;
    std::optional<error> failure_;
};

} // namespace waymark::test
