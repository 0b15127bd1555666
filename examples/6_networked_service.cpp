//! A chat service on several threads. Each conversation is an agent; all of them save through one
//! async_store. What a client saw acknowledged is there after `kill -9`.
//!
//!     6_networked_service FILE [PORT [THREADS]]     PORT 0, the default, takes a free one and prints it
//!
//! A request is a line of JSON, and so is each answer:
//!
//!     {"chat": "trip-1", "say": "Hello"}  ->  {"chat": "trip-1", "turn": 1, "reply": "…", "checkpoint": "…"}
//!     {"chat": "trip-1"}                  ->  {"chat": "trip-1", "turn": 1, "messages": ["Hello", "…"]}
//!     anything else                       ->  {"error": "…"}
//!
//! Each connection and each conversation has a strand of its own. Lines, connections, conversations in memory
//! and all waiting are bounded. SIGTERM and SIGINT end the service gracefully: turns that are under way are
//! finished, new ones are refused, and what was handed to the store is saved. A second signal ends it at
//! once.
//!
//! It has no authentication and no encryption: it listens on the loopback interface and nowhere else. Whoever
//! reaches it can read and continue every chat.
#include <waymark/waymark.hpp>

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace asio::experimental::awaitable_operators;
using namespace std::chrono_literals;
namespace json = boost::json;
using asio::ip::tcp;

constexpr std::size_t max_line_bytes = 65'536;
constexpr std::size_t max_connections = 256;
constexpr std::size_t max_chats = 4'096; // in memory; the store may hold any number
constexpr auto max_idle = 5min;          // for a client to send its next request, or to read an answer
constexpr auto max_wait = 5s;            // for the store
constexpr auto max_stop = 15s;           // for the graceful end: longer than the busy time-out

json::object refusal(std::string_view why)
{
    json::object answer;
    answer["error"] = why;
    return answer;
}

//! Succeeds in any case: `||` ends with the first success, and where an operation fails would wait for the
//! timer.
template <class T>
asio::awaitable<void> keep_outcome(asio::awaitable<T> operation, T& result, std::exception_ptr& failure)
{
    try {
        result = co_await std::move(operation);
    } catch (...) {
        failure = std::current_exception();
    }
}

//! Waits for an operation, and cancels it when it takes too long. Ends with its result or exception.
template <class T>
asio::awaitable<T> within(asio::steady_timer::duration longest, asio::steady_timer& timer,
                          asio::awaitable<T> operation)
{
    T result{};
    std::exception_ptr failure;
    timer.expires_after(longest);
    co_await (keep_outcome(std::move(operation), result, failure) || timer.async_wait(asio::use_awaitable));
    if (failure)
        std::rethrow_exception(failure);
    co_return result;
}

//! One conversation, which any number of connections may use. Everything but the constructor and
//! `get_executor` belongs on its strand.
class chat {
public:
    chat(asio::any_io_executor strand, waymark::async_store& store, const std::string& id)
        : session_(std::move(strand), store, id, waymark::session_options().exclusive())
    {
    }

    asio::any_io_executor get_executor() const { return session_.get_executor(); }

    asio::awaitable<json::object> answer(json::object request)
    {
        if (std::exchange(busy_, true)) // others get the strand while this one waits for the store
            co_return refusal("another client's turn is running; try again");
        json::object answer;
        try {
            if (!loaded_)
                co_await load();
            if (const auto* said = request.if_contains("say"))
                answer = co_await say(std::string(said->as_string()));
            else
                answer = show();
        } catch (const waymark::error& failure) {
            if (failure.code() == waymark::errc::outcome_unknown)
                answer = refusal("it is not known yet whether this turn is saved; ask for the chat to see");
            else
                answer = refusal(failure.what());
        } catch (const std::exception& failure) {
            answer = refusal(failure.what());
        }
        busy_ = false;
        co_return answer;
    }

private:
    //! Comes after all saves of the session, also after one that is still under way when its client has been
    //! told that its outcome is not known.
    asio::awaitable<void> load()
    {
        auto resume = session_.async_resume(waymark::resume_options().repair(),
                                            waymark::with_diagnostics(asio::use_awaitable));
        const auto head = co_await within(max_wait, timer_, std::move(resume));
        messages_ = head ? head->conversation() : waymark::conversation();
        turn_ = head ? head->iteration() : 0;
        loaded_ = true;
    }

    //! Completes when the turn is durable. However it fails, the next request loads what is there.
    asio::awaitable<json::object> say(std::string text)
    {
        auto next = messages_;
        next.push(waymark::message::user(text));
        const auto reply = "You said: " + text; // where a model would be asked
        next.push(waymark::message::assistant(reply));
        auto save = session_.async_checkpoint("turn", turn_ + 1, next,
                                              waymark::with_diagnostics(asio::use_awaitable));
        loaded_ = false;
        const auto saved = co_await within(max_wait, timer_, std::move(save));
        loaded_ = true;
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
            list.emplace_back(message.text());
        return answer;
    }

    waymark::session session_;
    asio::steady_timer timer_{session_.get_executor()};
    waymark::conversation messages_;
    std::int64_t turn_ = 0;
    bool loaded_ = false;
    bool busy_ = false;
};

//! Lines that come and go. On a strand of its own.
class connection {
public:
    explicit connection(tcp::socket socket) : socket_(std::move(socket)), timer_(socket_.get_executor()) {}

    asio::awaitable<std::string> receive()
    {
        auto read = asio::async_read_until(socket_, asio::dynamic_buffer(buffer_, max_line_bytes), '\n',
                                           asio::use_awaitable);
        const auto length = co_await within(max_idle, timer_, std::move(read));
        auto line = buffer_.substr(0, length - 1);
        buffer_.erase(0, length);
        co_return line;
    }

    asio::awaitable<void> send(json::object answer)
    {
        const auto line = json::serialize(answer) + "\n";
        auto write = asio::async_write(socket_, asio::buffer(line), asio::use_awaitable);
        co_await within(max_idle, timer_, std::move(write));
    }

private:
    tcp::socket socket_;
    asio::steady_timer timer_;
    std::string buffer_;
};

class service {
public:
    service(asio::io_context& io, const std::string& file, std::uint16_t port)
        : io_(io),
          store_(io.get_executor(), std::make_shared<waymark::sqlite_store>(file),
                 waymark::async_options().with_pool(blocking_work_.get_executor())),
          acceptor_(asio::make_strand(io), tcp::endpoint(asio::ip::address_v4::loopback(), port)),
          signals_(acceptor_.get_executor(), SIGINT, SIGTERM),
          no_turn_(acceptor_.get_executor(), asio::steady_timer::time_point::max())
    {
    }

    asio::any_io_executor get_executor() { return acceptor_.get_executor(); }
    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

    //! Serves until a signal comes, and completes when everything is saved. Belongs on `get_executor()`.
    asio::awaitable<void> run()
    {
        co_await (accept() || signals_.async_wait(asio::use_awaitable));
        signals_.clear(); // a second one ends the process at once
        std::thread(end_by_force).detach();
        acceptor_.close();
        stopping_ = true;
        std::cout << "stopping: turns under way are finished, new ones are refused" << std::endl;
        std::error_code cancelled;
        if (turns_ > 0)
            co_await no_turn_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        co_await store_.async_flush(); // also saves that took too long for their clients
    }

private:
    //! Not on a timer of the service: what hangs may be its threads, or the disk when the store is closed.
    static void end_by_force()
    {
        std::this_thread::sleep_for(max_stop);
        std::cerr << "error: not everything ended in time; what clients saw acknowledged is saved\n";
        std::_Exit(1);
    }

    asio::awaitable<void> accept()
    {
        asio::steady_timer pause(acceptor_.get_executor());
        for (;;) {
            const asio::any_io_executor strand = asio::make_strand(io_);
            std::error_code failure;
            auto socket =
                co_await acceptor_.async_accept(strand, asio::redirect_error(asio::use_awaitable, failure));
            if (!failure) {
                asio::co_spawn(strand, serve(std::move(socket)), asio::detached);
            } else { // too many open files, say: that passes
                pause.expires_after(100ms);
                co_await pause.async_wait(asio::use_awaitable);
            }
        }
    }

    asio::awaitable<void> serve(tcp::socket socket)
    {
        connection client(std::move(socket));
        bool in_turn = false;
        try {
            if (++connections_ <= max_connections)
                co_await converse(client, in_turn);
            else
                co_await client.send(refusal("too many connections; try again later"));
        } catch (const std::exception&) {
            // The client is gone or too slow, or its line too long: either way, there is nobody to talk to.
        }
        if (in_turn)
            end_turn();
        --connections_;
    }

    asio::awaitable<void> converse(connection& client, bool& in_turn)
    {
        for (;;) {
            const auto line = co_await client.receive();
            auto answer = refusal("the service is stopping; nothing was changed; try again later");
            in_turn = begin_turn();
            if (in_turn)
                answer = co_await answer_to(line);
            co_await client.send(std::move(answer));
            if (std::exchange(in_turn, false))
                end_turn();
        }
    }

    asio::awaitable<json::object> answer_to(std::string line)
    {
        json::object answer;
        try {
            json::error_code bad;
            const auto request = json::parse(line, bad);
            if (bad || !request.is_object())
                throw std::runtime_error("a request is a line with a JSON object");
            const std::string id(request.at("chat").as_string());
            const auto found = find_chat(id);
            auto turn = found->answer(request.get_object());
            answer = co_await asio::co_spawn(found->get_executor(), std::move(turn), asio::use_awaitable);
            if (!answer.contains("error"))
                answer["chat"] = id;
        } catch (const std::exception& failure) {
            answer = refusal(failure.what());
        }
        co_return answer;
    }

    // What follows is called on many strands.

    std::shared_ptr<chat> find_chat(const std::string& id)
    {
        const std::lock_guard lock(chats_mutex_); // never held while a coroutine waits
        if (const auto found = chats_.find(id); found != chats_.end())
            return found->second;
        if (chats_.size() >= max_chats) // forgets those that nobody is using
            std::erase_if(chats_, [](const auto& entry) { return entry.second.use_count() == 1; });
        return chats_.emplace(id, std::make_shared<chat>(asio::make_strand(io_), store_, id)).first->second;
    }

    //! False if the service is stopping. It counts first and looks then, and `run` does the reverse.
    bool begin_turn()
    {
        ++turns_;
        if (!stopping_)
            return true;
        end_turn();
        return false;
    }

    void end_turn()
    {
        if (--turns_ == 0 && stopping_)
            asio::post(acceptor_.get_executor(), [this] { no_turn_.cancel(); });
    }

    asio::io_context& io_;
    asio::thread_pool blocking_work_{4}; // of the service; the store uses it, and other things may, too
    waymark::async_store store_;
    tcp::acceptor acceptor_;
    asio::signal_set signals_;
    asio::steady_timer no_turn_; // never expires; is cancelled when the last turn has ended
    std::mutex chats_mutex_;
    std::map<std::string, std::shared_ptr<chat>> chats_;
    std::atomic<std::size_t> connections_ = 0;
    std::atomic<std::size_t> turns_ = 0; // under way
    std::atomic<bool> stopping_ = false;
};

//! Returns when the service has been stopped and the store is closed.
void run_service(const std::string& file, std::uint16_t port, int threads)
{
    asio::io_context io(threads);
    service chats(io, file, port);
    std::cout << "listening on 127.0.0.1:" << chats.port() << ", without authentication" << std::endl;
    std::exception_ptr failure;
    asio::co_spawn(chats.get_executor(), chats.run(), [&](std::exception_ptr thrown) {
        failure = thrown;
        io.stop(); // connections that wait for a request end with it
    });
    {
        std::vector<std::jthread> others;
        for (int i = 1; i < threads; ++i)
            others.emplace_back([&io] { io.run(); });
        io.run();
    }
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 2 || argc > 4) {
        std::cerr << "usage: 6_networked_service FILE [PORT [THREADS]]\n";
        return 2;
    }
    try {
        const int port = argc > 2 ? std::stoi(argv[2]) : 0;
        const int threads =
            argc > 3 ? std::stoi(argv[3]) : static_cast<int>(std::thread::hardware_concurrency());
        run_service(argv[1], static_cast<std::uint16_t>(port), std::max(threads, 1));
        std::cout << "stopped: everything is saved" << std::endl;
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
