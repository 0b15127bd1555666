#include "../store/request_checks.hpp"
#include "../values/text.hpp"
#include "agent_copy.hpp"
#include "checkpoints.hpp"
#include "checksums.hpp"
#include "questions.hpp"
#include "removals.hpp"
#include "retention_sweep.hpp"
#include "selection.hpp"
#include "steps.hpp"
#include "verify.hpp"
#include "whole_agents.hpp"

#include <waymark/detail/table_store.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>

namespace waymark::detail {

using namespace tables;

namespace {

agent_ids only(const std::string_view& agent_id)
{
    return {&agent_id, 1};
}

//! For work that goes on where other work has ended: it tells how far both are.
upkeep_control behind(const upkeep_progress& before, const upkeep_control& control)
{
    auto next = control;
    if (control.reports())
        next.on_progress([before, &control](const upkeep_progress& now) {
            control.report({before.done + now.done, before.total == 0 ? 0 : before.total + now.total});
        });
    return next;
}

void expect_checkpoint(transaction& in, std::string_view agent_id, std::string_view scope,
                       std::string_view id)
{
    expect(in, [&] { return questions{{question::kind::checkpoint, agent_id, scope, id}}; });
}

void ask_for_step(const step& wanted, questions& list)
{
    list.emplace_back(question::kind::scope, wanted.agent_id(), wanted.scope());
    list.emplace_back(question::kind::step, wanted.agent_id(), wanted.scope(), wanted.key());
    if (wanted.checkpoint_id())
        list.emplace_back(question::kind::checkpoint, wanted.agent_id(), wanted.scope(),
                          *wanted.checkpoint_id());
}

} // namespace

class table_store::impl {
public:
    impl(std::unique_ptr<tables::database> opened, waymark::limits chosen, std::uint64_t store_identity)
        : database(std::move(opened)),
          bounds(within(chosen, database->largest_value())),
          identity(store_identity)
    {
    }

    //! Text in JSON is at least as long as it is: what is beyond this could only be stored in several parts.
    static waymark::limits within(waymark::limits chosen, std::size_t largest_value)
    {
        return chosen.with_max_message_bytes(std::min(chosen.max_message_bytes(), largest_value));
    }

    //! After a step was not found: makes sure that none is missing. Once for each scope, since that takes
    //! time in proportion to its steps, and nobody but who damages the database makes one vanish.
    void require_complete_steps(transaction& from, const agent_row& agent, const std::string& scope)
    {
        std::pair key(agent.number, scope);
        {
            const std::lock_guard lock(complete_mutex);
            if (complete_scopes.contains(key))
                return;
        }
        const auto record = intact_scope(from, agent, scope);
        if (record && record->steps != from.count_steps(agent.number, scope))
            throw error(errc::corrupt, "a step of agent " + quoted(agent.id) + ", scope " + quoted(scope) +
                                           " is missing; verify() lists all damage");
        const std::lock_guard lock(complete_mutex);
        if (complete_scopes.size() >= most_complete_scopes)
            complete_scopes.clear();
        complete_scopes.insert(std::move(key));
    }

    //! What is to be written together. Requests that cannot be stored have their outcome already, and are not
    //! among the valid ones.
    struct batch {
        std::span<const save_request> saves;
        std::span<const step_request> steps;
        std::vector<std::size_t> valid_saves = {};
        std::vector<std::size_t> valid_steps = {};
        commit_outcomes outcomes = {};
    };
    commit_outcomes commit(std::span<const save_request> saves, std::span<const step_request> steps);
    enum class attempt { done, unclear }; // unclear: others have changed what a lost commit may have saved
    attempt write(batch& wanted, std::vector<written_checkpoint>& in_doubt);
    void put_steps(batch& wanted, agent_records& known_records, transaction& in);

    //! One at a time for each agent: two would outdate each other's plans. Whoever comes second leaves it to
    //! the first, who looks again then.
    void sweep(std::string_view agent_id, const upkeep_control& control);
    //! After a removal. What was removed is removed, whether or not its content can be swept now; the agent's
    //! record says that something is left.
    void try_to_sweep(std::string_view agent_id, const upkeep_control& control);

    std::unique_ptr<tables::database> database;
    const waymark::limits bounds;
    const std::uint64_t identity; // the store's, see storage_place
    static constexpr std::size_t most_complete_scopes = 10'000;
    std::mutex sweeping_mutex;
    std::map<std::string, bool, std::less<>> sweeping; // guarded; whether to look again
    std::mutex complete_mutex;
    std::set<std::pair<std::int64_t, std::string>> complete_scopes; // guarded by complete_mutex
    agent_records records; // used by write transactions that follow each other, see transaction::number
};

table_store::table_store(std::unique_ptr<tables::database> database, waymark::limits bounds)
    : impl_(std::make_unique<impl>(std::move(database), bounds, identity()))
{
}

table_store::~table_store() = default;

void table_store::impl::sweep(std::string_view agent_id, const upkeep_control& control)
{
    {
        const std::lock_guard lock(sweeping_mutex);
        if (const auto [found, is_first] = sweeping.try_emplace(std::string(agent_id)); !is_first) {
            found->second = true;
            return;
        }
    }
    const auto is_over = [&] {
        const std::lock_guard lock(sweeping_mutex);
        const auto mine = sweeping.find(agent_id);
        if (std::exchange(mine->second, false))
            return false;
        sweeping.erase(mine);
        return true;
    };
    try {
        do
            tables::sweep(*database, agent_id, control);
        while (!is_over());
    } catch (...) {
        const std::lock_guard lock(sweeping_mutex);
        sweeping.erase(sweeping.find(agent_id));
        throw;
    }
}

void table_store::impl::try_to_sweep(std::string_view agent_id, const upkeep_control& control)
{
    try {
        sweep(agent_id, control);
    } catch (const error&) { // busy, full: another time
        control.require_wanted();
    }
}

//! One attempt. `in_doubt` is what an earlier one saved whose commit was lost. Steps need no such care: one
//! that is recorded already is a success.
table_store::impl::attempt table_store::impl::write(batch& wanted, std::vector<written_checkpoint>& in_doubt)
{
    std::vector<std::string_view> agents;
    for (const auto i : wanted.valid_saves)
        agents.push_back(wanted.saves[i].checkpoint().agent_id());
    for (const auto i : wanted.valid_steps)
        agents.push_back(wanted.steps[i].step().agent_id());
    const auto work = database->begin_write(agents);
    // Nothing comes between the look and the save.
    if (!in_doubt.empty()) {
        const auto committed = was_committed(in_doubt, *work);
        if (!committed || *committed) {
            work->commit();
            return committed ? attempt::done : attempt::unclear;
        }
        in_doubt.clear();
    }

    agent_records of_this_transaction;
    auto& known_records = work->number() == 0 ? of_this_transaction : records;
    known_records.begin(*work);
    std::vector<written_checkpoint> written;
    saver saves(*work, known_records, identity, database->largest_value(),
                database->loses_commits() ? &written : nullptr);
    saves.prepare(wanted.saves, wanted.valid_saves);
    for (const auto i : wanted.valid_saves) {
        try {
            wanted.outcomes.saves[i] = saves.save(wanted.saves[i]);
        } catch (const error& failure) {
            if (saves.is_broken() || !concerns_one_request(failure) || !work->is_usable())
                throw;
            wanted.outcomes.saves[i] = failure;
        }
    }
    put_steps(wanted, known_records, *work);
    saves.finish();
    try {
        work->commit();
    } catch (const error& failure) {
        if (failure.code() == errc::outcome_unknown)
            in_doubt = std::move(written);
        throw;
    }
    saves.confirm();
    return attempt::done;
}

void table_store::impl::put_steps(batch& wanted, agent_records& known_records, transaction& in)
{
    expect(in, [&] {
        questions list;
        for (const auto i : wanted.valid_steps)
            ask_for_step(wanted.steps[i].step(), list);
        return list;
    });
    for (const auto i : wanted.valid_steps) {
        try {
            put_step(wanted.steps[i], known_records, in, database->largest_value());
            wanted.outcomes.steps[i] = stored{};
        } catch (const error& failure) {
            if (!concerns_one_request(failure) || !in.is_usable())
                throw;
            wanted.outcomes.steps[i] = failure;
        }
    }
}

commit_outcomes table_store::impl::commit(std::span<const save_request> saves,
                                          std::span<const step_request> steps)
{
    batch wanted{saves, steps};
    wanted.outcomes.saves.resize(saves.size());
    wanted.outcomes.steps.resize(steps.size());
    const auto is_valid = [this](const auto& value, auto& outcome) {
        try {
            validate(value, bounds);
            return true;
        } catch (const error& refusal) {
            outcome = refusal;
            return false;
        }
    };
    for (std::size_t i = 0; i < saves.size(); ++i)
        if (is_valid(saves[i].checkpoint(), wanted.outcomes.saves[i]))
            wanted.valid_saves.push_back(i);
    for (std::size_t i = 0; i < steps.size(); ++i)
        if (is_valid(steps[i].step(), wanted.outcomes.steps[i]))
            wanted.valid_steps.push_back(i);
    const auto valid = wanted.valid_saves.size() + wanted.valid_steps.size();
    if (valid == 0)
        return std::move(wanted.outcomes);
    std::vector<written_checkpoint> in_doubt;
    const auto how =
        until_known(*database, [&] { return repeat(*database, [&] { return write(wanted, in_doubt); }); });
    if (how == attempt::unclear)
        throw error(errc::outcome_unknown,
                    "the connection was lost while a batch of " + std::to_string(valid) +
                        " was committed, and others have changed its checkpoints since");
    return std::move(wanted.outcomes);
}

std::vector<save_outcome> table_store::save(std::span<const save_request> batch)
{
    return impl_->commit(batch, {}).saves;
}

std::vector<step_outcome> table_store::put_steps(std::span<const step_request> batch)
{
    return impl_->commit({}, batch).steps;
}

commit_outcomes table_store::commit(std::span<const save_request> saves, std::span<const step_request> steps)
{
    return impl_->commit(saves, steps);
}

std::optional<checkpoint> table_store::load(std::string_view agent_id, std::string_view scope,
                                            std::string_view id)
{
    validate_key(agent_id, scope, id);
    return read(*impl_->database, only(agent_id), [&](transaction& from) -> std::optional<checkpoint> {
        expect_checkpoint(from, agent_id, scope, id);
        const auto agent = find_agent(from, agent_id);
        if (!agent)
            return std::nullopt;
        if (const auto row = from.find_checkpoint(agent->number, scope, id))
            return load_checkpoint(*row, *agent, identity(), from);
        require_complete(from, *agent, scope);
        from.confirm_absence(agent->number, scope, id);
        return std::nullopt;
    });
}

std::optional<checkpoint> table_store::load(std::string_view id)
{
    validate_id(id, "the checkpoint id");
    return read(*impl_->database, {}, [&](transaction& from) -> std::optional<checkpoint> {
        const auto owners = from.owners_of(id, 2);
        if (owners.empty())
            return std::nullopt;
        const auto agent = find_agent(from, owners.front());
        const auto rows = agent ? from.checkpoints_of(agent->number, id) : std::vector<checkpoint_row>();
        if (owners.size() + rows.size() > 2)
            fail_ambiguous_id(id);
        if (rows.empty())
            throw error(errc::corrupt, "the agent of checkpoint " + quoted(id) + " is missing");
        return load_checkpoint(rows.front(), *agent, identity(), from);
    });
}

std::optional<checkpoint> table_store::load_latest(std::string_view agent_id, std::string_view scope)
{
    validate_id(agent_id, "the agent id");
    validate_label(scope, "the scope");
    return read(*impl_->database, only(agent_id), [&](transaction& from) -> std::optional<checkpoint> {
        expect(from, [&] {
            return questions{{question::kind::scope, agent_id, scope},
                             {question::kind::head, agent_id, scope}};
        });
        const auto agent = find_agent(from, agent_id);
        if (!agent)
            return std::nullopt;
        const auto record = intact_scope(from, *agent, scope);
        if (!record || record->head == 0)
            return std::nullopt;
        const auto row = from.checkpoint_at(agent->number, record->head);
        if (!row)
            throw error(errc::corrupt, "the newest checkpoint of agent " + quoted(agent_id) + ", scope " +
                                           quoted(scope) + " is missing");
        return load_checkpoint(*row, *agent, identity(), from);
    });
}

namespace {

constexpr std::size_t rows_per_page = 64;

template <class Body>
auto read_by_query(database& from, const query& wanted, Body body)
{
    const std::string_view agent_id = wanted.agent_id() ? *wanted.agent_id() : std::string_view();
    return read(from, wanted.agent_id() ? only(agent_id) : agent_ids(), std::move(body));
}

} // namespace

std::vector<checkpoint_header> table_store::list(const query& query)
{
    query.validate();
    return read_by_query(*impl_->database, query, [&](transaction& from) {
        std::vector<checkpoint_header> result;
        select(from, query, [&](const agent_row&, checkpoint_row&&, checkpoint_header&& header) {
            result.push_back(std::move(header));
        });
        return result;
    });
}

std::vector<checkpoint> table_store::load_all(const query& query)
{
    query.validate();
    return read_by_query(*impl_->database, query, [&](transaction& from) {
        std::vector<checkpoint> result;
        std::optional<agent_row> owner;
        std::vector<checkpoint_row> page; // of one agent
        history_reader history(from, identity());
        const auto load_page = [&] {
            if (owner)
                history.prepare(page, *owner);
            for (const auto& row : page)
                result.push_back(history.load(row, *owner));
            page.clear();
        };
        select(from, query, [&](const agent_row& agent, checkpoint_row&& row, checkpoint_header&&) {
            if (page.size() == rows_per_page || !owner || owner->number != agent.number)
                load_page();
            if (!owner || owner->number != agent.number)
                owner = agent;
            page.push_back(std::move(row));
        });
        load_page();
        return result;
    });
}

std::vector<load_outcome> table_store::load_some(std::span<const checkpoint_key> keys,
                                                 std::span<const checkpoint> earlier, std::size_t about_bytes)
{
    std::vector<std::string_view> agents;
    for (const auto& key : keys) {
        validate_key(key.agent_id(), key.scope(), key.id());
        if (agents.empty() || agents.back() != key.agent_id())
            agents.push_back(key.agent_id());
    }
    return read(*impl_->database, agents, [&](transaction& from) {
        expect(from, [&] {
            questions wanted;
            for (const auto& key : keys)
                wanted.emplace_back(question::kind::checkpoint, key.agent_id(), key.scope(), key.id());
            return wanted;
        });
        std::vector<load_outcome> result;
        history_reader history(from, identity(), earlier);
        const auto load_page = [&](std::span<const checkpoint_key> page, const agent_row& agent) {
            std::vector<checkpoint_row> rows;
            for (const auto& key : page)
                if (auto row = from.find_checkpoint(agent.number, key.scope(), key.id()))
                    rows.push_back(std::move(*row));
            history.prepare(rows, agent);
            auto next = rows.begin();
            for (const auto& key : page) {
                if (!result.empty() && history.bytes() >= about_bytes)
                    return;
                auto& outcome = result.emplace_back();
                if (next == rows.end() || next->id != key.id() || next->scope != key.scope())
                    continue; // absent
                const auto& row = *next++;
                try {
                    outcome = std::optional(history.load(row, agent));
                } catch (const error& failure) {
                    if (!concerns_one_request(failure) || !from.is_usable())
                        throw;
                    outcome = failure;
                }
            }
        };
        while (result.size() < keys.size() && (result.empty() || history.bytes() < about_bytes)) {
            auto page = keys.subspan(result.size(), std::min(rows_per_page, keys.size() - result.size()));
            const auto& agent_id = page.front().agent_id();
            const auto others = std::find_if(page.begin(), page.end(), [&](const checkpoint_key& key) {
                return key.agent_id() != agent_id;
            });
            page = page.first(static_cast<std::size_t>(others - page.begin()));
            if (const auto agent = find_agent(from, agent_id))
                load_page(page, *agent);
            else
                result.resize(result.size() + page.size()); // absent
        }
        return result;
    });
}

std::uint64_t table_store::count(const query& query)
{
    query.validate();
    return read_by_query(*impl_->database, query, [&](transaction& from) {
        std::uint64_t result = 0;
        select(from, query, [&](const agent_row&, checkpoint_row&&, checkpoint_header&&) { ++result; });
        return result;
    });
}

std::vector<std::string> table_store::list_agents(std::string_view after, std::size_t limit)
{
    validate_label(after, "the agent id");
    return read(*impl_->database, {}, [&](transaction& from) {
        std::vector<std::string> result;
        for (auto& agent : from.agents_after(after, limit))
            result.push_back(std::move(intact_agent(std::move(agent))->id));
        return result;
    });
}

bool table_store::erase(std::string_view agent_id, std::string_view scope, std::string_view id)
{
    validate_key(agent_id, scope, id);
    return write(*impl_->database, only(agent_id), [&](transaction& in) {
        expect_checkpoint(in, agent_id, scope, id);
        return remove_checkpoint(in, agent_id, scope, id);
    });
}

std::uint64_t table_store::erase_scope(std::string_view agent_id, std::string_view scope,
                                       const upkeep_control& control)
{
    validate_scope(agent_id, scope);
    upkeep_progress progress;
    for (bool is_done = false; !is_done;) {
        control.require_wanted();
        const auto removed = write(*impl_->database, only(agent_id), [&](transaction& in) {
            return remove_some_of_scope(in, agent_id, scope);
        });
        is_done = removed.is_done;
        progress.done += removed.checkpoints;
        control.report(progress);
        if (!is_done)
            control.give_way();
    }
    impl_->try_to_sweep(agent_id, behind(progress, control));
    return progress.done;
}

std::uint64_t table_store::erase_agent(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    return write(*impl_->database, only(agent_id),
                 [&](transaction& in) { return tables::erase_agent(in, agent_id); });
}

std::uint64_t table_store::copy_agent(std::string_view from, std::string_view to,
                                      const upkeep_control& control)
{
    validate_id(from, "the agent id");
    validate_id(to, "the new agent id");
    return tables::copy_agent(*impl_->database, from, to, control);
}

prune_result table_store::prune(std::string_view agent_id, const retention& policies, dry_run dry,
                                const upkeep_control& control)
{
    validate_id(agent_id, "the agent id");
    control.require_wanted();
    const auto plan = read(*impl_->database, only(agent_id), [&](transaction& from) {
        const auto agent = find_agent(from, agent_id);
        return agent ? plan_prune(from, *agent, policies) : prune_plan();
    });
    std::vector<checkpoint_key> removed;
    if (dry == dry_run::yes || plan.chosen.empty()) {
        for (const auto& next : plan.chosen)
            removed.push_back(next.key);
        return {std::move(removed), plan.bytes};
    }
    for (auto rest = std::span(plan.chosen); !rest.empty();) {
        const auto next = rest.first(std::min(rows_per_transaction, rest.size()));
        auto some = write(*impl_->database, only(agent_id),
                          [&](transaction& in) { return remove_pruned(in, agent_id, plan, next); });
        removed.insert(removed.end(), std::make_move_iterator(some.removed.begin()),
                       std::make_move_iterator(some.removed.end()));
        rest = rest.subspan(some.looked_at);
        control.report({plan.chosen.size() - rest.size(), plan.chosen.size()});
        control.give_way();
    }
    impl_->try_to_sweep(agent_id, behind({plan.chosen.size(), plan.chosen.size()}, control));
    return {std::move(removed), plan.bytes};
}

bool table_store::pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned)
{
    validate_key(agent_id, scope, id);
    return write_until_known(*impl_->database, only(agent_id), [&](transaction& in) {
        expect_checkpoint(in, agent_id, scope, id);
        const auto agent = find_agent(in, agent_id);
        auto row = agent ? in.find_checkpoint(agent->number, scope, id) : std::nullopt;
        if (agent && !row)
            in.confirm_absence(agent->number, scope, id);
        if (!row || row->pinned == pinned)
            return row.has_value();
        if (!is_intact(*row))
            throw error(errc::corrupt,
                        describe(*row, *agent) + " is damaged: the checksum of its row differs");
        row->pinned = pinned;
        in.update_checkpoint(seal(*row));
        return true;
    });
}

std::vector<step> table_store::load_steps(const step_query& query)
{
    return read(*impl_->database, only(query.agent_id()), [&](transaction& from) {
        if (query.scope() && query.key())
            expect(from, [&] {
                return questions{{question::kind::step, query.agent_id(), *query.scope(), *query.key()},
                                 {question::kind::scope, query.agent_id(), *query.scope()}};
            });
        std::vector<step> result;
        const auto agent = find_agent(from, query.agent_id());
        if (!agent)
            return result;
        if (query.scope() && query.key()) { // what every step of a session asks
            if (const auto row = from.find_step(agent->number, *query.scope(), *query.key())) {
                if (auto found = read_step(*row, *agent); query.matches(found))
                    result.push_back(std::move(found));
                return result;
            }
            impl_->require_complete_steps(from, *agent, *query.scope());
            return result;
        }
        std::map<std::string, std::int64_t> seen;
        from.scan_steps(agent->number, query.scope(), [&](step_row&& row) {
            ++seen[row.scope];
            if (query.key() && row.key != *query.key())
                return true;
            auto found = read_step(row, *agent);
            if (query.matches(found))
                result.push_back(std::move(found));
            return true;
        });
        for (const auto& scope : from.scopes_of(agent->number))
            if ((!query.scope() || scope.scope == *query.scope()) && seen[scope.scope] != scope.steps)
                throw error(errc::corrupt, "scope " + quoted(scope.scope) + " of agent " + quoted(agent->id) +
                                               " should have " + std::to_string(scope.steps) +
                                               " steps and has " + std::to_string(seen[scope.scope]));
        return result;
    });
}

bool table_store::erase_step(std::string_view agent_id, std::string_view scope, std::string_view key,
                             const std::optional<std::string>& attempt)
{
    validate_step_key(agent_id, scope, key);
    return write(*impl_->database, only(agent_id),
                 [&](transaction& in) { return remove_step(in, agent_id, scope, key, attempt); });
}

void table_store::await_outcome(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    if (!impl_->database->loses_commits())
        return;
    write_until_known(*impl_->database, only(agent_id), [&](transaction& in) {
        // Whoever wrote to the agent had its record locked: we have it now, so that they have ended.
        if (find_agent(in, agent_id))
            return;
        // There was nothing to lock. With a record, a transaction that makes one of its own cannot be
        // committed any more, wherever it is held up.
        agent_records records(in);
        records.change_agent(agent_id);
        records.write();
    });
}

verify_report table_store::verify(const upkeep_control& control)
{
    return tables::verify(*impl_->database, control);
}

void table_store::sweep(std::string_view agent_id, const upkeep_control& control)
{
    validate_id(agent_id, "the agent id");
    impl_->sweep(agent_id, control);
    remove_erased_agents(*impl_->database, control);
}

std::uint64_t table_store::compact(const upkeep_control& control)
{
    sweep_all(*impl_->database, control);
    return impl_->database->shrink(control);
}

store_stats table_store::stats()
{
    const auto all = read(*impl_->database, {}, [](transaction& from) { return from.count_all(); });
    store_stats result;
    result.agents = all.agents;
    result.checkpoints = all.checkpoints;
    result.steps = all.steps;
    result.bytes = impl_->database->bytes();
    return result;
}

store_stats table_store::stats(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    return read(*impl_->database, only(agent_id), [&](transaction& from) {
        const auto agent = find_agent(from, agent_id);
        return agent ? measure(from, *agent) : store_stats();
    });
}

std::size_t table_store::write_lanes() const noexcept
{
    return impl_->database->write_lanes();
}

const waymark::limits& table_store::accepted_limits() const noexcept
{
    return impl_->bounds;
}

} // namespace waymark::detail
