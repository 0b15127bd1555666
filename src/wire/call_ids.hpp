//! Ids of calls that every API of a request takes.
#pragma once

#include "../values/tool_pairing.hpp"
#include "arrangement.hpp"

#include <span>
#include <string>
#include <vector>

namespace waymark::wire {

//! The ids of the calls in the request, in the order of `pairing.calls`. Calls of native messages keep
//! theirs. Others do if the API takes it and it was not used before; else they get one that depends on their
//! message and their place in it, so that every request has the same, whatever window it is of.
std::vector<std::string> choose_call_ids(const detail::tool_pairing& pairing,
                                         std::span<const message* const> messages,
                                         const std::vector<bool>& is_native, const api_rules& api);

//! For a result that answers no call.
std::string id_without_call(std::string_view given, const message& of, std::size_t part,
                            const api_rules& api);

//! ASCII letters, digits, "_" and "-".
bool is_plain_id(std::string_view id) noexcept;

} // namespace waymark::wire
