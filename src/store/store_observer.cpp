#include "../values/text.hpp"

#include <waymark/error.hpp>
#include <waymark/store_observer.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <ostream>
#include <utility>

namespace waymark {

std::string_view to_string(store_operation operation) noexcept
{
    static constexpr std::array<std::string_view, store_operations> names = {
        "save",  "step", "load",   "list",    "stats",  "erase",  "pin",   "prune",
        "sweep", "copy", "verify", "compact", "export", "import", "flush", "open"};
    return names[static_cast<std::size_t>(operation)];
}

std::string_view to_string(log_level level) noexcept
{
    static constexpr std::array<std::string_view, 4> names = {"debug", "info", "warning", "error"};
    return names[static_cast<std::size_t>(level)];
}

std::ostream& operator<<(std::ostream& to, const log_record& record)
{
    to << to_string(record.level()) << ": ";
    if (!record.operation().empty())
        to << record.operation();
    if (!record.agent_id().empty())
        to << " of agent " << detail::quoted(record.agent_id());
    return to << (record.operation().empty() ? "" : ": ") << record.message();
}

// Histograms: values below 4 have a bucket each, each power of two from there on has four.

std::size_t histogram::bucket_of(std::uint64_t value) noexcept
{
    if (value < 4)
        return value;
    const auto power = static_cast<std::size_t>(std::bit_width(value)) - 1;
    return 4 * (power - 1) + ((value >> (power - 2)) & 3);
}

std::uint64_t histogram::upper_bound(std::size_t bucket) noexcept
{
    if (bucket < 4)
        return bucket;
    const auto power = bucket / 4 + 1;
    const auto width = std::uint64_t{1} << (power - 2);
    return (4 + bucket % 4) * width + (width - 1);
}

std::uint64_t histogram::quantile(double fraction) const noexcept
{
    if (count_ == 0)
        return 0;
    const auto wanted = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_))));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        seen += in_buckets_[bucket];
        if (seen >= wanted)
            return std::min(upper_bound(bucket), largest_);
    }
    return largest_;
}

histogram operator-(histogram now, const histogram& earlier) noexcept
{
    std::uint64_t largest = 0;
    for (std::size_t bucket = 0; bucket < histogram::buckets; ++bucket) {
        now.in_buckets_[bucket] -= earlier.in_buckets_[bucket];
        if (now.in_buckets_[bucket] > 0)
            largest = std::min(now.largest_, histogram::upper_bound(bucket));
    }
    now.largest_ = largest;
    now.count_ -= earlier.count_;
    now.sum_ -= earlier.sum_;
    return now;
}

store_figures operator-(store_figures now, const store_figures& earlier) noexcept
{
    for (std::size_t i = 0; i < store_operations; ++i) {
        auto& left = now.operations[i];
        const auto& right = earlier.operations[i];
        left.succeeded -= right.succeeded;
        left.failed -= right.failed;
        left.aborted -= right.aborted;
        left.latency = left.latency - right.latency;
    }
    now.batches = now.batches - earlier.batches;
    now.commits = now.commits - earlier.commits;
    now.queue_depths = now.queue_depths - earlier.queue_depths;
    now.busy_waits = now.busy_waits - earlier.busy_waits;
    now.overloaded -= earlier.overloaded;
    now.bytes_written -= earlier.bytes_written;
    now.connections -= earlier.connections;
    now.connections_lost -= earlier.connections_lost;
    now.lost_commits -= earlier.lost_commits;
    now.retries -= earlier.retries;
    return now;
}

// Counters

namespace {

using counter = std::atomic<std::uint64_t>;

void add(counter& to, std::uint64_t value = 1) noexcept
{
    to.fetch_add(value, std::memory_order_relaxed);
}

std::uint64_t get(const counter& from) noexcept
{
    return from.load(std::memory_order_relaxed);
}

bool is_upkeep(store_operation operation) noexcept
{
    switch (operation) {
    case store_operation::prune:
    case store_operation::sweep:
    case store_operation::copy:
    case store_operation::verify:
    case store_operation::compact:
    case store_operation::export_lines:
    case store_operation::import_lines:
        return true;
    default:
        return false;
    }
}

log_level level_of(std::error_code failure) noexcept
{
    if (failure == errc::busy || failure == errc::unavailable || failure == errc::overloaded ||
        failure == std::errc::not_enough_memory)
        return log_level::warning;
    if (failure == errc::io || failure == errc::corrupt || failure == errc::outcome_unknown ||
        failure == errc::unsupported_format)
        return log_level::error;
    return log_level::info;
}

//! The record names it already.
std::string without_agent(std::string_view details, std::string_view agent_id)
{
    const auto begin = "agent " + detail::quoted(agent_id) + ": ";
    return std::string(details.starts_with(begin) ? details.substr(begin.size()) : details);
}

std::string milliseconds(std::chrono::nanoseconds time)
{
    const auto hundredths = time.count() / 10'000;
    auto decimals = std::to_string(hundredths % 100);
    if (decimals.size() < 2)
        decimals.insert(0, "0");
    return std::to_string(hundredths / 100) + "." + decimals + " ms";
}

} // namespace

class store_observer::counters {
public:
    struct values {
        void add_value(std::uint64_t value) noexcept
        {
            add(in_buckets[histogram::bucket_of(value)]);
            add(sum, value);
            auto known = get(largest);
            while (known < value && !largest.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
            }
        }
        void add_time(std::chrono::nanoseconds time) noexcept
        {
            add_value(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
        }

        std::array<counter, histogram::buckets> in_buckets{};
        counter sum = 0;
        counter largest = 0;
    };

    struct operation {
        counter succeeded = 0;
        counter failed = 0;
        counter aborted = 0;
        values latency;
    };

    //! What has the same name in store_figures.
    std::array<operation, store_operations> operations;
    values batches;
    values commits;
    values queue_depths;
    counter overloaded = 0;
    counter bytes_written = 0;
    values busy_waits;
    counter connections = 0;
    counter connections_lost = 0;
    counter lost_commits = 0;
    counter retries = 0;
};

store_observer::store_observer() : counters_(std::make_unique<counters>()) {}

store_observer::~store_observer() = default;

store_observer& store_observer::on_log(log_level least, log_function log)
{
    if (!log)
        throw error(errc::invalid_argument, "on_log needs a function; this one is empty");
    least_ = least;
    log_ = std::move(log);
    return *this;
}

store_figures store_observer::figures() const
{
    const auto copy = [](const counters::values& from, histogram& to) {
        for (std::size_t bucket = 0; bucket < histogram::buckets; ++bucket) {
            to.in_buckets_[bucket] = get(from.in_buckets[bucket]);
            to.count_ += to.in_buckets_[bucket];
        }
        to.sum_ = get(from.sum);
        to.largest_ = get(from.largest);
    };
    store_figures now;
    for (std::size_t i = 0; i < store_operations; ++i) {
        const auto& from = counters_->operations[i];
        auto& to = now.operations[i];
        to.succeeded = get(from.succeeded);
        to.failed = get(from.failed);
        to.aborted = get(from.aborted);
        copy(from.latency, to.latency);
    }
    copy(counters_->batches, now.batches);
    copy(counters_->commits, now.commits);
    copy(counters_->queue_depths, now.queue_depths);
    copy(counters_->busy_waits, now.busy_waits);
    now.overloaded = get(counters_->overloaded);
    now.bytes_written = get(counters_->bytes_written);
    now.connections = get(counters_->connections);
    now.connections_lost = get(counters_->connections_lost);
    now.lost_commits = get(counters_->lost_commits);
    now.retries = get(counters_->retries);
    return now;
}

// What happens

void store_observer::ended(store_operation operation, std::string_view agent_id,
                           std::chrono::nanoseconds latency, std::error_code code,
                           std::string_view details) noexcept
{
    auto& counted = counters_->operations[static_cast<std::size_t>(operation)];
    add(code ? counted.failed : counted.succeeded);
    counted.latency.add_time(latency);
    if (code == errc::overloaded)
        add(counters_->overloaded);
    const auto level = code ? level_of(code) : is_upkeep(operation) ? log_level::info : log_level::debug;
    if (!logs(level))
        return;
    try {
        const auto text =
            code ? without_agent(details, agent_id) + (details.empty() ? "" : ": ") + code.message()
                 : "done in " + milliseconds(latency);
        tell({level, to_string(operation), agent_id, text});
    } catch (const std::bad_alloc&) {
        tell({level, to_string(operation), agent_id, "failed; there is no memory to say how"});
    }
}

void store_observer::aborted(store_operation operation) noexcept
{
    add(counters_->operations[static_cast<std::size_t>(operation)].aborted);
}

void store_observer::batch_ended(std::size_t operations, std::chrono::nanoseconds took) noexcept
{
    counters_->batches.add_value(operations);
    counters_->commits.add_time(took);
}

void store_observer::write_started(std::size_t queue_depth) noexcept
{
    counters_->queue_depths.add_value(queue_depth);
}

void store_observer::wrote(std::uint64_t bytes) noexcept
{
    add(counters_->bytes_written, bytes);
}

void store_observer::waited_for_others(std::chrono::nanoseconds time) noexcept
{
    counters_->busy_waits.add_time(time);
    // What is so short that nobody would notice it is no news.
    constexpr auto noticeable = std::chrono::milliseconds(100);
    if (!logs(log_level::warning) || time < noticeable)
        return;
    try {
        tell({log_level::warning,
              {},
              {},
              "waited " + milliseconds(time) + " for another process that writes"});
    } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): it is counted
    }
}

void store_observer::connected() noexcept
{
    add(counters_->connections);
    log(log_level::debug, "connected to the server");
}

void store_observer::lost_connection(std::string_view why) noexcept
{
    add(counters_->connections_lost);
    log(log_level::warning, why);
}

void store_observer::lost_commit(std::string_view why) noexcept
{
    add(counters_->lost_commits);
    if (!logs(log_level::warning))
        return;
    try {
        tell({log_level::warning,
              {},
              {},
              "the end of a commit was not seen, and is looked up: " + std::string(why)});
    } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): it is counted
    }
}

void store_observer::retries_after(std::string_view failure, std::chrono::milliseconds pause) noexcept
{
    add(counters_->retries);
    if (!logs(log_level::warning))
        return;
    try {
        tell({log_level::warning,
              {},
              {},
              "a transaction is run again in " + std::to_string(pause.count()) +
                  " ms: " + std::string(failure)});
    } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): it is counted
    }
}

void store_observer::log(log_level level, std::string_view message) noexcept
{
    if (logs(level))
        tell({level, {}, {}, message});
}

void store_observer::tell(const log_record& record) const noexcept
{
    try {
        log_(record);
    } catch (...) { // NOLINT(bugprone-empty-catch): there is nobody else to tell
    }
}

} // namespace waymark
