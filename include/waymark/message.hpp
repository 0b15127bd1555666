//! One entry of a conversation.
#pragma once

#include <waymark/part.hpp>

#include <chrono>
#include <functional>
#include <optional>

namespace waymark {

namespace detail {
struct message_access; // for stores: see src/values/storage_memory.hpp
}

//! Points in time: UTC, microseconds; RFC 3339 in JSON ("2026-03-01T09:30:00.000250Z").
using timestamp = std::chrono::sys_time<std::chrono::microseconds>;

//! The present, from the system's clock.
timestamp now() noexcept;

//! Who speaks: `model` is what Gemini calls an assistant. `other` is a role that this version does not know;
//! `message::item()` has its name.
enum class role { system, developer, user, assistant, model, tool, other };

//! "system", …, "other".
std::string_view to_string(role which) noexcept;
//! RFC 3339: "2026-03-01T09:30:00.000250Z".
//! @throws waymark::error `invalid_argument` if it lies outside of the years 0000 to 9999.
std::string to_string(timestamp time);

//! How many tokens a text takes, by the tokenizer of your model.
using text_counter = std::function<std::size_t(std::string_view)>;

//! One message: an item of a conversation as a model API has it, and beside it an id and a time of ours.
//!
//! **The item is kept verbatim**, whatever its shape: signatures and encrypted reasoning, members that nobody
//! has heard of, their order. `item()` gives it back as it came, through every store. What the library
//! understands of it are views, the same for every shape: OpenAI's Chat Completions and Responses,
//! Anthropic's Messages, Gemini's contents, MCP's content.
//!
//! What a message holds is immutable and shared by its copies, so that copying is cheap; `with_*` make this
//! object another message and leave its copies alone. A message is valid from the beginning: constructors
//! refuse invalid UTF-8, NaN and infinities with `errc::invalid_argument` (thrown), so that no save can fail
//! for them later.
class message {
public:
    static message system(std::string text);
    static message user(std::string text);
    //! Text and media. @throws waymark::error `invalid_argument` if a part is anything else.
    static message user(const std::vector<part>& parts);
    static message assistant(std::string text);
    static message assistant(std::string text, const std::vector<tool_call>& tool_calls);
    static message tool_result(std::string tool_call_id, std::string text);
    //! Also for calls without an id, as Gemini may make.
    static message tool_result(const tool_call& answered, std::string text);
    //! With images, or with an error: `tool_result(waymark::tool_result(call, "no such file").with_error())`.
    static message tool_result(const waymark::tool_result& result);
    //! What an API sent: any object, and nothing is added to it. It becomes a message with a new id and the
    //! present time.
    static message from(boost::json::object item);

    //! The item. Of a message that was made by hand: in the shape of Chat Completions.
    const boost::json::object& item() const&;
    boost::json::object item() && { return item(); }
    //! The library's own name of the message: a random UUID unless given. An id that the API gave is in the
    //! item.
    const std::string& id() const& noexcept;
    std::string id() && { return id(); }
    waymark::timestamp timestamp() const noexcept;

    //! None for items that have none, such as the calls of the Responses API.
    std::optional<waymark::role> role() const noexcept;
    //! What the item is made of, in its order.
    std::vector<part> parts() const;
    //! The text of its parts, joined, without reasoning. Of a message with results only: theirs.
    std::string text() const;
    //! What the model wants to be run. Tools that the API runs by itself are not among them.
    std::vector<tool_call> tool_calls() const;
    std::vector<waymark::tool_result> tool_results() const;

    message& with_id(std::string id) &;
    message&& with_id(std::string id) &&;
    message& with_timestamp(waymark::timestamp time) &;
    message&& with_timestamp(waymark::timestamp time) &&;
    //! Another item, with the same id and time.
    message& with_item(boost::json::object item) &;
    message&& with_item(boost::json::object item) &&;

    //! The payload that counts towards `limits` and the bounds of a queue.
    std::size_t bytes() const noexcept;
    //! How deep its JSON nests.
    std::size_t depth() const noexcept;
    //! A rough number of model tokens: a quarter of the bytes of text, reasoning, calls, results and whatever
    //! else is in it; 1,600 for an image, and for other media one for each 32 bytes, at least 1,600; and four
    //! for the frame. Signatures and encrypted reasoning count nothing. docs/messages.md says why.
    std::size_t estimated_tokens() const noexcept;
    //! The same with the tokenizer of your model for all that is text; calls and results count as the JSON
    //! that they are.
    std::size_t estimated_tokens(const text_counter& count) const;

    //! Equal content: the JSON of both (`boost::json::value_from`) is the same, byte by byte. So the order of
    //! members counts, 0.0 is not -0.0 and 1 is not 1.0; but an integer is the same as `std::int64_t` and as
    //! `std::uint64_t`. That is how all values of the library compare, and how a store tells whether a save
    //! changes anything. Copies compare in constant time.
    friend bool operator==(const message& left, const message& right) noexcept;

private:
    friend struct detail::message_access;
    struct data;
    explicit message(std::shared_ptr<const data> shared) noexcept : data_(std::move(shared)) {}

    std::shared_ptr<const data> data_;
};

//! JSON both ways: {"id": …, "timestamp": …, "item": {…}}, `boost::json::value_from(message)` and
//! `boost::json::value_to<message>(value)`. Also reads the form of earlier versions, in which id and
//! timestamp stood among the members of the item. Bad input throws waymark::error with
//! `errc::invalid_argument` and names the member.
void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const message& from);
message tag_invoke(boost::json::value_to_tag<message>, const boost::json::value& from);

} // namespace waymark
