//! What a checkpoint's row holds besides its header: which messages make up its conversation, and its state.
//!
//! The body is max_tokens, then two packed lists, each behind its length: the conversation (extents, and the
//! extra members) and the state. Values of more than about a kilobyte, at the first or second level of the
//! state, are objects, stored once per agent.
#pragma once

#include "packed_list.hpp"

#include <waymark/checkpoint.hpp>

#include <string>
#include <string_view>

namespace waymark::tables {

//! Takes the body apart without reading what it refers to.
struct body_parts {
    //! @throws waymark::error `corrupt`
    explicit body_parts(std::string_view body);

    std::uint64_t max_tokens = 0;
    std::string_view conversation;
    std::string_view state;
};

//! False if nothing of it is long enough to be an object.
bool may_need_objects(const conversation& chat, const boost::json::object& state);

std::string write_body(const conversation& chat, const extent_list& messages,
                       const boost::json::object& state, object_sink& objects);

//! What a body says, but for the messages themselves.
struct body_content {
    extent_list messages;
    conversation chat; // without messages
    boost::json::object state;
};

//! @throws waymark::error `corrupt` if something that it needs is missing or damaged.
body_content read_body(std::string_view body, transaction& from, std::int64_t agent);

//! What a body needs to be read.
struct body_references {
    extent_list messages;
    std::vector<object_reference> objects;
};

//! @throws waymark::error `corrupt` if a group is missing or damaged. Objects with values are not looked at.
body_references read_references(std::string_view body, transaction& from, std::int64_t agent,
                                object_map& groups);

} // namespace waymark::tables
