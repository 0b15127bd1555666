//! What a transaction is going to ask for. Where each question is a trip to a server, those that are known
//! are asked together, and their answers are given when the questions come. Other databases never hear of
//! them.
#pragma once

#include "database.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace waymark::tables {

struct question {
    enum class kind {
        scope,       // find_scope(scope)
        scope_count, // count_scopes
        checkpoint,  // find_checkpoint(scope, id)
        head,        // the newest of `scope`: checkpoint_at
        at,          // checkpoint_at(number)
        step,        // find_step(scope, id)
        object,      // find_object(id), which is a hash
        objects,     // read_objects(numbers)
        messages,    // read_messages(ranges)
        stamp,       // message_stamp(number)
    };

    question(kind what, std::string_view of_agent, std::string_view in_scope = {},
             std::string_view with_id = {})
        : about(what), agent_id(of_agent), scope(in_scope), id(with_id)
    {
    }

    kind about;
    std::string agent_id;
    std::string scope;
    std::string id;
    std::int64_t number = 0;
    std::vector<std::int64_t> numbers = {};
    std::vector<extent> ranges = {};
};

using questions = std::vector<question>;

//! Asks now for what comes later. `list` makes the questions, and is called only where that saves anything.
template <class List>
void expect(transaction& in, List list)
{
    if (!in.asks_together())
        return;
    if (const questions wanted = list(); !wanted.empty())
        in.expect(wanted);
}

} // namespace waymark::tables
