//! What a message holds.
#pragma once

#include "storage_memory.hpp"

#include <waymark/message.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace waymark {

struct message::data {
    std::string id;
    waymark::role role = waymark::role::other;
    std::string content;
    std::vector<tool_call> tool_calls;
    std::string tool_call_id;
    waymark::timestamp timestamp;
    boost::json::object extra;
    std::size_t bytes = 0;
    std::size_t depth = 0;
    // Both are forgotten by copies, which are made to be changed.
    detail::digest_memory digest;
    detail::place_memory place; // only where the digest of what is stored there is known

    void check_and_measure();
    bool has_same_extra(const data& other) const noexcept;
};

//! In the order of `role`; one that is not here is `role::other`.
inline constexpr std::array<std::string_view, 4> role_names = {"system", "user", "assistant", "tool"};

} // namespace waymark
