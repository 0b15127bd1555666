//! Messages with a member of which the library knows nothing.
#pragma once

#include <waymark/message.hpp>

namespace waymark::test {

inline message with_member(message from, std::string_view key, json_input value)
{
    auto item = from.item();
    item.insert_or_assign(key, std::move(value).take());
    return std::move(from).with_item(std::move(item));
}

} // namespace waymark::test
