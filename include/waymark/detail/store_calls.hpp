//! What each operation of async_store asks of the store.
#pragma once

#include <waymark/detail/job.hpp>
#include <waymark/store.hpp>

#include <optional>
#include <string>
#include <vector>

namespace waymark::detail {

call<std::optional<checkpoint>> load_call(std::string agent_id, std::string scope, std::string id);
call<std::optional<checkpoint>> load_call(std::string id);
call<std::optional<checkpoint>> load_latest_call(std::string agent_id);
call<std::optional<checkpoint>> load_latest_call(std::string agent_id, std::string scope);
call<std::vector<checkpoint_header>> list_call(query query);
call<std::vector<checkpoint>> load_all_call(query query);
call<std::uint64_t> count_call(query query);
call<std::vector<std::string>> list_agents_call();
call<std::vector<std::string>> list_agents_call(std::string after, std::size_t limit);
call<std::vector<step>> load_steps_call(step_query query);
call<store_stats> stats_call();
call<store_stats> stats_call(std::string agent_id);
call<verify_report> verify_call();
call<verify_report> verify_call(verify_callback progress);
call<bool> erase_call(std::string agent_id, std::string scope, std::string id);
call<std::uint64_t> erase_scope_call(std::string agent_id, std::string scope);
call<bool> erase_step_call(std::string agent_id, std::string scope, std::string key,
                           std::optional<std::string> attempt = std::nullopt);
call<std::uint64_t> erase_agent_call(std::string agent_id);
call<std::uint64_t> copy_agent_call(std::string from, std::string to);
call<prune_result> prune_call(std::string agent_id, retention policies);
call<prune_result> prune_call(std::string agent_id, retention policies, dry_run dry);
call<bool> pin_call(std::string agent_id, std::string scope, std::string id, bool pinned);
call<std::vector<step_outcome>> put_steps_call(std::vector<step_request> batch);
call<std::uint64_t> compact_call();

} // namespace waymark::detail
