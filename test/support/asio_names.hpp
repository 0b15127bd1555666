//! Completion tokens that moved between versions of Asio, and macros for those that only some have.
#pragma once

#include <asio/version.hpp>

#if ASIO_VERSION >= 102300
#include <asio/as_tuple.hpp>
#include <asio/deferred.hpp>
namespace waymark::test {
using asio::as_tuple;
using asio::deferred;
} // namespace waymark::test
#else
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/deferred.hpp>
namespace waymark::test {
using asio::experimental::as_tuple;
using asio::experimental::deferred;
} // namespace waymark::test
#endif

//! A deferred operation that ends with an exception and a value can be awaited.
#if ASIO_VERSION >= 102700
#define WAYMARK_TEST_AWAITS_DEFERRED
#endif

#if ASIO_VERSION >= 102600
#define WAYMARK_TEST_HAS_USE_PROMISE
#include <asio/experimental/promise.hpp>
#include <asio/experimental/use_promise.hpp>
#endif

#if ASIO_VERSION >= 103100
#define WAYMARK_TEST_HAS_CANCEL_AFTER
#include <asio/cancel_after.hpp>
#endif
