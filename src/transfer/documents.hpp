//! A whole export as one JSON document, as text and as values.
#pragma once

#include "entry.hpp"

#include <waymark/limits.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::transfer {

class document_writer {
public:
    void add(const checkpoint& value, bool pinned);
    void add(const step& value);
    std::string take_text() &&;

private:
    std::string checkpoints_; // members of the arrays, as text
    std::string pins_;
    std::string steps_;
};

//! Reads what `document_writer` wrote, or an export of Breakpilot, whose checkpoints become `agent_id`'s.
//! @throws waymark::error `invalid_argument` or `unsupported_format` that names the entry.
std::vector<entry> read_document(std::string_view text, const std::optional<std::string>& agent_id,
                                 const limits& bounds);

} // namespace waymark::transfer
