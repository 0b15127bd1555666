//! What every backend checks, and the words in which it says no.
#pragma once

#include <waymark/store.hpp>

#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace waymark::detail {

//! @throws waymark::error `conflict` if what the request asks for does not hold.
void require_options(const save_request& request, bool exists, const std::optional<std::string>& head);

//! What `store::load_some` gave for so many keys: a caller goes on behind it, and must not stand still.
//! @throws waymark::error `io`
void require_some_outcomes(std::size_t outcomes, std::size_t keys);

//! What a store gave for a batch of one. @throws waymark::error `outcome_unknown`
void require_one_outcome(std::size_t outcomes);

//! Whether a failure is about one request of a batch; otherwise the batch fails as a whole.
bool concerns_one_request(const error& failure) noexcept;

//! @throws waymark::error `invalid_argument`
void validate_key(std::string_view agent_id, std::string_view scope, std::string_view id);
void validate_scope(std::string_view agent_id, std::string_view scope);
void validate_step_key(std::string_view agent_id, std::string_view scope, std::string_view key);

//! Whether a record may be written over what is there (null: nothing).
//! @throws waymark::error `conflict`, `not_found`
void require_condition(const step_request& request, const step* existing);
//! The head that a record depends on. @throws waymark::error `conflict`
void require_head(const step_request& request, const std::optional<std::string>& head);
//! For `store::erase_step`.
bool may_be_erased(const step& existing, const std::optional<std::string>& attempt) noexcept;
[[noreturn]] void fail_without_checkpoint(const step& wanted);
[[noreturn]] void fail_ambiguous_before(const query& wanted);
[[noreturn]] void fail_unknown_before(const query& wanted);
[[noreturn]] void fail_ambiguous_id(std::string_view id);
[[noreturn]] void fail_nothing_to_copy(std::string_view from);
[[noreturn]] void fail_copy_onto(std::string_view to);

//! Applies each request; what one of them throws becomes its own outcome.
template <class Outcome, class Request, class Apply>
std::vector<Outcome> apply_each(std::span<const Request> batch, Apply apply)
{
    std::vector<Outcome> outcomes;
    outcomes.reserve(batch.size());
    for (const auto& request : batch) {
        try {
            outcomes.push_back(apply(request));
        } catch (const error& failure) {
            outcomes.push_back(failure);
        } catch (const std::bad_alloc&) {
            outcomes.push_back(error(std::make_error_code(std::errc::not_enough_memory), {}));
        }
    }
    return outcomes;
}

} // namespace waymark::detail
