#include "../store/request_checks.hpp"
#include "../values/text.hpp"

#include <waymark/detail/session_functions.hpp>
#include <waymark/error.hpp>
#include <waymark/transcript.hpp>

#include <algorithm>
#include <unordered_map>

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
                next_.reset();
        }
        return distance < found_.size() ? std::optional(found_[distance]) : std::nullopt;
    }

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
    std::vector<std::string> found_;
    std::vector<checkpoint_header> page_;
    std::size_t place_ = 0;
    bool is_last_ = false;
};

bool has_summary(const checkpoint& in, const std::string& id)
{
    const auto compacted = in.conversation().compaction();
    return compacted && compacted->summary_id() == id;
}

//! The nearest checkpoint from before a compaction. All that were made since have its summary: the place
//! where that begins is found in steps that double, and then by halving.
std::optional<checkpoint> find_uncompacted(store& from, const checkpoint& compacted,
                                           const std::string& summary)
{
    ancestors line(from, compacted);
    std::optional<checkpoint> found;
    const auto is_before = [&](std::size_t distance) {
        const auto id = line.at(distance);
        auto loaded = id ? from.load(compacted.agent_id(), compacted.scope(), *id) : std::nullopt;
        if (!loaded || has_summary(*loaded, summary))
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

} // namespace

transcript_page read_transcript(store& from, const std::string& agent_id, const std::string& scope,
                                const transcript_options& options)
{
    if (options.limit() == 0)
        throw error(errc::invalid_argument, "a transcript of no messages was asked for; "
                                            "transcript_options::limit takes 1 or more");
    const auto& place = options.before();
    const auto point =
        place ? from.load(agent_id, scope, place->checkpoint_id()) : load_head(from, agent_id, scope);
    if (!point && place)
        throw error(errc::not_found, "the transcript of agent " + detail::quoted(agent_id) +
                                         " went on in checkpoint " + detail::quoted(place->checkpoint_id()) +
                                         ", which is not there any more; begin anew");
    if (!point)
        return {};
    const auto& chat = point->conversation();
    const auto end = std::min(place ? place->end() : chat.size(), chat.size());
    const auto compacted = chat.compaction();
    // A summary that was removed since, or replaced, stands for nothing.
    const bool has_place =
        compacted && compacted->first() < end && chat[compacted->first()].id() == compacted->summary_id();
    const auto begin = has_place ? compacted->first() + 1 : 0;
    if (end - begin > options.limit())
        return {slice(chat, end - options.limit(), end),
                transcript_cursor(point->id(), end - options.limit()), 0};
    if (!has_place)
        return {slice(chat, 0, end), std::nullopt, 0};
    const auto before = find_uncompacted(from, *point, compacted->summary_id());
    const auto wanted_end = compacted->first() + compacted->count();
    if (!before || before->conversation().size() <= compacted->first())
        return {slice(chat, 0, end), std::nullopt, compacted->count()};
    const auto known_end = std::min(wanted_end, before->conversation().size());
    return {slice(chat, begin, end), transcript_cursor(before->id(), known_end), wanted_end - known_end};
}

} // namespace waymark::detail
