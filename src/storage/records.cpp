//! The checksums of rows.
#include "tables.hpp"

namespace waymark::storage {

namespace {

std::string half_of(const digest& whole)
{
    return std::string(view(whole).substr(0, 16));
}

void add(hasher& to, const std::optional<std::string>& text)
{
    to.add_number(text ? 1 : 0).add_text(text ? *text : "");
}

} // namespace

std::string checksum(const agent_row& row)
{
    return half_of(thread_hasher()
                       .add_number(row.number)
                       .add_text(row.id)
                       .add_number(row.last_sequence)
                       .add_number(row.next_message)
                       .add_number(row.next_object)
                       .add_number(row.sweeps)
                       .add_number(row.changes)
                       .add_number(row.has_garbage ? 1 : 0)
                       .finish());
}

std::string checksum(const scope_row& row)
{
    return half_of(thread_hasher()
                       .add_number(row.agent)
                       .add_text(row.scope)
                       .add_number(row.checkpoints)
                       .add_number(row.head)
                       .add_number(row.steps)
                       .finish());
}

std::string checksum(const checkpoint_row& row)
{
    auto& hash = thread_hasher();
    hash.add_number(row.agent).add_number(row.sequence).add_text(row.scope).add_text(row.id);
    add(hash, row.parent);
    return half_of(hash.add_text(row.name)
                       .add_number(row.iteration)
                       .add_number(row.created_at)
                       .add_number(row.messages)
                       .add_text(row.metadata)
                       .add_text(row.chain)
                       .add_text(row.body)
                       .add_number(row.pinned ? 1 : 0)
                       .add_number(row.stored_bytes)
                       .finish());
}

std::string checksum(const step_row& row)
{
    auto& hash = thread_hasher();
    hash.add_number(row.agent).add_text(row.scope).add_text(row.key);
    add(hash, row.checkpoint);
    hash.add_number(row.made_on).add_number(row.started_at);
    add(hash, row.result);
    return half_of(hash.finish());
}

std::int64_t row_bytes(const checkpoint_row& row) noexcept
{
    constexpr std::size_t numbers_and_check = 64;
    return static_cast<std::int64_t>(row.scope.size() + row.id.size() + (row.parent ? row.parent->size() : 0) +
                                     row.name.size() + row.metadata.size() + row.chain.size() +
                                     row.body.size() + numbers_and_check);
}

} // namespace waymark::storage
