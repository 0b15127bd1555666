//! How much a save survives.
#pragma once

namespace waymark {

//! What a save that returned survives.
enum class durability {
    full,    //!< a killed process, a crash of the system, a power cut
    relaxed, //!< a killed process; a crash of the system or a power cut may lose the newest saves, never
             //!< older ones
};

} // namespace waymark
