#include <waymark/detail/store_calls.hpp>

#include <utility>

namespace waymark::detail {

call<std::optional<checkpoint>> load_call(std::string agent_id, std::string scope, std::string id)
{
    auto agent = agent_id;
    return {job::kind::read, std::move(agent),
            [agent_id = std::move(agent_id), scope = std::move(scope), id = std::move(id)](store& backend) {
                return backend.load(agent_id, scope, id);
            }};
}

call<std::optional<checkpoint>> load_call(std::string id)
{
    return {job::kind::read, {}, [id = std::move(id)](store& backend) { return backend.load(id); }};
}

call<std::optional<checkpoint>> load_latest_call(std::string agent_id)
{
    auto agent = agent_id;
    return {job::kind::read, std::move(agent),
            [agent_id = std::move(agent_id)](store& backend) { return backend.load_latest(agent_id); }};
}

call<std::optional<checkpoint>> load_latest_call(std::string agent_id, std::string scope)
{
    auto agent = agent_id;
    return {job::kind::read, std::move(agent),
            [agent_id = std::move(agent_id), scope = std::move(scope)](store& backend) {
                return backend.load_latest(agent_id, scope);
            }};
}

call<std::vector<checkpoint_header>> list_call(query query)
{
    return {job::kind::read, {}, [query = std::move(query)](store& backend) { return backend.list(query); }};
}

call<std::vector<checkpoint>> load_all_call(query query)
{
    return {
        job::kind::read, {}, [query = std::move(query)](store& backend) { return backend.load_all(query); }};
}

call<std::uint64_t> count_call(query query)
{
    return {job::kind::read, {}, [query = std::move(query)](store& backend) { return backend.count(query); }};
}

call<std::vector<std::string>> list_agents_call()
{
    return {job::kind::read, {}, [](store& backend) { return backend.list_agents(); }};
}

call<std::vector<std::string>> list_agents_call(std::string after, std::size_t limit)
{
    return {job::kind::read, {}, [after = std::move(after), limit](store& backend) {
                return backend.list_agents(after, limit);
            }};
}

call<std::vector<step>> load_steps_call(step_query query)
{
    return {job::kind::read, {}, [query = std::move(query)](store& backend) {
                return backend.load_steps(query);
            }};
}

call<store_stats> stats_call()
{
    return {job::kind::read, {}, [](store& backend) { return backend.stats(); }};
}

call<store_stats> stats_call(std::string agent_id)
{
    return {job::kind::read, {}, [agent_id = std::move(agent_id)](store& backend) {
                return backend.stats(agent_id);
            }};
}

call<verify_report> verify_call()
{
    return {job::kind::read, {}, [](store& backend) { return backend.verify(); }};
}

call<verify_report> verify_call(verify_callback progress)
{
    return {job::kind::read, {}, [progress = std::move(progress)](store& backend) {
                return backend.verify(progress);
            }};
}

call<bool> erase_call(std::string agent_id, std::string scope, std::string id)
{
    auto agent = agent_id;
    return {job::kind::write, std::move(agent),
            [agent_id = std::move(agent_id), scope = std::move(scope), id = std::move(id)](store& backend) {
                return backend.erase(agent_id, scope, id);
            }};
}

call<std::uint64_t> erase_scope_call(std::string agent_id, std::string scope)
{
    auto agent = agent_id;
    return {job::kind::write, std::move(agent),
            [agent_id = std::move(agent_id), scope = std::move(scope)](store& backend) {
                return backend.erase_scope(agent_id, scope);
            }};
}

call<bool> erase_step_call(std::string agent_id, std::string scope, std::string key,
                           std::optional<std::string> attempt)
{
    auto agent = agent_id;
    return {job::kind::write, std::move(agent),
            [agent_id = std::move(agent_id), scope = std::move(scope), key = std::move(key),
             attempt = std::move(attempt)](store& backend) {
                return backend.erase_step(agent_id, scope, key, attempt);
            }};
}

call<std::uint64_t> erase_agent_call(std::string agent_id)
{
    auto agent = agent_id;
    return {job::kind::write, std::move(agent),
            [agent_id = std::move(agent_id)](store& backend) { return backend.erase_agent(agent_id); }};
}

call<std::uint64_t> copy_agent_call(std::string from, std::string to)
{
    auto agent = from;
    auto second = to;
    return {
        job::kind::write, std::move(agent),
        [from = std::move(from), to = std::move(to)](store& backend) { return backend.copy_agent(from, to); },
        std::move(second)};
}

call<prune_result> prune_call(std::string agent_id, retention policies)
{
    auto agent = agent_id;
    return {job::kind::write, std::move(agent),
            [agent_id = std::move(agent_id), policies = std::move(policies)](store& backend) {
                return backend.prune(agent_id, policies, dry_run::no);
            }};
}

call<prune_result> prune_call(std::string agent_id, retention policies, dry_run dry)
{
    auto agent = agent_id;
    return {job::kind::write, std::move(agent),
            [agent_id = std::move(agent_id), policies = std::move(policies), dry](store& backend) {
                return backend.prune(agent_id, policies, dry);
            }};
}

call<bool> pin_call(std::string agent_id, std::string scope, std::string id, bool pinned)
{
    auto agent = agent_id;
    return {job::kind::write, std::move(agent),
            [agent_id = std::move(agent_id), scope = std::move(scope), id = std::move(id),
             pinned](store& backend) { return backend.pin(agent_id, scope, id, pinned); }};
}

call<std::vector<step_outcome>> put_steps_call(std::vector<step_request> batch)
{
    auto agent = batch.empty() ? std::string() : batch.front().step().agent_id();
    std::size_t bytes = 0;
    for (const auto& request : batch)
        bytes += request.step().bytes();
    return call<std::vector<step_outcome>>(
               job::kind::write, std::move(agent),
               [batch = std::move(batch)](store& backend) { return backend.put_steps(batch); })
        .with_bytes(bytes);
}

call<std::uint64_t> compact_call()
{
    return {job::kind::write, {}, [](store& backend) { return backend.compact(); }};
}

} // namespace waymark::detail
