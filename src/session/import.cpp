#include "../store/conditions.hpp"
#include "../values/json_document.hpp"
#include "../values/text.hpp"
#include "transfer_lines.hpp"

#include <waymark/detail/session_calls.hpp>
#include <waymark/transfer.hpp>

#include <boost/json/array.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <span>

namespace waymark {

namespace json = boost::json;
using detail::transfer_entry;

import_options& import_options::as_agent(std::string agent_id)
{
    validate_id(agent_id, "the agent id");
    agent_ = std::move(agent_id);
    return *this;
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

// How much is looked up, and written in one transaction, at a time: so that other writers wait some
// milliseconds, and not for the import.
constexpr std::size_t most_at_a_time = 128;
constexpr std::size_t about_bytes_at_a_time = 500'000;

//! Checkpoints of the input that are looked up and written together.
class entry_page {
public:
    void add(transfer_entry entry)
    {
        // Only what is new counts: a long conversation stands in memory once, and is stored once.
        const auto& value = *entry.point;
        auto shared = value.conversation();
        const auto* before = last_.find(value.agent_id(), value.scope());
        shared.truncate(before == nullptr ? 0 : shared.shared_prefix(before->conversation()));
        bytes_ += value.bytes_besides_conversation() + value.conversation().bytes() - shared.bytes();
        last_.put(value);
        entries_.push_back(std::move(entry));
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
    const std::vector<transfer_entry>& entries() const noexcept { return entries_; }

private:
    std::vector<transfer_entry> entries_;
    std::size_t bytes_ = 0;
    detail::last_checkpoints last_; // also of pages before
};

//! What the store has under a key of the input.
struct counterpart {
    enum class kind { absent, same, different, unreadable };

    kind is = kind::absent;
    std::string damage = {}; // of what is unreadable
};

//! Looks up what the store has under the keys of the input, page by page. What was found equal is remembered:
//! the next checkpoint of a history is compared where it goes on.
class stored_checkpoints {
public:
    explicit stored_checkpoints(store& in) : store_(in) {}

    //! One for each entry.
    std::vector<counterpart> look_up(std::span<const transfer_entry> entries)
    {
        constexpr std::size_t about_bytes = 16'000'000;
        std::vector<checkpoint_key> keys;
        for (const auto& entry : entries)
            keys.push_back(entry.point->key());
        std::vector<counterpart> result;
        while (result.size() < keys.size()) {
            const auto rest = std::span(keys).subspan(result.size());
            const auto found = store_.load_some(rest, earlier(rest), about_bytes);
            detail::require_some_outcomes(found.size(), rest.size());
            for (const auto& next : found)
                result.push_back(compare(entries[result.size()], next));
        }
        // A history goes on with the next page; those of other agents are over.
        if (!entries.empty())
            std::erase_if(last_, [&](const auto& pair) {
                return pair.first.first != entries.back().point->agent_id();
            });
        return result;
    }

private:
    //! Two checkpoints that begin with so many equal messages.
    struct compared {
        conversation wanted;
        checkpoint stored;
        std::size_t equal = 0;
    };
    using place = std::pair<std::string, std::string>; // agent, scope

    std::vector<checkpoint> earlier(std::span<const checkpoint_key> keys) const
    {
        std::set<place> places;
        std::vector<checkpoint> result;
        for (const auto& key : keys)
            if (const auto [here, is_new] = places.emplace(key.agent_id(), key.scope()); is_new)
                if (const auto known = last_.find(*here); known != last_.end())
                    result.push_back(known->second.stored);
        return result;
    }

    counterpart compare(const transfer_entry& entry, const load_outcome& found)
    {
        if (found.code() == errc::corrupt)
            return {counterpart::kind::unreadable, found.details().message()};
        if (found.code())
            throw error(found.code(), entry.where + ": " + found.details().message());
        if (!found.value())
            return {};
        const auto& wanted = *entry.point;
        const auto& stored = *found.value();
        const auto equal = count_equal(wanted, stored);
        const bool is_same = equal == wanted.conversation().size() && equal == stored.conversation().size() &&
                             without_messages(wanted) == without_messages(stored);
        last_.insert_or_assign({wanted.agent_id(), wanted.scope()},
                               compared{wanted.conversation(), stored, equal});
        return {is_same ? counterpart::kind::same : counterpart::kind::different};
    }

    std::size_t count_equal(const checkpoint& wanted, const checkpoint& stored) const
    {
        const auto& left = wanted.conversation();
        const auto& right = stored.conversation();
        std::size_t equal = 0;
        if (const auto known = last_.find({wanted.agent_id(), wanted.scope()}); known != last_.end())
            equal = std::min({known->second.equal, left.shared_prefix(known->second.wanted),
                              right.shared_prefix(known->second.stored.conversation())});
        while (equal < left.size() && equal < right.size() && left[equal] == right[equal])
            ++equal;
        return equal;
    }

    static checkpoint without_messages(checkpoint value)
    {
        auto chat = value.conversation();
        chat.clear();
        return std::move(value).with_conversation(std::move(chat));
    }

    store& store_;
    std::map<place, compared> last_;
};

//! The pins that the store has, of one agent at a time.
class stored_pins {
public:
    explicit stored_pins(store& in) : store_(in) {}

    bool may_contain(const checkpoint_key& key)
    {
        if (agent_id_ != key.agent_id())
            read(key.agent_id());
        return pins_.contains(key);
    }

private:
    void read(const std::string& agent_id)
    {
        constexpr std::size_t headers_at_a_time = 1'000;
        pins_.clear();
        agent_id_ = agent_id;
        auto wanted = query(agent_id).oldest_first().limit(headers_at_a_time);
        for (;;) {
            const auto headers = store_.list(wanted);
            for (const auto& header : headers)
                if (header.pinned() || header.damage()) // which does not tell
                    pins_.insert(header.key());
            if (headers.size() < headers_at_a_time)
                return;
            wanted.after(cursor(headers.back()));
        }
    }

    store& store_;
    std::optional<std::string> agent_id_;
    std::set<checkpoint_key> pins_;
};

//! The steps that the store has, of one agent at a time.
class stored_steps {
public:
    explicit stored_steps(store& in) : store_(in) {}

    std::optional<step> find(const step& wanted)
    {
        if (agent_id_ != wanted.agent_id())
            read(wanted.agent_id());
        if (!are_known_)
            return detail::find_step(store_, wanted);
        const auto found = steps_.find({wanted.scope(), wanted.key()});
        return found == steps_.end() ? std::nullopt : std::optional(found->second);
    }

private:
    void read(const std::string& agent_id)
    {
        steps_.clear();
        agent_id_ = agent_id;
        are_known_ = true;
        try {
            for (auto& record : store_.load_steps(step_query(agent_id))) {
                std::pair key(record.scope(), record.key());
                steps_.emplace(std::move(key), std::move(record));
            }
        } catch (const error& failure) {
            if (failure.code() != errc::corrupt)
                throw;
            are_known_ = false; // one of them is damaged, perhaps none of the input's
        }
    }

    store& store_;
    std::optional<std::string> agent_id_;
    bool are_known_ = false;
    std::map<std::pair<std::string, std::string>, step> steps_; // by scope and key
};

[[noreturn]] void fail_exists(const transfer_entry& entry)
{
    const auto& agent_id = entry.point ? entry.point->agent_id() : entry.record->agent_id();
    throw error(errc::conflict,
                entry.where + ": " +
                    (entry.point ? "checkpoint " + detail::quoted(entry.point->id())
                                 : "step " + detail::quoted(entry.record->key())) +
                    " of agent " + detail::quoted(agent_id) +
                    " exists with other content; existing::skip leaves it as it is, existing::replace "
                    "writes over it");
}

//! For `existing::fail`.
void require_no_other(const transfer_entry& entry, const counterpart& found)
{
    if (found.is == counterpart::kind::different)
        fail_exists(entry);
    if (found.is == counterpart::kind::unreadable)
        throw error(errc::corrupt, entry.where + ": " + found.damage);
}

//! Everything that can be said against the input, before anything is written.
class examination {
public:
    examination(store& into, const import_options& options)
        : options_(options),
          bounds_(into.bounds()),
          names_(options.agent()),
          stored_(into),
          stored_steps_(into)
    {
    }

    void look_at(transfer_entry entry)
    {
        names_.apply(entry);
        try {
            if (entry.point)
                look_at(*entry.point);
            else
                look_at(*entry.record);
        } catch (const error& failure) {
            if (failure.code() != errc::invalid_argument)
                throw;
            throw error(failure.code(), entry.where + ": " + failure.details().message());
        }
        if (options_.when_exists() != existing::fail)
            return;
        if (entry.point) {
            page_.add(std::move(entry));
            if (page_.is_full())
                compare_page();
            return;
        }
        compare_page(); // the first line that is wrong is named
        if (const auto found = stored_steps_.find(*entry.record); found && !(*found == *entry.record))
            fail_exists(entry);
    }

    void finish() { compare_page(); }

private:
    void look_at(const checkpoint& value)
    {
        validate(value, bounds_);
        if (!ids_.insert(value.key()).second)
            throw error(errc::invalid_argument,
                        "checkpoint " + detail::quoted(value.id()) + " stands here a second time");
    }

    void look_at(const step& record)
    {
        validate(record, bounds_);
        if (!steps_.insert(checkpoint_key(record.agent_id(), record.scope(), record.key())).second)
            throw error(errc::invalid_argument,
                        "step " + detail::quoted(record.key()) + " stands here a second time");
    }

    void compare_page()
    {
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

    void add(transfer_entry entry)
    {
        names_.apply(entry);
        if (entry.record) {
            write_checkpoints(); // what it was made on
            step_bytes_ += entry.record->bytes();
            steps_.push_back(std::move(entry));
            if (steps_.size() >= most_at_a_time || step_bytes_ >= about_bytes_at_a_time)
                write_steps();
            return;
        }
        write_steps();
        page_.add(std::move(entry));
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
            const auto& entry = entries[positions[i]];
            if (outcomes[i].code() == errc::conflict && options_.when_exists() == existing::skip) {
                ++skipped_;
                continue;
            }
            if (outcomes[i].code())
                throw error(outcomes[i].code(), entry.where + ": " + outcomes[i].details().message());
            ++(outcomes[i].value().bytes_written() > 0 ? checkpoints_ : skipped_);
            set_pin(entry);
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
            const auto rest = batch.subspan(all.size());
            const auto some =
                std::clamp<std::size_t>(about_bytes_at_a_time / bytes_of_a_save_, 1, rest.size());
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

    void set_pin(const transfer_entry& entry)
    {
        const auto& key = entry.point->key();
        // To take away what is not there would be a transaction for each checkpoint.
        if (entry.pinned || (replaces() && stored_pins_.may_contain(key)))
            store_.pin(key.agent_id(), key.scope(), key.id(), entry.pinned);
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
        const auto outcomes = batch.empty() ? std::vector<step_outcome>() : store_.put_steps(batch);
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
    std::vector<transfer_entry> steps_;
    std::size_t step_bytes_ = 0;
    std::uint64_t bytes_of_a_save_ = about_bytes_at_a_time / 16; // the most of the last ones
    std::uint64_t checkpoints_ = 0;
    std::uint64_t written_steps_ = 0;
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
    for (const auto& entry : entries)
        looked_at.look_at(entry);
    looked_at.finish();
    importer imported(into, options);
    for (auto& entry : entries)
        imported.add(std::move(entry));
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
        examination looked_at(into, options);
        detail::line_reader lines(from, into.bounds());
        while (auto entry = lines.next())
            looked_at.look_at(std::move(*entry));
        looked_at.finish();
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
