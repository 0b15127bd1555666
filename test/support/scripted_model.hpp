//! A model that books nights, in the words of each API. It remembers nothing: what it says follows from the
//! request.
//!
//! The task is a user's text with a number, such as "Book 5 nights". In each turn the model reasons, and
//! calls the tool `book_night` with {"night": k}: with the first night, then with the second and the third at
//! once, then with one after the other. When it has a result for each it says so.
#pragma once

#include "model_api_rules.hpp"

#include <boost/json/object.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace model_api {

//! What the model does next, whatever the API.
struct turn {
    std::string id;                  // of this turn; in hexadecimal
    std::string thought;             // never empty
    std::vector<std::size_t> nights; // to book; none: the answer is a text
    std::string text;
};

//! @throws std::exception if the request is not one of this API. Ask `violations` first.
turn next_turn(api which, const boost::json::object& request);

//! "book_night 2, 3", or the text.
std::string describe(const turn& said);

//! The whole answer.
boost::json::object response(api which, const turn& said, const std::string& model);

//! The same, streamed: the type of each server-sent event, empty where the API has none, and its data.
using events = std::vector<std::pair<std::string, boost::json::object>>;
events stream(api which, const turn& said, const std::string& model);

//! What is wrong with the model's own reasoning in a request. It is sealed: it has to come back byte for
//! byte, and with the calls that it led to. A server that refuses says the first of them.
//! @param strict whether Gemini insists on a signature at calls, as it does from version 3 on
std::vector<std::string> broken_seals(api which, const boost::json::object& request, bool strict);

} // namespace model_api
