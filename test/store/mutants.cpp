#include "mutants.hpp"

#include <algorithm>

namespace waymark::test {

namespace {

class mutant_store final : public forwarding_store {
public:
    mutant_store(std::shared_ptr<store> inner, faults wrong)
        : forwarding_store(inner), shared_(std::move(inner)), wrong_(std::move(wrong))
    {
    }

    const std::shared_ptr<store>& shared() const noexcept { return shared_; }

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        return wrong_.save ? wrong_.save(inner(), batch) : inner().save(batch);
    }
    std::optional<checkpoint> load(text agent, text scope, text id) override
    {
        return wrong_.load ? wrong_.load(inner(), agent, scope, id) : inner().load(agent, scope, id);
    }
    std::optional<checkpoint> load(text id) override
    {
        return wrong_.load_by_id ? wrong_.load_by_id(inner(), id) : inner().load(id);
    }
    std::optional<checkpoint> load_latest(text agent, text scope) override
    {
        return wrong_.load_latest ? wrong_.load_latest(inner(), agent, scope)
                                  : inner().load_latest(agent, scope);
    }
    std::vector<checkpoint_header> list(const query& query) override
    {
        return wrong_.list ? wrong_.list(inner(), query) : inner().list(query);
    }
    std::vector<load_outcome> load_some(std::span<const checkpoint_key> keys,
                                        std::span<const checkpoint> earlier, std::size_t about_bytes) override
    {
        return wrong_.load_some ? wrong_.load_some(inner(), keys, earlier, about_bytes)
                                : inner().load_some(keys, earlier, about_bytes);
    }
    std::vector<checkpoint> load_all(const query& query) override
    {
        return wrong_.load_all ? wrong_.load_all(inner(), query) : inner().load_all(query);
    }
    std::uint64_t count(const query& query) override
    {
        return wrong_.count ? wrong_.count(inner(), query) : inner().count(query);
    }
    std::vector<std::string> list_agents(text after, std::size_t limit) override
    {
        return wrong_.list_agents ? wrong_.list_agents(inner(), after, limit)
                                  : inner().list_agents(after, limit);
    }
    bool erase(text agent, text scope, text id) override
    {
        return wrong_.erase ? wrong_.erase(inner(), agent, scope, id) : inner().erase(agent, scope, id);
    }
    std::uint64_t erase_scope(text agent, text scope, const upkeep_control& control) override
    {
        return wrong_.erase_scope ? wrong_.erase_scope(inner(), agent, scope)
                                  : inner().erase_scope(agent, scope, control);
    }
    std::uint64_t erase_agent(text agent) override
    {
        return wrong_.erase_agent ? wrong_.erase_agent(inner(), agent) : inner().erase_agent(agent);
    }
    std::uint64_t copy_agent(text from, text to, const upkeep_control& control) override
    {
        return wrong_.copy_agent ? wrong_.copy_agent(inner(), from, to)
                                 : inner().copy_agent(from, to, control);
    }
    prune_result prune(text agent, const retention& policies, dry_run dry,
                       const upkeep_control& control) override
    {
        return wrong_.prune ? wrong_.prune(inner(), agent, policies, dry)
                            : inner().prune(agent, policies, dry, control);
    }
    bool pin(text agent, text scope, text id, bool pinned) override
    {
        return wrong_.pin ? wrong_.pin(inner(), agent, scope, id, pinned)
                          : inner().pin(agent, scope, id, pinned);
    }
    std::vector<step_outcome> put_steps(std::span<const step_request> batch) override
    {
        return wrong_.put_steps ? wrong_.put_steps(inner(), batch) : inner().put_steps(batch);
    }
    commit_outcomes commit(std::span<const save_request> saves, std::span<const step_request> steps) override
    {
        return wrong_.commit ? wrong_.commit(inner(), saves, steps) : forwarding_store::commit(saves, steps);
    }
    std::vector<step> load_steps(const step_query& query) override
    {
        return wrong_.load_steps ? wrong_.load_steps(inner(), query) : inner().load_steps(query);
    }
    bool erase_step(text agent, text scope, text key, const std::optional<std::string>& attempt) override
    {
        return wrong_.erase_step ? wrong_.erase_step(inner(), agent, scope, key, attempt)
                                 : inner().erase_step(agent, scope, key, attempt);
    }
    void await_outcome(text agent) override
    {
        wrong_.await_outcome ? wrong_.await_outcome(inner(), agent) : inner().await_outcome(agent);
    }
    verify_report verify(const upkeep_control& control) override
    {
        return wrong_.verify ? wrong_.verify(inner(), control) : inner().verify(control);
    }
    std::uint64_t compact(const upkeep_control& control) override
    {
        return wrong_.compact ? wrong_.compact(inner()) : inner().compact(control);
    }
    store_stats stats() override { return wrong_.stats ? wrong_.stats(inner()) : inner().stats(); }
    store_stats stats(text agent) override
    {
        return wrong_.stats_of ? wrong_.stats_of(inner(), agent) : inner().stats(agent);
    }
    std::size_t write_lanes() const noexcept override
    {
        return wrong_.write_lanes ? wrong_.write_lanes(inner()) : inner().write_lanes();
    }

private:
    std::shared_ptr<store> shared_;
    faults wrong_;
};

//! What one request throws is its own outcome.
template <class Outcome, class Request, class Apply>
std::vector<Outcome> each_alone(std::span<const Request> batch, Apply apply)
{
    std::vector<Outcome> outcomes;
    for (const auto& request : batch) {
        try {
            outcomes.push_back(apply(request));
        } catch (const error& failure) {
            outcomes.push_back(failure);
        }
    }
    return outcomes;
}

} // namespace

testing::backend_under_test mutant::backend() const
{
    const auto open = [make = make_](const std::shared_ptr<store>& inner) {
        return std::make_shared<mutant_store>(inner, make());
    };
    const auto open_again = [open](const std::shared_ptr<store>& current) {
        return open(static_cast<mutant_store&>(*current).shared());
    };
    return testing::backend_under_test(name_, [open] { return open(std::make_shared<memory_store>()); })
        .with_reopen(open_again)
        .with_open_beside(open_again);
}

faults saving_instead(std::function<checkpoint(const checkpoint&)> change)
{
    return {.save = [change = std::move(change)](store& inner, std::span<const save_request> batch) {
        std::vector<save_request> changed;
        for (const auto& request : batch)
            changed.emplace_back(change(request.checkpoint()), request.options());
        return inner.save(changed);
    }};
}

faults saving_each(std::function<save_result(store&, const save_request&)> save)
{
    return {.save = [save = std::move(save)](store& inner, std::span<const save_request> batch) {
        return each_alone<save_outcome>(batch,
                                        [&](const save_request& request) { return save(inner, request); });
    }};
}

faults recording_instead(std::function<step(const step&)> change)
{
    return {.put_steps = [change = std::move(change)](store& inner, std::span<const step_request> batch) {
        std::vector<step_request> changed;
        for (const auto& request : batch)
            changed.push_back(with_step(request, change(request.step())));
        return inner.put_steps(changed);
    }};
}

faults recording_each(std::function<void(store&, const step_request&)> put)
{
    return {.put_steps = [put = std::move(put)](store& inner, std::span<const step_request> batch) {
        return each_alone<step_outcome>(batch, [&](const step_request& request) {
            put(inner, request);
            return stored{};
        });
    }};
}

faults asking_instead(std::function<query(const query&)> change)
{
    return {.list = [change](store& inner, const query& asked) { return inner.list(change(asked)); },
            .load_all = [change](store& inner, const query& asked) { return inner.load_all(change(asked)); },
            .count = [change](store& inner, const query& asked) { return inner.count(change(asked)); }};
}

step_request with_step(const step_request& from, step other)
{
    step_request made(std::move(other), from.is_create_only());
    if (from.replaced())
        made.replacing(*from.replaced());
    if (from.is_restored())
        made.restored();
    if (from.expects_head())
        made.expect_head(from.expected_head());
    return made;
}

void put_one(store& inner, const step_request& request)
{
    inner.put_steps(std::span(&request, 1)).at(0).value_or_throw();
}

std::optional<step> find_step(store& inner, text agent, text scope, text key)
{
    const auto found =
        inner.load_steps(step_query(std::string(agent)).scope(std::string(scope)).key(std::string(key)));
    return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<step> find_step(store& inner, const step& like)
{
    return find_step(inner, like.agent_id(), like.scope(), like.key());
}

std::optional<std::string> head_of(store& inner, const checkpoint& like)
{
    const auto head = inner.load_latest(like.agent_id(), like.scope());
    return head ? std::optional(head->id()) : std::nullopt;
}

std::optional<checkpoint_header> find_header(store& inner, text agent, text scope, text id)
{
    for (const auto& header : inner.list(query(std::string(agent)).scope(std::string(scope))))
        if (header.id() == id)
            return header;
    return std::nullopt;
}

} // namespace waymark::test
