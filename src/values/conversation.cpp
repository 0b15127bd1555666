#include "json_document.hpp"
#include "storage_memory.hpp"

#include <waymark/conversation.hpp>
#include <waymark/error.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <unordered_set>

namespace waymark {

namespace json = boost::json;

namespace detail {

//! One more place where a conversation is stored.
struct prefix_cell {
    const stored_prefix* prefix; // owns one reference
    const prefix_cell* next;
};

//! A message and everything before it. Immutable but for its counter and its mark, and never copied.
//!
//! `jump` makes the list a skew-binary one (Myers 1983): it leads far enough back that any earlier node is
//! O(log n) steps away, at the price of one pointer.
struct conversation_node {
    conversation_node(message content, const conversation_node* before)
        : value(std::move(content)), previous(before)
    {
        bytes = value.bytes();
        tokens = value.estimated_tokens();
        largest = bytes;
        depth = value.depth();
        if (before == nullptr)
            return;
        length += before->length;
        bytes += before->bytes;
        tokens += before->tokens;
        largest = std::max(largest, before->largest);
        depth = std::max(depth, before->depth);
        const auto* far = before->jump;
        const bool same_stride = far != nullptr && before->length - far->length ==
                                                       far->length - (far->jump ? far->jump->length : 0);
        jump = same_stride ? far->jump : before;
    }

    conversation_node(const conversation_node&) = delete;
    conversation_node& operator=(const conversation_node&) = delete;

    ~conversation_node()
    {
        if (const auto* known = home.load(std::memory_order_relaxed))
            stored_prefix::release(known);
        for (auto* next = elsewhere.load(std::memory_order_relaxed); next != nullptr;) {
            stored_prefix::release(next->prefix);
            delete std::exchange(next, next->next);
        }
    }

    message value;
    const conversation_node* previous; // owned: holds one reference
    const conversation_node* jump = nullptr;
    mutable std::atomic<std::size_t> references = 1;
    mutable std::atomic<std::uint64_t> place = 0;             // where it is stored, see mark_stored
    mutable std::atomic<const stored_prefix*> home = nullptr; // see conversation_access; owns one reference
    mutable std::atomic<const prefix_cell*> elsewhere = nullptr;
    std::size_t length = 1;
    // Sums and maxima from the first message up to this one.
    std::size_t bytes;
    std::uint64_t tokens;
    std::size_t largest;
    std::size_t depth;
};

namespace {

const conversation_node* add_reference(const conversation_node* node) noexcept
{
    if (node != nullptr)
        node->references.fetch_add(1, std::memory_order_relaxed);
    return node;
}

//! A loop, because a million messages would be a recursion a million deep.
void drop_reference(const conversation_node* node) noexcept
{
    while (node != nullptr && node->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const auto* previous = node->previous;
        delete node;
        node = previous;
    }
}

//! The newest node for which `stop` holds, given that it holds for every node before such a one.
template <class Predicate>
const conversation_node* walk_back(const conversation_node* node, Predicate stop) noexcept
{
    while (node != nullptr && !stop(*node))
        node = node->jump != nullptr && !stop(*node->jump) ? node->jump : node->previous;
    return node;
}

const conversation_node* node_at(const conversation_node* tip, std::size_t index) noexcept
{
    return walk_back(tip, [index](const conversation_node& node) { return node.length <= index + 1; });
}

std::size_t length_of(const conversation_node* tip) noexcept
{
    return tip == nullptr ? 0 : tip->length;
}

} // namespace

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

// Accounting of what is stored. A place is the number of a store. Marks are closed towards the past: a marked
// message has only marked ones before it. Marking therefore stops at the first that is marked (O(new)), and
// the border is found by jumps (O(log n)). A message keeps its first mark, so that a conversation which goes
// to two stores counts in full for the second. The marks are for accounting only: they know nothing of agents
// and erasures, and no store relies on them.

std::size_t unstored_bytes(const conversation& chat, std::uint64_t place) noexcept
{
    const auto* tip = chat.tip_.get();
    if (tip == nullptr)
        return 0;
    const auto* stored = walk_back(tip, [place](const conversation_node& node) {
        return node.place.load(std::memory_order_relaxed) == place;
    });
    return tip->bytes - (stored == nullptr ? 0 : stored->bytes);
}

void mark_stored(const conversation& chat, std::uint64_t place) noexcept
{
    for (const auto* node = chat.tip_.get();
         node != nullptr && node->place.load(std::memory_order_relaxed) == 0; node = node->previous)
        node->place.store(place, std::memory_order_relaxed);
}

// Where messages are stored. A message that is loaded or saved first keeps the place in `home`; most live in
// one store and one agent. A conversation that goes to a second place (a fork, another store) leaves a cell
// at its newest message there. Both are only ever added, so that other threads may look while one adds.

namespace {

const stored_prefix* prefix_at(const conversation_node& node, const storage_place& place) noexcept
{
    const auto fits = [&](const stored_prefix* known) {
        return known != nullptr && known->place() == place && !known->is_void();
    };
    if (const auto* known = node.home.load(std::memory_order_acquire); fits(known))
        return known;
    for (const auto* next = node.elsewhere.load(std::memory_order_acquire); next != nullptr;
         next = next->next)
        if (fits(next->prefix))
            return next->prefix;
    return nullptr;
}

} // namespace

conversation_access::found conversation_access::find_stored(const conversation& chat,
                                                            const storage_place& place) noexcept
{
    for (const auto* node = chat.tip_.get(); node != nullptr; node = node->previous)
        if (const auto* known = prefix_at(*node, place))
            return {known, node->length};
    return {};
}

void conversation_access::remember(const conversation& chat, const stored_prefix& prefix, std::size_t first)
{
    const auto* tip = chat.tip_.get();
    bool remembered = tip == nullptr;
    for (const auto* node = tip; node != nullptr && node->length > first; node = node->previous) {
        const stored_prefix* expected = nullptr;
        if (!node->home.compare_exchange_strong(expected, &prefix, std::memory_order_release,
                                                std::memory_order_relaxed))
            continue;
        stored_prefix::add_reference(&prefix);
        remembered = remembered || node == tip;
    }
    if (remembered || prefix_at(*tip, prefix.place()) != nullptr)
        return;
    auto* cell = new prefix_cell{&prefix, tip->elsewhere.load(std::memory_order_relaxed)};
    stored_prefix::add_reference(&prefix);
    while (!tip->elsewhere.compare_exchange_weak(cell->next, cell, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
    }
}

std::vector<const message*> conversation_access::messages_from(const conversation& chat, std::size_t first)
{
    std::vector<const message*> result(chat.size() - std::min(first, chat.size()));
    const auto* node = chat.tip_.get();
    for (auto i = result.size(); i-- > 0; node = node->previous)
        result[i] = &node->value;
    return result;
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
        if (!first || message.role() != role::system)
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

conversation& conversation::with_extra(std::string_view key, json_input value) &
{
    if (key == "messages" || key == "max_tokens")
        throw error(errc::invalid_argument,
                    "'" + std::string(key) + "' is no extra member of a conversation");
    auto changed = std::make_shared<json::object>(extra());
    changed->insert_or_assign(key, std::move(value).take());
    extra_ = std::move(changed);
    return *this;
}

conversation&& conversation::with_extra(std::string_view key, json_input value) &&
{
    return std::move(with_extra(key, std::move(value)));
}

std::size_t conversation::size() const noexcept
{
    return length_of(tip_.get());
}

const message& conversation::operator[](std::size_t index) const noexcept
{
    assert(index < size());
    return node_at(tip_.get(), index)->value;
}

const message& conversation::back() const noexcept
{
    assert(!empty());
    return tip_.get()->value;
}

const json::object& conversation::extra() const noexcept
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

std::vector<message> conversation::window() const
{
    std::vector<message> chosen;
    if (empty())
        return chosen;

    const auto& first = (*this)[0];
    const bool has_prompt = first.role() == role::system;
    auto used = has_prompt ? first.estimated_tokens() : 0;

    std::vector<const message*> newest_first;
    const std::size_t oldest = has_prompt ? 2 : 1;
    for (const auto* node = tip_.get(); node != nullptr && node->length >= oldest; node = node->previous) {
        used += node->value.estimated_tokens();
        if (max_tokens_ != 0 && used > max_tokens_)
            break;
        newest_first.push_back(&node->value);
    }

    if (has_prompt)
        chosen.push_back(first);
    std::unordered_set<std::string_view> called;
    for (auto it = newest_first.rbegin(); it != newest_first.rend(); ++it) {
        const auto& candidate = **it;
        if (candidate.role() == role::tool && !called.contains(candidate.tool_call_id()))
            continue;
        for (const auto& call : candidate.tool_calls())
            called.insert(call.id());
        chosen.push_back(candidate);
    }
    return chosen;
}

namespace {

struct open_call {
    std::size_t caller; // the index of the assistant's message
    tool_call call;
};

std::vector<open_call> find_open_calls(const conversation& chat)
{
    std::vector<open_call> open;
    std::size_t index = 0;
    for (const auto& message : chat) {
        if (message.role() == role::tool) {
            // The newest call of that id: models count their calls anew in each turn.
            const auto answered = std::find_if(open.rbegin(), open.rend(), [&](const open_call& candidate) {
                return candidate.call.id() == message.tool_call_id();
            });
            if (answered != open.rend())
                open.erase(std::next(answered).base());
        }
        for (const auto& call : message.tool_calls())
            open.push_back({index, call});
        ++index;
    }
    return open;
}

} // namespace

std::vector<tool_call> conversation::unanswered_tool_calls() const
{
    std::vector<tool_call> calls;
    for (auto& open : find_open_calls(*this))
        calls.push_back(std::move(open.call));
    return calls;
}

std::size_t conversation::repair(const std::string& text)
{
    const auto open = find_open_calls(*this);
    if (open.empty())
        return 0;

    const auto original = *this;
    auto next = open.begin();
    // Answers belong behind the results that did arrive: the first message that is not one closes the group.
    const auto answer_calls_of = [&](std::size_t caller) {
        for (; next != open.end() && next->caller == caller; ++next)
            push(message::tool_result(next->call.id(), text));
    };
    truncate(open.front().caller + 1);
    auto caller = open.front().caller;
    auto it = original.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(caller + 1));
    for (auto index = caller + 1; it != original.end(); ++it, ++index) {
        if (it->role() != role::tool) {
            answer_calls_of(caller);
            caller = index;
        }
        push(*it);
    }
    answer_calls_of(caller);
    return open.size();
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
        left.extra() != right.extra())
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
    for (const auto& member : from.get_object())
        if (member.key() != "max_tokens" && member.key() != "messages")
            chat.with_extra(member.key(), member.value());
    return chat;
}

} // namespace waymark
