//! How full the queues of an async_store are.
#pragma once

#include <cstddef>

namespace waymark {

//! How full the queues of an `async_store` are at a moment.
struct queue_figures {
    struct side {
        std::size_t queued_operations = 0; //!< queued or under way
        std::size_t queued_bytes = 0;
        std::size_t waiting_operations = 0; //!< waiting for a slot in the queue
        std::size_t waiting_bytes = 0;
    };
    side writes; //!< of agents
    side reads;
    side upkeep; //!< verification, exports, imports, compaction and the retention of sessions
    std::size_t held_by_sessions = 0; //!< writes that wait for their turn in a session
};

} // namespace waymark
