#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <iostream>

asio::awaitable<void> plan_trip(waymark::async_store& store)
{
    waymark::session session{store, "planner"};

    session.on_checkpoint([](const waymark::checkpoint_saved& saved) {
        std::cout << "saved #" << saved.header().sequence() << " at iteration " << saved.header().iteration()
                  << '\n';
    });

    waymark::conversation chat{8'000};
    std::int64_t iteration = 0;
    if (auto head = co_await session.async_resume()) {
        chat = head->conversation();
        iteration = head->iteration();
    } else {
        chat.with_system_prompt("You plan trips.");
        chat.push(waymark::message::user("Three days in Lisbon, please."));
    }

    while (iteration < 5) {
        ++iteration;
        chat.push(waymark::message::assistant("Day " + std::to_string(iteration) + ": ..."));
        co_await session.async_notify(waymark::event::llm_response, iteration, chat);
        chat.push(waymark::message::user("Go on."));
        co_await session.async_notify(waymark::event::tool_call_complete, iteration, chat);
    }
    co_await session.async_checkpoint("plan_ready", iteration, chat);
}

int main()
{
    asio::io_context io;
    waymark::async_store store{io.get_executor(), std::make_shared<waymark::sqlite_store>("planner.db")};
    asio::co_spawn(io, plan_trip(store), [](std::exception_ptr error) {
        if (error)
            std::rethrow_exception(error);
    });
    io.run();
}
