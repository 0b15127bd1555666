//! The older design on SQLite: the whole conversation as JSON in one row a save, found by an index.
#include "../contender.hpp"
#include "plain_json.hpp"
#include "sqlite_handle.hpp"

#include <asio/post.hpp>

namespace waymark::bench {

namespace fs = std::filesystem;

namespace {

class seed_sqlite : public contender {
public:
    seed_sqlite(const fs::path& file, const std::string& durability, asio::io_context& io)
        : file_(file), io_(io), db_(std::make_unique<sqlite_handle>(file))
    {
        db_->set_durability(durability);
        db_->run("CREATE TABLE IF NOT EXISTS checkpoints (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, "
                 "iteration INTEGER NOT NULL, data BLOB NOT NULL, created_at TEXT NOT NULL);"
                 "CREATE INDEX IF NOT EXISTS latest ON checkpoints (agent_id, iteration)");
        insert_ = std::make_unique<sqlite_statement>(
            *db_, "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, datetime('now'))");
        latest_ = std::make_unique<sqlite_statement>(
            *db_, "SELECT data FROM checkpoints WHERE agent_id = ? ORDER BY iteration DESC LIMIT 1");
    }

    void save(const checkpoint& next, saved_callback saved) override
    {
        const auto bytes = next.to_bytes();
        insert_->bind(1, next.id())
            .bind(2, next.agent_id())
            .bind(3, next.iteration())
            .bind_blob(4, bytes)
            .step();
        asio::post(io_, [saved = std::move(saved)] { saved(1); });
    }

    void load_latest(const std::string& agent, loaded_callback loaded) override
    {
        const auto found = latest_->bind(1, agent).step();
        const auto messages = found ? plain_messages(latest_->blob(0)).size() : 0;
        latest_->reset();
        asio::post(io_, [=, loaded = std::move(loaded)] { loaded(messages); });
    }

    std::optional<std::uint64_t> close_and_measure() override
    {
        insert_.reset();
        latest_.reset();
        db_.reset();
        return fs::file_size(file_);
    }

private:
    fs::path file_;
    asio::io_context& io_;
    std::unique_ptr<sqlite_handle> db_;
    std::unique_ptr<sqlite_statement> insert_, latest_;
};

} // namespace

std::unique_ptr<contender> open_seed_sqlite(const arguments& given, asio::io_context& io)
{
    return std::make_unique<seed_sqlite>(fs::path(given.text("folder")) / "seed.db",
                                         given.text("durability", "default"), io);
}

} // namespace waymark::bench
