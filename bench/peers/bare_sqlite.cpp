//! The least that a program could do: insert the new messages and a row for the checkpoint, and commit. What
//! waits when a commit begins is committed with it.
#include "../contender.hpp"
#include "sqlite_handle.hpp"

#include <asio/post.hpp>
#include <boost/json/serialize.hpp>

#include <map>
#include <vector>

namespace waymark::bench {

namespace fs = std::filesystem;

namespace {

class bare_sqlite : public contender {
public:
    bare_sqlite(const fs::path& file, const std::string& durability, asio::io_context& io)
        : file_(file), io_(io), db_(std::make_unique<sqlite_handle>(file))
    {
        db_->set_durability(durability);
        db_->run(
            "CREATE TABLE messages (row INTEGER PRIMARY KEY, agent_id TEXT NOT NULL, "
            "first INTEGER NOT NULL, body BLOB NOT NULL);"
            "CREATE INDEX of_agent ON messages (agent_id, first);"
            "CREATE TABLE checkpoints (row INTEGER PRIMARY KEY, agent_id TEXT NOT NULL, "
            "iteration INTEGER NOT NULL, id TEXT NOT NULL UNIQUE, parent TEXT, messages INTEGER NOT NULL);"
            "CREATE INDEX latest ON checkpoints (agent_id, iteration)");
        add_messages_ = std::make_unique<sqlite_statement>(
            *db_, "INSERT INTO messages (agent_id, first, body) VALUES (?, ?, ?)");
        add_checkpoint_ = std::make_unique<sqlite_statement>(
            *db_,
            "INSERT INTO checkpoints (agent_id, iteration, id, parent, messages) VALUES (?, ?, ?, ?, ?)");
    }

    void save(const checkpoint& next, saved_callback saved) override
    {
        if (waiting_.empty())
            asio::post(io_, [this] { commit(); });
        waiting_.emplace_back(next, std::move(saved));
    }

    void load_latest(const std::string&, loaded_callback) override
    {
        throw usage_error("bare-sqlite only saves");
    }

    bool has_batches() const noexcept override { return true; }

    std::optional<std::uint64_t> close_and_measure() override
    {
        add_messages_.reset();
        add_checkpoint_.reset();
        db_.reset();
        return fs::file_size(file_);
    }

private:
    void commit()
    {
        const auto batch = std::exchange(waiting_, {});
        db_->run("BEGIN IMMEDIATE");
        for (const auto& [next, saved] : batch)
            insert(next);
        db_->run("COMMIT");
        for (const auto& [next, saved] : batch)
            saved(batch.size());
    }

    void insert(const checkpoint& next)
    {
        const auto& chat = next.conversation();
        auto& stored = stored_[next.agent_id()];
        std::string body;
        for (auto i = stored; i < chat.size(); ++i)
            body += boost::json::serialize(boost::json::value_from(chat[i])) + '\n';
        add_messages_->bind(1, next.agent_id())
            .bind(2, static_cast<std::int64_t>(stored))
            .bind_blob(3, body)
            .step();
        stored = chat.size();
        add_checkpoint_->bind(1, next.agent_id())
            .bind(2, next.iteration())
            .bind(3, next.id())
            .bind(4, next.parent_id() ? std::string_view(*next.parent_id()) : std::string_view())
            .bind(5, static_cast<std::int64_t>(stored))
            .step();
    }

    fs::path file_;
    asio::io_context& io_;
    std::unique_ptr<sqlite_handle> db_;
    std::unique_ptr<sqlite_statement> add_messages_, add_checkpoint_;
    std::map<std::string, std::size_t> stored_;
    std::vector<std::pair<checkpoint, saved_callback>> waiting_;
};

} // namespace

std::unique_ptr<contender> open_bare_sqlite(const arguments& given, asio::io_context& io)
{
    return std::make_unique<bare_sqlite>(fs::path(given.text("folder")) / "bare.db",
                                         given.text("durability", "full"), io);
}

} // namespace waymark::bench
