#include "../values/text.hpp"
#include "../values/timestamp.hpp"
#include "hook_list.hpp"

#include <waymark/detail/session_calls.hpp>
#include <waymark/detail/session_core.hpp>

#include <new>
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
    return policies.scope() ? policies : policies.only_scope(scope);
}

session_core::session_core(std::string agent_id, session_options options, std::unique_ptr<session_link> link)
    : agent_id_(std::move(agent_id)),
      options_(std::move(options)),
      link_(std::move(link)),
      before_save_(std::make_shared<hook_list<pending_save&>>()),
      on_checkpoint_(std::make_shared<hook_list<const checkpoint_saved&>>()),
      on_error_(std::make_shared<hook_list<const session_error&>>()),
      strategy_(options_.strategy()),
      saves_since_prune_(options_.prune_every() - 1) // a process may not live for that many saves
{
    validate_id(agent_id_, "the agent id");
    validate_label(options_.scope(), "the scope");
}

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
    return strategy_;
}

void session_core::set_strategy(waymark::strategy next)
{
    const std::lock_guard lock(mutex_);
    strategy_ = std::move(next);
}

session_position session_core::position() const
{
    const std::lock_guard lock(mutex_);
    return position_;
}

bool session_core::is_in_doubt() const noexcept
{
    const std::lock_guard lock(mutex_);
    return doubtful_save_.has_value();
}

std::string session_core::doubtful_save() const
{
    const std::lock_guard lock(mutex_);
    return doubtful_save_.value();
}

void session_core::move_to(session_position next)
{
    const std::lock_guard lock(mutex_);
    position_ = std::move(next);
    doubtful_save_.reset();
}

// The queue

std::uint64_t session_core::next_ticket() noexcept
{
    const std::lock_guard lock(mutex_);
    return ++last_ticket_;
}

void session_core::submit(session_task& submitted) noexcept
{
    try {
        if (!submitted.is_wanted(*this))
            return submitted.complete();
    } catch (const std::bad_alloc&) {
        submitted.fail(std::make_error_code(std::errc::not_enough_memory), {});
        return submitted.complete();
    } catch (...) {
        submitted.fail(errc::callback_threw,
                       if_memory_allows([] { return "the strategy threw: " + what_was_thrown(); }));
        return submitted.complete();
    }
    bool queued = false;
    bool idle = false;
    {
        const std::lock_guard lock(mutex_);
        if (closed_)
            submitted.fail(errc::closed,
                           if_memory_allows([] { return std::string("the session was destroyed"); }));
        else if (queue_.size() >= options_.max_pending())
            submitted.fail(errc::overloaded, if_memory_allows([this] {
                               return std::to_string(queue_.size()) +
                                      " operations wait in the session of agent " +
                                      detail::quoted(agent_id_) +
                                      "; await them, or raise session_options::with_max_pending";
                           }));
        else {
            queue_.push(submitted);
            queued = true;
            idle = !std::exchange(busy_, true);
        }
    }
    // What is queued belongs to the session's executor, and may be gone by now.
    if (!queued)
        submitted.complete();
    else if (idle)
        link_->wake(shared_from_this());
}

void session_core::cancel(std::uint64_t ticket) noexcept
{
    session_task* found = nullptr;
    {
        const std::lock_guard lock(mutex_);
        found = queue_.remove(ticket);
    }
    if (found == nullptr)
        return; // it has begun, and ends with its outcome
    found->abort();
    found->complete();
}

void session_core::close() noexcept
{
    task_queue left;
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        left = std::exchange(queue_, {});
    }
    before_save_->clear();
    on_checkpoint_->clear();
    on_error_->clear();
    while (auto* task = left.pop()) {
        task->abort();
        task->complete();
    }
}

void session_core::pump() noexcept
{
    session_task* next = nullptr;
    {
        const std::lock_guard lock(mutex_);
        next = queue_.pop();
        if (next == nullptr) {
            busy_ = false;
            return;
        }
    }
    settle_position(*next);
}

void session_core::begin(session_task& task) noexcept
{
    attempt(task, [&] { task.begin(shared_from_this()); });
}

void session_core::end_with_current_failure(session_task& task) noexcept
{
    std::string details;
    const auto code = current_failure(job::kind::read, details);
    task.fail(code, std::move(details));
    finish(task);
}

void session_core::finish(session_task& task) noexcept
{
    // In a turn of its own: whoever is called meanwhile, a hook say, only finds a queue to stand in.
    link_->wake(shared_from_this());
    task.complete();
}

// Saves

void session_core::save(session_task& task, checkpoint draft, const std::optional<std::string>& parent,
                        const when_ended& done) noexcept
{
    save_end end;
    try {
        if (begin_save(task, std::move(draft), parent, done, end))
            return;
    } catch (...) {
        end.code = current_failure(job::kind::read, end.details);
    }
    end_save(task, std::move(end), done);
}

//! After a save with an unknown outcome, looks what became of it before anything else is begun.
void session_core::settle_position(session_task& next) noexcept
{
    if (!is_in_doubt())
        return begin(next);
    attempt(next, [&] {
        hand_over(next, [&](const std::shared_ptr<owned_task>& owned) {
            const auto found = std::make_shared<std::optional<session_position>>();
            link_->call(
                job::kind::read, agent_id_,
                [this, self = shared_from_this(), found, doubtful = doubtful_save()](store& from) {
                    from.await_outcome(agent_id_);
                    if (const auto loaded = from.load(agent_id_, options_.scope(), doubtful))
                        *found = {loaded->id(), loaded->id(), loaded->sequence(), loaded->parent_id()};
                    return std::nullopt;
                },
                [this, owned, found](std::error_code code, const std::string& details) {
                    auto& task = owned->take();
                    if (code) {
                        task.fail(code, if_memory_allows([&] {
                                      return "what became of the save before is not known: " + details;
                                  }));
                        return finish(task);
                    }
                    {
                        const std::lock_guard lock(mutex_);
                        if (*found) {
                            (*found)->past_damage = position_.past_damage;
                            position_ = std::move(**found);
                        }
                        doubtful_save_.reset();
                    }
                    begin(task);
                });
        });
    });
}

bool session_core::begin_save(session_task& task, checkpoint draft, const std::optional<std::string>& parent,
                              const when_ended& done, save_end& end)
{
    const auto from = position();
    // What comes from elsewhere is not taken for the session's own.
    if (draft.agent_id() != agent_id_)
        throw error(errc::invalid_argument, "the draft is of agent " + detail::quoted(draft.agent_id()) +
                                                ", the session of " + detail::quoted(agent_id_));
    if (!draft.scope().empty() && draft.scope() != options_.scope())
        throw error(errc::invalid_argument, "the draft is of scope " + detail::quoted(draft.scope()) +
                                                ", the session of " + detail::quoted(options_.scope()));
    // A caller that did not learn how its last save ended may repeat it.
    const bool is_repetition = !parent && draft.id() == from.parent;
    const auto frame = [&](checkpoint& framed) {
        framed.with_agent(agent_id_)
            .with_scope(options_.scope())
            .with_parent(parent          ? parent
                         : is_repetition ? from.before
                                         : from.parent);
    };
    frame(draft);
    if (!ask_hooks(draft, end.details)) {
        end.vetoed = true;
        return false;
    }
    frame(draft); // whatever the hooks did to it
    if (!options_.writer().empty())
        draft.with_metadata(writer_member, options_.writer());
    save_options conditions;
    conditions.create_only(); // a session adds to its history, and never changes it
    if (options_.is_exclusive() && from.past_damage)
        conditions.expect_readable_head(from.head.value());
    else if (options_.is_exclusive())
        conditions.expect_head(from.head);
    hand_over(task, [&](const std::shared_ptr<owned_task>& owned) {
        const auto prepared = std::make_shared<prepared_save>(draft);
        link_->save({std::move(draft), std::move(conditions)},
                    [this, owned, prepared, done](std::error_code code, std::string details,
                                                  const save_receipt& receipt) {
                        save_end ended;
                        ended.code = code;
                        ended.details = std::move(details);
                        ended.receipt = receipt;
                        saved(owned->take(), *prepared, std::move(ended), done);
                    });
    });
    return true;
}

bool session_core::ask_hooks(checkpoint& draft, std::string& veto)
{
    bool go_on = true;
    before_save_->for_each([&](const std::function<void(pending_save&)>& hook) {
        pending_save pending(draft);
        try {
            hook(pending);
        } catch (...) {
            report_hook("before_save"); // what it did to the draft is not used
            return true;
        }
        if (pending.veto()) {
            veto = *pending.veto();
            go_on = false;
            return false;
        }
        draft = std::move(pending.checkpoint());
        return true;
    });
    return go_on;
}

void session_core::saved(session_task& task, prepared_save& prepared, save_end end,
                         const when_ended& done) noexcept
{
    if (end.code == errc::conflict && options_.is_exclusive())
        return explain_conflict(task, std::move(end), done);
    {
        const std::lock_guard lock(mutex_);
        if (end.code == errc::outcome_unknown)
            doubtful_save_ = std::move(prepared.doubtful);
        if (!end.code) {
            const auto sequence = end.receipt.sequence();
            const auto bytes = end.receipt.bytes_written();
            end.saved = std::move(prepared.saved).with_sequence(sequence);
            end.header = std::move(prepared.header).with_sequence(sequence).with_stored_bytes(bytes);
            // A repetition of an earlier save moves nothing.
            if (bytes > 0 || sequence > position_.sequence) {
                prepared.position.sequence = sequence;
                prepared.position.past_damage = position_.past_damage; // which is still there
                position_ = std::move(prepared.position);
            }
        }
    }
    end_save(task, std::move(end), done);
}

//! Says who moved the head.
void session_core::explain_conflict(session_task& task, save_end end, const when_ended& done) noexcept
{
    std::shared_ptr<save_end> ended;
    try {
        ended = std::make_shared<save_end>(std::move(end));
        const auto head = std::make_shared<std::optional<checkpoint_header>>();
        hand_over(task, [&](const std::shared_ptr<owned_task>& owned) {
            link_->call(
                job::kind::read, agent_id_,
                [this, self = shared_from_this(), head](store& from) {
                    *head = head_of(from, agent_id_, options_.scope(), position());
                    return std::nullopt;
                },
                [this, owned, head, ended, done](std::error_code code, const std::string&) {
                    try {
                        if (!code)
                            add_explanation(*head, *ended);
                    } catch (...) { // NOLINT(bugprone-empty-catch): it is a conflict without it, too
                    }
                    end_save(owned->take(), std::move(*ended), done);
                });
        });
    } catch (...) { // it stays a conflict, without the explanation
        end_save(task, std::move(ended ? *ended : end), done);
    }
}

void session_core::add_explanation(const std::optional<checkpoint_header>& head, save_end& end) const
{
    const auto expected = position().head;
    const auto found = head ? std::optional(head->id()) : std::nullopt;
    if (found != expected)
        end.details = "another writer moved the head of agent " + detail::quoted(agent_id_) + ": it is " +
                      (head ? describe(*head) : "gone") + ", and this session went on from " +
                      (expected ? detail::quoted(*expected) : "nothing") +
                      "; async_resume() loads what is there now";
}

void session_core::end_save(session_task& task, save_end end, const when_ended& done) noexcept
{
    if (!end.header) {
        done(end);
        if (end.code) {
            report(session_error::source::save, end.code, end.details);
            task.fail(end.code, std::move(end.details));
        }
        return finish(task);
    }
    checkpoint_saved event(*std::move(end.header), end.receipt);
    prune_if_due();
    // The queue first, so that hooks may call the session; the task last, so that whoever awaits it finds
    // that the hooks have run.
    link_->wake(shared_from_this());
    on_checkpoint_->for_each([&](const std::function<void(const checkpoint_saved&)>& hook) {
        try {
            hook(event);
        } catch (...) {
            report_hook("on_checkpoint");
        }
        return true;
    });
    end.header = std::move(event).header();
    done(end);
    task.complete();
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
        if (std::exchange(pruning_, true)) {
            prune_again_ = true; // the one that runs may not have seen this save
            return;
        }
    }
    prune();
}

void session_core::prune() noexcept
{
    try {
        link_->call(
            job::kind::read, agent_id_, // beside the agent's saves, not among them
            [this, self = shared_from_this()](store& from) {
                from.prune(agent_id_, own_retention(*options_.retention(), options_.scope()), dry_run::no);
                return std::nullopt;
            },
            [this, self = shared_from_this()](std::error_code code, const std::string& details) {
                if (code)
                    report(session_error::source::retention, code, details);
                {
                    const std::lock_guard lock(mutex_);
                    pruning_ = std::exchange(prune_again_, false) && !closed_;
                    if (!pruning_)
                        return;
                }
                prune();
            });
    } catch (...) {
        std::string details;
        const auto code = current_failure(job::kind::read, details);
        report(session_error::source::retention, code, details);
        const std::lock_guard lock(mutex_);
        pruning_ = prune_again_ = false; // until it is due again
    }
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
