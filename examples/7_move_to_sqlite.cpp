//! Moves checkpoints from a folder of JSON files into a SQLite file, with the blocking interface of the
//! stores.
//!
//!     7_move_to_sqlite FOLDER FILE
//!
//! Without arguments it makes a small folder first, to have something to move.
#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <filesystem>
#include <iostream>

namespace fs = std::filesystem;

namespace {

void make_something(const fs::path& folder)
{
    waymark::file_store files(folder);
    waymark::conversation chat;
    for (std::int64_t turn = 1; turn <= 3; ++turn) {
        chat.push(waymark::message::user("Question " + std::to_string(turn)));
        chat.push(waymark::message::assistant("Answer " + std::to_string(turn)));
        files.save(waymark::checkpoint("scholar", chat, turn).with_id("turn-" + std::to_string(turn)));
    }
}

void move_agent(waymark::store& files, waymark::store& database, const std::string& agent)
{
    for (const auto& header : files.list(waymark::query(agent).oldest_first())) {
        if (header.damage()) { // the others can be moved all the same
            std::cerr << "skipped " << header.id() << " of " << agent << ": " << *header.damage() << '\n';
            continue;
        }
        const auto point = files.load(agent, header.scope(), header.id());
        const auto saved = database.save(point.value());
        database.pin(agent, header.scope(), header.id(), header.pinned());
        std::cout << agent << " " << header.id() << ": " << header.stored_bytes() << " bytes as a file, "
                  << saved.bytes_written() << " new bytes in SQLite\n";
    }
}

void move(const fs::path& folder, const fs::path& file)
{
    waymark::file_store files(folder, waymark::file_options{}.read_only());
    waymark::sqlite_store database(file);
    std::string last;
    for (auto agents = files.list_agents(); !agents.empty(); agents = files.list_agents(last)) { // in pages
        for (const auto& agent : agents)
            move_agent(files, database, agent);
        last = agents.back();
    }
}

} // namespace

int main(int argc, char** argv)
{
    try {
        if (argc == 3) {
            move(argv[1], argv[2]);
            return 0;
        }
        const auto folder = fs::temp_directory_path() / ("waymark-example-" + waymark::random_id());
        make_something(folder / "files");
        move(folder / "files", folder / "store.db");
        fs::remove_all(folder);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
