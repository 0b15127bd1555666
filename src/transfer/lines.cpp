#include "lines.hpp"

#include "../values/json_document.hpp"
#include "../values/storage_memory.hpp"

#include <waymark/error.hpp>

#include <boost/json/serialize.hpp>

namespace waymark::transfer {

namespace json = boost::json;

namespace {

constexpr std::uint64_t format_version = 1;

// line > checkpoint > conversation > messages > message > tool_calls > call > arguments
constexpr std::size_t envelope_depth = 9;

//! A conversation without its oldest messages.
conversation without_first(const conversation& chat, std::size_t count)
{
    auto rest = conversation(chat.max_tokens()).with_extra(chat.extra());
    for (auto i = count; i < chat.size(); ++i)
        rest.push(chat[i]);
    return rest;
}

//! Messages behind the first ones of another conversation.
conversation behind(const conversation& before, std::size_t count, const conversation& rest)
{
    auto whole = detail::conversation_access::framed(before, rest); // whose other members are the line's own
    whole.truncate(count);
    for (const auto& message : rest)
        whole.push(message);
    return whole;
}

} // namespace

const checkpoint* last_checkpoints::find(const std::string& agent_id, const std::string& scope)
{
    if (agent_id != agent_id_) {
        agent_id_ = agent_id;
        last_.clear();
    }
    const auto found = last_.find(scope);
    return found == last_.end() ? nullptr : &found->second;
}

void last_checkpoints::put(const checkpoint& value)
{
    last_.insert_or_assign(value.scope(), value);
}

// Writing

std::string line_writer::first_line()
{
    return json::serialize(json::object{{"waymark_export", format_version}});
}

std::string line_writer::line_of(const checkpoint& value, bool pinned)
{
    json::object line;
    auto own = value;
    if (const auto* before = last_.find(value.agent_id(), value.scope())) {
        const auto& chat = value.conversation();
        const auto& past = before->conversation();
        auto same = chat.shared_prefix(past);
        while (same < chat.size() && same < past.size() && chat[same] == past[same])
            ++same;
        if (same > 0) {
            line["keep_messages"] = same;
            own.with_conversation(without_first(chat, same));
        }
        if (!value.state().empty() &&
            (value.shares_state(*before) || detail::same_content(value.state(), before->state()))) {
            line["keep_state"] = true;
            own.with_state({});
        }
    }
    last_.put(value);
    if (pinned)
        line["pinned"] = true;
    line["checkpoint"] = json::value_from(own);
    return json::serialize(line);
}

std::string line_writer::line_of(const step& value)
{
    return json::serialize(json::object{{"step", json::value_from(value)}});
}

std::string line_writer::last_line(std::uint64_t checkpoints, std::uint64_t steps)
{
    return json::serialize(json::object{{"end", {{"checkpoints", checkpoints}, {"steps", steps}}}});
}

// Reading

bool line_reader::read_line()
{
    constexpr std::size_t piece = 65'536;
    line_.clear();
    ++number_;
    std::string some(piece, '\0');
    while (from_.getline(some.data(), piece) || from_.gcount() > 0) {
        const auto count = static_cast<std::size_t>(from_.gcount());
        if (!from_.fail()) { // the end of the line, or of the input
            line_.append(some.data(), from_.eof() ? count : count - 1);
            return true;
        }
        line_.append(some.data(), count);
        if (line_.size() > bounds_.max_document_bytes())
            throw error(errc::invalid_argument, "the line is longer than limits::max_document_bytes (" +
                                                    std::to_string(bounds_.max_document_bytes()) + ")");
        from_.clear();
    }
    if (from_.bad())
        throw error(errc::io, "the input cannot be read");
    return false;
}

std::optional<entry> line_reader::next()
{
    try {
        if (number_ == 0)
            read_first_line();
        if (!read_line())
            throw error(errc::invalid_argument,
                        "the end is missing: the export was cut, or not finished; export again");
        const auto line = detail::parse_json(line_, bounds_.max_depth() + envelope_depth, "the line");
        if (const auto* object = line.if_object(); object != nullptr && object->contains("end")) {
            read_end(line);
            return std::nullopt;
        }
        return read_entry(line);
    } catch (const error& failure) {
        throw error(failure.code(), "line " + std::to_string(number_) + ": " + failure.details().message());
    }
}

void line_reader::read_first_line()
{
    if (!read_line())
        throw error(errc::invalid_argument, "the input is empty");
    const auto line = detail::parse_json(line_, 4, "the line");
    const detail::object_reader reader(line, "the first line");
    const auto version = reader.unsigned_or("waymark_export", 0);
    if (version == 0)
        throw error(errc::invalid_argument,
                    "this is no export of Waymark: the first line should be " + line_writer::first_line());
    if (version > format_version)
        throw error(errc::unsupported_format, "the export has format " + std::to_string(version) +
                                                  ", this library knows " + std::to_string(format_version));
}

entry line_reader::read_entry(const json::value& line)
{
    const detail::object_reader reader(line, "the line");
    reader.refuse_others({"checkpoint", "keep_messages", "keep_state", "pinned", "step"},
                         "a line has none such");
    entry result;
    result.where = "line " + std::to_string(number_);
    if (const auto* found = reader.find("step")) {
        result.record = json::value_to<step>(*found);
        ++steps_;
        return result;
    }
    auto value = json::value_to<checkpoint>(reader.require("checkpoint"));
    const auto keep = reader.unsigned_or("keep_messages", 0);
    const bool keep_state = reader.boolean_or("keep_state", false);
    const auto* before = last_.find(value.agent_id(), value.scope());
    if ((keep > 0 || keep_state) && before == nullptr)
        reader.fail("keep_messages", "refers to the checkpoint before, and there is none: a line is missing, "
                                     "or they are in another order");
    if (keep > 0) {
        if (keep > before->conversation().size())
            reader.fail("keep_messages", "is " + std::to_string(keep) + ", and the checkpoint before has " +
                                             std::to_string(before->conversation().size()) +
                                             " messages: a line is missing, or they are in another order");
        value.with_conversation(behind(before->conversation(), keep, value.conversation()));
    }
    if (keep_state)
        value.with_state(before->state());
    last_.put(value);
    ++checkpoints_;
    result.pinned = reader.boolean_or("pinned", false);
    result.point = std::move(value);
    return result;
}

void line_reader::read_end(const json::value& end)
{
    const detail::object_reader line(end, "the last line");
    const detail::object_reader reader(line.require("end"), "the last line");
    const auto checkpoints = reader.unsigned_or("checkpoints", 0);
    const auto steps = reader.unsigned_or("steps", 0);
    if (checkpoints != checkpoints_ || steps != steps_)
        throw error(errc::invalid_argument, "there should be " + std::to_string(checkpoints) +
                                                " checkpoints and " + std::to_string(steps) +
                                                " steps, and there are " + std::to_string(checkpoints_) +
                                                " and " + std::to_string(steps_));
    if (read_line() && !line_.empty())
        throw error(errc::invalid_argument, "there is more after the end");
}

} // namespace waymark::transfer
