#include "api_errors.hpp"
#include "assembler.hpp"
#include "json_members.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <map>

namespace waymark::wire {

namespace json = boost::json;

namespace gemini_stream {
namespace {

//! Nothing but text. A signature belongs to its part alone.
bool is_plain_text(const json::object& part)
{
    return string_at(part, "text") != nullptr && has_only(part, {"text", "thought"});
}

bool is_thought(const json::object& part)
{
    const auto* const flag = find_at(part, "thought");
    return flag != nullptr && flag->is_bool() && flag->get_bool();
}

void add_part(json::array& to, const json::value& next)
{
    const auto* const part = next.if_object();
    auto* const last = to.empty() ? nullptr : to.back().if_object();
    if (part != nullptr && last != nullptr && is_plain_text(*part) && is_plain_text(*last) &&
        is_thought(*part) == is_thought(*last))
        append_text(*last, "text", text_at(*part, "text"));
    else if (part == nullptr || !is_plain_text(*part) || !text_at(*part, "text").empty())
        to.push_back(next); // an empty text says only that the stream goes on, or has ended
}

class assembler_of_chunks final : public assembler {
public:
    std::string add(const json::object& event) override
    {
        const auto* const candidates = find_at(event, "candidates");
        if (candidates == nullptr ? !event.contains("promptFeedback") && !event.contains("usageMetadata")
                                  : !all_objects(*candidates, [](const json::object&) { return true; }))
            throw_no_event(api::gemini, "it has no list 'candidates' of objects");
        for (const auto& [key, value] : event)
            if (key == "candidates")
                whole_.emplace(key, nullptr); // keeps the place
            else
                whole_[key] = value;
        std::string text;
        if (candidates != nullptr)
            for (const auto& next : candidates->get_array()) {
                add_candidate(next.get_object());
                text += text_of(next.get_object());
            }
        return text;
    }

    bool is_complete() const noexcept override
    {
        const auto* const feedback = object_at(whole_, "promptFeedback");
        if (feedback != nullptr && has_value(*feedback, "blockReason"))
            return true;
        return !candidates_.empty() &&
               std::all_of(candidates_.begin(), candidates_.end(),
                           [](const auto& next) { return has_value(next.second, "finishReason"); });
    }

    json::object response() const override
    {
        auto whole = whole_;
        if (candidates_.empty())
            return whole;
        json::array candidates;
        for (const auto& [index, next] : candidates_)
            candidates.push_back(next);
        whole["candidates"] = std::move(candidates);
        return whole;
    }

private:
    //! Of the candidate that counts.
    std::string text_of(const json::object& candidate) const
    {
        const auto* const content = object_at(candidate, "content");
        const auto* const parts = content == nullptr ? nullptr : array_at(*content, "parts");
        std::string text;
        if (parts == nullptr || index_at(candidate, "index", 0) != candidates_.begin()->first)
            return text;
        for (const auto& next : *parts)
            if (const auto* const part = next.if_object(); part != nullptr && !is_thought(*part))
                text += text_at(*part, "text");
        return text;
    }

    void add_candidate(const json::object& from)
    {
        auto& to = candidates_[index_at(from, "index", 0)];
        for (const auto& [key, value] : from)
            if (const auto* const content = value.if_object(); content != nullptr && key == "content")
                add_content(to, *content);
            else
                to[key] = value;
    }

    static void add_content(json::object& to, const json::object& from)
    {
        auto& place = to["content"];
        auto& content = place.is_object() ? place.get_object() : place.emplace_object();
        for (const auto& [key, value] : from)
            if (const auto* const parts = value.if_array(); parts != nullptr && key == "parts") {
                auto& list = content["parts"];
                for (auto& all = list.is_array() ? list.get_array() : list.emplace_array();
                     const auto& next : *parts)
                    add_part(all, next);
            } else {
                content[key] = value;
            }
    }

    json::object whole_;
    std::map<std::int64_t, json::object> candidates_;
};

} // namespace
} // namespace gemini_stream

std::unique_ptr<assembler> assemble_gemini()
{
    return std::make_unique<gemini_stream::assembler_of_chunks>();
}

} // namespace waymark::wire
