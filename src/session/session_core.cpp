#include "../values/text.hpp"
#include "hook_list.hpp"
#include "session_words.hpp"

#include <waymark/detail/session_core.hpp>

#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace waymark::detail {

//! A function of the session that is called with the store, for the request whose turn it is.
class session_core::look_request final : public request {
public:
    look_request(session_core& owner, look_function function, schedule when)
        : request(when, when == schedule::read ? store_operation::load : store_operation::step,
                  owner.agent_id()),
          owner_(owner),
          function_(function)
    {
    }
    void run(const request_target& in, std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
        try {
            (owner_.*function_)(in.backend);
        } catch (...) {
            fail_with_current_exception();
        }
    }

private:
    session_core& owner_; // busy, and so alive
    const look_function function_;
};

session_core::session_core(std::string agent_id, session_options options, std::shared_ptr<scheduler> store,
                           std::unique_ptr<session_executor> executor)
    : agent_id_(std::move(agent_id)),
      options_(std::move(options)),
      scheduler_(std::move(store)),
      executor_(std::move(executor)),
      before_save_(std::make_shared<hook_list<pending_save&>>()),
      on_checkpoint_(std::make_shared<hook_list<const checkpoint_saved&>>()),
      on_error_(std::make_shared<hook_list<const session_error&>>()),
      strategy_(std::make_shared<const waymark::strategy>(options_.strategy())),
      saves_since_prune_(options_.prune_every() - 1) // a process may not live for that many saves
{
    validate_id(agent_id_, "the agent id");
    validate_label(options_.scope(), "the scope");
}

session_core::~session_core() = default;

connection session_core::before_save(std::function<void(pending_save&)> hook)
{
    return before_save_->connect(before_save_, std::move(hook));
}

connection session_core::on_checkpoint(std::function<void(const checkpoint_saved&)> hook)
{
    return on_checkpoint_->connect(on_checkpoint_, std::move(hook));
}

connection session_core::on_error(std::function<void(const session_error&)> hook)
{
    return on_error_->connect(on_error_, std::move(hook));
}

waymark::strategy session_core::strategy() const
{
    const std::lock_guard lock(mutex_);
    return *strategy_;
}

void session_core::set_strategy(waymark::strategy next)
{
    auto chosen = std::make_shared<const waymark::strategy>(std::move(next));
    const std::lock_guard lock(mutex_);
    strategy_.swap(chosen);
}

session_core::decision session_core::decide(event what, std::int64_t iteration) const noexcept
{
    try {
        std::shared_ptr<const waymark::strategy> asked;
        {
            const std::lock_guard lock(mutex_);
            asked = strategy_;
        }
        return {asked->should_checkpoint(iteration, what)};
    } catch (const std::bad_alloc&) {
        return {false, std::make_error_code(std::errc::not_enough_memory)};
    } catch (...) {
        return {false, errc::callback_threw, if_memory_allows([this] {
                    return "the strategy of agent " + detail::quoted(agent_id_) +
                           " threw: " + what_was_thrown();
                })};
    }
}

session_position session_core::position() const
{
    const std::lock_guard lock(mutex_);
    return position_;
}

void session_core::move_to(session_position next)
{
    doubtful_save_.reset();
    const std::lock_guard lock(mutex_);
    position_ = std::move(next);
    has_position_ = true;
}

// The queue

void session_core::submit(const std::shared_ptr<request>& submitted)
{
    if (!submitted->is_read())
        scheduler_->announce(*submitted);
    bool is_queued = false;
    bool posts = false;
    {
        const std::lock_guard lock(mutex_);
        if (closed_)
            submitted->fail(errc::closed,
                            if_memory_allows([] { return std::string("the session was destroyed"); }));
        else if (queue_.size() >= options_.max_pending() && submitted->what() != store_operation::flush) {
            submitted->fail(errc::overloaded, if_memory_allows([this] {
                                return std::to_string(queue_.size()) +
                                       " operations wait in the session of agent " +
                                       detail::quoted(agent_id_) +
                                       "; await them, or raise session_options::with_max_pending";
                            }));
            if (dynamic_cast<session_save*>(submitted.get()) != nullptr) {
                ++refused_saves_;
                posts = !std::exchange(is_posted_, true);
            }
        } else {
            if (self_ == nullptr) {
                executor_->set_busy(true);
                self_ = shared_from_this();
            }
            queue_.push_back(submitted);
            is_queued = true;
            posts = current_ == nullptr && !std::exchange(is_posted_, true);
        }
    }
    if (!is_queued) {
        hand_over_unbegun(submitted);
        if (posts)
            post_without_fail();
        return;
    }
    if (!posts)
        return;
    try {
        executor_->post(*this);
    } catch (const std::bad_alloc&) {
        bool is_ours = false;
        {
            const std::lock_guard lock(mutex_);
            is_ours = queue_.remove(*submitted) != nullptr;
        }
        post_without_fail(); // others may have come meanwhile, and it is they who end what is busy
        if (is_ours) {
            retire(*submitted);
            throw;
        }
    }
}

void session_core::cancel(request& wanted, departure how) noexcept
{
    std::shared_ptr<request> found;
    bool is_current = false;
    bool is_submitted = false;
    {
        const std::lock_guard lock(mutex_);
        found = queue_.remove(wanted);
        is_current = current_.get() == &wanted;
        is_submitted = is_submitted_;
        // Something is looked up for it. It will not be handed to the store any more.
        is_unwanted_ = is_unwanted_ || (is_current && !is_submitted);
    }
    if (is_current && is_submitted)
        return scheduler_->cancel(wanted, how);
    if (is_current)
        return wanted.let_waiter_go(scheduler_->aborted());
    if (found == nullptr)
        return;
    found->abort(scheduler_->aborted());
    hand_over_unbegun(std::move(found));
}

//! It does not come to its turn.
void session_core::hand_over_unbegun(std::shared_ptr<request> ended) noexcept
{
    retire(*ended);
    scheduler_->note_unsubmitted(*ended);
    request::hand_over(std::move(ended));
}

void session_core::retire(const request& ended) noexcept
{
    if (!ended.is_read())
        scheduler_->retire(ended);
}

void session_core::close() noexcept
{
    request_list left;
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        left = std::move(queue_);
    }
    before_save_->clear();
    on_checkpoint_->clear();
    on_error_->clear();
    if (const auto& observer = scheduler_->observer(); observer && !left.empty())
        observer->log(log_level::warning, if_memory_allows([&] {
                          return "a session of agent " + detail::quoted(agent_id_) + " was destroyed while " +
                                 std::to_string(left.size()) +
                                 " operations waited in it, which are aborted; flush it first";
                      }));
    while (!left.empty()) {
        auto each = left.pop_front();
        each->abort(scheduler_->aborted());
        hand_over_unbegun(std::move(each));
    }
}

// Turns

//! On a thread of the store. The session may be gone when this returns.
void session_core::arrive(bool& what) noexcept
{
    {
        const std::lock_guard lock(mutex_);
        what = true;
        if (std::exchange(is_posted_, true))
            return;
    }
    post_without_fail();
}

//! A session that is not woken would stand still.
void session_core::post_without_fail() noexcept
{
    for (;;) {
        try {
            return executor_->post(*this);
        } catch (const std::bad_alloc&) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
}

bool session_core::has_turn() const noexcept
{
    return arrived_ || prune_arrived_ || refused_saves_ > 0 || (current_ == nullptr && !queue_.empty());
}

session_core::turn session_core::next_turn(std::shared_ptr<session_core>& self) noexcept
{
    const std::lock_guard lock(mutex_);
    if (std::exchange(arrived_, false))
        return turn::carried_out;
    if (std::exchange(prune_arrived_, false))
        return turn::pruned;
    if (refused_saves_ > 0)
        return turn::refused;
    if (current_ == nullptr && !queue_.empty()) {
        current_ = queue_.pop_front();
        is_submitted_ = is_unwanted_ = false;
        return turn::next;
    }
    is_posted_ = false;
    if (current_ == nullptr && !is_pruning_) {
        self = std::move(self_);
        executor_->set_busy(false);
    }
    return turn::none;
}

void session_core::run()
{
    std::shared_ptr<session_core> self; // set when there is nothing left to do: it may be all that is left
    for (;;) {
        switch (next_turn(self)) {
        case turn::carried_out:
            current_carried_out();
            break;
        case turn::pruned:
            pruned();
            break;
        case turn::refused:
            report_refusals();
            break;
        case turn::next:
            begin_next();
            break;
        case turn::none:
            return;
        }
        {
            const std::lock_guard lock(mutex_);
            if (!has_turn())
                continue;
        }
        try { // others of the executor have their turn first
            return executor_->post(*this);
        } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): they do not, then
        }
    }
}

//! The executor's context is going, and nobody will be told of anything. What the store is just carrying out
//! keeps the session until it has ended.
void session_core::drop() noexcept
{
    std::shared_ptr<session_core> self;
    request_list unended;
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        unended = std::move(queue_);
        if (arrived_ && current_ != nullptr)
            unended.push_back(std::move(current_));
        if (current_ == nullptr && (!is_pruning_ || prune_arrived_)) {
            self = std::move(self_);
            executor_->set_busy(false);
        }
    }
    while (!unended.empty()) {
        retire(unended.front());
        request::drop(unended.pop_front());
    }
}

//! Hooks are called in turns, and not by whoever asked for too much.
void session_core::report_refusals() noexcept
{
    std::size_t refused = 0;
    {
        const std::lock_guard lock(mutex_);
        refused = std::exchange(refused_saves_, 0);
    }
    report(session_error::source::save, errc::overloaded, if_memory_allows([&] {
               return std::to_string(refused) + " saves found no room in the session of agent " +
                      detail::quoted(agent_id_) +
                      ", and nothing of them is stored; await saves, or raise "
                      "session_options::with_max_pending";
           }));
}

session_request& session_core::current() const noexcept
{
    return dynamic_cast<session_request&>(*current_);
}

session_save& session_core::current_save() const noexcept
{
    return static_cast<session_save&>(*current_);
}

void session_core::begin_next() noexcept
{
    try {
        if (doubtful_save_)
            return look(&session_core::look_up_doubtful_save, &session_core::settle_doubtful_save);
        bool looks = false;
        {
            const std::lock_guard lock(mutex_);
            looks = !has_position_ && current().builds_on_position() == needs_position::yes;
        }
        if (looks)
            return look(&session_core::find_position, &session_core::start_from_position);
        start_current();
    } catch (...) {
        current_->refuse_with_current_exception();
        end_current();
    }
}

void session_core::start_current() noexcept
{
    try {
        current().begin(*this);
    } catch (...) {
        current_->refuse_with_current_exception();
        current().carried_out(*this);
    }
}

void session_core::run_current() noexcept
{
    bool is_unwanted = false;
    {
        const std::lock_guard lock(mutex_);
        is_unwanted = is_unwanted_;
        is_submitted_ = !is_unwanted;
    }
    if (is_unwanted) {
        current_->abort(scheduler_->aborted());
        return current().carried_out(*this);
    }
    current_->set_supervisor(this);
    scheduler_->submit(current_);
}

void session_core::current_carried_out() noexcept
{
    if (look_ != nullptr)
        (this->*after_look_)();
    else
        current().carried_out(*this);
}

void session_core::end_current() noexcept
{
    auto* const who = current_->take_waiter();
    if (who == nullptr && !current_->code() && current().ends_without_waiter(*this))
        return;
    std::shared_ptr<request> ended;
    {
        const std::lock_guard lock(mutex_);
        ended = std::move(current_);
    }
    retire(*ended);
    ended.reset(); // see request::end
    if (who != nullptr)
        who->ended();
}

void session_core::look(look_function function, look_end then, request::schedule when)
{
    look_ = std::make_shared<look_request>(*this, function, when);
    after_look_ = then;
    look_->set_waiter(*this);
    scheduler_->submit(look_);
}

bool session_core::enter_step(const std::string& key)
{
    const std::lock_guard lock(mutex_);
    return running_steps_.insert(key).second;
}

void session_core::leave_step(const std::string& key) noexcept
{
    const std::lock_guard lock(mutex_);
    running_steps_.erase(key);
}

} // namespace waymark::detail
