#include "backends.hpp"

#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>

#ifdef WAYMARK_WITH_POSTGRES
#include "postgres_probe.hpp"

#include <waymark/postgres_store.hpp>
#endif

#include <cstdlib>
#include <iostream>

namespace waymark::test {

namespace {

enum class writers_of_a_place { one, many };

//! A store together with its place, a folder or a schema, which goes when the last of those that were opened
//! on it goes.
template <class Place>
testing::backend_under_test with_place(std::string name, std::function<std::shared_ptr<Place>()> make_place,
                                       std::function<std::shared_ptr<store>(const Place&)> open_store,
                                       writers_of_a_place writers)
{
    struct opened {
        std::shared_ptr<Place> place; // goes last
        std::shared_ptr<store> backend;
    };
    const auto open = [open_store](std::shared_ptr<Place> place) -> std::shared_ptr<store> {
        auto both = std::make_shared<opened>();
        both->backend = open_store(*place);
        both->place = std::move(place);
        auto* const backend = both->backend.get();
        return {std::move(both), backend};
    };
    // The place of each store, as long as the store is there.
    using places = std::vector<std::pair<std::weak_ptr<store>, std::weak_ptr<Place>>>;
    const auto known = std::make_shared<places>();
    const auto remember = [known](const std::shared_ptr<store>& made, const std::shared_ptr<Place>& place) {
        std::erase_if(*known, [](const auto& entry) { return entry.first.expired(); });
        known->emplace_back(made, place);
        return made;
    };
    const auto place_of = [known](const std::shared_ptr<store>& current) {
        std::shared_ptr<Place> place;
        for (const auto& [made, where] : *known)
            if (made.lock() == current)
                place = where.lock();
        return place;
    };
    auto backend = testing::backend_under_test(std::move(name), [=] {
                       auto place = make_place();
                       return remember(open(place), place);
                   }).with_reopen([=](std::shared_ptr<store> current) {
        auto place = place_of(current);
        current.reset();
        return remember(open(place), place);
    });
    if (writers == writers_of_a_place::many)
        backend.with_open_beside([=](const std::shared_ptr<store>& current) {
            auto place = place_of(current);
            return remember(open(place), place);
        });
    return backend;
}

template <class Store>
testing::backend_under_test on_disk(std::string name, const std::string& file, writers_of_a_place writers)
{
    return with_place<temporary_folder>(
        std::move(name), [] { return std::make_shared<temporary_folder>(); },
        [file](const temporary_folder& folder) { return std::make_shared<Store>(folder.path() / file); },
        writers);
}

} // namespace

std::vector<testing::backend_under_test> embedded_backends()
{
    return {
        {"memory", [] { return std::make_shared<memory_store>(); }},
        {"SQLite in memory", [] { return sqlite_store::in_memory(); }},
        on_disk<sqlite_store>("SQLite", "store.db", writers_of_a_place::many),
        on_disk<file_store>("files", "store", writers_of_a_place::one),
    };
}

std::vector<testing::backend_under_test> postgres_backends()
{
    std::vector<testing::backend_under_test> result;
#ifdef WAYMARK_WITH_POSTGRES
    if (const auto server = postgres_for_tests())
        for (const std::size_t partitions : {0U, 16U})
            result.push_back(with_place<leased_schema>(
                partitions == 0 ? "PostgreSQL" : "PostgreSQL, 16 partitions",
                [=] { return std::make_shared<leased_schema>(*server, partitions); },
                [=](const leased_schema& schema) {
                    return std::make_shared<postgres_store>(*server,
                                                            postgres_options().with_schema(schema.name()));
                },
                writers_of_a_place::many));
#else
    std::cout << "this test is skipped: built without libpq\n";
#endif
    return result;
}

std::vector<testing::backend_under_test> all_backends()
{
    const auto* const wanted = std::getenv("WAYMARK_BACKENDS");
    return wanted != nullptr && std::string_view(wanted) == "postgres" ? postgres_backends()
                                                                       : embedded_backends();
}

} // namespace waymark::test
