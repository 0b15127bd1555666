//! What belongs together in a conversation: calls and their results, reasoning and what it led to.
#pragma once

#include "tool_pairing.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace waymark::detail {

//! A system prompt, by either of its names.
bool is_prompt(const message& value) noexcept;
//! Of the Responses API: an entry that the model made. Those of one answer stand behind each other, and the
//! API wants them together.
bool is_output_item(const message& value);
//! The id of a tool that the API runs by itself, if the part is its use, or its result: Anthropic's, which
//! may come in different messages. Else empty.
std::string_view id_of_use(const part& from) noexcept;
std::string_view id_of_used(const part& from) noexcept;
//! In which message each of these has its last result, by its id.
std::unordered_map<std::string_view, std::size_t> last_results_of_uses(const std::vector<const message*>& in);
//! Whether it says nothing but reasoning.
bool is_reasoning_only(const message& value);

//! The message without some of its parts, which are entries of its content; nothing if nothing is left.
std::optional<message> without_parts(const message& from, std::span<const std::size_t> parts);

//! Where a conversation can be cut.
class turns {
public:
    explicit turns(const conversation& chat);

    //! Whether what comes before the message can be left out.
    bool begins_at(std::size_t index) const { return begins_[index]; }
    //! Results without a call, in order.
    const std::vector<tool_pairing::result>& orphans() const noexcept { return orphans_; }
    //! The message without those; nothing if nothing is left.
    std::optional<message> without_orphans(std::size_t index, const message& value) const;

private:
    std::vector<bool> begins_;
    std::vector<tool_pairing::result> orphans_;
};

} // namespace waymark::detail
