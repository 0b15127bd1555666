//! An agent loop that saves after every tool call and goes on where it was. The "crash" here is that the loop
//! ends in the middle; the store lives on, and a second run of the same coroutine resumes.
#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <iostream>

namespace {

constexpr std::int64_t last_iteration = 4;

//! What stands for a model here: it asks for the weather once a day, then sums up.
waymark::message ask_model(std::int64_t iteration)
{
    if (iteration == last_iteration)
        return waymark::message::assistant("Pack light: it stays dry.");
    const auto call_id = "call-" + std::to_string(iteration);
    return waymark::message::assistant("", {waymark::tool_call(call_id, "weather", {{"day", iteration}})});
}

std::string run_tool(const waymark::tool_call& call)
{
    return "day " + std::to_string(call.arguments().at("day").as_int64()) + ": sunny";
}

asio::awaitable<void> run_agent(waymark::async_store& store, std::int64_t crash_at)
{
    const auto strategy = waymark::strategy::after_tool_call();
    waymark::conversation chat{8'000};
    std::int64_t iteration = 0;
    if (const auto head = co_await store.async_load_latest("packer")) {
        chat = head->conversation();
        iteration = head->iteration();
        std::cout << "resumed after iteration " << iteration << " with " << chat.size() << " messages\n";
    } else {
        chat.with_system_prompt("You help people pack.");
        chat.push(waymark::message::user("What do I need for three days in Lisbon?"));
        std::cout << "started afresh\n";
    }

    while (iteration < last_iteration) {
        ++iteration;
        chat.push(ask_model(iteration));
        for (const auto& call : chat.back().tool_calls()) {
            if (iteration == crash_at) {
                std::cout << "crash in the middle of iteration " << iteration << '\n';
                co_return;
            }
            chat.push(waymark::message::tool_result(call.id(), run_tool(call)));
        }
        if (strategy.should_checkpoint(iteration, waymark::event::tool_call_complete)) {
            const auto receipt = co_await store.async_save(waymark::checkpoint{"packer", chat, iteration});
            std::cout << "saved #" << receipt.sequence() << " at iteration " << iteration << ": "
                      << receipt.bytes_written() << " bytes are new\n";
        }
    }
    std::cout << "answer: " << chat.back().content() << '\n';
}

} // namespace

int main()
{
    asio::io_context io;
    waymark::async_store store{io.get_executor(), std::make_shared<waymark::memory_store>()};
    const auto rethrow = [](std::exception_ptr error) {
        if (error)
            std::rethrow_exception(error);
    };

    asio::co_spawn(io, run_agent(store, 3), rethrow);
    io.run();
    io.restart();
    asio::co_spawn(io, run_agent(store, 0), rethrow);
    io.run();

    // The history, oldest first.
    for (const auto& header : store.backend()->list(waymark::query{"packer"}.oldest_first()))
        std::cout << "  #" << header.sequence() << "  iteration " << header.iteration() << ", "
                  << header.message_count() << " messages\n";
}
