//! Export and import cost what is stored, each row about once, however long the conversation is.
#include "backends/sqlite/sqlite_database.hpp"
#include "catch.hpp"
#include "forwarding_store.hpp"
#include "forwarding_tables.hpp"
#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/transfer.hpp>

#include <sstream>

using namespace waymark;

namespace {

//! What all transactions since the last reset have read and written.
struct row_counts {
    std::uint64_t transactions = 0;
    std::uint64_t checkpoints = 0; // read
    std::uint64_t messages = 0;    // rows of them, read
    std::uint64_t message_bytes = 0;
    std::uint64_t steps = 0; // read
    std::uint64_t written_at_once = 0;
    std::uint64_t bytes_at_once = 0;
};
row_counts counted;

class counting_tables final : public test::forwarding_tables {
public:
    explicit counting_tables(std::unique_ptr<tables::transaction> inner) noexcept
        : forwarding_tables(std::move(inner))
    {
        ++counted.transactions;
    }
    ~counting_tables()
    {
        counted.written_at_once = std::max(counted.written_at_once, written_);
        counted.bytes_at_once = std::max(counted.bytes_at_once, bytes_);
    }

    std::optional<tables::checkpoint_row> find_checkpoint(std::int64_t agent, std::string_view scope,
                                                          std::string_view id) override
    {
        ++counted.checkpoints;
        return forwarding_tables::find_checkpoint(agent, scope, id);
    }
    std::optional<tables::checkpoint_row> checkpoint_at(std::int64_t agent, std::int64_t sequence) override
    {
        ++counted.checkpoints;
        return forwarding_tables::checkpoint_at(agent, sequence);
    }
    void scan_checkpoints(std::int64_t agent, const tables::scan_range& range,
                          const tables::visitor<tables::checkpoint_row>& visit) override
    {
        forwarding_tables::scan_checkpoints(agent, range, [&](tables::checkpoint_row&& row) {
            ++counted.checkpoints;
            return visit(std::move(row));
        });
    }
    void
    read_messages(std::int64_t agent, std::span<const tables::extent> ranges,
                  const std::function<void(std::size_t range, tables::message_row&& row)>& visit) override
    {
        forwarding_tables::read_messages(agent, ranges, [&](std::size_t range, tables::message_row&& row) {
            ++counted.messages;
            counted.message_bytes += row.body.size();
            visit(range, std::move(row));
        });
    }
    std::optional<tables::step_row> find_step(std::int64_t agent, std::string_view scope,
                                              std::string_view key) override
    {
        ++counted.steps;
        return forwarding_tables::find_step(agent, scope, key);
    }
    void scan_steps(std::int64_t agent, const std::optional<std::string>& scope,
                    const tables::visitor<tables::step_row>& visit) override
    {
        forwarding_tables::scan_steps(agent, scope, [&](tables::step_row&& row) {
            ++counted.steps;
            return visit(std::move(row));
        });
    }
    bool insert_checkpoint(const tables::checkpoint_row& row) override
    {
        note(row.body.size());
        return forwarding_tables::insert_checkpoint(row);
    }
    void insert_messages(const tables::message_row& row) override
    {
        note(row.body.size());
        forwarding_tables::insert_messages(row);
    }

private:
    void note(std::size_t bytes)
    {
        ++written_;
        bytes_ += bytes;
    }
    std::uint64_t written_ = 0;
    std::uint64_t bytes_ = 0;
};

std::unique_ptr<store> open_counted(const std::filesystem::path& file)
{
    return std::make_unique<test::store_on_database>(std::make_unique<test::database_with<counting_tables>>(
        std::make_unique<sqlite::sqlite_database>(file, sqlite_options())));
}

//! A history of so many turns: one scope, or two by turns; one step a turn.
void grow_history(store& origin, int turns, bool two_scopes, std::size_t message_bytes)
{
    std::map<std::string, conversation> chats;
    std::vector<save_request> batch;
    std::vector<step_request> steps;
    for (int i = 0; i < turns; ++i) {
        const std::string scope = two_scopes && i % 2 == 1 ? "sub" : "";
        auto& chat = chats[scope];
        chat.push(message::user(std::string(message_bytes, 'x')));
        chat.push(message::assistant("answer " + std::to_string(i)));
        const auto id = std::to_string(i);
        batch.emplace_back(checkpoint("agent", chat, i).with_id(id).with_scope(scope));
        steps.emplace_back(step("agent", scope, "step " + id).with_result(i).with_checkpoint(id));
    }
    for (const auto& outcome : origin.save(batch))
        outcome.value_or_throw();
    for (const auto& outcome : origin.put_steps(steps))
        outcome.value_or_throw();
}

//! What each kind of transfer of such a history reads and writes.
std::map<std::string, row_counts> costs_of_transfers(int turns, bool two_scopes,
                                                     std::size_t message_bytes = 200)
{
    const test::temporary_folder folder;
    const auto origin = open_counted(folder.path() / "origin.db");
    grow_history(*origin, turns, two_scopes, message_bytes);
    const auto count = static_cast<std::uint64_t>(turns);
    std::map<std::string, row_counts> costs;
    std::stringstream lines;
    counted = {};
    CHECK(export_lines(*origin, lines) == transfer_result(count, count, 0));
    costs["export"] = counted;
    const auto copy = open_counted(folder.path() / "copy.db");
    const auto import = [&](const std::string& what, existing mode, const transfer_result& expected) {
        lines.clear();
        lines.seekg(0);
        counted = {};
        CHECK(import_lines(*copy, lines, import_options().when_exists(mode)) == expected);
        costs[what] = counted;
    };
    import("import", existing::skip, {count, count, 0});
    import("skip", existing::skip, {0, 0, 2 * count});
    import("replace", existing::replace, {0, 0, 2 * count});
    import("fail", existing::fail, {0, 0, 2 * count});
    return costs;
}

} // namespace

TEST_CASE("export and import read each row a few times, however long the history is")
{
    constexpr int turns = 400, longer = 4 * turns;
    const bool two_scopes = GENERATE(false, true);
    CAPTURE(two_scopes);
    const auto small = costs_of_transfers(turns, two_scopes);
    const auto large = costs_of_transfers(longer, two_scopes);
    for (const auto& [what, cost] : large) {
        const auto& before = small.at(what);
        INFO(what << ": " << before.transactions << " and " << cost.transactions << " transactions, "
                  << before.checkpoints << " and " << cost.checkpoints << " checkpoints, " << before.messages
                  << " and " << cost.messages << " rows of messages, " << before.steps << " and "
                  << cost.steps << " steps");
        // At most what a history of that length has: a look before the write, and one to examine.
        CHECK(cost.messages <= 2 * longer);
        CHECK(cost.checkpoints <= 4 * longer);
        CHECK(cost.steps <= 3 * longer);
        // Four times as much, and a few that do not depend on the length.
        CHECK(cost.transactions <= 4 * before.transactions + 8);
        CHECK(cost.messages <= 4 * before.messages + 300);
        CHECK(cost.checkpoints <= 4 * before.checkpoints + 4 * 256); // the first page finds no agent
        CHECK(cost.transactions < longer / 10);
    }
}

TEST_CASE("an import writes so much in one transaction, also behind a long conversation")
{
    const auto costs = costs_of_transfers(100, false, 150'000);
    CHECK(costs.at("import").bytes_at_once < 800'000);
    CHECK(costs.at("import").transactions < 160); // 15 MB, in transactions that are over soon
    CHECK(costs_of_transfers(1'500, false).at("import").written_at_once <= 2 * 128);
}

TEST_CASE("an import into files, which hold each checkpoint whole, writes a few of them at once")
{
    //! Notes how much one batch has written.
    class noting_store final : public test::forwarding_store {
    public:
        using forwarding_store::forwarding_store;
        using forwarding_store::save;

        std::vector<save_outcome> save(std::span<const save_request> batch) override
        {
            auto outcomes = forwarding_store::save(batch);
            std::uint64_t written = 0;
            for (const auto& one : outcomes)
                written += one.value().bytes_written();
            most = std::max(most, written);
            return outcomes;
        }
        std::uint64_t most = 0;
    };
    const test::temporary_folder folder;
    memory_store from;
    conversation chat;
    for (int i = 0; i < 150; ++i) {
        chat.push(message::user(std::string(2'000, 'x')));
        from.save(checkpoint("agent", chat, i));
    }
    std::stringstream lines;
    export_lines(from, lines);
    noting_store into(std::make_shared<file_store>(folder.path() / "files"));
    CHECK(import_lines(into, lines).checkpoints() == 150);
    CHECK(into.most < 1'000'000); // the last file alone has 300,000 bytes, all have 22 million
}
