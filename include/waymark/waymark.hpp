//! All of Waymark.
#pragma once

#include <waymark/async_options.hpp>
#include <waymark/async_store.hpp>
#include <waymark/async_transfer.hpp>
#include <waymark/checkpoint.hpp>
#include <waymark/conversation.hpp>
#include <waymark/diff.hpp>
#include <waymark/error.hpp>
#include <waymark/file_store.hpp>
#include <waymark/history.hpp>
#include <waymark/hooks.hpp>
#include <waymark/limits.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/message.hpp>
#include <waymark/query.hpp>
#include <waymark/resume.hpp>
#include <waymark/retention.hpp>
#include <waymark/session.hpp>
#include <waymark/session_options.hpp>
#include <waymark/sqlite_store.hpp>
#include <waymark/step.hpp>
#include <waymark/store.hpp>
#include <waymark/strategy.hpp>
#include <waymark/summary.hpp>
#include <waymark/transfer.hpp>
#include <waymark/version.hpp>
