//! The parts that the conformance suite is put together from, and what they share.
#pragma once

#include "expect.hpp"

#include <waymark/store.hpp>
#include <waymark/testing/conformance.hpp>

#include <string>
#include <vector>

namespace waymark::testing {

std::vector<conformance_case> save_and_load_cases();
std::vector<conformance_case> query_cases();
std::vector<conformance_case> upkeep_cases(); // erase, copy, prune, pins, steps
std::vector<conformance_case> input_cases();  // what must be refused, and what must not be
std::vector<conformance_case> value_cases();  // JSON, text and times, to the last bit
std::vector<conformance_case> race_cases();   // conditions that many threads and objects rely on at once

//! A conversation of `turns` questions and answers.
conversation chat_of(std::size_t turns);

//! A checkpoint with a known id and a conversation that fits its iteration.
checkpoint checkpoint_of(std::string agent, std::string id, std::int64_t iteration = 1);

//! The ids of a list, in order.
std::vector<std::string> ids(const std::vector<checkpoint_header>& list);

using id_list = std::vector<std::string>;

} // namespace waymark::testing
