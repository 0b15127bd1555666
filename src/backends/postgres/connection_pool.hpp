//! Connections that are open and not in use.
#pragma once

#include "connection.hpp"

#include <waymark/store_observer.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace waymark::postgres {

//! Gives out a connection, an idle one if there is any, and takes it back.
class connection_pool {
public:
    //! `most_idle`: further ones are closed. `observer` may be null.
    connection_pool(connection_settings settings, std::size_t most_idle,
                    std::shared_ptr<store_observer> observer)
        : settings_(std::move(settings)), most_idle_(most_idle), observer_(std::move(observer))
    {
        idle_.reserve(most_idle); // so that giving one back cannot fail
    }

    const connection_settings& settings() const noexcept { return settings_; }

private:
    friend class borrowed_connection;

    //! @throws database_error
    std::unique_ptr<connection> take();
    void give_back(std::unique_ptr<connection> used) noexcept;
    void drop_idle() noexcept;

    const connection_settings settings_;
    const std::size_t most_idle_;
    const std::shared_ptr<store_observer> observer_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<connection>> idle_; // guarded by mutex_
};

//! A connection while it is in use. A transaction that is open at the end is undone; never throws there.
class borrowed_connection {
public:
    //! @throws database_error
    explicit borrowed_connection(connection_pool& from) : pool_(&from), taken_(from.take()) {}
    borrowed_connection(borrowed_connection&&) noexcept = default;
    borrowed_connection& operator=(borrowed_connection&&) = delete;
    ~borrowed_connection();

    connection& operator*() const noexcept { return *taken_; }
    connection* operator->() const noexcept { return taken_.get(); }

    //! Null: nobody observes.
    store_observer* observer() const noexcept { return pool_->observer_.get(); }
    //! Gives it back as it is: the transaction has ended, or its end was sent.
    void give_back() noexcept { pool_->give_back(std::move(taken_)); }

private:
    connection_pool* pool_;
    std::unique_ptr<connection> taken_;
};

} // namespace waymark::postgres
