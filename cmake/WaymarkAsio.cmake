# The target waymark::asio: standalone Asio, header-only. Used by the build and by the installed package, where
# it looks for Asio anew: a compiled Waymark contains none, so any version from 1.22.1 on will do.
#
# Set WAYMARK_ASIO_INCLUDE_DIR to the folder that has asio.hpp to choose another Asio than the system's.

find_path(WAYMARK_ASIO_INCLUDE_DIR asio.hpp DOC "The folder that contains asio.hpp")
if(NOT WAYMARK_ASIO_INCLUDE_DIR)
    message(FATAL_ERROR "Waymark needs standalone Asio: install it (Debian: libasio-dev) or set "
                        "WAYMARK_ASIO_INCLUDE_DIR to the folder that has asio.hpp")
endif()

file(STRINGS "${WAYMARK_ASIO_INCLUDE_DIR}/asio/version.hpp" asio_version_line REGEX "#define ASIO_VERSION ")
string(REGEX MATCH "[0-9]+" asio_version "${asio_version_line}")
if(asio_version LESS 102201)
    message(FATAL_ERROR "Waymark needs Asio 1.22.1 or newer; ${WAYMARK_ASIO_INCLUDE_DIR} has ${asio_version}")
endif()

if(NOT TARGET waymark::asio)
    find_package(Threads REQUIRED)
    add_library(waymark::asio INTERFACE IMPORTED GLOBAL)
    target_include_directories(waymark::asio SYSTEM INTERFACE "${WAYMARK_ASIO_INCLUDE_DIR}")
    target_link_libraries(waymark::asio INTERFACE Threads::Threads)
    target_compile_definitions(waymark::asio INTERFACE ASIO_STANDALONE)
    if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
        # Asio decides this by a macro that exists only once a standard header has been included. Without this
        # line, two files that include things in different order allocate and free differently.
        target_compile_definitions(waymark::asio INTERFACE ASIO_HAS_STD_ALIGNED_ALLOC=1)
    endif()
    # clang keeps the address of a thread's variable over the suspension of a coroutine. One that goes on on another
    # thread would then use the first thread's cache of frames, which has no lock.
    target_compile_definitions(waymark::asio INTERFACE
        $<$<CXX_COMPILER_ID:Clang,AppleClang>:ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING>)
    if(asio_version LESS 102800)
        # These versions look for the coroutines of clang in <experimental/coroutine> only.
        target_compile_definitions(waymark::asio INTERFACE
            $<$<CXX_COMPILER_ID:Clang,AppleClang>:ASIO_HAS_CO_AWAIT>
            $<$<CXX_COMPILER_ID:Clang,AppleClang>:ASIO_HAS_STD_COROUTINE>)
    endif()
endif()
