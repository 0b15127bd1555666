//! The measurements. Each prints one JSON line for each result.
#pragma once

#include "arguments.hpp"
#include "histories.hpp"

#include <boost/json/object.hpp>

#include <cstdio>

namespace waymark::bench {

void run_growth(const arguments& given);
void run_fleet(const arguments& given);
void run_resume(const arguments& given);
void run_first_load(const arguments& given);
void run_heavy(const arguments& given);
void run_event_loop(const arguments& given);
void run_limits(const arguments& given);
void run_transfer(const arguments& given);
void run_upkeep(const arguments& given);
void run_steps(const arguments& given);
void make_texts(const arguments& given);

//! `--texts FILE`, or some of our own.
inline texts source_of(const arguments& given)
{
    const auto path = given.text("texts");
    return path.empty() ? texts() : texts::from_file(path);
}

inline boost::json::object result_of(const arguments& given)
{
    return {{"workload", given.workload()},
            {"contender", given.text("contender")},
            {"durability", given.text("durability", "default")}};
}

inline void print(const boost::json::object& result)
{
    std::printf("%s\n", boost::json::serialize(result).c_str());
    std::fflush(stdout);
}

} // namespace waymark::bench
