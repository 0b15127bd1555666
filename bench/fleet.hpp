//! Many agents through one async_store, each with one save in flight.
#pragma once

#include "workloads.hpp"

#include <waymark/async_store.hpp>

#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace waymark::bench {

inline double wall_seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values)
{
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    return values.at(values.size() / 2);
}

struct fleet_result {
    double saves_per_second = 0;
    double saves_per_commit = 0;
};

//! `name` tells fleets in one store apart.
inline fleet_result run_fleet(const std::shared_ptr<waymark::store>& backend, const std::string& name,
                              int agents, int turns_each)
{
    asio::io_context io;
    std::vector<std::vector<checkpoint>> turns(static_cast<std::size_t>(agents));
    for (int i = 0; i < agents; ++i) {
        growth agent(name + "-" + std::to_string(i), static_cast<std::uint64_t>(i));
        for (int turn = 0; turn < turns_each; ++turn)
            turns[static_cast<std::size_t>(i)].push_back(agent.next());
    }
    double commits = 0;
    double seconds = 0;
    std::error_code failure;
    {
        async_store store(io.get_executor(), backend);
        const auto begin = wall_seconds();
        std::function<void(std::size_t, std::size_t)> save = [&](std::size_t agent, std::size_t turn) {
            if (turn == turns[agent].size())
                return;
            store.async_save(turns[agent][turn],
                             [&, agent, turn](std::error_code code, save_receipt receipt) {
                                 if (code)
                                     failure = code;
                                 else
                                     commits += 1.0 / static_cast<double>(receipt.batch_size());
                                 save(agent, turn + 1);
                             });
        };
        for (std::size_t agent = 0; agent < turns.size(); ++agent)
            save(agent, 0);
        io.run();
        seconds = wall_seconds() - begin;
    }
    if (failure)
        throw std::system_error(failure);
    const double saves = agents * turns_each;
    return {saves / seconds, saves / commits};
}

} // namespace waymark::bench
