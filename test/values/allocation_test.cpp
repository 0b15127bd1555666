//! What a snapshot costs, counted: every allocation of this program passes through the functions below. It is
//! a program of its own because the address sanitizer has such functions, too.
#include "catch.hpp"

#include <waymark/async_store.hpp>
#include <waymark/checkpoint.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/session.hpp>
#include <waymark/wire.hpp>

#include <asio/io_context.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

using namespace waymark;

namespace {

std::atomic<std::size_t> allocations = 0;
std::atomic<std::ptrdiff_t> live = 0; // that were not freed yet

} // namespace

// Not inlined: g++ 12 would take an inlined `free` for one that does not fit `new`.
[[gnu::noinline]] void* operator new(std::size_t size)
{
    ++allocations;
    ++live;
    if (void* memory = std::malloc(size == 0 ? 1 : size))
        return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept
{
    live -= memory != nullptr;
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept
{
    operator delete(memory);
}

TEST_CASE("a snapshot of 100,000 messages and one more costs neither copies nor allocations")
{
    conversation chat;
    for (int i = 0; i < 100'000; ++i)
        chat.push(message::user(std::to_string(i)));
    auto next = message::user("one more");

    const auto before = allocations.load();
    const auto snapshot = chat;
    CHECK(allocations == before);
    chat.push(next);
    CHECK(allocations == before + 1); // the node of the new message
    auto branch = snapshot;
    branch.push(next);
    CHECK(allocations == before + 2);
    chat.truncate(50'000);
    CHECK(allocations == before + 2);

    CHECK(snapshot.size() == 100'000);
    CHECK(branch.size() == 100'001);
    CHECK(chat.size() == 50'000);
    CHECK(branch.shared_prefix(snapshot) == 100'000);
    // Not equal messages: the same ones.
    for (std::size_t i = 0; i < chat.size(); i += 4'999)
        CHECK(&chat[i] == &snapshot[i]);
    CHECK(&branch[99'999] == &snapshot[99'999]);
}

TEST_CASE("a checkpoint of a long conversation with a large state is cheap to make and to copy")
{
    conversation chat;
    for (int i = 0; i < 10'000; ++i)
        chat.push(message::user(std::to_string(i)));
    boost::json::object state;
    for (int i = 0; i < 10'000; ++i)
        state["file " + std::to_string(i)] = i;

    auto before = allocations.load();
    const auto made = checkpoint("agent", chat, 1).with_id("id").with_state(std::move(state));
    CHECK(allocations - before < 20);
    before = allocations;
    const auto copy = made;
    CHECK(allocations - before < 5);
    CHECK(copy == made);

    // What a save of one more message costs does not depend on how many there are.
    memory_store store;
    store.save(made);
    chat.push(message::user("one more"));
    const auto longer = checkpoint(made).with_conversation(chat).with_id("id2");
    before = allocations;
    store.save(longer);
    CHECK(allocations - before < 30);
}

TEST_CASE("messages that are written, sent or looked at take no more memory afterwards")
{
    conversation chat(1'000);
    chat.with_system_prompt("prompt");
    for (int i = 0; i < 20; ++i) {
        chat.push(message::user(std::string(1'000, 'u')));
        chat.push(message::assistant(std::string(1'000, 'a')));
        chat.push(message::tool_result("call", std::string(1'000, 'r')));
    }
    const auto before = live.load();
    checkpoint("agent", chat).to_bytes();
    for (const auto& said : chat) {
        CHECK(boost::json::value_from(said).is_object());
        CHECK_FALSE(said.parts().empty());
    }
    chat.window();
    conversation(chat).repair();
    for (const auto api :
         {wire::api::chat_completions, wire::api::responses, wire::api::anthropic, wire::api::gemini})
        wire::make_request(api, chat);
    CHECK(live == before);
}

TEST_CASE("reading many extra members takes time in proportion")
{
    boost::json::object members;
    for (int i = 0; i < 5'000; ++i)
        members["member " + std::to_string(i)] = i;
    const auto text = checkpoint("agent", conversation().with_extra(std::move(members))).to_bytes();
    const auto before = allocations.load();
    CHECK(checkpoint::from_bytes(text).conversation().extra().size() == 5'000);
    CHECK(allocations - before < 50'000); // a copy of all for each would be millions
}

TEST_CASE("an event that the strategy declines costs nothing but its completion")
{
    asio::io_context io;
    async_store store{io.get_executor(), std::make_shared<memory_store>()};
    session session{store, "an agent with an id that is longer than a short string"};
    conversation chat;
    chat.push(message::user("a message that is longer than what a string keeps inside of itself"));
    int calls = 0;
    std::size_t spent = 0;
    for (int i = 0; i < 10; ++i) {
        const auto before = allocations.load();
        session.async_notify(
            event::llm_response, i, chat, // saved after tool calls only
            [&](std::error_code, std::optional<checkpoint_header> saved) { calls += !saved; });
        io.run();
        io.restart();
        spent = allocations - before;
    }
    CHECK(calls == 10);
    CHECK(spent <= 1); // what Asio queues the handler in; mostly it has that already
}

TEST_CASE("an observer takes no memory for what it counts")
{
    const auto allocations_of_saves = [](const async_options& options) {
        asio::io_context io;
        async_store store{io.get_executor(), std::make_shared<memory_store>(), options};
        const auto saved = checkpoint("agent").with_id("c1");
        std::size_t spent = 0;
        for (int i = 0; i < 20; ++i) {
            std::error_code code = errc::io;
            const auto before = allocations.load();
            store.async_save(saved, [&](std::error_code result, save_receipt) { code = result; });
            io.run();
            io.restart();
            if (i >= 10) // what is made once is there
                spent += allocations - before;
            CHECK_FALSE(code);
        }
        return spent;
    };
    const auto observer = std::make_shared<store_observer>();
    observer->on_log(log_level::info, [](const log_record&) { FAIL("nothing is told below its level"); });
    CHECK(allocations_of_saves(async_options().with_observer(observer)) ==
          allocations_of_saves(async_options()));
    CHECK(observer->figures().of(store_operation::save).succeeded == 20);
}
