//! One entry of a conversation.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace waymark {

namespace detail {
struct message_access; // for stores: see src/values/storage_memory.hpp
}

//! Points in time: UTC, microseconds; RFC 3339 in JSON ("2026-03-01T09:30:00.000250Z").
using timestamp = std::chrono::sys_time<std::chrono::microseconds>;

//! The present, from the system's clock.
timestamp now() noexcept;

//! A JSON value as an argument: whatever `boost::json::value` is made of, and the strings of the standard
//! library, which it does not take.
class json_input : public boost::json::value {
public:
    using boost::json::value::value;
    json_input(boost::json::value other) : boost::json::value(std::move(other)) {}
    json_input(std::string_view text) : boost::json::value(boost::json::string_view(text)) {}
    json_input(const std::string& text) : json_input(std::string_view(text)) {}

    //! The value, in the default memory resource.
    boost::json::value take() &&
    {
        auto& base = static_cast<boost::json::value&>(*this);
        return boost::json::value(std::move(base), boost::json::storage_ptr());
    }
};

//! Who speaks. `other` is a role that this version does not know; its text is in `message::extra()`.
enum class role { system, user, assistant, tool, other };

//! An assistant's request to run a tool. Immutable after construction, but for `with_extra`.
class tool_call {
public:
    //! @throws waymark::error `invalid_argument`: invalid UTF-8, NaN, an infinity.
    tool_call(std::string id, std::string name, json_input arguments = boost::json::object{});

    const std::string& id() const& noexcept { return id_; }
    std::string id() && { return std::move(id_); }
    const std::string& name() const& noexcept { return name_; }
    std::string name() && { return std::move(name_); }
    //! Any JSON: most APIs give an object, some a string that holds JSON.
    const boost::json::value& arguments() const& noexcept { return arguments_; }
    boost::json::value arguments() && { return std::move(arguments_); }
    //! Members that are not modelled here, kept and written back.
    const boost::json::object& extra() const& noexcept { return extra_; }
    boost::json::object extra() && { return std::move(extra_); }

    tool_call& with_extra(std::string_view key, json_input value) &;
    tool_call&& with_extra(std::string_view key, json_input value) &&;

    //! Equal content: the same JSON, see `message`.
    friend bool operator==(const tool_call& left, const tool_call& right) noexcept;

private:
    std::string id_;
    std::string name_;
    boost::json::value arguments_;
    boost::json::object extra_;
};

//! One message. What it holds is immutable and shared by its copies, so that copying is cheap; `with_*`
//! make this object another message and leave its copies alone.
//!
//! A message is valid from the beginning: constructors refuse invalid UTF-8, NaN and infinities with
//! `errc::invalid_argument` (thrown), so that no save can fail for them later.
class message {
public:
    static message system(std::string text);
    static message user(std::string text);
    static message assistant(std::string text);
    static message assistant(std::string text, std::vector<tool_call> tool_calls);
    static message tool_result(std::string tool_call_id, std::string text);

    //! A random UUID unless given.
    const std::string& id() const& noexcept;
    std::string id() && { return id(); }
    waymark::role role() const noexcept;
    const std::string& content() const& noexcept;
    std::string content() && { return content(); }
    const std::vector<tool_call>& tool_calls() const& noexcept;
    std::vector<tool_call> tool_calls() && { return tool_calls(); }
    //! The call that a tool result answers; empty for other messages.
    const std::string& tool_call_id() const& noexcept;
    std::string tool_call_id() && { return tool_call_id(); }
    waymark::timestamp timestamp() const noexcept;

    //! Members that are not modelled here, kept and written back. A modelled member that was read in another
    //! shape is kept here too, and wins when writing: `content` as a list of parts (`content()` is their
    //! text), OpenAI's form of tool calls (`tool_calls()` has them), a role of tomorrow.
    const boost::json::object& extra() const& noexcept;
    boost::json::object extra() && { return extra(); }

    message& with_id(std::string id) &;
    message&& with_id(std::string id) &&;
    message& with_timestamp(waymark::timestamp time) &;
    message&& with_timestamp(waymark::timestamp time) &&;
    //! @throws waymark::error `invalid_argument` for the name of a modelled member.
    message& with_extra(std::string_view key, json_input value) &;
    message&& with_extra(std::string_view key, json_input value) &&;

    //! The payload that counts towards `limits` and the bounds of a queue.
    std::size_t bytes() const noexcept;
    //! How deep its JSON parts nest.
    std::size_t depth() const noexcept;
    //! A rough number of model tokens: a quarter of the text's bytes and a few for the frame.
    std::size_t estimated_tokens() const noexcept;

    //! Equal content: the JSON of both (`boost::json::value_from`) is the same, byte by byte. So the order of
    //! members counts, 0.0 is not -0.0 and 1 is not 1.0; but an integer is the same as `std::int64_t` and as
    //! `std::uint64_t`. That is how all values of the library compare, and how a store tells whether a save
    //! changes anything. Copies compare in constant time.
    friend bool operator==(const message& left, const message& right) noexcept;

private:
    friend struct detail::message_access;
    struct data;
    explicit message(std::shared_ptr<const data> shared) noexcept : data_(std::move(shared)) {}
    static data fresh(waymark::role who, std::string text);
    static message make(data fields);
    message& amend(data fields);

    friend void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const message& from);
    friend message tag_invoke(boost::json::value_to_tag<message>, const boost::json::value& from);

    std::shared_ptr<const data> data_;
};

//! JSON both ways: `boost::json::value_from(call)`, `boost::json::value_to<tool_call>(value)`.
//! Bad input throws waymark::error with `errc::invalid_argument` and names the member.
void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const tool_call& from);
tool_call tag_invoke(boost::json::value_to_tag<tool_call>, const boost::json::value& from);
void tag_invoke(boost::json::value_from_tag, boost::json::value& to, const message& from);
message tag_invoke(boost::json::value_to_tag<message>, const boost::json::value& from);

} // namespace waymark
