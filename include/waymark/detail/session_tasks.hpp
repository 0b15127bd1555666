//! The operations that stand in a session's queue.
#pragma once

#include <waymark/detail/session_core.hpp>
#include <waymark/resume.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace waymark::detail {

//! A function that a session calls with its store when its turn has come, before it becomes a task.
template <class Result>
class session_call {
public:
    using function = std::function<Result(store&, const session_position&)>;
    using sequel = std::function<void(session_core&, const Result&)>;

    //! `then` is called on the session's executor after a success.
    session_call(job::kind what, function wanted, sequel then = {})
        : what_(what), function_(std::move(wanted)), then_(std::move(then))
    {
    }

private:
    template <class>
    friend class call_task;

    job::kind what_;
    function function_;
    sequel then_;
};

// What a call has loaded as it is stored. All of them are here, before `call_task` chooses among them.

inline std::optional<checkpoint> loaded_by(const std::optional<checkpoint>& result)
{
    return result;
}
//! A conversation that was repaired is not as it is stored.
inline std::optional<checkpoint> loaded_by(const resumed& found)
{
    return found && found.unanswered_tool_calls().empty() ? std::optional(*found) : std::nullopt;
}
template <class Other>
std::optional<checkpoint> loaded_by(const Other&)
{
    return std::nullopt;
}

template <class Result>
class call_task : public session_task {
public:
    using description = session_call<Result>;
    using result_type = Result;

    explicit call_task(description wanted) : wanted_(std::move(wanted)) {}

    void begin(const std::shared_ptr<session_core>& session) override
    {
        session->hand_over(*this, [&](const auto& owned) {
            session->link().call(
                wanted_.what_, session->agent_id(),
                [this, position = session->position()](store& backend) {
                    result_ = wanted_.function_(backend, position);
                    return loaded_by(result_);
                },
                [this, session, owned](std::error_code code, std::string details) {
                    owned->take();
                    end(*session, code, std::move(details));
                });
        });
    }

    Result take_result() noexcept { return std::move(result_); }

private:
    void end(session_core& session, std::error_code code, std::string details) noexcept
    {
        if (code)
            fail(code, std::move(details));
        else if (wanted_.then_) {
            try {
                wanted_.then_(session, result_);
            } catch (...) {
                code = current_failure(job::kind::read, details);
                fail(code, std::move(details));
            }
        }
        session.finish(*this);
    }

    description wanted_;
    Result result_{};
};

//! What the tasks that save have in common.
class saving_task : public session_task {
public:
    //! What it was to save goes now: its handler may be called much later.
    void fail(std::error_code code, std::string details) noexcept override
    {
        session_task::fail(code, std::move(details));
        draft_.reset();
    }

protected:
    explicit saving_task(std::optional<checkpoint> draft) : draft_(std::move(draft))
    {
        nothing(); // made now, when running out of memory is an exception like any other
    }
    ~saving_task() = default;

    //! Whether a veto is a failure, or just nothing saved.
    enum class on_veto : bool { succeed, fail };

    void save(const std::shared_ptr<session_core>& session, const std::optional<std::string>& parent,
              on_veto veto)
    {
        session->save(*this, *draft_, parent, [this, veto](session_core::save_end& end) {
            if (end.vetoed && veto == on_veto::fail)
                end.code = errc::vetoed;
            saved_ = std::move(end.saved);
            header_ = std::move(end.header);
        });
    }

    //! For handlers, which are given a value in any case. All of it is empty, so that copies take no memory.
    static const checkpoint& nothing();

    std::optional<checkpoint> draft_;
    std::optional<checkpoint> saved_;
    std::optional<checkpoint_header> header_;
};

class notify_task : public saving_task {
public:
    struct description {
        description(event happened, checkpoint made_of) : what(happened), draft(std::move(made_of)) {}
        event what;
        checkpoint draft;
    };
    using result_type = std::optional<checkpoint_header>;

    explicit notify_task(description wanted) : saving_task(std::move(wanted.draft)), what_(wanted.what) {}

    bool is_wanted(const session_core& session) override
    {
        return session.strategy().should_checkpoint(draft_->iteration(), what_);
    }
    void begin(const std::shared_ptr<session_core>& session) override
    {
        save(session, std::nullopt, on_veto::succeed);
    }

    result_type take_result() noexcept { return std::move(header_); }

private:
    event what_;
};

class checkpoint_task : public saving_task {
public:
    using description = checkpoint;
    using result_type = checkpoint_header;

    explicit checkpoint_task(description draft) : saving_task(std::move(draft)) {}

    void begin(const std::shared_ptr<session_core>& session) override
    {
        save(session, std::nullopt, on_veto::fail);
    }

    result_type take_result() noexcept
    {
        return header_ ? *std::move(header_) : checkpoint_header(nothing());
    }
};

class rollback_task : public saving_task {
public:
    using description = std::string; // the target's id
    using result_type = checkpoint;

    explicit rollback_task(description target) : saving_task(std::nullopt), target_(std::move(target)) {}

    void begin(const std::shared_ptr<session_core>& session) override;

    result_type take_result() noexcept { return saved_ ? *std::move(saved_) : nothing(); }

private:
    std::string target_;
};

} // namespace waymark::detail
