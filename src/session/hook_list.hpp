//! The hooks of one kind, in the order in which they were connected.
#pragma once

#include <waymark/error.hpp>
#include <waymark/hooks.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace waymark::detail {

template <class Argument>
class hook_list final : public hook_registry {
public:
    using hook = std::function<void(Argument)>;

    //! @throws waymark::error `invalid_argument` if it is empty.
    static connection connect(const std::shared_ptr<hook_list>& list, hook added)
    {
        if (!added)
            throw error(errc::invalid_argument, "the hook is an empty function");
        auto shared = std::make_shared<const hook>(std::move(added));
        const std::lock_guard lock(list->mutex_);
        list->hooks_.emplace_back(++list->last_, std::move(shared));
        return {list, list->last_};
    }

    void disconnect(std::uint64_t number) noexcept override
    {
        std::shared_ptr<const hook> gone; // destroyed when the mutex is free: it may hold a connection
        const std::lock_guard lock(mutex_);
        const auto found = find(number);
        if (found == hooks_.end())
            return;
        gone = std::move(found->second);
        hooks_.erase(found);
    }

    bool contains(std::uint64_t number) const noexcept override
    {
        const std::lock_guard lock(mutex_);
        return find(number) != hooks_.end();
    }

    //! Calls `visit` with each hook that is connected now and still is when its turn comes, until one returns
    //! false. Hooks may connect and disconnect. Needs no memory.
    template <class Visit>
    void for_each(Visit visit) const
    {
        const auto last = last_number();
        for (entry next{0, nullptr}; (next = first_after(next.first)).second && next.first <= last;)
            if (!visit(*next.second))
                return;
    }

    void clear() noexcept
    {
        std::vector<entry> gone;
        const std::lock_guard lock(mutex_);
        gone.swap(hooks_);
    }

private:
    using entry = std::pair<std::uint64_t, std::shared_ptr<const hook>>;

    std::uint64_t last_number() const noexcept
    {
        const std::lock_guard lock(mutex_);
        return last_;
    }
    //! In the order of their numbers, which is that of `hooks_`.
    entry first_after(std::uint64_t number) const noexcept
    {
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(hooks_.begin(), hooks_.end(),
                                        [number](const entry& one) { return one.first > number; });
        return found == hooks_.end() ? entry{} : *found;
    }

    template <class Self>
    static auto find_in(Self& hooks, std::uint64_t number) noexcept
    {
        return std::find_if(hooks.begin(), hooks.end(),
                            [number](const entry& one) { return one.first == number; });
    }
    auto find(std::uint64_t number) const noexcept { return find_in(hooks_, number); }
    auto find(std::uint64_t number) noexcept { return find_in(hooks_, number); }

    mutable std::mutex mutex_;
    std::uint64_t last_ = 0;
    std::vector<entry> hooks_;
};

} // namespace waymark::detail
