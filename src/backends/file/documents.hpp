//! What stands in the files: checkpoints, steps, and the record of an agent, as JSON that people can read.
#pragma once

#include <waymark/step.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace waymark::file {

// Each document ends with a member "checksum": the SHA-256 of the rest without white space. A document
// without one was written by someone else and is read all the same.

std::string write_checkpoint(const checkpoint& value, const limits& bounds);
//! @throws waymark::error `corrupt` if it is damaged, `unsupported_format` if it is of a newer version.
checkpoint read_checkpoint(std::string_view text);
//! What a damaged file still says of its place in the order.
std::optional<std::int64_t> guess_sequence(std::string_view text);

struct step_document {
    step value;
    std::int64_t made_on = 0; // the sequence of its checkpoint; 0: none
};

std::string write_step(const step_document& value);
step_document read_step(std::string_view text);

//! What an agent has besides files of checkpoints and steps.
struct agent_document {
    std::string agent_id;
    //! Sequences up to this were in use; those of files count, too.
    std::int64_t last_sequence = 0;
    std::set<std::pair<std::string, std::string>> pins; // scope, id
};

std::string write_agent(const agent_document& value);
agent_document read_agent(std::string_view text);

} // namespace waymark::file
