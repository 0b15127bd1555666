//! One random life of an async_store, perhaps with a session on it: what is begun, and what comes between.
#pragma once

#include "schedule_ledger.hpp"
#include "schedule_plan.hpp"
#include "schedule_stage.hpp"
#include "schedule_store.hpp"

#include <asio/post.hpp>

#include <shared_mutex>
#include <thread>

namespace waymark::faults::schedules {

class life {
public:
    life(std::uint64_t seed, std::shared_ptr<store> inner);
    life(const life&) = delete;
    life& operator=(const life&) = delete;
    ~life()
    {
        stage_.stop();
        backend_->open_gate_soon(); // the store's destructor waits for what stands there
    }

    //! Lives it and says what was wrong.
    std::vector<std::string> live();

    std::string describe() const { return plan_.describe(); }
    void add_to(tally& sum) const { ledger_.add_to(sum); }

private:
    using shared_operation = std::shared_ptr<operation>;

    // Beginning things: schedule_operations.hpp
    void begin_something(dice& roll);
    void begin_on_store(dice& roll);
    void begin_save(dice& roll);
    void begin_read(dice& roll);
    void begin_write(dice& roll);
    void begin_on_session(dice& roll);
    void begin_on_session_place(dice& roll);
    void begin_session_save(dice& roll);
    void begin_session_step(dice& roll);
    void begin_coroutine(dice& roll);
    void begin_late(dice& roll);
    shared_operation make(dice& roll, const std::string& what, std::vector<std::error_code> natural = {});
    shared_operation make_for_session(dice& roll, const std::string& what,
                                      std::vector<std::error_code> natural = {});
    template <class Initiate>
    void begin_in_some_way(dice& roll, const shared_operation& of, Initiate initiate);
    template <class Initiate>
    void begin_any_way(dice& roll, const shared_operation& of, Initiate initiate);
    template <class Initiate>
    void start_bound(const shared_operation& of, Initiate initiate);
    template <class Initiate>
    void start_unbound(const shared_operation& of, Initiate initiate);
    template <class Initiate>
    void start_with_future(const shared_operation& of, Initiate initiate);
    template <class Initiate>
    void defer(const shared_operation& of, Initiate initiate);
    asio::awaitable<void> coroutine(std::uint64_t seed, shared_operation self);
    asio::awaitable<void> await_something(dice& roll, const shared_operation& outer);
    static asio::awaitable<boost::json::value> act(operation_ledger& ledger, shared_operation of,
                                                   std::uint64_t seed);

    // Disturbing them
    void disturb(dice& roll);
    void after_completion(std::uint64_t seed);
    void cancel_one(dice& roll);
    void move_gate(dice& roll);
    void make_session(dice& roll);
    void connect_hooks(session& to, std::uint64_t seed);
    void destroy_session();
    void destroy_store();

    // The end
    void run_out();
    void end_contexts(dice& roll);
    void destroy_contexts();
    void check_empty();

    std::string next_id() { return "c" + std::to_string(++last_id_); }
    std::string some_id(dice& roll) { return "c" + std::to_string(roll.below(last_id_ + 2)); }
    checkpoint some_checkpoint(dice& roll, const std::string& agent);

    static constexpr std::size_t most_operations = 40; // handlers begin some, too

    dice roll_;
    const plan plan_;
    std::shared_ptr<store> inner_;
    std::shared_ptr<moody_store> backend_;
    std::atomic<std::size_t> last_id_ = 0;

    stage stage_;
    operation_ledger ledger_; // its executors must go before their contexts
    std::shared_mutex mutex_; // who destroys something holds it alone
    bool is_ending_ = false;
    std::unique_ptr<async_store> store_;
    std::unique_ptr<session> session_;
    std::mutex late_mutex_;
    std::vector<std::function<void()>> late_; // deferred operations that nobody has started yet
};

inline life::life(std::uint64_t seed, std::shared_ptr<store> inner)
    : roll_(seed),
      plan_(roll_),
      inner_(std::move(inner)),
      backend_(std::make_shared<moody_store>(inner_, plan_.lanes, plan_.faults, seed)),
      stage_(plan_.where),
      store_(std::make_unique<async_store>(stage_.executor(0), backend_, plan_.options))
{
    ledger_.around.faulty = plan_.faults != 0;
    ledger_.around.small_queues = plan_.small_queues;
    ledger_.around.starts_in_order = !stage_.is_pool();
    if (plan_.with_session)
        make_session(roll_);
}

inline std::vector<std::string> life::live()
{
    for (std::size_t i = 0; i < plan_.operations; ++i) {
        begin_something(roll_);
        for (auto left = roll_.below(4); left > 0; --left)
            disturb(roll_);
    }
    if (plan_.ends_contexts)
        end_contexts(roll_);
    else
        run_out();
    if (backend_.use_count() != 1) // though deferred operations may still exist
        ledger_.violation("the backend is held by " + std::to_string(backend_.use_count() - 1) + " others");
    destroy_contexts();
    return ledger_.verdict(*inner_);
}

// Disturbing them

inline void life::disturb(dice& roll)
{
    const auto drawn = roll.below(48);
    if (drawn < 4)
        return move_gate(roll);
    if (drawn < 10)
        return cancel_one(roll);
    if (drawn < 13)
        return begin_late(roll);
    if (drawn < 15)
        return std::this_thread::yield();
    if (drawn == 15 && plan_.deadly)
        return destroy_session();
    if (drawn == 16 && plan_.deadly)
        return destroy_store();
    stage_.run_one(roll.below(stage::executor_count));
}

//! In a handler, on its executor.
inline void life::after_completion(std::uint64_t seed)
{
    dice roll(seed);
    const auto drawn = roll.below(32);
    if (drawn < 3)
        return begin_something(roll);
    if (drawn == 3)
        return cancel_one(roll);
    if (drawn == 4)
        return move_gate(roll);
    if (drawn == 5)
        return begin_late(roll);
    if (drawn == 6 && plan_.deadly)
        return destroy_session();
    if (drawn == 7 && plan_.deadly)
        return destroy_store();
    if (drawn < 10 && !stage_.is_pool()) // there, the process would end
        throw thrown_by_handler();
}

inline void life::cancel_one(dice& roll)
{
    const auto chosen = ledger_.pick(roll.seed());
    if (!chosen)
        return;
    constexpr std::array types = {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                                  asio::cancellation_type::total};
    const auto type = types[roll.below(types.size())];
    chosen->cancelled = true;
    if (type != asio::cancellation_type::total)
        chosen->left = true;
    if (stage_.is_pool())
        asio::post(chosen->where, [chosen, type] { chosen->signal.emit(type); });
    else
        chosen->signal.emit(type);
}

inline void life::move_gate(dice& roll)
{
    const std::shared_lock lock(mutex_);
    if (!plan_.gated || is_ending_ || !store_)
        return;
    if (roll.one_in(2))
        backend_->close_gate();
    else
        backend_->open_gate();
}

inline void life::make_session(dice& roll)
{
    session_options options;
    constexpr std::int64_t thrown_at = 13;
    switch (roll.below(4)) {
    case 0:
        options.with_strategy(strategy::every_n(2));
        break;
    case 1:
        options.with_strategy(strategy::when([](std::int64_t iteration, event) -> bool {
            if (iteration % thrown_at == 0)
                throw std::runtime_error("a strategy that throws");
            return iteration % 2 == 0;
        }));
        break;
    default:
        break; // after each tool call
    }
    if (plan_.exclusive)
        options.exclusive();
    if (plan_.removes && roll.one_in(2))
        options.with_retention(retention().keep_last(2)).prune_every(2);
    if (plan_.small_queues)
        options.with_max_pending(roll.between(1, 6));
    session_ = std::make_unique<session>(stage_.executor(plan_.session_place), *store_, "session", options);
    connect_hooks(*session_, roll.seed());
}

inline void life::connect_hooks(session& to, std::uint64_t seed)
{
    // What a hook does depends on the checkpoint, so that it does not depend on the order of threads.
    to.before_save([](pending_save& pending) {
        if (pending.checkpoint().iteration() % 11 == 3)
            pending.veto("the hook said no");
        else if (pending.checkpoint().iteration() % 11 == 5)
            throw std::runtime_error("before_save throws");
    });
    to.on_checkpoint([this, seed](const checkpoint_saved& saved) {
        if (executor_here() != stage::id_of(plan_.session_place))
            ledger_.violation("a hook ran on another executor");
        if (saved.header().iteration() % 7 == 2)
            throw std::runtime_error("on_checkpoint throws");
        dice roll(seed + static_cast<std::uint64_t>(saved.header().sequence()));
        if (roll.one_in(6))
            begin_something(roll);
    });
    to.on_error([](const session_error&) { throw std::runtime_error("on_error throws"); });
}

inline void life::destroy_session()
{
    const std::unique_lock lock(mutex_);
    if (!session_)
        return;
    ledger_.around.session_gone = true;
    session_.reset();
}

inline void life::destroy_store()
{
    const std::unique_lock lock(mutex_);
    if (!store_)
        return;
    ledger_.around.store_gone = true;
    backend_->open_gate_soon(); // while the destructor waits for what stands there
    store_.reset();
}

// The end

inline void life::run_out()
{
    {
        const std::unique_lock lock(mutex_);
        is_ending_ = true;
        backend_->open_gate();
    }
    stage_.run_out(ledger_);
    ledger_.settle_futures();
    check_empty();
    if (roll_.one_in(2))
        destroy_session();
    destroy_store();
    destroy_session();
}

inline void life::check_empty()
{
    if (!store_)
        return;
    const auto in = [](const queue_figures::side& side) {
        return side.queued_operations + side.queued_bytes + side.waiting_operations + side.waiting_bytes;
    };
    auto full = store_->queues();
    // What a caller has left ends by itself, a moment later.
    const auto is_empty = [&] { return in(full.writes) + in(full.reads) + full.held_by_sessions == 0; };
    for (int patience = 0; patience < 30'000 && !is_empty(); ++patience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        full = store_->queues();
    }
    for (const auto& side : {full.writes, full.reads})
        if (in(side) != 0)
            ledger_.violation("everything has ended, but the queues say that " +
                              std::to_string(side.queued_operations) + " are queued and " +
                              std::to_string(side.waiting_operations) + " wait");
    if (full.held_by_sessions != 0)
        ledger_.violation("everything has ended, but sessions hold " + std::to_string(full.held_by_sessions));
}

//! Everything is over for the store; handlers that have not run are destroyed with their contexts.
inline void life::end_contexts(dice& roll)
{
    ledger_.around.contexts_gone = true;
    if (roll.one_in(2))
        destroy_session();
    destroy_store();
    destroy_session();
    for (auto left = roll.below(6); left > 0; --left)
        stage_.run_one(roll.below(stage::executor_count));
    stage_.stop();
    ledger_.settle_futures();
    destroy_contexts();
}

inline void life::destroy_contexts()
{
    late_.clear();
    ledger_.release_executors();
    stage_.destroy();
}

} // namespace waymark::faults::schedules
