//! The executor of a session, as Asio has it.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/asio_work.hpp>
#include <waymark/detail/operation.hpp>
#include <waymark/detail/session_core.hpp>

#include <optional>
#include <utility>

namespace waymark::detail {

class asio_session_executor final : public session_executor {
public:
    explicit asio_session_executor(asio::any_io_executor executor)
        : executor_(std::move(executor)), gate_(post_gate::of(executor_))
    {
    }

    void post(pooled_work& wanted) override
    {
        // The session, and this object with it, may be gone before `post` returns, and so may the context as
        // soon as the gate is free.
        const post_gate::visit visit(gate_);
        const auto executor = executor_;
        post_work(executor, wanted);
    }

    void set_busy(bool busy) override
    {
        if (busy)
            work_.emplace(asio::prefer(executor_, asio::execution::outstanding_work.tracked));
        else
            work_.reset();
    }

private:
    asio::any_io_executor executor_;
    post_gate* gate_;
    std::optional<tracked_executor<asio::any_io_executor>> work_;
};

//! Calls a handler that need not wait for anything, on its executor and with its memory.
template <class Handler, class Result>
class immediate_end {
public:
    using allocator_type = asio::associated_allocator_t<Handler>;

    immediate_end(Handler handler, session_core::decision how)
        : handler_(std::move(handler)), code_(how.code), details_(std::move(how.details))
    {
    }

    allocator_type get_allocator() const noexcept { return asio::get_associated_allocator(handler_); }

    void operator()()
    {
        if (auto* const wanted = associated_diagnostics<Handler>::get(handler_))
            *wanted = std::move(details_);
        std::move(handler_)(code_, Result{});
    }

private:
    Handler handler_;
    std::error_code code_;
    diagnostics details_;
};

//! Asks the strategy first: what it does not want costs next to nothing.
class notify_initiation : public initiation<notify_save, session_core> {
public:
    using initiation::initiation;

    template <class Handler>
    void operator()(Handler&& handler, event what, checkpoint draft) const
    {
        if (auto decision = queue()->decide(what, draft.iteration()); decision.saves)
            start(std::decay_t<Handler>(std::forward<Handler>(handler)),
                  std::make_shared<notify_save>(std::move(draft)));
        else
            end(std::decay_t<Handler>(std::forward<Handler>(handler)), std::move(decision));
    }
    //! `make_draft` is a function without arguments.
    template <class Handler, class MakeDraft>
    void operator()(Handler&& handler, event what, std::int64_t iteration, MakeDraft make_draft) const
    {
        if (auto decision = queue()->decide(what, iteration); decision.saves)
            start(std::decay_t<Handler>(std::forward<Handler>(handler)),
                  std::make_shared<notify_save>(make_draft()));
        else
            end(std::decay_t<Handler>(std::forward<Handler>(handler)), std::move(decision));
    }

private:
    template <class Handler>
    void end(Handler handler, session_core::decision how) const
    {
        const auto executor = asio::get_associated_executor(handler, get_executor());
        asio::post(executor,
                   immediate_end<Handler, notify_save::result_type>(std::move(handler), std::move(how)));
    }
};

} // namespace waymark::detail
