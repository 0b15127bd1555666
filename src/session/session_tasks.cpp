#include <waymark/detail/session_calls.hpp>
#include <waymark/detail/session_tasks.hpp>

namespace waymark::detail {

const checkpoint& saving_task::nothing()
{
    static const auto empty = checkpoint(std::string()).with_id({});
    return empty;
}

void rollback_task::begin(const std::shared_ptr<session_core>& session)
{
    session->hand_over(*this, [&](const auto& owned) {
        session->link().call(
            job::kind::read, session->agent_id(),
            [this, session](store& from) -> std::optional<checkpoint> {
                draft_ = require_checkpoint(from, session->agent_id(), session->options().scope(), target_);
                return draft_;
            },
            [this, session, owned](std::error_code code, std::string details) {
                owned->take();
                if (code) {
                    fail(code, std::move(details));
                    return session->finish(*this);
                }
                session->attempt(*this, [&] {
                    draft_->with_id(random_id()).with_created_at(now());
                    save(session, target_, on_veto::fail);
                });
            });
    });
}

} // namespace waymark::detail
