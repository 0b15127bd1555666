//! The power is cut at every moment of a recorded life, and the disk keeps of the unsynced what it likes.
#include "attack.hpp"
#include "broken_stores.hpp"
#include "recorded_life.hpp"

namespace waymark::faults {

namespace {

constexpr int states_of_a_moment = 2;

class crash_state_attack final : public attack {
public:
    std::string_view name() const override { return "crash-states"; }
    std::string_view promise() const override
    {
        return "an acknowledged save survives a power cut, on every disk that keeps what was synced";
    }
    std::string_view unit() const override { return "states"; }
    std::uint64_t full_size() const override { return 50'000; }

    void check_harness(report& to) override
    {
        using ignored = watched_folder::ignored;
        expect_loss(to, "WAL with synchronous=NORMAL", open_relaxed);
        for (const auto kind : both_kinds) {
            const auto plain = [kind](const auto& folder) { return open_store(kind, folder); };
            expect_loss(to, name_of(kind) + " without syncs of folders", plain, ignored::folder_syncs);
            expect_loss(to, name_of(kind) + " without any sync", plain, ignored::all_syncs);
            expect_loss(to, name_of(kind) + " behind a committer that acknowledges before it commits",
                        [kind](const auto& folder) {
                            return std::make_shared<hasty_store>(open_store(kind, folder));
                        });
            expect_loss(to, name_of(kind) + " that copies and erases agents piece by piece",
                        [kind](const auto& folder) {
                            return std::make_shared<piecemeal_store>(open_store(kind, folder));
                        });
        }
    }

    void round(std::uint64_t seed, report& to) override
    {
        const auto kind = both_kinds[seed % 2];
        recorded_life life([kind](const auto& folder) { return open_store(kind, folder); });
        live_by_chance(life, seed);
        std::mt19937_64 random(seed);
        for (std::size_t moment = 0; moment < life.moments(); ++moment)
            for (int i = 0; i < states_of_a_moment; ++i) {
                to.attacked();
                for (const auto& wrong : life.cut_power(moment, random))
                    to.violation(name_of(kind) + ", cut at moment " + std::to_string(moment) + ": " + wrong);
            }
    }

private:
    //! One state with a loss is enough.
    static void expect_loss(report& to, const std::string& broken, const recorded_life::opener& open,
                            watched_folder::ignored ignored = watched_folder::ignored::nothing)
    {
        bool noticed = false;
        for (std::uint64_t seed = 1; seed <= 10 && !noticed; ++seed) {
            recorded_life life(open);
            life.disk().ignore(ignored);
            live_by_chance(life, seed);
            std::mt19937_64 random(seed);
            for (std::size_t moment = life.moments(); moment > 0 && !noticed; --moment)
                noticed = !life.cut_power(moment - 1, random).empty();
        }
        to.self_check(broken, noticed);
    }
};

} // namespace

std::unique_ptr<attack> make_crash_state_attack()
{
    return std::make_unique<crash_state_attack>();
}

} // namespace waymark::faults
