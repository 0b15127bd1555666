//! The first step: save a checkpoint, load it again.
#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <iostream>

asio::awaitable<void> save_and_load(waymark::async_store& store)
{
    waymark::conversation chat{8'000};
    chat.with_system_prompt("You are a helpful assistant.");
    chat.push(waymark::message::user("What is the capital of Portugal?"));
    chat.push(waymark::message::assistant("Lisbon."));

    co_await store.async_save(waymark::checkpoint{"assistant", chat, 1}.with_name("answered"));

    const auto head = co_await store.async_load_latest("assistant");
    if (!head)
        throw std::runtime_error("the checkpoint is not there");
    std::cout << "checkpoint '" << head->name() << "' has " << head->conversation().size()
              << " messages; the last one says: " << head->conversation().back().text() << '\n';
}

int main()
{
    asio::io_context io;
    waymark::async_store store{io.get_executor(), std::make_shared<waymark::memory_store>()};
    asio::co_spawn(io, save_and_load(store), [](std::exception_ptr error) {
        if (error)
            std::rethrow_exception(error);
    });
    io.run();
}
