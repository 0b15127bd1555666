//! Random operations of several store objects on one database, one after the other, compared with a plain
//! model that has no objects, no memory and no disk.
#pragma once

#include "shared_database.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace waymark::faults {

//! How the objects of a round are opened.
using store_opener = std::function<std::shared_ptr<store>(shared_database&)>;

//! Whether backups come back in a round.
enum class restores : bool { no, yes };

//! Saves, loads, removes, backs up and restores, with conversations that stay in memory meanwhile. Returns
//! the first difference between an object and the model, with the operations that led to it.
//! @pre the database is empty
std::optional<std::string> run_model_round(shared_database& database, std::uint64_t seed,
                                           std::size_t operations, const store_opener& open,
                                           restores how = restores::yes);

} // namespace waymark::faults
