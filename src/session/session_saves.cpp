#include "../values/text.hpp"
#include "../values/timestamp.hpp"
#include "hook_list.hpp"
#include "session_words.hpp"

#include <waymark/detail/session_core.hpp>
#include <waymark/detail/session_functions.hpp>

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

} // namespace

// What is saved

void session_save::drop_input() noexcept
{
    batched_save::drop_input();
    draft_.reset();
    header_ = checkpoint_header(); // a failure hands over nothing
}

notify_save::notify_save(checkpoint draft) : session_save(draft.agent_id(), on_veto::succeed)
{
    draft_ = std::move(draft);
}

notify_save::result_type notify_save::take_result() noexcept
{
    return code() || header_.sequence() == 0 ? std::nullopt : result_type(std::move(header_));
}

checkpoint_save::checkpoint_save(checkpoint draft) : session_save(draft.agent_id(), on_veto::fail)
{
    draft_ = std::move(draft);
}

rollback_save::rollback_save(std::string agent_id, std::string target)
    : session_save(std::move(agent_id), on_veto::fail)
{
    target_ = std::move(target);
}

rollback_save::result_type rollback_save::take_result() noexcept
{
    return wanted_ ? std::move(*wanted_).checkpoint().with_sequence(header_.sequence()) : checkpoint();
}

// How it is saved

//! Before the first save or step of a session that was not resumed.
void session_core::find_position(store& from)
{
    const auto head = head_of(from, agent_id_, options_.scope(), {});
    found_position_.emplace();
    if (!head)
        return;
    if (head->damage())
        throw error(errc::corrupt, "checkpoint " + detail::quoted(head->id()) + ", the newest of agent " +
                                       detail::quoted(agent_id_) + ", is damaged: " + *head->damage() +
                                       "; async_resume(resume_options().fall_back()) goes on from the newest "
                                       "that can be read");
    found_position_->head = head->id();
    found_position_->sequence = head->sequence();
    if (!options_.starts_new_root())
        found_position_->parent = head->id();
}

void session_core::start_from_position() noexcept
{
    const auto ended = std::move(look_);
    auto found = std::exchange(found_position_, std::nullopt);
    if (ended->code()) {
        current_->fail(ended->code(), ended->take_details());
        return end_current();
    }
    {
        const std::lock_guard lock(mutex_);
        position_ = std::move(*found);
        has_position_ = true;
    }
    start_current();
}

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
                                                ", the session of " + detail::quoted(agent_id_) +
                                                "; session::draft() makes one of its own");
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
            save.fail(errc::vetoed, pending.veto()->empty() ? "no reason was given" : *pending.veto());
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
    } else if (save.code() == errc::conflict) {
        fail_as_taken(save);
        try {
            if (options_.is_exclusive())
                return look(&session_core::look_up_head, &session_core::explain_conflict);
        } catch (...) { // NOLINT(bugprone-empty-catch): it stays a conflict, without the explanation
        }
    }
    end_save(save);
}

//! Unless the head was moved, which an exclusive session looks at, the id is taken.
void session_core::fail_as_taken(session_save& save) const noexcept
{
    save.fail(errc::conflict, if_memory_allows([&] {
                  return "checkpoint " + detail::quoted(save.id_) + " of agent " + detail::quoted(agent_id_) +
                         " exists with other content, or another parent, and a session replaces nothing; "
                         "give the draft another id";
              }));
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
    if (save.code()) {
        if (save.code() != scheduler_->aborted()) // by the caller, or with the store: nothing failed
            report(session_error::source::save, save.code(), save.details());
    } else if (save.header_.sequence() != 0) { // it was not vetoed
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
    report(session_error::source::hook, errc::callback_threw, if_memory_allows([this, which] {
               return "a hook of " + std::string(which) + " of agent " + detail::quoted(agent_id_) +
                      " threw: " + what_was_thrown();
           }));
}

// Automatic retention

retention own_retention(retention policies, const std::string& scope)
{
    if (!policies.scope())
        policies.only_scope(scope);
    return policies;
}

//! Automatic retention. It is in nobody's order: no save waits for it.
class session_core::prune_request final : public request {
public:
    explicit prune_request(session_core& owner)
        : request(schedule::background, store_operation::prune, {}), owner_(owner)
    {
    }
    void run(const request_target& in, std::span<const std::shared_ptr<request>> /*batch*/) noexcept override
    {
        try {
            in.backend.prune(owner_.agent_id_,
                             own_retention(*owner_.options_.retention(), owner_.options_.scope()),
                             dry_run::no, upkeep_control().stop_with(stop_.get_token()));
        } catch (...) {
            fail_with_current_exception(in.aborted);
        }
    }
    void stop() noexcept override { stop_.request_stop(); }

private:
    session_core& owner_; // busy, and so alive
    std::stop_source stop_;
};

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
    if (ended->code() && ended->code() != scheduler_->aborted())
        report(session_error::source::retention, ended->code(), ended->details());
    {
        const std::lock_guard lock(mutex_);
        is_pruning_ = std::exchange(prunes_again_, false) && !closed_;
        if (!is_pruning_)
            return;
    }
    prune();
}

} // namespace waymark::detail
