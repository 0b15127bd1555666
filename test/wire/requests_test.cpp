#include "catch.hpp"
#include "recordings.hpp"

#include <set>

using namespace waymark;
using namespace waymark::test;
namespace json = boost::json;

namespace {

bool is_native_role(const message& of)
{
    return of.role() != role::system && of.role() != role::developer;
}

//! Its texts, calls and results, in a form in which conversations of all APIs are the same.
struct content {
    std::string said;
    std::vector<std::string> calls;
    std::vector<std::string> results; // some APIs want them in the order of the calls

    explicit content(const conversation& chat)
    {
        for (const auto& next : chat) {
            const auto found = next.tool_results();
            if (found.empty())
                said += next.text();
            for (const auto& result : found)
                results.push_back(result.text());
            for (const auto& call : next.tool_calls())
                calls.push_back(call.name() + " " + json::serialize(call.arguments()));
        }
        std::sort(results.begin(), results.end());
        std::erase_if(said,
                      [](char c) { return c == '\n' || c == ' '; }); // texts of several messages are joined
    }
};

conversation read_back(wire::api api, const wire::request& request)
{
    auto chat = conversation_of(items_of(api, request));
    const auto* const system = request.body().if_contains("system");
    if (system != nullptr && system->is_string())
        chat.with_system_prompt(std::string(system->as_string()));
    return chat;
}

bool has_foreign_parts(const conversation& chat)
{
    for (const auto& next : chat)
        for (const auto& part : next.parts())
            if (part.kind() == part_kind::reasoning || part.kind() == part_kind::other)
                return true;
    return false;
}

//! Reasoning in clear goes back to the servers of open models, which take it. Calls of Gemini without a
//! signature may be those of a model that signs nothing.
bool is_beyond_repair(std::string_view transcript)
{
    return transcript == "responses/reasoning_of_an_open_model" || transcript == "gemini/lost_signature" ||
           transcript == "gemini/interleaved_calls";
}

} // namespace

TEST_CASE("items go back to the API that made them as they are")
{
    for (const auto& transcript : recordings("transcripts")) {
        if (transcript.content.contains("refused"))
            continue;
        CAPTURE(transcript.name);
        const auto chat = conversation_of(transcript);
        const auto request = wire::make_request(transcript.api, chat);
        auto items = items_of(transcript.api, request);
        const bool has_system = transcript.content.contains("system");
        if (has_system &&
            (transcript.api == wire::api::chat_completions || transcript.api == wire::api::responses))
            items.erase(items.begin());
        CHECK(json::serialize(items) == json::serialize(transcript.content.at("items")));
        CHECK(request.left_out().empty());
        CHECK(violations(transcript.api, request) == accepted);
        if (has_system && transcript.api == wire::api::anthropic)
            CHECK(request.body().at("system") == transcript.content.at("system"));
    }
}

TEST_CASE("what a crash has left is accepted after a repair")
{
    for (const auto& transcript : recordings("transcripts")) {
        if (is_beyond_repair(transcript.name))
            continue;
        CAPTURE(transcript.name);
        auto chat = conversation_of(transcript);
        chat.repair();
        const auto request = wire::make_request(transcript.api, chat);
        CHECK(violations(transcript.api, request) == accepted);
        CHECK(request.left_out().empty());
    }
}

TEST_CASE("every API accepts the conversations of the others, and what they lack is reported")
{
    for (const auto& transcript : recordings("transcripts"))
        for (const auto api : all_apis) {
            if (api == transcript.api)
                continue;
            CAPTURE(transcript.name, wire::to_string(api));
            auto chat = conversation_of(transcript);
            chat.repair();
            const auto request = wire::make_request(api, chat);
            CAPTURE(request.body());
            CHECK(violations(api, request) == accepted);
            if (has_foreign_parts(chat))
                CHECK_FALSE(request.left_out().empty());
            for (const auto& omission : request.left_out()) {
                CHECK(omission.message() < chat.size());
                CHECK_FALSE(omission.what().empty());
            }
        }
}

TEST_CASE("a conversation goes on with another API at any point")
{
    const auto transcripts = recordings("transcripts");
    for (const auto& before : transcripts)
        for (const auto& after : transcripts) {
            if (before.api == after.api || !before.name.ends_with("several_rounds") ||
                is_beyond_repair(after.name))
                continue;
            CAPTURE(before.name, after.name);
            auto chat = conversation_of(before);
            for (const auto& next : after.content.at("items").as_array())
                chat.push(message::from(next.as_object()));
            chat.repair();
            for (const auto api : all_apis) {
                CAPTURE(wire::to_string(api));
                CHECK(violations(api, wire::make_request(api, chat)) == accepted);
            }
        }
}

TEST_CASE("a window of a conversation is accepted, too")
{
    for (const auto& transcript : recordings("transcripts")) {
        if (is_beyond_repair(transcript.name))
            continue;
        auto chat = conversation_of(transcript);
        chat.repair();
        for (const std::uint64_t budget : {1, 40, 100, 300, 1000}) {
            const auto shorter = chat.with_max_tokens(budget).window();
            if (std::none_of(shorter.begin(), shorter.end(), is_native_role))
                continue;
            for (const auto api : all_apis) {
                CAPTURE(transcript.name, wire::to_string(api), budget);
                const auto request = wire::make_request(api, shorter);
                CAPTURE(request.body());
                if (shorter.size() > 1 || request.left_out().empty()) // a picture that a model drew, alone
                    CHECK(violations(api, request) == accepted);
            }
        }
    }
}

TEST_CASE("texts, calls and results survive the way through another API and back")
{
    for (const auto& transcript : recordings("transcripts")) {
        // Not what only Chat Completions can say: instructions between messages, inputs that are no object,
        // speech.
        const auto is_special = [&](std::string_view name) { return transcript.name.ends_with(name); };
        if (transcript.content.contains("refused") || is_special("odd_arguments") ||
            is_special("custom_tool") || is_special("developer_role") || is_special("files_and_audio"))
            continue;
        const auto chat = conversation_of(transcript);
        const auto chat_completions = read_back(wire::api::chat_completions, wire::chat_completions(chat));
        const auto original = content(chat_completions);
        for (const auto through : {wire::api::anthropic, wire::api::responses}) {
            CAPTURE(transcript.name, wire::to_string(through));
            const auto there = read_back(through, wire::make_request(through, chat_completions));
            const auto back = content(read_back(wire::api::chat_completions, wire::chat_completions(there)));
            CHECK(back.said == original.said);
            CHECK(back.calls == original.calls);
            CHECK(back.results == original.results);
        }
    }
}

TEST_CASE("the same conversation makes the same request")
{
    for (const auto& transcript : recordings("transcripts")) {
        const auto chat = conversation_of(transcript);
        const auto loaded = json::value_to<conversation>(json::value_from(chat));
        for (const auto api : all_apis)
            CHECK(wire::make_request(api, chat).body() == wire::make_request(api, loaded).body());
    }
}
