//! SQLite as a program without Waymark would use it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <string_view>

namespace waymark::bench {

class sqlite_handle {
public:
    explicit sqlite_handle(const std::filesystem::path& file)
    {
        const auto code = sqlite3_open(file.c_str(), &db_);
        if (code != SQLITE_OK) {
            const std::string why = sqlite3_errmsg(db_);
            sqlite3_close(db_);
            throw std::runtime_error(why);
        }
    }
    sqlite_handle(const sqlite_handle&) = delete;
    sqlite_handle& operator=(const sqlite_handle&) = delete;
    ~sqlite_handle() { sqlite3_close(db_); }

    sqlite3* get() const noexcept { return db_; }

    void run(const std::string& sql)
    {
        if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(db_));
    }

    //! `full`, `relaxed`: with a write-ahead log; `default`: whatever SQLite does.
    void set_durability(const std::string& level)
    {
        if (level != "default")
            run("PRAGMA journal_mode = WAL; PRAGMA synchronous = " +
                std::string(level == "full" ? "FULL" : "NORMAL"));
    }

private:
    sqlite3* db_ = nullptr;
};

class sqlite_statement {
public:
    sqlite_statement(const sqlite_handle& db, const char* sql) : db_(db)
    {
        if (sqlite3_prepare_v3(db.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) !=
            SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(db.get()));
    }
    sqlite_statement(const sqlite_statement&) = delete;
    sqlite_statement& operator=(const sqlite_statement&) = delete;
    ~sqlite_statement() { sqlite3_finalize(statement_); }

    sqlite_statement& bind(int place, std::string_view text)
    {
        sqlite3_bind_text64(statement_, place, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
        return *this;
    }
    sqlite_statement& bind_blob(int place, std::string_view bytes)
    {
        sqlite3_bind_blob64(statement_, place, bytes.data(), bytes.size(), SQLITE_STATIC);
        return *this;
    }
    sqlite_statement& bind(int place, std::int64_t number)
    {
        sqlite3_bind_int64(statement_, place, number);
        return *this;
    }

    //! Whether there is a row.
    bool step()
    {
        const auto code = sqlite3_step(statement_);
        if (code == SQLITE_ROW)
            return true;
        sqlite3_reset(statement_);
        if (code != SQLITE_DONE)
            throw std::runtime_error(sqlite3_errmsg(db_.get()));
        return false;
    }
    std::string_view blob(int column)
    {
        const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
        return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
    }
    void reset() { sqlite3_reset(statement_); }

private:
    const sqlite_handle& db_;
    sqlite3_stmt* statement_ = nullptr;
};

} // namespace waymark::bench
