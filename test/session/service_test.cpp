//! The example service under many connections: killed in the middle, stopped, stopped and killed.
#include "catch.hpp"
#include "child_process.hpp"
#include "run_coroutine.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

#include <asio/connect.hpp>
#include <asio/detached.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>

using namespace waymark;
namespace json = boost::json;
using asio::ip::tcp;

namespace {

constexpr int clients = 200;

class running_service {
public:
    //! On four threads, whatever this machine has.
    explicit running_service(const std::filesystem::path& file)
        : process_({WAYMARK_CHAT_SERVICE, file.native(), "0", "4"})
    {
        std::string line;
        const std::string begin = "listening on 127.0.0.1:";
        if (!process_.read_line(line) || !line.starts_with(begin))
            throw std::runtime_error("the service did not start: " + line);
        port_ = static_cast<std::uint16_t>(std::stoi(line.substr(begin.size())));
    }

    tcp::endpoint endpoint() const { return {asio::ip::address_v4::loopback(), port_}; }
    void kill() { process_.kill(); }
    void signal(int number) const { ::kill(process_.id(), number); }
    bool read_line(std::string& line) { return process_.read_line(line); }
    int wait() { return process_.wait(); }

private:
    test::child_process process_;
    std::uint16_t port_ = 0;
};

class client {
public:
    client(asio::io_context& io, int number) : client(io, "chat-" + std::to_string(number)) {}
    client(asio::io_context& io, std::string chat) : socket_(io), chat_(std::move(chat)) {}

    asio::awaitable<void> connect(tcp::endpoint where)
    {
        co_await socket_.async_connect(where, asio::use_awaitable);
    }

    asio::awaitable<json::value> ask(json::object request)
    {
        request["chat"] = chat_;
        co_return co_await ask_line(json::serialize(request));
    }

    asio::awaitable<json::value> ask_line(std::string text)
    {
        text += "\n";
        co_await asio::async_write(socket_, asio::buffer(text), asio::use_awaitable);
        const auto length = co_await asio::async_read_until(socket_, asio::dynamic_buffer(buffer_), '\n',
                                                            asio::use_awaitable);
        const auto line = buffer_.substr(0, length);
        buffer_.erase(0, length);
        co_return json::parse(line);
    }

    //! Talks until the service is gone. Counts what it saw acknowledged.
    asio::awaitable<void> talk(int& all)
    {
        try {
            for (;;) {
                json::object request;
                request["say"] = "sentence " + std::to_string(acknowledged + 1);
                const auto answer = co_await ask(std::move(request));
                if (answer.at("turn") != acknowledged + 1)
                    throw std::logic_error("another turn");
                ++acknowledged;
                ++all;
            }
        } catch (const std::system_error&) {
            ended = true; // the service was killed
        }
    }

    std::int64_t acknowledged = 0;
    bool ended = false;

private:
    tcp::socket socket_;
    std::string chat_;
    std::string buffer_;
};

json::object say(std::string text)
{
    json::object request;
    request["say"] = std::move(text);
    return request;
}

//! The error of an answer, or nothing.
std::string error_of(const json::value& answer)
{
    const auto* error = answer.as_object().if_contains("error");
    return error == nullptr ? std::string() : std::string(error->as_string());
}

//! What the clients of one chat know of it.
struct known_chat {
    std::map<std::int64_t, std::string> acknowledged; // by turn
    std::set<std::string> unanswered;                 // may be there
};

//! Says one sentence after the other, until the service refuses it or is gone. Every sentence is another one.
asio::awaitable<void> talk(client& with, std::string who, known_chat& chat, int& acknowledged)
{
    for (int n = 1;; ++n) {
        const auto text = who + ", sentence " + std::to_string(n);
        for (;;) {
            json::value answer;
            try {
                answer = co_await with.ask(say(text));
            } catch (const std::system_error&) {
                chat.unanswered.insert(text);
                co_return; // killed, or stopped
            }
            const auto error = error_of(answer);
            if (error.starts_with("another client's turn")) // of the other client of this chat
                continue;
            if (error.starts_with("the service is stopping"))
                co_return;
            INFO(error);
            REQUIRE(error.empty());
            // Acknowledged for one sentence only.
            CHECK(chat.acknowledged.emplace(answer.at("turn").as_int64(), text).second);
            ++acknowledged;
            break;
        }
    }
}

//! Returns what is wrong: nothing, if all that was acknowledged is there, and nothing that was refused.
std::vector<std::string> violations_in(store& in, const std::map<std::string, known_chat>& chats)
{
    std::vector<std::string> wrong;
    for (const auto& [id, known] : chats) {
        const auto head = in.load_latest(id);
        const auto messages = head ? head->conversation() : conversation();
        std::map<std::int64_t, std::string> stored;
        for (std::size_t i = 0; i + 1 < messages.size(); i += 2)
            stored.emplace(static_cast<std::int64_t>(i / 2 + 1), messages[i].text());
        for (const auto& [turn, text] : known.acknowledged)
            if (const auto found = stored.find(turn); found == stored.end() || found->second != text)
                wrong.push_back(id + " has lost turn " + std::to_string(turn) + ": " + text);
        for (const auto& [turn, text] : stored)
            if (!known.acknowledged.contains(turn) && !known.unanswered.contains(text))
                wrong.push_back(id + " has a turn that was refused: " + text);
        std::set<std::string> once;
        for (const auto& [turn, text] : stored)
            if (!once.insert(text).second)
                wrong.push_back(id + " has a turn twice: " + text);
        if (in.count(query(id)) != stored.size())
            wrong.push_back(id + " has branches");
    }
    return wrong;
}

} // namespace

TEST_CASE("a service that is killed under 200 connections loses nothing that a client saw acknowledged")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "chats.db";
    std::vector<std::int64_t> acknowledged;
    {
        running_service service(file);
        asio::io_context io;
        std::vector<std::unique_ptr<client>> all;
        for (int i = 0; i < clients; ++i)
            all.push_back(std::make_unique<client>(io, i));
        int total = 0;
        const auto run = [&]() -> asio::awaitable<void> {
            for (auto& one : all)
                co_await one->connect(service.endpoint());
            for (auto& one : all)
                asio::co_spawn(io, one->talk(total), asio::detached);
        };
        asio::co_spawn(io, run(), asio::detached);
        const auto all_have_begun = [&] {
            return std::all_of(all.begin(), all.end(), [](const auto& one) { return one->acknowledged > 0; });
        };
        while (total < 5 * clients || !all_have_begun()) // in the middle of everything
            REQUIRE(io.run_one() == 1);
        service.kill();
        io.run();
        for (const auto& one : all) {
            CHECK(one->ended);
            CHECK(one->acknowledged > 0);
            acknowledged.push_back(one->acknowledged);
        }
    }
    running_service service(file);
    asio::io_context io;
    const auto look = [&]() -> asio::awaitable<void> {
        for (int i = 0; i < clients; ++i) {
            client one(io, i);
            co_await one.connect(service.endpoint());
            const auto answer = co_await one.ask({});
            const auto turn = answer.at("turn").as_int64();
            INFO("chat " << i);
            // The turn that was under way may have been saved, too.
            CHECK(turn >= acknowledged.at(static_cast<std::size_t>(i)));
            CHECK(turn <= acknowledged.at(static_cast<std::size_t>(i)) + 1);
            const auto& messages = answer.at("messages").as_array();
            REQUIRE(messages.size() == static_cast<std::size_t>(2 * turn));
            for (std::int64_t said = 1; said <= turn; ++said)
                CHECK(messages[static_cast<std::size_t>(2 * said - 2)] ==
                      json::value("sentence " + std::to_string(said)));
        }
    };
    test::run_coroutine(io, look());
}

TEST_CASE("the service answers nonsense with an error, and bounds lines and connections")
{
    const test::temporary_folder folder;
    running_service service(folder.path() / "chats.db");
    asio::io_context io;
    const auto talk = [&]() -> asio::awaitable<void> {
        client one(io, 1);
        co_await one.connect(service.endpoint());
        for (const std::string nonsense :
             {"", "{", "[]", "{\"chat\": 7}", "{\"chat\": \"\"}", "{\"chat\": \"x\", \"say\": 1}", "null"}) {
            INFO(nonsense);
            const auto answer = co_await one.ask_line(nonsense);
            CHECK(answer.as_object().contains("error"));
        }
        json::object request;
        request["say"] = "still there?";
        const auto answer = co_await one.ask(request);
        CHECK(answer.at("turn") == 1);

        client endless(io, 2);
        co_await endless.connect(service.endpoint());
        bool refused = false;
        try {
            co_await endless.ask_line(std::string(200'000, 'x'));
        } catch (const std::system_error&) {
            refused = true;
        }
        CHECK(refused);

        std::vector<std::unique_ptr<client>> crowd;
        for (int i = 0; i < 256; ++i) {
            crowd.push_back(std::make_unique<client>(io, 1000 + i));
            co_await crowd.back()->connect(service.endpoint());
        }
        client late(io, 3);
        co_await late.connect(service.endpoint());
        std::string said;
        try {
            const auto refusal = co_await late.ask({});
            said = refusal.at("error").as_string();
        } catch (const std::system_error&) {
            said = "too many connections (and it hung up before we asked)";
        }
        CHECK(said.starts_with("too many connections"));
    };
    test::run_coroutine(io, talk());
}

TEST_CASE(
    "a service that is stopped, and killed while it stops, loses nothing that a client saw acknowledged")
{
    const char* wanted = std::getenv("WAYMARK_SERVICE_ROUNDS");
    const auto rounds = wanted != nullptr ? std::atoi(wanted) : 6;
    const char* given = std::getenv("WAYMARK_SEED");
    const auto seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::mt19937_64 random(seed);
    const auto up_to = [&](int most) { return std::uniform_int_distribution(0, most)(random); };
    CAPTURE(seed); // WAYMARK_SEED repeats it

    const test::temporary_folder folder;
    const auto file = folder.path() / "chats.db";
    std::map<std::string, known_chat> chats; // they go on in the next round
    int acknowledged = 0, killed = 0, ended = 0;
    std::size_t violations = 0;
    for (int round = 1; round <= rounds && violations == 0; ++round) {
        CAPTURE(round);
        running_service service(file);
        asio::io_context io;
        std::vector<std::unique_ptr<client>> all;
        int in_this_round = 0;
        const auto run = [&](int number) -> asio::awaitable<void> {
            const auto id = "chat-" + std::to_string(number / 2); // two clients share a chat
            const auto who = "round " + std::to_string(round) + ", client " + std::to_string(number);
            auto& one = *all.emplace_back(std::make_unique<client>(io, id));
            co_await one.connect(service.endpoint());
            co_await talk(one, who, chats[id], in_this_round);
        };
        std::vector<std::exception_ptr> failures;
        for (int i = 0; i < 64; ++i)
            asio::co_spawn(io, run(i), [&](std::exception_ptr failure) {
                if (failure)
                    failures.push_back(failure);
            });
        for (const auto enough = up_to(400); in_this_round <= enough && failures.empty();)
            REQUIRE(io.run_one() == 1);
        io.run_for(std::chrono::microseconds(up_to(5'000)));
        service.signal(SIGTERM);
        const bool is_killed = up_to(3) > 0;
        if (is_killed) {
            io.run_for(std::chrono::microseconds(up_to(30'000)));
            service.signal(SIGKILL);
        }
        io.run(); // until the service hangs up
        for (const auto& failure : failures)
            std::rethrow_exception(failure);
        const auto status = service.wait();
        CHECK((status == 0 || (is_killed && status == 128 + SIGKILL)));
        ++(status == 0 ? ended : killed);
        acknowledged += in_this_round;

        const auto wrong = violations_in(*std::make_unique<sqlite_store>(file), chats);
        violations = wrong.size();
        CAPTURE(wrong);
        CHECK(violations == 0);
    }
    if (wanted != nullptr)
        std::cout << rounds << " rounds (seed " << seed << "): " << acknowledged << " acknowledged turns, "
                  << killed << " killed while they stopped, " << ended << " ended by themselves, "
                  << violations << " violations\n";
}

TEST_CASE("a client is told when it is not known in time whether its turn is saved, and can look then")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "chats.db";
    running_service service(file);
    asio::io_context io;
    const auto talk = [&]() -> asio::awaitable<void> {
        client one(io, 1);
        co_await one.connect(service.endpoint());
        const auto first = co_await one.ask(say("first"));
        CHECK(first.at("turn") == 1);
        test::other_connection other(file);
        other.run("BEGIN IMMEDIATE"); // saves wait for it
        const auto second = co_await one.ask(say("second"));
        CHECK(error_of(second).starts_with("it is not known yet whether this turn is saved"));
        other.run("COMMIT");
        const auto seen = co_await one.ask({});
        CHECK(seen.at("turn") == 2);
        const auto third = co_await one.ask(say("third"));
        CHECK(third.at("turn") == 3);
    };
    test::run_coroutine(io, talk());
}

TEST_CASE(
    "a service that stops refuses new turns and finishes those under way; a second signal ends it at once")
{
    const test::temporary_folder folder;
    const auto file = folder.path() / "chats.db";
    for (const bool twice : {false, true}) {
        CAPTURE(twice);
        running_service service(file);
        asio::io_context io;
        const auto talk = [&]() -> asio::awaitable<void> {
            client slow(io, 1), other(io, 1);
            co_await slow.connect(service.endpoint());
            co_await other.connect(service.endpoint());
            test::other_connection lock(file);
            lock.run("BEGIN IMMEDIATE");
            std::optional<json::value> answer;
            const auto ask = [&]() -> asio::awaitable<void> {
                json::value given;
                do
                    given = co_await slow.ask(say("slow"));
                while (error_of(given).starts_with("another client's turn")); // the other's look
                answer = given;
            };
            std::exception_ptr failure;
            asio::co_spawn(io, ask(), [&](std::exception_ptr thrown) { failure = thrown; });
            while (!error_of(co_await other.ask({})).starts_with("another client's turn"))
                ; // until it has begun
            service.signal(SIGTERM);
            std::string line;
            CHECK(service.read_line(line));
            CHECK(line.starts_with("stopping"));
            const auto refused = co_await other.ask(say("too late"));
            CHECK(error_of(refused).starts_with("the service is stopping"));
            CHECK_FALSE(answer);
            if (twice)
                service.signal(SIGTERM);
            else
                lock.run("COMMIT");
            while (!answer && !failure)
                co_await asio::post(io, asio::use_awaitable);
            CHECK((answer && answer->as_object().contains("turn")) != twice);
            std::error_code unreachable;
            tcp::socket newcomer(io);
            newcomer.connect(service.endpoint(), unreachable);
            CHECK(unreachable == asio::error::connection_refused);
        };
        test::run_coroutine(io, talk());
        std::string line;
        CHECK(service.read_line(line) != twice);
        CHECK(service.wait() == (twice ? 128 + SIGTERM : 0));
        CHECK(line == (twice ? "" : "stopped: everything is saved"));
    }
}
