//! A store's life on a recorded disk, and its ledger at each moment of it.
#pragma once

#include "disk_log.hpp"
#include "ledger.hpp"
#include "system_calls.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"
#include "writer.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <random>

namespace waymark::faults {

class recorded_life {
public:
    using opener = std::function<std::shared_ptr<store>(const std::filesystem::path&)>;

    //! The folder is recorded from now on, until `end`.
    explicit recorded_life(opener open);

    //! Opens the store. What it says then has to stay, as if it had been saved at this moment: whoever finds
    //! something after a crash relies on it.
    std::shared_ptr<store> open();

    watched_folder& disk() { return *disk_; }
    //! Notes an entry at this moment.
    void note(const ledger_entry& entry) { entries_.emplace_back(disk_->place_in_log(), entry); }

    //! The process that has the store open is killed: what it does from now on, such as closing it, is
    //! neither recorded nor seen by who opens the store next.
    void kill();
    void end();

    //! After the end: how many moments there are to cut the power.
    std::size_t moments() const noexcept { return log_.size() + 1; }
    //! Cuts the power at that moment, opens what is left, and looks. Empty: nothing is wrong.
    std::vector<std::string> cut_power(std::size_t moment, std::mt19937_64& random) const;
    //! The store as such a cut leaves it; for whoever wants to do more than to look.
    void cut_power(std::size_t moment, std::mt19937_64& random,
                   const std::function<void(store& left, const ledger& notes)>& look) const;

private:
    opener open_;
    std::unique_ptr<test::temporary_folder> folder_;
    std::optional<watched_folder> disk_;
    disk_log log_;
    std::vector<std::pair<std::size_t, ledger_entry>> entries_; // by place in the log
};

//! A life by chance: the store is opened, written to, and closed or killed, some times.
void live_by_chance(recorded_life& life, std::uint64_t seed);

} // namespace waymark::faults
