//! Looking for damage: everything is read and hashed again.
#pragma once

#include "database.hpp"

#include <waymark/store.hpp>

namespace waymark::tables {

//! Each agent is looked at in one view of its own, so that a long verification holds up nothing.
verify_report verify(database& in, const upkeep_control& control);

} // namespace waymark::tables
