#include "../values/text.hpp"
#include "documents.hpp"
#include "lines.hpp"
#include "store_contents.hpp"

#include <waymark/transfer.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <span>

namespace waymark::transfer {

namespace {

//! Gives the agent that the options ask for to every entry.
class renaming {
public:
    explicit renaming(const std::optional<std::string>& agent_id) : wanted_(agent_id) {}

    void apply(entry& next)
    {
        if (!wanted_)
            return;
        const auto& agent_id = next.point ? next.point->agent_id() : next.record->agent_id();
        if (!seen_)
            seen_ = agent_id;
        if (*seen_ != agent_id)
            throw error(errc::invalid_argument,
                        next.where + ": the input has agents " + detail::quoted(*seen_) + " and " +
                            detail::quoted(agent_id) + ", and both would become " + detail::quoted(*wanted_) +
                            "; export one agent, or import without as_agent");
        if (next.point)
            next.point->with_agent(*wanted_);
        else
            next.record->with_agent(*wanted_);
    }

private:
    const std::optional<std::string>& wanted_;
    std::optional<std::string> seen_;
};

// How much is looked up at a time.
constexpr std::size_t most_at_a_time = 128;
constexpr std::size_t about_bytes_at_a_time = 500'000;
// How much is written in one transaction: so that other writers wait some milliseconds, and not for the
// import.
constexpr std::size_t most_per_transaction = 32;
constexpr std::size_t about_bytes_per_transaction = 200'000;

//! Checkpoints of the input that are looked up and written together.
class entry_page {
public:
    void add(entry next)
    {
        // Only what is new counts: a long conversation is in memory once, and is stored once.
        const auto& value = *next.point;
        auto shared = value.conversation();
        const auto* before = last_.find(value.agent_id(), value.scope());
        shared.truncate(before == nullptr ? 0 : shared.shared_prefix(before->conversation()));
        bytes_ += value.bytes_besides_conversation() + value.conversation().bytes() - shared.bytes();
        last_.put(value);
        entries_.push_back(std::move(next));
    }
    void clear() noexcept
    {
        entries_.clear();
        bytes_ = 0;
    }

    bool is_full() const noexcept
    {
        return entries_.size() >= most_at_a_time || bytes_ >= about_bytes_at_a_time;
    }
    const std::vector<entry>& entries() const noexcept { return entries_; }

private:
    std::vector<entry> entries_;
    std::size_t bytes_ = 0;
    last_checkpoints last_; // also of pages before
};

[[noreturn]] void fail_exists(const entry& next)
{
    const auto& agent_id = next.point ? next.point->agent_id() : next.record->agent_id();
    throw error(errc::conflict,
                next.where + ": " +
                    (next.point ? "checkpoint " + detail::quoted(next.point->id())
                                : "step " + detail::quoted(next.record->key())) +
                    " of agent " + detail::quoted(agent_id) +
                    " exists with other content; existing::skip leaves it as it is, existing::replace "
                    "writes over it");
}

//! For `existing::fail`.
void require_no_other(const entry& next, const counterpart& found)
{
    if (found.is == counterpart::kind::different)
        fail_exists(next);
    if (found.is == counterpart::kind::unreadable)
        throw error(errc::corrupt, next.where + ": " + found.damage);
}

//! Everything that can be said against the input, before anything is written.
class examination {
public:
    examination(store& into, const import_options& options)
        : options_(options),
          bounds_(into.accepted_limits()),
          names_(options.agent()),
          stored_(into),
          stored_steps_(into)
    {
    }

    void look_at(entry next)
    {
        names_.apply(next);
        try {
            if (next.point)
                look_at(*next.point);
            else
                look_at(*next.record);
        } catch (const error& failure) {
            if (failure.code() != errc::invalid_argument)
                throw;
            throw error(failure.code(), next.where + ": " + failure.details().message());
        }
        if (options_.when_exists() != existing::fail)
            return;
        if (next.point) {
            page_.add(std::move(next));
            if (page_.is_full())
                compare_page();
            return;
        }
        compare_page(); // the first line that is wrong is named
        if (const auto found = stored_steps_.find(*next.record); found && !(*found == *next.record))
            fail_exists(next);
    }

    void finish() { compare_page(); }

private:
    void look_at(const checkpoint& value)
    {
        validate(value, bounds_);
        if (!ids_.insert(value.key()).second)
            throw error(errc::invalid_argument,
                        "checkpoint " + detail::quoted(value.id()) + " appears twice in the input");
    }

    void look_at(const step& record)
    {
        validate(record, bounds_);
        if (!steps_.insert(checkpoint_key(record.agent_id(), record.scope(), record.key())).second)
            throw error(errc::invalid_argument,
                        "step " + detail::quoted(record.key()) + " appears twice in the input");
    }

    void compare_page()
    {
        options_.control().require_wanted();
        const auto found = stored_.look_up(page_.entries());
        for (std::size_t i = 0; i < found.size(); ++i)
            require_no_other(page_.entries()[i], found[i]);
        page_.clear();
    }

    const import_options& options_;
    const limits bounds_;
    renaming names_;
    stored_checkpoints stored_;
    stored_steps stored_steps_;
    entry_page page_;
    std::set<checkpoint_key> ids_;
    std::set<checkpoint_key> steps_; // by their keys
};

//! Writes what was examined, in batches.
class importer {
public:
    importer(store& into, const import_options& options)
        : store_(into),
          options_(options),
          names_(options.agent()),
          stored_(into),
          stored_pins_(into),
          stored_steps_(into)
    {
    }

    void add(entry next)
    {
        names_.apply(next);
        if (next.record) {
            write_checkpoints(); // what it was made on
            step_bytes_ += next.record->bytes();
            steps_.push_back(std::move(next));
            if (steps_.size() >= most_at_a_time || step_bytes_ >= about_bytes_at_a_time)
                write_steps();
            return;
        }
        write_steps();
        page_.add(std::move(next));
        if (page_.is_full())
            write_checkpoints();
    }

    transfer_result finish()
    {
        write_checkpoints();
        write_steps();
        if (options_.progress())
            options_.progress()(done());
        return done();
    }

private:
    bool replaces() const noexcept { return options_.when_exists() == existing::replace; }

    //! Looks first, and writes what is not there: what is there is neither placed nor loaded one by one.
    void write_checkpoints()
    {
        const auto& entries = page_.entries();
        if (entries.empty())
            return;
        const auto found = stored_.look_up(entries);
        std::vector<save_request> batch;
        std::vector<std::size_t> positions;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (options_.when_exists() == existing::fail)
                require_no_other(entries[i], found[i]);
            if (found[i].is == counterpart::kind::same) {
                ++skipped_;
                set_pin(entries[i]);
            } else if (found[i].is != counterpart::kind::absent && !replaces()) {
                ++skipped_; // its pin is left alone, too
            } else {
                // What someone else saves meanwhile is not written over, unless that was asked for.
                save_options conditions;
                if (!replaces())
                    conditions.create_only();
                batch.emplace_back(*entries[i].point, conditions);
                positions.push_back(i);
            }
        }
        const auto outcomes = save(batch);
        for (std::size_t i = 0; i < outcomes.size(); ++i) {
            const auto& next = entries[positions[i]];
            if (outcomes[i].code() == errc::conflict && options_.when_exists() == existing::skip) {
                ++skipped_;
                continue;
            }
            if (outcomes[i].code())
                throw error(outcomes[i].code(), next.where + ": " + outcomes[i].details().message());
            ++(outcomes[i].value().bytes_written() > 0 ? checkpoints_ : skipped_);
            set_pin(next);
        }
        page_.clear();
        if (options_.progress())
            options_.progress()(done());
    }

    //! In as many transactions as it takes: a page is counted by what is new, and a store that writes each
    //! checkpoint whole has more to do.
    std::vector<save_outcome> save(std::span<const save_request> batch)
    {
        std::vector<save_outcome> all;
        while (all.size() < batch.size()) {
            options_.control().give_way();
            const auto rest = batch.subspan(all.size());
            const auto some = std::clamp<std::size_t>(about_bytes_per_transaction / bytes_of_a_save_, 1,
                                                      std::min(rest.size(), most_per_transaction));
            std::uint64_t most = 1;
            for (auto& next : store_.save(rest.first(some))) {
                if (!next.code())
                    most = std::max(most, next.value().bytes_written());
                all.push_back(std::move(next));
            }
            bytes_of_a_save_ = most;
        }
        return all;
    }

    void set_pin(const entry& next)
    {
        const auto& key = next.point->key();
        // To take away what is not there would be a transaction for each checkpoint.
        if (next.pinned || (replaces() && stored_pins_.may_contain(key)))
            store_.pin(key.agent_id(), key.scope(), key.id(), next.pinned);
    }

    void write_steps()
    {
        if (steps_.empty())
            return;
        std::vector<step_request> batch;
        std::vector<std::size_t> positions;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const auto& record = *steps_[i].record;
            const auto found = stored_steps_.find(record);
            if (found && (*found == record || options_.when_exists() == existing::skip)) {
                ++skipped_;
                continue;
            }
            // As for checkpoints.
            batch.push_back(step_request(record, !replaces()).restored());
            positions.push_back(i);
        }
        std::vector<step_outcome> outcomes;
        for (auto rest = std::span(batch); !rest.empty();) {
            options_.control().give_way();
            const auto some = rest.first(std::min(rest.size(), most_per_transaction));
            auto ended = store_.put_steps(some);
            outcomes.insert(outcomes.end(), std::make_move_iterator(ended.begin()),
                            std::make_move_iterator(ended.end()));
            rest = rest.subspan(some.size());
        }
        for (std::size_t i = 0; i < outcomes.size(); ++i) {
            if (outcomes[i].code() == errc::conflict && options_.when_exists() == existing::skip)
                ++skipped_;
            else if (outcomes[i].code())
                throw error(outcomes[i].code(),
                            steps_[positions[i]].where + ": " + outcomes[i].details().message());
            else
                ++written_steps_;
        }
        steps_.clear();
        step_bytes_ = 0;
        if (options_.progress())
            options_.progress()(done());
    }

    transfer_result done() const noexcept { return {checkpoints_, written_steps_, skipped_}; }

    store& store_;
    const import_options& options_;
    renaming names_;
    stored_checkpoints stored_;
    stored_pins stored_pins_;
    stored_steps stored_steps_;
    entry_page page_;
    std::vector<entry> steps_;
    std::size_t step_bytes_ = 0;
    std::uint64_t bytes_of_a_save_ = about_bytes_per_transaction / 16; // the most of the last ones
    std::uint64_t checkpoints_ = 0;
    std::uint64_t written_steps_ = 0;
    std::uint64_t skipped_ = 0;
};

} // namespace

} // namespace waymark::transfer

namespace waymark {

import_options& import_options::as_agent(std::string agent_id)
{
    validate_id(agent_id, "the agent id");
    agent_ = std::move(agent_id);
    return *this;
}

transfer_result import_json(store& into, std::string_view text, const import_options& options)
{
    auto entries = transfer::read_document(text, options.agent(), into.accepted_limits());
    transfer::examination looked_at(into, options);
    for (const auto& next : entries)
        looked_at.look_at(next);
    looked_at.finish();
    transfer::importer imported(into, options);
    for (auto& next : entries)
        imported.add(std::move(next));
    return imported.finish();
}

transfer_result import_lines(store& into, std::istream& from, const import_options& options)
{
    if (!from)
        throw error(errc::io, "the input is not readable: the stream was not opened, or has failed before");
    const auto begin = from.tellg();
    if (begin == std::istream::pos_type(-1))
        throw error(errc::invalid_argument, "the input cannot be read twice; import from a file");
    {
        transfer::examination looked_at(into, options);
        transfer::line_reader lines(from, into.accepted_limits());
        while (auto next = lines.next())
            looked_at.look_at(std::move(*next));
        looked_at.finish();
    }
    from.clear();
    from.seekg(begin);
    transfer::importer imported(into, options);
    transfer::line_reader lines(from, into.accepted_limits());
    while (auto next = lines.next())
        imported.add(std::move(*next));
    return imported.finish();
}

transfer_result import_lines(store& into, const std::filesystem::path& file, const import_options& options)
{
    std::ifstream from(file, std::ios::binary);
    if (!from)
        throw error(errc::io, detail::quoted(file.native()) +
                                  " cannot be opened: " + std::generic_category().message(errno));
    return import_lines(into, from, options);
}

} // namespace waymark
