#include "postgres_proxy.hpp"

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstdint>
#include <future>
#include <utility>

namespace waymark::test {

using asio::local::stream_protocol;

struct postgres_proxy::link {
    explicit link(asio::io_context& io) : client(io), server(io) {}

    stream_protocol::socket client;
    stream_protocol::socket server;
    std::array<char, 65536> from_client{};
    std::array<char, 65536> from_server{};
    std::string unread;      // the beginning of a message of the client
    bool is_started = false; // the first message has no type
    int executed = 0;        // in the round trip that is being sent
    std::string last_sql;    // that was parsed
    bool commits = false;    // a COMMIT is under way that will fail
    fault how = fault::none;
    std::function<void()> before_cut;
    std::string held; // what the server is not to hear of yet
    std::promise<void> answered;
};

postgres_proxy::postgres_proxy(const std::filesystem::path& folder,
                               const std::filesystem::path& server_folder)
    : folder_(folder),
      server_folder_(server_folder),
      acceptor_(io_, stream_protocol::endpoint((folder / ".s.PGSQL.5432").native()))
{
    accept();
    thread_ = std::thread([this] { io_.run(); });
}

postgres_proxy::~postgres_proxy()
{
    io_.stop();
    thread_.join();
}

std::string postgres_proxy::conninfo() const
{
    return "host=" + folder_.native() + " user=waymark dbname=postgres";
}

void postgres_proxy::fail_next_commit(fault how, std::function<void()> before_cut)
{
    const std::lock_guard lock(mutex_);
    next_fault_ = how;
    before_cut_ = std::move(before_cut);
}

void postgres_proxy::deliver_held()
{
    std::shared_ptr<link> between;
    {
        const std::lock_guard lock(mutex_);
        between = std::move(held_);
    }
    asio::post(io_, [between] {
        std::error_code ignored;
        asio::write(between->server, asio::buffer(between->held), ignored);
    });
    between->answered.get_future().wait();
}

std::vector<std::string> postgres_proxy::take_statements()
{
    const std::lock_guard lock(mutex_);
    return std::exchange(statements_, {});
}

void postgres_proxy::accept()
{
    auto between = std::make_shared<link>(io_);
    acceptor_.async_accept(between->client, [this, between](std::error_code failure) {
        if (failure)
            return;
        if (refuses_)
            return accept();
        std::error_code refused;
        between->server.connect(stream_protocol::endpoint((server_folder_ / ".s.PGSQL.5432").native()),
                                refused);
        if (!refused) {
            read_client(between);
            read_server(between);
        }
        accept();
    });
}

//! Takes the client's messages apart: type, length, content.
void postgres_proxy::look_at(link& between, const char* bytes, std::size_t count)
{
    between.unread.append(bytes, count);
    auto& unread = between.unread;
    for (;;) {
        const std::size_t type = between.is_started ? 1 : 0;
        if (unread.size() < type + 4)
            return;
        std::size_t length = 0;
        for (std::size_t i = 0; i < 4; ++i)
            length = length << 8 | static_cast<unsigned char>(unread[type + i]);
        if (unread.size() < type + length)
            return;
        if (between.is_started && unread[0] == 'E')
            ++between.executed;
        if (between.is_started && unread[0] == 'S') {
            if (between.executed != 1 || between.last_sql != "COMMIT")
                ++round_trips_;
            between.executed = 0;
        }
        if (between.is_started && unread[0] == 'P') { // name, NUL, SQL, NUL
            const auto name_end = unread.find('\0', 5);
            const std::string sql = unread.c_str() + name_end + 1;
            between.last_sql = sql;
            const std::lock_guard lock(mutex_);
            statements_.push_back(sql);
            if (sql == "COMMIT" && next_fault_ != fault::none) {
                between.commits = true;
                between.how = std::exchange(next_fault_, fault::none);
                between.before_cut = std::move(before_cut_);
            }
        }
        between.is_started = true;
        unread.erase(0, type + length);
    }
}

void postgres_proxy::finish_fault(link& between)
{
    if (between.before_cut)
        std::exchange(between.before_cut, {})();
    if (between.how == fault::silent_after)
        return; // and nothing is read any more
    std::error_code ignored;
    between.client.close(ignored);
    between.server.close(ignored);
}

void postgres_proxy::read_client(const std::shared_ptr<link>& between)
{
    between->client.async_read_some(
        asio::buffer(between->from_client), [this, between](std::error_code failure, std::size_t count) {
            std::error_code ignored;
            if (failure) {
                between->server.close(ignored);
                return;
            }
            look_at(*between, between->from_client.data(), count);
            if (between->commits && between->how == fault::cut_before)
                return finish_fault(*between);
            if (between->commits && between->how == fault::held_back) {
                between->held.assign(between->from_client.data(), count);
                {
                    const std::lock_guard lock(mutex_);
                    held_ = between;
                }
                between->client.close(ignored);
                return;
            }
            asio::write(between->server, asio::buffer(between->from_client.data(), count), ignored);
            if (between->commits && between->how == fault::cut_during) {
                between->client.close(ignored);
                return;
            }
            read_client(between);
        });
}

void postgres_proxy::read_server(const std::shared_ptr<link>& between)
{
    between->server.async_read_some(
        asio::buffer(between->from_server), [this, between](std::error_code failure, std::size_t count) {
            std::error_code ignored;
            if (failure) {
                between->client.close(ignored);
                if (!between->held.empty())
                    between->answered.set_value();
                return;
            }
            // The answer to a round trip with a COMMIT comes at once, when that is done.
            if (between->commits) {
                if (!between->held.empty())
                    between->answered.set_value();
                return finish_fault(*between);
            }
            asio::write(between->client, asio::buffer(between->from_server.data(), count), ignored);
            read_server(between);
        });
}

} // namespace waymark::test
