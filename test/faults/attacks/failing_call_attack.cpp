//! Each system call and each allocation of a fixed script fails once, or from then on, in every way it can.
#include "allocations.hpp"
#include "attack.hpp"
#include "contents.hpp"
#include "fast_folder.hpp"
#include "system_calls.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <cerrno>
#include <functional>
#include <optional>

namespace waymark::faults {

namespace {

checkpoint point(const std::string& agent, int number, const std::string& scope = {})
{
    const timestamp day(std::chrono::hours(400'000)); // the same in every run
    conversation chat;
    for (int i = 0; i <= number; ++i)
        chat.push(message::user("message " + std::to_string(i) + std::string(i == 3 ? 6000 : 50, 'm'))
                      .with_id("m" + std::to_string(i))
                      .with_timestamp(day));
    return checkpoint(agent, chat, number)
        .with_id("c" + std::to_string(number))
        .with_scope(scope)
        .with_created_at(day)
        .with_state({{"file", std::string(2000, 'f')}, {"number", number}});
}

struct operation {
    std::string name;
    std::function<void(store&)> run;
    //! In several commits: what it removes may be gone in part.
    bool in_parts = false;
    //! Several records at once. With files, each of them is whole or absent if the outcome is not known.
    bool is_batch = false;
};

//! What a user does to a store, each kind of operation once.
std::vector<operation> script()
{
    const auto save = [](auto made) { return [made](store& to) { to.save(made); }; };
    return {
        {"save", save(point("a", 4))},
        {"save of a new agent", save(point("b", 1))},
        {"batch",
         [](store& to) {
             const std::vector<save_request> batch = {point("a", 5), point("a", 6, "side"), point("b", 2)};
             for (const auto& outcome : to.save(batch))
                 outcome.value_or_throw();
         },
         false, true},
        {"replacement", save(point("a", 4).with_name("again"))},
        {"pin", [](store& to) { to.pin("a", "", "c2", true); }},
        {"steps",
         [](store& to) {
             const timestamp day(std::chrono::hours(400'000));
             const std::vector<step_request> batch = {
                 step_request(
                     step("a", "", "s1").with_attempt("1").with_started_at(day).with_checkpoint("c4")),
                 step_request(
                     step("a", "", "s2").with_attempt("2").with_started_at(day).with_result("done"))};
             for (const auto& outcome : to.put_steps(batch))
                 outcome.value_or_throw();
         },
         false, true},
        {"copy", [](store& to) { to.copy_agent("a", "copied"); }},
        {"prune", [](store& to) { to.prune("a", retention{}.keep_last(1), dry_run::no); }, true},
        {"erase", [](store& to) { to.erase("b", "", "c1"); }, true},
        {"erase an agent", [](store& to) { to.erase_agent("copied"); }, true},
        {"erase a step", [](store& to) { to.erase_step("a", "", "s2"); }},
        {"compact", [](store& to) { to.compact(); }},
        {"verify",
         [](store& to) {
             if (const auto damages = to.verify().damages(); !damages.empty())
                 throw error(errc::corrupt, damages[0].what);
         }},
    };
}

//! What a failure looks like from outside.
struct failure {
    std::string what;
    bool is_unknown = false;
    bool is_sensible = false; // an error of ours, or no memory
};

//! No `std::function`: it would allocate, and that may be what fails.
template <class Action>
std::optional<failure> failure_of(Action action)
{
    try {
        action();
        return std::nullopt;
    } catch (const error& thrown) {
        const spared_allocations spared;
        const auto code = thrown.code();
        return failure{thrown.what(), code == errc::outcome_unknown,
                       code == errc::io || code == errc::outcome_unknown || code == errc::busy ||
                           code == errc::corrupt || code == std::errc::not_enough_memory};
    } catch (const std::bad_alloc&) {
        return failure{"bad_alloc", false, true};
    } catch (const std::exception& thrown) {
        const spared_allocations spared;
        return failure{std::string("an exception of another kind: ") + thrown.what(), false, false};
    }
}

//! The script on one kind of store, and what the store says after each operation when nothing fails.
class rehearsed_script {
public:
    explicit rehearsed_script(store_kind kind) : kind_(kind), operations_(script())
    {
        const test::temporary_folder folder(fast_folder());
        begin(folder.path());
        const auto opened = open_store(kind_, folder.path());
        said_.push_back(everything_in(*opened));
        for (const auto& next : operations_) {
            next.run(*opened);
            said_.push_back(everything_in(*opened));
        }
    }

    //! Runs it in a folder where something fails. `stop` makes failures end; returns what is wrong.
    std::vector<std::string> run(const std::filesystem::path& folder, const std::function<void()>& start,
                                 const std::function<void()>& stop) const
    {
        begin(folder);
        std::vector<std::string> wrong;
        std::optional<failure> failed;
        std::size_t done = 0;
        {
            std::shared_ptr<store> opened;
            start();
            failed = failure_of([&] { opened = open_store(kind_, folder); });
            while (!failed && done < operations_.size()) {
                failed = act(*opened, done, wrong);
                done += failed ? 0 : 1;
            }
            opened.reset();
            stop();
        }
        if (failed && !failed->is_sensible)
            wrong.push_back(failed->what);
        if (!failed)
            failed.emplace();
        look_again(folder, done, *failed, wrong);
        return wrong;
    }

private:
    //! One operation, and now and then a look before it: that may fail, but not say something else.
    std::optional<failure> act(store& on, std::size_t number, std::vector<std::string>& wrong) const
    {
        if (number % 3 == 0) {
            std::string seen;
            if (auto failed = failure_of([&] { seen = everything_in(on); }))
                return failed;
            const spared_allocations spared;
            if (seen != said_[number])
                wrong.push_back("before '" + operations_[number].name + "' the store says something else");
        }
        return failure_of([&] { operations_[number].run(on); });
    }

    //! A store that was used before, by someone who closed it.
    void begin(const std::filesystem::path& folder) const
    {
        const auto opened = open_store(kind_, folder);
        for (int i = 0; i < 4; ++i)
            opened->save(point("a", i));
    }

    //! Opens the store without failures: it must be as it was before the operation that failed, or behind it
    //! if that was in doubt; and the operation can be tried again.
    void look_again(const std::filesystem::path& folder, std::size_t done, const failure& how,
                    std::vector<std::string>& wrong) const
    {
        const auto when = done < operations_.size() ? operations_[done].name : "the end";
        const auto about = " after a failure in '" + when + "' (" + how.what + ")";
        const auto again = failure_of([&] {
            const auto opened = open_store(kind_, folder);
            const auto now = everything_in(*opened);
            const bool is_before = now == said_[done];
            const bool is_behind = done < operations_.size() && now == said_[done + 1];
            const bool in_parts =
                done < operations_.size() &&
                (operations_[done].in_parts ||
                 (operations_[done].is_batch && kind_ == store_kind::files && how.is_unknown));
            if (!is_before && !(is_behind && (how.is_unknown || in_parts)) && !in_parts)
                wrong.push_back("the store is neither as it was nor as it should be" + about +
                                "\nnow: " + now + "before: " + said_[done]);
            if (const auto damages = opened->verify().damages(); !damages.empty())
                wrong.push_back("damage: " + damages[0].what + about);
            if (done < operations_.size() && !is_behind) {
                operations_[done].run(*opened);
                if (everything_in(*opened) != said_[done + 1])
                    wrong.push_back("trying again does not lead to the same" + about);
            }
        });
        if (again)
            wrong.push_back("the store is out of use (" + again->what + ")" + about);
    }

    store_kind kind_;
    std::vector<operation> operations_;
    std::vector<std::string> said_; // after so many operations
};

//! One way in which one kind of call fails.
struct way {
    std::optional<call> where; // none: an allocation
    int error = 0;
    fault::kind what = fault::kind::error;
    bool forever = false;

    std::string name() const
    {
        const std::string kinds[] = {"fails", "is cut", "is cut, and the next one fails"};
        return (where ? std::string(name_of(*where)) : std::string("allocation")) + " " +
               kinds[static_cast<int>(what)] + (error != 0 ? " with errno " + std::to_string(error) : "") +
               (forever ? " from then on" : "");
    }
};

std::vector<way> all_ways()
{
    std::vector<way> ways;
    for (const auto where : all_calls)
        for (const bool forever : {false, true}) {
            ways.push_back({where, EIO, fault::kind::error, forever});
            const bool takes_space = where == call::write || where == call::truncate || where == call::sync ||
                                     where == call::open || where == call::rename ||
                                     where == call::make_folder;
            if (takes_space)
                ways.push_back({where, ENOSPC, fault::kind::error, forever});
        }
    ways.push_back({call::open, EMFILE, fault::kind::error, true});
    ways.push_back({call::open, EACCES, fault::kind::error, false});
    ways.push_back({call::write, EINTR, fault::kind::error, false});
    ways.push_back({call::read, EINTR, fault::kind::error, false});
    ways.push_back({call::read, 0, fault::kind::cut, false});
    ways.push_back({call::write, 0, fault::kind::cut, false});
    ways.push_back({call::write, ENOSPC, fault::kind::cut_error, false});
    ways.push_back({call::write, EIO, fault::kind::cut_error, true});
    ways.push_back({std::nullopt, 0, fault::kind::error, false});
    ways.push_back({std::nullopt, 0, fault::kind::error, true});
    return ways;
}

class failing_call_attack final : public attack {
public:
    std::string_view name() const override { return "failing-calls"; }
    std::string_view promise() const override
    {
        return "a failed save is an error, and the store is as before, or the error says that nobody knows";
    }
    std::string_view unit() const override { return "faults"; }
    std::uint64_t full_size() const override { return 20'000; }

    void check_harness(report& to) override
    {
        for (const auto kind : both_kinds) {
            // Something is saved behind the script's back before the store is looked at again.
            const test::temporary_folder folder(fast_folder());
            const rehearsed_script script_of_all(kind);
            const auto sabotage = [&] { open_store(kind, folder.path())->save(point("a", 9)); };
            to.self_check(name_of(kind) + " that changes something although it failed",
                          !script_of_all
                               .run(
                                   folder.path(), [] {}, sabotage)
                               .empty());
        }
    }

    //! A slice of one way, on one kind of store: a run for each call.
    void round(std::uint64_t seed, report& to) override
    {
        const auto kind = both_kinds[seed % 2];
        auto& known = scripts_[seed % 2];
        if (!known)
            known.emplace(kind);
        const auto ways = all_ways();
        const auto& how = ways[seed / 2 % ways.size()];
        std::uint64_t nth = 1 + seed / 2 / ways.size() % stride_of(how);
        for (;; nth += stride_of(how)) {
            const test::temporary_folder folder(fast_folder());
            bool has_failed = false;
            const auto wrong = how.where ? run_with_call(*known, folder.path(), how, nth, has_failed)
                                         : run_without_memory(*known, folder.path(), how, nth, has_failed);
            for (const auto& text : wrong)
                to.violation(name_of(kind) + ", " + how.name() + ", number " + std::to_string(nth) + ": " +
                             text);
            if (!has_failed || to.violations() > 10)
                break;
            to.attacked();
        }
    }

private:
    //! There are thousands of allocations; a round takes every so many, the next rounds the others.
    static std::uint64_t stride_of(const way& how) { return how.where ? 1 : 16; }

    static std::vector<std::string> run_with_call(const rehearsed_script& what,
                                                  const std::filesystem::path& folder, const way& how,
                                                  std::uint64_t nth, bool& has_failed)
    {
        std::optional<watched_folder> watched;
        return what.run(
            folder,
            [&] {
                watched.emplace(folder);
                watched->set(fault{*how.where, nth, how.error, how.what, how.forever});
            },
            [&] {
                has_failed = watched->has_failed();
                watched.reset();
            });
    }

    static std::vector<std::string> run_without_memory(const rehearsed_script& what,
                                                       const std::filesystem::path& folder, const way& how,
                                                       std::uint64_t nth, bool& has_failed)
    {
        using repeat = failing_allocations::repeat;
        std::optional<failing_allocations> scarce;
        return what.run(
            folder, [&] { scarce.emplace(nth, how.forever ? repeat::forever : repeat::once); },
            [&] {
                has_failed = failing_allocations::has_failed();
                scarce.reset();
            });
    }

    std::optional<rehearsed_script> scripts_[2];
};

} // namespace

std::unique_ptr<attack> make_failing_call_attack()
{
    return std::make_unique<failing_call_attack>();
}

} // namespace waymark::faults
