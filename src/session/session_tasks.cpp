#include <waymark/detail/session_calls.hpp>
#include <waymark/detail/session_tasks.hpp>

namespace waymark::detail {

void rollback_task::begin(const std::shared_ptr<session_core>& session)
{
    session->link().call(
        job::kind::read, session->agent_id(),
        [this, session](store& from) -> std::optional<checkpoint> {
            draft_ = require_checkpoint(from, session->agent_id(), session->options().scope(), target_);
            return draft_;
        },
        [this, session, owned = session->own(*this)](std::error_code code, const std::string& details) {
            owned->take();
            if (code) {
                fail(code, details);
                return session->finish(*this);
            }
            draft_->with_id(random_id()).with_created_at(now());
            save(session, target_, on_veto::fail);
        });
}

} // namespace waymark::detail
