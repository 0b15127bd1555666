//! Long work on a store, which saves do not wait for: how far it is, and how it is stopped.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <utility>
#include <vector>

namespace waymark {

//! How far upkeep is. What is counted depends on the work: rows, checkpoints, lines.
struct upkeep_progress {
    std::uint64_t done = 0;
    std::uint64_t total = 0; //!< about; 0: not known
};

//! Steers work that takes long: `verify`, `prune`, `copy_agent`, `erase_scope`, `sweep` and `compact`. It
//! runs in short transactions, between which it looks here. (Exports and imports have the same in their
//! options.)
//!
//! In a coroutine, name a lambda that captures by value before you give it to a control inside a `co_await`
//! expression: g++ 12 destroys it twice there.
class upkeep_control {
public:
    using progress_function = std::function<void(const upkeep_progress&)>;

    upkeep_control() = default;
    //! One that tells how far it is, as `on_progress`.
    template <std::invocable<const upkeep_progress&> Function>
    upkeep_control(Function function) : progress_(std::move(function))
    {
    }

    //! Called from time to time and once at the end, on the thread that does the work. It must not call the
    //! store.
    upkeep_control& on_progress(progress_function function)
    {
        progress_ = std::move(function);
        return *this;
    }
    //! Ends the work between two of its transactions, with `std::errc::operation_canceled`; an async function
    //! then ends with `asio::error::operation_aborted`. What was done until then stays, and the next call
    //! does the rest. May be called more than once: each token can stop it.
    upkeep_control& stop_with(std::stop_token token)
    {
        stops_.push_back(std::move(token));
        return *this;
    }

    //! Adds the tokens of another control.
    upkeep_control& stop_with(const upkeep_control& other)
    {
        stops_.insert(stops_.end(), other.stops_.begin(), other.stops_.end());
        return *this;
    }

    // For backends

    void report(const upkeep_progress& now) const
    {
        if (progress_)
            progress_(now);
    }
    bool reports() const noexcept { return progress_ != nullptr; }
    bool is_stopped() const noexcept;
    //! @throws waymark::error `std::errc::operation_canceled` if it is to stop.
    void require_wanted() const;
    //! Between two transactions: leaves the store to others for a moment, those of other processes included.
    //! @throws waymark::error `std::errc::operation_canceled` if it is to stop.
    void give_way() const;

private:
    progress_function progress_;
    std::vector<std::stop_token> stops_;
};

} // namespace waymark
