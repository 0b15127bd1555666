//! Messages as a program without Waymark would hold them, read from the JSON of a whole checkpoint.
#pragma once

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace waymark::bench {

struct plain_message {
    std::string id, role, content, timestamp;
};

inline std::vector<plain_message> plain_messages(std::string_view checkpoint_json)
{
    boost::json::monotonic_resource memory;
    const auto document = boost::json::parse(checkpoint_json, &memory);
    std::vector<plain_message> result;
    const auto& written = document.at("conversation").at("messages").as_array();
    result.reserve(written.size());
    for (const auto& next : written) {
        const auto text = [&](const char* member) { return std::string(next.at(member).as_string()); };
        result.push_back({text("id"), text("role"), text("content"), text("timestamp")});
    }
    return result;
}

} // namespace waymark::bench
