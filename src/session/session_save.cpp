#include <waymark/detail/session_core.hpp>

namespace waymark::detail {

void session_save::drop_input() noexcept
{
    batched_save::drop_input();
    draft_.reset();
    header_ = checkpoint_header(); // a failure hands over nothing
}

notify_save::notify_save(checkpoint draft) : session_save(draft.agent_id(), on_veto::succeed)
{
    draft_ = std::move(draft);
}

notify_save::result_type notify_save::take_result() noexcept
{
    return code() || header_.sequence() == 0 ? std::nullopt : result_type(std::move(header_));
}

checkpoint_save::checkpoint_save(checkpoint draft) : session_save(draft.agent_id(), on_veto::fail)
{
    draft_ = std::move(draft);
}

rollback_save::rollback_save(std::string agent_id, std::string target)
    : session_save(std::move(agent_id), on_veto::fail)
{
    target_ = std::move(target);
}

rollback_save::result_type rollback_save::take_result() noexcept
{
    return wanted_ ? std::move(*wanted_).checkpoint().with_sequence(header_.sequence()) : checkpoint();
}

} // namespace waymark::detail
