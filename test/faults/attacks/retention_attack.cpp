//! Retention is interrupted at every moment, and runs beside saves, forks, rollbacks and steps.
#include "attack.hpp"
#include "broken_stores.hpp"
#include "fast_folder.hpp"
#include "recorded_life.hpp"
#include "temporary_folder.hpp"

#include <waymark/testing/random_operations.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <stop_token>
#include <thread>

namespace waymark::faults {

namespace {

using keys = std::set<checkpoint_key>;

keys keys_in(store& from, const std::string& agent)
{
    keys all;
    for (const auto& header : from.list(query(agent)))
        all.insert(header.key());
    return all;
}

//! A history with names, scopes, pins and steps, made by chance.
class history {
public:
    explicit history(std::uint64_t seed) : random_(seed)
    {
        for (std::uint64_t i = 0, count = 4 + random_() % 12; i < count; ++i) {
            if (random_() % 4 == 0)
                chat_.truncate(random_() % (chat_.size() + 1));
            chat_.push(message::user("message " + std::to_string(i) + std::string(random_() % 200, 'm')));
            auto made =
                checkpoint("agent", chat_, static_cast<std::int64_t>(i)).with_id("c" + std::to_string(i));
            made.with_name(random_() % 3 == 0 ? "named" : "").with_scope(random_() % 4 == 0 ? "side" : "");
            if (random_() % 2 == 0)
                made.with_state({{"file", std::string(1500 + random_() % 2 * 600, 'f')}});
            points_.push_back(made);
        }
        for (const auto& point : points_) {
            if (random_() % 5 == 0)
                pins_.push_back(point.key());
            if (random_() % 5 == 0)
                steps_.push_back(
                    step("agent", point.scope(), "step of " + point.id()).with_checkpoint(point.id()));
            if (random_() % 8 == 0)
                steps_.push_back(step("agent", point.scope(), "end of " + point.id())
                                     .with_checkpoint(point.id())
                                     .with_result(1));
        }
        if (random_() % 4 != 0)
            policies_.keep_last(random_() % 5);
        if (random_() % 3 == 0)
            policies_.thin_after(random_() % 4);
        if (random_() % 5 == 0)
            policies_.only_scope("side");
    }

    void tell(store& to) const
    {
        for (const auto& point : points_)
            to.save(point);
        for (const auto& key : pins_)
            to.pin(key.agent_id(), key.scope(), key.id(), true);
        for (const auto& record : steps_)
            to.put_steps(std::vector<step_request>{step_request(record)}).at(0).value_or_throw();
    }

    const retention& policies() const noexcept { return policies_; }

    //! What must stay whatever the policies say: heads, pins, and what a pending step needs.
    keys protected_keys() const
    {
        keys all(pins_.begin(), pins_.end());
        std::map<std::string, checkpoint_key> heads;
        for (const auto& point : points_)
            heads[point.scope()] = point.key();
        for (const auto& [scope, key] : heads)
            all.insert(key);
        for (const auto& record : steps_)
            if (!record.done())
                all.insert(checkpoint_key("agent", record.scope(), *record.checkpoint_id()));
        return all;
    }

    //! What the plain model keeps.
    keys kept() const
    {
        const auto model = testing::make_model_store();
        tell(*model);
        model->prune("agent", policies_, dry_run::no);
        return keys_in(*model, "agent");
    }

    //! What of a store is not as it must be while or after these policies are carried out.
    void check(store& left, bool finished, std::vector<std::string>& wrong) const
    {
        const auto there = keys_in(left, "agent");
        const auto must = kept();
        for (const auto& key : protected_keys())
            if (!there.contains(key))
                wrong.push_back("'" + key.id() + "' is protected and gone");
        for (const auto& key : must)
            if (!there.contains(key))
                wrong.push_back("'" + key.id() + "' was to be kept and is gone");
        if (finished && there != must)
            wrong.emplace_back("something is there that was to go");
        for (const auto& point : points_)
            if (there.contains(point.key()) && left.load("agent", point.scope(), point.id()) != point)
                wrong.push_back("'" + point.id() + "' is not what was saved");
        std::size_t pinned = 0;
        for (const auto& header : left.list(query("agent")))
            pinned += header.pinned() ? 1 : 0;
        if (pinned != pins_.size())
            wrong.emplace_back("a pin is gone");
        if (left.load_steps(step_query("agent")).size() != steps_.size())
            wrong.emplace_back("a step is gone");
        if (const auto damages = left.verify().damages(); !damages.empty())
            wrong.push_back("damage: " + damages[0].what);
    }

private:
    std::mt19937_64 random_;
    conversation chat_;
    std::vector<checkpoint> points_;
    std::vector<checkpoint_key> pins_;
    std::vector<step> steps_;
    retention policies_;
};

//! Prunes a history on a recorded disk, and cuts the power in between.
class interrupted_prune {
public:
    interrupted_prune(recorded_life::opener open, std::uint64_t seed) : history_(seed), life_(std::move(open))
    {
        {
            const auto opened = life_.open();
            history_.tell(*opened);
            begin_ = life_.disk().place_in_log();
            opened->prune("agent", history_.policies(), dry_run::no);
            end_ = life_.disk().place_in_log();
            history_.check(*opened, true, wrong_);
            life_.kill(); // closing it is another matter
        }
        life_.end();
    }

    //! Cuts at every moment of it, and lets it be finished after each.
    std::vector<std::string> cut(std::mt19937_64& random, std::uint64_t& runs)
    {
        for (auto moment = begin_; moment <= end_ && wrong_.empty(); ++moment) {
            ++runs;
            try {
                life_.cut_power(moment, random, [&](store& left, const ledger&) {
                    history_.check(left, false, wrong_);
                    left.prune("agent", history_.policies(), dry_run::no);
                    history_.check(left, true, wrong_);
                });
            } catch (const std::exception& failure) {
                wrong_.emplace_back(failure.what());
            }
            if (!wrong_.empty())
                wrong_[0] += " (cut at moment " + std::to_string(moment - begin_) + " of " +
                             std::to_string(end_ - begin_) + ")";
        }
        return wrong_;
    }

private:
    history history_;
    recorded_life life_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::vector<std::string> wrong_;
};

//! Everybody works on one agent at once.
class race {
public:
    race(store& subject, std::uint64_t seed) : store_(subject), seed_(seed) {}

    std::vector<std::string> run()
    {
        store_.save(checkpoint("agent").with_id("first"));
        store_.pin("agent", "", "first", true);
        {
            std::vector<std::jthread> all;
            all.emplace_back([this] { work(1, &race::save); });
            all.emplace_back([this] { work(2, &race::roll_back); });
            all.emplace_back([this] { work(3, &race::fork); });
            all.emplace_back([this] { work(4, &race::step_once); });
            all.emplace_back([this] {
                std::mt19937_64 random(seed_);
                while (at_work_ > 0)
                    guarded([&] { prune(random); });
            });
            all.emplace_back([this] {
                while (at_work_ > 0)
                    guarded([&] { store_.compact(); });
            });
            all.emplace_back([this] {
                while (at_work_ > 0)
                    guarded([&] { watch_forks(); });
            });
        }
        guarded([this] {
            if (!store_.load("agent", "", "first"))
                fail("what is pinned is gone");
            for (const auto& agent : store_.list_agents())
                for (const auto& header : store_.list(query(agent)))
                    if (!store_.load(agent, header.scope(), header.id()))
                        fail("'" + header.id() + "' is in a list and not there");
            if (const auto damages = store_.verify().damages(); !damages.empty())
                fail("damage: " + damages[0].what);
        });
        for (const auto& [name, counts] : seen_)
            if (counts.size() > 1)
                fail("a part of '" + name + "' was seen while it was copied or erased");
        return wrong_;
    }

private:
    static constexpr int turns = 12;

    //! Every third is stopped after its first transaction, and begun again.
    void prune(std::mt19937_64& random)
    {
        const auto policies = retention{}.keep_last(random() % 3);
        if (random() % 3 == 0) {
            std::stop_source stop;
            upkeep_control control = [&](const upkeep_progress&) { stop.request_stop(); };
            control.stop_with(stop.get_token());
            try {
                store_.prune("agent", policies, dry_run::no, control);
            } catch (const error& failure) {
                if (failure.code() != std::errc::operation_canceled)
                    throw;
            }
        }
        store_.prune("agent", policies, dry_run::no);
    }

    //! Whoever sees a fork sees all of it.
    void watch_forks()
    {
        for (const auto& agent : store_.list_agents())
            if (agent.starts_with("fork-"))
                if (const auto count = store_.count(query(agent)); count > 0)
                    seen_[agent].insert(count);
    }

    void work(std::uint64_t number, void (race::*turn)(std::mt19937_64&, int))
    {
        std::mt19937_64 random(seed_ * 10 + number);
        for (int i = 0; i < turns; ++i)
            guarded([&] { (this->*turn)(random, i); });
        --at_work_;
    }

    void save(std::mt19937_64& random, int turn)
    {
        auto chat = store_.load_latest("agent").value().conversation();
        chat.push(message::user("turn " + std::to_string(turn) + std::string(random() % 400, 'x')));
        const checkpoint made("agent", chat, turn);
        const auto sequence = store_.save(made).sequence();
        const auto head = store_.load_latest("agent");
        if (!head || head->sequence() < sequence)
            fail("the head is older than what was saved before");
    }

    //! Takes what an older one holds, which may be pruned at this moment, and makes it the head.
    void roll_back(std::mt19937_64& random, int turn)
    {
        const auto all = store_.list(query("agent"));
        const auto target = store_.load("agent", "", all.at(random() % all.size()).id());
        if (!target)
            return;
        const auto made = checkpoint("agent", target->conversation(), turn).with_parent(target->id());
        const auto sequence = store_.save(made).sequence();
        // It may be pruned as soon as another one is newer, but never change.
        const auto again = store_.load("agent", "", made.id());
        if (again ? *again != made : store_.load_latest("agent").value().sequence() <= sequence)
            fail("what was rolled back to is not there as it was");
    }

    void fork(std::mt19937_64&, int turn)
    {
        const auto name = "fork-" + std::to_string(turn);
        try {
            store_.copy_agent("agent", name);
        } catch (const error& failure) {
            if (failure.code() != errc::busy) // checkpoints of the origin went all the time
                throw;
            return;
        }
        if (store_.load_all(query(name)).empty()) // all of it loads, whatever became of the original
            fail("a fork is empty");
        if (turn % 2 == 0)
            store_.erase_agent(name);
    }

    //! A step that is pending keeps its checkpoint.
    void step_once(std::mt19937_64&, int turn)
    {
        const auto head = store_.load_latest("agent").value();
        step record("agent", "", "step-" + std::to_string(turn));
        record.with_checkpoint(head.id());
        const auto begun = store_.put_steps(std::vector<step_request>{step_request(record)}).at(0);
        if (begun.code() == errc::not_found)
            return; // pruned before the step began
        begun.value_or_throw();
        for (int i = 0; i < 3; ++i)
            if (!store_.load("agent", "", head.id()))
                fail("a pending step has lost its checkpoint");
        store_.put_steps(std::vector<step_request>{step_request(step(record).with_result("done"))})
            .at(0)
            .value_or_throw();
    }

    template <class Action>
    void guarded(Action action)
    {
        try {
            action();
        } catch (const std::exception& failure) {
            fail(failure.what());
        }
    }
    void fail(const std::string& text)
    {
        const std::lock_guard lock(mutex_);
        wrong_.push_back(text);
    }

    store& store_;
    std::uint64_t seed_;
    std::atomic<int> at_work_ = 4;
    std::map<std::string, std::set<std::uint64_t>> seen_; // how much, by who watches the forks
    std::mutex mutex_;
    std::vector<std::string> wrong_;
};

class retention_attack final : public attack {
public:
    std::string_view name() const override { return "retention"; }
    std::string_view promise() const override { return "retention never removes what is needed"; }
    std::string_view unit() const override { return "runs"; }
    std::uint64_t full_size() const override { return 5'000; }

    void check_harness(report& to) override
    {
        for (const auto kind : both_kinds) {
            const auto greedy = [kind](const std::filesystem::path& folder) -> std::shared_ptr<store> {
                return std::make_shared<greedy_store>(open_store(kind, folder));
            };
            bool noticed = false;
            for (std::uint64_t seed = 1; seed < 20 && !noticed; ++seed) {
                std::mt19937_64 random(seed);
                std::uint64_t runs = 0;
                noticed = !interrupted_prune(greedy, seed).cut(random, runs).empty();
            }
            to.self_check(name_of(kind) + " that prunes one too many", noticed);
            bool is_seen = false;
            for (std::uint64_t seed = 1; seed < 20 && !is_seen; ++seed) {
                const test::temporary_folder folder(fast_folder());
                piecemeal_store piecemeal(open_store(kind, folder.path()));
                is_seen = !race(piecemeal, seed).run().empty();
            }
            to.self_check(name_of(kind) + " that copies and erases agents piece by piece", is_seen);
        }
    }

    void round(std::uint64_t seed, report& to) override
    {
        const auto kind = both_kinds[seed % 2];
        std::mt19937_64 random(seed);
        std::uint64_t runs = 0;
        const auto open = [kind](const auto& folder) { return open_store(kind, folder); };
        for (const auto& wrong : interrupted_prune(open, seed).cut(random, runs))
            to.violation(name_of(kind) + ", interrupted: " + wrong);
        const test::temporary_folder folder(fast_folder());
        for (const auto& wrong : race(*open_store(kind, folder.path()), seed).run())
            to.violation(name_of(kind) + ", in a race: " + wrong);
        to.attacked(runs + 1);
    }
};

} // namespace

std::unique_ptr<attack> make_retention_attack()
{
    return std::make_unique<retention_attack>();
}

} // namespace waymark::faults
