#include "json_document.hpp"
#include "text.hpp"

#include <waymark/error.hpp>
#include <waymark/strategy.hpp>

#include <algorithm>
#include <array>

namespace waymark {

namespace json = boost::json;

namespace {

constexpr std::array<std::string_view, 3> event_names = {"tool_call_complete", "llm_response", "iteration"};

} // namespace

strategy strategy::after_tool_call() noexcept
{
    return strategy(kind::after_tool_call);
}

strategy strategy::after_llm_response() noexcept
{
    return strategy(kind::after_llm_response);
}

strategy strategy::every_n(std::uint64_t n)
{
    if (n == 0)
        throw error(errc::invalid_argument,
                    "every_n(0) would never save; use 1 for every iteration, or strategy::never()");
    return strategy(kind::every_n, n);
}

strategy strategy::never() noexcept
{
    return strategy(kind::never);
}

strategy strategy::when(predicate decide)
{
    if (!decide)
        throw error(errc::invalid_argument, "when() needs a function that can be called");
    strategy result(kind::when);
    result.decide_ = std::make_shared<const predicate>(std::move(decide));
    return result;
}

bool strategy::should_checkpoint(std::int64_t iteration, event what) const
{
    switch (kind_) {
    case kind::after_tool_call:
        return what == event::tool_call_complete;
    case kind::after_llm_response:
        return what == event::llm_response;
    case kind::every_n: {
        const auto distance =
            iteration < 0 ? -static_cast<std::uint64_t>(iteration) : static_cast<std::uint64_t>(iteration);
        return distance % n_ == 0;
    }
    case kind::never:
        return false;
    case kind::when:
        return (*decide_)(iteration, what);
    }
    return false;
}

void tag_invoke(json::value_from_tag, json::value& to, const strategy& from)
{
    using kind = strategy::kind;
    switch (from.kind_) {
    case kind::after_tool_call:
        to = "after_tool_call";
        return;
    case kind::after_llm_response:
        to = "after_llm_response";
        return;
    case kind::every_n:
        to = json::object{{"every_n", from.n_}};
        return;
    case kind::never:
        to = "never";
        return;
    case kind::when:
        throw error(errc::invalid_argument, "a strategy made with when() is code and has no JSON");
    }
}

strategy tag_invoke(json::value_to_tag<strategy>, const json::value& from)
{
    if (from.is_object()) {
        const detail::object_reader reader(from, "strategy");
        reader.refuse_others({"every_n"}, "write {\"every_n\": 5}");
        return strategy::every_n(reader.unsigned_or("every_n", 0));
    }
    const auto name = from.is_string() ? std::string_view(from.get_string()) : std::string_view();
    if (name == "after_tool_call")
        return strategy::after_tool_call();
    if (name == "after_llm_response")
        return strategy::after_llm_response();
    if (name == "never")
        return strategy::never();
    throw error(errc::invalid_argument, "unknown strategy " + detail::quoted(name) +
                                            "; use \"after_tool_call\", \"after_llm_response\", \"never\" or "
                                            "{\"every_n\": 5}");
}

void tag_invoke(json::value_from_tag, json::value& to, event from)
{
    to = event_names[static_cast<std::size_t>(from)];
}

event tag_invoke(json::value_to_tag<event>, const json::value& from)
{
    const auto name = from.is_string() ? std::string_view(from.get_string()) : std::string_view();
    const auto found = std::find(event_names.begin(), event_names.end(), name);
    if (found == event_names.end())
        throw error(errc::invalid_argument, "unknown event " + detail::quoted(name) +
                                                "; use \"tool_call_complete\", \"llm_response\" or "
                                                "\"iteration\"");
    return static_cast<event>(found - event_names.begin());
}

} // namespace waymark
