//! Ids of calls that every API of a request takes.
#pragma once

#include "../values/tool_pairing.hpp"
#include "arrangement.hpp"

#include <string>
#include <vector>

namespace waymark::wire {

//! The ids of the calls in the request, in the order of `pairing.calls`. Calls of native messages keep
//! theirs. Others do if the API takes it and it was not used before; else they get one that depends on their
//! place alone, so that the same conversation makes the same request.
std::vector<std::string> choose_call_ids(const detail::tool_pairing& pairing,
                                         const std::vector<bool>& is_native, const api_rules& api);

//! For a result that answers no call.
std::string id_without_call(std::string_view given, std::size_t message, std::size_t part,
                            const api_rules& api);

//! ASCII letters, digits, "_" and "-".
bool is_plain_id(std::string_view id) noexcept;

} // namespace waymark::wire
