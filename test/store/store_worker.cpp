//! store_worker KIND PATH AGENT COUNT: saves a growing conversation and says which saves were acknowledged.
//! Run and killed by processes_test.cpp. With a count of 0 it just opens the store. With the kind "copy" it
//! copies the agent in a SQLite file, and is killed when that has told COUNT times how far it is.
#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#include <csignal>
#include <iostream>

using namespace waymark;

namespace {

std::unique_ptr<store> open(const std::string& kind, const std::string& path)
{
    if (kind == "sqlite")
        return std::make_unique<sqlite_store>(path);
    return std::make_unique<file_store>(path);
}

int copy_until_killed(const std::string& path, const std::string& agent, int reports)
{
    sqlite_store store(path);
    store.copy_agent(agent, "copy", [&](const upkeep_progress&) {
        if (--reports == 0)
            std::raise(SIGKILL);
    });
    return 0;
}

} // namespace

int main(int argc, char** argv)
try {
    if (argc != 5)
        throw std::runtime_error("store_worker KIND PATH AGENT COUNT");
    const std::string agent = argv[3];
    if (argv[1] == std::string("copy"))
        return copy_until_killed(argv[2], agent, std::stoi(argv[4]));
    const auto store = open(argv[1], argv[2]);
    std::cout << "open" << std::endl;
    conversation chat;
    if (const auto head = store->load_latest(agent))
        chat = head->conversation();
    for (int i = 0; i < std::stoi(argv[4]); ++i) {
        chat.push(message::user("turn " + std::to_string(i)));
        const checkpoint next(agent, chat, i);
        store->save(next);
        std::cout << next.id() << std::endl;
        // Others may save for the same agent meanwhile, and prune their own.
        if (!store->load(agent, "", next.id()) || !store->load_latest(agent))
            throw std::runtime_error("a save that was acknowledged is not there");
        if (i % 10 == 9)
            store->list(query(agent).limit(5));
    }
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "store_worker: " << failure.what() << '\n';
    return 1;
}
