//! Conversations as model APIs want them, and what they answer.
//!
//! @code
//! auto request = waymark::wire::anthropic(chat);
//! request.body()["model"] = "claude-…";
//! auto answer = co_await post("/v1/messages", request.body());
//! waymark::wire::append_anthropic(chat, answer);
//! @endcode
//!
//! docs/messages.md is the guide.
#pragma once

#include <waymark/conversation.hpp>

#include <boost/json/object.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark::wire {

//! The APIs that are known.
enum class api { chat_completions, responses, anthropic, gemini };

//! "chat_completions", "responses", "anthropic", "gemini".
std::string_view to_string(api which) noexcept;

//! Something that could not be carried over to another API.
class omission {
public:
    omission(std::size_t message, std::string message_id, std::string what)
        : message_(message), message_id_(std::move(message_id)), what_(std::move(what))
    {
    }

    //! The index of its message in the conversation that was given, which may be a window.
    std::size_t message() const noexcept { return message_; }
    //! The id of its message, the same in every window.
    const std::string& message_id() const& noexcept { return message_id_; }
    std::string message_id() && { return std::move(message_id_); }
    //! "the reasoning, which only the API that made it can read", …
    const std::string& what() const& noexcept { return what_; }
    std::string what() && { return std::move(what_); }

private:
    std::size_t message_;
    std::string message_id_;
    std::string what_;
};

//! The part of a request that is the conversation. Model, tools and settings are the caller's to add.
class request {
public:
    request(boost::json::object body, std::vector<omission> left_out)
        : body_(std::move(body)), left_out_(std::move(left_out))
    {
    }

    boost::json::object& body() & noexcept { return body_; }
    const boost::json::object& body() const& noexcept { return body_; }
    boost::json::object body() && { return std::move(body_); }
    //! What is not in it, in the order of the conversation.
    const std::vector<omission>& left_out() const& noexcept { return left_out_; }
    std::vector<omission> left_out() && { return std::move(left_out_); }

private:
    boost::json::object body_;
    std::vector<omission> left_out_;
};

// Items of the API are sent verbatim, but for what it gives and does not take back: members around an answer
// of Anthropic's, the status of reasoning, blank texts, arguments that are no JSON. Others are converted from
// their parts, so that a conversation can go on with another model. What cannot be carried over is left out
// and listed: reasoning that another API has signed, an API's own tools, media that the API does not take.
// Ids of calls that the API would refuse are replaced, the same in call and result.
//
// Anthropic and Gemini want a user to begin. Where none does, as in a window, a message says that earlier
// ones are left out.
//
// `repair()` a conversation that was resumed first: these functions send what they are given. To keep within
// the model's context, give them `chat.window()`.

//! {"messages": […]}
request chat_completions(const conversation& chat);
//! {"input": […]}
request responses(const conversation& chat);
//! {"system": …, "messages": […]}: the API wants system messages apart.
request anthropic(const conversation& chat);
//! {"systemInstruction": …, "contents": […]}
request gemini(const conversation& chat);
//! One of these.
request make_request(api which, const conversation& chat);

//! How an answer ended.
enum class ending {
    finished, //!< the model has said what it wanted
    calls,    //!< it wants tools to be run: `conversation::unanswered_tool_calls`
    paused,   //!< it wants to be asked again, with the conversation as it is now (Anthropic's "pause_turn")
    refused,  //!< it will not answer, or a filter has stopped it
    cut_off,  //!< it ran into a limit, failed on the way, or the stream broke off: `conversation::repair`
              //!< removes what cannot be sent back
};

//! What was appended.
class answer {
public:
    answer(std::size_t messages, std::string stop_reason, wire::ending how)
        : messages_(messages), stop_reason_(std::move(stop_reason)), ending_(how)
    {
    }

    //! How many messages the conversation has more; none, if the model has said nothing.
    std::size_t messages() const noexcept { return messages_; }
    //! In the words of the API: "stop", "tool_calls", "end_turn", "MAX_TOKENS", …; empty if it gave none.
    const std::string& stop_reason() const& noexcept { return stop_reason_; }
    std::string stop_reason() && { return std::move(stop_reason_); }
    wire::ending ending() const noexcept { return ending_; }

private:
    std::size_t messages_;
    std::string stop_reason_;
    wire::ending ending_;
};

// Take the API's whole answer, parsed; what it said becomes messages, verbatim. With several choices or
// candidates, the first one.
// @throws waymark::error `api_busy` or `api_refused` if it is an error of the API, whose text is in the
// message; `invalid_argument` if it is no answer of this API. Nothing is appended then.

answer append_chat_completions(conversation& chat, const boost::json::object& response);
answer append_responses(conversation& chat, const boost::json::object& response);
answer append_anthropic(conversation& chat, const boost::json::object& response);
answer append_gemini(conversation& chat, const boost::json::object& response);
//! One of these.
answer append(api which, conversation& chat, const boost::json::object& response);

//! Puts the deltas of a streamed answer together.
//!
//! @code
//! waymark::wire::accumulator answer(waymark::wire::api::anthropic);
//! while (auto bytes = co_await read_some())
//!     std::cout << answer.feed(*bytes) << std::flush; // the text, as it comes
//! waymark::wire::append_anthropic(chat, answer.response());
//! @endcode
class accumulator {
public:
    explicit accumulator(api which);
    accumulator(accumulator&&) noexcept;
    accumulator& operator=(accumulator&&) noexcept;
    ~accumulator();

    //! The next event, parsed. Returns the text of the answer that it brings, without reasoning, for those
    //! who show it as it comes.
    //! @throws waymark::error `api_busy` or `api_refused` if it is an error of the API, `invalid_argument` if
    //! it is no event of it. What was added before is kept.
    std::string add(const boost::json::object& event);
    //! The next bytes of the body, as server-sent events; they may be cut anywhere. Returns the text, as
    //! `add`.
    //! Gemini sends them if it is asked with "?alt=sse".
    //! @throws waymark::error as `add`, and for what is no JSON, or no server-sent events. What came before
    //! that event is kept.
    std::string feed(std::string_view bytes);

    //! Whether the API has said that this was all.
    bool is_complete() const noexcept;
    //! What the API would have answered without streaming, as far as it came. A call that is not complete has
    //! its arguments as the string that came.
    boost::json::object response() const;

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace waymark::wire
