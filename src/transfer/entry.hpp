//! What an export holds and an import takes, one at a time.
#pragma once

#include <waymark/checkpoint.hpp>
#include <waymark/step.hpp>

#include <optional>
#include <string>

namespace waymark::transfer {

//! A checkpoint or a step on its way from one store to another.
struct entry {
    std::optional<checkpoint> point;
    bool pinned = false;
    std::optional<step> record;
    std::string where; // "line 7", for errors
};

} // namespace waymark::transfer
