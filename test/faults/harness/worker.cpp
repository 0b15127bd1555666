#include "worker.hpp"

#include "broken_stores.hpp"
#include "ledger.hpp"
#include "reader.hpp"
#include "writer.hpp"

#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#ifdef WAYMARK_FAULTS_INTERPOSED
#include "system_calls.hpp"
#endif

#include <chrono>
#include <iostream>
#include <map>
#include <thread>
#include <unistd.h>

namespace waymark::faults {

std::string name_of(store_kind kind)
{
    return kind == store_kind::sqlite ? "SQLite" : "files";
}

std::shared_ptr<store> open_store(store_kind kind, const std::filesystem::path& folder)
{
    if (kind == store_kind::sqlite)
        return std::make_shared<sqlite_store>(folder / "store.db");
    return std::make_shared<file_store>(folder / "store");
}

std::shared_ptr<store> open_relaxed(const std::filesystem::path& folder)
{
    return std::make_shared<sqlite_store>(folder / "store.db",
                                          sqlite_options{}.with_durability(durability::relaxed));
}

namespace {

std::vector<std::string> command(std::vector<std::string> arguments)
{
    arguments.insert(arguments.begin(),
                     {std::filesystem::read_symlink("/proc/self/exe").native(), "--worker"});
    return arguments;
}

//! At once, in one piece: the process may be killed at any moment.
void tell(const std::string& text)
{
    const auto line = text + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        throw std::runtime_error("nobody listens to this worker any more");
}

//! A file store has one writer: the next one waits until the one before it is dead.
std::shared_ptr<store> open_when_free(store_kind kind, const std::filesystem::path& folder)
{
    for (;;) {
        try {
            return open_store(kind, folder);
        } catch (const error& failure) {
            if (failure.code() != errc::busy)
                throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

std::shared_ptr<store> open_broken(flaw broken, store_kind kind, const std::filesystem::path& folder)
{
    if (broken == flaw::relaxed)
        return open_relaxed(folder);
    auto opened = open_when_free(kind, folder);
    return broken == flaw::acknowledges_early ? std::make_shared<hasty_store>(opened) : opened;
}

int write_for_ever(const writer_process& how)
{
#ifdef WAYMARK_FAULTS_INTERPOSED
    std::optional<watched_folder> watched;
    if (how.broken == flaw::skips_folder_syncs || how.broken == flaw::skips_all_syncs) {
        watched.emplace(how.folder);
        watched->ignore(how.broken == flaw::skips_all_syncs ? watched_folder::ignored::all_syncs
                                                            : watched_folder::ignored::folder_syncs);
    }
#endif
    const auto target = open_broken(how.broken, how.kind, how.folder);
    tell("open");
    writer life(*target, how.agent_id, how.seed, [](const ledger_entry& entry) { tell(entry.to_line()); });
    life.resume();
    for (std::uint64_t i = 0; i < how.operations; ++i)
        life.act();
    return 0;
}

//! What one process of many sees must make sense at any moment.
void look(store& at, const std::string& agent_id, bool everything)
{
    std::int64_t last = 0;
    for (const auto& header : at.list(query(agent_id).oldest_first())) {
        if (header.damage() || header.sequence() <= last)
            throw std::runtime_error("a list of agent '" + agent_id + "' is damaged or out of order");
        last = header.sequence();
    }
    const auto head = at.load_latest("shared");
    const auto later = at.load_latest("shared");
    if (head && (!later || later->sequence() < head->sequence()))
        throw std::runtime_error("the head of agent 'shared' went back");
    if (!everything)
        return;
    if (const auto damages = at.verify().damages(); !damages.empty())
        throw std::runtime_error("damage where there is none: " + damages[0].what);
}

int mix(const mixed_process& how)
{
    std::shared_ptr<store> target = open_store(store_kind::sqlite, how.folder);
    if (how.broken == flaw::acknowledges_early)
        target = std::make_shared<hasty_store>(target);
    tell("open");
    std::mt19937_64 random(how.seed);
    writer own(*target, how.agent_id, how.seed, [](const ledger_entry& entry) { tell(entry.to_line()); });
    conversation shared_chat;
    for (std::uint64_t i = 0; i < how.operations; ++i) {
        const auto what = random() % 20;
        if (what < 11)
            own.act();
        else if (what < 14) { // all processes save, and prune, for one agent
            shared_chat.push(message::user("from " + how.agent_id + " " + std::to_string(i)));
            target->save(checkpoint("shared", shared_chat, static_cast<std::int64_t>(i)));
        } else if (what == 14)
            target->prune("shared", retention{}.keep_last(10), dry_run::no);
        else if (what == 15)
            target->load_all(query("shared").limit(3));
        else
            look(*target, random() % 2 == 0 ? how.agent_id : "shared", random() % 64 == 0);
    }
    return 0;
}

int read_beside(const reading_process& how)
{
    const acknowledged said(how.said);
    std::shared_ptr<store> target;
    if (how.kind == store_kind::sqlite)
        target = std::make_shared<sqlite_store>(how.store);
    else
        target = std::make_shared<file_store>(how.store, file_options{}.read_only());
    for (const auto& wrong : read_until_over(*target, said, how.seed))
        tell(wrong);
    return 0;
}

} // namespace

test::child_process writer_process::start() const
{
    return test::child_process(command({"write", std::to_string(static_cast<int>(kind)), folder.native(),
                                        agent_id, std::to_string(seed), std::to_string(operations),
                                        std::to_string(static_cast<int>(broken))}));
}

test::child_process mixed_process::start() const
{
    return test::child_process(
        command({"mix", folder.native(), agent_id, std::to_string(seed), std::to_string(operations),
                 std::to_string(static_cast<int>(broken))}));
}

test::child_process reading_process::start() const
{
    return test::child_process(command({"read", std::to_string(static_cast<int>(kind)), store.native(),
                                        said.native(), std::to_string(seed)}));
}

int run_worker(const std::vector<std::string>& arguments)
{
    try {
        if (arguments.size() == 7 && arguments[0] == "write")
            return write_for_ever({static_cast<store_kind>(std::stoi(arguments[1])), arguments[2],
                                   arguments[3], std::stoull(arguments[4]), std::stoull(arguments[5]),
                                   static_cast<flaw>(std::stoi(arguments[6]))});
        if (arguments.size() == 6 && arguments[0] == "mix")
            return mix({arguments[1], arguments[2], std::stoull(arguments[3]), std::stoull(arguments[4]),
                        static_cast<flaw>(std::stoi(arguments[5]))});
        if (arguments.size() == 5 && arguments[0] == "read")
            return read_beside({static_cast<store_kind>(std::stoi(arguments[1])), arguments[2], arguments[3],
                                std::stoull(arguments[4])});
    } catch (const std::exception& failure) {
        tell(std::string(failed) + failure.what());
        return 1;
    }
    std::cerr << "worker: bad arguments\n";
    return 2;
}

} // namespace waymark::faults
