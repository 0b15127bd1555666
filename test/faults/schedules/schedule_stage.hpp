//! Where the handlers of a schedule run: one io_context, two of them, or a thread pool.
#pragma once

#include "schedule_ledger.hpp"

#include <asio/io_context.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

namespace waymark::faults::schedules {

enum class stage_kind { one_context, two_contexts, pool };

//! Two executors, which a handler can tell apart; see `id_of`.
class stage {
public:
    static constexpr std::size_t executor_count = 2;

    explicit stage(stage_kind kind)
    {
        if (kind == stage_kind::pool)
            pool_ = std::make_unique<asio::thread_pool>(2);
        else
            for (int i = 0; i < (kind == stage_kind::two_contexts ? 2 : 1); ++i)
                contexts_.push_back(std::make_unique<asio::io_context>());
    }

    bool is_pool() const noexcept { return pool_ != nullptr; }

    static int id_of(std::size_t place) noexcept { return static_cast<int>(place) + 1; }
    asio::any_io_executor executor(std::size_t place) const
    {
        if (pool_)
            return test::tracking_executor(pool_->get_executor(), id_of(place));
        return test::tracking_executor(contexts_[place % contexts_.size()]->get_executor(), id_of(place));
    }
    //! One on which nothing runs at the same time, so that signals may be emitted there.
    asio::any_io_executor serial_executor(std::size_t place) const
    {
        return pool_ ? asio::any_io_executor(asio::make_strand(executor(place))) : executor(place);
    }

    //! Runs one handler, if there is one. A pool runs by itself.
    std::size_t run_one(std::size_t place)
    {
        if (pool_)
            return 0;
        return guarded(*contexts_[place % contexts_.size()],
                       [](asio::io_context& io) { return io.poll_one(); });
    }

    //! Runs until nothing is left to do. False if that does not come to pass, or not in time.
    bool run_out(operation_ledger& ledger)
    {
        constexpr auto limit = std::chrono::seconds(30);
        if (pool_) {
            if (!ledger.wait_for_all(limit))
                pool_->stop();
            pool_->join();
            return ledger.all_ended();
        }
        const auto deadline = std::chrono::steady_clock::now() + limit;
        while (run_all_once())
            if (std::chrono::steady_clock::now() > deadline)
                return false;
        return true;
    }

    //! No handler runs any more. A pool's may have been left unrun.
    void stop()
    {
        if (!pool_)
            return;
        pool_->stop();
        pool_->join();
    }

    void destroy()
    {
        contexts_.clear();
        pool_.reset();
    }

private:
    template <class Run>
    static std::size_t guarded(asio::io_context& io, Run run)
    {
        io.restart();
        try {
            return run(io);
        } catch (const thrown_by_handler&) {
            return 1;
        }
    }

    //! Whether there is more to do.
    bool run_all_once()
    {
        std::size_t ran = 0;
        bool out_of_work = true;
        for (auto& io : contexts_) {
            ran += guarded(*io, [](asio::io_context& of) { return of.poll_one(); });
            out_of_work = out_of_work && io->stopped();
        }
        if (ran == 0 && out_of_work)
            return false;
        if (ran == 0)
            guarded(*contexts_[++turn_ % contexts_.size()],
                    [](asio::io_context& of) { return of.run_one_for(std::chrono::microseconds(50)); });
        return true;
    }

    std::vector<std::unique_ptr<asio::io_context>> contexts_;
    std::unique_ptr<asio::thread_pool> pool_;
    std::size_t turn_ = 0;
};

} // namespace waymark::faults::schedules
