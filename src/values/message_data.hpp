//! What a message holds.
#pragma once

#include "storage_memory.hpp"

#include <waymark/message.hpp>

#include <boost/json/value.hpp>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waymark {

//! In the order of `role`; one that is not here is `role::other`.
inline constexpr std::array<std::string_view, 6> role_names = {"system",    "developer", "user",
                                                               "assistant", "model",     "tool"};

//! Most messages are plain: a role and a text, or the text that answers a call. They are held as that,
//! without a JSON document, which would take more memory and time than everything else. An item of that form
//! is always held so, whoever made it: {"role": …, "content": …}, or {"role": "tool", "tool_call_id": …,
//! "content": …}.
struct message::data {
    data() = default;
    data(std::string with_id, waymark::timestamp at) : id(std::move(with_id)), timestamp(at) {}
    data(const data&) = delete;
    data& operator=(const data&) = delete;
    ~data() { delete made.load(std::memory_order_relaxed); }

    static message make_plain(std::string id, waymark::timestamp time, waymark::role who, std::string text,
                              std::string tool_call_id);
    static message make(std::string id, waymark::timestamp time, boost::json::value item);

    std::string id;
    waymark::timestamp timestamp{};
    std::optional<waymark::role> role;
    bool is_plain = false;
    std::string text;         // of a plain one, as the next
    std::string tool_call_id; // not empty for a result
    boost::json::value item;  // of others
    std::vector<part> parts;  // of `item`, which they refer to; they own nothing
    std::size_t bytes = 0;
    std::size_t depth = 0;
    std::size_t tokens = 0;
    detail::digest_memory digest;
    detail::place_memory place; // only where the digest of what is stored there is known

    //! The item of any message. A plain one keeps it from then on, which doubles what it takes.
    const boost::json::value& whole_item() const;
    //! The same for who needs it for a moment. @pre it is plain
    boost::json::object make_plain_item() const;

private:
    void measure_plain();
    void measure_item();

    mutable std::atomic<const boost::json::value*> made = nullptr; // of a plain one that was asked for it
};

} // namespace waymark
