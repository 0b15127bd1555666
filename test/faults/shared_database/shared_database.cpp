#include "shared_database.hpp"

#include "backends/sqlite/sqlite_database.hpp"
#include "fast_folder.hpp"
#include "forwarding_tables.hpp"
#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#ifdef WAYMARK_WITH_POSTGRES
#include "backends/postgres/postgres_database.hpp"
#include "postgres_probe.hpp"

#include <waymark/postgres_store.hpp>
#endif

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sqlite3.h>
#include <stdexcept>
#include <thread>

namespace waymark::faults {

namespace {

//! Copies one SQLite file into another, as a backup program does it: page by page, through SQLite.
void copy_database(const std::filesystem::path& from, const std::filesystem::path& to)
{
    using connection = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;
    const auto open = [](const std::filesystem::path& file) {
        sqlite3* opened = nullptr;
        const auto code = sqlite3_open(file.c_str(), &opened);
        connection owned(opened, sqlite3_close);
        if (code != SQLITE_OK)
            throw std::runtime_error("a backup cannot open " + file.native());
        return owned;
    };
    const auto source = open(from);
    const auto target = open(to);
    auto* const copying = sqlite3_backup_init(target.get(), "main", source.get(), "main");
    if (copying == nullptr)
        throw std::runtime_error(std::string("a backup: ") + sqlite3_errmsg(target.get()));
    // Beside the thread that writes the log back, there may be no lock at first. Others would wait for it.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    int code = SQLITE_BUSY;
    while ((code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_OK) &&
           std::chrono::steady_clock::now() < end) {
        code = sqlite3_backup_step(copying, -1);
        std::this_thread::yield();
    }
    sqlite3_backup_finish(copying);
    if (code != SQLITE_DONE)
        throw std::runtime_error(std::string("a backup: ") + sqlite3_errstr(code));
}

class shared_sqlite final : public shared_database {
public:
    std::string name() const override { return "SQLite"; }
    std::shared_ptr<store> open() override { return std::make_shared<sqlite_store>(file_, options_); }
    std::shared_ptr<store> open_behind(const layer& between) override
    {
        return std::make_shared<test::store_on_database>(
            between(std::make_unique<sqlite::sqlite_database>(file_, options_)));
    }
    void back_up(std::size_t number) override { copy_database(file_, copy(number)); }
    void restore(std::size_t number) override { copy_database(copy(number), file_); }

private:
    std::filesystem::path copy(std::size_t number) const
    {
        return folder_.path() / ("copy" + std::to_string(number) + ".db");
    }

    test::temporary_folder folder_{fast_folder()};
    std::filesystem::path file_ = folder_.path() / "store.db";
    // What a power cut takes is not the question here.
    sqlite_options options_ = sqlite_options().with_durability(durability::relaxed);
};

class shared_files final : public shared_database {
public:
    std::string name() const override { return "files"; }
    bool has_one_writer() const noexcept override { return true; }
    bool has_rows() const noexcept override { return false; }
    std::shared_ptr<store> open() override { return std::make_shared<file_store>(live_); }
    std::shared_ptr<store> open_reader() override
    {
        return std::make_shared<file_store>(live_, file_options().read_only());
    }
    std::shared_ptr<store> open_behind(const layer&) override
    {
        throw std::logic_error("a store of files has no rows");
    }
    void back_up(std::size_t number) override
    {
        std::filesystem::remove_all(copy(number));
        std::filesystem::copy(live_, copy(number), std::filesystem::copy_options::recursive);
    }
    void restore(std::size_t number) override
    {
        for (const auto& entry : std::filesystem::directory_iterator(live_))
            std::filesystem::remove_all(entry.path());
        std::filesystem::copy(copy(number), live_, std::filesystem::copy_options::recursive);
    }

private:
    std::filesystem::path copy(std::size_t number) const
    {
        return folder_.path() / ("copy" + std::to_string(number));
    }

    test::temporary_folder folder_{fast_folder()};
    std::filesystem::path live_ = folder_.path() / "live";
};

#ifdef WAYMARK_WITH_POSTGRES

class shared_postgres final : public shared_database {
public:
    explicit shared_postgres(const std::string& conninfo)
        : conninfo_(conninfo),
          schema_(conninfo, 0),
          other_(conninfo),
          options_(postgres_options()
                       .with_schema(schema_.name())
                       .with_durability(durability::relaxed)
                       .with_prepared_statements()),
          tables_(other_.run("SELECT tablename FROM pg_tables WHERE schemaname = '" + schema_.name() + "'"))
    {
    }

    std::string name() const override { return "PostgreSQL"; }
    std::shared_ptr<store> open() override { return std::make_shared<postgres_store>(conninfo_, options_); }
    std::shared_ptr<store> open_behind(const layer& between) override
    {
        return std::make_shared<test::store_on_database>(
            between(std::make_unique<postgres::postgres_database>(conninfo_, options_)));
    }
    void back_up(std::size_t number) override
    {
        std::string sql = "BEGIN ISOLATION LEVEL REPEATABLE READ;";
        for (const auto& table : tables_)
            sql.append("DROP TABLE IF EXISTS pg_temp.")
                .append(copy(number, table))
                .append("; CREATE TEMPORARY TABLE ")
                .append(copy(number, table))
                .append(" AS TABLE ")
                .append(live(table))
                .append(";");
        other_.run(sql + "COMMIT");
    }
    void restore(std::size_t number) override
    {
        std::string sql = "BEGIN;";
        for (const auto& table : tables_)
            sql.append("TRUNCATE ")
                .append(live(table))
                .append("; INSERT INTO ")
                .append(live(table))
                .append(" SELECT * FROM pg_temp.")
                .append(copy(number, table))
                .append(";");
        other_.run(sql + "COMMIT");
    }

private:
    std::string live(const std::string& table) const { return schema_.name() + "." + table; }
    static std::string copy(std::size_t number, const std::string& table)
    {
        return "copy" + std::to_string(number) + "_" + table;
    }

    std::string conninfo_;
    test::leased_schema schema_;
    test::server_connection other_; // the copies go with it
    postgres_options options_;
    std::vector<std::string> tables_;
};

#endif

} // namespace

std::unique_ptr<shared_database> make_shared_database(database_kind kind)
{
    switch (kind) {
    case database_kind::sqlite:
        return std::make_unique<shared_sqlite>();
    case database_kind::files:
        return std::make_unique<shared_files>();
    case database_kind::postgres:
#ifdef WAYMARK_WITH_POSTGRES
        if (const auto* conninfo = std::getenv("WAYMARK_POSTGRES"))
            return std::make_unique<shared_postgres>(conninfo);
#endif
        break;
    }
    return nullptr;
}

} // namespace waymark::faults
