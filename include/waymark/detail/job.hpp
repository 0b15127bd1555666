//! What the threads of an async_store see of an operation. Handlers and Asio come in with operation.hpp.
#pragma once

#include <waymark/store.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace waymark::detail {

//! Something that ends by calling a handler. It belongs to whoever holds it last: the queue that it was
//! submitted to until that calls `complete()`, then its handler's executor.
class completion {
public:
    completion(const completion&) = delete;
    completion& operator=(const completion&) = delete;

    //! Sets the error that it ends with, in place of running.
    virtual void fail(std::error_code code, std::string details) noexcept = 0;
    //! Sets `operation_aborted`, in place of running. Asio has an error category of its own for it.
    virtual void abort() noexcept = 0;
    //! Hands itself over to the handler's executor. The caller must not touch it afterwards.
    virtual void complete() noexcept = 0;

    //! Frees itself without calling the handler, whose context is going.
    virtual void discard() noexcept = 0;

    //! A number that identifies it, also after it is gone.
    std::uint64_t ticket = 0;

protected:
    completion() = default;
    ~completion() = default; // deleted through its own type only
};

//! An operation on its way through the engine.
class job : public completion {
public:
    enum class kind {
        save,  // may share a commit with its neighbours
        write, // carried out alone, in the order of its lane
        read,  // beside the writes
        flush, // waits until every lane has reached it
    };

    //! Carries out the work, on a thread of the engine. Not for saves, which go to the store as a batch.
    virtual void run(store& backend) noexcept = 0;

    kind what = kind::read;
    //! The agents whose order it takes part in: one, for a copy two, for a flush none (it means all lanes).
    std::string agent_id;
    std::string second_agent_id;
    //! What it holds that is not stored yet.
    std::size_t bytes = 0;
    //! The number of the store, for the accounting of what is stored; set by the engine.
    std::uint64_t place = 0;
    //! How many lanes have yet to reach it; kept by the queue.
    std::size_t lanes_to_reach = 0;

protected:
    job() = default;
    ~job() = default;
};

//! Turns the exception that is being handled into an error code and its details. A write that ends with
//! anything but waymark::error may have been committed: its outcome is unknown. Where there is no memory for
//! the details, there are none.
std::error_code current_failure(job::kind what, std::string& details) noexcept;
//! The details of `completion::abort`, or nothing if there is no memory for them.
std::string why_aborted() noexcept;

//! Notes that the conversations of loaded checkpoints are stored, so that their next save counts what is new.
void mark_loaded(const checkpoint& loaded, std::uint64_t place) noexcept;
inline void mark_loaded(const std::optional<checkpoint>& loaded, std::uint64_t place) noexcept
{
    if (loaded)
        mark_loaded(*loaded, place);
}
inline void mark_loaded(const std::vector<checkpoint>& loaded, std::uint64_t place) noexcept
{
    for (const auto& each : loaded)
        mark_loaded(each, place);
}
template <class Other>
void mark_loaded(const Other&, std::uint64_t) noexcept
{
}

//! A call of one function of the store, before it becomes a job.
template <class Result>
class call {
public:
    call(job::kind what, std::string agent_id, std::function<Result(store&)> function,
         std::string second_agent_id = {})
        : what_(what),
          agent_id_(std::move(agent_id)),
          second_agent_id_(std::move(second_agent_id)),
          function_(std::move(function))
    {
    }

    //! What it holds that is to be stored.
    call&& with_bytes(std::size_t bytes) &&
    {
        bytes_ = bytes;
        return std::move(*this);
    }

private:
    template <class>
    friend class call_job;

    job::kind what_;
    std::string agent_id_;
    std::string second_agent_id_;
    std::function<Result(store&)> function_;
    std::size_t bytes_ = 0;
};

//! How an operation ended: the parts that are the same for all of them.
template <class Base>
class ending : public Base {
public:
    void fail(std::error_code code, std::string details) noexcept override
    {
        code_ = code;
        details_ = std::move(details);
    }

    std::error_code code() const noexcept { return code_; }
    std::string take_details() noexcept { return std::move(details_); }

private:
    std::error_code code_;
    std::string details_;
};

using ending_job = ending<job>;

template <class Result>
class call_job : public ending_job {
public:
    using description = call<Result>;
    using result_type = Result;

    explicit call_job(description wanted) : function_(std::move(wanted.function_))
    {
        what = wanted.what_;
        agent_id = std::move(wanted.agent_id_);
        second_agent_id = std::move(wanted.second_agent_id_);
        bytes = wanted.bytes_;
    }

    void run(store& backend) noexcept override
    {
        try {
            result_ = function_(backend);
            mark_loaded(result_, place);
        } catch (...) {
            std::string details;
            const auto code = current_failure(what, details);
            fail(code, std::move(details));
        }
    }

    //! What it was to store goes now: its handler may be called much later.
    void fail(std::error_code code, std::string details) noexcept override
    {
        ending_job::fail(code, std::move(details));
        function_ = nullptr;
    }

    Result take_result() { return std::move(result_); }

private:
    std::function<Result(store&)> function_;
    Result result_{};
};

//! Reaches the end when all that was queued before it has.
class flush_job : public ending_job {
public:
    struct description {};
    using result_type = void;

    explicit flush_job(description) { what = kind::flush; }
    void run(store&) noexcept override {}
};

} // namespace waymark::detail
