//! What an operation asks of a store, from its initiating function to the commit and back.
#pragma once

#include <waymark/save_receipt.hpp>
#include <waymark/store.hpp>
#include <waymark/store_observer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace waymark::detail {

class request;
class stored_prefix;

//! Who waits for a request: an operation with its handler, or a session.
class waiter {
public:
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

    //! The request has ended. Called once, on any thread.
    virtual void ended() noexcept = 0;
    //! In place of `ended`: whoever waits goes with this error, before the request has ended. It goes on.
    virtual void left(std::error_code code) noexcept = 0;
    //! In place of `ended`: nobody will be told, because a context is going.
    virtual void dropped() noexcept = 0;

protected:
    waiter() = default;
    ~waiter() = default;
};

//! The store that requests are carried out on.
class request_target {
public:
    request_target(store& chosen, const stored_prefix& mark, std::error_code code_of_aborted) noexcept
        : backend(chosen), aborted(code_of_aborted), mark_(mark)
    {
    }

    //! Conversations that were saved or loaded remember it, so that their next save counts what is new.
    void note_stored(const conversation& chat) const noexcept;
    void note_loaded(const std::optional<checkpoint>& loaded) const noexcept;
    void note_loaded(const std::vector<checkpoint>& loaded) const noexcept;
    template <class Other>
    void note_loaded(const Other&) const noexcept
    {
    }

    store& backend;
    const std::error_code aborted; // what ends with it was stopped

private:
    const stored_prefix& mark_;
};

//! One thing that is asked of a store: what it wants, which agents it concerns, when it is carried out, and
//! how it ends.
class request {
public:
    //! Writes of one agent are carried out in the order in which they came, whatever their kind.
    enum class schedule : unsigned char {
        read,       //!< beside the writes
        survey,     //!< a read that takes long: beside the writes, and beside the short reads
        batched,    //!< with others that wait in the same lane, in one commit
        ordered,    //!< alone in its lane: a short write
        background, //!< upkeep: beside the lanes; only what its own agents ask for later waits for it
        flush,      //!< when all writes that came before it have ended
    };

    request(const request&) = delete;
    request& operator=(const request&) = delete;
    virtual ~request() = default;

    schedule scheduled() const noexcept { return schedule_; }
    store_operation what() const noexcept { return what_; }
    bool is_read() const noexcept { return schedule_ == schedule::read || schedule_ == schedule::survey; }
    //! The agent whose order it takes part in; empty: none.
    const std::string& agent_id() const noexcept { return agent_id_; }
    //! A second one, of a copy say; empty: none.
    const std::string& other_agent_id() const noexcept { return other_agent_id_; }
    //! What it holds that is not stored yet. Known once it was measured.
    std::size_t bytes() const noexcept { return bytes_; }

    //! Looks at what it holds, before it is queued. @throws waymark::error `invalid_argument`
    void measure(const limits& accepted, std::uint64_t store_identity)
    {
        bytes_ = unstored_bytes(accepted, store_identity);
    }
    //! It is being queued, behind so many others.
    void started(std::size_t queue_depth) noexcept
    {
        start_ = std::chrono::steady_clock::now();
        queue_depth_ = queue_depth;
    }
    std::chrono::steady_clock::time_point start() const noexcept { return start_; }
    std::size_t queue_depth() const noexcept { return queue_depth_; }
    //! What it has added to the store, as far as that is known.
    virtual std::uint64_t bytes_written() const noexcept { return 0; }
    //! Whether it records a step. In a shared commit those come behind the saves.
    virtual bool is_step() const noexcept { return false; }
    //! Ends upkeep that is being carried out soon; others go on. On any thread.
    virtual void stop() noexcept {}
    //! Carries out itself, and those that share its commit. `batch` begins with this one.
    virtual void run(const request_target& in, std::span<const std::shared_ptr<request>> batch) noexcept = 0;

    //! Sets the error that it ends with, and names the agent if `details` does not. Lets go of what it was
    //! to save: its handler may run much later.
    void fail(std::error_code code, std::string details) noexcept;
    //! The same with the exception that is being handled. A write that ends with anything but waymark::error
    //! may have been committed.
    void fail_with_current_exception() noexcept;
    //! The same for upkeep, which may have been stopped.
    void fail_with_current_exception(std::error_code aborted) noexcept;
    //! The same in place of having run: nothing was written.
    void refuse_with_current_exception() noexcept;
    //! The same for one that was cancelled before it began, or whose store or session was destroyed.
    void abort(std::error_code aborted) noexcept;
    std::error_code code() const noexcept { return code_; }
    const std::string& details() const noexcept { return details_; }
    std::string take_details() noexcept { return std::move(details_); }

    //! Who is told when it ends, if not its waiter: the session whose turn it is.
    void set_supervisor(waiter* who) noexcept { supervisor_ = who; }
    void set_waiter(waiter& who) noexcept { waiter_.store(&who, std::memory_order_relaxed); }
    //! Tells whoever is to be told that it has ended. The reference goes first: the waiter has its own, and
    //! what it belongs to may be gone when this returns.
    static void end(std::shared_ptr<request> ended) noexcept;
    //! Tells the waiter, by a supervisor.
    static void hand_over(std::shared_ptr<request> ended) noexcept;
    //! The same in two steps. Null if there is none any more.
    waiter* take_waiter() noexcept { return waiter_.exchange(nullptr, std::memory_order_acq_rel); }
    //! Lets the waiter go before it has ended. Whoever is first, this or the end, tells the waiter.
    void let_waiter_go(std::error_code code) noexcept;
    //! What a waiter is told that has gone.
    std::string describe_departure(std::error_code code) const noexcept;
    static void drop(std::shared_ptr<request> unended) noexcept;

protected:
    request(schedule when, store_operation what, std::string agent_id,
            std::string other_agent_id = {}) noexcept
        : schedule_(when),
          what_(what),
          agent_id_(std::move(agent_id)),
          other_agent_id_(std::move(other_agent_id))
    {
        if (other_agent_id_ == agent_id_)
            other_agent_id_.clear();
    }

    virtual std::size_t unstored_bytes(const limits& /*accepted*/, std::uint64_t /*store_identity*/) const
    {
        return 0;
    }
    virtual void drop_input() noexcept {}

private:
    friend class request_list;
    friend class request_queue;

    void fail_as(bool may_be_written) noexcept;

    const schedule schedule_;
    const store_operation what_;
    std::string agent_id_;
    std::string other_agent_id_;
    std::size_t bytes_ = 0;
    std::size_t queue_depth_ = 0;
    std::chrono::steady_clock::time_point start_;
    std::error_code code_;
    std::string details_;
    std::atomic<waiter*> waiter_ = nullptr; // whoever takes it away completes the operation
    waiter* supervisor_ = nullptr;
    // Kept by the queue that it stands in.
    std::shared_ptr<request> behind_;
    std::shared_ptr<request> stand_in_; // in the lane of its second agent
    std::uint64_t number_ = 0;
    bool is_announced_ = false; // a session holds it: it counts for flushes until that says that it has ended
    bool is_held_by_session_ = false; // and has yet to come here
    std::size_t to_wait_for_ = 0; // lanes that have yet to reach it; for a flush, writes that have yet to end
};

//! Requests in their order. They are linked to each other: it takes no memory to stand here.
class request_list {
public:
    request_list() = default;
    request_list(request_list&& other) noexcept;
    request_list& operator=(request_list&& other) noexcept;
    ~request_list() { clear(); }

    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept { return size_; }
    request& front() const noexcept { return *first_; }
    void push_back(std::shared_ptr<request> arrived) noexcept;
    std::shared_ptr<request> pop_front() noexcept;
    //! Puts the others before its own.
    void prepend(request_list others) noexcept;
    //! Null if it is not here.
    std::shared_ptr<request> remove(const request& wanted) noexcept;
    //! Calls `visit` with each, and removes those for which it returns true, which are then in `removed`.
    template <class Visit>
    void remove_if(Visit visit, request_list& removed) noexcept
    {
        request_list kept;
        while (!empty()) {
            auto each = pop_front();
            (visit(*each) ? removed : kept).push_back(std::move(each));
        }
        *this = std::move(kept);
    }
    void clear() noexcept;

private:
    std::shared_ptr<request> first_;
    request* last_ = nullptr;
    std::size_t size_ = 0;
};

//! One that ends with a value.
template <class Result, class Base = request>
class result_request : public Base {
public:
    using result_type = Result;
    using awaited = result_request; // what an operation knows of it

    Result take_result() noexcept { return std::move(result_); }

protected:
    using Base::Base;
    Result result_{};
};

template <>
class result_request<void> : public request {
public:
    using result_type = void;
    using awaited = result_request;

protected:
    using request::request;
};

//! A call of a function with the store.
template <class Function>
class function_request final : public result_request<std::invoke_result_t<Function&, store&>> {
public:
    using base = result_request<std::invoke_result_t<Function&, store&>>;

    function_request(request::schedule when, store_operation what, std::string agent_id, Function function,
                     std::string other_agent_id = {})
        : base(when, what, std::move(agent_id), std::move(other_agent_id)), function_(std::move(function))
    {
    }

    void run(const request_target& in, std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
        try {
            if constexpr (std::is_void_v<typename base::result_type>)
                (*function_)(in.backend);
            else {
                this->result_ = (*function_)(in.backend);
                in.note_loaded(this->result_);
            }
        } catch (...) {
            this->fail_with_current_exception();
        }
    }

protected:
    void drop_input() noexcept override { function_.reset(); }

private:
    std::optional<Function> function_;
};

//! A call of a function with the store and a control, which takes long, and can be stopped.
template <class Function>
class upkeep_request final
    : public result_request<std::invoke_result_t<Function&, store&, const upkeep_control&>> {
public:
    using base = result_request<std::invoke_result_t<Function&, store&, const upkeep_control&>>;

    upkeep_request(request::schedule when, store_operation what, std::string agent_id, upkeep_control control,
                   Function function, std::string other_agent_id = {})
        : base(when, what, std::move(agent_id), std::move(other_agent_id)),
          control_(std::move(control.stop_with(stop_.get_token()))),
          function_(std::move(function))
    {
    }

    void stop() noexcept override { stop_.request_stop(); }
    void run(const request_target& in, std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
        try {
            if constexpr (std::is_void_v<typename base::result_type>)
                function_(in.backend, control_);
            else
                this->result_ = function_(in.backend, control_);
        } catch (...) {
            this->fail_with_current_exception(in.aborted);
        }
    }

private:
    std::stop_source stop_;
    upkeep_control control_;
    Function function_;
};

//! What shares one commit, and how it ended.
struct shared_commit {
    std::vector<save_request> saves;
    std::vector<step_request> steps;
    commit_outcomes outcomes;
    std::size_t requests = 0;
    std::chrono::steady_clock::time_point end;
    // Of the next request that takes its outcomes.
    std::size_t next_save = 0;
    std::size_t next_step = 0;
};

//! A write that is committed together with whatever else waits in its lane: saves, and records of steps
//! behind them.
class batched_request : public request {
public:
    void run(const request_target& in, std::span<const std::shared_ptr<request>> batch) noexcept final;

protected:
    batched_request(store_operation what, std::string agent_id)
        : request(schedule::batched, what, std::move(agent_id))
    {
    }

    virtual std::size_t saves() const noexcept { return 0; }
    virtual std::size_t steps() const noexcept { return 0; }
    //! Moves what it wants there, where it has room. @throws std::bad_alloc; then nothing was moved
    virtual void add_to(shared_commit& batch) = 0;
    //! Takes back what it has added, and its outcomes.
    virtual void take_from(shared_commit& batch, const request_target& in) noexcept = 0;
};

//! A save.
class batched_save : public result_request<save_receipt, batched_request> {
public:
    explicit batched_save(save_request wanted);
    std::uint64_t bytes_written() const noexcept override { return result_.bytes_written(); }

protected:
    //! What it wants is to be set before it is submitted.
    explicit batched_save(std::string agent_id) : result_request(store_operation::save, std::move(agent_id))
    {
    }

    std::size_t unstored_bytes(const limits& accepted, std::uint64_t store_identity) const override;
    void drop_input() noexcept override { wanted_.reset(); }
    std::size_t saves() const noexcept override { return 1; }
    void add_to(shared_commit& batch) override;
    void take_from(shared_commit& batch, const request_target& in) noexcept override;

    std::optional<save_request> wanted_; // comes back from the store after a success
};

//! Records of steps.
class batched_steps : public result_request<std::vector<step_outcome>, batched_request> {
public:
    explicit batched_steps(std::vector<step_request> wanted);
    bool is_step() const noexcept override { return true; }

protected:
    explicit batched_steps(std::string agent_id) : result_request(store_operation::step, std::move(agent_id))
    {
    }

    std::size_t unstored_bytes(const limits& accepted, std::uint64_t store_identity) const override;
    void drop_input() noexcept override { wanted_.clear(); }
    std::size_t steps() const noexcept override { return wanted_.size(); }
    void add_to(shared_commit& batch) override;
    void take_from(shared_commit& batch, const request_target& in) noexcept override;

    std::vector<step_request> wanted_;
};

//! Ends when all writes that were queued before it have.
class flush_request final : public result_request<void> {
public:
    flush_request() : result_request(schedule::flush, store_operation::flush, {}) {}
    void run(const request_target& /*in*/,
             std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
    }
};

} // namespace waymark::detail
