//! Hostile strings as ids, names, keys and texts, on every store.
#include "attack.hpp"
#include "forwarding_store.hpp"
#include "hostile_exercise.hpp"
#include "hostile_places.hpp"
#include "hostile_strings.hpp"
#include "hostile_text.hpp"
#include "sqlite_probe.hpp"

#ifdef WAYMARK_WITH_POSTGRES
#include "postgres_probe.hpp"
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sys/stat.h>

namespace waymark::faults {

namespace {

namespace fs = std::filesystem;
using test::forwarding_store;

constexpr std::uint64_t strings_per_round = 25;

//! One store, from its bystander to the end.
class siege {
public:
    siege(hostile_target& target, report& to) : target_(target), report_(to)
    {
        guarded("at the beginning", [&] {
            structure_ = target_.structure();
            save_bystander(*target_.backend);
            at_first_ = look_at(*target_.backend);
        });
    }

    //! After a violation, what follows would only be its echo.
    bool is_over() const noexcept { return is_over_; }

    void attack_with(const std::string& text)
    {
        guarded(shown(text), [&] {
            exercise(*target_.backend, text);
            if (target_.structure() != structure_)
                throw broken_promise("tables or files of the store are others than before");
        });
    }

    //! What was left behind is still there after the store was opened again, and goes one by one.
    void end()
    {
        guarded("at the end", [&] {
            const auto held = look_at(*target_.backend);
            const auto whole = target_.backend->load_all(query::all_agents());
            if (target_.reopen)
                target_.backend = target_.reopen(std::move(target_.backend));
            if (look_at(*target_.backend) != held || target_.backend->load_all(query::all_agents()) != whole)
                throw broken_promise("the store is another after it was opened again");
            if (!target_.backend->verify().ok())
                throw broken_promise("verify() finds damage");
            auto left = held.agents.size();
            for (const auto& agent : held.agents) {
                if (std::count(at_first_.agents.begin(), at_first_.agents.end(), agent) > 0)
                    continue;
                if (target_.backend->erase_agent(agent) != 1 || target_.backend->stats().agents != --left)
                    throw broken_promise("erase_agent removed others than " + shown(agent));
            }
            if (look_at(*target_.backend) != at_first_)
                throw broken_promise("the bystander was touched");
            for (const auto& agent : at_first_.agents)
                target_.backend->erase_agent(agent);
        });
    }

private:
    template <class Action>
    void guarded(const std::string& when, Action action)
    {
        if (is_over_)
            return;
        try {
            action();
        } catch (const std::exception& failure) {
            report_.violation(target_.name + ", " + when + ": " + shown(failure.what(), 1'000));
            is_over_ = true;
        }
    }

    hostile_target& target_;
    report& report_;
    std::vector<std::string> structure_;
    visible_contents at_first_;
    bool is_over_ = false;
};

//! Attacks all targets with all strings. What is seen goes to the report.
void attack_all(std::vector<hostile_target>& targets, const std::vector<std::string>& strings,
                const guarded_ground& ground, report& to)
{
    std::vector<siege> sieges;
    for (auto& target : targets)
        sieges.emplace_back(target, to);
    for (const auto& text : strings) {
        for (auto& one : sieges)
            one.attack_with(aimed_at(text, ground.outside()));
        to.attacked();
        const auto complaints = ground.complaints();
        for (const auto& complaint : complaints)
            to.violation(shown(text) + ": " + complaint);
        if (!complaints.empty() ||
            std::all_of(sieges.begin(), sieges.end(), [](const auto& one) { return one.is_over(); }))
            return;
    }
    for (auto& one : sieges)
        one.end();
}

// Stores that are broken on purpose

//! Makes paths of ids, and nothing else wrong: files are the owner's. Only within the ground, where it does
//! no harm.
class path_store : public forwarding_store {
public:
    path_store(fs::path folder, const guarded_ground& ground) : folder_(std::move(folder)), ground_(ground) {}

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        const auto mask = ::umask(S_IRWXG | S_IRWXO);
        for (const auto& request : batch) {
            const auto path = folder_ / request.checkpoint().agent_id() / request.checkpoint().id();
            std::error_code ignored;
            if (!ground_.contains(path))
                continue;
            fs::create_directories(path.parent_path(), ignored);
            std::ofstream(path) << "a checkpoint";
        }
        ::umask(mask);
        return forwarding_store::save(batch);
    }

private:
    fs::path folder_;
    const guarded_ground& ground_;
};

//! Pastes names into SQL.
class pasting_store : public forwarding_store {
public:
    pasting_store(std::shared_ptr<store> inner, const fs::path& file)
        : forwarding_store(std::move(inner)), database_(file)
    {
    }

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        for (const auto& request : batch)
            try {
                database_.run("SELECT count(*) FROM checkpoints WHERE name = '" +
                              request.checkpoint().name() + "'");
            } catch (const std::runtime_error&) { // NOLINT(bugprone-empty-catch): not every string is SQL
            }
        return forwarding_store::save(batch);
    }

private:
    test::other_connection database_;
};

//! Takes agents for the same that differ in case only.
class case_folding_store : public forwarding_store {
public:
    std::uint64_t erase_agent(std::string_view agent) override
    {
        const auto count = forwarding_store::erase_agent(agent);
        for (const auto& agent_there : list_agents())
            if (std::equal(agent.begin(), agent.end(), agent_there.begin(), agent_there.end(),
                           [](char left, char right) { return std::tolower(left) == std::tolower(right); }))
                forwarding_store::erase_agent(agent_there);
        return count;
    }
};

//! Ends strings where C does.
class cutting_store : public forwarding_store {
public:
    std::uint64_t erase_agent(std::string_view agent) override
    {
        return forwarding_store::erase_agent(agent.substr(0, agent.find('\0')));
    }
};

//! Shows what it was given as it is.
class raw_message_store : public forwarding_store {
public:
    std::uint64_t copy_agent(std::string_view from, std::string_view to,
                             const upkeep_control& control) override
    {
        try {
            return forwarding_store::copy_agent(from, to, control);
        } catch (const error& failure) {
            throw error(failure.code(), "cannot copy " + std::string(from));
        }
    }
};

//! Whether the strings, round by round, find a violation in the store that `make` makes.
template <class Make>
bool is_noticed(Make make)
{
    bool noticed = false;
    report found([&](const std::string&) { noticed = true; });
    const auto& all = hostile_strings();
    for (std::size_t begin = 0; begin < all.size() && !noticed; begin += strings_per_round) {
        const auto end = std::min<std::size_t>(begin + strings_per_round, all.size());
        const guarded_ground ground;
        std::vector<hostile_target> targets = {make(ground)};
        attack_all(targets, {all.data() + begin, all.data() + end}, ground, found);
    }
    return noticed;
}

template <class Broken>
hostile_target broken_target(const guarded_ground&)
{
    auto target = memory_target();
    target.backend = std::make_shared<Broken>();
    return target;
}

class hostile_text_attack final : public attack {
public:
    std::string_view name() const override { return "hostile-text"; }
    std::string_view promise() const override { return "ids, names and keys are data"; }
    std::string_view unit() const override { return "strings"; }
    std::uint64_t full_size() const override { return hostile_strings().size(); }

    void check_harness(report& to) override
    {
        to.self_check("a store that makes paths of ids", is_noticed([](const guarded_ground& ground) {
                          auto target = memory_target();
                          target.backend = std::make_shared<path_store>(ground.place_of("paths"), ground);
                          return target;
                      }));
        to.self_check("a store that pastes names into SQL", is_noticed([](const guarded_ground& ground) {
                          auto target = sqlite_target(ground);
                          target.backend = std::make_shared<pasting_store>(
                              target.backend, ground.place_of("sqlite") / "store.db");
                          target.reopen = {};
                          return target;
                      }));
        to.self_check("a store that mixes up upper and lower case",
                      is_noticed(broken_target<case_folding_store>));
        to.self_check("a store that ends ids at a NUL", is_noticed(broken_target<cutting_store>));
        to.self_check("a store whose messages have control characters",
                      is_noticed(broken_target<raw_message_store>));
    }

    void round(std::uint64_t seed, report& to) override
    {
        const guarded_ground ground;
        std::vector<hostile_target> targets;
        targets.push_back(memory_target());
        targets.push_back(file_target(ground));
        targets.push_back(sqlite_target(ground));
#ifdef WAYMARK_WITH_POSTGRES
        // A server takes longer than the others together: it gets two rounds of three.
        if (const auto* conninfo = std::getenv("WAYMARK_POSTGRES"); conninfo != nullptr && seed % 3 != 0) {
            // Leased each time: that empties it, whatever the round before has left.
            const test::leased_schema schema(conninfo, 0);
            targets.push_back(postgres_target(conninfo, schema.name()));
            const auto strings = strings_of(seed);
            on_server_ += strings.size();
            attack_all(targets, strings, ground, to);
            return;
        }
#endif
        attack_all(targets, strings_of(seed), ground, to);
    }

    void finish(report& to) override
    {
        to.note(on_server_ == 0 ? "PostgreSQL was left out: there is no server, or no libpq"
                                : std::to_string(on_server_) + " of them on PostgreSQL, too");
    }

private:
    //! First all of the corpus, then what can be made of it.
    static std::vector<std::string> strings_of(std::uint64_t seed)
    {
        std::set<std::string> seen; // a round does not use a string twice
        std::vector<std::string> result;
        for (std::uint64_t i = 0; i < strings_per_round; ++i) {
            const auto number = (seed - 1) * strings_per_round + i;
            auto text = number < hostile_strings().size() ? hostile_strings()[number]
                                                          : combined_hostile_string(number);
            if (seen.insert(text).second)
                result.push_back(std::move(text));
        }
        return result;
    }

    std::size_t on_server_ = 0;
};

} // namespace

std::unique_ptr<attack> make_hostile_text_attack()
{
    return std::make_unique<hostile_text_attack>();
}

} // namespace waymark::faults
