//! What a writer tried and what it was told, and whether a store still says the same.
//!
//! A writer notes each change before it asks for it and again when it was acknowledged. Whatever happens in
//! between, a store is right if every acknowledged change is there, whole and in order, and if what was only
//! tried is there whole or not at all.
#pragma once

#include <waymark/store.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::faults {

//! One entry of the ledger, as a line of text where it comes from another process.
struct ledger_entry {
    enum class kind { trying, saved, removing, removed, trying_step, step_saved };

    kind what = kind::trying;
    checkpoint_key key = {}; // a step: its key as the id
    std::uint64_t content = 0;
    std::int64_t sequence = 0; // 0: the writer was not told

    std::string to_line() const; // without its end
    static ledger_entry from_line(const std::string& line);

    //! The same, if it is not certain that the writer was told.
    ledger_entry only_tried() const;
};

//! The agent that is only made as a copy of another one, and only erased as a whole: all of it is there, or
//! nothing.
inline constexpr std::string_view the_copy = "copy";

//! A fingerprint of what a checkpoint holds, without what the store decides.
std::uint64_t content_of(const checkpoint& value);
std::uint64_t content_of(const step& value);

class ledger {
public:
    void add(const ledger_entry& entry);

    //! What the store does wrong, by these entries; empty: nothing.
    std::vector<std::string> check(store& subject) const;

    std::size_t acknowledged() const noexcept { return acknowledged_; }

private:
    //! What may be known of one key.
    struct state {
        std::set<std::uint64_t> contents; // any of these
        std::int64_t sequence = 0;        // 0: was never acknowledged
        std::size_t acknowledged_at = 0;  // when it was first acknowledged, among all
        bool must_be_there = false;
        bool may_be_there = false;
    };
    void check_agent(store& subject, const std::string& agent_id, std::vector<std::string>& wrong) const;
    void check_steps(store& subject, const std::string& agent_id, std::vector<std::string>& wrong) const;

    std::size_t wanted_of(const std::string& agent_id) const;

    std::map<checkpoint_key, state> checkpoints_;
    std::map<checkpoint_key, state> steps_;
    std::size_t acknowledged_ = 0;
};

} // namespace waymark::faults
