#include "../values/text.hpp"
#include "../values/timestamp.hpp"
#include "hook_list.hpp"

#include <waymark/detail/session_core.hpp>
#include <waymark/detail/session_functions.hpp>

#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace waymark::detail {

namespace {

constexpr std::string_view writer_member = "writer";

//! "checkpoint 'c9' (#9, iteration 4, saved at …, by 'host-2')"
std::string describe(const checkpoint_header& head)
{
    auto text = "checkpoint " + detail::quoted(head.id()) + " (#" + std::to_string(head.sequence());
    if (!head.name().empty())
        text += ", " + detail::quoted(head.name());
    text += ", iteration " + std::to_string(head.iteration()) + ", saved at " + to_rfc3339(head.created_at());
    if (const auto* writer = head.metadata().if_contains(writer_member);
        writer != nullptr && writer->is_string())
        text += " by " + detail::quoted(std::string_view(writer->get_string()));
    return text + ")";
}

std::string what_was_thrown()
{
    try {
        throw;
    } catch (const std::exception& thrown) {
        return thrown.what();
    } catch (...) {
        return "something that is no exception";
    }
}

//! A sentence for people, or nothing if there is no memory for it.
template <class Write>
std::string if_memory_allows(Write write) noexcept
{
    try {
        return write();
    } catch (...) {
        return {};
    }
}

} // namespace

retention own_retention(retention policies, const std::string& scope)
{
    if (!policies.scope())
        policies.only_scope(scope);
    return policies;
}

//! A function of the session that is called with the store, for the request whose turn it is.
class session_core::look_request final : public request {
public:
    look_request(session_core& owner, look_function function, look_end next)
        : request(schedule::read, owner.agent_id()), then(next), owner_(owner), function_(function)
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

    const look_end then;

private:
    session_core& owner_; // busy, and so alive
    const look_function function_;
};

//! Automatic retention. It is in nobody's order: no save waits for it.
class session_core::prune_request final : public request {
public:
    explicit prune_request(session_core& owner) : request(schedule::background, {}), owner_(owner) {}
    void run(const request_target& in, std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
        try {
            in.backend.prune(owner_.agent_id_,
                             own_retention(*owner_.options_.retention(), owner_.options_.scope()),
                             dry_run::no);
        } catch (...) {
            fail_with_current_exception();
        }
    }

private:
    session_core& owner_; // busy, and so alive
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
}

// The queue

void session_core::submit(const std::shared_ptr<request>& submitted)
{
    bool is_queued = false;
    bool posts = false;
    {
        const std::lock_guard lock(mutex_);
        if (closed_)
            submitted->fail(errc::closed,
                            if_memory_allows([] { return std::string("the session was destroyed"); }));
        else if (queue_.size() >= options_.max_pending())
            submitted->fail(errc::overloaded, if_memory_allows([this] {
                                return std::to_string(queue_.size()) +
                                       " operations wait in the session of agent " +
                                       detail::quoted(agent_id_) +
                                       "; await them, or raise session_options::with_max_pending";
                            }));
        else {
            if (self_ == nullptr) {
                executor_->set_busy(true);
                self_ = shared_from_this();
            }
            queue_.push_back(submitted);
            is_queued = true;
            posts = current_ == nullptr && !std::exchange(is_posted_, true);
        }
    }
    if (!is_queued)
        return request::hand_over(submitted);
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
        if (is_ours)
            throw;
    }
}

void session_core::cancel(request& wanted) noexcept
{
    std::shared_ptr<request> found;
    {
        const std::lock_guard lock(mutex_);
        found = queue_.remove(wanted);
    }
    if (found == nullptr)
        return; // it has begun, and ends with its outcome
    found->abort(scheduler_->aborted());
    request::hand_over(std::move(found));
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
    while (!left.empty()) {
        auto each = left.pop_front();
        each->abort(scheduler_->aborted());
        request::hand_over(std::move(each));
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
    return arrived_ || prune_arrived_ || (current_ == nullptr && !queue_.empty());
}

session_core::turn session_core::next_turn(std::shared_ptr<session_core>& self) noexcept
{
    const std::lock_guard lock(mutex_);
    if (std::exchange(arrived_, false))
        return turn::carried_out;
    if (std::exchange(prune_arrived_, false))
        return turn::pruned;
    if (current_ == nullptr && !queue_.empty()) {
        current_ = queue_.pop_front();
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
    while (!unended.empty())
        request::drop(unended.pop_front());
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
    if (!doubtful_save_)
        return start_current();
    try {
        look(&session_core::look_up_doubtful_save, &session_core::settle_doubtful_save);
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
    current_->set_supervisor(this);
    scheduler_->submit(current_);
}

void session_core::current_carried_out() noexcept
{
    if (look_ != nullptr)
        (this->*look_->then)();
    else
        current().carried_out(*this);
}

void session_core::end_current() noexcept
{
    std::shared_ptr<request> ended;
    {
        const std::lock_guard lock(mutex_);
        ended = std::move(current_);
    }
    request::hand_over(std::move(ended));
}

void session_core::look(look_function function, look_end then)
{
    look_ = std::make_shared<look_request>(*this, function, then);
    look_->set_waiter(*this);
    scheduler_->submit(look_);
}

// Saves

//! After a save with an unknown outcome, before anything else is begun.
void session_core::look_up_doubtful_save(store& from)
{
    from.await_outcome(agent_id_);
    if (const auto loaded = from.load(agent_id_, options_.scope(), *doubtful_save_))
        found_position_ = {loaded->id(), loaded->id(), loaded->sequence(), loaded->parent_id()};
}

void session_core::settle_doubtful_save() noexcept
{
    const auto ended = std::move(look_);
    if (ended->code()) {
        current_->fail(ended->code(), if_memory_allows([&] {
                           return "what became of the save before is not known: " + ended->take_details();
                       }));
        return end_current();
    }
    if (auto found = std::exchange(found_position_, std::nullopt)) {
        const std::lock_guard lock(mutex_);
        found->past_damage = position_.past_damage;
        position_ = std::move(*found);
    }
    doubtful_save_.reset();
    start_current();
}

void session_core::begin_save(session_save& save)
{
    if (!save.draft_) // the content is that of another checkpoint
        return look(&session_core::load_target, &session_core::continue_with_target);
    const auto from = position();
    auto& draft = *save.draft_;
    // What comes from elsewhere is not taken for the session's own.
    if (draft.agent_id() != agent_id_)
        throw error(errc::invalid_argument, "the draft is of agent " + detail::quoted(draft.agent_id()) +
                                                ", the session of " + detail::quoted(agent_id_));
    if (!draft.scope().empty() && draft.scope() != options_.scope())
        throw error(errc::invalid_argument, "the draft is of scope " + detail::quoted(draft.scope()) +
                                                ", the session of " + detail::quoted(options_.scope()));
    // A caller that did not learn how its last save ended may repeat it.
    const bool is_repetition = !save.target_ && draft.id() == from.parent;
    const auto frame = [&] {
        draft.with_agent(agent_id_)
            .with_scope(options_.scope())
            .with_parent(save.target_    ? save.target_
                         : is_repetition ? from.before
                                         : from.parent);
    };
    frame();
    if (!ask_hooks(save))
        return end_save(save);
    frame(); // whatever the hooks did to it
    if (!options_.writer().empty())
        draft.with_metadata(writer_member, options_.writer());
    save_options conditions;
    conditions.create_only(); // a session adds to its history, and never changes it
    if (options_.is_exclusive() && from.past_damage)
        conditions.expect_readable_head(from.head.value());
    else if (options_.is_exclusive())
        conditions.expect_head(from.head);
    save.header_ = checkpoint_header(draft);
    save.position_ = {draft.id(), draft.id(), 0, draft.parent_id(), from.past_damage};
    save.id_ = draft.id();
    save.wanted_.emplace(std::move(draft), std::move(conditions));
    save.draft_.reset();
    run_current();
}

void session_core::load_target(store& from)
{
    auto& save = current_save();
    save.draft_ = require_checkpoint(from, agent_id_, options_.scope(), *save.target_);
}

void session_core::continue_with_target() noexcept
{
    const auto ended = std::move(look_);
    auto& save = current_save();
    if (ended->code()) {
        save.fail(ended->code(), ended->take_details());
        return end_current();
    }
    try {
        save.draft_->with_id(random_id()).with_created_at(now());
    } catch (...) {
        save.refuse_with_current_exception();
        return end_current();
    }
    start_current();
}

//! False if a hook has vetoed it.
bool session_core::ask_hooks(session_save& save)
{
    bool goes_on = true;
    before_save_->for_each([&](const std::function<void(pending_save&)>& hook) {
        pending_save pending(*save.draft_);
        try {
            hook(pending);
        } catch (...) {
            report_hook("before_save"); // what it did to the draft is not used
            return true;
        }
        goes_on = !pending.veto();
        if (goes_on)
            save.draft_ = std::move(pending.checkpoint());
        else if (save.on_veto_ == session_save::on_veto::fail)
            save.fail(errc::vetoed, *pending.veto());
        return goes_on;
    });
    return goes_on;
}

void session_core::save_carried_out(session_save& save) noexcept
{
    if (save.code() == errc::outcome_unknown)
        doubtful_save_ = std::move(save.id_);
    if (!save.code()) {
        const auto sequence = save.result_.sequence();
        const auto bytes = save.result_.bytes_written();
        save.header_.with_sequence(sequence).with_stored_bytes(bytes);
        const std::lock_guard lock(mutex_);
        // A repetition of an earlier save moves nothing.
        if (bytes > 0 || sequence > position_.sequence) {
            position_ = std::move(save.position_);
            position_.sequence = sequence;
        }
    } else if (save.code() == errc::conflict && options_.is_exclusive()) {
        try {
            return look(&session_core::look_up_head, &session_core::explain_conflict);
        } catch (...) { // NOLINT(bugprone-empty-catch): it stays a conflict, without the explanation
        }
    }
    end_save(save);
}

void session_core::look_up_head(store& from)
{
    found_head_ = head_of(from, agent_id_, options_.scope(), position());
}

//! Says who moved the head.
void session_core::explain_conflict() noexcept
{
    const auto ended = std::move(look_);
    const auto head = std::exchange(found_head_, std::nullopt);
    auto& save = current_save();
    try {
        const auto expected = position().head;
        if (!ended->code() && (head ? std::optional(head->id()) : std::nullopt) != expected)
            save.fail(errc::conflict, "another writer moved the head of agent " + detail::quoted(agent_id_) +
                                          ": it is " + (head ? describe(*head) : "gone") +
                                          ", and this session went on from " +
                                          (expected ? detail::quoted(*expected) : "nothing") +
                                          "; async_resume() loads what is there now");
    } catch (...) { // NOLINT(bugprone-empty-catch): it is a conflict without it, too
    }
    end_save(save);
}

void session_core::end_save(session_save& save) noexcept
{
    if (save.code())
        report(session_error::source::save, save.code(), save.details());
    else if (save.header_.sequence() != 0) { // it was not vetoed
        prune_if_due();
        checkpoint_saved event(std::move(save.header_), save.result_);
        on_checkpoint_->for_each([&](const std::function<void(const checkpoint_saved&)>& hook) {
            try {
                hook(event);
            } catch (...) {
                report_hook("on_checkpoint");
            }
            return true;
        });
        save.header_ = std::move(event).header();
    }
    end_current(); // last, so that whoever awaits it finds that the hooks have run
}

void session_core::report(session_error::source where, std::error_code code,
                          const std::string& message) noexcept
{
    try {
        const session_error event(where, code, message);
        on_error_->for_each([&](const std::function<void(const session_error&)>& hook) {
            try {
                hook(event);
            } catch (...) { // NOLINT(bugprone-empty-catch): there is nobody left to tell
            }
            return true;
        });
    } catch (...) { // NOLINT(bugprone-empty-catch): out of memory; the operation itself tells its caller
    }
}

void session_core::report_hook(const char* which) noexcept
{
    report(session_error::source::hook, errc::callback_threw, if_memory_allows([which] {
               return "a hook of " + std::string(which) + " threw: " + what_was_thrown();
           }));
}

void session_core::prune_if_due() noexcept
{
    {
        const std::lock_guard lock(mutex_);
        if (!options_.retention() || closed_ || ++saves_since_prune_ < options_.prune_every())
            return;
        saves_since_prune_ = 0;
        if (std::exchange(is_pruning_, true)) {
            prunes_again_ = true; // the one that runs may not have seen this save
            return;
        }
    }
    prune();
}

void session_core::prune() noexcept
{
    try {
        prune_ = std::make_shared<prune_request>(*this);
        prune_->set_waiter(prune_waiter_);
        scheduler_->submit(prune_);
    } catch (const std::bad_alloc&) {
        report(session_error::source::retention, std::make_error_code(std::errc::not_enough_memory), {});
        const std::lock_guard lock(mutex_);
        is_pruning_ = prunes_again_ = false; // until it is due again
    }
}

void session_core::pruned() noexcept
{
    const auto ended = std::move(prune_);
    if (ended->code())
        report(session_error::source::retention, ended->code(), ended->details());
    {
        const std::lock_guard lock(mutex_);
        is_pruning_ = std::exchange(prunes_again_, false) && !closed_;
        if (!is_pruning_)
            return;
    }
    prune();
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
