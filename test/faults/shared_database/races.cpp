#include "races.hpp"

#include "conversation_pool.hpp"
#include "forwarding_tables.hpp"

#include <array>
#include <latch>
#include <map>
#include <mutex>
#include <random>
#include <thread>

namespace waymark::faults {

namespace {

//! What happens before a transaction of someone else, once.
struct interruption {
    std::size_t transactions_left = 0; // before it comes
    std::function<void()> action;

    void transaction_begins()
    {
        if (!action)
            return;
        if (transactions_left > 0)
            --transactions_left;
        else
            std::exchange(action, {})();
    }
};

class interrupted_database final : public test::forwarding_database {
public:
    interrupted_database(std::unique_ptr<storage::database> inner, interruption& by)
        : forwarding_database(std::move(inner)), by_(by)
    {
    }

    using forwarding_database::read;
    using forwarding_database::write;
    void read(const storage::access& about, const std::function<void(storage::tables&)>& body) override
    {
        by_.transaction_begins();
        forwarding_database::read(about, body);
    }
    void write(const storage::access& about, const std::function<void(storage::tables&)>& body,
               const undone_callback& undone) override
    {
        by_.transaction_begins();
        forwarding_database::write(about, body, undone);
    }

private:
    interruption& by_;
};

std::shared_ptr<store> changed(std::shared_ptr<store> opened, const store_change& change)
{
    return change ? change(std::move(opened)) : opened;
}

//! What is not true. Told by several threads.
class claims {
public:
    void fail(const std::string& text)
    {
        const std::lock_guard lock(mutex_);
        wrong_.push_back(text);
    }
    //! Runs something that has no reason to fail.
    template <class Action>
    void expect(const std::string& what, Action action)
    {
        try {
            action();
        } catch (const std::exception& failure) {
            fail(what + ": " + failure.what());
        }
    }
    std::vector<std::string> take() { return std::move(wrong_); }

private:
    std::mutex mutex_;
    std::vector<std::string> wrong_;
};

// Steps

enum class step_role { begin, create, end, withdraw, settle, begin_again };
constexpr std::array roles_on_new = {step_role::begin, step_role::create};
constexpr std::array roles_on_pending = {step_role::end, step_role::withdraw, step_role::settle,
                                         step_role::begin_again};

std::string name_of(step_role role)
{
    return std::array{
        "begin", "create", "end", "withdraw", "settle", "begin again"}[static_cast<std::size_t>(role)];
}

//! One step that several begin, end, withdraw and settle, and what each of them was told.
class contested_step {
public:
    //! If it is pending, someone who is gone has begun it.
    contested_step(store& in, const std::string& key, bool is_pending, const step_calls& calls, claims& judge)
        : key_(key), calls_(calls), judge_(judge), begun_(attempt())
    {
        if (is_pending)
            judge_.expect("a step begins", [&] { begun_ = calls_.begin(in, begun_).record; });
    }

    void play(step_role role, store& in)
    {
        try {
            switch (role) {
            case step_role::begin:
                return begin(in);
            case step_role::create: // without a look before
                return create(in);
            case step_role::end:
                return claim_result(role, calls_.end(in, step(begun_).with_result("ended")).result());
            case step_role::withdraw:
                return calls_.withdraw(in, begun_);
            case step_role::settle:
                if (calls_.settle(in, begun_, "settled"))
                    claim_result(role, boost::json::value("settled"));
                return;
            case step_role::begin_again: // someone has found out that it had no effect
                calls_.withdraw(in, begun_);
                return begin(in);
            }
        } catch (const error& failure) {
            // Someone else was first. Whoever is told so claims nothing.
            const auto code = failure.code();
            if (code != errc::step_in_doubt && code != errc::conflict && code != errc::not_found)
                judge_.fail(name_of(role) + ": " + failure.what());
        }
    }

    void judge(store& in, const std::string& story, bool was_pending)
    {
        const auto found = detail::find_step(in, begun_);
        const auto recorded = found ? found->result() : std::nullopt;
        for (const auto& [role, result] : results_)
            if (recorded != result)
                judge_.fail(story + ": '" + name_of(role) +
                            "' was told that its result is recorded; there is " +
                            (found ? (recorded ? "another one" : "none") : "no step"));
        if (runs_ > 0 && !found)
            judge_.fail(story + ": an action runs and the record of its beginning is gone");
        if (!was_pending && runs_ != 1)
            judge_.fail(story + ": the action ran " + std::to_string(runs_) + " times");
    }

private:
    //! As several machines make it in the same microsecond.
    step attempt() const
    {
        return step("stepper", "", key_).with_started_at(timestamp(std::chrono::hours(400'000)));
    }

    void begin(store& in)
    {
        const auto begun = calls_.begin(in, attempt());
        const std::lock_guard lock(mutex_);
        if (begun.record.done())
            results_.emplace_back(step_role::begin, *begun.record.result());
        else
            ++runs_;
    }

    void create(store& in)
    {
        const step_request request(attempt(), true);
        in.put_steps(std::span(&request, 1)).at(0).value_or_throw();
        const std::lock_guard lock(mutex_);
        ++runs_;
    }

    //! Nothing is claimed by who was told that it is pending.
    void claim_result(step_role role, const std::optional<boost::json::value>& result)
    {
        const std::lock_guard lock(mutex_);
        if (result)
            results_.emplace_back(role, *result);
    }

    std::string key_;
    const step_calls& calls_;
    claims& judge_;
    step begun_;
    std::mutex mutex_; // guards what follows
    std::vector<std::pair<step_role, boost::json::value>> results_;
    int runs_ = 0;
};

// Checkpoints

checkpoint made(const std::string& agent, const std::string& id, conversation chat, timestamp at)
{
    return checkpoint(agent, std::move(chat)).with_id(id).with_created_at(at);
}

constexpr timestamp long_ago{std::chrono::hours(400'000)};
const auto too_old = retention().max_age(std::chrono::hours(1));

//! An agent with old checkpoints, which a policy removes while they are saved anew.
class aging_agent {
public:
    aging_agent(std::string name, std::mt19937_64& random, std::size_t size)
        : name_(std::move(name)), pool_(random), size_(size)
    {
    }

    void grow_old(store& in)
    {
        in.erase_agent(name_);
        std::vector<save_request> batch;
        auto chat = pool_.fresh(2);
        for (std::size_t i = 0; i < size_; ++i) {
            batch.emplace_back(made(name_, id(i), chat, long_ago));
            chat.push(pool_.fresh(1)[0]);
        }
        batch.emplace_back(made(name_, "head", chat, now()));
        save(in, batch);
        fresh_.clear();
    }

    void prune(store& in) { in.prune(name_, too_old, dry_run::no); }

    //! The same keys with other content, which is not old.
    void save_again(store& in, std::size_t which)
    {
        const auto renewed = made(name_, id(which), pool_.fresh(3), now());
        save(in, {save_request(renewed)});
    }
    void replace(store& in, std::size_t which)
    {
        in.erase(name_, "", id(which));
        save_again(in, which);
    }
    void make_anew(store& in)
    {
        in.erase_agent(name_);
        fresh_.clear();
        std::vector<save_request> batch;
        for (std::size_t i = 0; i < size_; ++i)
            batch.emplace_back(made(name_, id(i), pool_.fresh(1), now()));
        batch.emplace_back(made(name_, "head", pool_.fresh(1), now()));
        save(in, batch);
    }

    void judge(store& in, const std::string& story, claims& to) const
    {
        to.expect(story, [&] {
            for (const auto& [id, wanted] : fresh_) {
                const auto found = in.load(name_, "", id);
                if (found == wanted)
                    continue;
                const auto* const fate =
                    found ? "is not what was saved last" : "was saved just now and is gone";
                return to.fail(story + ": '" + id + "' " + fate);
            }
        });
    }

private:
    static std::string id(std::size_t which) { return "c" + std::to_string(which); }

    //! Throws if one is not acknowledged.
    void save(store& in, const std::vector<save_request>& batch)
    {
        for (const auto& outcome : in.save(batch))
            outcome.value_or_throw();
        for (const auto& each : batch)
            if (each.checkpoint().created_at() != long_ago)
                fresh_.insert_or_assign(each.checkpoint().id(), each.checkpoint());
    }

    std::string name_;
    conversation_pool pool_;
    std::size_t size_;
    std::map<std::string, checkpoint> fresh_;
};

void judge_damage(store& in, const std::string& story, claims& to)
{
    to.expect(story, [&] {
        if (const auto report = in.verify(); !report.ok())
            to.fail(story + ": verify: " + report.damages()[0].what);
    });
}

class interrupted_round {
public:
    interrupted_round(shared_database& database, std::uint64_t seed, const step_calls& calls,
                      const store_change& change, const shared_database::layer& layer)
        : random_(seed),
          calls_(calls),
          subject_(changed(database.open_behind([&](std::unique_ptr<storage::database> inner) {
              auto opened = layer ? layer(std::move(inner)) : std::move(inner);
              return std::make_unique<interrupted_database>(std::move(opened), interruption_);
          }),
                           change)),
          other_(changed(layer ? database.open_behind(layer) : database.open(), change))
    {
    }

    std::vector<std::string> run()
    {
        steps();
        aging();
        sweeping();
        return claims_.take();
    }

private:
    //! Sets the stage, lets the subject act with the other one coming in before its first transaction, its
    //! second, and so on, and judges each time; at last without an interruption, the other one behind it.
    template <class Prepare, class Act, class Interrupt, class Judge>
    void at_every_moment(Prepare prepare, Act act, Interrupt interrupt, Judge judge)
    {
        for (std::size_t moment = 0, is_last = 0; is_last == 0; ++moment) {
            prepare(moment);
            interruption_ = {moment, interrupt};
            const auto story = "interrupted before transaction " + std::to_string(moment);
            claims_.expect(story, act);
            if (const auto rest = std::exchange(interruption_.action, {})) {
                claims_.expect(story, rest);
                is_last = 1;
            }
            judge(story);
        }
    }

    void steps()
    {
        const auto any = [&](const auto& roles) { return roles[random_() % roles.size()]; };
        steps(any(roles_on_new), any(roles_on_new), false);
        for (int i = 0; i < 2; ++i)
            steps(any(roles_on_pending), any(roles_on_pending), true);
    }

    void steps(step_role first, step_role second, bool is_pending)
    {
        std::unique_ptr<contested_step> contested;
        at_every_moment(
            [&](std::size_t) {
                contested = std::make_unique<contested_step>(*other_, "interrupted" + std::to_string(++keys_),
                                                             is_pending, calls_, claims_);
            },
            [&] { contested->play(first, *subject_); }, [&] { contested->play(second, *other_); },
            [&](const std::string& story) {
                contested->judge(*other_,
                                 "'" + name_of(first) + "' " + story + " by '" + name_of(second) + "'",
                                 is_pending);
            });
    }

    void aging()
    {
        aging_agent agent("aging", random_, 4);
        const auto which = random_() % 4;
        const auto how = random_() % 3;
        at_every_moment([&](std::size_t) { agent.grow_old(*other_); }, [&] { agent.prune(*subject_); },
                        [&] {
                            if (how == 0)
                                agent.save_again(*other_, which);
                            else if (how == 1)
                                agent.replace(*other_, which);
                            else
                                agent.make_anew(*other_);
                        },
                        [&](const std::string& story) {
                            agent.judge(*other_, "prune " + story, claims_);
                            judge_damage(*other_, "prune " + story, claims_);
                        });
    }

    //! The messages of a conversation lose their checkpoint while it is saved once more.
    void sweeping()
    {
        conversation_pool pool(random_);
        conversation chat;
        std::optional<checkpoint> saved;
        const auto how = random_() % 4;
        const bool has_parent = random_() % 2 == 0;
        at_every_moment(
            [&](std::size_t) {
                other_->erase_agent("swept");
                chat = pool.fresh(3);
                other_->save(made("swept", "first", chat, now()));
                other_->save(made("swept", "other", pool.fresh(1), now()));
                if (how == 0) // replaced, so that something is left to be swept
                    other_->save(made("swept", "first", pool.fresh(1), now()));
            },
            [&] {
                if (how == 0)
                    subject_->compact();
                else if (how == 1)
                    subject_->erase("swept", "", "first");
                else if (how == 2)
                    subject_->prune("swept", retention().keep_last(0), dry_run::no);
                else
                    subject_->erase_scope("swept", "");
            },
            [&] {
                chat.push(pool.fresh(1)[0]);
                saved = made("swept", "again", chat, now());
                if (has_parent)
                    saved->with_parent("first");
                other_->save(*saved);
            },
            [&](const std::string& story) {
                // Whoever erases the whole scope may have come last.
                claims_.expect("a sweep " + story, [&] {
                    const auto found = subject_->load("swept", "", "again");
                    if (found ? *found != *saved : how != 3)
                        claims_.fail("a sweep " + story + ": what was saved beside it is not there");
                });
                judge_damage(*other_, "a sweep " + story, claims_);
            });
    }

    std::mt19937_64 random_;
    const step_calls& calls_;
    interruption interruption_;
    std::shared_ptr<store> subject_;
    std::shared_ptr<store> other_;
    claims claims_;
    std::size_t keys_ = 0;
};

class threaded_round {
public:
    threaded_round(shared_database& database, std::uint64_t seed, const step_calls& calls,
                   const store_change& change)
        : random_(seed), calls_(calls)
    {
        objects_.push_back(changed(database.open(), change));
        while (objects_.size() < 3)
            objects_.push_back(database.has_one_writer() ? objects_[0] : changed(database.open(), change));
    }

    std::vector<std::string> run()
    {
        for (int i = 0; i < 12; ++i)
            steps();
        for (int i = 0; i < 2; ++i)
            aging();
        sweeping();
        return claims_.take();
    }

private:
    //! Each action on a thread of its own, and all of them at the same moment.
    void at_once(const std::vector<std::function<void()>>& actions)
    {
        std::latch start(static_cast<std::ptrdiff_t>(actions.size()));
        std::vector<std::jthread> threads;
        for (const auto& action : actions)
            threads.emplace_back([&] {
                start.arrive_and_wait();
                claims_.expect("on a thread", action);
            });
    }

    void steps()
    {
        const bool is_pending = random_() % 2 == 0;
        contested_step contested(*objects_[0], "threaded" + std::to_string(++keys_), is_pending, calls_,
                                 claims_);
        std::vector<std::function<void()>> actions;
        std::string story = "at once";
        for (const auto& object : objects_) {
            const auto role = is_pending ? roles_on_pending[random_() % roles_on_pending.size()]
                                         : roles_on_new[random_() % roles_on_new.size()];
            actions.emplace_back([&contested, role, &object] { contested.play(role, *object); });
            story += " '" + name_of(role) + "'";
        }
        at_once(actions);
        contested.judge(*objects_[0], story, is_pending);
    }

    void aging()
    {
        constexpr std::size_t size = 24;
        aging_agent agent("aging", random_, size);
        agent.grow_old(*objects_[0]);
        const bool anew = random_() % 2 == 0;
        at_once({[&] { agent.prune(*objects_[0]); },
                 [&] {
                     if (anew)
                         return agent.make_anew(*objects_[1]);
                     for (std::size_t i = size; i-- > 0;)
                         agent.save_again(*objects_[1], i);
                 }});
        agent.judge(*objects_[2], "a prune beside saves", claims_);
        judge_damage(*objects_[2], "a prune beside saves", claims_);
    }

    //! Threads save what they have in common and erase what they have saved, beside one that gives space
    //! back.
    void sweeping()
    {
        conversation_pool pool(random_);
        const auto common = pool.fresh(6);
        objects_[0]->save(made("swept", "common", common, now()));
        std::array<std::map<std::string, checkpoint>, 2> saved;
        const auto work = [&](std::size_t number, std::uint64_t seed) {
            std::mt19937_64 random(seed);
            conversation_pool own(random);
            auto& in = *objects_[number];
            auto chat = common;
            for (int i = 0; i < 12; ++i) {
                if (random() % 3 == 0)
                    chat = common;
                chat.truncate(random() % (chat.size() + 1));
                chat.push(own.fresh(1)[0]);
                const auto id = std::to_string(number) + "-" + std::to_string(i);
                const auto next = made("swept", id, chat, now()).with_parent("common");
                in.save(next);
                saved[number].insert_or_assign(id, next);
                if (random() % 2 == 0) {
                    const auto chosen = std::next(
                        saved[number].begin(), static_cast<std::ptrdiff_t>(random() % saved[number].size()));
                    in.erase("swept", "", chosen->first);
                    saved[number].erase(chosen);
                }
                if (i == 4)
                    in.erase("swept", "", "common");
            }
        };
        const auto first = random_(), second = random_();
        at_once({[&] { work(0, first); }, [&] { work(1, second); },
                 [&] {
                     for (int i = 0; i < 6; ++i)
                         objects_[2]->compact();
                 }});
        for (const auto& each : saved)
            for (const auto& [id, wanted] : each)
                claims_.expect("a save beside sweeps", [&, &id = id, &wanted = wanted] {
                    if (objects_[2]->load("swept", "", id) != wanted)
                        claims_.fail("'" + id + "' was saved beside sweeps and is not there as it was saved");
                });
        judge_damage(*objects_[2], "saves beside sweeps", claims_);
    }

    std::mt19937_64 random_;
    const step_calls& calls_;
    std::vector<std::shared_ptr<store>> objects_;
    claims claims_;
    std::size_t keys_ = 0;
};

} // namespace

std::vector<std::string> run_interrupted(shared_database& database, std::uint64_t seed,
                                         const step_calls& calls, const store_change& change,
                                         const shared_database::layer& layer)
{
    return interrupted_round(database, seed, calls, change, layer).run();
}

std::vector<std::string> run_threads(shared_database& database, std::uint64_t seed, const step_calls& calls,
                                     const store_change& change)
{
    return threaded_round(database, seed, calls, change).run();
}

} // namespace waymark::faults
