#include "conversation_node.hpp"
#include "json_document.hpp"
#include "turns.hpp"

#include <waymark/conversation.hpp>
#include <waymark/error.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <cassert>

namespace waymark {

namespace json = boost::json;

namespace detail {

conversation_tip::conversation_tip(const conversation_tip& other) noexcept : node_(add_reference(other.node_))
{
}

conversation_tip& conversation_tip::operator=(conversation_tip other) noexcept
{
    std::swap(node_, other.node_);
    return *this;
}

conversation_tip::~conversation_tip()
{
    drop_reference(node_);
}

} // namespace detail

using detail::length_of;
using detail::node_at;

// Iteration

conversation::const_iterator::const_iterator(const detail::conversation_node* tip, std::size_t index) noexcept
    : tip_(tip), index_(index)
{
    if (tip_ != nullptr)
        fill_block();
}

void conversation::const_iterator::fill_block() noexcept
{
    const auto first = index_ - index_ % block_size;
    const auto count = std::min(block_size, tip_->length - first);
    const auto* node = node_at(tip_, first + count - 1);
    for (auto i = count; i-- > 0; node = node->previous)
        block_[i] = node;
}

const message& conversation::const_iterator::operator*() const noexcept
{
    return block_[index_ % block_size]->value;
}

conversation::const_iterator& conversation::const_iterator::operator++() noexcept
{
    ++index_;
    if (index_ % block_size == 0 && index_ < tip_->length)
        fill_block();
    return *this;
}

conversation::const_iterator conversation::const_iterator::operator++(int) noexcept
{
    auto before = *this;
    ++*this;
    return before;
}

// Content

void conversation::push(message next)
{
    auto node = std::make_unique<detail::conversation_node>(std::move(next), tip_.get());
    tip_.release(); // the node has taken over our reference
    tip_ = detail::conversation_tip(node.release());
}

void conversation::truncate(std::size_t count)
{
    if (count == 0)
        clear();
    else if (count < size())
        tip_ = detail::conversation_tip(detail::add_reference(node_at(tip_.get(), count - 1)));
}

conversation& conversation::with_system_prompt(std::string text) &
{
    conversation changed(max_tokens_);
    changed.extra_ = extra_;
    changed.push(message::system(std::move(text)));
    bool first = true;
    for (const auto& message : *this) {
        if (!first || !detail::is_prompt(message))
            changed.push(message);
        first = false;
    }
    return *this = std::move(changed);
}

conversation&& conversation::with_system_prompt(std::string text) &&
{
    return std::move(with_system_prompt(std::move(text)));
}

conversation& conversation::with_max_tokens(std::uint64_t max_tokens) & noexcept
{
    max_tokens_ = max_tokens;
    return *this;
}

conversation&& conversation::with_max_tokens(std::uint64_t max_tokens) && noexcept
{
    return std::move(with_max_tokens(max_tokens));
}

namespace {

// Among the extra members, so that every store keeps it.
constexpr std::string_view compaction_member = "compaction";

void require_extra(std::string_view key)
{
    if (key == "messages" || key == "max_tokens")
        throw error(errc::invalid_argument,
                    "'" + std::string(key) + "' is no extra member of a conversation");
}

} // namespace

conversation& conversation::with_extra(std::string_view key, json_input value) &
{
    require_extra(key);
    auto changed = std::make_shared<json::object>(extra());
    changed->insert_or_assign(key, std::move(value).take());
    extra_ = std::move(changed);
    return *this;
}

conversation&& conversation::with_extra(std::string_view key, json_input value) &&
{
    return std::move(with_extra(key, std::move(value)));
}

conversation& conversation::with_extra(json::object members) &
{
    for (const auto& member : members)
        require_extra(member.key());
    extra_ =
        members.empty() ? nullptr : std::make_shared<const json::object>(detail::rehome(std::move(members)));
    return *this;
}

conversation&& conversation::with_extra(json::object members) &&
{
    return std::move(with_extra(std::move(members)));
}

std::size_t conversation::size() const noexcept
{
    return length_of(tip_.get());
}

const message& conversation::operator[](std::size_t index) const& noexcept
{
    assert(index < size());
    return node_at(tip_.get(), index)->value;
}

const message& conversation::back() const& noexcept
{
    assert(!empty());
    return tip_.get()->value;
}

const json::object& conversation::extra() const& noexcept
{
    static const json::object none;
    return extra_ == nullptr ? none : *extra_;
}

std::uint64_t conversation::estimated_tokens() const noexcept
{
    return empty() ? 0 : tip_.get()->tokens;
}

std::size_t conversation::bytes() const noexcept
{
    return empty() ? 0 : tip_.get()->bytes;
}

std::size_t conversation::largest_message_bytes() const noexcept
{
    return empty() ? 0 : tip_.get()->largest;
}

std::size_t conversation::depth() const noexcept
{
    return empty() ? 0 : tip_.get()->depth;
}

std::uint64_t conversation::estimated_tokens(const token_counter& count) const
{
    std::uint64_t sum = 0;
    for (const auto& message : *this)
        sum += count(message);
    return sum;
}

conversation conversation::window() const
{
    return window([](const message& next) { return next.estimated_tokens(); });
}

std::size_t conversation::prompt_size() const noexcept
{
    return !empty() && detail::is_prompt((*this)[0]) ? 1 : 0;
}

std::size_t conversation::head_size() const
{
    const auto prompt = prompt_size();
    const auto range = compaction();
    const bool has_summary = range && prompt < size() && (*this)[prompt].id() == range->summary_id();
    return prompt + (has_summary ? 1 : 0);
}

conversation conversation::window(const token_counter& count) const
{
    if (empty())
        return *this;
    const detail::turns turns(*this);
    const auto messages = detail::conversation_access::messages_from(*this, 0);
    const auto oldest = head_size();
    std::uint64_t used = 0;
    for (std::size_t i = 0; i < oldest; ++i)
        used += count(*messages[i]);
    auto first = size();
    bool is_something = false, was_something = false; // from `next` on, and from `first` on
    for (auto next = first; next-- > oldest;) {
        used += count(*messages[next]);
        if (max_tokens_ != 0 && used > max_tokens_ && was_something)
            break;
        is_something = is_something || turns.without_orphans(next, *messages[next]);
        if (turns.begins_at(next) || next == oldest) {
            first = next;
            was_something = is_something;
        }
    }
    auto kept = *this;
    if (first > oldest) {
        kept.truncate(oldest);
    } else if (turns.orphans().empty()) {
        return kept;
    } else {
        kept.truncate(turns.orphans().front().message);
        first = std::max(first, kept.size());
    }
    for (auto next = first; next < messages.size(); ++next)
        if (auto left = turns.without_orphans(next, *messages[next]))
            kept.push(*std::move(left));
    return kept;
}

conversation conversation::compacted(std::string summary, std::size_t keep_last) const
{
    return compacted(message::user(std::move(summary)), keep_last);
}

std::size_t conversation::compaction_cut(std::size_t keep_last) const
{
    const auto first = prompt_size();
    auto cut = size() - std::min(keep_last, size() - first);
    if (cut == first || cut == size())
        return cut;
    const detail::turns turns(*this);
    while (cut > first && !turns.begins_at(cut))
        --cut;
    return cut;
}

conversation conversation::compactable(std::size_t keep_last) const
{
    conversation left_out;
    auto shorter = *this;
    shorter.truncate(compaction_cut(keep_last));
    for (const auto* next : detail::conversation_access::messages_from(shorter, prompt_size()))
        left_out.push(*next);
    return left_out;
}

conversation conversation::compacted(message summary, std::size_t keep_last) const
{
    const auto first = prompt_size();
    const auto cut = compaction_cut(keep_last);
    if (cut == first)
        return *this;
    auto stands_for = cut - first;
    if (const auto earlier = compaction(); earlier && head_size() > first) // whose summary goes now
        stands_for += earlier->stands_for() - 1;
    const auto tail = detail::conversation_access::messages_from(*this, cut);
    auto shorter = *this;
    shorter.truncate(first);
    shorter.with_extra(compaction_member, json::object{{"summary", summary.id()},
                                                       {"first", first},
                                                       {"count", cut - first},
                                                       {"stands_for", stands_for}});
    shorter.push(std::move(summary));
    for (const auto* next : tail)
        shorter.push(*next);
    return shorter;
}

std::optional<compaction_range> conversation::compaction() const
{
    const auto* const found = extra().if_contains(compaction_member);
    const auto* const members = found == nullptr ? nullptr : found->if_object();
    if (members == nullptr)
        return std::nullopt;
    const auto* const summary = members->if_contains("summary");
    const auto number = [&](std::string_view key) -> std::optional<std::size_t> {
        const auto* const value = members->if_contains(key);
        if (value != nullptr && value->is_int64() && value->get_int64() >= 0)
            return static_cast<std::size_t>(value->get_int64());
        return value != nullptr && value->is_uint64() ? std::optional<std::size_t>(value->get_uint64())
                                                      : std::nullopt;
    };
    const auto first = number("first"), count = number("count"), stands_for = number("stands_for");
    if (summary == nullptr || !summary->is_string() || !first || !count)
        return std::nullopt;
    return compaction_range(std::string(summary->get_string()), *first, *count,
                            std::max(*count, stands_for.value_or(0)));
}

std::size_t conversation::shared_prefix(const conversation& other) const noexcept
{
    const auto* a = tip_.get();
    const auto* b = other.tip_.get();
    const auto shorter = std::min(length_of(a), length_of(b));
    if (shorter == 0)
        return 0;
    a = node_at(a, shorter - 1);
    b = node_at(b, shorter - 1);
    // Nodes of equal length have jumps of equal length, so the two walk back in step.
    while (a != b) {
        if (a->jump != b->jump) {
            a = a->jump;
            b = b->jump;
        } else {
            a = a->previous;
            b = b->previous;
        }
    }
    return length_of(a);
}

bool operator==(const conversation& left, const conversation& right) noexcept
{
    if (left.size() != right.size() || left.max_tokens() != right.max_tokens() ||
        !detail::same_content(left.extra(), right.extra()))
        return false;
    const auto shared = left.shared_prefix(right);
    const auto* a = left.tip_.get();
    const auto* b = right.tip_.get();
    for (; length_of(a) > shared; a = a->previous, b = b->previous)
        if (!(a->value == b->value))
            return false;
    return true;
}

void tag_invoke(json::value_from_tag, json::value& to, const conversation& from)
{
    auto& object = to.emplace_object();
    object["max_tokens"] = from.max_tokens();
    auto& messages = object["messages"].emplace_array();
    messages.reserve(from.size());
    for (const auto& message : from)
        messages.push_back(json::value_from(message));
    for (const auto& member : from.extra())
        object.insert_or_assign(member.key(), member.value());
}

conversation tag_invoke(json::value_to_tag<conversation>, const json::value& from)
{
    const detail::object_reader reader(from, "conversation");
    conversation chat(reader.unsigned_or("max_tokens", 0));
    if (const auto* foreign = reader.find("max_context_tokens"); // smooth-operator's name for it
        foreign != nullptr && foreign->is_int64() && reader.find("max_tokens") == nullptr)
        chat.with_max_tokens(reader.unsigned_or("max_context_tokens", 0));
    const auto& messages = reader.require("messages");
    if (!messages.is_array())
        reader.fail("messages", "must be an array");
    std::size_t index = 0;
    for (const auto& value : messages.get_array()) {
        try {
            chat.push(json::value_to<message>(value));
        } catch (const error& failure) {
            throw error(failure.code(), "message " + std::to_string(index) +
                                            " of the conversation: " + failure.details().message());
        }
        ++index;
    }
    json::object extra;
    for (const auto& member : from.get_object())
        if (member.key() != "max_tokens" && member.key() != "messages")
            extra.emplace(member.key(), member.value());
    return std::move(chat).with_extra(std::move(extra));
}

} // namespace waymark
