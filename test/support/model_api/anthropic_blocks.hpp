//! The blocks of messages of Anthropic, each looked at alone.
#pragma once

#include "shapes.hpp"

namespace model_api::rules::anthropic {

void check_block(findings& found, std::string_view where, const json::object& block);

} // namespace model_api::rules::anthropic
