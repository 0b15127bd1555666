//! The version of the library. CMakeLists.txt reads these three lines, so that it is written down once.
#pragma once

#define WAYMARK_VERSION_MAJOR 0
#define WAYMARK_VERSION_MINOR 1
#define WAYMARK_VERSION_PATCH 0

//! One number to compare with, as in `#if WAYMARK_VERSION >= 200` for 0.2.0.
#define WAYMARK_VERSION (WAYMARK_VERSION_MAJOR * 10000 + WAYMARK_VERSION_MINOR * 100 + WAYMARK_VERSION_PATCH)

namespace waymark {

//! The version of the compiled library, as "0.1.0"; differs from the macros when headers and library do.
const char* version() noexcept;

} // namespace waymark
