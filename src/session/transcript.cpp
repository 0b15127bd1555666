#include "../store/request_checks.hpp"
#include "../values/text.hpp"

#include <waymark/detail/session_functions.hpp>
#include <waymark/error.hpp>
#include <waymark/transcript.hpp>

#include <algorithm>
#include <utility>

namespace waymark::detail {

namespace {

//! The checkpoints that one was made from, the nearest first. Reads headers as far as they are asked for.
class ancestors {
public:
    ancestors(store& from, const checkpoint& of)
        : store_(from), agent_id_(of.agent_id()), scope_(of.scope()), next_(of.parent_id())
    {
        wanted_.scope(scope_).limit(page_size).after(cursor(agent_id_, of.sequence()));
    }

    //! None if there are no more, or the next one was pruned. A parent is older than its child: whatever
    //! links are stored, this comes to an end.
    std::optional<std::string> at(std::size_t distance)
    {
        while (found_.size() <= distance && next_) {
            if (!find_next())
                origin_ = std::exchange(next_, std::nullopt);
        }
        return distance < found_.size() ? std::optional(found_[distance]) : std::nullopt;
    }

    //! The parent that is none of the agent's. @pre `at` has come to the end
    const std::optional<std::string>& origin() const noexcept { return origin_; }

private:
    static constexpr std::size_t page_size = 256;

    bool find_next()
    {
        for (;;) {
            for (; place_ < page_.size(); ++place_)
                if (page_[place_].id() == *next_) {
                    found_.push_back(*next_);
                    next_ = page_[place_++].parent_id();
                    return true;
                }
            if (is_last_)
                return false;
            page_ = store_.list(wanted_);
            place_ = 0;
            is_last_ = page_.size() < page_size;
            if (!page_.empty())
                wanted_.after(cursor(page_.back()));
        }
    }

    store& store_;
    std::string agent_id_, scope_;
    query wanted_{agent_id_};
    std::optional<std::string> next_; // the parent of the last one that was found
    std::optional<std::string> origin_;
    std::vector<std::string> found_;
    std::vector<checkpoint_header> page_;
    std::size_t place_ = 0;
    bool is_last_ = false;
};

//! Whether a conversation is one from after a compaction. The same summary may have been used again.
bool is_after(const checkpoint& in, const compaction_range& compacted)
{
    const auto found = in.conversation().compaction();
    return found && found->summary_id() == compacted.summary_id() && found->count() == compacted.count() &&
           found->stands_for() == compacted.stands_for();
}

//! The nearest checkpoint of its agent from before a compaction. All that were made since have its summary:
//! the place where that begins is found in steps that double, and then by halving. Also gives what comes
//! before the line, if nothing on it is from before.
std::optional<checkpoint> find_uncompacted_of_agent(store& from, const checkpoint& compacted,
                                                    const compaction_range& compaction,
                                                    std::optional<std::string>& beyond)
{
    ancestors line(from, compacted);
    std::optional<checkpoint> found;
    const auto is_before = [&](std::size_t distance) {
        const auto id = line.at(distance);
        auto loaded = id ? from.load(compacted.agent_id(), compacted.scope(), *id) : std::nullopt;
        if (!loaded || is_after(*loaded, compaction))
            return false;
        found = std::move(loaded);
        return true;
    };
    std::size_t with_summary = 0, distance = 0; // everything below the first has it
    for (std::size_t step = 1; line.at(distance) && !is_before(distance); step *= 2) {
        with_summary = distance + 1;
        distance += step;
    }
    if (!line.at(distance)) { // the line ends before: where?
        auto end = distance;
        for (auto low = with_summary; low < end;) {
            const auto middle = low + (end - low) / 2;
            if (line.at(middle))
                low = middle + 1;
            else
                end = middle;
        }
        distance = end;
    }
    while (with_summary < distance) {
        const auto middle = with_summary + (distance - with_summary) / 2;
        if (is_before(middle))
            distance = middle;
        else
            with_summary = middle + 1;
    }
    if (!found)
        beyond = line.origin();
    return found;
}

//! The parent of a fork's first checkpoint is one of the agent that it was made from.
std::optional<checkpoint> load_origin(store& from, const checkpoint& of, const std::string& id)
{
    try {
        auto origin = from.load(id);
        if (origin && origin->agent_id() != of.agent_id() && origin->scope() == of.scope())
            return origin;
    } catch (const error& failure) {
        if (failure.code() != errc::conflict) // several have that id: nobody knows which it is
            throw;
    }
    return std::nullopt;
}

//! The nearest checkpoint from before a compaction, also in the agents that this one was forked from.
std::optional<checkpoint> find_uncompacted(store& from, const checkpoint& compacted,
                                           const compaction_range& compaction)
{
    constexpr int most_forks = 100; // links may be forged
    std::optional<std::string> beyond;
    auto found = find_uncompacted_of_agent(from, compacted, compaction, beyond);
    auto last = compacted;
    for (int forks = 0; !found && beyond && forks < most_forks; ++forks) {
        auto origin = load_origin(from, last, *beyond);
        if (!origin || !is_after(*origin, compaction)) // of which a fork's first checkpoint is a copy
            return std::nullopt;
        last = *std::move(origin);
        beyond.reset();
        found = find_uncompacted_of_agent(from, last, compaction, beyond);
    }
    return found;
}

std::vector<message> slice(const conversation& chat, std::size_t begin, std::size_t end)
{
    std::vector<message> messages;
    messages.reserve(end - begin);
    for (auto i = begin; i < end; ++i)
        messages.push_back(chat[i]);
    return messages;
}

//! A conversation as the end of a whole story: what its summary stands for comes before its messages.
class story_end {
public:
    explicit story_end(const conversation& chat) : chat_(chat)
    {
        auto range = chat.compaction();
        if (!range)
            return;
        // A summary that was removed since, or replaced, stands for nothing. A prompt may have come in front.
        const auto last = std::min(range->first() + 2, chat.size());
        for (auto i = range->first(); i < last; ++i)
            if (chat[i].id() == range->summary_id()) {
                begin_ = i + 1;
                compaction_ = std::move(range);
                return;
            }
    }

    const std::optional<compaction_range>& compaction() const noexcept { return compaction_; }
    //! The index of the first message behind the summary.
    std::size_t begin() const noexcept { return begin_; }
    //! How many messages the story has in front of that one.
    std::size_t before() const noexcept
    {
        return compaction_ ? compaction_->first() + compaction_->stands_for() : 0;
    }
    //! Where this one, an earlier one, goes over into a later one: in front of the first message that was
    //! kept there. If that is not here, all of this is older.
    std::size_t end_in_front_of(const story_end& later) const
    {
        if (later.begin() < later.chat_.size()) {
            const auto kept = later.chat_[later.begin()].id();
            std::size_t i = 0, found = chat_.size();
            for (const auto& next : chat_) {
                if (i >= begin_ && !kept.empty() && next.id() == kept)
                    found = i;
                ++i;
            }
            return found;
        }
        return std::min(begin_ + later.before() - std::min(later.before(), before()), chat_.size());
    }
    //! How many messages the story has in front of an index that is not before `begin`.
    std::size_t count_before(std::size_t index) const noexcept { return before() + index - begin(); }

private:
    const conversation& chat_;
    std::size_t begin_ = 0;
    std::optional<compaction_range> compaction_;
};

} // namespace

transcript_page read_transcript(store& from, const std::string& agent_id, const std::string& scope,
                                const transcript_options& options)
{
    if (options.limit() == 0)
        throw error(errc::invalid_argument, "a transcript of no messages was asked for; "
                                            "transcript_options::limit takes 1 or more");
    const auto& place = options.before();
    const auto point = place ? from.load(place->agent_id(), scope, place->checkpoint_id())
                             : load_head(from, agent_id, scope);
    if (!point && place)
        throw error(errc::not_found, "the transcript of agent " + detail::quoted(place->agent_id()) +
                                         " went on in checkpoint " + detail::quoted(place->checkpoint_id()) +
                                         ", which is not there any more; begin anew");
    if (!point)
        return {};
    const auto& chat = point->conversation();
    const story_end story(chat);
    const auto end = std::min(place ? place->end() : chat.size(), chat.size());
    const auto begin = std::min(story.begin(), end);
    if (end - begin > options.limit())
        return {slice(chat, end - options.limit(), end),
                transcript_cursor(point->agent_id(), point->id(), end - options.limit()), 0};
    if (!story.compaction())
        return {slice(chat, 0, end), std::nullopt, 0};
    const auto before = find_uncompacted(from, *point, *story.compaction());
    if (!before || before->conversation().size() <= story.compaction()->first()) {
        // The summary, and what is in front of it, is all that is left.
        const auto first = end - std::min(end, options.limit());
        return {slice(chat, first, end),
                first == 0 ? std::nullopt
                           : std::optional(transcript_cursor(point->agent_id(), point->id(), first)),
                first == 0 ? story.compaction()->stands_for() : 0};
    }
    const story_end earlier(before->conversation());
    const auto known_end = earlier.end_in_front_of(story);
    transcript_cursor where(before->agent_id(), before->id(), known_end);
    const auto missing = story.before() - std::min(story.before(), earlier.count_before(known_end));
    if (begin == end && missing == 0) // nothing was kept behind the summary
        return read_transcript(from, agent_id, scope, transcript_options(options).before(std::move(where)));
    return {slice(chat, begin, end), std::move(where), missing};
}

} // namespace waymark::detail
