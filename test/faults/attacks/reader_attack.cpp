//! Readers beside a writer that saves the newer checkpoint and then removes the older ones: there is an
//! answer at any moment.
#include "attack.hpp"
#include "fast_folder.hpp"
#include "forwarding_store.hpp"
#include "reader.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <waymark/file_store.hpp>
#include <waymark/sqlite_store.hpp>

#ifdef WAYMARK_WITH_POSTGRES
#include "postgres_probe.hpp"

#include <waymark/postgres_store.hpp>
#endif

#ifdef WAYMARK_FAULTS_INTERPOSED
#include "system_calls.hpp"

#include <cerrno>
#endif

#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

namespace waymark::faults {

namespace {

namespace fs = std::filesystem;
using test::forwarding_store;

//! The writer of the agents that readers ask for. There is never a moment without a head and a step.
class replacing_writer {
public:
    replacing_writer(store& to, acknowledged& said, std::uint64_t seed, bool erases_first)
        : store_(to), said_(said), random_(seed), erases_first_(erases_first)
    {
        for (const auto which : {0, 1})
            save_next(which);
        put_step();
    }

    void act()
    {
        const auto which = static_cast<int>(random_() % 2);
        const auto what = random_() % 16;
        if (what < 10)
            replace_head(which);
        else if (what == 10) { // some more than one
            save_next(which);
            store_.prune(steady_agent, retention{}.keep_last(3), dry_run::no);
        } else if (what == 11)
            write_over(which);
        else if (what < 14)
            put_step();
        else if (what == 14) {
            put("seldom", steady_ids_[0]);
            store_.erase_step(steady_agent, "", "seldom");
        } else
            renew_fleeting();
    }

private:
    void replace_head(int which)
    {
        const auto old = steady_ids_[which];
        if (erases_first_)
            store_.erase(steady_agent, steady_scopes[which], old);
        save_next(which);
        if (random_() % 2 == 0)
            store_.erase(steady_agent, steady_scopes[which], old);
        else
            store_.prune(steady_agent, retention{}.keep_last(1).only_scope(steady_scopes[which]),
                         dry_run::no);
    }

    void save_next(int which)
    {
        steady_ids_[which] = "c" + std::to_string(++iteration_);
        write_over(which);
    }

    //! The head, with other content.
    void write_over(int which)
    {
        store_.save(telling_checkpoint(steady_agent, steady_scopes[which], steady_ids_[which], ++iteration_));
        said_->heads[which] = iteration_;
    }

    void put_step()
    {
        put(steady_step, steady_ids_[0]);
        said_->step = iteration_;
    }

    void put(const std::string& key, const std::string& made_on)
    {
        const std::vector<step_request> one = {
            step_request(step(steady_agent, "", key).with_checkpoint(made_on).with_result(++iteration_))};
        if (const auto outcome = store_.put_steps(one).at(0); outcome.code())
            throw error(outcome.code(), outcome.details().message());
    }

    void renew_fleeting()
    {
        store_.erase_agent(fleeting_agent());
        for (const auto* id : {"one", "two"})
            store_.save(telling_checkpoint(fleeting_agent(), "", id, ++iteration_));
        store_.pin(fleeting_agent(), "", "one", true);
        const std::vector<step_request> one = {
            step_request(step(fleeting_agent(), "", "step").with_checkpoint("one"))};
        store_.put_steps(one);
    }

    store& store_;
    acknowledged& said_;
    std::mt19937_64 random_;
    bool erases_first_;
    std::int64_t iteration_ = 0;
    std::string steady_ids_[2];
};

// Readers that are broken on purpose

constexpr int now_and_then = 10;

class absent_minded_reader : public forwarding_store {
public:
    using forwarding_store::forwarding_store;
    std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope) override
    {
        return ++asked_ % now_and_then == 0 ? std::nullopt : forwarding_store::load_latest(agent, scope);
    }

private:
    int asked_ = 0;
};

class backward_reader : public forwarding_store {
public:
    using forwarding_store::forwarding_store;
    std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope) override
    {
        auto found = forwarding_store::load_latest(agent, scope);
        const auto& first = seen_.try_emplace({std::string(agent), std::string(scope)}, found).first->second;
        return ++asked_ % now_and_then == 0 ? first : found;
    }

private:
    int asked_ = 0;
    std::map<std::pair<std::string, std::string>, std::optional<checkpoint>> seen_;
};

class failing_reader : public forwarding_store {
public:
    using forwarding_store::forwarding_store;
    std::vector<checkpoint_header> list(const query& query) override
    {
        if (++asked_ % now_and_then == 0)
            throw error(errc::io, "a file could not be opened: No such file or directory");
        return forwarding_store::list(query);
    }

private:
    int asked_ = 0;
};

//! Who writes and who reads.
struct company {
    std::function<std::shared_ptr<store>()> open_writer, open_reader;
    //! Another process that reads; none if this says nothing.
    std::function<std::optional<test::child_process>(const fs::path& said, std::uint64_t seed)>
        start_process = [](const auto&, auto) { return std::nullopt; };
    bool erases_first = false;
    std::uint64_t least_questions = 0;
};

//! Lets them work side by side. Returns what readers saw that must not be; adds up what they asked.
std::vector<std::string> run_beside(const company& these, std::uint64_t seed, std::uint64_t rounds,
                                    std::uint64_t& questions)
{
    const test::temporary_folder folder(fast_folder());
    const auto said_in = folder.path() / "said";
    acknowledged said(said_in);
    const auto writing = these.open_writer();
    replacing_writer writer(*writing, said, seed, these.erases_first);
    std::vector<std::string> wrong;
    auto process = these.start_process(said_in, seed * 2 + 1);
    {
        const auto reading = these.open_reader();
        std::vector<std::string> found;
        {
            const std::jthread thread([&] { found = read_until_over(*reading, said, seed * 2); });
            try {
                for (std::uint64_t i = 0; i < rounds || said->questions < these.least_questions; ++i)
                    writer.act();
            } catch (const std::exception& failure) {
                wrong.push_back(std::string("the writer failed: ") + failure.what());
            }
            said->is_over = true;
        }
        wrong.insert(wrong.end(), found.begin(), found.end());
    }
    if (process) {
        for (std::string line; process->read_line(line);)
            wrong.push_back("another process: " + line);
        if (process->wait() != 0 && wrong.empty())
            wrong.emplace_back("another process failed");
    }
    questions += said->questions;
    return wrong;
}

std::shared_ptr<store> open_files(const fs::path& folder)
{
    return std::make_shared<file_store>(folder, file_options{}.read_only());
}

company with_files(const fs::path& folder)
{
    return {.open_writer = [folder] { return std::make_shared<file_store>(folder); },
            .open_reader = [folder] { return open_files(folder); },
            .start_process = [folder](const fs::path& said,
                                      std::uint64_t seed) -> std::optional<test::child_process> {
                return reading_process{.kind = store_kind::files, .store = folder, .said = said, .seed = seed}
                    .start();
            }};
}

company with_sqlite(const fs::path& file)
{
    const auto open = [file] { return std::make_shared<sqlite_store>(file); };
    return {.open_writer = open,
            .open_reader = open,
            .start_process = [file](const fs::path& said,
                                    std::uint64_t seed) -> std::optional<test::child_process> {
                return reading_process{.kind = store_kind::sqlite, .store = file, .said = said, .seed = seed}
                    .start();
            }};
}

template <class Broken>
bool notices_reader()
{
    const test::temporary_folder folder(fast_folder());
    auto these = with_files(folder.path());
    these.start_process = [](const auto&, auto) { return std::nullopt; };
    these.open_reader = [&] { return std::make_shared<Broken>(open_files(folder.path())); };
    these.least_questions = 400;
    std::uint64_t questions = 0;
    return !run_beside(these, 1, 200, questions).empty();
}

bool notices_writer()
{
    const test::temporary_folder folder(fast_folder());
    auto these = with_files(folder.path());
    these.erases_first = true;
    these.least_questions = 2'000;
    std::uint64_t questions = 0;
    return !run_beside(these, 1, 500, questions).empty();
}

#ifdef WAYMARK_FAULTS_INTERPOSED

//! From some moment on, whatever is looked at or opened is gone. There is an end to looking again.
std::vector<std::string> read_what_vanishes(call which)
{
    const test::temporary_folder folder(fast_folder());
    file_store(folder.path()).save(telling_checkpoint(steady_agent, "", "one", 1));
    file_store reader(folder.path(), file_options{}.read_only());
    std::vector<std::string> wrong;
    for (std::uint64_t nth = 1;; ++nth) {
        watched_folder watched(folder.path());
        watched.set(fault{.where = which, .nth = nth, .error = ENOENT, .forever = true});
        try {
            const auto found = reader.load_latest(steady_agent);
            if (!watched.has_failed())
                return wrong;
            if (!found && which == call::look)
                wrong.push_back("what vanished is absent, from " + std::to_string(nth) + " on");
        } catch (const error& failure) {
            // The first look is at the folder itself.
            const bool is_folder = failure.code() == errc::io && nth == 1 && which == call::look;
            if (failure.code() != errc::busy && !is_folder)
                wrong.push_back(std::string("what vanishes all the time: ") + failure.what());
        }
    }
}

#endif

class reader_attack final : public attack {
public:
    std::string_view name() const override { return "readers"; }
    std::string_view promise() const override { return "a reader beside a writer always has an answer"; }
    std::string_view unit() const override { return "rounds"; }
    std::uint64_t full_size() const override { return 200'000; }

    void check_harness(report& to) override
    {
        to.self_check("a reader that now and then finds nothing", notices_reader<absent_minded_reader>());
        to.self_check("a reader that now and then gives an older head", notices_reader<backward_reader>());
        to.self_check("a reader that now and then fails", notices_reader<failing_reader>());
        to.self_check("a writer that erases the head before it saves the next one", notices_writer());
    }

    //! Some of each eight rounds are on a disk, with SQLite, and with PostgreSQL if there is a server.
    void round(std::uint64_t seed, report& to) override
    {
        constexpr std::uint64_t in_memory = 1'000, on_disk = 250, in_database = 100;
        const test::temporary_folder folder(seed % 8 == 3 ? fs::temp_directory_path() : fast_folder());
        if (seed % 8 == 3)
            attack_with("files on a disk", with_files(folder.path()), seed, on_disk, to);
        else if (seed % 8 == 5)
            attack_with("SQLite", with_sqlite(folder.path() / "store.db"), seed, in_database, to);
        else if (seed % 8 != 7 || !attack_with_server(seed, in_database, to))
            attack_with("files", with_files(folder.path()), seed, in_memory, to);
#ifdef WAYMARK_FAULTS_INTERPOSED
        if (seed % 64 == 1)
            for (const auto which : {call::look, call::open})
                for (const auto& wrong : read_what_vanishes(which))
                    to.violation(wrong);
#endif
    }

    void finish(report& to) override
    {
        for (const auto& [kind, made] : made_)
            to.note(kind + ": " + std::to_string(made.rounds) + " rounds, " + std::to_string(made.questions) +
                    " questions");
    }

private:
    void attack_with(const std::string& kind, const company& these, std::uint64_t seed, std::uint64_t rounds,
                     report& to)
    {
        auto& made = made_[kind];
        for (const auto& wrong : run_beside(these, seed, rounds, made.questions))
            to.violation(kind + ": " + wrong);
        made.rounds += rounds;
        to.attacked(rounds);
    }

    //! False if there is no server.
    bool attack_with_server(std::uint64_t seed, std::uint64_t rounds, report& to)
    {
#ifdef WAYMARK_WITH_POSTGRES
        if (const auto* conninfo = std::getenv("WAYMARK_POSTGRES")) {
            const test::leased_schema schema(conninfo, 0);
            const auto open = [&] {
                return std::make_shared<postgres_store>(conninfo, postgres_options()
                                                                      .with_schema(schema.name())
                                                                      .with_durability(durability::relaxed)
                                                                      .with_prepared_statements());
            };
            const auto clean = [&] {
                const auto opened = open();
                for (const auto& agent : opened->list_agents())
                    opened->erase_agent(agent);
            };
            clean(); // the schema stays with the server
            attack_with("PostgreSQL", {.open_writer = open, .open_reader = open}, seed, rounds, to);
            clean();
            return true;
        }
#endif
        static_cast<void>(seed), static_cast<void>(rounds), static_cast<void>(to);
        return false;
    }

    struct amount {
        std::uint64_t rounds = 0;
        std::uint64_t questions = 0;
    };
    std::map<std::string, amount> made_; // by kind of store
};

} // namespace

std::unique_ptr<attack> make_reader_attack()
{
    return std::make_unique<reader_attack>();
}

} // namespace waymark::faults
