#include "catch.hpp"
#include "model_api_rules.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace fs = std::filesystem;
namespace json = boost::json;
using model_api::api;

namespace {

struct api_under_test {
    api which;
    const char* folder;
    const char* items; // the member of the request that holds the dialogue
};

constexpr api_under_test apis[]{{api::chat_completions, "chat_completions", "messages"},
                                {api::responses, "responses", "input"},
                                {api::anthropic, "anthropic", "messages"},
                                {api::gemini, "gemini", "contents"}};

std::vector<fs::path> transcripts_of(const api_under_test& tested)
{
    std::vector<fs::path> paths;
    for (const auto& entry :
         fs::directory_iterator(fs::path(WAYMARK_TEST_DATA) / "transcripts" / tested.folder))
        paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

json::value read(const fs::path& path)
{
    std::ifstream file(path);
    return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

json::object request_of(const api_under_test& tested, const json::object& transcript)
{
    json::object request{{"model", "any"}, {tested.items, transcript.at("items")}};
    const auto* system = transcript.if_contains("system");
    if (system != nullptr && tested.which == api::anthropic)
        request["system"] = *system;
    if (system != nullptr && tested.which == api::gemini)
        request["systemInstruction"] = {{"parts", json::array{{{"text", *system}}}}};
    return request;
}

std::string joined(const std::vector<std::string>& sentences)
{
    std::string text;
    for (const auto& sentence : sentences)
        text += sentence + "\n";
    return text;
}

//! Every value of the body, the inner ones before those that hold them.
void add_places_in(json::value& holder, std::vector<json::value*>& places)
{
    if (auto* list = holder.if_array()) {
        for (auto& element : *list)
            add_places_in(element, places);
    } else if (auto* object = holder.if_object()) {
        for (auto& member : *object)
            add_places_in(member.value(), places);
    }
    places.push_back(&holder);
}

std::vector<json::value*> places_in(json::object& request)
{
    std::vector<json::value*> places;
    for (auto& member : request)
        add_places_in(member.value(), places);
    return places;
}

} // namespace

TEST_CASE("dialogues that an API accepts pass its rules, those that it refuses do not")
{
    for (const auto& tested : apis) {
        const auto paths = transcripts_of(tested);
        CHECK(paths.size() >= 12);
        for (const auto& path : paths) {
            const auto transcript = read(path).as_object();
            const auto found = model_api::violations(tested.which, request_of(tested, transcript));
            CAPTURE(path.filename().string(), joined(found));
            CHECK(found.empty() == !transcript.contains("refused"));
        }
    }
}

TEST_CASE("a dialogue of one API is none of another")
{
    for (const auto& from : apis) {
        for (const auto& to : apis) {
            if (from.which == to.which)
                continue;
            CAPTURE(from.folder, to.folder);
            const auto name = from.which == api::responses   ? "single_function_call.json"
                              : from.which == api::anthropic ? "single_tool_use.json"
                              : from.which == api::gemini    ? "single_call.json"
                                                             : "single_tool_call.json";
            const auto transcript =
                read(fs::path(WAYMARK_TEST_DATA) / "transcripts" / from.folder / name).as_object();
            json::object request{{to.items, transcript.at("items")}};
            CHECK_FALSE(model_api::violations(to.which, request).empty());
        }
    }
}

TEST_CASE("other members of a request do not matter")
{
    const auto request = json::parse(R"({"model":"m","tools":[],"stream":true,"max_tokens":9,
        "messages":[{"role":"user","content":"why?"}]})");
    CHECK(model_api::violations(api::chat_completions, request.as_object()).empty());
    CHECK(model_api::violations(api::anthropic, request.as_object()).empty());
}

TEST_CASE("each rule refuses a body that breaks it alone")
{
    for (const auto& tested : apis) {
        const auto path = fs::path(WAYMARK_TEST_DATA) / "refusals" / (std::string(tested.folder) + ".json");
        const auto refusals = read(path);
        for (const auto& refusal : refusals.as_array()) {
            const auto& request = refusal.at("request").as_object();
            const auto found = model_api::violations(tested.which, request);
            CAPTURE(path.filename().string(), json::serialize(request), joined(found));
            CHECK(found.size() == 1);
            CHECK(joined(found).find(refusal.at("because").as_string()) != std::string::npos);
        }
    }
}

TEST_CASE("rules stand bodies of any shape")
{
    const std::vector<json::value> others{nullptr,       true,           7,   "x",
                                          json::array{}, json::object{}, {1}, {{"type", "x"}}};
    for (const auto& tested : apis) {
        for (const auto& path : transcripts_of(tested)) {
            auto request = request_of(tested, read(path).as_object());
            for (auto* place : places_in(request)) {
                auto kept = std::move(*place);
                for (const auto& other : others) {
                    *place = other;
                    model_api::violations(tested.which, request); // must not throw
                }
                *place = std::move(kept);
            }
        }
    }
}
