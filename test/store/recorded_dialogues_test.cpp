//! What model APIs sent comes back from every store, byte by byte, on every way that it can take.
#include "backends.hpp"
#include "catch.hpp"
#include "recordings.hpp"

#include <waymark/transfer.hpp>

#include <boost/json/serialize.hpp>

#include <sstream>

using namespace waymark;
namespace json = boost::json;

namespace {

std::string items_of(const conversation& chat)
{
    std::string text;
    for (const auto& message : chat)
        text += json::serialize(message.item()) + '\n';
    return text;
}

std::string items_in(store& from, const std::string& agent_id)
{
    const auto head = from.load_latest(agent_id);
    return head ? items_of(head->conversation()) : "nothing";
}

//! An agent for each dialogue, with a checkpoint for each of its messages.
void save_all(store& to, const std::vector<test::recording>& recorded)
{
    for (const auto& dialogue : recorded) {
        const auto whole = test::conversation_of(dialogue);
        std::optional<std::string> parent;
        for (std::size_t length = 1; length <= whole.size(); ++length) {
            auto chat = whole;
            chat.truncate(length);
            auto point =
                checkpoint(dialogue.name, chat, static_cast<std::int64_t>(length)).with_parent(parent);
            parent = point.id();
            to.save(point);
        }
    }
}

} // namespace

TEST_CASE("recorded dialogues come back byte by byte: loaded, copied, exported and imported", "[stores]")
{
    const auto recorded = test::recordings("transcripts");
    for (const auto& backend : test::all_backends())
        DYNAMIC_SECTION(backend.name())
        {
            auto store = backend.make_empty();
            save_all(*store, recorded);
            store = backend.reopen(std::move(store));
            memory_store by_lines, by_document;
            std::stringstream lines;
            export_lines(*store, lines);
            import_lines(by_lines, lines);
            import_json(by_document, export_json(*store));
            for (const auto& dialogue : recorded) {
                INFO(dialogue.name);
                const auto sent = items_of(test::conversation_of(dialogue));
                CHECK(items_in(*store, dialogue.name) == sent);
                store->copy_agent(dialogue.name, dialogue.name + "-copy");
                CHECK(items_in(*store, dialogue.name + "-copy") == sent);
                CHECK(items_in(by_lines, dialogue.name) == sent);
                CHECK(items_in(by_document, dialogue.name) == sent);
                const auto head = *store->load_latest(dialogue.name);
                CHECK(checkpoint::from_bytes(head.to_bytes()) == head);
            }
            CHECK(store->verify().damages().empty());
        }
}
