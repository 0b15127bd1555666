#include "connection.hpp"

#include <sqlite3.h>
#include <utility>

namespace waymark::sqlite {

namespace {

std::error_code to_code(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return errc::busy;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return errc::corrupt;
    case SQLITE_NOMEM:
        return std::make_error_code(std::errc::not_enough_memory);
    case SQLITE_TOOBIG:
        return errc::invalid_argument;
    default:
        return errc::io;
    }
}

std::string to_text(sqlite3* db, int code, std::string_view what)
{
    std::string text(what);
    text += ": ";
    if (db != nullptr && sqlite3_extended_errcode(db) == code)
        text += sqlite3_errmsg(db);
    else
        text += sqlite3_errstr(code);
    text += " (SQLite code " + std::to_string(code) + ")";
    switch (code & 0xff) {
    case SQLITE_FULL:
        return text + "; make room and try again";
    case SQLITE_BUSY:
        return text + "; another process writes for too long";
    case SQLITE_READONLY:
        return text + "; check who owns the file and its folder";
    default:
        return text;
    }
}

} // namespace

database_error::database_error(sqlite3* db, int code, std::string_view what)
    : error(to_code(code), to_text(db, code, what)), sqlite_code_(code)
{
}

// statement

statement::~statement()
{
    sqlite3_reset(prepared_); // its result repeats an error that step() reported
    sqlite3_clear_bindings(prepared_);
}

void statement::check(int code)
{
    if (code != SQLITE_OK)
        throw database_error(db_.get(), code, "a value could not be bound");
}

statement& statement::bind(std::int64_t number)
{
    check(sqlite3_bind_int64(prepared_, next_++, number));
    return *this;
}

statement& statement::bind(std::string_view text)
{
    check(sqlite3_bind_text64(prepared_, next_++, text.data() == nullptr ? "" : text.data(), text.size(),
                              SQLITE_STATIC, SQLITE_UTF8));
    return *this;
}

statement& statement::bind(const std::optional<std::string>& text)
{
    return text ? bind(std::string_view(*text)) : bind_null();
}

statement& statement::bind_null()
{
    check(sqlite3_bind_null(prepared_, next_++));
    return *this;
}

statement& statement::bind_blob(std::string_view bytes)
{
    check(sqlite3_bind_blob64(prepared_, next_++, bytes.data() == nullptr ? "" : bytes.data(), bytes.size(),
                              SQLITE_STATIC));
    return *this;
}

bool statement::step()
{
    switch (const auto code = sqlite3_step(prepared_)) {
    case SQLITE_ROW:
        return true;
    case SQLITE_DONE:
        return false;
    default:
        throw database_error(db_.get(), code, sqlite3_sql(prepared_));
    }
}

void statement::run()
{
    while (step()) {
    }
}

std::int64_t statement::number(int column) const noexcept
{
    return sqlite3_column_int64(prepared_, column);
}

std::string statement::text(int column) const
{
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(prepared_, column));
    const auto size = sqlite3_column_bytes(prepared_, column);
    if (bytes == nullptr && size == 0) {
        if (sqlite3_errcode(db_.get()) == SQLITE_NOMEM)
            throw std::bad_alloc();
        return {};
    }
    return {bytes, static_cast<std::size_t>(size)};
}

std::optional<std::string> statement::optional_text(int column) const
{
    if (sqlite3_column_type(prepared_, column) == SQLITE_NULL)
        return std::nullopt;
    return text(column);
}

// connection

connection::connection(const std::string& path, int flags)
{
    const auto code =
        sqlite3_open_v2(path.c_str(), &db_, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    if (code == SQLITE_OK)
        return;
    const database_error failure(db_, code, "'" + path + "' could not be opened");
    sqlite3_close_v2(db_);
    throw failure; // NOLINT(cert-err09-cpp,cert-err61-cpp): made while the handle was open
}

connection::~connection()
{
    for (const auto& [sql, prepared] : statements_)
        sqlite3_finalize(prepared);
    sqlite3_close_v2(db_);
}

statement connection::use(const char* sql)
{
    auto& prepared = statements_[sql];
    if (prepared == nullptr) {
        const auto code = sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
        if (code != SQLITE_OK)
            throw database_error(db_, code, sql);
    }
    return {*this, prepared};
}

void connection::run(const char* sql)
{
    const auto code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK)
        throw database_error(db_, code, sql);
}

// A statement that writes, such as PRAGMA journal_mode, does so at its end, behind its row. Leaving it before
// that would let SQLite do it in the destructor, where nobody sees it fail.

std::int64_t connection::number(const char* sql)
{
    auto found = use(sql);
    if (!found.step())
        return 0;
    const auto value = found.number(0);
    found.run();
    return value;
}

std::string connection::text(const char* sql)
{
    auto found = use(sql);
    if (!found.step())
        return {};
    auto value = found.text(0);
    found.run();
    return value;
}

bool connection::in_transaction() const noexcept
{
    return sqlite3_get_autocommit(db_) == 0;
}

// sql_transaction

sql_transaction::sql_transaction(connection& db, const char* begin) : db_(db)
{
    db_.use(begin).run();
}

void sql_transaction::commit()
{
    db_.use("COMMIT").run();
}

sql_transaction::~sql_transaction()
{
    if (!db_.in_transaction())
        return;
    try {
        db_.use("ROLLBACK").run();
    } catch (...) { // NOLINT(bugprone-empty-catch): SQLite undoes it when the connection closes
    }
}

} // namespace waymark::sqlite
