//! SQLite's connections and statements as objects. Every return code is looked at.
#pragma once

#include <waymark/error.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

struct sqlite3;
struct sqlite3_stmt;

namespace waymark::sqlite {

//! An error of SQLite as one of ours: busy, corrupt, io … `what` is what was tried.
class database_error : public error {
public:
    database_error(sqlite3* db, int code, std::string_view what);

    //! SQLite's extended code.
    int sqlite_code() const noexcept { return sqlite_code_; }
    int primary_code() const noexcept { return sqlite_code_ & 0xff; }

private:
    int sqlite_code_;
};

class connection;

//! A prepared statement while it is in use. Bound text must outlive it.
class statement {
public:
    statement(connection& db, sqlite3_stmt* prepared) noexcept : db_(db), prepared_(prepared) {}
    statement(const statement&) = delete;
    statement& operator=(const statement&) = delete;
    //! Ready for the next use.
    ~statement();

    //! Binds the next parameter.
    statement& bind(std::int64_t number);
    statement& bind(std::string_view text);
    statement& bind(const std::string& text) { return bind(std::string_view(text)); }
    statement& bind(const std::optional<std::string>& text);
    statement& bind_null();
    statement& bind_blob(std::string_view bytes);

    //! False when there is no (further) row. @throws database_error
    bool step();
    //! For statements without rows.
    void run();

    std::int64_t number(int column) const noexcept;
    std::string text(int column) const;
    std::optional<std::string> optional_text(int column) const;

private:
    void check(int code);

    connection& db_;
    sqlite3_stmt* prepared_;
    int next_ = 1;
};

//! One connection, for one thread at a time. Statements are kept by the address of their (literal) text.
class connection {
public:
    //! @throws database_error
    connection(const std::string& path, int flags);
    connection(connection&& other) noexcept = delete;
    ~connection();

    sqlite3* get() const noexcept { return db_; }

    statement use(const char* sql);
    //! Runs SQL that has no parameters and whose rows do not matter.
    void run(const char* sql);
    //! The first column of the first row.
    std::int64_t number(const char* sql);
    std::string text(const char* sql);

    bool in_transaction() const noexcept;

private:
    sqlite3* db_ = nullptr;
    std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

//! Undoes the transaction unless it was committed; never throws.
class sql_transaction {
public:
    sql_transaction(connection& db, const char* begin);
    sql_transaction(const sql_transaction&) = delete;
    sql_transaction& operator=(const sql_transaction&) = delete;
    ~sql_transaction();

    void commit();

private:
    connection& db_;
};

} // namespace waymark::sqlite
