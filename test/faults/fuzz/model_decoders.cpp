//! What model APIs send: the items of a conversation in any shape, and the bytes of streams.
#include "decoders.hpp"
#include "values/json_document.hpp"

#include <waymark/wire.hpp>

#include <boost/json/serialize.hpp>

#include <array>

namespace waymark::faults {

namespace json = boost::json;

namespace {

constexpr std::array apis = {wire::api::chat_completions, wire::api::responses, wire::api::anthropic,
                             wire::api::gemini};

void check_views(const message& said)
{
    std::size_t calls = 0, results = 0;
    for (const auto& part : said.parts()) {
        calls += part.kind() == part_kind::tool_call;
        results += part.kind() == part_kind::tool_result;
        json::serialize(part.json());
        if (part.kind() == part_kind::media)
            accepted({errc::invalid_argument}, [&] { return part.media_content(); });
    }
    if (said.tool_calls().size() != calls || said.tool_results().size() != results)
        broken_promise("the views of a message do not agree");
    said.text();
    said.estimated_tokens([](std::string_view text) { return text.size(); });
}

//! Nobody can tell calls apart that have neither an id nor a name.
bool has_nameless_call(const conversation& chat)
{
    for (const auto& said : chat)
        for (const auto& call : said.tool_calls())
            if (call.id().empty() && call.name().empty())
                return true;
    return false;
}

void check_conversation(const conversation& chat)
{
    for (const auto& said : chat)
        check_views(said);
    const bool has_nothing = chat.window().empty(); // but results without a call
    for (const auto budget : {1U, 40U, 400U})
        if (conversation(chat).with_max_tokens(budget).window().empty() != has_nothing)
            broken_promise("a window of a conversation is empty, or is not, depending on its budget");
    for (std::size_t keep = 0; keep <= chat.size(); ++keep)
        chat.compacted("s", keep);
    for (const auto api : apis)
        json::serialize(wire::make_request(api, chat).body());
    auto repaired = chat;
    repaired.repair("interrupted");
    if (!has_nameless_call(chat) && (!repaired.unanswered_tool_calls().empty() || repaired.repair()))
        broken_promise("what was repaired has to be repaired again");
}

} // namespace

//! A list of items.
void decode_model_items(std::string_view input)
{
    const auto parsed = accepted({errc::invalid_argument}, [&] {
        return detail::parse_json(input, limits::highest_max_depth, "items");
    });
    const auto* const list = parsed ? parsed->if_array() : nullptr;
    if (list == nullptr)
        return;
    conversation chat;
    for (const auto& next : *list) {
        if (!next.is_object())
            continue;
        const auto said =
            accepted({errc::invalid_argument}, [&] { return message::from(next.get_object()); });
        if (!said)
            continue;
        if (json::serialize(said->item()) != json::serialize(next))
            broken_promise("an item is not kept as it came");
        chat.push(*said);
    }
    check_conversation(chat);
}

namespace {

//! True if all of it was taken.
bool feed(wire::accumulator& to, std::string_view bytes)
{
    return accepted({errc::invalid_argument, errc::api_busy, errc::api_refused},
                    [&] { return to.feed(bytes); })
        .has_value();
}

} // namespace

//! The first byte says which API has sent the stream.
void decode_model_streams(std::string_view input)
{
    if (input.empty())
        return;
    const auto api = apis[static_cast<unsigned char>(input.front()) % apis.size()];
    input.remove_prefix(1);
    wire::accumulator whole(api), pieces(api);
    const bool is_taken = feed(whole, input);
    bool are_taken = true;
    for (const auto& byte : input)
        are_taken = are_taken && feed(pieces, {&byte, 1});
    if (is_taken != are_taken)
        broken_promise("a stream is taken or refused, depending on where its bytes are cut");
    const auto response = whole.response();
    if (is_taken && response != pieces.response())
        broken_promise("a stream makes another answer when its bytes are cut");
    conversation chat;
    accepted({errc::invalid_argument, errc::api_busy, errc::api_refused},
             [&] { return wire::append(api, chat, response); });
    check_conversation(chat);
}

} // namespace waymark::faults
