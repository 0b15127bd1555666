#include "races.hpp"

#include "aging_agent.hpp"
#include "claims.hpp"
#include "conversation_pool.hpp"
#include "forwarding_tables.hpp"

#include <array>
#include <latch>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <utility>

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
    interrupted_database(std::unique_ptr<tables::database> inner, interruption& by)
        : forwarding_database(std::move(inner)), by_(by)
    {
    }

    std::unique_ptr<tables::transaction> begin_read(tables::agent_ids agents) override
    {
        by_.transaction_begins();
        return forwarding_database::begin_read(agents);
    }
    std::unique_ptr<tables::transaction> begin_write(tables::agent_ids agents) override
    {
        by_.transaction_begins();
        return forwarding_database::begin_write(agents);
    }

private:
    interruption& by_;
};

std::shared_ptr<store> changed(std::shared_ptr<store> opened, const store_change& change)
{
    return change ? change(std::move(opened)) : opened;
}

class interrupted_round {
public:
    interrupted_round(shared_database& database, std::uint64_t seed, const step_calls& calls,
                      const store_change& change, const shared_database::layer& layer)
        : database_(database),
          random_(seed),
          calls_(calls),
          subject_(changed(database.open_behind([&](std::unique_ptr<tables::database> inner) {
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
        sweeping_what_was_restored();
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
        enum { save, replace, make_anew, restore };
        const auto how = random_() % 4;
        const auto story_of = [&](const std::string& story) {
            return "a prune " + story + " by a " +
                   std::array{"save", "replacement", "new agent", "restore"}[how];
        };
        at_every_moment(
            [&](std::size_t) {
                agent.erase(*other_);
                if (how == restore) {
                    agent.make_anew(*other_);
                    database_.back_up(0);
                    agent.was_backed_up();
                }
                agent.grow_old(*other_);
            },
            [&] { agent.prune(*subject_); },
            [&] {
                if (how == save)
                    agent.save_again(*other_, which);
                else if (how == replace)
                    agent.replace(*other_, which);
                else if (how == make_anew)
                    agent.make_anew(*other_);
                else {
                    database_.restore(0);
                    agent.was_restored();
                }
            },
            [&](const std::string& story) {
                agent.judge(*other_, story_of(story), claims_);
                judge_damage(*other_, story_of(story), claims_);
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

    //! What is about to be swept is no more: a backup came back, and others count on from there.
    void sweeping_what_was_restored()
    {
        conversation_pool pool(random_);
        std::map<std::string, checkpoint> saved;
        const auto save = [&](const std::string& id) {
            const auto next = made("restored", id, pool.fresh(1 + random_() % 4), now());
            other_->save(next);
            saved.insert_or_assign(id, next);
        };
        at_every_moment(
            [&](std::size_t) {
                other_->erase_agent("restored");
                saved.clear();
                save("first");
                database_.back_up(0);
                const auto in_backup = saved;
                save("second");
                save("second"); // what it was before is garbage
                saved = in_backup;
            },
            [&] { subject_->compact(); },
            [&] {
                database_.restore(0);
                for (auto more = 1 + random_() % 3; more > 0; --more)
                    save(random_() % 2 == 0 ? "first" : "new" + std::to_string(more));
            },
            [&](const std::string& story) {
                claims_.expect("a sweep " + story + " by a restore", [&] {
                    for (const auto& [id, wanted] : saved)
                        if (other_->load("restored", "", id) != wanted)
                            claims_.fail("a sweep " + story + " by a restore: '" + id +
                                         "' was saved after it and is not there");
                });
                judge_damage(*other_, "a sweep " + story + " by a restore", claims_);
            });
    }

    shared_database& database_;
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
        agent.erase(*objects_[0]);
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
