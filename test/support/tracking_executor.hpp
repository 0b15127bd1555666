//! An executor that notes what runs on it, to prove where a handler ran.
#pragma once

#include <asio/any_io_executor.hpp>

#include <utility>

namespace waymark::test {

class tracking_executor {
public:
    tracking_executor(asio::any_io_executor inner, int id) noexcept : inner_(std::move(inner)), id_(id) {}

    //! The id of the executor whose function is running on this thread; 0: none.
    static int& current() noexcept
    {
        static thread_local int id = 0;
        return id;
    }

    template <class Function>
    void execute(Function&& function) const
    {
        inner_.execute([id = id_, body = std::decay_t<Function>(std::forward<Function>(function))]() mutable {
            const int before = std::exchange(current(), id);
            struct restore {
                int value;
                ~restore() { current() = value; }
            } guard{before};
            auto owned = std::move(body);
            owned();
        });
    }

    template <class Property>
        requires asio::can_query<const asio::any_io_executor&, Property>::value
    decltype(auto) query(const Property& property) const
    {
        return asio::query(inner_, property);
    }
    template <class Property>
        requires asio::can_require<const asio::any_io_executor&, Property>::value
    tracking_executor require(const Property& property) const
    {
        return {asio::require(inner_, property), id_};
    }
    template <class Property>
        requires asio::can_prefer<const asio::any_io_executor&, Property>::value
    tracking_executor prefer(const Property& property) const
    {
        return {asio::prefer(inner_, property), id_};
    }

    friend bool operator==(const tracking_executor& a, const tracking_executor& b) noexcept
    {
        return a.id_ == b.id_ && a.inner_ == b.inner_;
    }
    friend bool operator!=(const tracking_executor& a, const tracking_executor& b) noexcept
    {
        return !(a == b);
    }

private:
    asio::any_io_executor inner_;
    int id_;
};

} // namespace waymark::test
