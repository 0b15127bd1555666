//! What the APIs of models accept, so that tests need no network to know whether a request would be refused.
//!
//! The rules are those that the APIs document and the refusals that their users report. They are strict:
//! where an API is lenient in ways that nobody has written down, the request counts as refused.
#pragma once

#include <boost/json/object.hpp>

#include <string>
#include <vector>

namespace model_api {

enum class api { chat_completions, responses, anthropic, gemini };

//! What the API would refuse in this request body, one sentence each; empty: it is accepted.
//!
//! Looks at `messages` (Chat Completions), `input` and `instructions` (Responses), `system` and `messages`
//! (Anthropic), `systemInstruction` and `contents` (Gemini), and at no other member.
std::vector<std::string> violations(api which, const boost::json::object& request);

} // namespace model_api
