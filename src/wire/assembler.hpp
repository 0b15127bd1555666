//! One for each API: puts the events of a stream together.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace waymark::wire {

class assembler {
public:
    virtual ~assembler() = default;

    //! An event that is no error. Returns the text of the answer that it brings.
    //! @throws waymark::error `invalid_argument` if it is none of the API's.
    virtual std::string add(const boost::json::object& event) = 0;
    virtual bool is_complete() const noexcept = 0;
    virtual boost::json::object response() const = 0;
};

std::unique_ptr<assembler> assemble_chat_completions();
std::unique_ptr<assembler> assemble_responses();
std::unique_ptr<assembler> assemble_anthropic();
std::unique_ptr<assembler> assemble_gemini();

//! Appends to a member that is text, or makes it that text.
void append_text(boost::json::object& to, std::string_view member, std::string_view text);

//! A number by which an event says what it belongs to; `fallback` if there is none.
std::int64_t index_at(const boost::json::object& event, std::string_view member,
                      std::int64_t fallback) noexcept;

} // namespace waymark::wire
