//! What is wrong with what an API sent.
#pragma once

#include <waymark/wire.hpp>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <string>
#include <string_view>

namespace waymark::wire {

//! As it stands in sentences: "the Responses API".
std::string_view title(api which) noexcept;

//! Throws what the API reports as its error: an object with code, type and text, or a text.
[[noreturn]] void throw_api_error(api which, const boost::json::value& error);

//! Throws if the object has an error that is not null.
void check_no_error(api which, const boost::json::object& sent);

//! "this is no answer of …: 'choices' is missing; …"
[[noreturn]] void throw_no_answer(api which, std::string_view complaint);
[[noreturn]] void throw_no_event(api which, std::string_view complaint);
//! Instead of a stream came something else: an error of the API, if that is what it is.
[[noreturn]] void throw_no_stream(api which, std::string_view body);

} // namespace waymark::wire
