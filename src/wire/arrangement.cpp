#include "arrangement.hpp"

#include "../values/item_parts.hpp"
#include "../values/storage_memory.hpp"
#include "../values/tool_pairing.hpp"
#include "call_ids.hpp"
#include "json_members.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace waymark::wire {

namespace {

using pairing = detail::tool_pairing;

//! The calls, or the results, of one message.
template <class Entry>
std::span<const Entry> of_message(const std::vector<Entry>& all, std::size_t message)
{
    const auto first = std::partition_point(all.begin(), all.end(),
                                            [&](const Entry& next) { return next.message < message; });
    const auto last =
        std::partition_point(first, all.end(), [&](const Entry& next) { return next.message == message; });
    return {first, last};
}

//! Who speaks in an item without a role: items of the Responses API, mostly.
speaker speaker_without_role(const message& of)
{
    const auto parts = of.parts();
    const bool is_models = std::any_of(parts.begin(), parts.end(), [](const part& next) {
        return next.kind() != part_kind::text && next.kind() != part_kind::media;
    });
    return is_models ? speaker::model : speaker::user;
}

speaker speaker_of(const message& of)
{
    switch (of.role().value_or(role::other)) {
    case role::system:
    case role::developer:
        return speaker::instructions;
    case role::assistant:
    case role::model:
        return speaker::model;
    case role::tool: // but for its results, which are told apart anyway
    case role::user:
        return speaker::user;
    case role::other:
        break;
    }
    return of.role() ? speaker::user : speaker_without_role(of);
}

class arranger {
public:
    arranger(const conversation& chat, const api_rules& api) : api_(api), pairs_(chat)
    {
        messages_.reserve(chat.size());
        is_native_.reserve(chat.size());
        for (const auto& next : chat) {
            messages_.push_back(&next);
            is_native_.push_back(detail::message_access::is_plain(next)
                                     ? api.is_native(detail::message_access::item_of(next))
                                     : api.is_native(next.item()));
        }
        ids_ = choose_call_ids(pairs_, messages_, is_native_, api);
        turn_of_call_.resize(pairs_.calls.size(), none);
        has_converted_result_.resize(messages_.size());
        for (const auto& result : pairs_.results)
            if (result.call && !is_native_[result.message])
                has_converted_result_[pairs_.calls[*result.call].message] = true;
    }

    std::vector<turn> arrange()
    {
        for (std::size_t i = 0; i < messages_.size(); ++i)
            if (!is_native_[i] || !add_verbatim(i))
                add_converted(i);
        return take_turns();
    }

private:
    static constexpr auto none = static_cast<std::size_t>(-1);

    //! A result that was brought to its call.
    struct placed_result {
        std::size_t call;
        std::optional<std::size_t> verbatim;
        std::optional<piece> converted;
    };
    struct open_turn {
        turn content;
        std::vector<placed_result> results;
        std::size_t calls = 0; // those that have a result
    };

    //! False if the item has to be converted although the API would take it.
    bool add_verbatim(std::size_t index)
    {
        const auto results = of_message(pairs_.results, index);
        const auto first_paired = std::find_if(results.begin(), results.end(),
                                               [&](const pairing::result& next) { return is_placed(next); });
        if (first_paired != results.end()) {
            if (has_other_ids(index, results))
                return false;
            if (api_.results == result_place::in_one_message && is_one_of_several(results))
                return false;
            if (api_.results == result_place::behind_call) {
                turns_[turn_of_call_[*first_paired->call]].results.push_back(
                    {*first_paired->call, index, std::nullopt});
                return true;
            }
        }
        const auto who = results.empty() ? speaker_of(*messages_[index]) : speaker::tools;
        turns_.push_back({turn{who, index, {}}, {}, 0});
        for (const auto& call : of_message(pairs_.calls, index))
            add_call(static_cast<std::size_t>(&call - pairs_.calls.data()));
        return true;
    }

    //! Whether it answers a call that is in the request already.
    bool is_placed(const pairing::result& result) const
    {
        return result.call && turn_of_call_[*result.call] != none;
    }

    //! Whether a call that it answers has another id in the request.
    bool has_other_ids(std::size_t index, std::span<const pairing::result> results) const
    {
        if (std::none_of(results.begin(), results.end(), [&](const pairing::result& next) {
                return next.call && !is_native_[pairs_.calls[*next.call].message];
            }))
            return false;
        const auto parts = messages_[index]->parts();
        return std::any_of(results.begin(), results.end(), [&](const pairing::result& next) {
            return next.call && detail::part_access::id(parts[next.part]) != ids_[*next.call];
        });
    }

    //! Whether results of the same turns have to be converted, which then have to be in one message with
    //! these.
    bool is_one_of_several(std::span<const pairing::result> results) const
    {
        bool answers_converted_call = false;
        for (const auto& next : results) {
            if (!is_placed(next))
                continue;
            const auto caller = pairs_.calls[*next.call].message;
            if (is_native_[caller] && has_converted_result_[caller])
                return true;
            answers_converted_call = answers_converted_call || !is_native_[caller];
        }
        return answers_converted_call && !answers_last_turn(results);
    }

    //! Whether these are the results of the newest turn, and all of them.
    bool answers_last_turn(std::span<const pairing::result> results) const
    {
        const auto last = turns_.size() - 1;
        std::size_t paired = 0;
        for (const auto& next : results)
            if (is_placed(next)) {
                if (turn_of_call_[*next.call] != last)
                    return false;
                ++paired;
            }
        return turns_[last].results.empty() && turns_[last].calls == paired;
    }

    void add_converted(std::size_t index)
    {
        const auto parts = messages_[index]->parts();
        const auto calls = of_message(pairs_.calls, index);
        const auto results = of_message(pairs_.results, index);
        auto call = calls.begin();
        auto result = results.begin();
        const auto who = speaker_of(*messages_[index]);
        for (std::size_t p = 0; p < parts.size(); ++p) {
            piece next{index, parts[p], {}, {}, {}};
            if (call != calls.end() && call->part == p) {
                const auto number = static_cast<std::size_t>(&*call++ - pairs_.calls.data());
                next.call_id = ids_[number];
                add_piece(speaker::model, std::move(next));
                add_call(number);
            } else if (result != results.end() && result->part == p) {
                add_result(*result++, std::move(next));
            } else {
                add_piece(parts[p].kind() == part_kind::reasoning ? speaker::model : who, std::move(next));
            }
        }
    }

    void add_result(const pairing::result& result, piece next)
    {
        if (!is_placed(result)) {
            const auto given = detail::part_access::id(next.content);
            next.call_id = id_without_call(given, *messages_[result.message], result.part, api_);
            next.tool = detail::part_access::name(next.content);
            add_piece(speaker::tools, std::move(next));
            return;
        }
        next.call_id = ids_[*result.call];
        const auto& call = pairs_.calls[*result.call];
        next.tool = call.name;
        if (is_native_[call.message])
            next.native_call = messages_[call.message]->parts()[call.part];
        if (api_.results == result_place::anywhere)
            add_piece(speaker::tools, std::move(next));
        else
            turns_[turn_of_call_[*result.call]].results.push_back(
                {*result.call, std::nullopt, std::move(next)});
    }

    void add_piece(speaker who, piece next)
    {
        if (!continues_turn(who, next.message))
            turns_.push_back({turn{who, std::nullopt, {}}, {}, 0});
        turns_.back().content.pieces.push_back(std::move(next));
    }

    bool continues_turn(speaker who, std::size_t message) const
    {
        if (turns_.empty())
            return false;
        const auto& [last, results, calls] = turns_.back();
        if (last.who != who || last.verbatim || !results.empty())
            return false;
        return who == speaker::model || who == speaker::tools || last.pieces.back().message == message;
    }

    void add_call(std::size_t number)
    {
        turn_of_call_[number] = turns_.size() - 1;
        turns_.back().calls += pairs_.calls[number].result.has_value();
    }

    std::vector<turn> take_turns()
    {
        std::vector<turn> taken;
        taken.reserve(turns_.size());
        for (auto& [content, results, calls] : turns_) {
            taken.push_back(std::move(content));
            if (api_.results == result_place::in_one_message)
                std::stable_sort(results.begin(), results.end(),
                                 [](const auto& left, const auto& right) { return left.call < right.call; });
            bool is_new = true;
            for (auto& [call, verbatim, converted] : results) {
                if (is_new || verbatim)
                    taken.push_back({speaker::tools, verbatim, {}});
                if (converted)
                    taken.back().pieces.push_back(*std::move(converted));
                is_new = verbatim.has_value();
            }
        }
        return taken;
    }

    const api_rules& api_;
    pairing pairs_;
    std::vector<const message*> messages_;
    std::vector<bool> is_native_;
    std::vector<bool> has_converted_result_; // of messages with calls
    std::vector<std::string> ids_;           // of the calls
    std::vector<std::size_t> turn_of_call_;  // `none` until it is added
    std::vector<open_turn> turns_;
};

} // namespace

std::vector<turn> arrange(const conversation& chat, const api_rules& api)
{
    return arranger(chat, api).arrange();
}

} // namespace waymark::wire
