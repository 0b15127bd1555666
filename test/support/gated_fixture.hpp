//! An async_store over a gated store, and what tests of it share.
#pragma once

#include "gated_store.hpp"

#include <waymark/async_store.hpp>

#include <asio/io_context.hpp>

#include <chrono>
#include <cstddef>
#include <string>

namespace waymark::test {

struct gated_fixture {
    explicit gated_fixture(std::size_t lanes = 1, const async_options& options = {})
        : backend(std::make_shared<gated_store>(lanes)), store(io.get_executor(), backend, options)
    {
    }

    //! Returns when a save of the agent "agent" is being written and stands at the closed gate.
    void hold_a_save()
    {
        backend->close_gate();
        store.async_save(checkpoint("agent").with_id("held"), [](std::error_code, save_receipt) {});
        backend->wait_for_calls(1);
    }

    //! Runs the context until that many calls have come to the gate in all: a session takes some turns first.
    void run_until_calls(std::size_t count)
    {
        while (backend->calls() < count)
            io.run_one_for(std::chrono::milliseconds(1));
    }

    asio::io_context io;
    std::shared_ptr<gated_store> backend;
    async_store store;
};

//! A handler that notes the error code; until it runs, the code is `operation_in_progress`.
inline auto into(std::error_code& code)
{
    code = make_error_code(std::errc::operation_in_progress);
    return [&code](std::error_code result, auto&&...) { code = result; };
}

inline checkpoint numbered(const std::string& agent, int i)
{
    return checkpoint(agent).with_id(std::to_string(i)).with_iteration(i);
}

} // namespace waymark::test
