//! Going back, taking another way, comparing the two, and starting a second agent from a point in the past.
#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <boost/json/serialize.hpp>

#include <iostream>

namespace {

using waymark::message;

asio::awaitable<void> travel(waymark::async_store& store)
{
    waymark::session session{store, "cook"};
    waymark::conversation chat{8'000};
    chat.push(message::user("Dinner for four. What do we cook?"));
    const auto asked = co_await session.async_checkpoint("asked", 1, chat);

    boost::json::object menu;
    chat.push(message::assistant("Bacalhau, with potatoes."));
    menu["main"] = "bacalhau";
    co_await session.async_checkpoint("proposed", 2, chat, menu);
    chat.push(message::user("One of us is allergic to fish."));
    const auto fish = co_await session.async_checkpoint("objection", 3, chat, menu);

    // Back to the question. The point to go back to stays, and so does what came after it: a rollback is a
    // new checkpoint, so that it survives a crash, too.
    const auto back = co_await session.async_rollback_to(asked.id());
    chat = back.conversation();
    chat.push(message::assistant("Mushroom risotto."));
    menu["main"] = "risotto";
    menu["wine"] = "white";
    const auto risotto = co_await session.async_checkpoint("proposed", 2, chat, menu);

    const auto history = co_await session.async_history();
    std::cout << "The history of 'cook':\n" << history.to_text();

    const auto difference = co_await session.async_diff(fish.id(), risotto.id());
    std::cout << "\nFrom the fish to the risotto:\n";
    for (const auto& gone : difference.messages_removed())
        std::cout << "  - " << gone.text() << '\n';
    for (const auto& added : difference.messages_added())
        std::cout << "  + " << added.text() << '\n';
    for (const auto& change : difference.state_changes())
        std::cout << "  " << change.path() << ": "
                  << (change.before() ? boost::json::serialize(*change.before()) : "nothing") << " -> "
                  << (change.after() ? boost::json::serialize(*change.after()) : "nothing") << '\n';

    // Another agent tries the fish after all, from the same past. The two share nothing from here on.
    const auto forked = co_await session.async_fork(fish.id(), "fish cook");
    waymark::session other{store, forked.agent_id()};
    const auto head = co_await other.async_resume();
    chat = head->conversation();
    chat.push(message::assistant("Then the bacalhau for three, and an omelette."));
    co_await other.async_checkpoint("proposed", head->iteration() + 1, chat, head->state());
    // Whoever only looks needs no session.
    waymark::session_view view{store, forked.agent_id()};
    const auto of_other = co_await view.async_history();
    std::cout << "\nThe history of 'fish cook':\n" << of_other.to_text();
}

} // namespace

int main()
{
    asio::io_context io;
    waymark::async_store store{io.get_executor(), std::make_shared<waymark::memory_store>()};
    asio::co_spawn(io, travel(store), [](std::exception_ptr error) {
        if (error)
            std::rethrow_exception(error);
    });
    io.run();
}
