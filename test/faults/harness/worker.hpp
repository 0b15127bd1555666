//! Other processes of the harness: this program once more, run with `--worker`.
#pragma once

#include "child_process.hpp"

#include <waymark/store.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace waymark::faults {

enum class store_kind { sqlite, files };

constexpr store_kind both_kinds[] = {store_kind::sqlite, store_kind::files};
std::string name_of(store_kind kind);
//! A store in that folder, which is made if it is not there.
std::shared_ptr<store> open_store(store_kind kind, const std::filesystem::path& folder);
std::shared_ptr<store> open_relaxed(const std::filesystem::path& folder); // SQLite that does not sync commits

//! How a worker is broken on purpose.
enum class flaw { none, acknowledges_early, relaxed, skips_folder_syncs, skips_all_syncs };

//! A process that writes until it is killed (or for so many operations) and tells its ledger line by line.
struct writer_process {
    store_kind kind = store_kind::sqlite;
    std::filesystem::path folder = {};
    std::string agent_id = {};
    std::uint64_t seed = 0;
    std::uint64_t operations = 1'000'000'000;
    flaw broken = flaw::none;

    test::child_process start() const;
};

//! A process that saves, lists, loads, prunes and verifies beside others, and ends with an error if it sees
//! something that must not be. Prints its ledger.
struct mixed_process {
    std::filesystem::path folder = {};
    std::string agent_id = {};
    std::uint64_t seed = 0;
    std::uint64_t operations = 0;
    flaw broken = flaw::none;

    test::child_process start() const;
};

//! A process that asks a store that another one writes (see reader.hpp), and prints what is wrong.
struct reading_process {
    store_kind kind = store_kind::files;
    std::filesystem::path store = {};
    std::filesystem::path said = {};
    std::uint64_t seed = 0;

    test::child_process start() const;
};

//! How a line begins that says why a worker gave up.
constexpr std::string_view failed = "failed: ";

//! The other end of it.
int run_worker(const std::vector<std::string>& arguments);

} // namespace waymark::faults
