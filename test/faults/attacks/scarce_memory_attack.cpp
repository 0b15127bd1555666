//! Memory runs out on the thread that runs a session, at each allocation of short scripts in turn.
#include "allocations.hpp"
#include "attack.hpp"
#include "forwarding_store.hpp"

#include <waymark/async_store.hpp>
#include <waymark/session.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace waymark::faults {

namespace {

//! What a handler does wrong on purpose when it is told that memory ran out.
enum class flaw { none, lost, doubled, untrue, leaked };

//! A backend whose next save is committed, or not, and not answered.
class silent_store final : public test::forwarding_store {
public:
    enum class next_save { answered, lost, committed_in_silence };

    void set(next_save how) noexcept { how_ = how; }

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        const auto how = how_.exchange(next_save::answered);
        if (how == next_save::answered)
            return forwarding_store::save(batch);
        if (how == next_save::committed_in_silence)
            forwarding_store::save(batch);
        throw error(errc::outcome_unknown, "the commit was not answered");
    }

private:
    std::atomic<next_save> how_ = next_save::answered;
};

//! An operation of a script, and what became of it. Noting it needs no memory.
struct scarce_operation {
    const char* what = "";
    std::string saves = {};              // the id of the checkpoint, if it is a save
    std::error_code natural = {};        // how it ends when there is memory, or
    std::error_code second_natural = {}; // how else
    bool threw = false;                  // the initiating function, for want of memory
    int calls = 0;
    std::error_code code = {};
};

//! A session on a store in memory, and the operations of a script.
class scarce_life {
public:
    explicit scarce_life(flaw how, session_options options = session_options())
        : backend(std::make_shared<silent_store>()),
          store(io.get_executor(), backend),
          session(std::in_place, store, "agent", std::move(options)),
          flaw_(how)
    {
        operations_.reserve(8); // handlers refer to them
    }

    //! A checkpoint that is made while there is memory.
    checkpoint draft(const std::string& id) const
    {
        conversation chat;
        chat.push(message::user("a message that is longer than what a string keeps inside of itself"));
        return session->draft(chat, 1)
            .with_id(id + " with an id that is longer than a short string")
            .with_name("a name that is longer than a short string")
            .with_metadata("owner", "somebody whose name is longer than a short string");
    }

    scarce_operation& expect(const char* what, std::error_code natural = {}, const std::string& saves = {})
    {
        const spared_allocations spared;
        return operations_.emplace_back(scarce_operation{what, saves, natural, natural});
    }

    template <class Initiate>
    void start(scarce_operation& of, Initiate initiate)
    {
        try {
            initiate([this, &of](std::error_code code, auto&&...) { note(of, code); });
        } catch (const std::bad_alloc&) {
            of.threw = true;
        }
    }
    void save(checkpoint made, std::error_code natural = {})
    {
        auto& of = expect("async_checkpoint", natural, made.id());
        start(of, [&](auto handler) { session->async_checkpoint(std::move(made), handler); });
    }

    //! Before memory is scarce.
    void save_in_peace(const std::string& id)
    {
        std::error_code ended = errc::io;
        session->async_checkpoint(draft(id), [&](std::error_code code, auto&&) { ended = code; });
        run();
        if (ended)
            throw error(ended, "a save in peace failed");
    }

    void run()
    {
        io.run_for(std::chrono::seconds(30));
        if (!io.stopped())
            throw std::runtime_error("an operation never ends");
        io.restart();
    }

    std::vector<std::string> judge()
    {
        std::vector<std::string> wrong;
        for (const auto& each : operations_) {
            const auto say = [&](const std::string& text) { wrong.push_back(each.what + (" " + text)); };
            if (each.calls != (each.threw ? 0 : 1))
                say("called its handler " + std::to_string(each.calls) + " times" +
                    (each.threw ? " although it threw" : ""));
            const bool is_short = each.code == std::errc::not_enough_memory;
            if (each.calls > 0 && !is_short && each.code != each.natural && each.code != each.second_natural)
                say("ended with '" + each.code.message() + "'");
            if (!each.saves.empty() && each.code != errc::outcome_unknown && !may_be_removed) {
                const bool is_success = each.calls > 0 && !each.code;
                const bool is_there = backend->load("agent", "", each.saves).has_value();
                if (is_there != is_success)
                    say(is_there ? "said that nothing was saved" : "said that it was saved");
            }
        }
        if (session)
            require_working(wrong);
        return wrong;
    }

    asio::io_context io{1};
    std::shared_ptr<silent_store> backend;
    async_store store;
    std::optional<waymark::session> session;
    bool may_be_removed = false; // what was saved, by retention

private:
    void note(scarce_operation& of, std::error_code code) noexcept
    {
        of.code = code;
        ++of.calls;
        if (code != std::errc::not_enough_memory)
            return;
        if (flaw_ == flaw::lost)
            of.calls = 0;
        else if (flaw_ == flaw::doubled)
            ++of.calls;
        else if (flaw_ == flaw::untrue)
            of.code = {};
        else if (flaw_ == flaw::leaked) {
            const spared_allocations spared;
            static std::vector<std::string> leaks; // so that only this attack takes it for a leak
            leaks.emplace_back(100, 'x');
        }
    }

    void require_working(std::vector<std::string>& wrong)
    {
        backend->set(silent_store::next_save::answered);
        std::error_code resumed = errc::io, saved = errc::io;
        session->async_resume([&](std::error_code code, auto&&) { resumed = code; });
        session->async_checkpoint(draft("afterwards"), [&](std::error_code code, auto&&) { saved = code; });
        run();
        if (resumed || saved)
            wrong.push_back("afterwards the session does not work: " + resumed.message() + ", " +
                            saved.message());
        else if (!backend->load("agent", "", draft("afterwards").id()))
            wrong.push_back("afterwards the session saves nothing");
    }

    const flaw flaw_;
    std::vector<scarce_operation> operations_;
};

//! Something that is done with a session while memory is scarce.
class scarce_script {
public:
    virtual ~scarce_script() = default;
    virtual const char* name() const = 0;
    virtual session_options options() const { return {}; }
    //! With memory.
    virtual void prepare(scarce_life&) {}
    //! Without. Afterwards the session's executor runs.
    virtual void act(scarce_life& in) = 0;
};

class checkpoints_script final : public scarce_script {
public:
    const char* name() const override { return "saves with hooks"; }
    session_options options() const override
    {
        return session_options().with_writer("a writer with a long name");
    }
    void prepare(scarce_life& in) override
    {
        in.session->before_save([](pending_save&) {});
        in.session->on_checkpoint([](const checkpoint_saved&) {});
        in.session->on_error([](const session_error&) {});
        first_ = in.draft("first");
        second_ = in.draft("second");
    }
    void act(scarce_life& in) override
    {
        in.save(*std::move(first_));
        in.save(*std::move(second_));
    }

private:
    std::optional<checkpoint> first_, second_;
};

class notify_script final : public scarce_script {
public:
    const char* name() const override { return "events"; }
    session_options options() const override
    {
        return session_options().with_strategy(
            strategy::when([](std::int64_t, event what) { return what == event::iteration; }));
    }
    void prepare(scarce_life& in) override
    {
        wanted_ = in.draft("wanted");
        unwanted_ = in.draft("unwanted");
    }
    void act(scarce_life& in) override
    {
        in.start(in.expect("async_notify", {}, wanted_->id()), [&](auto handler) {
            in.session->async_notify(event::iteration, *std::move(wanted_), handler);
        });
        in.start(in.expect("async_notify of nothing"), [&](auto handler) {
            in.session->async_notify(event::llm_response, *std::move(unwanted_), handler);
        });
    }

private:
    std::optional<checkpoint> wanted_, unwanted_;
};

class travel_script final : public scarce_script {
public:
    const char* name() const override { return "resuming and rolling back"; }
    void prepare(scarce_life& in) override
    {
        in.save_in_peace("first");
        in.save_in_peace("second");
        target_ = in.draft("first").id();
        next_ = in.draft("third");
    }
    void act(scarce_life& in) override
    {
        in.start(in.expect("async_resume"), [&](auto handler) { in.session->async_resume(handler); });
        in.start(in.expect("async_resume with options"), [&](auto handler) {
            in.session->async_resume(resume_options().repair().fall_back(), handler);
        });
        in.start(in.expect("async_rollback_to"),
                 [&](auto handler) { in.session->async_rollback_to(std::move(target_), handler); });
        in.save(*std::move(next_));
    }

private:
    std::string target_;
    std::optional<checkpoint> next_;
};

class conflict_script final : public scarce_script {
public:
    const char* name() const override { return "a conflict of an exclusive session"; }
    session_options options() const override { return session_options().exclusive(); }
    void prepare(scarce_life& in) override
    {
        in.save_in_peace("first");
        in.backend->save(in.draft("of another writer").with_metadata("writer", "another writer with a name"));
        next_ = in.draft("second");
    }
    void act(scarce_life& in) override { in.save(*std::move(next_), errc::conflict); }

private:
    std::optional<checkpoint> next_;
};

class silence_script final : public scarce_script {
public:
    explicit silence_script(silent_store::next_save how) : how_(how) {}
    const char* name() const override { return "a save whose outcome is not known"; }
    void prepare(scarce_life& in) override
    {
        in.save_in_peace("first");
        in.backend->set(how_);
        second_ = in.draft("second");
        third_ = in.draft("third");
    }
    void act(scarce_life& in) override
    {
        // If the first finds no memory, it is the other one that is not answered.
        auto& first = in.expect("async_checkpoint in silence", errc::outcome_unknown, second_->id());
        in.start(first, [&](auto handler) { in.session->async_checkpoint(*std::move(second_), handler); });
        auto& next = in.expect("async_checkpoint after silence", {}, third_->id());
        next.second_natural = errc::outcome_unknown;
        in.start(next, [&](auto handler) { in.session->async_checkpoint(*std::move(third_), handler); });
        in.start(in.expect("async_resume after silence"),
                 [&](auto handler) { in.session->async_resume(handler); });
    }

private:
    const silent_store::next_save how_;
    std::optional<checkpoint> second_, third_;
};

class retention_script final : public scarce_script {
public:
    const char* name() const override { return "retention"; }
    session_options options() const override
    {
        return session_options().with_retention(retention().keep_last(1)).prune_every(1);
    }
    void prepare(scarce_life& in) override
    {
        in.may_be_removed = true;
        in.save_in_peace("first");
        in.session->on_error([](const session_error&) {});
        second_ = in.draft("second");
        third_ = in.draft("third");
    }
    void act(scarce_life& in) override
    {
        in.save(*std::move(second_));
        in.save(*std::move(third_));
        in.start(in.expect("async_prune"),
                 [&](auto handler) { in.session->async_prune(retention().keep_last(1), handler); });
    }

private:
    std::optional<checkpoint> second_, third_;
};

class questions_script final : public scarce_script {
public:
    const char* name() const override { return "questions and steps"; }
    void prepare(scarce_life& in) override
    {
        in.save_in_peace("first");
        in.may_be_removed = true;
    }
    void act(scarce_life& in) override
    {
        in.start(in.expect("async_list"), [&](auto handler) { in.session->async_list(handler); });
        in.start(in.expect("async_history"), [&](auto handler) { in.session->async_history(handler); });
        in.start(in.expect("async_forget_step"), [&](auto handler) {
            in.session->async_forget_step("a key that is longer than a short string", handler);
        });
        in.start(in.expect("async_settle_step", errc::not_found), [&](auto handler) {
            in.session->async_settle_step("a key that is longer than a short string", "done", handler);
        });
        in.start(in.expect("async_clear"), [&](auto handler) { in.session->async_clear(handler); });
    }
};

class hooks_script final : public scarce_script {
public:
    const char* name() const override { return "hooks that veto and throw"; }
    void prepare(scarce_life& in) override
    {
        in.session->before_save([](pending_save& pending) {
            const spared_allocations spared;
            if (pending.checkpoint().id().starts_with("refused"))
                pending.veto("a reason that is longer than a short string");
            if (pending.checkpoint().id().starts_with("first"))
                throw std::runtime_error("a hook's own exception, longer than a short string");
        });
        in.session->on_checkpoint([](const checkpoint_saved&) { throw 7; });
        in.session->on_error([](const session_error&) { throw 8; });
        first_ = in.draft("first");
        refused_ = in.draft("refused");
    }
    void act(scarce_life& in) override
    {
        in.save(*std::move(first_));
        in.save(*std::move(refused_), errc::vetoed);
    }

private:
    std::optional<checkpoint> first_, refused_;
};

class end_script final : public scarce_script {
public:
    const char* name() const override
    {
        return "operations that are cancelled, refused, or outlive their session";
    }
    session_options options() const override { return session_options().with_max_pending(3); }
    void prepare(scarce_life& in) override
    {
        for (int i = 0; i < 5; ++i)
            drafts_.push_back(in.draft("draft " + std::to_string(i)));
        signal_.emplace();
    }
    void act(scarce_life& in) override
    {
        const std::error_code aborted = asio::error::operation_aborted;
        for (int i = 0; i < 2; ++i)
            in.save(std::move(drafts_[static_cast<std::size_t>(i)]), aborted);
        in.start(in.expect("a cancelled async_checkpoint", aborted, drafts_[2].id()), [&](auto handler) {
            in.session->async_checkpoint(std::move(drafts_[2]),
                                         asio::bind_cancellation_slot(signal_->slot(), handler));
        });
        auto& third = in.expect("a third async_checkpoint", aborted, drafts_[3].id());
        third.second_natural = errc::overloaded;
        in.start(third, [&](auto handler) { in.session->async_checkpoint(std::move(drafts_[3]), handler); });
        signal_->emit(asio::cancellation_type::total);
        in.session.reset();
    }

private:
    std::vector<checkpoint> drafts_;
    std::optional<asio::cancellation_signal> signal_;
};

std::vector<std::unique_ptr<scarce_script>> scarce_scripts()
{
    using next_save = silent_store::next_save;
    std::vector<std::unique_ptr<scarce_script>> all;
    all.push_back(std::make_unique<checkpoints_script>());
    all.push_back(std::make_unique<notify_script>());
    all.push_back(std::make_unique<travel_script>());
    all.push_back(std::make_unique<conflict_script>());
    all.push_back(std::make_unique<silence_script>(next_save::lost));
    all.push_back(std::make_unique<silence_script>(next_save::committed_in_silence));
    all.push_back(std::make_unique<retention_script>());
    all.push_back(std::make_unique<questions_script>());
    all.push_back(std::make_unique<hooks_script>());
    all.push_back(std::make_unique<end_script>());
    return all;
}

//! Runs a script in which the Nth allocation, and so many behind it, fail. Says what was wrong.
std::vector<std::string> live_with_scarce_memory(std::size_t script, std::uint64_t nth, std::uint64_t count,
                                                 flaw how, bool& has_failed)
{
    std::vector<std::string> wrong;
    const auto before = bytes_in_use();
    {
        const auto scripts = scarce_scripts();
        auto& chosen = *scripts[script];
        scarce_life life(how, chosen.options());
        chosen.prepare(life);
        const char* escaped = nullptr;
        {
            const auto scarce = failing_allocations::on_this_thread(nth, count);
            try {
                chosen.act(life);
                life.run();
            } catch (const std::bad_alloc&) {
                escaped = "bad_alloc came out of io_context::run()";
            } catch (const std::runtime_error&) {
                escaped = "an operation never ends";
            }
            has_failed = failing_allocations::has_failed();
        }
        if (escaped != nullptr)
            wrong.emplace_back(escaped);
        else
            wrong = life.judge();
    }
    if (wrong.empty() && bytes_in_use() != before)
        wrong.push_back("something leaks: " + std::to_string(bytes_in_use() - before) + " bytes");
    return wrong;
}

class scarce_memory_attack final : public attack {
public:
    std::string_view name() const override { return "scarce-memory"; }
    std::string_view promise() const override
    {
        return "a session without memory fails its operation, once, truly, and goes on";
    }
    std::string_view unit() const override { return "faults"; }
    std::uint64_t full_size() const override { return 6'000; }
    std::uint64_t small_size() const override { return 1'500; }

    void check_harness(report& to) override
    {
        const std::pair<flaw, const char*> flaws[] = {
            {flaw::lost, "a handler that is never called"},
            {flaw::doubled, "a handler that is called twice"},
            {flaw::untrue, "a save that failed and says that it did not"},
            {flaw::leaked, "a leak"},
        };
        for (const auto& [how, name] : flaws) {
            bool noticed = false, has_failed = true;
            for (std::uint64_t nth = 1; has_failed && !noticed; ++nth)
                noticed = !live_with_scarce_memory(0, nth, 1, how, has_failed).empty();
            to.self_check(name, noticed);
        }
    }

    //! One script, with each of its allocations. When all scripts had their turn, more of them fail in a row.
    void round(std::uint64_t seed, report& to) override
    {
        const auto scripts = scarce_scripts();
        const auto script = static_cast<std::size_t>((seed - 1) % scripts.size());
        const std::uint64_t counts[] = {1, 3, 2, 8};
        const auto count = counts[(seed - 1) / scripts.size() % std::size(counts)];
        bool has_failed = true;
        live_with_scarce_memory(script, 0, 1, flaw::none, has_failed); // what is made once for all
        has_failed = true;
        for (std::uint64_t nth = 1; has_failed && to.violations() < 10; ++nth) {
            for (const auto& text : live_with_scarce_memory(script, nth, count, flaw::none, has_failed))
                to.violation(std::string(scripts[script]->name()) + ", allocation " + std::to_string(nth) +
                             " and " + std::to_string(count - 1) + " more: " + text);
            to.attacked(has_failed ? 1 : 0);
        }
    }
};

} // namespace

std::unique_ptr<attack> make_scarce_memory_attack()
{
    return std::make_unique<scarce_memory_attack>();
}

} // namespace waymark::faults
