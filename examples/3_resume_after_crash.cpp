//! An agent that may be killed at any moment and goes on where it was: its checkpoints are in a SQLite file.
//!
//!     3_resume_after_crash FILE            works, or goes on
//!     3_resume_after_crash FILE history    prints what was saved
//!
//! `kill_and_resume`, beside this file, runs it, kills it with SIGKILL and runs it again.
#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <iostream>
#include <string_view>

namespace {

constexpr std::int64_t last_day = 6;

std::string book_hotel(std::int64_t day)
{
    return "a room for night " + std::to_string(day);
}

asio::awaitable<void> run_agent(waymark::async_store& store)
{
    waymark::conversation chat{8'000};
    std::int64_t day = 0;
    boost::json::object bookings;
    std::optional<std::string> parent;
    if (const auto head = co_await store.async_load_latest("traveller")) {
        chat = head->conversation();
        day = head->iteration();
        bookings = head->state();
        parent = head->id();
        chat.repair(); // a tool call that was running when the process died gets an answer
        std::cout << "resumed after day " << day << " with " << chat.size() << " messages" << std::endl;
    } else {
        chat.with_system_prompt("You plan trips.");
        chat.push(waymark::message::user("Six nights along the Douro, please."));
        std::cout << "started afresh" << std::endl;
    }

    asio::steady_timer work(co_await asio::this_coro::executor);
    while (day < last_day) {
        ++day;
        const auto call_id = "book-" + std::to_string(day);
        chat.push(
            waymark::message::assistant("", {waymark::tool_call(call_id, "book_hotel", {{"day", day}})}));
        work.expires_after(std::chrono::milliseconds(500)); // booking takes its time
        co_await work.async_wait(asio::use_awaitable);
        const auto booked = book_hotel(day);
        chat.push(waymark::message::tool_result(call_id, booked));
        bookings[std::to_string(day)] = booked;

        waymark::checkpoint point{"traveller", chat, day};
        point.with_parent(parent).with_state(bookings).with_name("booked");
        const auto receipt = co_await store.async_save(point);
        parent = point.id();
        std::cout << "day " << day << " saved: " << receipt.bytes_written() << " bytes are new" << std::endl;
    }
    std::cout << "done: " << bookings.size() << " nights are booked" << std::endl;
}

asio::awaitable<void> print_history(waymark::async_store& store)
{
    for (const auto& point : co_await store.async_list(waymark::query("traveller").oldest_first()))
        std::cout << "  #" << point.sequence() << "  " << point.name() << ", day " << point.iteration()
                  << ", " << point.message_count() << " messages\n";
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 2) {
        std::cerr << "usage: 3_resume_after_crash FILE [history]\n";
        return 2;
    }
    const bool history = argc > 2 && argv[2] == std::string_view("history");
    try {
        asio::io_context io;
        waymark::async_store store{io.get_executor(), std::make_shared<waymark::sqlite_store>(argv[1])};
        std::exception_ptr failure;
        asio::co_spawn(io, history ? print_history(store) : run_agent(store),
                       [&](std::exception_ptr thrown) { failure = thrown; });
        io.run();
        if (failure)
            std::rethrow_exception(failure);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
