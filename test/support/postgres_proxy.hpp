//! Stands between a client and a PostgreSQL server, counts round trips and cuts connections where told.
#pragma once

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace waymark::test {

class postgres_proxy {
public:
    //! Listens in `folder`, and forwards to the server whose socket is in `server_folder`.
    postgres_proxy(const std::filesystem::path& folder, const std::filesystem::path& server_folder);
    ~postgres_proxy();

    //! How the next commit goes wrong.
    enum class fault {
        none,
        cut_before,   // the server never hears of it
        cut_after,    // the client never hears of it
        silent_after, // the same, and the connection stays open
        cut_during,   // the client is cut off; the server does not know, and goes on
        held_back,    // the same, and the server hears of it only when it is delivered
    };
    //! `before_cut` runs when the commit is done, or lost.
    void fail_next_commit(fault how, std::function<void()> before_cut = {});
    //! Delivers the commit that was held back, and waits for the server's answer.
    void deliver_held();
    //! From now on, or no more.
    void refuse_connections(bool refuse) { refuses_ = refuse; }

    //! Since the last call. A COMMIT that comes alone ends a transaction that has only read; nobody waits for
    //! the answer, and it is not counted: it may arrive at any time.
    int take_round_trips() { return round_trips_.exchange(0); }
    //! The SQL that was sent since the last call.
    std::vector<std::string> take_statements();
    std::string conninfo() const;

private:
    struct link;

    void accept();
    void read_client(const std::shared_ptr<link>& between);
    void read_server(const std::shared_ptr<link>& between);
    void look_at(link& between, const char* bytes, std::size_t count);
    void finish_fault(link& between);

    std::filesystem::path folder_;
    std::filesystem::path server_folder_;
    asio::io_context io_;
    asio::local::stream_protocol::acceptor acceptor_;
    std::atomic<int> round_trips_ = 0;
    std::atomic<bool> refuses_ = false;
    std::mutex mutex_; // guards what follows
    fault next_fault_ = fault::none;
    std::function<void()> before_cut_;
    std::vector<std::string> statements_;
    std::shared_ptr<link> held_;
    std::thread thread_; // last: it uses the members above
};

} // namespace waymark::test
