//! A conversation put into the order of a request: what is sent as it is, what has to be converted, and each
//! result where the API looks for it.
#pragma once

#include <waymark/conversation.hpp>

#include <boost/json/object.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::wire {

//! Where an API wants the results of calls.
enum class result_place {
    anywhere,       // Responses: each is an item, somewhere behind its call
    behind_call,    // Chat Completions: each is a message, directly behind the message with the calls
    in_one_message, // Anthropic, Gemini: all in one message, directly behind the message with the calls
};

//! What an API takes.
struct api_rules {
    //! Whether it takes this item as it stands.
    bool (*is_native)(const boost::json::object& item);
    //! Whether it takes this id of a call.
    bool (*takes_id)(std::string_view id);
    result_place results;
};

//! A part that has to be converted.
struct piece {
    std::size_t message; // its index in the conversation
    part content;
    std::string call_id;             // of a call or a result: the one that the request uses
    std::string tool;                // of a result: the name of the tool, as far as it is known
    std::optional<part> native_call; // of a result: its call, if that is sent as it is
};

enum class speaker { instructions, user, model, tools };

//! Part of a request, with one speaker.
struct turn {
    speaker who;
    std::optional<std::size_t> verbatim; // the index of the message that is sent as it is
    std::vector<piece> pieces;           // otherwise
};

//! What one side says without a break is one turn of the model, or of its tools; of the user and of the
//! system each message is one. Results come directly behind the turn with their calls, where the API wants it
//! so, in the order of the calls.
std::vector<turn> arrange(const conversation& chat, const api_rules& api);

} // namespace waymark::wire
