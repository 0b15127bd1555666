//! A session's store and executor, as Asio has them.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/operation.hpp>
#include <waymark/detail/session_core.hpp>

#include <asio/strand.hpp>

#include <memory>
#include <string>
#include <utility>

namespace waymark::detail {

//! Everything of a session runs on one strand, whatever its executor is.
class asio_session_link final : public session_link {
public:
    asio_session_link(const asio::any_io_executor& executor, std::shared_ptr<engine> store)
        : executor_(executor), strand_(executor), engine_(std::move(store))
    {
    }

    void save(save_request wanted, when_saved done) override
    {
        start<save_job>(std::move(wanted), std::move(done));
    }

    void call(job::kind what, std::string agent_id, store_function function, when_called done) override
    {
        using loaded = std::optional<checkpoint>;
        start<call_job<loaded>>(detail::call<loaded>(what, std::move(agent_id), std::move(function)),
                                [done = std::move(done)](std::error_code code, const std::string& details,
                                                         const loaded&) { done(code, details); });
    }

    void post(std::function<void()> function) override { asio::post(strand_, std::move(function)); }

private:
    using strand = asio::strand<asio::any_io_executor>;

    template <class Done>
    class on_strand {
    public:
        using executor_type = strand;

        on_strand(strand where, std::shared_ptr<diagnostics> details, Done done)
            : strand_(std::move(where)), details_(std::move(details)), done_(std::move(done))
        {
        }

        executor_type get_executor() const noexcept { return strand_; }

        template <class Result>
        void operator()(std::error_code code, const Result& result)
        {
            done_(code, details_->message(), result);
        }

    private:
        strand strand_;
        std::shared_ptr<diagnostics> details_;
        Done done_;
    };

    template <class Job, class Done>
    void start(typename Job::description wanted, Done done)
    {
        auto details = std::make_shared<diagnostics>();
        auto& where = *details;
        initiation<Job>(engine_, executor_)(on_strand<Done>(strand_, std::move(details), std::move(done)),
                                            std::move(wanted), &where);
    }

    asio::any_io_executor executor_;
    strand strand_;
    std::shared_ptr<engine> engine_;
};

} // namespace waymark::detail
