//! What upkeep of one long agent does to the saves of others: their latency in a quiet store, and beside a
//! copy, a verification, an export and so on. Without savers: how long the write lock of a SQLite file is
//! held at a time.
#include "contender.hpp"
#include "lock_watch.hpp"
#include "measure.hpp"
#include "workload.hpp"

#include <waymark/waymark.hpp>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace waymark::bench {

namespace {

namespace fs = std::filesystem;

const std::string origin = "planner";

//! Agents that save all the time, each its next checkpoint when the last one is stored.
class savers {
public:
    savers(async_store& store, std::size_t count, std::size_t message_bytes, texts& source) : store_(store)
    {
        for (std::size_t i = 0; i < count; ++i)
            agents_.emplace_back("saver-" + std::to_string(i), source, message_bytes);
    }

    void start()
    {
        for (auto& agent : agents_)
            save_next(agent);
    }
    void stop() { is_stopped_ = true; }

    std::vector<double> take_milliseconds() { return std::exchange(milliseconds_, {}); }

private:
    void save_next(growing_agent& agent)
    {
        const auto begin = wall_seconds();
        store_.async_save(agent.next(), [this, &agent, begin](std::error_code code, save_receipt) {
            if (code)
                throw std::system_error(code, "a save failed");
            milliseconds_.push_back((wall_seconds() - begin) * 1e3);
            if (!is_stopped_)
                save_next(agent);
        });
    }

    async_store& store_;
    std::list<growing_agent> agents_;
    std::vector<double> milliseconds_;
    bool is_stopped_ = false;
};

//! One kind of work after the other, with a quiet time before and after all of them.
class upkeep_run {
public:
    using finished = std::function<void(std::error_code)>;
    struct phase {
        std::string what;
        std::function<void(finished)> start;
    };

    upkeep_run(const arguments& given, asio::io_context& io, savers& others, lock_watch* lock,
               std::vector<phase> phases)
        : given_(given), timer_(io), savers_(others), lock_(lock), phases_(std::move(phases))
    {
    }

    void start()
    {
        savers_.start();
        after(settling_time, [this] { begin_next(); });
    }

private:
    // What upkeep has left in the disk's queue and in the log counts as its own.
    static constexpr auto settling_time = std::chrono::milliseconds(500);

    template <class Function>
    void after(std::chrono::milliseconds time, Function then)
    {
        timer_.expires_after(time);
        timer_.async_wait([then](std::error_code) { then(); });
    }

    void begin_next()
    {
        if (next_ == phases_.size()) {
            savers_.stop();
            return;
        }
        savers_.take_milliseconds();
        if (lock_ != nullptr)
            lock_->take_longest();
        begin_ = wall_seconds();
        phases_[next_].start([this](std::error_code code) {
            if (code)
                throw std::system_error(code, phases_[next_].what);
            seconds_ = wall_seconds() - begin_;
            after(settling_time, [this] { end(); });
        });
    }

    void end()
    {
        auto milliseconds = savers_.take_milliseconds();
        auto result = result_of(given_);
        result["checkpoints"] = given_.count("checkpoints", 0);
        result["what"] = phases_[next_].what;
        result["seconds"] = seconds_;
        if (!milliseconds.empty()) {
            result["saves_per_second"] = static_cast<double>(milliseconds.size()) / (wall_seconds() - begin_);
            result["save_ms"] = boost::json::object{{"p50", median(milliseconds)},
                                                    {"p99", percentile(milliseconds, 0.99)},
                                                    {"longest", percentile(milliseconds, 1)}};
        }
        if (lock_ != nullptr)
            result["longest_lock_ms"] = lock_->take_longest();
        print(result);
        ++next_;
        begin_next();
    }

    const arguments& given_;
    asio::steady_timer timer_;
    savers& savers_;
    lock_watch* lock_;
    std::vector<phase> phases_;
    std::size_t next_ = 0;
    double begin_ = 0;
    double seconds_ = 0;
};

//! The kinds of upkeep, in an order in which each finds what it needs.
std::vector<upkeep_run::phase> phases_of(async_store& store, const std::shared_ptr<waymark::store>& backend,
                                         asio::io_context& io, const fs::path& file,
                                         std::chrono::milliseconds quiet_time)
{
    // The number that an operation completes with does not matter here.
    const auto ignoring = [](upkeep_run::finished done) {
        return [done = std::move(done)](std::error_code code, const auto&...) { done(code); };
    };
    const auto quiet = [&io, quiet_time](upkeep_run::finished done) {
        const auto timer = std::make_shared<asio::steady_timer>(io, quiet_time);
        timer->async_wait([timer, done = std::move(done)](std::error_code code) { done(code); });
    };
    // What an async_store does in the background, and does not tell the end of.
    const auto on_a_thread = [&io, backend](auto work) {
        return [&io, backend, work](upkeep_run::finished done) {
            std::thread([backend, work, done = std::move(done), &io,
                         working = asio::make_work_guard(io)]() mutable {
                std::error_code code;
                try {
                    work(*backend);
                } catch (const std::system_error& failure) {
                    code = failure.code();
                }
                asio::post(io, [done = std::move(done), code] { done(code); });
            }).detach();
        };
    };
    const auto keep_ten = retention().keep_last(10);
    return {
        {"quiet", quiet},
        {"copy", [&, ignoring](auto done) { store.async_copy_agent(origin, "copy", ignoring(done)); }},
        {"verify", [&, ignoring](auto done) { store.async_verify(ignoring(done)); }},
        {"export",
         [&, ignoring, file](auto done) {
             async_export_lines(store, file, export_options().of_agent(origin), ignoring(done));
         }},
        {"import",
         [&, ignoring, file](auto done) {
             async_import_lines(store, file, import_options().as_agent("imported"), ignoring(done));
         }},
        {"prune",
         [&, ignoring, keep_ten](auto done) { store.async_prune("copy", keep_ten, ignoring(done)); }},
        {"erase and sweep", on_a_thread([](waymark::store& in) {
             in.erase_agent("imported");
             in.sweep("imported");
         })},
        {"compact", [&, ignoring](auto done) { store.async_compact(ignoring(done)); }},
        {"quiet again", quiet},
    };
}

//! The long agent, in a store that does not sync while it is made.
void make_origin(const arguments& given, const std::string& name, std::size_t checkpoints,
                 std::size_t message_bytes, texts& source)
{
    const auto begin = wall_seconds();
    const auto built = open_store(given, name, durability::relaxed);
    fill(*built, origin, checkpoints, message_bytes, source);
    auto result = result_of(given);
    result["checkpoints"] = checkpoints;
    result["what"] = "(making it)";
    result["seconds"] = wall_seconds() - begin;
    result["bytes"] = built->stats(origin).bytes;
    print(result);
}

} // namespace

void run_upkeep(const arguments& given)
{
    const std::string name = "upkeep";
    const auto checkpoints = given.count("checkpoints", 20'000);
    const auto saving = given.count("savers", 8);
    const auto message_bytes = given.count("message-bytes", 256); // two a checkpoint
    const std::chrono::duration<double> quiet(given.number("seconds", 10));
    const auto only = given.text("only");
    const bool is_sqlite = given.required("contender") == "waymark-sqlite";
    const fs::path folder = given.required("folder");
    auto source = source_of(given);
    if (given.text("durability") == "relaxed")
        throw usage_error("upkeep is measured with full durability");
    make_origin(given, name, checkpoints, message_bytes, source);

    asio::io_context io;
    const auto backend = reopen_store(given, name);
    given.refuse_others();
    async_store store(io.get_executor(), backend);
    savers others(store, saving, message_bytes, source);
    std::optional<lock_watch> lock;
    if (saving == 0 && is_sqlite)
        lock.emplace(folder / name / "waymark.db");
    auto phases = phases_of(store, backend, io, folder / "export.jsonl",
                            std::chrono::duration_cast<std::chrono::milliseconds>(quiet));
    if (!only.empty()) // of those that need nothing that another one has left
        std::erase_if(phases,
                      [&](const auto& one) { return one.what != only && !one.what.starts_with("quiet"); });
    upkeep_run run(given, io, others, lock ? &*lock : nullptr, std::move(phases));
    run.start();
    io.run();
}

} // namespace waymark::bench
