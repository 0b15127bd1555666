//! Two store objects at work at once, and what each was told about it. An operation that takes several
//! transactions is interrupted between any two of them, or threads leave it to chance.
#pragma once

#include "contested_step.hpp"
#include "shared_database.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace waymark::faults {

//! How a store is changed before it is used; as it is, if empty.
using store_change = std::function<std::shared_ptr<store>(std::shared_ptr<store>)>;

//! Interrupts an operation before each of its transactions by one of another object. Returns what was not
//! true of what the two were told.
//! @pre the database has rows
std::vector<std::string> run_interrupted(shared_database& database, std::uint64_t seed,
                                         const step_calls& calls, const store_change& change,
                                         const shared_database::layer& layer);

//! The same and more on threads, each with an object of its own where several may write.
std::vector<std::string> run_threads(shared_database& database, std::uint64_t seed, const step_calls& calls,
                                     const store_change& change);

//! Sessions on threads, each with a store object of its own, which make the same steps.
std::vector<std::string> run_sessions(shared_database& database, const store_change& change);

} // namespace waymark::faults
