#include "model_round.hpp"

#include "conversation_pool.hpp"

#include <waymark/testing/random_operations.hpp>

#include <boost/json/value_from.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace waymark::faults {

namespace {

//! What an operation on one store led to. Sequences and sizes are a store's own.
struct observation {
    std::string text;
    std::vector<checkpoint> loaded;
    std::string why; // of an error, for people

    friend bool operator==(const observation& a, const observation& b)
    {
        return a.text == b.text && a.loaded == b.loaded;
    }
};

using operation = std::function<void(store&, observation&)>;

observation observe(store& by, const operation& action)
{
    observation seen;
    try {
        action(by, seen);
    } catch (const error& failure) {
        seen = {"error: " + failure.code().message(), {}, failure.what()};
    }
    return seen;
}

std::string shown(const checkpoint_key& key)
{
    return key.agent_id() + "/" + key.scope() + "/" + key.id();
}

std::string shown(const observation& seen)
{
    auto text = seen.text.empty() && seen.loaded.empty() ? "nothing" : seen.text;
    for (const auto& each : seen.loaded)
        text += " " + shown(each.key()) + " with " + std::to_string(each.conversation().size()) + " messages";
    return text + (seen.why.empty() ? "" : " (" + seen.why + ")");
}

template <class Outcomes>
void add_codes(const Outcomes& outcomes, observation& to)
{
    for (const auto& each : outcomes) {
        to.text += each.code() ? each.code().message() + "; " : "done; ";
        to.why += each.details().message();
    }
}

//! Everything that a store holds.
void look_at_everything(store& in, observation& seen)
{
    seen.loaded = in.load_all(query::all_agents());
    std::ostringstream all;
    for (const auto& header : in.list(query::all_agents()))
        all << shown(header.key()) << (header.pinned() ? " pinned" : "") << ' ' << header.message_count()
            << ' ' << header.content_bytes() << header.damage().value_or("") << '\n';
    for (const auto& agent : in.list_agents())
        for (const auto& record : in.load_steps(step_query(agent)))
            all << boost::json::value_from(record) << '\n';
    const auto stats = in.stats();
    all << stats.agents << " agents, " << stats.checkpoints << " checkpoints, " << stats.steps << " steps";
    seen.text = all.str();
}

class model_round {
public:
    model_round(shared_database& database, std::uint64_t seed, store_opener open, restores how)
        : database_(database), open_(std::move(open)), restores_(how), random_(seed), pool_(random_)
    {
        // The first one writes, where only one may.
        objects_.push_back(open_(database_));
        for (auto more = below(4); more > 0; --more)
            objects_.push_back(another());
    }

    void run(std::size_t operations)
    {
        for (std::size_t i = 0; i < operations; ++i)
            one_operation();
        compare_everything();
    }

    std::string history() const
    {
        std::string all;
        constexpr std::size_t most = 40;
        for (auto i = done_.size() - std::min(most, done_.size()); i < done_.size(); ++i)
            all += "\n    " + done_[i];
        return all;
    }

private:
    class difference : public std::runtime_error {
    public:
        using std::runtime_error::runtime_error;
    };

    std::size_t below(std::size_t bound) { return random_() % bound; }
    bool one_in(std::size_t n) { return below(n) == 0; }

    std::string agent() { return std::array{"a", "b", "c"}[below(3)]; }
    std::string scope() { return one_in(4) ? "side" : ""; }
    std::string known_id() { return "c" + std::to_string(below(ids_ + 1)); }
    std::string new_id() { return "c" + std::to_string(++ids_); }
    std::string step_key() { return "step" + std::to_string(below(3)); }
    std::string attempt() { return "attempt" + std::to_string(below(2)); }
    //! Long ago, or now: nothing lies at the border of a policy.
    timestamp time()
    {
        return one_in(2) ? now() : timestamp(std::chrono::hours(400'000 + static_cast<int>(below(10))));
    }

    std::shared_ptr<store> another()
    {
        return database_.has_one_writer() ? database_.open_reader() : open_(database_);
    }
    std::size_t any_object() { return below(objects_.size()); }
    std::size_t any_writer() { return database_.has_one_writer() ? 0 : any_object(); }

    void compare(const std::string& what, const observation& expected, const observation& seen) const
    {
        if (!(seen == expected))
            throw difference(what + ": " + shown(seen) + "\n  instead of " + shown(expected));
    }

    void read(const std::string& what, const operation& action)
    {
        const auto chosen = any_object();
        note(chosen, what);
        compare(what, observe(*model_, action), observe(*objects_[chosen], action));
    }

    //! The model does everything once more after a restore, so that nothing else has to know its inside.
    observation write(const std::string& what, const operation& action)
    {
        const auto chosen = any_writer();
        note(chosen, what);
        const auto expected = observe(*model_, action);
        journal_.push_back(action);
        compare(what, expected, observe(*objects_[chosen], action));
        return expected;
    }

    void note(std::size_t object, const std::string& what)
    {
        done_.push_back("object " + std::to_string(object) + ": " + what);
    }

    void one_operation()
    {
        switch (below(44)) {
        case 0:
        case 1:
        case 2:
            return load();
        case 3:
            return load_many();
        case 4:
        case 5:
            return erase();
        case 6: {
            const auto owner = agent(), part = scope();
            write("erase_scope " + owner + "/" + part, [=](store& in, observation& seen) {
                seen.text = std::to_string(in.erase_scope(owner, part));
            });
            return;
        }
        case 7: {
            const auto owner = agent();
            write("erase_agent " + owner,
                  [=](store& in, observation& seen) { seen.text = std::to_string(in.erase_agent(owner)); });
            return;
        }
        case 8:
        case 9:
            return prune();
        case 10: {
            const checkpoint_key key(agent(), scope(), known_id());
            const bool pinned = one_in(2);
            write("pin " + shown(key), [=](store& in, observation& seen) {
                seen.text = std::to_string(in.pin(key.agent_id(), key.scope(), key.id(), pinned));
            });
            return;
        }
        case 11:
            write("compact", [](store& in, observation&) { in.compact(); });
            return;
        case 12: {
            const auto from = agent(), to = agent();
            write("copy_agent " + from + " to " + to,
                  [=](store& in, observation& seen) { seen.text = std::to_string(in.copy_agent(from, to)); });
            return;
        }
        case 13:
        case 14:
            return put_steps();
        case 15: {
            const auto owner = agent(), part = scope(), key = step_key();
            const auto whose = below(2) == 0 ? std::nullopt : std::optional(attempt());
            write("erase_step " + key, [=](store& in, observation& seen) {
                seen.text = std::to_string(in.erase_step(owner, part, key, whose));
            });
            return;
        }
        case 16:
            return reopen();
        case 17:
            if (objects_.size() < 4)
                objects_.push_back(another());
            return;
        case 18:
        case 19:
            return back_up();
        case 20:
        case 21:
            return restores_ == restores::yes ? restore() : compare_everything();
        case 22:
            return compare_everything();
        case 23:
        case 24:
        case 25:
        case 26:
            return pool_.change();
        default:
            pool_.change();
            return save();
        }
    }

    checkpoint next_checkpoint(const std::string& owner, conversation chat, std::string id)
    {
        auto made = checkpoint(owner, std::move(chat), static_cast<std::int64_t>(below(3)))
                        .with_id(std::move(id))
                        .with_scope(scope())
                        .with_created_at(time());
        if (!one_in(3))
            made.with_parent(known_id());
        if (one_in(3))
            made.with_state({{"n", below(3)}, {"big", std::string(below(2) * 3000, 's')}});
        return made;
    }

    void save()
    {
        std::vector<save_request> batch;
        for (auto left = 1 + (one_in(4) ? below(3) : 0); left > 0; --left) {
            save_options options;
            if (one_in(8))
                options.create_only();
            if (one_in(8))
                options.expect_head(one_in(3) ? std::nullopt : std::optional(known_id()));
            batch.emplace_back(next_checkpoint(agent(), pool_.any(), one_in(4) ? known_id() : new_id()),
                               options);
            if (one_in(2))
                pool_.change();
        }
        save(batch);
    }

    void save(const std::vector<save_request>& batch)
    {
        std::string what = "save";
        for (const auto& each : batch)
            what += " " + shown(each.checkpoint().key()) + " with " +
                    std::to_string(each.checkpoint().conversation().size()) + " messages";
        write(what, [=](store& in, observation& seen) { add_codes(in.save(batch), seen); });
        for (const auto& each : batch) // whoever asks finds what was acknowledged
            load(each.checkpoint().key());
    }

    void load(const checkpoint_key& key)
    {
        read("load " + shown(key), [&](store& in, observation& seen) {
            if (auto found = in.load(key.agent_id(), key.scope(), key.id()))
                seen.loaded.push_back(std::move(*found));
        });
    }

    //! What was loaded stays in memory, too, and remembers who has loaded it.
    void load()
    {
        const checkpoint_key key(agent(), scope(), known_id());
        const bool latest = one_in(2);
        std::optional<checkpoint> last;
        read((latest ? "load_latest " : "load ") + shown(key), [&](store& in, observation& seen) {
            last = latest ? in.load_latest(key.agent_id(), key.scope())
                          : in.load(key.agent_id(), key.scope(), key.id());
            if (last)
                seen.loaded.push_back(*last);
        });
        if (last)
            pool_.take(last->conversation());
    }

    void load_many()
    {
        auto wanted = query(agent());
        if (one_in(2))
            wanted.scope(scope());
        std::vector<checkpoint> last;
        read("load_all", [&](store& in, observation& seen) { last = seen.loaded = in.load_all(wanted); });
        if (!last.empty())
            pool_.take(last[below(last.size())].conversation());
    }

    void erase()
    {
        const checkpoint_key key(agent(), scope(), known_id());
        write("erase " + shown(key), [=](store& in, observation& seen) {
            seen.text = std::to_string(in.erase(key.agent_id(), key.scope(), key.id()));
        });
    }

    void prune()
    {
        retention policies;
        if (one_in(2))
            policies.max_age(std::chrono::hours(1));
        else
            policies.keep_last(below(4));
        const auto owner = agent();
        write("prune " + owner, [=](store& in, observation& seen) {
            const auto pruned = in.prune(owner, policies, dry_run::no);
            for (const auto& key : pruned.removed())
                seen.text += shown(key) + " ";
        });
    }

    void put_steps()
    {
        std::vector<step_request> batch;
        for (auto left = 1 + below(2); left > 0; --left) {
            step record(agent(), scope(), step_key());
            record.with_attempt(attempt()).with_started_at(time());
            if (one_in(2))
                record.with_checkpoint(known_id());
            if (one_in(2))
                record.with_result(below(3));
            batch.emplace_back(std::move(record), one_in(2));
            if (!batch.back().is_create_only() && one_in(2))
                batch.back().replacing(attempt());
        }
        write("put_steps", [=](store& in, observation& seen) { add_codes(in.put_steps(batch), seen); });
    }

    void reopen()
    {
        const auto chosen = any_object();
        note(chosen, "is opened again");
        objects_[chosen].reset();
        objects_[chosen] = chosen == 0 ? open_(database_) : another();
    }

    //! Where there is one writer, nobody copies its files under its hands.
    template <class Action>
    void beside_writers(Action action)
    {
        if (database_.has_one_writer())
            objects_[0].reset();
        action();
        if (database_.has_one_writer())
            objects_[0] = open_(database_);
    }

    void back_up()
    {
        const auto number = below(2);
        done_.push_back("backup " + std::to_string(number));
        beside_writers([&] { database_.back_up(number); });
        copies_[number] = journal_;
    }

    void restore()
    {
        if (copies_.empty())
            return;
        const auto copy = one_in(2) ? copies_.begin() : std::prev(copies_.end());
        done_.push_back("restore " + std::to_string(copy->first));
        beside_writers([&] { database_.restore(copy->first); });
        model_ = testing::make_model_store();
        journal_ = copy->second;
        for (const auto& action : journal_)
            observe(*model_, action);
        if (!one_in(4))
            catch_up();
    }

    //! Others save until the agent has counted as far as before. Then those who know it from before go on.
    void catch_up()
    {
        const auto owner = agent();
        for (auto left = 1 + below(8); left > 0; --left)
            save({save_request(next_checkpoint(owner, pool_.fresh(1 + below(6)), new_id()))});
        for (const auto& chat : pool_.all())
            save({save_request(next_checkpoint(one_in(3) ? agent() : owner, chat, new_id()))});
        compare_everything();
    }

    void compare_everything()
    {
        const auto expected = observe(*model_, look_at_everything);
        const auto fresh = another();
        const auto look = [&](const std::string& what, store& in) {
            compare(what, expected, observe(in, look_at_everything));
        };
        for (std::size_t i = 0; i < objects_.size(); ++i)
            look("what object " + std::to_string(i) + " finds", *objects_[i]);
        look("what a new object finds", *fresh);
        const auto report = (one_in(2) ? *fresh : *objects_[any_object()]).verify();
        if (!report.ok())
            throw difference("verify: " + shown(report.damages()[0].key) + " " + report.damages()[0].what);
    }

    shared_database& database_;
    store_opener open_;
    restores restores_;
    std::mt19937_64 random_;
    conversation_pool pool_;
    std::vector<std::shared_ptr<store>> objects_;
    std::shared_ptr<store> model_ = testing::make_model_store();
    std::vector<operation> journal_; // what the model has done
    std::map<std::size_t, std::vector<operation>> copies_;
    std::size_t ids_ = 0;
    std::vector<std::string> done_;
};

} // namespace

std::optional<std::string> run_model_round(shared_database& database, std::uint64_t seed,
                                           std::size_t operations, const store_opener& open, restores how)
{
    model_round round(database, seed, open, how);
    try {
        round.run(operations);
    } catch (const std::exception& failure) {
        return failure.what() + round.history();
    }
    return std::nullopt;
}

} // namespace waymark::faults
