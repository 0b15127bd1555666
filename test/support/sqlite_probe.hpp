//! A look into SQLite from outside of the library: other connections, counted statements, files that fail.
#pragma once

#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct sqlite3;

namespace waymark::test {

//! A connection of another program to the same file.
class other_connection {
public:
    explicit other_connection(const std::filesystem::path& file);
    other_connection(const other_connection&) = delete;
    other_connection& operator=(const other_connection&) = delete;
    ~other_connection();

    //! Runs SQL; returns the first column of each row as text.
    std::vector<std::string> run(const std::string& sql);
    std::int64_t number(const std::string& sql) { return std::stoll(run(sql).at(0)); }

private:
    sqlite3* db_ = nullptr;
};

//! A store in a file of its own, and what is in the file.
struct sqlite_on_disk {
    temporary_folder folder;
    std::filesystem::path file = folder.path() / "store.db";
    sqlite_store store{file};

    std::int64_t rows(const std::string& table)
    {
        return other_connection(file).number("SELECT count(*) FROM " + table);
    }
    void damage(const std::string& sql) { other_connection(file).run(sql); }
};

//! Makes `to` the same as `from` with SQLite's backup API, whoever has it open.
void copy_database(const std::filesystem::path& from, const std::filesystem::path& to);

//! While it lives, counts the statements that connections opened since then run, and bounds their values.
class statement_counter {
public:
    explicit statement_counter(int longest_value = 0);
    statement_counter(const statement_counter&) = delete;
    statement_counter& operator=(const statement_counter&) = delete;
    ~statement_counter();

    //! Since the last call.
    int take();
};

//! While it lives, files that are opened behave as told.
class failing_files {
public:
    failing_files();
    failing_files(const failing_files&) = delete;
    failing_files& operator=(const failing_files&) = delete;
    ~failing_files();

    void fail_syncs(bool fail);
    void fail_writes_as_full(bool fail);
    int take_syncs(); // since the last call
};

} // namespace waymark::test
