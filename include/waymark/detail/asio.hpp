//! Everything that depends on the version of Asio. `ASIO_VERSION` decides: `__has_include` would find headers
//! of another Asio in the system's folders.
#pragma once

// A standard header first: Asio's configuration looks for macros that come with one.
#include <asio/version.hpp>

#include <cstddef>

#if ASIO_VERSION < 102201
#error "Waymark needs standalone Asio 1.22.1 or newer"
#endif

#include <asio/detail/config.hpp>

#if !defined(ASIO_STANDALONE)
#error "Waymark uses standalone Asio: define ASIO_STANDALONE (the CMake target waymark::waymark does)"
#endif
#if !defined(ASIO_HAS_CO_AWAIT)
#if defined(__clang__) && ASIO_VERSION < 102800
#error "This Asio does not see clang's coroutines: compile with -DASIO_HAS_CO_AWAIT -DASIO_HAS_STD_COROUTINE"
#else
#error "Waymark needs C++20 coroutines: compile with -std=c++20"
#endif
#endif

#include <asio/any_io_executor.hpp>
#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/associator.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/execution/executor.hpp>
#include <asio/execution/outstanding_work.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <asio/use_awaitable.hpp>

#if ASIO_VERSION >= 102700
#include <asio/deferred.hpp>
#endif

#include <system_error>
#include <type_traits>
#include <utility>

namespace waymark::detail {

//! What can be awaited without further ado. A deferred operation can be awaited in a coroutine of any
//! executor and needs no memory for it, but up to Asio 1.26 not if it ends with an exception and a value.
#if ASIO_VERSION >= 102700
using awaitable_token = asio::deferred_t;
#else
using awaitable_token = asio::use_awaitable_t<>;
#endif

//! An executor that counts as outstanding work of its context while it exists. `executor_work_guard` would
//! do, but that of 1.22 does not compile for a strand over any_io_executor.
template <class Executor>
using tracked_executor = std::decay_t<decltype(asio::prefer(std::declval<const Executor&>(),
                                                            asio::execution::outstanding_work.tracked))>;

//! A completion token for an operation that ends with an error code and a value.
template <class Token, class Value>
concept token_for = asio::completion_token_for<Token, void(std::error_code, Value)>;

} // namespace waymark::detail
