//! What the items of model APIs are made of. The only place that knows their shapes for reading;
//! docs/messages.md has them.
#pragma once

#include <waymark/message.hpp>

#include <boost/json/value.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace waymark::detail {

//! The parts of an item, an object. They refer to it, and own nothing yet.
std::vector<part> read_parts(const boost::json::value& item);

//! A member of an object that is text. Empty where there is none.
std::string_view text_in(const boost::json::value& value, std::string_view key) noexcept;

//! None if the item has no role.
std::optional<role> read_role(const boost::json::object& item);

//! An item in the shape of Chat Completions.
boost::json::object make_user_item(const std::vector<part>& parts);
boost::json::object make_call_item(std::string text, const std::vector<tool_call>& calls);
boost::json::object make_result_item(const tool_result& result);

struct part_access {
    //! Makes a part keep alive what it refers to.
    static void own(part& which, std::shared_ptr<const void> owner) { which.owner_ = std::move(owner); }

    static std::string_view id(const part& of) noexcept { return of.id_; }
    static std::string_view name(const part& of) noexcept { return of.name_; }
    //! The arguments of a call, the content of a result; null if there are none.
    static const boost::json::value* body(const part& of) noexcept { return of.body_; }
    //! Whether a result is one of Gemini's, whose content is any object.
    static bool is_of_gemini(const part& result) noexcept;
    //! Whether its arguments are no JSON, as a stream leaves them that breaks off, or the API says so.
    static bool is_cut_off(const part& call);
    //! What it counts towards `message::estimated_tokens`: bytes of text, and tokens besides. With a
    //! tokenizer the text is tokens, too.
    struct weight {
        std::size_t bytes = 0;
        std::size_t tokens = 0;
    };
    static weight weigh(const part& of, const text_counter* count = nullptr);

    static part make(part_kind kind, const boost::json::value& json)
    {
        part made;
        made.kind_ = kind;
        made.json_ = &json;
        return made;
    }
};

//! The parts of the content of a message or of a result: a string, a list of blocks, or one block.
std::vector<part> read_content(const boost::json::value& content);
//! What Gemini has beside the response of a function.
std::vector<part> read_media_of_response(const part& result);

} // namespace waymark::detail
