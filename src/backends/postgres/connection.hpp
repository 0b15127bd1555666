//! A connection to a PostgreSQL server. Statements are added up and sent together: one round trip for all.
#pragma once

#include "connection_settings.hpp"
#include "statement.hpp"

#include <waymark/error.hpp>

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

struct pg_conn;

namespace waymark::postgres {

//! An error of the server, or of the connection to it.
class database_error : public error {
public:
    //! The server has answered.
    database_error(errc code, const std::string& message, std::string sqlstate, bool is_fatal);
    //! It has not, and will not.
    explicit database_error(const std::string& message);

    //! Five characters; empty if the connection was lost.
    const std::string& sqlstate() const noexcept { return sqlstate_; }
    bool is_connection_lost() const noexcept { return is_connection_lost_; }
    //! Whether another connection may do better: it was lost, its server only reads and another host may be
    //! the primary now, or it does not have the statements that were prepared on it.
    bool is_connection_useless() const noexcept;
    //! Whether the same transaction may well succeed in a moment, perhaps on another connection.
    bool is_transient() const noexcept;
    //! Whether the connection had been idle, and was of no use when it was taken again: a new one may do.
    bool is_of_old_connection() const noexcept { return is_of_old_connection_; }

private:
    friend class connection;

    std::string sqlstate_;
    bool is_connection_lost_;
    bool is_of_old_connection_ = false;
};

//! One connection, for one thread at a time.
class connection {
public:
    //! @throws database_error
    explicit connection(const connection_settings& settings);
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection();

    //! A statement for the next round trip.
    void add(statement next);
    //! Sends what was added and waits for all answers. When one fails, the server has skipped those behind
    //! it.
    //! @throws database_error
    std::vector<rows> run();
    //! The same for one statement.
    rows run(statement only);
    //! Sends what was added; whether it worked shows when the connection is used again.
    void send();

    //! Several statements without parameters, outside of a round trip of the kind above.
    void run_script(const std::string& sql);

    //! How long the server may take for the next answer, from now on.
    void set_answer_timeout(std::chrono::milliseconds timeout) noexcept { answer_timeout_ = timeout; }

    bool is_in_failed_transaction() const noexcept;
    //! Undoes the transaction that is open, if there is one. False if the connection is of no use any more.
    bool roll_back() noexcept;
    //! Server warnings that came with the last run, by SQLSTATE.
    const std::vector<std::string>& warnings() const noexcept { return warnings_; }
    //! It is not new any more: its server may have gone while nobody looked.
    void set_idle() noexcept { was_idle_ = true; }
    std::string parameter(const char* name) const;
    const std::string& schema() const noexcept { return settings_.schema(); }

private:
    struct parsed_statement {
        std::string text;
        std::string name;
        bool is_sent = false; // to be parsed, and not answered yet
        bool is_prepared = false;
    };
    enum class part { parse, execute };

    parsed_statement& look_up(const char* sql);
    void enqueue(const statement& next);
    void sync();
    rows receive();
    std::vector<rows> collect();
    void wait_for_input();
    void wait_until_sent();
    std::chrono::steady_clock::time_point answer_deadline() const;
    void wait(short events, std::chrono::steady_clock::time_point& deadline);
    void settle();
    [[noreturn]] void lose(const std::string& why);
    [[noreturn]] void fail(const rows& failed);
    [[noreturn]] void fail(database_error failure);

    const connection_settings& settings_;
    std::chrono::milliseconds answer_timeout_ = settings_.answer_timeout();
    pg_conn* connection_;
    std::unordered_map<const char*, parsed_statement> statements_;
    std::vector<statement> added_;
    struct expected {
        part what;
        parsed_statement* of;
    };
    std::vector<expected> expected_; // answers that will come, before the end of the round trip
    bool is_answer_due_ = false;
    const parsed_statement* last_parsed_ = nullptr;
    std::vector<std::string> warnings_;
    bool is_lost_ = false;
    bool is_useless_ = false;
    bool was_idle_ = false;
};

} // namespace waymark::postgres
