#include "../store/conditions.hpp"
#include "../values/random_bits.hpp"
#include "../values/text.hpp"
#include "checkpoints.hpp"
#include "selection.hpp"
#include "steps.hpp"
#include "upkeep.hpp"
#include "verify.hpp"

#include <waymark/detail/table_store.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <set>

namespace waymark::detail {

using namespace storage;

namespace {

//! What was removed is removed, whether or not its content can be swept now; the agent's record says that
//! something is left to be swept.
void try_to_sweep(database& in, std::string_view agent_id)
{
    try {
        sweep(in, agent_id);
    } catch (const error&) { // NOLINT(bugprone-empty-catch): busy, full: another time
    }
}

access about_agent(std::string_view id)
{
    return {{std::string(id)}, {}};
}

access about_checkpoint(std::string_view agent_id, std::string_view scope, std::string_view id)
{
    auto about = about_agent(agent_id);
    about.questions.push_back(
        {question::kind::checkpoint, about.agents.front(), std::string(scope), std::string(id)});
    return about;
}

} // namespace

class table_store::impl {
public:
    impl(std::unique_ptr<storage::database> opened, limits chosen)
        : database(std::move(opened)), bounds(within(chosen, database->largest_value()))
    {
    }

    //! Text in JSON is at least as long as it is, so that what is beyond this can never be stored.
    static limits within(limits chosen, std::size_t largest_value)
    {
        return chosen.with_max_message_bytes(std::min(chosen.max_message_bytes(), largest_value));
    }

    template <class Result>
    Result read(const access& about, const std::function<Result(tables&)>& body)
    {
        std::optional<Result> result;
        database->read(about, [&](tables& from) { result.emplace(body(from)); });
        return std::move(*result);
    }

    //! For what may be done twice. Where it cannot be known whether a commit took place, doing it again
    //! tells.
    void write_until_known(const access& about, const std::function<void(tables&)>& body,
                           const database::undone_callback& undone = {})
    {
        constexpr int most_attempts = 10;
        constexpr auto longest = std::chrono::seconds(30);
        std::optional<error> unknown;
        std::string look; // how the last one failed
        std::chrono::steady_clock::time_point end;
        for (int attempt = 0;
             attempt < 2 || (attempt < most_attempts && std::chrono::steady_clock::now() < end); ++attempt) {
            try {
                return database->write(about, body, undone);
            } catch (const error& failure) {
                if (failure.code() == errc::outcome_unknown) {
                    if (!unknown)
                        end = std::chrono::steady_clock::now() + longest;
                    unknown = failure;
                } else if (unknown) {
                    look = "; looking it up failed: " + failure.details().message();
                    if (failure.code() != errc::busy) // someone is in the way, or has cancelled the look
                        break;
                } else {
                    throw;
                }
            }
        }
        throw error(errc::outcome_unknown, unknown->details().message() + look);
    }

    //! After a step was not found: makes sure that none is missing. Once for each scope, since that takes
    //! time in proportion to its steps, and nobody but who damages the database makes one vanish.
    void require_complete_steps(tables& from, const agent_row& agent, const std::string& scope)
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

    std::unique_ptr<storage::database> database;
    const limits bounds;
    static constexpr std::size_t most_complete_scopes = 10'000;
    std::mutex complete_mutex;
    std::set<std::pair<std::int64_t, std::string>> complete_scopes; // guarded by complete_mutex
    ledger records; // used by write transactions that follow each other, see tables::number
};

table_store::table_store(std::unique_ptr<storage::database> database, limits bounds)
    : impl_(std::make_unique<impl>(std::move(database), bounds))
{
}

table_store::~table_store() = default;

std::vector<save_outcome> table_store::save(std::span<const save_request> batch)
{
    std::vector<save_outcome> outcomes(batch.size());
    std::vector<save_request> valid;
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        try {
            validate(batch[i].checkpoint(), impl_->bounds);
            valid.push_back(batch[i]);
            positions.push_back(i);
        } catch (const error& refusal) {
            outcomes[i] = refusal;
        }
    }
    if (valid.empty())
        return outcomes;

    std::optional<saver> saves;
    std::vector<written_checkpoint> in_doubt;
    bool is_unclear = false;
    const auto save_all = [&](tables& in) {
        if (!in_doubt.empty()) {
            const auto committed = was_committed(in_doubt, in);
            is_unclear = !committed;
            if (is_unclear || *committed)
                return;
            in_doubt.clear();
        }
        ledger of_this_transaction;
        auto& records = in.number() == 0 ? of_this_transaction : impl_->records;
        records.begin(in);
        saves.emplace(in, records, identity(), impl_->database->largest_value());
        saves->prepare(valid);
        for (std::size_t i = 0; i < valid.size(); ++i) {
            auto& outcome = outcomes[positions[i]];
            try {
                outcome = saves->save(valid[i]);
            } catch (const error& failure) {
                if (saves->is_broken() || !concerns_one_request(failure) || !in.is_usable())
                    throw;
                outcome = failure;
            }
        }
        saves->finish();
    };
    impl_->write_until_known(access_for(valid), save_all, [&](bool is_certain) {
        if (!saves)
            return;
        saves->undo();
        if (!is_certain)
            in_doubt = saves->written();
    });
    if (is_unclear)
        throw error(errc::outcome_unknown,
                    "the connection was lost while a batch of " + std::to_string(valid.size()) +
                        " was committed, and others have changed its checkpoints since");
    if (in_doubt.empty())
        saves->confirm();
    return outcomes;
}

std::optional<checkpoint> table_store::load(std::string_view agent_id, std::string_view scope,
                                            std::string_view id)
{
    validate_key(agent_id, scope, id);
    const auto about = about_checkpoint(agent_id, scope, id);
    return impl_->read<std::optional<checkpoint>>(about, [&](tables& from) -> std::optional<checkpoint> {
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
    return impl_->read<std::optional<checkpoint>>({}, [&](tables& from) -> std::optional<checkpoint> {
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
    auto about = about_agent(agent_id);
    about.questions.push_back({question::kind::scope, about.agents.front(), std::string(scope)});
    about.questions.push_back({question::kind::head, about.agents.front(), std::string(scope)});
    return impl_->read<std::optional<checkpoint>>(about, [&](tables& from) -> std::optional<checkpoint> {
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

access about_query(const query& wanted)
{
    return wanted.agent_id() ? about_agent(*wanted.agent_id()) : access();
}

} // namespace

std::vector<checkpoint_header> table_store::list(const query& query)
{
    query.validate();
    return impl_->read<std::vector<checkpoint_header>>(about_query(query), [&](tables& from) {
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
    return impl_->read<std::vector<checkpoint>>(about_query(query), [&](tables& from) {
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
    access about;
    for (const auto& key : keys) {
        validate_key(key.agent_id(), key.scope(), key.id());
        if (about.agents.empty() || about.agents.back() != key.agent_id())
            about.agents.push_back(key.agent_id());
        about.questions.push_back({question::kind::checkpoint, key.agent_id(), key.scope(), key.id()});
    }
    return impl_->read<std::vector<load_outcome>>(about, [&](tables& from) {
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
    return impl_->read<std::uint64_t>(about_query(query), [&](tables& from) {
        std::uint64_t result = 0;
        select(from, query, [&](const agent_row&, checkpoint_row&&, checkpoint_header&&) { ++result; });
        return result;
    });
}

std::vector<std::string> table_store::list_agents(std::string_view after, std::size_t limit)
{
    validate_label(after, "the agent id");
    return impl_->read<std::vector<std::string>>({}, [&](tables& from) {
        std::vector<std::string> result;
        for (auto& agent : from.agents_after(after, limit))
            result.push_back(std::move(intact_agent(std::move(agent))->id));
        return result;
    });
}

bool table_store::erase(std::string_view agent_id, std::string_view scope, std::string_view id)
{
    validate_key(agent_id, scope, id);
    bool found = false;
    impl_->database->write(about_checkpoint(agent_id, scope, id),
                           [&](tables& in) { found = remove_checkpoint(in, agent_id, scope, id); });
    if (found)
        try_to_sweep(*impl_->database, agent_id);
    return found;
}

std::uint64_t table_store::erase_scope(std::string_view agent_id, std::string_view scope)
{
    validate_scope(agent_id, scope);
    const auto about = about_agent(agent_id);
    std::uint64_t count = 0;
    for (std::size_t removed = 1; removed > 0; count += removed) // in short transactions, so that savers get
        impl_->database->write(                                  // their turn
            about, [&](tables& in) { removed = remove_some_of_scope(in, agent_id, scope); });
    try_to_sweep(*impl_->database, agent_id);
    return count;
}

std::uint64_t table_store::erase_agent(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    std::uint64_t count = 0;
    std::optional<erased_agent> erased;
    impl_->database->write(about_agent(agent_id),
                           [&](tables& in) { erased = storage::erase_agent(in, agent_id, count); });
    try {
        if (erased)
            remove_erased(*impl_->database, *erased);
    } catch (const error&) { // NOLINT(bugprone-empty-catch): invisible already; compact() removes the rest
    }
    return count;
}

std::uint64_t table_store::copy_agent(std::string_view from, std::string_view to)
{
    validate_id(from, "the agent id");
    validate_id(to, "the new agent id");
    std::uint64_t count = 0;
    impl_->database->write({{std::string(from), std::string(to)}, {}},
                           [&](tables& in) { count = storage::copy_agent(in, from, to); });
    return count;
}

prune_result table_store::prune(std::string_view agent_id, const retention& policies, dry_run dry)
{
    validate_id(agent_id, "the agent id");
    const auto about = about_agent(agent_id);
    const auto plan = impl_->read<prune_plan>(about, [&](tables& from) {
        const auto agent = find_agent(from, agent_id);
        return agent ? plan_prune(from, *agent, policies) : prune_plan();
    });
    std::vector<checkpoint_key> removed;
    if (dry == dry_run::yes || plan.chosen.empty()) {
        for (const auto& next : plan.chosen)
            removed.push_back(next.key);
        return {std::move(removed), plan.bytes};
    }

    constexpr std::size_t per_transaction = 256;
    const std::span chosen(plan.chosen);
    for (std::size_t i = 0; i < chosen.size(); i += per_transaction) {
        const auto next = chosen.subspan(i, std::min(per_transaction, chosen.size() - i));
        std::vector<checkpoint_key> some;
        impl_->database->write(about, [&](tables& in) { some = remove_pruned(in, agent_id, plan, next); });
        removed.insert(removed.end(), std::make_move_iterator(some.begin()),
                       std::make_move_iterator(some.end()));
    }
    try_to_sweep(*impl_->database, agent_id);
    return {std::move(removed), plan.bytes};
}

bool table_store::pin(std::string_view agent_id, std::string_view scope, std::string_view id, bool pinned)
{
    validate_key(agent_id, scope, id);
    bool found = false;
    impl_->write_until_known(about_checkpoint(agent_id, scope, id), [&](tables& in) {
        const auto agent = find_agent(in, agent_id);
        auto row = agent ? in.find_checkpoint(agent->number, scope, id) : std::nullopt;
        found = row.has_value();
        if (agent && !found)
            in.confirm_absence(agent->number, scope, id);
        if (!found || row->pinned == pinned)
            return;
        if (!is_intact(*row))
            throw error(errc::corrupt,
                        describe(*row, *agent) + " is damaged: the checksum of its row differs");
        row->pinned = pinned;
        in.update_checkpoint(seal(*row));
    });
    return found;
}

std::vector<step_outcome> table_store::put_steps(std::span<const step_request> batch)
{
    std::vector<step_outcome> outcomes(batch.size(), step_outcome(stored{}));
    std::vector<std::size_t> valid;
    access about;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto& wanted = batch[i].step();
        try {
            validate(wanted, impl_->bounds);
        } catch (const error& refusal) {
            outcomes[i] = refusal;
            continue;
        }
        valid.push_back(i);
        about.agents.push_back(wanted.agent_id());
        about.questions.push_back({question::kind::scope, wanted.agent_id(), wanted.scope()});
        about.questions.push_back({question::kind::step, wanted.agent_id(), wanted.scope(), wanted.key()});
        if (wanted.checkpoint_id())
            about.questions.push_back(
                {question::kind::checkpoint, wanted.agent_id(), wanted.scope(), *wanted.checkpoint_id()});
    }
    if (valid.empty())
        return outcomes;
    impl_->write_until_known(about, [&](tables& in) {
        ledger records(in);
        for (const auto i : valid) {
            try {
                put_step(batch[i], records, in, impl_->database->largest_value());
                outcomes[i] = stored{};
            } catch (const error& failure) {
                if (!concerns_one_request(failure) || !in.is_usable())
                    throw;
                outcomes[i] = failure;
            }
        }
        records.write();
    });
    return outcomes;
}

std::vector<step> table_store::load_steps(const step_query& query)
{
    auto about = about_agent(query.agent_id());
    if (query.scope() && query.key()) {
        about.questions.push_back({question::kind::step, query.agent_id(), *query.scope(), *query.key()});
        about.questions.push_back({question::kind::scope, query.agent_id(), *query.scope()});
    }
    return impl_->read<std::vector<step>>(about, [&](tables& from) {
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
    bool found = false;
    impl_->database->write(about_agent(agent_id),
                           [&](tables& in) { found = remove_step(in, agent_id, scope, key, attempt); });
    return found;
}

void table_store::await_outcome(std::string_view agent_id)
{
    validate_id(agent_id, "the agent id");
    if (!impl_->database->may_commit_later())
        return;
    impl_->write_until_known(about_agent(agent_id), [&](tables& in) {
        // Whoever wrote to the agent had its record locked: we have it now, so that they have ended.
        if (find_agent(in, agent_id))
            return;
        // There was nothing to lock. With a record, a transaction that makes one of its own cannot be
        // committed any more, wherever it is held up.
        ledger records(in);
        records.change_agent(agent_id);
        records.write();
    });
}

verify_report table_store::verify(const verify_callback& progress)
{
    return storage::verify(*impl_->database, progress);
}

std::uint64_t table_store::compact()
{
    sweep_all(*impl_->database);
    return impl_->database->shrink();
}

store_stats table_store::stats()
{
    const auto all = impl_->read<totals>({}, [](tables& from) { return from.count_all(); });
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
    return impl_->read<store_stats>(about_agent(agent_id), [&](tables& from) {
        const auto agent = find_agent(from, agent_id);
        return agent ? measure(from, *agent) : store_stats();
    });
}

std::size_t table_store::write_lanes() const noexcept
{
    return impl_->database->write_lanes();
}

const limits& table_store::bounds() const noexcept
{
    return impl_->bounds;
}

} // namespace waymark::detail
