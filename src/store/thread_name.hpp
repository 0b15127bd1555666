//! The names of our own threads, as debuggers and `top -H` show them.
#pragma once

#if defined(__linux__)
#include <pthread.h>
#endif

namespace waymark::detail {

//! At most 15 characters.
inline void name_this_thread([[maybe_unused]] const char* name) noexcept
{
#if defined(__linux__)
    pthread_setname_np(pthread_self(), name);
#endif
}

} // namespace waymark::detail
