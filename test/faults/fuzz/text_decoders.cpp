//! Decoders of texts: checkpoints, exports, messages, and the values of the API that have a JSON form.
#include "decoders.hpp"
#include "values/json_document.hpp"
#include "values/storage_memory.hpp"
#include "values/text.hpp"
#include "values/timestamp.hpp"

#include <waymark/checkpoint.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/query.hpp>
#include <waymark/retention.hpp>
#include <waymark/step.hpp>
#include <waymark/strategy.hpp>
#include <waymark/transfer.hpp>

#include <boost/json/serialize.hpp>

#include <array>
#include <chrono>
#include <sstream>

namespace waymark::faults {

namespace json = boost::json;
using detail::message_access;

// Checkpoints

namespace {

void check_checkpoint(std::string_view input, const limits& bounds)
{
    const auto value = accepted({errc::invalid_argument, errc::unsupported_format},
                                [&] { return checkpoint::from_bytes(input, bounds); });
    if (!value)
        return;
    // What throws from here on is a fault: what was accepted can be written, within the same bounds.
    const auto text = value->to_bytes(bounds);
    const auto again = checkpoint::from_bytes(text, bounds);
    if (!(again == *value) || again.sequence() != value->sequence())
        broken_promise("a checkpoint became another one when it was written and read");
    if (again.to_bytes(bounds) != text)
        broken_promise("the same checkpoint is written in two ways");
}

//! So small that inputs of a few bytes touch each of them.
limits tight_limits()
{
    return limits{}
        .with_max_depth(3)
        .with_max_message_bytes(64)
        .with_max_state_bytes(64)
        .with_max_metadata_bytes(64)
        .with_max_document_bytes(4096);
}

} // namespace

//! Files of smooth-operator are read by the same function.
void decode_checkpoint_json(std::string_view input)
{
    check_checkpoint(input, {});
    check_checkpoint(input, tight_limits());
}

// Exports

namespace {

using import_function = transfer_result (*)(store& into, std::string_view text,
                                            const import_options& options);
using export_function = std::string (*)(store& from);

void check_import(std::string_view input, const import_options& options, import_function import_from,
                  export_function export_all)
{
    memory_store first;
    const auto imported = accepted({errc::invalid_argument, errc::unsupported_format},
                                   [&] { return import_from(first, input, options); });
    const auto held = first.stats();
    if (!imported) {
        if (held.agents != 0 || held.checkpoints != 0 || held.steps != 0)
            broken_promise("an import that was refused has changed the store");
        return;
    }
    if (held.checkpoints != imported->checkpoints() || held.steps != imported->steps())
        broken_promise("an import has written another number of things than it says");
    if (!first.verify().ok())
        broken_promise("an import has damaged the store");

    const auto text = export_all(first);
    memory_store second;
    if (import_from(second, text, {}) != *imported)
        broken_promise("the import of an export brings another number of things");
    if (export_all(second) != text)
        broken_promise("the import of an export brings something else");
}

transfer_result import_text(store& into, std::string_view text, const import_options& options)
{
    std::istringstream from{std::string(text)};
    return import_lines(into, from, options);
}

std::string export_text(store& from)
{
    std::ostringstream to;
    export_lines(from, to);
    return std::move(to).str();
}

} // namespace

//! Our own exports, and Breakpilot's, which need an agent.
void decode_import_json(std::string_view input)
{
    const auto import_from = [](store& into, std::string_view text, const import_options& options) {
        return import_json(into, text, options);
    };
    const auto export_all = [](store& from) { return export_json(from); };
    check_import(input, {}, import_from, export_all);
    check_import(input, import_options().as_agent("a"), import_from, export_all);
    accepted({errc::invalid_argument}, [&] { return checkpoints_from_breakpilot(input, "a"); });
}

void decode_import_lines(std::string_view input)
{
    check_import(input, {}, import_text, export_text);
    check_import(input, import_options().as_agent("a"), import_text, export_text);
}

// Messages

namespace {

constexpr std::size_t message_depth = limits::highest_max_depth + 8; // as stores read them

json::value parse(std::string_view text)
{
    return detail::parse_json(text, message_depth, "the input");
}

//! What was read can be written and read again, and is the same then.
template <class Value>
void check_value(const json::value& from)
{
    const auto value = accepted({errc::invalid_argument}, [&] { return json::value_to<Value>(from); });
    if (!value)
        return;
    const auto written = json::value_from(*value);
    const auto again = json::value_to<Value>(written);
    if (json::serialize(json::value_from(again)) != json::serialize(written))
        broken_promise("a value became another one when it was written and read");
}

//! The quick reader and writer of messages do what the thorough ones do.
void check_message(std::string_view input)
{
    const auto quick = accepted({errc::invalid_argument},
                                [&] { return message_access::from_json(input, message_depth, "the input"); });
    const auto thorough =
        accepted({errc::invalid_argument}, [&] { return json::value_to<message>(parse(input)); });
    if (quick.has_value() != thorough.has_value())
        broken_promise(quick ? "the quick reader accepts a message that is none"
                             : "the quick reader refuses a message");
    if (!quick)
        return;
    if (!(*quick == *thorough) || quick->bytes() != thorough->bytes() || quick->depth() != thorough->depth())
        broken_promise("the quick reader reads another message");
    const auto text = message_access::to_json(*quick);
    if (text != json::serialize(json::value_from(*quick)))
        broken_promise("the quick writer writes another text");
    if (!(message_access::from_json(text, message_depth, "the text") == *quick))
        broken_promise("a message became another one when it was written and read");
}

} // namespace

void decode_message_text(std::string_view input)
{
    check_message(input);
    const auto document = accepted({errc::invalid_argument}, [&] { return parse(input); });
    if (!document)
        return;
    check_value<tool_call>(*document);
    check_value<conversation>(*document);
}

// Other values

namespace {

void check_document(const json::value& document)
{
    const auto text = json::serialize(document);
    const auto again = parse(text);
    if (!(again == document) || json::serialize(again) != text)
        broken_promise("a document became another one when it was written and read");
}

void check_time(std::string_view input)
{
    const auto time =
        accepted({errc::invalid_argument}, [&] { return detail::from_rfc3339(input, "the input"); });
    if (time && detail::from_rfc3339(detail::to_rfc3339(*time), "the text") != *time)
        broken_promise("a time became another one when it was written and read");
}

//! Policies with any numbers can be applied.
void check_retention(const json::value& document)
{
    const auto policies =
        accepted({errc::invalid_argument}, [&] { return json::value_to<retention>(document); });
    if (!policies)
        return;
    using std::chrono::sys_days;
    constexpr timestamp oldest = sys_days{std::chrono::year{0} / 1 / 1};
    constexpr timestamp newest = sys_days{std::chrono::year{9999} / 12 / 31};
    std::array<retention_candidate, 30> list;
    for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = {i % 2 == 0 ? oldest : newest, i % 3 == 0 ? "a" : "b", std::uint64_t{1} << (2 * i),
                   i % 7 == 0};
    for (const auto at : {oldest, timestamp{}, newest})
        for (const auto index : policies->select(list, at))
            if (index + 1 >= list.size() || list[index].is_protected)
                broken_promise("retention removes the head, or what is protected");
}

void check_query(const json::value& document)
{
    static const checkpoint_header header(checkpoint("a").with_id("c").with_metadata("k", 1));
    accepted({errc::invalid_argument}, [&] {
        const auto wanted = json::value_to<query>(document);
        wanted.validate();
        return wanted.matches(header);
    });
}

} // namespace

void decode_json_values(std::string_view input)
{
    check_time(input);
    if (!detail::is_valid_utf8(detail::quoted(input)))
        broken_promise("text that is shown in messages is not valid UTF-8");
    const auto document = accepted({errc::invalid_argument}, [&] { return parse(input); });
    if (!document)
        return;
    check_document(*document);
    check_retention(*document);
    check_query(*document);
    check_value<query>(*document);
    check_value<retention>(*document);
    check_value<step>(*document);
    check_value<strategy>(*document);
    check_value<event>(*document);
    check_value<checkpoint_header>(*document);
}

} // namespace waymark::faults
