//! What a session does, without Asio: a queue of things that it does one after the other.
#pragma once

#include <waymark/detail/job.hpp>
#include <waymark/hooks.hpp>
#include <waymark/session_options.hpp>
#include <waymark/store.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace waymark::detail {

class session_core;
template <class Argument>
class hook_list;

//! How a session reaches its store and its executor. Functions that are handed over are called on the
//! session's executor, one at a time, never from within the call. They must not throw. A call that throws has
//! begun nothing, and destroys the function that it was given.
class session_link {
public:
    using when_saved = std::function<void(std::error_code, std::string details, const save_receipt&)>;
    using when_called = std::function<void(std::error_code, std::string details)>;

    virtual ~session_link() = default;
    virtual void save(save_request wanted, when_saved done) = 0;
    //! Runs a function with the store on one of its threads, in the order of the agent's writes if it writes.
    //! It returns the checkpoint that it loaded, if any, so that its messages count as stored.
    using store_function = std::function<std::optional<checkpoint>(store&)>;
    virtual void call(job::kind what, std::string agent_id, store_function function, when_called done) = 0;
    //! Calls `session_core::pump` in a turn of its own. Without memory it waits for some: a session that is
    //! not woken would stand still.
    virtual void wake(std::shared_ptr<session_core> session) noexcept = 0;
};

//! What the next save goes on from.
struct session_position {
    std::optional<std::string> parent; // the next save's parent
    std::optional<std::string> head;   // what the store's head is expected to be
    std::int64_t sequence = 0;         // the head's
    std::optional<std::string> before; // what the last save had as its parent, should it be repeated
    bool past_damage = false;          // `head` is the newest that can be read, not what the store calls so
};

//! A session lets go of what is in its scope, unless the policies name another one.
retention own_retention(retention policies, const std::string& scope);

//! One thing that a session does when its turn has come.
class session_task : public ending<completion> {
public:
    //! Whether there is anything to do. Otherwise it is completed without standing in the queue.
    virtual bool is_wanted(const session_core&) { return true; }
    //! On the session's executor. Ends, then or later, with `session_core::finish`. If it throws, it must not
    //! have handed itself over to anyone.
    virtual void begin(const std::shared_ptr<session_core>& session) = 0;

protected:
    session_task() = default;
    ~session_task() = default;

private:
    friend class task_queue;
    session_task* behind_ = nullptr;
};

//! Tasks that wait, in their order. They are linked to each other, so that it takes no memory to stand here.
class task_queue {
public:
    std::size_t size() const noexcept { return size_; }
    void push(session_task& arrived) noexcept
    {
        (last_ == nullptr ? first_ : last_->behind_) = &arrived;
        last_ = &arrived;
        ++size_;
    }
    //! Null when there is none.
    session_task* pop() noexcept { return first_ == nullptr ? nullptr : &take_behind(nullptr); }
    //! Null when it is not here.
    session_task* remove(std::uint64_t ticket) noexcept
    {
        session_task* before = nullptr;
        for (auto* each = first_; each != nullptr; before = std::exchange(each, each->behind_))
            if (each->ticket == ticket)
                return &take_behind(before);
        return nullptr;
    }

private:
    //! Null: the first.
    session_task& take_behind(session_task* before) noexcept
    {
        auto& link = before == nullptr ? first_ : before->behind_;
        auto& taken = *link;
        link = std::exchange(taken.behind_, nullptr);
        if (last_ == &taken)
            last_ = before;
        --size_;
        return taken;
    }

    session_task* first_ = nullptr;
    session_task* last_ = nullptr;
    std::size_t size_ = 0;
};

//! The queue, the hooks and the position of a session. All members may be called from any thread but those
//! for tasks, which are called on the session's executor.
class session_core : public std::enable_shared_from_this<session_core> {
public:
    //! @throws waymark::error `invalid_argument` if agent or scope cannot be stored.
    session_core(std::string agent_id, session_options options, std::unique_ptr<session_link> link);

    const std::string& agent_id() const noexcept { return agent_id_; }
    const session_options& options() const noexcept { return options_; }
    waymark::strategy strategy() const;
    void set_strategy(waymark::strategy next);
    session_position position() const;

    //! @throws waymark::error `invalid_argument` if the function is empty; so do the others.
    connection before_save(std::function<void(pending_save&)> hook);
    connection on_checkpoint(std::function<void(const checkpoint_saved&)> hook);
    connection on_error(std::function<void(const session_error&)> hook);

    // A queue for `initiation`.

    std::uint64_t next_ticket() noexcept;
    void submit(session_task& submitted) noexcept;
    void cancel(std::uint64_t ticket) noexcept;
    //! What waits is completed with `operation_aborted`; hooks are not called any more. What has begun goes
    //! on.
    void close() noexcept;

    //! For the link: begins the next task.
    void pump() noexcept;

    // For tasks.

    session_link& link() noexcept { return *link_; }
    //! The queue moves on; then the task is completed.
    void finish(session_task& task) noexcept;
    void move_to(session_position next);

    //! The save of a task: asks the hooks, saves, tells the hooks. `done` is told how it ended just before
    //! the task fails or completes; it may make an error of a veto. It must not throw.
    class save_end {
    public:
        std::error_code code;
        std::string details;
        std::optional<checkpoint> saved; // none if it failed or was vetoed
        std::optional<checkpoint_header> header;
        save_receipt receipt;
        bool vetoed = false;
    };
    using when_ended = std::function<void(save_end&)>;
    void save(session_task& task, checkpoint draft, const std::optional<std::string>& parent,
              const when_ended& done) noexcept;

    //! Does something for a task. If that throws, the task ends with it; it must not have been handed over.
    template <class Action>
    void attempt(session_task& task, Action action) noexcept
    {
        try {
            action();
        } catch (...) {
            end_with_current_failure(task);
        }
    }

    //! A task that waits for a callback. If the callback is destroyed without being called, because its
    //! context is, so is the task.
    class owned_task {
    public:
        owned_task(std::shared_ptr<session_core> session, session_task& task) noexcept
            : session_(std::move(session)), task_(&task)
        {
        }
        owned_task(const owned_task&) = delete;
        owned_task& operator=(const owned_task&) = delete;
        ~owned_task()
        {
            if (task_ != nullptr)
                task_->discard();
        }

        session_task& take() noexcept { return *std::exchange(task_, nullptr); }

    private:
        std::shared_ptr<session_core> session_;
        session_task* task_;
    };
    //! Hands a task over to a callback: `start` is given the owner that the callback is to keep. If it
    //! throws, the callback is gone, and the task is the caller's again.
    template <class Start>
    void hand_over(session_task& task, Start start)
    {
        const auto owned = std::make_shared<owned_task>(shared_from_this(), task);
        try {
            start(owned);
        } catch (...) {
            owned->take();
            throw;
        }
    }

    // Steps that are being made; one key at a time.

    bool enter_step(const std::string& key);
    void leave_step(const std::string& key) noexcept;

private:
    //! What is needed when a save has ended, made before it begins: it is durable then, whether or not there
    //! is any memory left to say so.
    class prepared_save {
    public:
        explicit prepared_save(const checkpoint& draft)
            : saved(draft),
              header(draft),
              position{draft.id(), draft.id(), 0, draft.parent_id()},
              doubtful(draft.id())
        {
        }
        checkpoint saved;
        checkpoint_header header;
        session_position position;
        std::string doubtful;
    };

    bool is_in_doubt() const noexcept;
    std::string doubtful_save() const;
    void settle_position(session_task& next) noexcept;
    void begin(session_task& task) noexcept;
    void end_with_current_failure(session_task& task) noexcept;
    //! False if a hook has vetoed it, which `end` tells then; otherwise the task was handed over.
    bool begin_save(session_task& task, checkpoint draft, const std::optional<std::string>& parent,
                    const when_ended& done, save_end& end);
    bool ask_hooks(checkpoint& draft, std::string& veto);
    void saved(session_task& task, prepared_save& prepared, save_end end, const when_ended& done) noexcept;
    void explain_conflict(session_task& task, save_end end, const when_ended& done) noexcept;
    void add_explanation(const std::optional<checkpoint_header>& head, save_end& end) const;
    void end_save(session_task& task, save_end end, const when_ended& done) noexcept;
    void report(session_error::source where, std::error_code code, const std::string& message) noexcept;
    void report_hook(const char* which) noexcept;
    void prune_if_due() noexcept;
    void prune() noexcept;

    const std::string agent_id_;
    const session_options options_;
    const std::unique_ptr<session_link> link_;
    const std::shared_ptr<hook_list<pending_save&>> before_save_;
    const std::shared_ptr<hook_list<const checkpoint_saved&>> on_checkpoint_;
    const std::shared_ptr<hook_list<const session_error&>> on_error_;

    mutable std::mutex mutex_; // guards what follows
    waymark::strategy strategy_;
    session_position position_;
    std::optional<std::string> doubtful_save_; // it may or may not have become the head
    task_queue queue_;
    bool busy_ = false; // a task has begun, or is about to
    bool closed_ = false;
    std::uint64_t last_ticket_ = 0;
    std::size_t saves_since_prune_ = 0;
    bool pruning_ = false;
    bool prune_again_ = false;
    std::set<std::string> running_steps_;
};

} // namespace waymark::detail
