//! Two store objects at work at once, and what each was told about it. An operation that takes several
//! transactions is interrupted between any two of them, or threads leave it to chance.
#pragma once

#include "model_round.hpp"

#include <waymark/detail/session_calls.hpp>

#include <string>
#include <vector>

namespace waymark::faults {

//! What sessions do with steps, so that it can be done wrong on purpose.
struct step_calls {
    std::function<detail::begun_step(store&, const step&)> begin = [](store& in, const step& wanted) {
        return detail::begin_step(in, wanted, step_options(), std::nullopt);
    };
    std::function<step(store&, const step&)> end = [](store& in, const step& made) {
        return detail::end_step(in, made);
    };
    std::function<void(store&, const step&)> withdraw = [](store& in, const step& begun) {
        detail::withdraw_step(in, begun);
    };
    std::function<bool(store&, const step&, const boost::json::value&)> settle =
        [](store& in, const step& of, const boost::json::value& result) {
            return detail::settle_step(in, of.agent_id(), of.scope(), of.key(), result);
        };
};

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

} // namespace waymark::faults
