//! Conversations that a program has in memory: they go on, back and apart, and nobody forgets them when the
//! store does.
#pragma once

#include <waymark/checkpoint.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace waymark::faults {

class conversation_pool {
public:
    explicit conversation_pool(std::mt19937_64& random) : random_(random), all_(size) {}

    const conversation& any() { return all_[below(size)]; }
    const std::vector<conversation>& all() const noexcept { return all_; }

    //! Takes it up in place of another one.
    void take(conversation loaded) { all_[below(size)] = std::move(loaded); }

    //! One that nobody has seen before.
    conversation fresh(std::size_t length)
    {
        conversation made;
        for (; length > 0; --length)
            made.push(next());
        return made;
    }

    //! Changes one of them, in one of the ways that programs do it.
    void change()
    {
        auto& chat = all_[below(size)];
        switch (below(12)) {
        case 0:
            chat.truncate(below(chat.size() + 1));
            break;
        case 1: // a branch, which goes on by itself
            take(chat);
            break;
        case 2: // the last message again, with other words
            chat.truncate(chat.size() - std::min<std::size_t>(chat.size(), 1));
            chat.push(next());
            break;
        case 3: // a window: the first message and the last ones
            chat = joined({part(chat, 0, 1), part(chat, chat.size() - below(chat.size() + 1), chat.size())});
            break;
        case 4: // a summary instead of all but the last ones
            chat = joined({{message(next())}, part(chat, below(chat.size() + 1), chat.size())});
            break;
        case 5: { // one more in the middle
            const auto middle = below(chat.size() + 1);
            chat = joined({part(chat, 0, middle), {message(next())}, part(chat, middle, chat.size())});
            break;
        }
        case 6: { // one less in the middle
            const auto middle = below(chat.size() + 1);
            chat = joined({part(chat, 0, middle), part(chat, middle + 1, chat.size())});
            break;
        }
        case 7:
            chat = fresh(1 + below(4));
            break;
        default:
            for (auto more = 1 + below(3); more > 0; --more)
                chat.push(next());
        }
        if (chat.size() > longest)
            chat.truncate(below(longest));
    }

private:
    static constexpr std::size_t size = 5;
    static constexpr std::size_t longest = 24;
    using messages = std::vector<message>;

    std::size_t below(std::size_t bound) { return random_() % bound; }

    message next()
    {
        const auto number = std::to_string(++made_);
        return message::user("message " + number + std::string(below(40), '.'))
            .with_id(number)
            .with_timestamp(timestamp(std::chrono::hours(400'000)));
    }

    static messages part(const conversation& chat, std::size_t first, std::size_t end)
    {
        messages result;
        for (auto i = first; i < std::min(end, chat.size()); ++i)
            result.push_back(chat[i]);
        return result;
    }

    static conversation joined(const std::vector<messages>& parts)
    {
        conversation result;
        for (const auto& each : parts)
            for (const auto& next : each)
                result.push(next);
        return result;
    }

    std::mt19937_64& random_;
    std::vector<conversation> all_;
    std::uint64_t made_ = 0;
};

} // namespace waymark::faults
