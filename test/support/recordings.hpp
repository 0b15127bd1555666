//! What APIs of models said, from test/data, and what they say to a request.
#pragma once

#include "model_api_rules.hpp"
#include "values/json_document.hpp"

#include <waymark/wire.hpp>

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace waymark::test {

inline constexpr wire::api all_apis[] = {wire::api::chat_completions, wire::api::responses,
                                         wire::api::anthropic, wire::api::gemini};

struct recording {
    std::string name;
    wire::api api;
    boost::json::object content;
};

inline boost::json::value parse(std::string_view text)
{
    return detail::parse_json(text, limits::highest_max_depth, "a text of a test");
}

//! "transcripts" or "streams", of all APIs.
inline std::vector<recording> recordings(const char* kind)
{
    std::vector<recording> all;
    for (const auto api : all_apis)
        for (const auto& entry : std::filesystem::directory_iterator(
                 std::filesystem::path(WAYMARK_TEST_DATA) / kind / wire::to_string(api))) {
            std::ifstream file(entry.path());
            const auto content = parse(std::string(std::istreambuf_iterator<char>(file), {}));
            all.push_back({std::string(wire::to_string(api)) + "/" + entry.path().stem().string(), api,
                           content.as_object()});
        }
    std::sort(all.begin(), all.end(), [](const recording& a, const recording& b) { return a.name < b.name; });
    return all;
}

inline conversation conversation_of(const boost::json::array& items)
{
    conversation chat;
    for (const auto& next : items)
        chat.push(message::from(next.as_object()));
    return chat;
}

//! The conversation of a transcript, its system prompt first.
inline conversation conversation_of(const recording& transcript)
{
    auto chat = conversation_of(transcript.content.at("items").as_array());
    if (const auto* const system = transcript.content.if_contains("system"))
        chat.with_system_prompt(std::string(system->as_string()));
    return chat;
}

inline const char* items_member(wire::api api)
{
    switch (api) {
    case wire::api::responses:
        return "input";
    case wire::api::gemini:
        return "contents";
    default:
        return "messages";
    }
}

inline const boost::json::array& items_of(wire::api api, const wire::request& request)
{
    return request.body().at(items_member(api)).as_array();
}

//! What the API refuses in it.
inline std::vector<std::string> violations(wire::api api, const wire::request& request)
{
    return model_api::violations(static_cast<model_api::api>(api), request.body());
}

inline const std::vector<std::string> accepted;

//! Puts something else in a random place.
inline void damage(boost::json::value& whole, std::mt19937& random)
{
    static const auto values =
        parse(R"([null, true, -1, 1e300, "", "user", "assistant", "text", "é", [], {}, [null],
        [{"type": "text"}], {"type": "tool_use"}, {"functionCall": {}}, {"text": 3}])");
    auto* place = &whole;
    while (random() % 8 != 0) {
        if (auto* const list = place->if_array(); list != nullptr && !list->empty())
            place = &(*list)[random() % list->size()];
        else if (auto* const object = place->if_object(); object != nullptr && !object->empty())
            place = &(object->begin() + static_cast<std::ptrdiff_t>(random() % object->size()))->value();
        else
            break;
    }
    if (place != &whole)
        *place = values.at(random() % values.as_array().size());
}

} // namespace waymark::test
