//! Each sync of a life fails once. What was to be synced is gone from the disk then, although the system
//! still shows it; the store must not be used before it is opened again, and whatever it says then must be
//! true.
#include "attack.hpp"
#include "broken_stores.hpp"
#include "recorded_life.hpp"

#include <cerrno>
#include <functional>

namespace waymark::faults {

namespace {

//! A life in which the Nth sync fails. Then the store is closed, or its process is killed, and another one
//! opens it.
class interrupted_life {
public:
    interrupted_life(recorded_life::opener open, std::uint64_t seed, std::uint64_t nth)
        : life_(std::move(open))
    {
        life_.disk().set(fault{.where = call::sync, .nth = nth, .error = EIO});
        std::mt19937_64 random(seed);
        live_on(random, true);
        life_.disk().set(std::nullopt);
        live_on(random, false);
        life_.end();
    }

    bool has_failed() const noexcept { return has_failed_; }
    const std::vector<std::string>& wrong() const noexcept { return wrong_; }

    //! Cuts the power at the moments from the failure on.
    std::vector<std::string> cut_power(std::mt19937_64& random, std::size_t every, std::uint64_t& cuts) const
    {
        for (auto moment = first_; moment < life_.moments(); moment += every) {
            ++cuts;
            auto wrong = life_.cut_power(moment, random);
            if (!wrong.empty()) {
                wrong[0] += " (cut at moment " + std::to_string(moment) + " of " +
                            std::to_string(life_.moments()) + ", the failure was at " +
                            std::to_string(first_) + ")";
                return wrong;
            }
        }
        return {};
    }

private:
    void live_on(std::mt19937_64& random, bool may_fail)
    {
        std::shared_ptr<store> opened;
        try {
            opened = life_.open();
            writer by_chance(*opened, "agent", random(),
                             [&](const ledger_entry& entry) { life_.note(entry); });
            by_chance.resume();
            // With an empty log as well: then what is written back is nowhere else.
            for (int i = 0; i < 6; ++i) {
                by_chance.act();
                if (random() % 3 == 0)
                    opened->compact();
            }
        } catch (const error& failure) {
            if (!may_fail || !life_.disk().has_failed())
                wrong_.push_back(std::string("an error without a cause: ") + failure.what());
            else if (opened && failure.code() == errc::outcome_unknown)
                expect_out_of_use(*opened);
        }
        if (may_fail) {
            has_failed_ = life_.disk().has_failed();
            first_ = life_.disk().place_in_log();
        }
        if (random() % 2 == 0)
            life_.kill();
    }

    void expect_out_of_use(store& opened)
    {
        const auto refuses = [&](const char* what, const std::function<void()>& action) {
            try {
                action();
                wrong_.push_back(std::string(what) + " goes on after a failed sync");
            } catch (const error& failure) {
                if (failure.code() != errc::io)
                    wrong_.push_back(std::string(what) + " fails with " + failure.what());
            }
        };
        refuses("save", [&] { opened.save(checkpoint("other")); });
        refuses("load", [&] { opened.load_latest("agent"); });
        refuses("list", [&] { opened.list(query("agent")); });
        refuses("prune", [&] { opened.prune("agent", retention{}.keep_last(1), dry_run::no); });
    }

    recorded_life life_;
    std::size_t first_ = 0; // moments before it are as without a failure
    bool has_failed_ = false;
    std::vector<std::string> wrong_;
};

//! Takes a save whose outcome is not known for one that succeeded.
class careless_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        try {
            return forwarding_store::save(batch);
        } catch (const error& failure) {
            if (failure.code() != errc::outcome_unknown)
                throw;
            return std::vector<save_outcome>(batch.size(), save_result()); // it will be there, surely
        }
    }
};

class failed_sync_attack final : public attack {
public:
    std::string_view name() const override { return "failed-syncs"; }
    std::string_view promise() const override
    {
        return "a failed sync ends a store until it is opened again";
    }
    std::string_view unit() const override { return "power cuts after one"; }
    std::uint64_t full_size() const override { return 6'000; }

    void check_harness(report& to) override
    {
        for (const auto kind : both_kinds) {
            const auto careless = [kind](const std::filesystem::path& folder) -> std::shared_ptr<store> {
                return std::make_shared<careless_store>(open_store(kind, folder));
            };
            bool noticed = false;
            for (std::uint64_t nth = 1; nth < 60 && !noticed; ++nth) {
                const interrupted_life life(careless, 1, nth);
                std::mt19937_64 random(nth);
                std::uint64_t cuts = 0;
                noticed = !life.wrong().empty() || !life.cut_power(random, 1, cuts).empty();
            }
            to.self_check(name_of(kind) + " that takes a failed sync for a success", noticed);
        }
    }

    //! All syncs of one life.
    void round(std::uint64_t seed, report& to) override
    {
        const auto kind = both_kinds[seed % 2];
        const auto open = [kind](const auto& folder) { return open_store(kind, folder); };
        for (std::uint64_t nth = 1;; ++nth) {
            const interrupted_life life(open, seed, nth);
            if (!life.has_failed())
                break;
            const auto about = name_of(kind) + ", sync " + std::to_string(nth) + ": ";
            for (const auto& wrong : life.wrong())
                to.violation(about + wrong);
            std::mt19937_64 random(seed * 1000 + nth);
            std::uint64_t cuts = 0;
            for (const auto& wrong : life.cut_power(random, 2, cuts))
                to.violation(about + wrong);
            to.attacked(cuts);
            ++syncs_;
            if (to.violations() > 10)
                return;
        }
    }

    void finish(report& to) override { to.note(std::to_string(syncs_) + " syncs failed"); }

private:
    std::uint64_t syncs_ = 0;
};

} // namespace

std::unique_ptr<attack> make_failed_sync_attack()
{
    return std::make_unique<failed_sync_attack>();
}

} // namespace waymark::faults
