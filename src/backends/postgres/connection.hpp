//! A connection to a PostgreSQL server. Statements are added up and sent together: one round trip for all.
#pragma once

#include <waymark/error.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct pg_conn;
struct pg_result;

namespace waymark::postgres {

//! What a connection is opened with.
class connection_settings {
public:
    //! @throws waymark::error `invalid_argument`; the text itself is never shown, it may hold a password.
    connection_settings(const std::string& conninfo, std::string schema,
                        std::chrono::milliseconds connect_timeout, std::chrono::milliseconds answer_timeout,
                        bool names_statements);

    //! For libpq, in its order.
    const std::vector<std::pair<std::string, std::string>>& words() const noexcept { return words_; }
    const std::string& schema() const noexcept { return schema_; }
    //! How long a server may take for the next answer.
    std::chrono::milliseconds answer_timeout() const noexcept { return answer_timeout_; }
    bool names_statements() const noexcept { return names_statements_; }
    //! Whether a server is there that takes connections, though it may have refused ours: waiting is no use.
    bool are_refused() const;

    //! A message without the passwords that are in the settings.
    std::string without_secrets(std::string message) const;

private:
    std::vector<std::pair<std::string, std::string>> words_;
    std::vector<std::string> secrets_;
    std::string schema_;
    std::chrono::milliseconds answer_timeout_;
    bool names_statements_;
};

//! The name as an identifier in SQL.
std::string quoted_name(std::string_view name);
//! SQL that names tables as `waymark.agents`, for another schema.
std::string in_schema(std::string sql, std::string_view schema);

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
    //! Whether the same transaction may well succeed in a moment, perhaps on another connection.
    bool is_transient() const noexcept;

private:
    std::string sqlstate_;
    bool is_connection_lost_;
};

//! A statement with its parameters. The text is a literal and names tables as `waymark.agents`; the schema is
//! put in their place.
class query {
public:
    explicit query(const char* sql) noexcept : sql_(sql) {}

    query& add(std::int64_t number);
    query& add_flag(bool flag);
    query& add(std::string_view text);
    query& add(const std::string& text) { return add(std::string_view(text)); }
    query& add(const std::optional<std::string>& text);
    query& add_bytes(std::string_view bytes);
    query& add_bytes(const std::string& bytes) { return add_bytes(std::string_view(bytes)); }
    query& add_bytes(const std::optional<std::string>& bytes);
    query& add_list(std::span<const std::int64_t> numbers);

    const char* sql() const noexcept { return sql_; }
    std::size_t bytes() const noexcept { return buffer_.size(); }

private:
    friend class connection;

    struct parameter {
        unsigned type;
        std::size_t begin;
        int length; // -1: null
    };
    query& append(unsigned type, std::string_view bytes);

    const char* sql_;
    std::string buffer_;
    std::vector<parameter> parameters_;
};

//! What a statement returned.
class rows {
public:
    explicit rows(pg_result* result) noexcept : result_(result) {}

    int size() const noexcept;
    std::int64_t number(int row, int column) const;
    bool flag(int row, int column) const;
    std::string text(int row, int column) const;
    std::optional<std::string> optional_text(int row, int column) const;
    //! How many rows were changed.
    std::int64_t changes() const;
    //! What was done: "COMMIT".
    std::string_view tag() const;
    const pg_result* get() const noexcept { return result_.get(); }

private:
    struct clear {
        void operator()(pg_result* result) const noexcept;
    };
    std::unique_ptr<pg_result, clear> result_;
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
    void add(query next);
    //! Sends what was added and waits for all answers. When one fails, the server has skipped those behind
    //! it.
    //! @throws database_error
    std::vector<rows> run();
    //! The same for one statement.
    rows run(query only);
    //! Sends what was added; whether it worked shows when the connection is used again.
    void send();

    //! Several statements without parameters, outside of a round trip of the kind above.
    void run_script(const std::string& sql);

    bool is_in_failed_transaction() const noexcept;
    //! Undoes the transaction that is open, if there is one. False if the connection is of no use any more.
    bool roll_back() noexcept;
    //! Server warnings that came with the last run, by SQLSTATE.
    const std::vector<std::string>& warnings() const noexcept { return warnings_; }
    std::string parameter(const char* name) const;
    const std::string& schema() const noexcept { return settings_.schema(); }

private:
    struct statement {
        std::string text;
        std::string name;
        bool is_sent = false; // to be parsed, and not answered yet
        bool is_prepared = false;
    };
    enum class part { parse, execute };

    statement& look_up(const char* sql);
    void enqueue(const query& next);
    void sync();
    rows receive();
    std::vector<rows> collect();
    void wait_for_input();
    void wait_until_sent();
    std::chrono::steady_clock::time_point answer_deadline() const;
    void wait(short events, std::chrono::steady_clock::time_point& deadline);
    void settle();
    [[noreturn]] void lose(const std::string& why);
    [[noreturn]] void fail(const rows& failed) const;

    const connection_settings& settings_;
    pg_conn* connection_ = nullptr;
    std::unordered_map<const char*, statement> statements_;
    std::vector<query> added_;
    struct expected {
        part what;
        statement* of;
    };
    std::vector<expected> expected_; // answers that will come, before the end of the round trip
    bool is_answer_due_ = false;
    const statement* last_parsed_ = nullptr;
    std::vector<std::string> warnings_;
    bool is_lost_ = false;
};

} // namespace waymark::postgres
