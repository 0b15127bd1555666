//! The example service under 200 connections, killed in the middle.
#include "catch.hpp"
#include "child_process.hpp"
#include "run_coroutine.hpp"
#include "temporary_folder.hpp"

#include <asio/connect.hpp>
#include <asio/detached.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <optional>

using namespace waymark;
namespace json = boost::json;
using asio::ip::tcp;

namespace {

constexpr int clients = 200;

class running_service {
public:
    explicit running_service(const std::filesystem::path& file)
        : process_({WAYMARK_CHAT_SERVICE, file.native()})
    {
        std::string line;
        const std::string begin = "listening on 127.0.0.1:";
        if (!process_.read_line(line) || !line.starts_with(begin))
            throw std::runtime_error("the service did not start: " + line);
        port_ = static_cast<std::uint16_t>(std::stoi(line.substr(begin.size())));
    }

    tcp::endpoint endpoint() const { return {asio::ip::address_v4::loopback(), port_}; }
    void kill() { process_.kill(); }

private:
    test::child_process process_;
    std::uint16_t port_ = 0;
};

class client {
public:
    client(asio::io_context& io, int number) : socket_(io), chat_("chat-" + std::to_string(number)) {}

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
