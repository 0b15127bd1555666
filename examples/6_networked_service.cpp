//! A chat service: one coroutine for each connection, each conversation an agent, all saves through one
//! async_store. What a client saw acknowledged is there after `kill -9`.
//!
//!     6_networked_service FILE [PORT]     PORT 0, the default, takes a free one and prints it
//!
//! A request is a line of JSON, and so is each answer:
//!
//!     {"chat": "trip-1", "say": "Hello"}  ->  {"chat": "trip-1", "turn": 1, "reply": "…", "checkpoint": "…"}
//!     {"chat": "trip-1"}                  ->  {"chat": "trip-1", "turn": 1, "messages": ["Hello", "…"]}
//!     anything else                       ->  {"error": "…"}
//!
//! Lines, connections and idle time are bounded. It has no authentication and no encryption: it listens on
//! the loopback interface and nowhere else. Whoever reaches it can read and continue every chat.
#include <waymark/waymark.hpp>

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string_view>

namespace {

namespace json = boost::json;
using asio::ip::tcp;

constexpr std::size_t max_line_bytes = 65'536;
constexpr std::chrono::minutes max_idle(5);
constexpr std::size_t max_connections = 256;
constexpr std::string_view too_many = "{\"error\":\"too many connections; try again later\"}\n";

//! One conversation that is being used. It goes when the last connection that uses it goes.
class chat {
public:
    chat(waymark::async_store& store, const std::string& id) : session_(store, id) {}

    //! False if someone else's turn is running.
    bool try_lock() noexcept { return !std::exchange(busy_, true); }
    void unlock() noexcept { busy_ = false; }

    asio::awaitable<void> load()
    {
        if (loaded_)
            co_return;
        if (const auto head = co_await session_.async_resume(waymark::resume_options().repair())) {
            messages_ = head->conversation();
            turn_ = head->iteration();
        }
        loaded_ = true;
    }

    //! Completes when the turn is durable. If it fails, the conversation is as it was.
    asio::awaitable<json::object> say(std::string text)
    {
        auto next = messages_;
        next.push(waymark::message::user(text));
        const auto reply = "You said: " + text; // where a model would be asked
        next.push(waymark::message::assistant(reply));
        const auto saved = co_await session_.async_checkpoint("turn", turn_ + 1, next);
        messages_ = next;
        ++turn_;
        json::object answer;
        answer["turn"] = turn_;
        answer["reply"] = reply;
        answer["checkpoint"] = saved.id();
        co_return answer;
    }

    json::object show() const
    {
        json::object answer;
        answer["turn"] = turn_;
        auto& list = answer["messages"].emplace_array();
        for (const auto& message : messages_)
            list.emplace_back(message.content());
        return answer;
    }

private:
    waymark::session session_;
    waymark::conversation messages_;
    std::int64_t turn_ = 0;
    bool loaded_ = false;
    bool busy_ = false;
};

class service {
public:
    service(asio::io_context& io, const std::string& file, std::uint16_t port)
        : store_(io.get_executor(), std::make_shared<waymark::sqlite_store>(file),
                 waymark::async_options().with_pool(blocking_work_.get_executor())),
          acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), port)),
          pause_(io)
    {
    }

    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

    //! Accepts connections, one after the other, each of which gets a coroutine of its own.
    void accept()
    {
        acceptor_.async_accept([this](std::error_code failure, tcp::socket socket) {
            if (failure) { // too many open files, say: that passes
                std::cerr << "not accepted: " << failure.message() << '\n';
                pause_.expires_after(std::chrono::milliseconds(100));
                pause_.async_wait([this](std::error_code) { accept(); });
                return;
            }
            if (connections_ >= max_connections) {
                std::error_code ignored; // the client learns it, or is gone
                asio::write(socket, asio::buffer(too_many), ignored);
            } else {
                asio::co_spawn(acceptor_.get_executor(),
                               serve(std::make_shared<tcp::socket>(std::move(socket))), asio::detached);
            }
            accept();
        });
    }

private:
    asio::awaitable<void> serve(std::shared_ptr<tcp::socket> socket)
    {
        ++connections_;
        std::shared_ptr<chat> last; // a connection keeps one conversation in memory
        std::string buffer;
        asio::steady_timer idle(socket->get_executor());
        try {
            for (;;) {
                idle.expires_after(
                    max_idle); // for the next request to come, and the answer before it to be read
                idle.async_wait([weak = std::weak_ptr(socket)](std::error_code cancelled) {
                    if (const auto open = weak.lock(); open && !cancelled)
                        open->close();
                });
                const auto length = co_await asio::async_read_until(
                    *socket, asio::dynamic_buffer(buffer, max_line_bytes), '\n', asio::use_awaitable);
                const auto line = buffer.substr(0, length - 1);
                buffer.erase(0, length);
                auto answer = json::serialize(co_await answer_to(line, last)) + "\n";
                co_await asio::async_write(*socket, asio::buffer(answer), asio::use_awaitable);
            }
        } catch (const std::exception&) {
            // The client is gone, or its line too long: either way, there is nobody to talk to.
        }
        --connections_;
    }

    asio::awaitable<json::object> answer_to(std::string line, std::shared_ptr<chat>& last)
    {
        json::object answer;
        std::shared_ptr<chat> locked;
        try {
            json::error_code bad;
            const auto request = json::parse(line, bad);
            if (bad || !request.is_object())
                throw std::runtime_error("a request is a line with a JSON object");
            const std::string id(request.at("chat").as_string());
            last = find_chat(id);
            if (!last->try_lock())
                throw std::runtime_error("another client's turn is running; try again");
            locked = last;
            co_await locked->load();
            if (const auto* said = request.as_object().if_contains("say"))
                answer = co_await locked->say(std::string(said->as_string()));
            else
                answer = locked->show();
            answer["chat"] = id;
        } catch (const std::exception& failure) {
            answer.clear();
            answer["error"] = failure.what();
        }
        if (locked)
            locked->unlock();
        co_return answer;
    }

    //! Two connections that use one conversation share it.
    std::shared_ptr<chat> find_chat(const std::string& id)
    {
        std::erase_if(chats_, [](const auto& entry) { return entry.second.expired(); });
        if (auto found = chats_[id].lock())
            return found;
        auto made = std::make_shared<chat>(store_, id);
        chats_[id] = made;
        return made;
    }

    asio::thread_pool blocking_work_{2}; // of the service; the store uses it, and other things may, too
    waymark::async_store store_;
    tcp::acceptor acceptor_;
    asio::steady_timer pause_;
    std::map<std::string, std::weak_ptr<chat>> chats_;
    std::size_t connections_ = 0;
};

} // namespace

int main(int argc, char** argv)
{
    if (argc < 2 || argc > 3) {
        std::cerr << "usage: 6_networked_service FILE [PORT]\n";
        return 2;
    }
    try {
        asio::io_context io;
        service chats(io, argv[1], static_cast<std::uint16_t>(argc > 2 ? std::stoi(argv[2]) : 0));
        asio::signal_set signals(io, SIGINT, SIGTERM);
        signals.async_wait([&](std::error_code failure, int) {
            if (!failure)
                io.stop(); // what is being saved is finished when the store goes
        });
        chats.accept();
        std::cout << "listening on 127.0.0.1:" << chats.port() << ", without authentication" << std::endl;
        io.run();
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
