//! An attack on one promise of the library: what it does, how much of it is enough, and how it proves that it
//! would notice a store that breaks the promise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::faults {

//! What an attack has done and found. Used from one thread.
class report {
public:
    //! Called for each violation at once, so that a crash that follows does not swallow it.
    using listener = std::function<void(const std::string& text)>;

    explicit report(listener on_violation) : on_violation_(std::move(on_violation)) {}

    void attacked(std::uint64_t times = 1) noexcept { attacks_ += times; }
    //! The promise was broken.
    void violation(const std::string& text);
    //! A store was broken on purpose. Not noticing it is a violation, too: the attack proves nothing then.
    void self_check(const std::string& broken, bool noticed);
    //! A figure beyond the number of attacks, for the table: "3 MB at most".
    void note(std::string figure) { notes_.push_back(std::move(figure)); }

    std::uint64_t attacks() const noexcept { return attacks_; }
    std::uint64_t violations() const noexcept { return violations_; }
    std::uint64_t checks() const noexcept { return checks_; }
    std::uint64_t caught() const noexcept { return caught_; }
    const std::vector<std::string>& notes() const noexcept { return notes_; }

private:
    listener on_violation_;
    std::uint64_t attacks_ = 0;
    std::uint64_t violations_ = 0;
    std::uint64_t checks_ = 0;
    std::uint64_t caught_ = 0;
    std::vector<std::string> notes_;
};

//! This machine does not permit the attack; says what is missing.
class not_possible_here : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class attack {
public:
    attack() = default;
    attack(const attack&) = delete;
    attack& operator=(const attack&) = delete;
    virtual ~attack() = default;

    //! For `--only`: "crash-states".
    virtual std::string_view name() const = 0;
    //! What is promised: "an acknowledged save survives a killed process".
    virtual std::string_view promise() const = 0;
    //! What one attack is: "kills".
    virtual std::string_view unit() const = 0;
    //! How many attacks `scripts/torture` makes.
    virtual std::uint64_t full_size() const = 0;
    //! How many the tests make, in some seconds. Those that are quick make more.
    virtual std::uint64_t small_size() const { return (full_size() + 39) / 40; }

    //! Attacks stores that are broken on purpose, and tells the report of each whether that was noticed.
    virtual void check_harness(report& to) = 0;
    //! Makes some attacks; the same seed makes the same ones. What it throws is a violation.
    virtual void round(std::uint64_t seed, report& to) = 0;
    //! After the last round: what can only be said at the end.
    virtual void finish(report& /*to*/) {}
};

//! All of them, in the order of docs/reliability.md.
std::vector<std::unique_ptr<attack>> all_attacks();

std::unique_ptr<attack> make_kill_attack();
std::unique_ptr<attack> make_crash_state_attack();
std::unique_ptr<attack> make_power_cut_attack();
std::unique_ptr<attack> make_failing_call_attack();
std::unique_ptr<attack> make_scarce_memory_attack();
std::unique_ptr<attack> make_full_disk_attack();
std::unique_ptr<attack> make_failed_sync_attack();
std::unique_ptr<attack> make_damage_attack();
std::unique_ptr<attack> make_hostile_text_attack();
std::unique_ptr<attack> make_schedule_attack();
std::unique_ptr<attack> make_overload_attack();
std::unique_ptr<attack> make_agreement_attack();
std::unique_ptr<attack> make_process_attack();
std::unique_ptr<attack> make_shared_database_attack();
std::unique_ptr<attack> make_reader_attack();
std::unique_ptr<attack> make_fleet_attack();
std::unique_ptr<attack> make_retention_attack();

} // namespace waymark::faults
