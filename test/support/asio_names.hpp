//! Completion tokens that moved between versions of Asio.
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
