//! A session's store and executor, as Asio has them.
#pragma once

#include <waymark/detail/asio.hpp>
#include <waymark/detail/operation.hpp>
#include <waymark/detail/session_core.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

namespace waymark::detail {

//! One thing that a session does on its executor.
class session_turn {
public:
    session_turn() = default;
    session_turn(const session_turn&) = delete;
    session_turn& operator=(const session_turn&) = delete;
    virtual ~session_turn() = default;

    virtual void take() noexcept = 0;

private:
    friend class session_turns;
    std::unique_ptr<session_turn> behind_;
};

//! Everything of a session is done in turns, one after the other, whatever threads run its executor.
//!
//! Why not a strand: that needs memory to go on. Without it, it ends the process, or stands still for good
//! with what it was given.
class session_turns {
public:
    //! On the executor: takes the turn now, or leaves it to the thread that is just taking one.
    static void enter(const std::shared_ptr<session_turns>& self,
                      std::unique_ptr<session_turn> arrived) noexcept
    {
        if (!self->is_first(arrived))
            return;
        // A turn may drop the last reference to its session, and what `self` refers to with it; ours keeps
        // the queue. NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
        for (const auto kept = self; arrived != nullptr; arrived = kept->next())
            arrived->take();
    }

private:
    //! Puts it behind the others if there are any.
    bool is_first(std::unique_ptr<session_turn>& arrived) noexcept
    {
        const std::lock_guard lock(mutex_);
        if (!std::exchange(is_busy_, true))
            return true;
        auto& end = last_ == nullptr ? first_ : last_->behind_;
        last_ = arrived.get();
        end = std::move(arrived);
        return false;
    }
    std::unique_ptr<session_turn> next() noexcept
    {
        const std::lock_guard lock(mutex_);
        auto taken = std::move(first_);
        if (taken == nullptr) {
            is_busy_ = false;
            return taken;
        }
        first_ = std::move(taken->behind_);
        if (first_ == nullptr)
            last_ = nullptr;
        return taken;
    }

    std::mutex mutex_; // guards what follows
    std::unique_ptr<session_turn> first_;
    session_turn* last_ = nullptr;
    bool is_busy_ = false;
};

class asio_session_link final : public session_link {
public:
    asio_session_link(asio::any_io_executor executor, std::shared_ptr<engine> store)
        : executor_(std::move(executor)), engine_(std::move(store)), turns_(std::make_shared<session_turns>())
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
                                [done = std::move(done)](std::error_code code, std::string details,
                                                         const loaded&) { done(code, std::move(details)); });
    }

    void wake(std::shared_ptr<session_core> session) noexcept override
    {
        for (;;) {
            try {
                asio::post(executor_, entrance(turns_, std::make_unique<pump_turn>(session)));
                return;
            } catch (const std::bad_alloc&) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1)); // as for the end of an operation
            }
        }
    }

private:
    //! The function that is posted.
    class entrance {
    public:
        entrance(std::shared_ptr<session_turns> to, std::unique_ptr<session_turn> turn) noexcept
            : turns_(std::move(to)), turn_(std::move(turn))
        {
        }
        void operator()() { session_turns::enter(turns_, std::move(turn_)); }

    private:
        std::shared_ptr<session_turns> turns_;
        std::unique_ptr<session_turn> turn_;
    };

    class pump_turn final : public session_turn {
    public:
        explicit pump_turn(std::shared_ptr<session_core> session) noexcept : session_(std::move(session)) {}
        void take() noexcept override { session_->pump(); }

    private:
        std::shared_ptr<session_core> session_;
    };

    //! The end of a call of the store. It is made before the call: then it may be too late to get memory.
    template <class Result, class Done>
    class end_turn final : public session_turn {
    public:
        explicit end_turn(Done done) : done_(std::move(done)) {}
        void take() noexcept override { done_(code, std::move(details).message(), result); }

        std::error_code code;
        diagnostics details;
        Result result{};

    private:
        Done done_;
    };

    //! The handler of a call.
    template <class Result, class Done>
    class on_executor {
    public:
        using executor_type = asio::any_io_executor;

        on_executor(executor_type where, std::shared_ptr<session_turns> turns,
                    std::unique_ptr<end_turn<Result, Done>> end) noexcept
            : executor_(std::move(where)), turns_(std::move(turns)), end_(std::move(end))
        {
        }

        executor_type get_executor() const noexcept { return executor_; }

        void operator()(std::error_code code, Result result)
        {
            end_->code = code;
            end_->result = std::move(result);
            session_turns::enter(turns_, std::move(end_));
        }

    private:
        executor_type executor_;
        std::shared_ptr<session_turns> turns_;
        std::unique_ptr<end_turn<Result, Done>> end_;
    };

    template <class Job, class Done>
    void start(typename Job::description wanted, Done done)
    {
        using result = typename Job::result_type;
        auto end = std::make_unique<end_turn<result, Done>>(std::move(done));
        auto& details = end->details;
        initiation<Job>(engine_, executor_)(on_executor<result, Done>(executor_, turns_, std::move(end)),
                                            std::move(wanted), &details);
    }

    asio::any_io_executor executor_;
    std::shared_ptr<engine> engine_;
    std::shared_ptr<session_turns> turns_;
};

} // namespace waymark::detail
