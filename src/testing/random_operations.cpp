#include "expect.hpp"

#include <waymark/testing/random_operations.hpp>

#include <boost/json/serialize.hpp>

#include <array>
#include <iterator>
#include <limits>
#include <random>
#include <sstream>

namespace waymark::testing {

namespace {

namespace json = boost::json;

//! Few agents, scopes, ids and names, so that operations meet each other.
class generator {
public:
    explicit generator(std::uint64_t seed) : random_(seed), ids_(one_in(4) ? 60 : 8) {}

    static constexpr std::array<const char*, 3> agents = {"a", "b", "c/../d"};

    std::size_t below(std::size_t bound) { return random_() % bound; }
    bool one_in(std::size_t n) { return below(n) == 0; }

    std::string agent() { return agents[below(agents.size())]; }
    std::string scope() { return pick({"", "", "sub"}); }
    std::string id() { return "id" + std::to_string(below(ids_)); }
    std::string name() { return pick({"", "start", "end", "x"}); }
    std::string step_key() { return "step" + std::to_string(below(4)); }
    std::string attempt() { return pick({"", "first", "second"}); }
    //! Whole hours of a day in 2015, so that ties happen.
    timestamp time() { return timestamp(std::chrono::hours(400'000 + static_cast<int>(below(10)))); }

    //! Often one that was to be saved lately, so that it is there and others were saved after it.
    checkpoint_key key()
    {
        return recent_.empty() || one_in(2) ? checkpoint_key(agent(), scope(), id())
                                            : recent_[below(recent_.size())];
    }

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
            made.with_state({{"n", value()}, {"big", std::string(below(2) * 3000, 's')}});
        if (recent_.size() == 4)
            recent_.erase(recent_.begin());
        recent_.push_back(made.key());
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
        const auto on = key();
        step made(on.agent_id(), on.scope(), step_key());
        made.with_attempt(attempt()).with_started_at(time());
        if (one_in(2))
            made.with_checkpoint(on.id());
        if (one_in(8))
            made.with_failure("it broke");
        else if (one_in(2))
            made.with_result(one_in(4) ? value() : json::value(json::object{{"r", below(3)}}));
        return made;
    }

private:
    std::string pick(std::initializer_list<const char*> choices)
    {
        return *(choices.begin() + static_cast<std::ptrdiff_t>(below(choices.size())));
    }

    //! Few, some of which are easily taken for each other.
    json::value value()
    {
        switch (below(8)) {
        case 0:
            return nullptr;
        case 1:
            return 0.0;
        case 2:
            return -0.0;
        case 3:
            return std::numeric_limits<std::uint64_t>::max();
        case 4:
            return "";
        default:
            return below(3);
        }
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
    std::vector<checkpoint_key> recent_;
};

//! What an operation on one store led to, in a form that stores can be compared by. Sequences differ
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
        if (first.empty())
            return;
        const auto rest = query(wanted).after(cursor(first.back()));
        seen << "\n then" << observation::show(target.list(rest)) << observation::show(target.load_all(rest))
             << target.count(rest);
    });
}

//! All headers and steps of a store; to compare them costs less than to print them.
class contents {
public:
    explicit contents(store& target) : headers_(target.list(query::all_agents()))
    {
        for (auto& header : headers_)
            header.with_sequence(0).with_stored_bytes(0); // a store's own
        for (const auto& agent : target.list_agents()) {
            auto found = target.load_steps(step_query(agent));
            steps_.insert(steps_.end(), std::make_move_iterator(found.begin()),
                          std::make_move_iterator(found.end()));
            agents_.push_back(agent);
        }
    }

    std::string show() const
    {
        return observation::show(headers_) + "\n agents" + observation::show(agents_) + "\n steps" +
               observation::show(steps_);
    }

    friend bool operator==(const contents&, const contents&) = default;

private:
    std::vector<checkpoint_header> headers_;
    std::vector<std::string> agents_;
    std::vector<step> steps_;
};

class comparison {
public:
    comparison(std::span<compared_store> stores, std::uint64_t seed, const comparison_options& options)
        : stores_(stores), seed_(seed), next_(seed), options_(options)
    {
    }

    void run(std::size_t operations)
    {
        for (number_ = 0; number_ < operations; ++number_)
            one_operation();
        everything();
        if (!options_.erases_at_the_end())
            return;
        for (const auto* agent : generator::agents)
            write("erase_agent at the end",
                  [&](store& s, std::ostream& seen) { seen << s.erase_agent(agent); });
        all("what is left", [](store& s, std::ostream& seen) {
            const auto left = s.stats();
            seen << left.agents << ' ' << left.checkpoints << ' ' << left.steps;
        });
    }

private:
    void everything()
    {
        all("everything", [](store& target, std::ostream& seen) {
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

    //! Each store against the first one.
    template <class Action>
    void all(const std::string& what, Action action)
    {
        std::string expected;
        for (const auto& each : stores_) {
            auto seen = observation::of([&](std::ostream& to) { action(each.get(), to); });
            if (&each == &stores_.front())
                expected = std::move(seen);
            else if (seen != expected)
                differ(what, each, expected, seen);
        }
    }

    //! An operation that changes something.
    template <class Action>
    void write(const std::string& what, Action action)
    {
        all(what, std::move(action));
        if (!options_.is_after_each_operation())
            return;
        const auto expected = contents_of(stores_.front(), what);
        for (const auto& each : stores_.subspan(1))
            if (const auto found = contents_of(each, what); !(found == expected))
                differ("what is there after " + what, each, expected.show(), found.show());
    }

    contents contents_of(const compared_store& from, const std::string& after) const
    {
        try {
            return contents(from.get());
        } catch (const error& failure) {
            differ("after " + after, from, "can be read", failure.what());
        }
    }

    [[noreturn]] void differ(const std::string& what, const compared_store& other,
                             const std::string& expected, const std::string& seen) const
    {
        fail(__FILE__, __LINE__,
             "the stores differ (seed " + std::to_string(seed_) + ", operation " + std::to_string(number_) +
                 ", " + what + ")\n" + stores_.front().name() + ": " + expected + "\n" + other.name() + ": " +
                 seen);
    }

    void one_operation()
    {
        switch (next_.below(16)) {
        case 0: {
            const auto key = next_.key();
            return write("erase " + observation::show(key), [&](store& s, std::ostream& seen) {
                seen << s.erase(key.agent_id(), key.scope(), key.id());
            });
        }
        case 1: {
            const auto agent = next_.agent();
            if (next_.one_in(2)) {
                for (auto& each : stores_)
                    each.reopen();
                return;
            }
            if (next_.one_in(2)) {
                const auto scope = next_.scope();
                return write("erase_scope " + agent + " " + scope,
                             [&](store& s, std::ostream& seen) { seen << s.erase_scope(agent, scope); });
            }
            return write("erase_agent " + agent,
                         [&](store& s, std::ostream& seen) { seen << s.erase_agent(agent); });
        }
        case 2: {
            const auto from = next_.agent(), to = next_.agent();
            return write("copy_agent " + from + " to " + to,
                         [&](store& s, std::ostream& seen) { seen << s.copy_agent(from, to); });
        }
        case 3: {
            const auto agent = next_.agent();
            const auto policies = next_.policies();
            const auto dry = next_.one_in(2) ? dry_run::yes : dry_run::no;
            return write("prune " + agent, [&](store& s, std::ostream& seen) {
                seen << observation::show(s.prune(agent, policies, dry).removed());
            });
        }
        case 4: {
            const auto key = next_.key();
            const auto pinned = next_.one_in(2);
            return write("pin " + observation::show(key), [&](store& s, std::ostream& seen) {
                seen << s.pin(key.agent_id(), key.scope(), key.id(), pinned);
            });
        }
        case 5:
        case 6:
            return put_steps();
        case 7:
        case 8: {
            const auto wanted = next_.next_query();
            all("list", [&](store& s, std::ostream& seen) { seen << two_pages(s, wanted); });
            return all("load_all and count", [&](store& s, std::ostream& seen) {
                seen << observation::show(s.load_all(wanted)) << s.count(wanted);
            });
        }
        case 9: {
            const auto key = next_.key();
            return all("load " + observation::show(key), [&](store& s, std::ostream& seen) {
                seen << observation::show(s.load(key.agent_id(), key.scope(), key.id()))
                     << observation::show(s.load_latest(key.agent_id(), key.scope()))
                     << observation::show(s.load(key.id()));
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
        write("save", [&](store& s, std::ostream& seen) { seen << observation::show_codes(s.save(batch)); });
        if (next_.one_in(4)) // the acknowledgement was lost
            write("save again",
                  [&](store& s, std::ostream& seen) { seen << observation::show_codes(s.save(batch)); });
    }

    void put_steps()
    {
        std::vector<step_request> batch;
        for (std::size_t left = 1 + next_.below(2); left > 0; --left) {
            auto& added = batch.emplace_back(next_.next_step(), next_.one_in(3));
            if (next_.one_in(4))
                added.restored();
            if (!added.is_create_only() && next_.one_in(2))
                added.replacing(next_.attempt());
            if (next_.one_in(4))
                added.expect_head(next_.one_in(4) ? std::nullopt : std::optional(next_.key().id()));
        }
        write("put_steps",
              [&](store& s, std::ostream& seen) { seen << observation::show_codes(s.put_steps(batch)); });
        if (next_.one_in(4)) // the acknowledgement was lost
            write("put_steps again",
                  [&](store& s, std::ostream& seen) { seen << observation::show_codes(s.put_steps(batch)); });
        if (next_.one_in(4)) {
            const auto agent = next_.agent(), scope = next_.scope(), key = next_.step_key();
            const auto attempt = next_.one_in(2) ? std::optional(next_.attempt()) : std::nullopt;
            write("erase_step",
                  [&](store& s, std::ostream& seen) { seen << s.erase_step(agent, scope, key, attempt); });
        }
        auto wanted = step_query(next_.agent());
        if (next_.one_in(2))
            wanted.pending_only();
        all("load_steps",
            [&](store& s, std::ostream& seen) { seen << observation::show(s.load_steps(wanted)); });
    }

    std::span<compared_store> stores_;
    std::uint64_t seed_;
    generator next_;
    comparison_options options_;
    std::size_t number_ = 0;
};

} // namespace

compared_store::compared_store(std::string name, std::shared_ptr<store> backend, reopener reopen)
    : name_(std::move(name)), backend_(std::move(backend)), reopen_(std::move(reopen))
{
}

void compared_store::reopen()
{
    if (reopen_)
        backend_ = reopen_(std::move(backend_));
}

void compare_stores(std::span<compared_store> stores, std::uint64_t seed, std::size_t operations,
                    const comparison_options& options)
{
    comparison(stores, seed, options).run(operations);
}

void compare_stores(std::shared_ptr<store> left, std::shared_ptr<store> right, std::uint64_t seed,
                    std::size_t operations)
{
    std::array both = {compared_store("left", std::move(left)), compared_store("right", std::move(right))};
    compare_stores(both, seed, operations);
}

void compare_with_model(const backend_under_test& backend, std::uint64_t seed, std::size_t operations)
{
    const auto reopen = [&](std::shared_ptr<store> current) { return backend.reopen(std::move(current)); };
    std::array both = {compared_store("the model", make_model_store()),
                       compared_store(backend.name(), backend.make_empty(), reopen)};
    compare_stores(both, seed, operations);
}

} // namespace waymark::testing
