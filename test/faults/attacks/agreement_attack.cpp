//! The same random operations on every store at once; after each of them, all must say and hold the same.
#include "attack.hpp"
#include "fast_folder.hpp"
#include "forwarding_store.hpp"
#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>
#include <waymark/testing/random_operations.hpp>

#ifdef WAYMARK_WITH_POSTGRES
#include "postgres_probe.hpp"

#include <waymark/postgres_store.hpp>
#endif

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>

namespace waymark::faults {

namespace {

using test::forwarding_store;
using testing::compared_store;

constexpr std::uint64_t sequences_per_round = 100;
// A server takes many times as long as the other stores together.
constexpr std::uint64_t sequences_per_server_sequence = 20;

//! Most sequences are short, so that there can be many; histories that grow are rarer.
std::size_t length_of(std::uint64_t sequence)
{
    return sequence % 50 == 49 ? 100 : 8 + sequence % 8;
}

testing::comparison_options thoroughly()
{
    return testing::comparison_options().after_each_operation().erase_at_the_end();
}

//! Opens a store again, but not each time that a sequence asks for it: that takes as long as some operations.
compared_store::reopener reopening(std::size_t seldom, std::function<std::shared_ptr<store>()> open)
{
    return [=, asked = std::size_t{0}](std::shared_ptr<store> current) mutable {
        if (++asked % seldom != 0)
            return current;
        current.reset(); // a store of files has one writer
        return open();
    };
}

template <class Store>
compared_store on_disk(std::string name, const std::filesystem::path& place)
{
    const auto open = [place] { return std::make_shared<Store>(place); };
    constexpr std::size_t seldom = 5;
    return {std::move(name), open(), reopening(seldom, open)};
}

//! Those that need nothing but this machine.
std::vector<compared_store> embedded_stores(const std::filesystem::path& folder)
{
    std::vector<compared_store> all;
    all.emplace_back("the plain model", testing::make_model_store());
    all.emplace_back("memory", std::make_shared<memory_store>());
    all.push_back(on_disk<file_store>("files", folder / "files"));
    all.push_back(on_disk<sqlite_store>("SQLite", folder / "store.db"));
    return all;
}

#ifdef WAYMARK_WITH_POSTGRES

//! A schema on the server, and the store in it. It stays over all rounds, since making tables takes long.
class server_store {
public:
    explicit server_store(const std::string& conninfo)
        : conninfo_(conninfo),
          schema_(conninfo, 0),
          compared_("PostgreSQL", open(), reopening(20, [this] { return open(); }))
    {
    }
    server_store(const server_store&) = delete;
    server_store& operator=(const server_store&) = delete;

    compared_store& get() noexcept { return compared_; }

private:
    //! What a power cut takes is not the question here; waiting for the disk would cost most of the time.
    std::shared_ptr<store> open() const
    {
        return std::make_shared<postgres_store>(conninfo_, postgres_options()
                                                               .with_schema(schema_.name())
                                                               .with_durability(durability::relaxed)
                                                               .with_prepared_statements());
    }

    std::string conninfo_;
    test::leased_schema schema_;
    compared_store compared_;
};

#endif

// Stores that are broken on purpose

//! Says that it has erased, once.
class forgetful_store : public forwarding_store {
public:
    bool erase(std::string_view agent, std::string_view scope, std::string_view id) override
    {
        if (!has_forgotten_ && load(agent, scope, id)) {
            has_forgotten_ = true;
            return true;
        }
        return forwarding_store::erase(agent, scope, id);
    }

private:
    bool has_forgotten_ = false;
};

//! Takes the second-newest for the latest.
class late_store : public forwarding_store {
public:
    std::optional<checkpoint> load_latest(std::string_view agent, std::string_view scope) override
    {
        const auto newest = list(query(std::string(agent)).scope(std::string(scope)).limit(2));
        return newest.empty() ? std::nullopt : load(agent, scope, newest.back().id());
    }
};

//! Removes what is pinned.
class unpinning_store : public forwarding_store {
public:
    prune_result prune(std::string_view agent, const retention& policies, dry_run dry,
                       const upkeep_control& control) override
    {
        for (const auto& header : list(query(std::string(agent))))
            if (header.pinned() && dry == dry_run::no)
                pin(agent, header.scope(), header.id(), false);
        return forwarding_store::prune(agent, policies, dry, control);
    }
};

template <class Broken>
bool is_noticed()
{
    std::array both = {compared_store("memory", std::make_shared<memory_store>()),
                       compared_store("broken", std::make_shared<Broken>())};
    constexpr std::uint64_t enough = 2'000; // a tenth of what CI does
    try {
        for (std::uint64_t sequence = 0; sequence < enough; ++sequence)
            testing::compare_stores(both, sequence, length_of(sequence), thoroughly());
    } catch (const testing::failed_expectation&) {
        return true;
    }
    return false;
}

class agreement_attack final : public attack {
public:
    std::string_view name() const override { return "agreement"; }
    std::string_view promise() const override { return "stores agree"; }
    std::string_view unit() const override { return "sequences"; }
    std::uint64_t full_size() const override { return 20'000; }

    void check_harness(report& to) override
    {
        to.self_check("a store that forgets an erase", is_noticed<forgetful_store>());
        to.self_check("a store that takes the second-newest for the latest", is_noticed<late_store>());
        to.self_check("a store whose prune drops pins", is_noticed<unpinning_store>());
    }

    void round(std::uint64_t seed, report& to) override
    {
        const test::temporary_folder folder(fast_folder());
        auto stores = embedded_stores(folder.path());
        for (std::uint64_t i = 0; i < sequences_per_round; ++i) {
            const auto sequence = seed * sequences_per_round + i;
            if (i % sequences_per_server_sequence == 0)
                compare_with_server(stores, sequence);
            else
                testing::compare_stores(stores, sequence, length_of(sequence), thoroughly());
            to.attacked();
        }
    }

    void finish(report& to) override
    {
        to.note(on_server_ == 0 ? "PostgreSQL was left out: there is no server, or no libpq"
                                : "PostgreSQL in every " + std::to_string(sequences_per_server_sequence) +
                                      "th sequence, " + std::to_string(on_server_) + " in all");
    }

private:
    void compare_with_server(std::vector<compared_store>& stores, std::uint64_t sequence)
    {
#ifdef WAYMARK_WITH_POSTGRES
        if (const auto* conninfo = std::getenv("WAYMARK_POSTGRES")) {
            // After a difference the schema is not empty. The next sequence makes it so.
            auto server = server_ ? std::move(server_) : std::make_unique<server_store>(conninfo);
            stores.push_back(server->get());
            testing::compare_stores(stores, sequence, length_of(sequence), thoroughly());
            server->get() = std::move(stores.back()); // it may have been reopened
            stores.pop_back();
            server_ = std::move(server);
            ++on_server_;
            return;
        }
#endif
        testing::compare_stores(stores, sequence, length_of(sequence), thoroughly());
    }

#ifdef WAYMARK_WITH_POSTGRES
    std::unique_ptr<server_store> server_;
#endif
    std::uint64_t on_server_ = 0;
};

} // namespace

std::unique_ptr<attack> make_agreement_attack()
{
    return std::make_unique<agreement_attack>();
}

} // namespace waymark::faults
