//! A user's program: compiled against the installed package with the user's own strict warnings.
#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <iostream>

asio::awaitable<void> remember(waymark::async_store& store)
{
    waymark::conversation chat{1'000};
    chat.push(waymark::message::user("Remember me."));
    co_await store.async_save(waymark::checkpoint{"agent", chat, 1});
    const auto head = co_await store.async_load_latest("agent");
    std::cout << head.value().conversation().back().text() << '\n';
}

int main()
{
    asio::io_context io;
    waymark::async_store store{io.get_executor(), std::make_shared<waymark::memory_store>()};
    asio::co_spawn(io, remember(store), [](std::exception_ptr error) { std::exit(error ? 1 : 0); });
    io.run();
}
