#include "documents.hpp"

#include "../values/json_document.hpp"

#include <waymark/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <set>

namespace waymark::transfer {

namespace json = boost::json;

// Writing

namespace {

void append(std::string& list, const json::value& value)
{
    if (!list.empty())
        list += ',';
    list += json::serialize(value);
}

} // namespace

void document_writer::add(const checkpoint& value, bool pinned)
{
    append(checkpoints_, json::value_from(value));
    if (pinned)
        append(pins_, {{"agent_id", value.agent_id()}, {"scope", value.scope()}, {"id", value.id()}});
}

void document_writer::add(const step& value)
{
    append(steps_, json::value_from(value));
}

std::string document_writer::take_text() &&
{
    return R"({"waymark_export":1,"checkpoints":[)" + checkpoints_ + R"(],"pins":[)" + pins_ +
           R"(],"steps":[)" + steps_ + "]}";
}

// Reading

namespace {

constexpr std::uint64_t document_version = 1;

std::vector<entry> read_own(const json::value& document)
{
    const detail::object_reader reader(document, "the export");
    const auto version = reader.unsigned_or("waymark_export", 0);
    if (version == 0)
        throw error(
            errc::invalid_argument,
            "this is no export: neither Waymark's (\"waymark_export\": 1) nor an array of Breakpilot's");
    if (version > document_version)
        throw error(errc::unsupported_format, "the export has format " + std::to_string(version) +
                                                  ", this library knows " + std::to_string(document_version));
    reader.refuse_others({"waymark_export", "checkpoints", "pins", "steps"}, "an export has none such");

    std::vector<entry> entries;
    std::set<checkpoint_key> pins;
    const auto each = [&](std::string_view list, auto read) {
        const auto* found = reader.find(list);
        if (found == nullptr)
            return;
        if (!found->is_array())
            reader.fail(list, "must be an array");
        std::size_t index = 0;
        for (const auto& value : found->get_array()) {
            const auto where = std::string(list) + "[" + std::to_string(index++) + "]";
            try {
                read(value, where);
            } catch (const error& failure) {
                throw error(failure.code(), where + ": " + failure.details().message());
            }
        }
    };
    each("pins", [&](const json::value& value, const std::string&) {
        const detail::object_reader pin(value, "a pin");
        pins.emplace(pin.string("agent_id"), pin.string_or("scope", ""), pin.string("id"));
    });
    each("checkpoints", [&](const json::value& value, const std::string& where) {
        auto point = json::value_to<checkpoint>(value);
        const bool pinned = pins.contains(point.key());
        entries.push_back({std::move(point), pinned, std::nullopt, where});
    });
    each("steps", [&](const json::value& value, const std::string& where) {
        entries.push_back({std::nullopt, false, json::value_to<step>(value), where});
    });
    return entries;
}

std::vector<entry> read_breakpilot(std::string_view text, const std::optional<std::string>& agent_id,
                                   const limits& bounds)
{
    if (!agent_id)
        throw error(errc::invalid_argument,
                    "a Breakpilot export names no agent; say whose it is with import_options::as_agent");
    std::vector<entry> entries;
    std::optional<std::string> before;
    for (auto& value : checkpoints_from_breakpilot(text, *agent_id, bounds)) {
        value.with_parent(std::move(before)); // it is one line of history
        before = value.id();
        entries.push_back({std::move(value), false, std::nullopt, "entry " + std::to_string(entries.size())});
    }
    return entries;
}

} // namespace

std::vector<entry> read_document(std::string_view text, const std::optional<std::string>& agent_id,
                                 const limits& bounds)
{
    if (text.size() > bounds.max_document_bytes())
        throw error(errc::invalid_argument, "the document is longer than limits::max_document_bytes (" +
                                                std::to_string(bounds.max_document_bytes()) +
                                                "); use JSON Lines");
    constexpr std::size_t document_depth = 10; // a checkpoint's, in an array, in an object
    const auto document = detail::parse_json(text, bounds.max_depth() + document_depth, "the export");
    return document.is_array() ? read_breakpilot(text, agent_id, bounds) : read_own(document);
}

} // namespace waymark::transfer
