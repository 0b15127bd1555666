#include "../values/json_document.hpp"
#include "api_errors.hpp"
#include "assembler.hpp"
#include "event_lines.hpp"
#include "json_members.hpp"

#include <waymark/error.hpp>
#include <waymark/wire.hpp>

#include <utility>

namespace waymark::wire {

namespace json = boost::json;

namespace {

std::unique_ptr<assembler> make_assembler(api which)
{
    switch (which) {
    case api::chat_completions:
        return assemble_chat_completions();
    case api::responses:
        return assemble_responses();
    case api::anthropic:
        return assemble_anthropic();
    case api::gemini:
        break;
    }
    return assemble_gemini();
}

} // namespace

struct accumulator::state {
    explicit state(api api_of_stream) : which(api_of_stream), events(make_assembler(api_of_stream)) {}

    api which;
    std::unique_ptr<assembler> events;
    event_lines lines;
    bool is_done = false; // said so in words that are no event
};

accumulator::accumulator(api which) : state_(std::make_unique<state>(which)) {}
accumulator::accumulator(accumulator&&) noexcept = default;
accumulator& accumulator::operator=(accumulator&&) noexcept = default;
accumulator::~accumulator() = default;

std::string accumulator::add(const json::object& event)
{
    check_no_error(state_->which, event);
    if (text_at(event, "type") == "error") // that of the Responses API is the event itself
        throw_api_error(state_->which, event);
    return state_->events->add(event);
}

std::string accumulator::feed(std::string_view bytes)
{
    std::string text;
    state_->lines.append(bytes);
    while (const auto data = state_->lines.next()) {
        if (data->find_first_not_of(" \t") == data->npos)
            continue;
        if (*data == "[DONE]") {
            state_->is_done = true;
            continue;
        }
        const auto event = detail::parse_json(*data, limits::highest_max_depth,
                                              "an event of a stream of " + std::string(title(state_->which)));
        if (!event.is_object())
            throw_no_event(state_->which, "it is no JSON object");
        text += add(event.get_object());
    }
    if (const auto body = state_->lines.take_other_body())
        throw_no_stream(state_->which, *body);
    return text;
}

bool accumulator::is_complete() const noexcept
{
    return state_->is_done || state_->events->is_complete();
}

json::object accumulator::response() const
{
    return state_->events->response();
}

void append_text(json::object& to, std::string_view member, std::string_view text)
{
    auto& found = to[member];
    if (auto* const before = found.if_string())
        before->append(text);
    else
        found = text;
}

std::int64_t index_at(const json::object& event, std::string_view member, std::int64_t fallback) noexcept
{
    const auto* const found = find_at(event, member);
    if (found == nullptr || !found->is_number())
        return fallback;
    json::error_code failure;
    const auto index = found->to_number<std::int64_t>(failure);
    return failure ? fallback : index;
}

} // namespace waymark::wire
