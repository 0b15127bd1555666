//! What a crash or a broken stream leaves of a conversation, made whole again.
#include "item_parts.hpp"
#include "storage_memory.hpp"
#include "turns.hpp"

#include <waymark/conversation.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace waymark {

namespace json = boost::json;

using detail::conversation_access;
using detail::message_access;
using detail::part_access;
using detail::text_in;
using detail::tool_pairing;

namespace {

std::string_view type_of(const json::value& value) noexcept
{
    return text_in(value, "type");
}

//! Whose shape a call has, which its result must have, too.
enum class call_shape { listed, listed_for_others, named, item, block, gemini };

call_shape shape_of(const message& caller, const part& call)
{
    if (caller.item().contains("parts"))
        return call_shape::gemini;
    if (type_of(call.json()) == "tool_use")
        return call_shape::block;
    if (&call.json() == caller.item().if_contains("function_call"))
        return call_shape::named;
    return caller.item().contains("tool_calls") ? call_shape::listed : call_shape::item;
}

//! Those of Anthropic and Gemini are entries of one message that answers all calls of a turn.
bool are_joined(call_shape shape) noexcept
{
    return shape == call_shape::block || shape == call_shape::gemini;
}

//! Of the first call that is joined with others of its turn; none without such a call.
std::optional<call_shape> joined_shape(const message& value)
{
    for (const auto& next : message_access::parts_of_item(value))
        if (next.kind() == part_kind::tool_call)
            if (const auto shape = shape_of(value, next); are_joined(shape))
                return shape;
    return std::nullopt;
}

bool is_result(const part& of) noexcept
{
    return of.kind() == part_kind::tool_result;
}

bool holds_result(const message& value)
{
    const auto& parts = message_access::parts_of_item(value);
    return message_access::is_plain_result(value) || std::any_of(parts.begin(), parts.end(), is_result);
}

bool holds_only_results(const message& value)
{
    const auto& parts = message_access::parts_of_item(value);
    return message_access::is_plain_result(value) ||
           (!parts.empty() && std::all_of(parts.begin(), parts.end(), is_result));
}

//! A screenshot of nothing, for who waits for one.
constexpr std::string_view empty_image =
    "data:image/"
    "png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJ"
    "RU5ErkJggg==";

json::object answer_item(const part& call, const std::string& text)
{
    const auto type = type_of(call.json());
    const auto id = part_access::id(call);
    if (type == "computer_call")
        return {{"type", "computer_call_output"},
                {"call_id", id},
                {"output", {{"type", "computer_screenshot"}, {"image_url", empty_image}}}};
    if (type == "shell_call")
        return {{"type", "shell_call_output"},
                {"call_id", id},
                {"output",
                 {{{"stdout", ""}, {"stderr", text}, {"outcome", {{"type", "exit"}, {"exit_code", 1}}}}}}};
    if (type == "apply_patch_call")
        return {{"type", "apply_patch_call_output"}, {"call_id", id}, {"status", "failed"}, {"output", text}};
    return {{"type", type.empty() ? "function_call_output" : std::string(type) + "_output"},
            {"call_id", id},
            {"output", text}};
}

//! What answers the call: a message's item, or an entry of one.
json::object answer_to(const part& call, call_shape shape, const std::string& text)
{
    const auto id = part_access::id(call);
    const auto name = part_access::name(call);
    switch (shape) {
    case call_shape::listed:
        return detail::make_result_item(tool_result(call.call(), text));
    case call_shape::listed_for_others: // which know errors
        return detail::make_result_item(tool_result(call.call(), text).with_error());
    case call_shape::named:
        return {{"role", "function"}, {"name", name}, {"content", text}};
    case call_shape::item:
        return answer_item(call, text);
    case call_shape::block:
        return {{"type", "tool_result"}, {"tool_use_id", id}, {"content", text}, {"is_error", true}};
    case call_shape::gemini:
        break;
    }
    json::object response;
    if (!id.empty())
        response.emplace("id", id);
    response.emplace("name", name);
    response.emplace("response", json::object{{"error", text}});
    return {{"functionResponse", std::move(response)}};
}

//! The parts that a broken stream left, which no API takes back.
class fragments {
public:
    //! `used` says whether a tool of the API's own, of that id, has its result here or later. Those of the
    //! last answer may go on.
    fragments(const message& of, const std::function<bool(std::string_view)>& used, bool is_last)
        : of_(of), parts_(message_access::parts_of_item(of)), used_(used), last_(is_last)
    {
    }

    void add_to(std::vector<std::size_t>& gone) const
    {
        const auto is_gone = [&](std::size_t i) {
            return std::find(gone.begin(), gone.end(), i) != gone.end();
        };
        for (std::size_t i = 0; i < parts_.size(); ++i)
            if (!is_gone(i) && is_fragment(parts_[i]))
                gone.push_back(i);
        // An answer of Anthropic's never ends with reasoning.
        for (auto i = parts_.size(); i-- > 0;)
            if (!is_gone(i)) {
                const auto type = type_of(parts_[i].json());
                if (parts_[i].kind() != part_kind::reasoning ||
                    (type != "thinking" && type != "redacted_thinking"))
                    break;
                gone.push_back(i);
            }
        std::sort(gone.begin(), gone.end());
    }

private:
    bool is_fragment(const part& next) const
    {
        const auto type = type_of(next.json());
        switch (next.kind()) {
        case part_kind::reasoning:
            return type == "thinking" && text_in(next.json(), "signature").empty();
        case part_kind::text:
            return type == "text" && of_.role() == role::assistant && next.text().empty();
        case part_kind::other:
            break;
        default:
            return false;
        }
        if (type == "server_tool_use" || type == "mcp_tool_use")
            return is_unfinished_use(next.json());
        const auto status = text_in(next.json(), "status");
        return status == "in_progress" || status == "searching" || status == "interpreting" ||
               status == "generating";
    }

    //! The API has run it, and its result stands in the same message; or in the next answer, if the API has
    //! paused, or the tool has called one of ours.
    bool is_unfinished_use(const json::value& use) const
    {
        const auto* const input = use.get_object().if_contains("input");
        if (input == nullptr || !input->is_object())
            return true;
        return !last_ && !used_(text_in(use, "id"));
    }

    const message& of_;
    const std::vector<part>& parts_;
    const std::function<bool(std::string_view)>& used_;
    bool last_;
};

//! Whether an answer of the model says nothing at all.
bool is_empty_answer(const message& value)
{
    if (value.role() != role::assistant && value.role() != role::model)
        return false;
    if (message_access::is_plain(value))
        return false;
    const auto* const content = value.item().if_contains("content");
    if (content != nullptr && content->is_string()) // an empty text is an answer
        return false;
    const auto& parts = message_access::parts_of_item(value);
    return std::all_of(parts.begin(), parts.end(), [](const part& next) {
        return next.kind() == part_kind::reasoning || (next.kind() == part_kind::text && next.text().empty());
    });
}

class repairer {
public:
    repairer(const conversation& chat, const std::string& text)
        : messages_(conversation_access::messages_from(chat, 0)),
          pairing_(chat),
          text_(text),
          gone_(messages_.size())
    {
        for (std::size_t i = 0; i < messages_.size(); ++i)
            kept_.emplace_back(*messages_[i]);
    }

    repair_report run(conversation& chat)
    {
        mark_orphans();
        mark_fragments();
        remove_marked();
        drop_lonely_reasoning();
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            if (!kept_[i])
                continue;
            const auto is_end = turn_ends_at(i);
            result_.push_back(*kept_[i]);
            kept_[i].reset();
            if (is_end)
                answer_turn_that_ends_at(i);
        }
        put_into(chat);
        return {answered_, moved_, dropped_};
    }

private:
    void mark_orphans()
    {
        for (const auto& result : pairing_.results)
            if (!result.call)
                gone_[result.message].push_back(result.part);
    }

    void mark_fragments()
    {
        for (auto& call : pairing_.calls) {
            const auto& parts = message_access::parts_of_item(*messages_[call.message]);
            call.is_cut_off = part_access::is_cut_off(parts[call.part]);
            if (!call.is_cut_off)
                continue;
            gone_[call.message].push_back(call.part);
            if (call.result) { // the answer to half a call
                const auto& result = pairing_.results[*call.result];
                gone_[result.message].push_back(result.part);
            }
        }
        const auto used = detail::last_results_of_uses(messages_);
        bool is_last = true; // nothing but results behind it
        for (auto i = messages_.size(); i-- > 0;) {
            if (!message_access::is_plain(*messages_[i]))
                fragments(
                    *messages_[i],
                    [&](std::string_view id) {
                        const auto found = used.find(id);
                        return found != used.end() && found->second >= i;
                    },
                    is_last)
                    .add_to(gone_[i]);
            is_last = is_last && holds_only_results(*messages_[i]);
        }
    }

    void remove_marked()
    {
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            dropped_ += gone_[i].size();
            if (!gone_[i].empty())
                kept_[i] = detail::without_parts(*messages_[i], gone_[i]);
            if (kept_[i] && is_empty_answer(*kept_[i])) {
                kept_[i].reset();
                dropped_ += gone_[i].empty() ? 1 : 0;
            }
        }
    }

    //! In the Responses API, reasoning stands before what it led to, in an item of its own.
    void drop_lonely_reasoning()
    {
        bool is_followed = false;
        for (auto i = messages_.size(); i-- > 0;) {
            if (!kept_[i])
                continue;
            const bool is_output = detail::is_output_item(*kept_[i]);
            if (is_output && detail::is_reasoning_only(*kept_[i]) && !is_followed) {
                kept_[i].reset();
                ++dropped_;
                continue;
            }
            // The next one of the conversation follows it, also where its role says that the model made it.
            is_followed = is_output || kept_[i]->role() == role::assistant;
        }
    }

    //! Whether the last of the messages in which the model makes its calls is this one.
    bool turn_ends_at(std::size_t index) const
    {
        auto behind = index + 1;
        while (behind < kept_.size() && !kept_[behind])
            ++behind;
        if (behind == kept_.size())
            return true;
        if (detail::is_output_item(*kept_[index]) && detail::is_reasoning_only(*kept_[index]))
            return false; // of what is behind it
        const auto shape = joined_shape(*kept_[index]);
        return !(detail::is_output_item(*kept_[index]) && detail::is_output_item(*kept_[behind])) &&
               !(shape && shape == joined_shape(*kept_[behind]));
    }

    struct missing_answer {
        const part* call;
        call_shape shape;
    };

    void answer_turn_that_ends_at(std::size_t index)
    {
        std::vector<missing_answer> missing;
        std::vector<std::size_t> results; // indices in the pairing
        std::set<call_shape> shapes;
        for (; next_call_ < pairing_.calls.size() && pairing_.calls[next_call_].message <= index;
             ++next_call_) {
            const auto& call = pairing_.calls[next_call_];
            if (call.is_cut_off)
                continue;
            const auto& from = *messages_[call.message];
            const auto& part = message_access::parts_of_item(from)[call.part];
            shape_ = shape_of(from, part);
            shapes.insert(shape_);
            if (call.result)
                results.push_back(*call.result);
            else
                missing.push_back({&part, shape_});
        }
        if (missing.empty() && results.empty())
            return;
        std::sort(results.begin(), results.end());
        if (are_joined(shape_) &&
            (shapes.size() > 1 || std::any_of(results.begin(), results.end(), [this](std::size_t result) {
                 return !is_entry(pairing_.results[result], shape_);
             }))) { // calls of several APIs, or results that were made by hand, or for another API: all of
                    // the turn are messages then, and are joined when they are sent
            shape_ = call_shape::listed;
            for (auto& next : missing)
                if (are_joined(next.shape))
                    next.shape = call_shape::listed_for_others;
        }
        are_joined(shape_) ? answer_jointly(index, results, missing)
                           : answer_one_by_one(index, results, missing);
    }

    //! Whether the result is an entry of a message, in the shape of the call.
    bool is_entry(const tool_pairing::result& result, call_shape shape) const
    {
        const auto& from = *messages_[result.message];
        return !message_access::is_plain(from) &&
               (shape == call_shape::gemini
                    ? from.item().contains("parts")
                    : type_of(message_access::parts_of_item(from)[result.part].json()) == "tool_result");
    }

    //! Every result is a message: those that came, then those that came late, then those that never came.
    void answer_one_by_one(std::size_t turn_end, const std::vector<std::size_t>& results,
                           const std::vector<missing_answer>& missing)
    {
        auto end = turn_end + 1;
        while (end < messages_.size() && (!kept_[end] || holds_result(*kept_[end])))
            ++end;
        std::map<std::size_t, std::vector<std::size_t>> late; // parts, by message
        for (const auto index : results) {
            const auto& [at, part, call] = pairing_.results[index];
            if (at < end || !kept_[at] || shape_ == call_shape::item) // that API takes them anywhere
                continue;
            late[at].push_back(part);
            ++moved_;
        }
        for (auto i = turn_end + 1; i < end; ++i) {
            if (kept_[i])
                result_.push_back(*kept_[i]);
            kept_[i].reset();
        }
        for (const auto& [at, parts] : late)
            if (auto taken = only_parts(at, parts))
                result_.push_back(*std::move(taken));
        take_out(late);
        for (const auto& [call, shape] : missing) {
            result_.push_back(message::from(answer_to(*call, shape, text_)));
            ++answered_;
        }
    }

    //! A message with nothing but these parts of another one.
    std::optional<message> only_parts(std::size_t index, const std::vector<std::size_t>& wanted) const
    {
        std::vector<std::size_t> others;
        for (std::size_t i = 0; i < message_access::parts_of_item(*messages_[index]).size(); ++i)
            if (std::find(wanted.begin(), wanted.end(), i) == wanted.end())
                others.push_back(i);
        return detail::without_parts(*messages_[index], others);
    }

    //! All results are entries of the message behind the turn, before anything else in it.
    void answer_jointly(std::size_t turn_end, const std::vector<std::size_t>& results,
                        const std::vector<missing_answer>& missing)
    {
        auto home = turn_end + 1;
        while (home < messages_.size() && !kept_[home])
            ++home;
        const bool has_home =
            home < messages_.size() && std::any_of(results.begin(), results.end(), [&](std::size_t index) {
                return pairing_.results[index].message == home;
            });
        const auto last_home = has_home ? last_message_of_results(home) : home;
        json::array entries;
        bool is_changed = !missing.empty();
        std::map<std::size_t, std::vector<std::size_t>> taken; // parts, by message
        for (const auto index : results) {
            const auto& [at, part, call] = pairing_.results[index];
            if (!kept_[at])
                continue;
            entries.push_back(message_access::parts_of_item(*messages_[at])[part].json());
            taken[at].push_back(part);
            const auto& gone = gone_[at];
            const auto before =
                static_cast<std::size_t>(std::lower_bound(gone.begin(), gone.end(), part) - gone.begin());
            if (!has_home || at < home || at > last_home || part + 1 != taken[at].size() + before) {
                ++moved_; // it stands elsewhere, or behind something else
                is_changed = true;
            }
        }
        if (!is_changed)
            return;
        for (const auto& [call, shape] : missing) {
            entries.push_back(answer_to(*call, shape, text_));
            ++answered_;
        }
        const char* const list = shape_ == call_shape::gemini ? "parts" : "content";
        if (!has_home) {
            take_out(taken);
            result_.push_back(message::from({{"role", "user"}, {list, std::move(entries)}}));
            return;
        }
        // What else the message holds follows.
        const auto& parts = message_access::parts_of_item(*messages_[home]);
        for (std::size_t i = 0; i < parts.size(); ++i)
            if (const auto& mine = taken[home];
                std::find(mine.begin(), mine.end(), i) == mine.end() &&
                std::find(gone_[home].begin(), gone_[home].end(), i) == gone_[home].end())
                entries.push_back(parts[i].json());
        taken.erase(home);
        take_out(taken);
        auto item = kept_[home]->item();
        item.insert_or_assign(list, std::move(entries));
        kept_[home]->with_item(std::move(item));
    }

    //! Anthropic takes the messages of a user that follow each other for one. The results may stand in
    //! several, if nothing else stands between.
    std::size_t last_message_of_results(std::size_t first) const
    {
        auto last = first;
        if (shape_ == call_shape::gemini)
            return last;
        for (;;) {
            const auto next = last + 1;
            if (next == messages_.size() || !kept_[next] || !holds_only_results(*kept_[last]) ||
                !holds_result(*kept_[next]))
                return last;
            last = next;
        }
    }

    void take_out(const std::map<std::size_t, std::vector<std::size_t>>& taken)
    {
        for (const auto& [at, parts] : taken) {
            auto& gone = gone_[at];
            gone.insert(gone.end(), parts.begin(), parts.end());
            std::sort(gone.begin(), gone.end());
            kept_[at] = detail::without_parts(*messages_[at], gone);
        }
    }

    //! What is unchanged in front stays shared.
    void put_into(conversation& chat)
    {
        std::size_t same = 0;
        while (same < result_.size() && same < messages_.size() && result_[same] == *messages_[same])
            ++same;
        if (same == messages_.size() && same == result_.size())
            return;
        chat.truncate(same);
        for (auto i = same; i < result_.size(); ++i)
            chat.push(std::move(result_[i]));
    }

    const std::vector<const message*> messages_; // of the conversation as it was
    tool_pairing pairing_;
    const std::string& text_;
    std::vector<std::vector<std::size_t>> gone_; // parts that go, by message
    std::vector<std::optional<message>> kept_;   // what is left of each, until it stands in `result_`
    std::vector<message> result_;
    std::size_t next_call_ = 0;
    call_shape shape_ = call_shape::listed; // of the turn
    std::size_t answered_ = 0;
    std::size_t moved_ = 0;
    std::size_t dropped_ = 0;
};

} // namespace

std::vector<tool_call> conversation::unanswered_tool_calls() const
{
    std::vector<tool_call> calls;
    const auto messages = conversation_access::messages_from(*this, 0);
    for (const auto& call : tool_pairing(*this).calls)
        if (!call.result && !call.is_cut_off)
            calls.push_back(message_access::parts_of_item(*messages[call.message])[call.part].call());
    return calls;
}

repair_report conversation::repair(const std::string& text)
{
    const auto original = *this; // whose messages are looked at while this one changes
    return repairer(original, text).run(*this);
}

} // namespace waymark
