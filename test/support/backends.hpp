//! The backends that the tests run on. A new one registers itself here.
#pragma once

#include "temporary_folder.hpp"

#include <waymark/file_store.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>
#include <waymark/testing/conformance.hpp>
#include <waymark/testing/random_operations.hpp>

#include <vector>

namespace waymark::test {

//! A store on disk together with its folder, which goes when the last of those that were opened on it goes.
template <class Store>
testing::backend_under_test on_disk(std::string name, std::string file)
{
    struct opened {
        std::shared_ptr<temporary_folder> folder;
        std::shared_ptr<Store> store;
    };
    const auto open = [file](std::shared_ptr<temporary_folder> folder) -> std::shared_ptr<store> {
        auto both = std::make_shared<opened>();
        both->store = std::make_shared<Store>(folder->path() / file);
        both->folder = std::move(folder);
        auto* const store = both->store.get();
        return {std::move(both), store};
    };
    // The folder of each store, as long as the store is there.
    using folders = std::vector<std::pair<std::weak_ptr<store>, std::weak_ptr<temporary_folder>>>;
    const auto known = std::make_shared<folders>();
    const auto remember = [known](const std::shared_ptr<store>& made,
                                  const std::shared_ptr<temporary_folder>& folder) {
        std::erase_if(*known, [](const auto& entry) { return entry.first.expired(); });
        known->emplace_back(made, folder);
        return made;
    };
    return testing::backend_under_test(std::move(name),
                                       [=] {
                                           auto folder = std::make_shared<temporary_folder>();
                                           return remember(open(folder), folder);
                                       })
        .with_reopen([=](std::shared_ptr<store> current) {
            std::shared_ptr<temporary_folder> folder;
            for (const auto& [made, where] : *known)
                if (made.lock() == current)
                    folder = where.lock();
            current.reset();
            return remember(open(folder), folder);
        });
}

inline std::vector<testing::backend_under_test> all_backends()
{
    return {
        {"memory", [] { return std::make_shared<memory_store>(); }},
        {"SQLite in memory", [] { return sqlite_store::in_memory(); }},
        on_disk<sqlite_store>("SQLite", "store.db"),
        on_disk<file_store>("files", "store"),
    };
}

} // namespace waymark::test
