//! A writer with a life of its own: saves, replaces, names, pins, records steps, prunes and erases, by
//! chance, and notes in a ledger what it tried and what it was told.
#pragma once

#include "ledger.hpp"

#include <functional>
#include <random>

namespace waymark::faults {

class writer {
public:
    using note_taker = std::function<void(const ledger_entry&)>;

    //! Writes for `agent_id` alone. Each life has ids of its own.
    writer(store& to, std::string agent_id, std::uint64_t seed, note_taker note);

    //! One operation. @throws what the store throws; the ledger then knows that it was tried
    void act();

    //! Before it goes on with what another life has left.
    void resume();
    //! Someone has removed what it saved.
    void forget();

private:
    void save();
    void save_batch();
    void replace();
    void record_step();
    void prune();
    void erase();

    checkpoint next_checkpoint();
    void save(const std::vector<save_request>& batch);
    void remove(const std::vector<checkpoint_key>& keys, const std::function<void()>& action);
    bool one_in(std::uint64_t n) { return random_() % n == 0; }

    store& store_;
    std::string agent_id_;
    std::string life_;
    std::mt19937_64 random_;
    note_taker note_;
    conversation chat_;
    std::optional<std::string> head_;
    std::vector<checkpoint> recent_; // to be replaced or erased
    std::int64_t iteration_ = 0;
};

} // namespace waymark::faults
