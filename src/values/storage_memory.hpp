//! What messages and conversations remember for stores: a message its digest, a conversation where its
//! messages are stored. Only memory: nothing here decides what is equal, and losing it costs time, not data.
#pragma once

#include <waymark/conversation.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::detail {

using digest = std::array<unsigned char, 32>;

//! A digest that is computed by whoever needs it first.
class digest_memory {
public:
    digest_memory() = default;
    digest_memory(const digest_memory&) = delete;
    digest_memory& operator=(const digest_memory&) = delete;

    std::optional<digest> get() const noexcept
    {
        return state_.load(std::memory_order_acquire) == known ? std::optional(value_) : std::nullopt;
    }
    //! Does nothing if someone else is about to set it.
    void set(const digest& value) const noexcept
    {
        auto expected = unknown;
        if (!state_.compare_exchange_strong(expected, being_set, std::memory_order_relaxed))
            return;
        value_ = value;
        state_.store(known, std::memory_order_release);
    }

private:
    static constexpr int unknown = 0, being_set = 1, known = 2;
    mutable std::atomic<int> state_ = unknown;
    mutable digest value_{};
};

//! An agent in a store object. Another object on the same database is another place: two copies of one file
//! would count on differently.
struct storage_place {
    std::uint64_t store = 0;
    std::int64_t agent = 0;

    friend bool operator==(const storage_place&, const storage_place&) = default;
};

//! How the oldest messages of a conversation are stored in a place. The storage layer derives from it.
class stored_prefix {
public:
    //! With a transaction, which is not committed yet: until it is, only that one may rely on the prefix.
    explicit stored_prefix(storage_place place, const void* transaction = nullptr) noexcept
        : place_(place), transaction_(transaction)
    {
    }
    stored_prefix(const stored_prefix&) = delete;
    stored_prefix& operator=(const stored_prefix&) = delete;

    const storage_place& place() const noexcept { return place_; }
    //! The transaction that stored it was undone.
    bool is_void() const noexcept { return void_.load(std::memory_order_relaxed); }
    void make_void() const noexcept { void_.store(true, std::memory_order_relaxed); }
    //! The transaction that stored it was committed.
    void confirm() const noexcept { transaction_.store(nullptr, std::memory_order_release); }
    bool is_known_to(const void* transaction) const noexcept
    {
        const auto* const owner = transaction_.load(std::memory_order_acquire);
        return !is_void() && (owner == nullptr || owner == transaction);
    }

    static void add_reference(const stored_prefix* prefix, std::size_t count = 1) noexcept
    {
        prefix->references_.fetch_add(count, std::memory_order_relaxed);
    }
    //! In a loop: those that go on from each other may be many.
    static void release(const stored_prefix* prefix) noexcept
    {
        while (prefix != nullptr && prefix->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            const auto* const base = prefix->base_;
            delete prefix;
            prefix = base;
        }
    }

protected:
    virtual ~stored_prefix() = default;

    const stored_prefix* base() const noexcept { return base_; }
    //! The one that it goes on from, which lives as long. @pre it has none yet
    void go_on_from(const stored_prefix& base) noexcept
    {
        add_reference(&base);
        base_ = &base;
    }

private:
    const stored_prefix* base_ = nullptr; // owns one reference
    storage_place place_;
    mutable std::atomic<const void*> transaction_;
    mutable std::atomic<bool> void_ = false;
    mutable std::atomic<std::size_t> references_ = 1;
};

//! Where a message is stored that others refer to as well: a message that is kept when the conversation
//! around it is compacted takes its place along. The first place stays.
class place_memory {
public:
    struct found {
        const stored_prefix* prefix = nullptr; // lives as long as the message
        std::size_t position = 0;              // in that
    };

    place_memory() = default;
    place_memory(const place_memory&) = delete;
    place_memory& operator=(const place_memory&) = delete;
    ~place_memory()
    {
        if (const auto* known = get().prefix)
            stored_prefix::release(known);
    }

    found get() const noexcept
    {
        const auto* const known = prefix_.load(std::memory_order_acquire);
        return known == nullptr || known == being_set() ? found() : found{known, position_};
    }
    //! Returns whether it was the first; the caller adds a reference to the prefix then, while it has one.
    bool set(const stored_prefix& prefix, std::size_t position) const noexcept
    {
        const stored_prefix* expected = nullptr;
        if (prefix_.load(std::memory_order_relaxed) != nullptr ||
            !prefix_.compare_exchange_strong(expected, being_set(), std::memory_order_relaxed))
            return false;
        position_ = position;
        prefix_.store(&prefix, std::memory_order_release);
        return true;
    }

private:
    //! An address that no prefix has.
    const stored_prefix* being_set() const noexcept { return reinterpret_cast<const stored_prefix*>(this); }

    mutable std::atomic<const stored_prefix*> prefix_ = nullptr; // owns one reference
    mutable std::size_t position_ = 0;
};

struct conversation_access {
    struct found {
        const stored_prefix* prefix = nullptr; // lives as long as the conversation
        std::size_t length = 0;                // how many of the oldest messages it knows
    };
    //! The longest part that is stored in the place, as far as the conversation remembers and the transaction
    //! may know. Looks at the messages behind it only.
    static found find_stored(const conversation& chat, const storage_place& place,
                             const void* transaction = nullptr) noexcept;
    //! Remembers, with the messages behind the oldest `first`, that the conversation is stored. Those whose
    //! digest is known remember it themselves, too.
    static void remember(const conversation& chat, const stored_prefix& prefix, std::size_t first);
    //! For the accounting of queues: the payload of the messages that the store does not hold yet, as far as
    //! the conversation remembers. O(log n), and O(1) for one that goes on from what is stored.
    static std::size_t unstored_bytes(const conversation& chat, std::uint64_t store) noexcept;
    //! Remembers that it is stored, where the store itself has not done so.
    static void mark_stored(const conversation& chat, const stored_prefix& mark) noexcept;
    //! The messages of `chat` with the other members of `frame`.
    static conversation framed(const conversation& chat, const conversation& frame);
    //! The messages behind the oldest `first`.
    static std::vector<const message*> messages_from(const conversation& chat, std::size_t first);
};

struct message_access {
    //! Of the text that stores keep for it.
    static const digest_memory& digest_of(const message& value) noexcept;
    static const place_memory& place_of(const message& value) noexcept;
    //! The text of `boost::json::value_from(value)`, without making that value.
    static std::string to_json(const message& value);
    //! The message of `boost::json::value_to<message>(…)`, in most cases without making that value.
    //! `is_current` is told whether `to_json` would give the same text again: not that of an earlier version.
    //! @throws waymark::error `invalid_argument`, which names `what`.
    static message from_json(std::string_view text, std::size_t max_depth, std::string_view what,
                             bool* is_current = nullptr);

    static message make(std::string id, timestamp time, boost::json::value item);
    static message from_earlier_form(const boost::json::object& members);

    //! Whether it is held as text, see message_data.hpp; if so, whether it answers a call, and what it holds.
    static bool is_plain(const message& value) noexcept;
    static bool is_plain_result(const message& value) noexcept;
    static std::string_view plain_text(const message& value) noexcept;
    static std::string_view plain_call_id(const message& value) noexcept;
    //! A copy of the item. `message::item` of a plain message would keep one, which doubles what it takes.
    static boost::json::object item_of(const message& value);
    //! The parts of one that is not, which own nothing.
    static const std::vector<part>& parts_of_item(const message& value) noexcept;
};

} // namespace waymark::detail
