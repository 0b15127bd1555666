#include "catch.hpp"
#include "transcripts.hpp"

#include <boost/json/serialize.hpp>

#include <map>

using namespace waymark;
namespace json = boost::json;

namespace {

//! What cannot be mended: nobody knows what was there, or the API refuses what another one of its kind made.
const std::map<std::string, std::string> beyond_repair = {
    {"gemini/lost_signature", "only the model could sign it"},
    {"gemini/interleaved_calls", "only the model could sign it"},
    {"gemini/call_after_answer", "something of the user is missing"},
    {"responses/reasoning_of_an_open_model", "it is whole; OpenAI's own API does not take it"},
    {"responses/reasoning_with_status", "it is whole; the API does not take back what it sent"},
};

conversation items(const char* text)
{
    conversation chat;
    const auto parsed = json::parse(text);
    for (const auto& item : parsed.as_array())
        chat.push(message::from(item.as_object()));
    return chat;
}

std::string written(const conversation& chat)
{
    json::array all;
    for (const auto& message : chat)
        all.push_back(message.item());
    return json::serialize(all);
}

} // namespace

TEST_CASE("a dialogue that its API takes is left as it is")
{
    for (const auto& recorded : test::all_transcripts()) {
        if (recorded.refused)
            continue;
        INFO(recorded.name << ": " << recorded.about);
        auto chat = recorded.chat();
        const auto before = chat;
        CHECK(chat.unanswered_tool_calls().empty());
        const auto report = chat.repair();
        CHECK_FALSE(report);
        CHECK(chat.shared_prefix(before) == before.size());
    }
}

TEST_CASE("a dialogue that its API refuses is taken when it was repaired")
{
    for (const auto& recorded : test::all_transcripts()) {
        if (!recorded.refused || beyond_repair.contains(recorded.name))
            continue;
        INFO(recorded.name << ": " << *recorded.refused);
        auto chat = recorded.chat();
        CHECK(chat.repair());
        INFO(written(chat));
        CHECK(test::complaints(recorded, chat) == "");
        CHECK(chat.unanswered_tool_calls().empty());
        CHECK_FALSE(chat.repair());
    }
}
