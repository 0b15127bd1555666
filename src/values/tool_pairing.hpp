//! Which tool result answers which call, whatever API they come from.
#pragma once

#include <waymark/conversation.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace waymark::detail {

//! By id; in the newest message before the result that has open calls of that id, since some models count
//! their calls anew in each turn; and there in order, since some give all calls the same. Without an id, as
//! in Gemini's contents: by name, in order; without a name either, as of a result that was made by hand with
//! the empty id of such a call: in order, among the calls without an id. Views of the conversation, which has
//! to live as long.
struct tool_pairing {
    struct call {
        std::size_t message;               // its index
        std::size_t part;                  // the index of the part in the message
        std::string_view id;               // may be empty
        std::string_view name;             // of the tool
        bool is_cut_off;                   // its arguments are no JSON: nobody can run it
        std::optional<std::size_t> result; // its index in `results`
    };
    struct result {
        std::size_t message;
        std::size_t part;
        std::optional<std::size_t> call; // its index in `calls`; none: it answers nothing
    };

    explicit tool_pairing(const conversation& chat);

    std::vector<call> calls;     // in the order of the conversation
    std::vector<result> results; // in the order of the conversation
};

} // namespace waymark::detail
