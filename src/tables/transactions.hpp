//! Transactions from their beginning to their commit, run again where the database asks for that.
#pragma once

#include "database.hpp"

#include <chrono>
#include <type_traits>
#include <utility>

namespace waymark::tables {

//! Calls `attempt`, which runs one transaction, until it succeeds or fails for good.
template <class Attempt>
auto repeat(retries& left, Attempt attempt)
{
    for (;;) {
        try {
            return attempt();
        } catch (const error& failure) {
            left.wait_after(failure);
        }
    }
}

template <class Attempt>
auto repeat(database& in, Attempt attempt)
{
    const auto left = in.make_retries();
    return left ? repeat(*left, std::move(attempt)) : attempt();
}

//! What `body` returns, when the transaction that it ran in is committed.
template <class Body>
auto commit_after(transaction& in, Body& body)
{
    if constexpr (std::is_void_v<decltype(body(in))>) {
        body(in);
        in.commit();
    } else {
        auto result = body(in);
        in.commit();
        return result;
    }
}

//! What `body` finds in a consistent view.
template <class Body>
auto read(database& from, agent_ids agents, Body body)
{
    return repeat(from, [&] { return commit_after(*from.begin_read(agents), body); });
}

//! What `body` returns, when that which it wrote is durable.
template <class Body>
auto write(database& in, agent_ids agents, Body body)
{
    return repeat(in, [&] { return commit_after(*in.begin_write(agents), body); });
}

//! How many rows a transaction of upkeep changes at most.
inline constexpr std::size_t rows_per_transaction = 256;

//! How long it works before it is committed, where saves wait for it and for its commit. A database that is
//! asked for much together answers after a trip, and does the work when it is committed: there, the rows
//! alone count.
class transaction_budget {
public:
    explicit transaction_budget(const transaction& of) noexcept : is_timed_(!of.asks_together()) {}

    bool is_spent() const noexcept
    {
        return is_timed_ && std::chrono::steady_clock::now() - begin_ >= longest;
    }

private:
    static constexpr auto longest = std::chrono::milliseconds(3);
    const bool is_timed_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace waymark::tables
