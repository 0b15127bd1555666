//! mortal_agent KIND PATH EFFECTS POINT: an agent with side effects, which are lines in the file EFFECTS. It
//! kills itself at the POINTth point between two durable writes, or runs to its end with 0. Prints its
//! conversation at the end. Run by crash_test.cpp.
#include "forwarding_store.hpp"

#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>
#include <waymark/waymark.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <unistd.h>

using namespace waymark;
namespace json = boost::json;

namespace {

//! Where the process may die.
class points {
public:
    explicit points(int deadly) : deadly_(deadly) {}

    void pass()
    {
        if (++passed_ == deadly_)
            std::raise(SIGKILL);
    }

private:
    std::atomic<int> passed_ = 0;
    const int deadly_;
};

//! Dies just before, or just after, something becomes durable: then nobody has been told.
class mortal_store final : public test::forwarding_store {
public:
    mortal_store(std::shared_ptr<store> inner, points& where)
        : forwarding_store(std::move(inner)), points_(where)
    {
    }

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        return around([&] { return forwarding_store::save(batch); });
    }
    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        return around([&] { return forwarding_store::put_steps(batch); });
    }
    bool erase_step(std::string_view agent, std::string_view scope, std::string_view key,
                    const std::optional<std::string>& attempt = std::nullopt) override
    {
        return around([&] { return forwarding_store::erase_step(agent, scope, key, attempt); });
    }

private:
    template <class Write>
    std::invoke_result_t<Write> around(Write write)
    {
        points_.pass();
        auto result = write();
        points_.pass();
        return result;
    }

    points& points_;
};

class effects {
public:
    effects(std::string file, points& where) : file_(std::move(file)), points_(where) {}

    asio::awaitable<json::value> make(std::string key)
    {
        points_.pass();
        const auto line = key + "\n";
        const int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file < 0 || ::write(file, line.data(), line.size()) < 0)
            throw std::runtime_error("the effect cannot be made");
        ::close(file);
        points_.pass();
        co_return json::value("result of " + key);
    }

    bool happened(const std::string& key) const
    {
        std::ifstream file(file_);
        for (std::string line; std::getline(file, line);)
            if (line == key)
                return true;
        return false;
    }

private:
    std::string file_;
    points& points_;
};

asio::awaitable<json::value> make_once(session& session, effects& world, std::string key)
{
    try {
        co_return co_await session.async_step(key, world.make(key));
    } catch (const error& failure) {
        if (failure.code() != errc::step_in_doubt)
            throw;
    }
    std::cout << "in doubt: " << key << '\n';
    if (world.happened(key))
        co_await session.async_settle_step(key, "result of " + key);
    else
        co_await session.async_forget_step(key);
    co_return co_await session.async_step(key, world.make(key));
}

//! An attempt that fails before it has any effect.
asio::awaitable<void> fail_once(session& session, std::string key)
{
    const auto refused = []() -> asio::awaitable<json::value> {
        throw not_begun("refused");
        co_return nullptr; // what makes it a coroutine
    };
    try {
        co_await session.async_step(key, refused);
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): it is tried again; a doubt shows then
    }
}

asio::awaitable<void> run(async_store& store, effects& world)
{
    const auto always = strategy::when([](std::int64_t, event) { return true; });
    session session{store, "agent", session_options().with_strategy(always).exclusive()};
    conversation chat{8'000};
    std::int64_t iteration = 0;
    if (const auto head = co_await session.async_resume()) {
        chat = head->conversation();
        iteration = head->iteration();
    } else {
        chat.with_system_prompt("You are mortal.");
        co_await fail_once(session, "before the first checkpoint");
        co_await make_once(session, world, "before the first checkpoint");
    }
    for (;;) {
        for (const auto& call : chat.unanswered_tool_calls()) {
            const auto result = co_await make_once(session, world, call.id());
            chat.push(message::tool_result(call.id(), std::string(result.as_string())));
            co_await session.async_notify(event::tool_call_complete, iteration, chat);
        }
        if (iteration == 3)
            break;
        ++iteration;
        std::vector<tool_call> calls;
        calls.emplace_back("call-" + std::to_string(iteration), "act");
        chat.push(message::assistant("turn " + std::to_string(iteration), calls));
        co_await session.async_notify(event::llm_response, iteration, chat);
    }
    for (const auto& message : chat)
        std::cout << message.text() << " | ";
    std::cout << '\n';
}

} // namespace

int main(int argc, char** argv)
try {
    if (argc != 5)
        throw std::runtime_error("mortal_agent KIND PATH EFFECTS POINT");
    points where(std::stoi(argv[4]));
    effects world(argv[3], where);
    std::shared_ptr<store> inner;
    if (std::string(argv[1]) == "sqlite")
        inner = std::make_shared<sqlite_store>(argv[2]);
    else
        inner = std::make_shared<file_store>(argv[2]);
    asio::io_context io;
    async_store store(io.get_executor(), std::make_shared<mortal_store>(std::move(inner), where));
    asio::co_spawn(io, run(store, world), [](std::exception_ptr thrown) {
        if (thrown)
            std::rethrow_exception(thrown);
    });
    io.run();
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "mortal_agent: " << failure.what() << '\n';
    return 1;
}
