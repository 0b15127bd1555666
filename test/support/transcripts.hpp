//! The recorded dialogues in test/data/transcripts, as conversations.
#pragma once

#include "model_api_rules.hpp"

#include <waymark/conversation.hpp>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace waymark::test {

struct transcript {
    model_api::api api;
    std::string name;   // "anthropic/thinking"
    std::string about;
    std::string system; // empty: none, or among the items
    boost::json::array items;
    std::optional<std::string> refused; // why the API refuses it as it is

    //! The items alone; the system prompt goes beside them where the API wants it so.
    conversation chat() const
    {
        conversation chat;
        for (const auto& item : items)
            chat.push(message::from(item.as_object()));
        return chat;
    }
};

struct recorded_api {
    model_api::api which;
    const char* folder;
    const char* items; // the member of the request that holds the dialogue
};

inline constexpr recorded_api recorded_apis[]{
    {model_api::api::chat_completions, "chat_completions", "messages"},
    {model_api::api::responses, "responses", "input"},
    {model_api::api::anthropic, "anthropic", "messages"},
    {model_api::api::gemini, "gemini", "contents"}};

inline boost::json::value read_json(const std::filesystem::path& path)
{
    std::ifstream file(path);
    return boost::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

inline std::vector<transcript> all_transcripts()
{
    std::vector<transcript> all;
    for (const auto& api : recorded_apis)
        for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(WAYMARK_TEST_DATA) /
                                                                     "transcripts" / api.folder)) {
            const auto document = read_json(entry.path());
            const auto text = [&](const char* key) {
                const auto* const found = document.as_object().if_contains(key);
                return found == nullptr ? std::optional<std::string>() : std::string(found->as_string());
            };
            all.push_back({api.which, std::string(api.folder) + "/" + entry.path().stem().string(),
                           text("about").value_or(""), text("system").value_or(""),
                           document.at("items").as_array(), text("refused")});
        }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return all;
}

//! What the API says to these messages, verbatim; empty: it takes them.
inline std::string complaints(const transcript& origin, const conversation& chat)
{
    const auto& api = *std::find_if(std::begin(recorded_apis), std::end(recorded_apis),
                                    [&](const auto& known) { return known.which == origin.api; });
    boost::json::array items;
    for (const auto& message : chat)
        items.push_back(message.item());
    boost::json::object request{{api.items, std::move(items)}};
    if (!origin.system.empty() && origin.api == model_api::api::anthropic)
        request["system"] = origin.system;
    if (!origin.system.empty() && origin.api == model_api::api::gemini)
        request["systemInstruction"] = {{"parts", boost::json::array{{{"text", origin.system}}}}};
    std::string all;
    for (const auto& sentence : model_api::violations(origin.api, request))
        all += sentence + "\n";
    return all;
}

} // namespace waymark::test
