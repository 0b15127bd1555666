//! Stores that are wrong on purpose, each in one way, and who has to notice. They guard the test kit: a
//! promise that no case checks is one that a mutant breaks unnoticed.
#pragma once

#include "forwarding_store.hpp"

#include <waymark/testing/conformance.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::test {

using text = std::string_view;

//! What a mutant does in place of a call. The first argument is a store that does it right.
struct faults {
    std::function<std::vector<save_outcome>(store&, std::span<const save_request>)> save = {};
    std::function<std::optional<checkpoint>(store&, text, text, text)> load = {};
    std::function<std::optional<checkpoint>(store&, text)> load_by_id = {};
    std::function<std::optional<checkpoint>(store&, text, text)> load_latest = {};
    std::function<std::vector<checkpoint_header>(store&, const query&)> list = {};
    std::function<std::vector<checkpoint>(store&, const query&)> load_all = {};
    std::function<std::vector<load_outcome>(store&, std::span<const checkpoint_key>,
                                            std::span<const checkpoint>, std::size_t)>
        load_some = {};
    std::function<std::uint64_t(store&, const query&)> count = {};
    std::function<std::vector<std::string>(store&, text, std::size_t)> list_agents = {};
    std::function<bool(store&, text, text, text)> erase = {};
    std::function<std::uint64_t(store&, text, text)> erase_scope = {};
    std::function<std::uint64_t(store&, text)> erase_agent = {};
    std::function<std::uint64_t(store&, text, text)> copy_agent = {};
    std::function<prune_result(store&, text, const retention&, dry_run)> prune = {};
    std::function<bool(store&, text, text, text, bool)> pin = {};
    std::function<std::vector<step_outcome>(store&, std::span<const step_request>)> put_steps = {};
    std::function<commit_outcomes(store&, std::span<const save_request>, std::span<const step_request>)>
        commit = {};
    std::function<std::vector<step>(store&, const step_query&)> load_steps = {};
    std::function<bool(store&, text, text, text, const std::optional<std::string>&)> erase_step = {};
    std::function<void(store&, text)> await_outcome = {};
    std::function<verify_report(store&, const upkeep_control&)> verify = {};
    std::function<std::uint64_t(store&)> compact = {};
    std::function<store_stats(store&)> stats = {};
    std::function<store_stats(store&, text)> stats_of = {};
    std::function<std::size_t(const store&)> write_lanes = {};
};

//! In the list of those who notice: random operations, compared with the plain model.
inline constexpr const char* the_model = "the model";

class mutant {
public:
    using maker = std::function<faults()>;

    //! @param name       what it does wrong
    //! @param noticed_by names of conformance cases, each of which must fail; or `the_model`
    mutant(std::string name, std::vector<std::string> noticed_by, faults what)
        : mutant(std::move(name), std::move(noticed_by), [what = std::move(what)] { return what; })
    {
    }
    //! For faults that remember something: each object has its own.
    mutant(std::string name, std::vector<std::string> noticed_by, maker make)
        : name_(std::move(name)), noticed_by_(std::move(noticed_by)), make_(std::move(make))
    {
    }

    const std::string& name() const noexcept { return name_; }
    const std::vector<std::string>& noticed_by() const noexcept { return noticed_by_; }
    //! It can be closed and opened again, and several objects may share what it holds.
    testing::backend_under_test backend() const;

private:
    std::string name_;
    std::vector<std::string> noticed_by_;
    maker make_;
};

std::vector<mutant> mutants_of_values();  // lose or change a part of what is saved
std::vector<mutant> mutants_of_saves();   // conditions, batches, order, loads
std::vector<mutant> mutants_of_queries(); // filters, pages, lists
std::vector<mutant> mutants_of_upkeep();  // erasure, copies, retention, pins, statistics
std::vector<mutant> mutants_of_steps();
std::vector<mutant> mutants_of_races(); // look, and write later

// What many of them are made of

//! Saves each checkpoint in another form.
faults saving_instead(std::function<checkpoint(const checkpoint&)> change);
//! Treats each request of a batch by itself.
faults saving_each(std::function<save_result(store&, const save_request&)> save);
//! Records each step in another form.
faults recording_instead(std::function<step(const step&)> change);
//! Treats each request of a batch of steps by itself.
faults recording_each(std::function<void(store&, const step_request&)> put);
//! Asks another query, for lists, loads and counts.
faults asking_instead(std::function<query(const query&)> change);

//! The request with another step.
step_request with_step(const step_request& from, step other);
//! One request, as a batch of its own. @throws waymark::error its error
void put_one(store& inner, const step_request& request);
//! The record of a step.
std::optional<step> find_step(store& inner, text agent, text scope, text key);
std::optional<step> find_step(store& inner, const step& like);
//! The id of the head.
std::optional<std::string> head_of(store& inner, const checkpoint& like);
//! The header of a checkpoint.
std::optional<checkpoint_header> find_header(store& inner, text agent, text scope, text id);

} // namespace waymark::test
