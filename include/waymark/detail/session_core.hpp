//! What a session does, without Asio: its requests one after the other, its position, and its hooks.
#pragma once

#include <waymark/detail/request.hpp>
#include <waymark/detail/scheduler.hpp>
#include <waymark/detail/session_functions.hpp>
#include <waymark/detail/session_position.hpp>
#include <waymark/detail/work.hpp>
#include <waymark/hooks.hpp>
#include <waymark/session_options.hpp>
#include <waymark/store.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

namespace waymark::detail {

class session_core;
class session_save;
class step_begin;
template <class Argument>
class hook_list;

//! A session prunes its own scope, unless the policies name another one.
retention own_retention(retention policies, const std::string& scope);

//! The executor of a session.
class session_executor : public work_executor {
public:
    //! Counts as outstanding work of its context while the session is busy.
    virtual void set_busy(bool busy) = 0;
};

//! Whether a request goes on from where the session is, which it has to know then.
enum class needs_position : bool { no, yes };

//! A request that waits for its turn in a session before it goes to the store. Both functions are called on
//! the session's executor.
class session_request {
public:
    //! Its turn has come. Calls one of `session_core::run_current` and `end_current`, now or later. If it
    //! throws, it has called neither.
    virtual void begin(session_core& in) = 0;
    //! The store has carried it out, or `begin` threw. Calls `session_core::end_current`, now or later.
    virtual void carried_out(session_core& in) noexcept = 0;
    virtual needs_position builds_on_position() const noexcept { return needs_position::no; }
    //! It has ended well, and whoever asked for it had gone before. Returns whether there is something to do
    //! about that; then it calls `session_core::end_current` again, later.
    virtual bool ends_without_waiter(session_core& /*in*/) noexcept { return false; }

protected:
    ~session_request() = default;
};

//! The queue, the hooks and the position of a session. Everything that changes them happens in turns on its
//! executor, one after the other, whatever threads run that. Why not a strand of Asio: that needs memory to
//! go on, and without it ends the process or stands still for good.
class session_core final : public std::enable_shared_from_this<session_core>,
                           private pooled_work,
                           private waiter {
public:
    //! @throws waymark::error `invalid_argument` if agent or scope cannot be stored.
    session_core(std::string agent_id, session_options options, std::shared_ptr<scheduler> store,
                 std::unique_ptr<session_executor> executor);
    ~session_core();

    const std::string& agent_id() const noexcept { return agent_id_; }
    const session_options& options() const noexcept { return options_; }
    waymark::strategy strategy() const;
    void set_strategy(waymark::strategy next);
    session_position position() const;
    const std::shared_ptr<scheduler>& store_scheduler() const noexcept { return scheduler_; }

    //! @throws waymark::error `invalid_argument` if the function is empty; so do the others.
    connection before_save(std::function<void(pending_save&)> hook);
    connection on_checkpoint(std::function<void(const checkpoint_saved&)> hook);
    connection on_error(std::function<void(const session_error&)> hook);

    //! What the strategy says of an event, or how it failed.
    struct decision {
        bool saves = false;
        std::error_code code = {};
        std::string details = {};
    };
    decision decide(event what, std::int64_t iteration) const noexcept;

    // A queue for `initiation`.

    //! @throws std::bad_alloc; then it is still the caller's.
    void submit(const std::shared_ptr<request>& submitted);
    void cancel(request& wanted, departure how) noexcept;
    //! What waits is completed with `operation_aborted`; hooks are not called any more. What has begun goes
    //! on.
    void close() noexcept;

    // For the request whose turn it is.

    //! Hands it to the store.
    void run_current() noexcept;
    //! It has ended: the next one's turn.
    void end_current() noexcept;
    void move_to(session_position next);
    //! Runs a function with the store, then another one on the session's executor, which finds in `look_` how
    //! that ended.
    using look_function = void (session_core::*)(store& from);
    using look_end = void (session_core::*)() noexcept;
    void look(look_function function, look_end then, request::schedule when = request::schedule::read);

    void begin_save(session_save& save);
    void save_carried_out(session_save& save) noexcept;
    void begin_step(step_begin& wanted);
    void step_carried_out(step_begin& wanted) noexcept;
    //! Nobody is there to run its action. Returns whether there is something to withdraw.
    bool withdraws_step(step_begin& begun) noexcept;

    // Steps that are being made; one key at a time.

    bool enter_step(const std::string& key);
    void leave_step(const std::string& key) noexcept;

private:
    class look_request;
    class prune_request;
    //! Who waits for automatic retention.
    class prune_waiter final : public waiter {
    public:
        explicit prune_waiter(session_core& owner) noexcept : owner_(owner) {}
        void ended() noexcept override { owner_.arrive(owner_.prune_arrived_); }
        void left(std::error_code /*code*/) noexcept override {}
        void dropped() noexcept override {}

    private:
        session_core& owner_;
    };
    enum class turn { none, carried_out, pruned, refused, next };

    // Turns
    void run() override;
    void drop() noexcept override;
    void ended() noexcept override { arrive(arrived_); }
    void left(std::error_code /*code*/) noexcept override {}
    void dropped() noexcept override {}
    void arrive(bool& what) noexcept;
    void post_without_fail() noexcept;
    turn next_turn(std::shared_ptr<session_core>& self) noexcept;
    bool has_turn() const noexcept;
    void begin_next() noexcept;
    void start_current() noexcept;
    void current_carried_out() noexcept;
    session_request& current() const noexcept;
    void hand_over_unbegun(std::shared_ptr<request> ended) noexcept;
    void retire(const request& ended) noexcept;
    void report_refusals() noexcept;

    // Saves
    void find_position(store& from);
    void start_from_position() noexcept;
    void look_up_doubtful_save(store& from);
    void settle_doubtful_save() noexcept;
    void load_target(store& from);
    void continue_with_target() noexcept;
    void look_up_head(store& from);
    void fail_as_taken(session_save& save) const noexcept;
    void explain_conflict() noexcept;
    session_save& current_save() const noexcept;
    void find_or_begin_step(store& in);
    void withdraw_step(store& in);
    void end_step_begin() noexcept;
    bool ask_hooks(session_save& save);
    void end_save(session_save& save) noexcept;
    void report(session_error::source where, std::error_code code, const std::string& message) noexcept;
    void report_hook(const char* which) noexcept;
    void prune_if_due() noexcept;
    void prune() noexcept;
    void pruned() noexcept;

    const std::string agent_id_;
    const session_options options_;
    const std::shared_ptr<scheduler> scheduler_;
    const std::unique_ptr<session_executor> executor_;
    const std::shared_ptr<hook_list<pending_save&>> before_save_;
    const std::shared_ptr<hook_list<const checkpoint_saved&>> on_checkpoint_;
    const std::shared_ptr<hook_list<const session_error&>> on_error_;

    mutable std::mutex mutex_; // guards what follows
    std::shared_ptr<const waymark::strategy> strategy_;
    session_position position_;
    bool has_position_ = false; // it was resumed, or has looked
    request_list queue_;
    std::shared_ptr<request> current_;   // whose turn it is
    bool is_submitted_ = false;          // it was handed to the store
    bool is_unwanted_ = false;           // it was cancelled before that
    std::shared_ptr<session_core> self_; // while there is anything to do
    bool is_posted_ = false;             // a turn is about to be taken, or is
    bool arrived_ = false;               // `current_`, or its look, was carried out
    bool prune_arrived_ = false;
    std::size_t refused_saves_ = 0; // that found no room, and that on_error has not been told of
    bool closed_ = false;
    std::size_t saves_since_prune_ = 0;
    bool is_pruning_ = false;
    bool prunes_again_ = false;
    std::set<std::string> running_steps_;

    // Used in turns only.
    std::optional<std::string> doubtful_save_; // it may or may not have become the head
    std::shared_ptr<request> look_;            // what is looked up for `current_`
    look_end after_look_ = nullptr;
    std::optional<session_position> found_position_;
    std::optional<checkpoint_header> found_head_;
    std::shared_ptr<request> prune_;
    prune_waiter prune_waiter_{*this};
};

//! What a function of a session returns: one of upkeep takes a control as well.
template <class Function>
struct result_of_function : std::invoke_result<Function&, store&, const session_position&> {};
template <class Function>
    requires std::invocable<Function&, store&, const session_position&, const upkeep_control&>
struct result_of_function<Function>
    : std::invoke_result<Function&, store&, const session_position&, const upkeep_control&> {};

//! A function that is called with the store, and the position of the session, when its turn has come. `then`
//! is called on the session's executor after a success.
template <class Function, class Then>
class session_function final : public result_request<typename result_of_function<Function>::type>,
                               public session_request {
public:
    using base = result_request<typename result_of_function<Function>::type>;

    session_function(request::schedule when, store_operation what, std::string agent_id, Function function,
                     Then then, std::string other_agent_id = {})
        : base(when, what, std::move(agent_id), std::move(other_agent_id)),
          function_(std::move(function)),
          then_(std::move(then))
    {
        if (when == request::schedule::background)
            stop_ = std::stop_source();
    }

    void begin(session_core& in) override
    {
        position_ = in.position();
        in.run_current();
    }

    void run(const request_target& in, std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
        try {
            if constexpr (std::invocable<Function&, store&, const session_position&, const upkeep_control&>)
                this->result_ =
                    (*function_)(in.backend, position_, upkeep_control().stop_with(stop_.get_token()));
            else
                this->result_ = (*function_)(in.backend, position_);
            in.note_loaded(this->result_);
        } catch (...) {
            this->fail_with_current_exception(in.aborted);
        }
    }
    void stop() noexcept override { stop_.request_stop(); }

    void carried_out(session_core& in) noexcept override
    {
        try {
            if (!this->code())
                then_(in, this->result_);
        } catch (...) {
            this->refuse_with_current_exception();
        }
        in.end_current();
    }

protected:
    void drop_input() noexcept override { function_.reset(); }

private:
    std::optional<Function> function_;
    Then then_;
    session_position position_;
    std::stop_source stop_{std::nostopstate};
};

//! A save of a session.
class session_save : public batched_save, public session_request {
public:
    void begin(session_core& in) override { in.begin_save(*this); }
    void carried_out(session_core& in) noexcept override { in.save_carried_out(*this); }
    needs_position builds_on_position() const noexcept override { return needs_position::yes; }

protected:
    enum class on_veto : bool { succeed, fail };

    session_save(std::string agent_id, on_veto veto) : batched_save(std::move(agent_id)), on_veto_(veto) {}
    void drop_input() noexcept override;

    std::optional<checkpoint> draft_;
    std::optional<std::string> target_; // of a rollback: whose content it saves
    // Made before it is saved: then it is durable, whether or not there is any memory left to say so.
    checkpoint_header header_;
    session_position position_;
    std::string id_;

private:
    friend class session_core;

    const on_veto on_veto_;
};

//! For `session::async_notify`.
class notify_save final : public session_save {
public:
    using result_type = std::optional<checkpoint_header>;
    using awaited = notify_save;

    explicit notify_save(checkpoint draft);
    result_type take_result() noexcept;
};

//! For `session::async_checkpoint`.
class checkpoint_save final : public session_save {
public:
    using result_type = checkpoint_header;
    using awaited = checkpoint_save;

    explicit checkpoint_save(checkpoint draft);
    result_type take_result() noexcept { return std::move(header_); }
};

//! For `session::async_rollback_to`.
class rollback_save final : public session_save {
public:
    using result_type = checkpoint;
    using awaited = rollback_save;

    rollback_save(std::string agent_id, std::string target);
    result_type take_result() noexcept;
};

//! Ends when everything that the session was asked for before it has ended. The store does not see it.
class session_flush final : public result_request<void>, public session_request {
public:
    explicit session_flush(std::string agent_id)
        : result_request(schedule::read, store_operation::flush, std::move(agent_id))
    {
    }
    void begin(session_core& in) override { in.end_current(); }
    void carried_out(session_core& in) noexcept override { in.end_current(); }
    void run(const request_target& /*in*/,
             std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
    }
};

//! The beginning of a step: a record that must not be there yet, written with whatever saves wait. Only if it
//! is there already, someone looks at it.
class step_begin final : public batched_steps, public session_request {
public:
    using result_type = std::optional<begun_step>;
    using awaited = step_begin;

    step_begin(step wanted, step_options options);
    void begin(session_core& in) override { in.begin_step(*this); }
    void carried_out(session_core& in) noexcept override { in.step_carried_out(*this); }
    bool ends_without_waiter(session_core& in) noexcept override { return in.withdraws_step(*this); }
    needs_position builds_on_position() const noexcept override { return needs_position::yes; }
    result_type take_result() noexcept { return std::move(begun_); }

private:
    friend class session_core;

    const step_options options_;
    begun_step begun_;
    session_position position_;
};

} // namespace waymark::detail
