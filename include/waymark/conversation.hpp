//! What was said so far: a value whose copies share their messages.
#pragma once

#include <waymark/message.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace waymark {

class conversation;

namespace detail {

struct conversation_node;
struct conversation_access; // for stores: see src/values/storage_memory.hpp

//! A counted reference to the newest message of a conversation. Each node refers to the one before it, so
//! that a copy is one counter, a push one node, and two branches share their past.
class conversation_tip {
public:
    conversation_tip() = default;
    //! Takes over one reference.
    explicit conversation_tip(const conversation_node* owned) noexcept : node_(owned) {}
    conversation_tip(const conversation_tip& other) noexcept;
    conversation_tip(conversation_tip&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    conversation_tip& operator=(conversation_tip other) noexcept;
    ~conversation_tip();

    const conversation_node* get() const noexcept { return node_; }
    const conversation_node* release() noexcept { return std::exchange(node_, nullptr); }

private:
    const conversation_node* node_ = nullptr;
};

} // namespace detail

//! How many tokens a message takes: `[](const message& said) { return said.estimated_tokens(my_tokenizer);
//! }`.
using token_counter = std::function<std::size_t(const message&)>;

//! What `conversation::repair` has done.
class repair_report {
public:
    repair_report() = default;
    repair_report(std::size_t answered, std::size_t moved, std::size_t dropped) noexcept
        : answered_(answered), moved_(moved), dropped_(dropped)
    {
    }

    //! Whether it changed anything.
    explicit operator bool() const noexcept { return answered_ + moved_ + dropped_ > 0; }
    //! Calls that were answered.
    std::size_t answered() const noexcept { return answered_; }
    //! Results that stand behind their call now.
    std::size_t moved() const noexcept { return moved_; }
    //! Results without a call, and what was cut off.
    std::size_t dropped() const noexcept { return dropped_; }

private:
    std::size_t answered_ = 0;
    std::size_t moved_ = 0;
    std::size_t dropped_ = 0;
};

//! Which messages a summary stands for: `count` of them, from the index `first`, in the conversation that
//! was compacted.
class compaction_range {
public:
    compaction_range(std::string summary_id, std::size_t first, std::size_t count, std::size_t stands_for)
        : summary_id_(std::move(summary_id)), first_(first), count_(count), stands_for_(stands_for)
    {
    }

    //! The id of the message that is the summary.
    const std::string& summary_id() const& noexcept { return summary_id_; }
    std::string summary_id() && { return std::move(summary_id_); }
    std::size_t first() const noexcept { return first_; }
    std::size_t count() const noexcept { return count_; }
    //! How many messages of the whole story that is: more than `count`, if an earlier summary is among them.
    std::size_t stands_for() const noexcept { return stands_for_; }

private:
    std::string summary_id_;
    std::size_t first_;
    std::size_t count_;
    std::size_t stands_for_;
};

//! A list of messages with a token budget.
//!
//! Copying costs neither time nor memory in proportion to the length, and pushing to one copy leaves the
//! others as they are: `auto snapshot = chat;` is how to keep a point in time. `push` is O(1), `operator[]`
//! and `truncate` are O(log n), iteration is linear.
//!
//! Thread safety: as for `std::vector` (distinct objects may be used concurrently, even when they share
//! messages).
class conversation {
public:
    //! Iterates from the oldest message to the newest. References stay valid while any conversation that
    //! contains the message exists.
    class const_iterator {
    public:
        using value_type = message;
        using difference_type = std::ptrdiff_t;
        using reference = const message&;
        using pointer = const message*;
        using iterator_category = std::forward_iterator_tag;

        const_iterator() = default;
        reference operator*() const noexcept;
        pointer operator->() const noexcept { return &**this; }
        const_iterator& operator++() noexcept;
        const_iterator operator++(int) noexcept;
        friend bool operator==(const const_iterator& a, const const_iterator& b) noexcept
        {
            return a.index_ == b.index_;
        }

    private:
        friend class conversation;
        const_iterator(const detail::conversation_node* tip, std::size_t index) noexcept;
        void fill_block() noexcept;

        // Nodes know only what is before them, so a block of them is looked up at a time.
        static constexpr std::size_t block_size = 32;
        const detail::conversation_node* tip_ = nullptr;
        std::size_t index_ = 0;
        std::array<const detail::conversation_node*, block_size> block_{};
    };
    using iterator = const_iterator;
    using value_type = message;
    using size_type = std::size_t;

    //! An empty conversation without a token budget.
    conversation() = default;
    //! An empty conversation whose `window()` holds at most that many (estimated) tokens; 0 is no budget.
    explicit conversation(std::uint64_t max_tokens) noexcept : max_tokens_(max_tokens) {}

    //! Puts a system message first, or replaces the one that is first. O(1) on an empty conversation, a
    //! rebuild of the list otherwise.
    conversation& with_system_prompt(std::string text) &;
    conversation&& with_system_prompt(std::string text) &&;
    conversation& with_max_tokens(std::uint64_t max_tokens) & noexcept;
    conversation&& with_max_tokens(std::uint64_t max_tokens) && noexcept;
    //! A member that is not modelled here; kept and written back.
    conversation& with_extra(std::string_view key, json_input value) &;
    conversation&& with_extra(std::string_view key, json_input value) &&;
    //! All of them at once, in place of those that are there.
    //! @throws waymark::error `invalid_argument` if one has the name of a member that is modelled here.
    conversation& with_extra(boost::json::object members) &;
    conversation&& with_extra(boost::json::object members) &&;

    void push(message next);
    //! Keeps the oldest `count` messages; does nothing if there are no more than that.
    void truncate(std::size_t count);
    void clear() noexcept { tip_ = {}; }

    std::size_t size() const noexcept;
    bool empty() const noexcept { return tip_.get() == nullptr; }
    //! @pre `index < size()`
    const message& operator[](std::size_t index) const& noexcept;
    message operator[](std::size_t index) && noexcept { return (*this)[index]; }
    //! The newest message. @pre not empty
    const message& back() const& noexcept;
    message back() && noexcept { return back(); }
    const_iterator begin() const noexcept { return {tip_.get(), 0}; }
    const_iterator end() const noexcept { return {nullptr, size()}; }

    std::uint64_t max_tokens() const noexcept { return max_tokens_; }
    const boost::json::object& extra() const& noexcept;
    boost::json::object extra() && { return extra(); }
    //! Of all messages together, O(1).
    std::uint64_t estimated_tokens() const noexcept;
    //! The payload of all messages together, O(1).
    std::size_t bytes() const noexcept;
    //! The largest payload and the deepest nesting of one message, O(1).
    std::size_t largest_message_bytes() const noexcept;
    std::size_t depth() const noexcept;

    //! With the tokenizer of your model: linear in the length.
    std::uint64_t estimated_tokens(const token_counter& count) const;

    //! What to send to a model: the system prompt, the summary if there is one (see `compacted`), then the
    //! newest messages that fit `max_tokens()`. A call stays together with its results, and reasoning with
    //! what it belongs to; results without a call are left out. The newest of these groups is there even if
    //! it takes more than the budget: `estimated_tokens()` of the window tells. Linear in the length.
    conversation window() const;
    conversation window(const token_counter& count) const;

    //! Calls that never got their result, oldest first, as a crash between call and result leaves them. Calls
    //! that a stream cut off in their middle are not among them: nobody can run them.
    std::vector<tool_call> unanswered_tool_calls() const;
    //! Makes a conversation that model APIs accept of one that a crash or a broken stream has left.
    //!
    //! Unanswered calls get the given text as their result, in the shape of the call and in the place where
    //! its API insists on it; results that came too late are moved there. Results without a call are dropped,
    //! and so is what a stream cut off in its middle: calls whose arguments are no JSON, reasoning without
    //! its signature or without what it belongs to, empty answers. Everything else stays as it is, verbatim.
    repair_report repair(
        const std::string& text = "interrupted: the result was lost, and the tool may or may not have run");

    //! The same conversation with a summary in place of its older messages: the system prompt, the summary
    //! (as a message of the user), and the newest `keep_last` messages, more where a call would be cut from
    //! its result. Remembers which messages the summary stands for: the checkpoint that was saved before
    //! keeps them, and `session::async_transcript` finds them there. Costs a save as much as the summary.
    //! Does nothing if there is nothing to leave out.
    conversation compacted(std::string summary, std::size_t keep_last) const;
    conversation compacted(message summary, std::size_t keep_last) const;
    //! What `compacted(…, keep_last)` leaves out: for the model that writes the summary.
    conversation compactable(std::size_t keep_last) const;
    //! What the summary stands for; none if the conversation was never compacted.
    std::optional<compaction_range> compaction() const;

    //! How many of the oldest messages the two share in memory (not: how many are equal), O(log n).
    std::size_t shared_prefix(const conversation& other) const noexcept;

    //! Equal budgets, messages and extra members, as for `message`. Shared messages are not looked at.
    friend bool operator==(const conversation& left, const conversation& right) noexcept;

private:
    friend struct detail::conversation_access;

    //! How many messages in front stay: the system prompt, and perhaps the summary.
    std::size_t prompt_size() const noexcept;
    std::size_t head_size() const;
    //! Where the newest messages begin that stay.
    std::size_t compaction_cut(std::size_t keep_last) const;

    detail::conversation_tip tip_;
    std::uint64_t max_tokens_ = 0;
    std::shared_ptr<const boost::json::object> extra_; // null: none
};

void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const conversation& from);
conversation tag_invoke(boost::json::value_to_tag<conversation>, const boost::json::value& from);

} // namespace waymark
