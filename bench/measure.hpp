//! Clocks, percentiles, and what the system says about this process.
#pragma once

#include <boost/json/object.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <sys/resource.h>
#include <vector>

namespace waymark::bench {

inline double wall_seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

//! Of all threads.
inline double cpu_seconds()
{
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

inline std::uint64_t peak_memory()
{
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
}

inline double sum(const std::vector<double>& values)
{
    double all = 0;
    for (const auto value : values)
        all += value;
    return all;
}

//! The smallest value that is not below `share` of all.
inline double percentile(std::vector<double> values, double share)
{
    if (values.empty())
        return 0;
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

inline double median(const std::vector<double>& values)
{
    return percentile(values, 0.5);
}

inline boost::json::object latencies(const std::vector<double>& milliseconds)
{
    return {{"p50", median(milliseconds)},
            {"p99", percentile(milliseconds, 0.99)},
            {"p999", percentile(milliseconds, 0.999)}};
}

} // namespace waymark::bench
