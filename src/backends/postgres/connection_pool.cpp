#include "connection_pool.hpp"

namespace waymark::postgres {

std::unique_ptr<connection> connection_pool::take()
{
    {
        const std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            auto taken = std::move(idle_.back());
            idle_.pop_back();
            return taken;
        }
    }
    try {
        auto opened = std::make_unique<connection>(settings_);
        if (observer_)
            observer_->connected();
        return opened;
    } catch (const database_error&) {
        drop_idle();
        throw;
    }
}

void connection_pool::give_back(std::unique_ptr<connection> used) noexcept
{
    used->set_idle();
    const std::lock_guard lock(mutex_);
    if (idle_.size() < most_idle_)
        idle_.push_back(std::move(used));
}

//! After one was of no use, the others are likely to be of none, too; and the next server may be another one.
void connection_pool::drop_idle() noexcept
{
    for (;;) {
        std::unique_ptr<connection> dropped; // closed when nobody waits for the lock
        const std::lock_guard lock(mutex_);
        if (idle_.empty())
            return;
        dropped = std::move(idle_.back());
        idle_.pop_back();
    }
}

borrowed_connection::~borrowed_connection()
{
    if (!taken_)
        return;
    if (taken_->roll_back()) {
        pool_->give_back(std::move(taken_));
    } else {
        taken_.reset(); // it may hold locks
        if (pool_->observer_)
            pool_->observer_->lost_connection(
                "a connection to the server was lost, or is of no use any more");
        pool_->drop_idle();
    }
}

} // namespace waymark::postgres
