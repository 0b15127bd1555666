#include "contender.hpp"

#include <waymark/waymark.hpp>
#ifdef WAYMARK_BENCH_POSTGRES
#include "../test/support/postgres_probe.hpp"

#include <waymark/postgres_store.hpp>
#endif

#include <cstdlib>
#include <filesystem>

namespace waymark::bench {

namespace fs = std::filesystem;

std::uint64_t bytes_below(const fs::path& folder)
{
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file())
            bytes += entry.file_size();
    return bytes;
}

namespace {

durability level(const arguments& given)
{
    const auto wanted = given.text("durability", "full");
    if (wanted == "full" || wanted == "default")
        return durability::full;
    if (wanted == "relaxed")
        return durability::relaxed;
    throw usage_error("--durability is full, relaxed or default, not '" + wanted + "'");
}

//! A store of ours behind its async_store, as a service uses it.
class waymark_contender : public contender {
public:
    waymark_contender(std::shared_ptr<store> backend, asio::io_context& io,
                      std::shared_ptr<store_observer> observer = nullptr)
        : store_(std::make_unique<async_store>(io.get_executor(), std::move(backend),
                                               async_options().with_observer(std::move(observer))))
    {
    }

    void save(const checkpoint& next, saved_callback saved) override
    {
        store_->async_save(next, [saved = std::move(saved)](std::error_code code, save_receipt receipt) {
            if (code)
                throw std::system_error(code, "a save failed");
            saved(receipt.batch_size());
        });
    }

    void load_latest(const std::string& agent, loaded_callback loaded) override
    {
        store_->async_load_latest(
            agent, [loaded = std::move(loaded)](std::error_code code, std::optional<checkpoint> found) {
                if (code)
                    throw std::system_error(code, "a load failed");
                loaded(found ? found->conversation().size() : 0);
            });
    }

    bool has_batches() const noexcept override { return true; }

    std::optional<std::uint64_t> close_and_measure() override
    {
        store_.reset();
        return std::nullopt;
    }

private:
    std::unique_ptr<async_store> store_;
};

class waymark_on_disk : public waymark_contender {
public:
    waymark_on_disk(std::shared_ptr<store> backend, asio::io_context& io, fs::path folder,
                    std::shared_ptr<store_observer> observer = nullptr)
        : waymark_contender(std::move(backend), io, std::move(observer)), folder_(std::move(folder))
    {
    }

    std::optional<std::uint64_t> close_and_measure() override
    {
        waymark_contender::close_and_measure();
        return bytes_below(folder_);
    }

private:
    fs::path folder_;
};

#ifdef WAYMARK_BENCH_POSTGRES

std::string server(const arguments& given)
{
    const char* const started = std::getenv("WAYMARK_POSTGRES");
    auto conninfo = given.text("postgres", started == nullptr ? "" : started);
    if (conninfo.empty())
        throw missing_error("no PostgreSQL: name one with --postgres, or run scripts/with-postgres");
    // Figures of a server that does not sync are worth nothing.
    test::server_connection sql(conninfo);
    for (const auto* setting : {"fsync", "synchronous_commit", "full_page_writes"})
        if (sql.run(std::string("SHOW ") + setting).at(0) != "on")
            throw missing_error(std::string("the server has ") + setting +
                                " off; turn it on, or measure another server");
    return conninfo;
}

class waymark_on_postgres : public waymark_contender {
public:
    waymark_on_postgres(const std::shared_ptr<store>& backend, const std::string& conninfo,
                        asio::io_context& io)
        : waymark_contender(backend, io), backend_(backend), sql_(conninfo), begin_(position())
    {
    }

    //! The write-ahead log of everything since the tables were made.
    void describe(boost::json::object& result) override
    {
        result["wal_bytes"] = sql_.number("SELECT '" + position() + "'::pg_lsn - '" + begin_ + "'::pg_lsn");
    }

    std::optional<std::uint64_t> close_and_measure() override
    {
        const auto bytes = backend_->stats().bytes;
        backend_.reset();
        waymark_contender::close_and_measure();
        return bytes;
    }

private:
    std::string position() { return sql_.run("SELECT pg_current_wal_insert_lsn()").at(0); }

    std::shared_ptr<store> backend_;
    test::server_connection sql_;
    std::string begin_;
};

std::shared_ptr<store> open_schema(const arguments& given, const std::string& conninfo,
                                   const std::string& schema, durability kept, bool is_new)
{
    if (is_new)
        test::server_connection(conninfo).run("DROP SCHEMA IF EXISTS \"" + schema + "\" CASCADE");
    auto options = postgres_options()
                       .with_schema(schema)
                       .with_durability(kept)
                       .with_write_lanes(given.count("lanes", 4))
                       .with_prepared_statements(given.flag("prepared"))
                       .with_partitions(given.count("partitions", 0));
    return std::make_shared<postgres_store>(conninfo, options);
}

std::unique_ptr<contender> open_postgres(const arguments& given, asio::io_context& io)
{
    const auto conninfo = server(given);
    const bool is_new = given.workload() != "resume"; // which reads what a fleet has left
    return std::make_unique<waymark_on_postgres>(
        open_schema(given, conninfo, "waymark_bench", level(given), is_new), conninfo, io);
}

std::shared_ptr<store> open_postgres_store(const arguments& given, const std::string& name, durability kept,
                                           bool is_new)
{
    return open_schema(given, server(given), "waymark_bench_" + name, kept, is_new);
}

#else

constexpr const char* without_postgres =
    "built without PostgreSQL: configure with -DWAYMARK_BUILD_POSTGRES=ON";

std::unique_ptr<contender> open_postgres(const arguments&, asio::io_context&)
{
    throw missing_error(without_postgres);
}

std::shared_ptr<store> open_postgres_store(const arguments&, const std::string&, durability, bool)
{
    throw missing_error(without_postgres);
}

#endif

std::shared_ptr<store> open(const arguments& given, const std::string& name, durability kept, bool is_new)
{
    const auto kind = given.required("contender");
    if (kind == "waymark-memory")
        return std::make_shared<memory_store>();
    if (kind == "waymark-postgres")
        return open_postgres_store(given, name, kept, is_new);
    const auto folder = fs::path(given.required("folder")) / name;
    if (is_new)
        fs::remove_all(folder);
    fs::create_directories(folder);
    if (kind == "waymark-sqlite")
        return std::make_shared<sqlite_store>(folder / "waymark.db", sqlite_options().with_durability(kept));
    if (kind == "waymark-file")
        return std::make_shared<file_store>(folder / "checkpoints");
    throw usage_error("'" + kind + "' is no store of ours; there are waymark-sqlite, waymark-postgres, " +
                      "waymark-memory and waymark-file");
}

} // namespace

std::shared_ptr<store> open_store(const arguments& given, const std::string& name)
{
    return open(given, name, level(given), true);
}

std::shared_ptr<store> open_store(const arguments& given, const std::string& name, durability level)
{
    return open(given, name, level, true);
}

std::shared_ptr<store> reopen_store(const arguments& given, const std::string& name)
{
    return open(given, name, level(given), false);
}

void fill(store& to, const std::string& agent, std::size_t turns, std::size_t message_bytes, texts& source)
{
    constexpr std::size_t together = 64;
    growing_agent history(agent, source, message_bytes);
    std::vector<save_request> batch;
    for (std::size_t turn = 1; turn <= turns; ++turn) {
        batch.emplace_back(history.next());
        if (turn % together != 0 && turn != turns)
            continue;
        for (const auto& outcome : to.save(batch))
            outcome.value_or_throw();
        batch.clear();
    }
}

std::unique_ptr<contender> open_contender(const arguments& given, asio::io_context& io)
{
    const auto name = given.required("contender");
    const auto observer = given.flag("observed") ? std::make_shared<store_observer>() : nullptr;
    if (name == "waymark-memory")
        return std::make_unique<waymark_contender>(std::make_shared<memory_store>(), io, observer);
    if (name == "waymark-postgres")
        return open_postgres(given, io);
    const fs::path folder = given.required("folder");
    fs::create_directories(folder);
    if (name == "waymark-sqlite")
        return std::make_unique<waymark_on_disk>(
            std::make_shared<sqlite_store>(
                folder / "waymark.db",
                sqlite_options().with_durability(level(given)).with_observer(observer)),
            io, folder, observer);
    if (name == "waymark-file")
        return std::make_unique<waymark_on_disk>(std::make_shared<file_store>(folder / "checkpoints"), io,
                                                 folder);
    if (name == "seed-sqlite")
        return open_seed_sqlite(given, io);
    if (name == "seed-file")
        return open_seed_files(given, io);
    if (name == "bare-sqlite")
        return open_bare_sqlite(given, io);
    throw usage_error("there is no contender '" + name +
                      "'; there are waymark-sqlite, waymark-postgres, waymark-memory, waymark-file, "
                      "seed-sqlite, seed-file and bare-sqlite");
}

} // namespace waymark::bench
