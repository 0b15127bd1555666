#include "documents.hpp"

#include "../../tables/digest.hpp"
#include "../../values/json_document.hpp"

#include <waymark/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <charconv>

namespace waymark::file {

namespace json = boost::json;

namespace {

constexpr std::string_view checksum_key = "checksum";
constexpr std::uint64_t format_version = 1;

void append_pretty(std::string& to, const json::value& value, std::size_t indent)
{
    const auto new_line = [&to](std::size_t depth) {
        to += '\n';
        to.append(2 * depth, ' ');
    };
    if (const auto* object = value.if_object(); object != nullptr && !object->empty()) {
        char separator = '{';
        for (const auto& member : *object) {
            to += std::exchange(separator, ',');
            new_line(indent + 1);
            to += json::serialize(json::value(member.key()));
            to += ": ";
            append_pretty(to, member.value(), indent + 1);
        }
        new_line(indent);
        to += '}';
    } else if (const auto* array = value.if_array(); array != nullptr && !array->empty()) {
        char separator = '[';
        for (const auto& element : *array) {
            to += std::exchange(separator, ',');
            new_line(indent + 1);
            append_pretty(to, element, indent + 1);
        }
        new_line(indent);
        to += ']';
    } else {
        to += json::serialize(value);
    }
}

std::string checksum(const json::object& document)
{
    return "sha256:" + tables::to_hex(tables::view(tables::sha256(json::serialize(document))));
}

std::string seal(json::object document)
{
    document[checksum_key] = checksum(document);
    std::string text;
    append_pretty(text, document, 0);
    text += '\n';
    return text;
}

//! The document without its checksum, which holds.
json::object unseal(std::string_view text, std::size_t max_depth, std::string_view what)
{
    auto parsed = detail::parse_json(text, max_depth, what);
    if (!parsed.is_object())
        throw error(errc::corrupt, std::string(what) + " is no JSON object");
    auto& document = parsed.get_object();
    const auto* found = document.if_contains(checksum_key);
    if (found == nullptr)
        return std::move(document);
    const auto stored = found->is_string() ? std::string(found->get_string()) : std::string();
    document.stable_erase(checksum_key);
    if (stored != checksum(document))
        throw error(errc::corrupt, std::string(what) + " is not what was written: its checksum differs "
                                                       "(after a change by hand, remove its member "
                                                       "\"checksum\")");
    return std::move(document);
}

//! What cannot be read in a file of ours is damage, whatever it would be as an argument.
template <class Read>
auto reading(Read read)
{
    try {
        return read();
    } catch (const error& failure) {
        if (failure.code() == errc::unsupported_format || failure.code() == errc::corrupt)
            throw;
        throw error(errc::corrupt, failure.details().message());
    }
}

void require_known_format(const json::value& document)
{
    const detail::object_reader reader(document, "the record");
    if (reader.unsigned_or("waymark", format_version) > format_version)
        throw error(errc::unsupported_format, "it was written by a newer version");
}

// Deep enough for everything that validation lets through, and the envelope around it.
constexpr std::size_t deepest = limits::highest_max_depth + 16;

} // namespace

std::string write_checkpoint(const checkpoint& value, const limits& bounds)
{
    auto document = json::value_from(value);
    auto text = seal(std::move(document.get_object()));
    if (text.size() > bounds.max_document_bytes())
        throw error(errc::invalid_argument,
                    "the checkpoint takes " + std::to_string(text.size()) + " bytes as a file, more than " +
                        std::to_string(bounds.max_document_bytes()) + "; raise limits::max_document_bytes");
    return text;
}

checkpoint read_checkpoint(std::string_view text)
{
    return reading(
        [&] { return json::value_to<checkpoint>(json::value(unseal(text, deepest, "the file"))); });
}

std::optional<std::int64_t> guess_sequence(std::string_view text)
{
    constexpr std::string_view member = "\n  \"sequence\": ";
    const auto place = text.substr(0, 16'384).find(member);
    if (place == std::string_view::npos)
        return std::nullopt;
    const auto begin = text.data() + place + member.size();
    std::int64_t sequence = 0;
    const auto [end, failure] = std::from_chars(begin, text.data() + text.size(), sequence);
    if (failure != std::errc() || end == text.data() + text.size() || *end != ',')
        return std::nullopt;
    return sequence;
}

std::string write_step(const step_document& value)
{
    json::object document{{"waymark", format_version}, {"made_on", value.made_on}};
    document["step"] = json::value_from(value.value);
    return seal(std::move(document));
}

step_document read_step(std::string_view text)
{
    return reading([&] {
        const json::value document = unseal(text, deepest, "the file");
        require_known_format(document);
        const detail::object_reader reader(document, "the step's file");
        return step_document{json::value_to<step>(reader.require("step")), reader.integer_or("made_on", 0)};
    });
}

std::string write_agent(const agent_document& value)
{
    json::array pins;
    for (const auto& [scope, id] : value.pins)
        pins.push_back({{"scope", scope}, {"id", id}});
    return seal({{"waymark", format_version},
                 {"agent_id", value.agent_id},
                 {"last_sequence", value.last_sequence},
                 {"pins", std::move(pins)}});
}

agent_document read_agent(std::string_view text)
{
    return reading([&] {
        const json::value document = unseal(text, deepest, "the file");
        require_known_format(document);
        const detail::object_reader reader(document, "the agent's record");
        agent_document result;
        result.agent_id = reader.string("agent_id");
        result.last_sequence = reader.integer_or("last_sequence", 0);
        if (const auto* pins = reader.find("pins"); pins != nullptr && pins->is_array())
            for (const auto& pin : pins->get_array()) {
                const detail::object_reader entry(pin, "a pin");
                result.pins.emplace(entry.string("scope"), entry.string("id"));
            }
        return result;
    });
}

} // namespace waymark::file
