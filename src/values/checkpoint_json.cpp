//! Checkpoints as JSON: our own document, and the files of the two formats that we also read.
#include "json_document.hpp"
#include "text.hpp"
#include "timestamp.hpp"

#include <waymark/checkpoint.hpp>
#include <waymark/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <unordered_map>

namespace waymark {

namespace json = boost::json;

namespace {

// The version of the document. A reader refuses a higher one; files without it are smooth-operator's.
constexpr std::uint64_t document_version = 2;

// How deep a message's arguments lie inside the document:
// checkpoint > conversation > messages > message > tool_calls > call > arguments.
constexpr std::size_t envelope_depth = 8;

json::value optional_text(const std::optional<std::string>& text)
{
    return text ? json::value(*text) : json::value(nullptr);
}

void require_document_size(std::size_t bytes, const limits& bounds)
{
    if (bytes > bounds.max_document_bytes())
        throw error(errc::invalid_argument,
                    "the document has " + std::to_string(bytes) + " bytes, more than " +
                        std::to_string(bounds.max_document_bytes()) + "; raise limits::max_document_bytes");
}

void write_members_of_both(json::object& object, const checkpoint_key& key, const auto& from)
{
    object["id"] = key.id();
    object["agent_id"] = key.agent_id();
    object["scope"] = key.scope();
    object["parent_id"] = optional_text(from.parent_id());
    object["name"] = from.name();
    object["iteration"] = from.iteration();
    object["created_at"] = detail::to_rfc3339(from.created_at());
    object["sequence"] = from.sequence();
    object["metadata"] = from.metadata();
}

checkpoint read_members_of_both(const detail::object_reader& reader)
{
    checkpoint result(reader.string("agent_id"));
    result.with_id(reader.string("id"))
        .with_scope(reader.string_or("scope", ""))
        .with_parent(reader.optional_string("parent_id"))
        .with_name(reader.string_or("name", ""))
        .with_iteration(reader.integer_or("iteration", 0))
        .with_created_at(reader.time("created_at"))
        .with_sequence(reader.integer_or("sequence", 0));
    for (const auto& member : reader.object("metadata"))
        result.with_metadata(member.key(), member.value());
    return result;
}

} // namespace

void tag_invoke(json::value_from_tag, json::value& to, const checkpoint& from)
{
    auto& object = to.emplace_object();
    object["waymark"] = document_version;
    write_members_of_both(object, from.key(), from);
    object["state"] = from.state();
    object["conversation"] = json::value_from(from.conversation());
}

checkpoint tag_invoke(json::value_to_tag<checkpoint>, const json::value& from)
{
    const detail::object_reader reader(from, "checkpoint");
    const auto version = reader.unsigned_or("waymark", document_version);
    if (version > document_version)
        throw error(errc::unsupported_format, "the checkpoint has format " + std::to_string(version) +
                                                  ", this library knows " + std::to_string(document_version));
    reader.refuse_others({"waymark", "id", "agent_id", "scope", "parent_id", "name", "iteration",
                          "created_at", "sequence", "metadata", "state", "conversation",
                          "checksum"}, // file_store's, which checks it

                         "put data of your own into 'metadata' or 'state'");
    auto result = read_members_of_both(reader);
    result.with_state(reader.object("state"));
    if (const auto* chat = reader.find("conversation"))
        result.with_conversation(json::value_to<conversation>(*chat));
    return result;
}

std::string checkpoint::to_bytes(const limits& bounds) const
{
    validate(*this, bounds);
    auto bytes = json::serialize(json::value_from(*this));
    require_document_size(bytes.size(), bounds);
    return bytes;
}

checkpoint checkpoint::from_bytes(std::string_view bytes, const limits& bounds)
{
    require_document_size(bytes.size(), bounds);
    auto result = json::value_to<checkpoint>(
        detail::parse_json(bytes, bounds.max_depth() + envelope_depth, "the checkpoint"));
    validate(result, bounds);
    return result;
}

void tag_invoke(json::value_from_tag, json::value& to, const checkpoint_header& from)
{
    auto& object = to.emplace_object();
    write_members_of_both(object, from.key(), from);
    object["message_count"] = from.message_count();
    object["pinned"] = from.pinned();
    object["stored_bytes"] = from.stored_bytes();
    object["content_bytes"] = from.content_bytes();
    if (from.damage())
        object["damage"] = *from.damage();
}

checkpoint_header tag_invoke(json::value_to_tag<checkpoint_header>, const json::value& from)
{
    const detail::object_reader reader(from, "checkpoint header");
    reader.refuse_others({"id", "agent_id", "scope", "parent_id", "name", "iteration", "created_at",
                          "sequence", "metadata", "message_count", "pinned", "stored_bytes", "content_bytes",
                          "damage"},
                         "put data of your own into 'metadata'");
    checkpoint_header header(read_members_of_both(reader));
    header.with_pinned(reader.boolean_or("pinned", false))
        .with_stored_bytes(reader.unsigned_or("stored_bytes", 0))
        .with_content_bytes(reader.unsigned_or("content_bytes", 0))
        .with_message_count(reader.unsigned_or("message_count", 0))
        .with_damage(reader.optional_string("damage"));
    return header;
}

std::vector<checkpoint> checkpoints_from_breakpilot(std::string_view text, std::string_view agent_id,
                                                    const limits& bounds)
{
    validate_id(agent_id, "the agent id");
    require_document_size(text.size(), bounds);
    const auto document = detail::parse_json(text, bounds.max_depth() + 3, "the Breakpilot export");
    if (!document.is_array())
        throw error(errc::invalid_argument, "a Breakpilot export is a JSON array of checkpoints");

    std::vector<checkpoint> result;
    std::unordered_map<std::string, std::size_t> seen;
    for (const auto& entry : document.get_array()) {
        const detail::object_reader reader(entry, "entry " + std::to_string(result.size()) +
                                                      " of the Breakpilot export");
        reader.refuse_others({"id", "name", "timestamp", "data", "metadata"},
                             "a Breakpilot checkpoint has none such");
        checkpoint next{std::string(agent_id)};
        next.with_id(reader.string("id"))
            .with_name(reader.string("name"))
            .with_created_at(reader.time("timestamp"))
            .with_state(reader.object("data"));
        for (const auto& member : reader.object("metadata"))
            next.with_metadata(member.key(), member.value());
        try {
            validate(next, bounds);
        } catch (const error& refusal) {
            reader.fail("id", std::string("names a checkpoint that cannot be stored: ") +
                                  refusal.details().message());
        }
        // Breakpilot gives an id twice when it creates after an import. Saving both would lose one.
        const auto [first, is_new] = seen.emplace(next.id(), result.size());
        if (!is_new)
            reader.fail("id", "is " + detail::quoted(next.id()) + ", as in entry " +
                                  std::to_string(first->second) + "; rename one of them");
        result.push_back(std::move(next));
    }
    return result;
}

} // namespace waymark
