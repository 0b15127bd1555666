#include "../values/json_document.hpp"
#include "../values/text.hpp"
#include "transfer_lines.hpp"

#include <waymark/detail/session_calls.hpp>
#include <waymark/transfer.hpp>

#include <boost/json/array.hpp>

#include <fstream>
#include <set>

namespace waymark {

namespace json = boost::json;
using detail::transfer_entry;

import_options& import_options::when_exists(existing what) & noexcept
{
    existing_ = what;
    return *this;
}

import_options&& import_options::when_exists(existing what) && noexcept
{
    return std::move(when_exists(what));
}

import_options& import_options::as_agent(std::string agent_id) &
{
    validate_id(agent_id, "the agent id");
    agent_ = std::move(agent_id);
    return *this;
}

import_options&& import_options::as_agent(std::string agent_id) &&
{
    return std::move(as_agent(std::move(agent_id)));
}

import_options& import_options::with_progress(transfer_callback progress) &
{
    progress_ = std::move(progress);
    return *this;
}

import_options&& import_options::with_progress(transfer_callback progress) &&
{
    return std::move(with_progress(std::move(progress)));
}

namespace {

//! Gives the agent that the options ask for to every entry.
class renaming {
public:
    explicit renaming(const std::optional<std::string>& agent_id) : wanted_(agent_id) {}

    void apply(transfer_entry& entry)
    {
        if (!wanted_)
            return;
        const auto& agent_id = entry.point ? entry.point->agent_id() : entry.record->agent_id();
        if (!seen_)
            seen_ = agent_id;
        if (*seen_ != agent_id)
            throw error(errc::invalid_argument, entry.where + ": agent " + detail::quoted(agent_id) +
                                                    " stands beside " + detail::quoted(*seen_) +
                                                    ", and all would become " + detail::quoted(*wanted_) +
                                                    "; export one agent, or import without as_agent");
        if (entry.point)
            entry.point->with_agent(*wanted_);
        else
            entry.record->with_agent(*wanted_);
    }

private:
    const std::optional<std::string>& wanted_;
    std::optional<std::string> seen_;
};

//! Everything that can be said against the input, before anything is written.
class examination {
public:
    examination(store& into, const import_options& options)
        : store_(into), options_(options), names_(options.agent())
    {
    }

    void look_at(transfer_entry& entry)
    {
        names_.apply(entry);
        try {
            if (entry.point)
                look_at(*entry.point);
            else
                look_at(*entry.record);
        } catch (const error& failure) {
            if (failure.code() != errc::invalid_argument && failure.code() != errc::conflict)
                throw;
            throw error(failure.code(), entry.where + ": " + failure.details().message());
        }
    }

private:
    void look_at(const checkpoint& value)
    {
        validate(value, store_.bounds());
        if (!ids_.insert(value.key()).second)
            throw error(errc::invalid_argument,
                        "checkpoint " + detail::quoted(value.id()) + " stands here a second time");
        if (options_.when_exists() != existing::fail)
            return;
        const auto found = store_.load(value.agent_id(), value.scope(), value.id());
        if (found && !(*found == value))
            throw error(errc::conflict, "checkpoint " + detail::quoted(value.id()) + " of agent " +
                                            detail::quoted(value.agent_id()) + " exists with other content");
    }

    void look_at(const step& record)
    {
        validate(record, store_.bounds());
        if (!steps_.insert(checkpoint_key(record.agent_id(), record.scope(), record.key())).second)
            throw error(errc::invalid_argument,
                        "step " + detail::quoted(record.key()) + " stands here a second time");
        if (options_.when_exists() != existing::fail)
            return;
        const auto found = detail::find_step(store_, record);
        if (found && !(*found == record))
            throw error(errc::conflict, "step " + detail::quoted(record.key()) + " of agent " +
                                            detail::quoted(record.agent_id()) + " exists with other content");
    }

    store& store_;
    const import_options& options_;
    renaming names_;
    std::set<checkpoint_key> ids_;
    std::set<checkpoint_key> steps_; // by their keys
};

//! Writes what was examined, in batches.
class importer {
public:
    importer(store& into, const import_options& options)
        : store_(into), options_(options), names_(options.agent())
    {
    }

    void add(transfer_entry entry)
    {
        names_.apply(entry);
        if (entry.record)
            return add_step(*entry.record, entry.where);
        const auto& chat = entry.point->conversation();
        auto shared = chat; // with the one before
        shared.truncate(entries_.empty() ? 0 : chat.shared_prefix(entries_.back().point->conversation()));
        bytes_ += entry.point->bytes_besides_conversation() + chat.bytes() - shared.bytes();
        save_options conditions;
        if (options_.when_exists() != existing::replace)
            conditions.create_only();
        batch_.emplace_back(*entry.point, conditions);
        entries_.push_back(std::move(entry));
        constexpr std::size_t most = 64;
        constexpr std::size_t about_bytes = 8'000'000;
        if (batch_.size() >= most || bytes_ >= about_bytes)
            flush();
    }

    transfer_result finish()
    {
        flush();
        return done();
    }

private:
    void flush()
    {
        const auto outcomes = batch_.empty() ? std::vector<save_outcome>() : store_.save(batch_);
        for (std::size_t i = 0; i < outcomes.size(); ++i) {
            const auto& entry = entries_[i];
            const auto& key = entry.point->key();
            if (outcomes[i].code() == errc::conflict && options_.when_exists() == existing::skip) {
                ++skipped_;
                continue; // its pin is left alone, too
            }
            if (outcomes[i].code())
                throw error(outcomes[i].code(), entry.where + ": " + outcomes[i].details().message());
            ++(outcomes[i].value().bytes_written() > 0 ? checkpoints_ : skipped_);
            if (entry.pinned || options_.when_exists() == existing::replace)
                store_.pin(key.agent_id(), key.scope(), key.id(), entry.pinned);
        }
        batch_.clear();
        entries_.clear();
        bytes_ = 0;
        if (options_.progress())
            options_.progress()(done());
    }

    void add_step(const step& record, const std::string& where)
    {
        flush(); // what it was made on
        const auto found = detail::find_step(store_, record);
        if (found && (*found == record || options_.when_exists() == existing::skip)) {
            ++skipped_;
            return;
        }
        // What someone else records meanwhile is not written over, unless that was asked for.
        const auto request = step_request(record, options_.when_exists() != existing::replace).restored();
        const auto outcome = store_.put_steps(std::span(&request, 1)).at(0);
        if (outcome.code() == errc::conflict && options_.when_exists() == existing::skip) {
            ++skipped_;
            return;
        }
        if (outcome.code())
            throw error(outcome.code(), where + ": " + outcome.details().message());
        ++steps_;
    }

    transfer_result done() const noexcept { return {checkpoints_, steps_, skipped_}; }

    store& store_;
    const import_options& options_;
    renaming names_;
    std::vector<save_request> batch_;
    std::vector<transfer_entry> entries_; // those of the batch
    std::size_t bytes_ = 0;
    std::uint64_t checkpoints_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t skipped_ = 0;
};

// One document

constexpr std::uint64_t document_version = 1;

std::vector<transfer_entry> read_document(const json::value& document)
{
    const detail::object_reader reader(document, "the export");
    const auto version = reader.unsigned_or("waymark_export", 0);
    if (version == 0)
        throw error(
            errc::invalid_argument,
            "this is no export: neither Waymark's (\"waymark_export\": 1) nor an array of Breakpilot's");
    if (version > document_version)
        throw error(errc::unsupported_format, "the export has format " + std::to_string(version) +
                                                  ", this library knows " + std::to_string(document_version));
    reader.refuse_others({"waymark_export", "checkpoints", "pins", "steps"}, "an export has none such");

    std::vector<transfer_entry> entries;
    std::set<checkpoint_key> pins;
    const auto each = [&](std::string_view list, auto read) {
        const auto* found = reader.find(list);
        if (found == nullptr)
            return;
        if (!found->is_array())
            reader.fail(list, "must be an array");
        std::size_t index = 0;
        for (const auto& value : found->get_array()) {
            const auto where = std::string(list) + "[" + std::to_string(index++) + "]";
            try {
                read(value, where);
            } catch (const error& failure) {
                throw error(failure.code(), where + ": " + failure.details().message());
            }
        }
    };
    each("pins", [&](const json::value& value, const std::string&) {
        const detail::object_reader pin(value, "a pin");
        pins.emplace(pin.string("agent_id"), pin.string_or("scope", ""), pin.string("id"));
    });
    each("checkpoints", [&](const json::value& value, const std::string& where) {
        transfer_entry entry;
        entry.point = json::value_to<checkpoint>(value);
        entry.pinned = pins.contains(entry.point->key());
        entry.where = where;
        entries.push_back(std::move(entry));
    });
    each("steps", [&](const json::value& value, const std::string& where) {
        transfer_entry entry;
        entry.record = json::value_to<step>(value);
        entry.where = where;
        entries.push_back(std::move(entry));
    });
    return entries;
}

std::vector<transfer_entry> read_breakpilot(std::string_view text, const import_options& options,
                                            const limits& bounds)
{
    if (!options.agent())
        throw error(errc::invalid_argument,
                    "a Breakpilot export names no agent; say whose it is with import_options::as_agent");
    std::vector<transfer_entry> entries;
    std::optional<std::string> before;
    for (auto& value : checkpoints_from_breakpilot(text, *options.agent(), bounds)) {
        transfer_entry entry;
        entry.where = "entry " + std::to_string(entries.size());
        entry.point = value.with_parent(before); // it is one line of history
        before = value.id();
        entries.push_back(std::move(entry));
    }
    return entries;
}

} // namespace

transfer_result import_json(store& into, std::string_view text, const import_options& options)
{
    const auto bounds = into.bounds();
    if (text.size() > bounds.max_document_bytes())
        throw error(errc::invalid_argument, "the document is longer than limits::max_document_bytes (" +
                                                std::to_string(bounds.max_document_bytes()) +
                                                "); use JSON Lines");
    constexpr std::size_t envelope_depth = 9; // a checkpoint's, in an array, in an object
    std::vector<transfer_entry> entries;
    {
        const auto document = detail::parse_json(text, bounds.max_depth() + envelope_depth, "the export");
        entries = document.is_array() ? read_breakpilot(text, options, bounds) : read_document(document);
    }
    examination looked_at(into, options);
    for (auto entry : entries)
        looked_at.look_at(entry);
    importer imported(into, options);
    for (auto& entry : entries)
        imported.add(std::move(entry));
    return imported.finish();
}

transfer_result import_lines(store& into, std::istream& from, const import_options& options)
{
    const auto begin = from.tellg();
    if (begin == std::istream::pos_type(-1))
        throw error(errc::invalid_argument, "the input cannot be read twice; import from a file");
    {
        examination looked_at(into, options);
        detail::line_reader lines(from, into.bounds());
        while (auto entry = lines.next())
            looked_at.look_at(*entry);
    }
    from.clear();
    from.seekg(begin);
    importer imported(into, options);
    detail::line_reader lines(from, into.bounds());
    while (auto entry = lines.next())
        imported.add(std::move(*entry));
    return imported.finish();
}

namespace detail {

call<transfer_result> import_file_call(std::filesystem::path file, import_options options)
{
    return {job::kind::read, {}, [file = std::move(file), options = std::move(options)](store& into) {
                std::ifstream from(file, std::ios::binary);
                if (!from)
                    throw error(errc::io, detail::quoted(file.native()) + " cannot be opened");
                return import_lines(into, from, options);
            }};
}

} // namespace detail

} // namespace waymark
