#include "expect.hpp"

#include <waymark/testing/random_operations.hpp>

#include <boost/json/serialize.hpp>

#include <functional>
#include <random>
#include <sstream>

namespace waymark::testing {

namespace {

namespace json = boost::json;

//! Few agents, scopes, ids and names, so that operations meet each other.
class generator {
public:
    explicit generator(std::uint64_t seed) : random_(seed), ids_(one_in(4) ? 60 : 8) {}

    std::size_t below(std::size_t bound) { return random_() % bound; }
    bool one_in(std::size_t n) { return below(n) == 0; }

    std::string agent() { return pick({"a", "b", "c/../d"}); }
    std::string scope() { return pick({"", "", "sub"}); }
    std::string id() { return "id" + std::to_string(below(ids_)); }
    std::string name() { return pick({"", "start", "end", "x"}); }
    std::string step_key() { return "step" + std::to_string(below(4)); }
    //! Whole hours of a day in 2015, so that ties happen.
    timestamp time() { return timestamp(std::chrono::hours(400'000 + static_cast<int>(below(10)))); }

    checkpoint next_checkpoint()
    {
        auto made = checkpoint(agent(), conversation_for(), static_cast<std::int64_t>(below(5)))
                        .with_id(id())
                        .with_scope(scope())
                        .with_name(name())
                        .with_created_at(time());
        if (one_in(2))
            made.with_parent(id());
        if (one_in(3))
            made.with_metadata("k", below(3));
        if (one_in(3))
            made.with_state({{"n", below(3)}, {"big", std::string(below(2) * 3000, 's')}});
        return made;
    }

    save_options options()
    {
        save_options chosen;
        if (one_in(6))
            chosen.create_only();
        if (one_in(5))
            chosen.expect_head(one_in(3) ? std::nullopt : std::optional(id()));
        return chosen;
    }

    query next_query()
    {
        auto chosen = one_in(4) ? query::all_agents() : query(agent());
        if (one_in(3))
            chosen.scope(scope());
        if (one_in(4))
            chosen.named(name());
        if (one_in(5))
            chosen.since(time());
        if (one_in(5))
            chosen.between(time(), time());
        if (one_in(6))
            chosen.before(id());
        if (one_in(5))
            chosen.metadata("k", below(3));
        if (one_in(3))
            chosen.limit(below(4));
        if (one_in(2))
            chosen.oldest_first();
        return chosen;
    }

    retention policies()
    {
        retention chosen;
        if (one_in(2))
            chosen.keep_last(below(4));
        if (one_in(6)) // all are older than an hour, none than a century; a border would depend on the moment
            chosen.max_age(std::chrono::hours(one_in(2) ? 1 : 876'000));
        if (one_in(4))
            chosen.thin_after(below(4));
        if (one_in(4))
            chosen.only_scope(scope());
        return chosen;
    }

    step next_step()
    {
        step made(agent(), scope(), step_key());
        made.with_started_at(time());
        if (one_in(2))
            made.with_checkpoint(id());
        if (one_in(2))
            made.with_result(json::object{{"r", below(3)}});
        return made;
    }

private:
    std::string pick(std::initializer_list<const char*> choices)
    {
        return *(choices.begin() + static_cast<std::ptrdiff_t>(below(choices.size())));
    }

    //! A conversation that grows, and now and then goes back or starts anew.
    conversation conversation_for()
    {
        if (one_in(8))
            chat_.truncate(below(chat_.size() + 1));
        if (one_in(20))
            chat_ = conversation(below(100));
        if (!one_in(3))
            chat_.push(message::user("message " + std::to_string(below(1000))).with_timestamp(time()));
        return chat_;
    }

    std::mt19937_64 random_;
    std::size_t ids_; // many: long histories; few: operations that meet
    conversation chat_;
};

//! What an operation on one store led to, in a form that two stores can be compared by. Sequences differ
//! between stores (gaps are allowed) and sizes are a store's own; order and everything else must not.
class observation {
public:
    template <class Action>
    static std::string of(Action action)
    {
        std::ostringstream seen;
        try {
            action(seen);
        } catch (const error& failure) {
            seen << "error " << failure.code();
        }
        return seen.str();
    }

    static std::string show(const checkpoint& value)
    {
        return json::serialize(json::value_from(checkpoint(value).with_sequence(0)));
    }
    static std::string show(const std::optional<checkpoint>& value) { return value ? show(*value) : "none"; }
    static std::string show(const checkpoint_header& value)
    {
        return json::serialize(
            json::value_from(checkpoint_header(value).with_sequence(0).with_stored_bytes(0)));
    }
    static std::string show(const step& value) { return json::serialize(json::value_from(value)); }
    static std::string show(const std::string& value) { return value; }
    static std::string show(const checkpoint_key& key)
    {
        return key.agent_id() + "|" + key.scope() + "|" + key.id();
    }
    template <class Element>
    static std::string show(const std::vector<Element>& list)
    {
        std::string all;
        for (const auto& element : list)
            all += "\n  " + show(element);
        return all;
    }
    template <class Value>
    static std::string show_codes(const std::vector<outcome<Value>>& outcomes)
    {
        std::ostringstream all;
        for (const auto& entry : outcomes)
            all << ' ' << entry.code();
        return all.str();
    }
};

//! Two pages, the second behind the first: cursors are made of a store's own sequences.
std::string two_pages(store& target, const query& wanted)
{
    return observation::of([&](std::ostream& seen) {
        const auto first = target.list(wanted);
        seen << observation::show(first);
        if (!first.empty())
            seen << "\n then" << observation::show(target.list(query(wanted).after(cursor(first.back()))));
    });
}

class comparison {
public:
    using reopener = std::function<std::shared_ptr<store>(std::shared_ptr<store>)>;

    comparison(std::shared_ptr<store> left, std::shared_ptr<store> right, std::uint64_t seed, reopener reopen)
        : left_(std::move(left)),
          right_(std::move(right)),
          seed_(seed),
          next_(seed),
          reopen_(std::move(reopen))
    {
    }

    void run(std::size_t operations)
    {
        for (number_ = 0; number_ < operations; ++number_)
            one_operation();
        both("everything", [](store& target, std::ostream& seen) {
            seen << observation::show(target.load_all(query::all_agents()))
                 << observation::show(target.list(query::all_agents())) << target.verify().ok();
            const auto stats = target.stats();
            seen << ' ' << stats.agents << ' ' << stats.checkpoints << ' ' << stats.steps;
            for (const auto& agent : target.list_agents()) {
                const auto own = target.stats(agent);
                seen << agent << own.checkpoints << ' ' << own.steps
                     << observation::show(target.load_steps(step_query(agent)));
            }
        });
    }

private:
    template <class Action>
    void both(const std::string& what, Action action)
    {
        const auto on_left = observation::of([&](std::ostream& seen) { action(*left_, seen); });
        const auto on_right = observation::of([&](std::ostream& seen) { action(*right_, seen); });
        if (on_left != on_right)
            fail(__FILE__, __LINE__,
                 "the stores differ (seed " + std::to_string(seed_) + ", operation " +
                     std::to_string(number_) + ", " + what + ")\nleft: " + on_left + "\nright: " + on_right);
    }

    void one_operation()
    {
        switch (next_.below(16)) {
        case 0: {
            const auto agent = next_.agent(), scope = next_.scope(), id = next_.id();
            return both("erase " + agent + " " + id,
                        [&](store& s, std::ostream& seen) { seen << s.erase(agent, scope, id); });
        }
        case 1: {
            const auto agent = next_.agent();
            if (next_.one_in(2)) {
                right_ = reopen_(std::move(right_));
                return;
            }
            if (next_.one_in(2)) {
                const auto scope = next_.scope();
                return both("erase_scope " + agent + " " + scope,
                            [&](store& s, std::ostream& seen) { seen << s.erase_scope(agent, scope); });
            }
            return both("erase_agent " + agent,
                        [&](store& s, std::ostream& seen) { seen << s.erase_agent(agent); });
        }
        case 2: {
            const auto from = next_.agent(), to = next_.agent();
            return both("copy_agent " + from + " to " + to,
                        [&](store& s, std::ostream& seen) { seen << s.copy_agent(from, to); });
        }
        case 3: {
            const auto agent = next_.agent();
            const auto policies = next_.policies();
            const auto dry = next_.one_in(2) ? dry_run::yes : dry_run::no;
            return both("prune " + agent, [&](store& s, std::ostream& seen) {
                seen << observation::show(s.prune(agent, policies, dry).removed());
            });
        }
        case 4: {
            const auto agent = next_.agent(), scope = next_.scope(), id = next_.id();
            const auto pinned = next_.one_in(2);
            return both("pin",
                        [&](store& s, std::ostream& seen) { seen << s.pin(agent, scope, id, pinned); });
        }
        case 5:
        case 6:
            return put_steps();
        case 7:
        case 8: {
            const auto wanted = next_.next_query();
            both("list", [&](store& s, std::ostream& seen) { seen << two_pages(s, wanted); });
            return both("load_all and count", [&](store& s, std::ostream& seen) {
                seen << observation::show(s.load_all(wanted)) << s.count(wanted);
            });
        }
        case 9: {
            const auto agent = next_.agent(), scope = next_.scope(), id = next_.id();
            return both("load", [&](store& s, std::ostream& seen) {
                seen << observation::show(s.load(agent, scope, id))
                     << observation::show(s.load_latest(agent, scope)) << observation::show(s.load(id));
            });
        }
        default:
            return save();
        }
    }

    void save()
    {
        std::vector<save_request> batch;
        for (std::size_t left = 1 + (next_.one_in(3) ? next_.below(4) : 0); left > 0; --left)
            batch.emplace_back(next_.next_checkpoint(), next_.options());
        both("save", [&](store& s, std::ostream& seen) { seen << observation::show_codes(s.save(batch)); });
        if (next_.one_in(4)) // the acknowledgement was lost
            both("save again",
                 [&](store& s, std::ostream& seen) { seen << observation::show_codes(s.save(batch)); });
    }

    void put_steps()
    {
        std::vector<step_request> batch;
        for (std::size_t left = 1 + next_.below(2); left > 0; --left)
            if (auto& added = batch.emplace_back(next_.next_step(), next_.one_in(2)); next_.one_in(4))
                added.restored();
        both("put_steps",
             [&](store& s, std::ostream& seen) { seen << observation::show_codes(s.put_steps(batch)); });
        if (next_.one_in(4)) {
            const auto agent = next_.agent(), scope = next_.scope(), key = next_.step_key();
            both("erase_step",
                 [&](store& s, std::ostream& seen) { seen << s.erase_step(agent, scope, key); });
        }
        auto wanted = step_query(next_.agent());
        if (next_.one_in(2))
            wanted.pending_only();
        both("load_steps",
             [&](store& s, std::ostream& seen) { seen << observation::show(s.load_steps(wanted)); });
    }

    std::shared_ptr<store> left_;
    std::shared_ptr<store> right_;
    std::uint64_t seed_;
    generator next_;
    reopener reopen_;
    std::size_t number_ = 0;
};

} // namespace

void compare_stores(std::shared_ptr<store> left, std::shared_ptr<store> right, std::uint64_t seed,
                    std::size_t operations)
{
    const auto keep = [](std::shared_ptr<store> current) { return current; };
    comparison(std::move(left), std::move(right), seed, keep).run(operations);
}

void compare_with_model(const backend_under_test& backend, std::uint64_t seed, std::size_t operations)
{
    const auto reopen = [&](std::shared_ptr<store> current) { return backend.reopen(std::move(current)); };
    comparison(make_model_store(), backend.make_empty(), seed, reopen).run(operations);
}

} // namespace waymark::testing
