#include "recorded_life.hpp"

#include "fast_folder.hpp"

namespace waymark::faults {

recorded_life::recorded_life(opener open)
    : open_(std::move(open)), folder_(std::make_unique<test::temporary_folder>(fast_folder()))
{
    disk_.emplace(folder_->path());
    disk_->record();
}

std::shared_ptr<store> recorded_life::open()
{
    auto opened = open_(folder_->path());
    for (const auto& value : opened->load_all(query::all_agents().oldest_first()))
        note({.what = ledger_entry::kind::saved,
              .key = value.key(),
              .content = content_of(value),
              .sequence = value.sequence()});
    return opened;
}

void recorded_life::kill()
{
    auto log = disk_->take_log();
    auto next = std::make_unique<test::temporary_folder>(fast_folder());
    log.write_visible(next->path());
    disk_.reset();
    folder_ = std::move(next);
    disk_.emplace(folder_->path());
    disk_->record(std::move(log));
}

void recorded_life::end()
{
    log_ = disk_->take_log();
    disk_.reset();
    folder_.reset();
}

void recorded_life::cut_power(std::size_t moment, std::mt19937_64& random,
                              const std::function<void(store&, const ledger&)>& look) const
{
    ledger notes;
    for (const auto& [place, entry] : entries_)
        if (place <= moment)
            notes.add(entry);
    const test::temporary_folder folder(fast_folder());
    log_.write_state(moment, random, folder.path());
    look(*open_(folder.path()), notes);
}

std::vector<std::string> recorded_life::cut_power(std::size_t moment, std::mt19937_64& random) const
{
    std::vector<std::string> wrong;
    try {
        cut_power(moment, random, [&](store& left, const ledger& notes) { wrong = notes.check(left); });
    } catch (const std::exception& failure) {
        wrong.emplace_back(failure.what());
    }
    return wrong;
}

namespace {

void make_copy(recorded_life& life, store& in)
{
    using kind = ledger_entry::kind;
    std::vector<ledger_entry> entries;
    for (auto& value : in.load_all(query("agent").oldest_first())) {
        value.with_agent(std::string(the_copy));
        entries.push_back({.what = kind::trying, .key = value.key(), .content = content_of(value)});
    }
    if (entries.empty())
        return;
    for (const auto& entry : entries)
        life.note(entry);
    for (auto& record : in.load_steps(step_query("agent"))) {
        record.with_agent(std::string(the_copy));
        life.note({.what = kind::trying_step,
                   .key = {record.agent_id(), record.scope(), record.key()},
                   .content = content_of(record)});
    }
    in.copy_agent("agent", the_copy);
    for (auto& entry : entries) {
        entry.what = kind::saved;
        life.note(entry);
    }
}

void erase_copy(recorded_life& life, store& in)
{
    using kind = ledger_entry::kind;
    std::vector<checkpoint_key> keys;
    for (const auto& header : in.list(query(std::string(the_copy))))
        keys.push_back(header.key());
    for (const auto& key : keys)
        life.note({.what = kind::removing, .key = key});
    in.erase_agent(the_copy);
    for (const auto& key : keys)
        life.note({.what = kind::removed, .key = key});
    in.sweep(the_copy);
}

void copy_or_erase(recorded_life& life, store& in)
{
    if (in.load_steps(step_query(std::string(the_copy))).empty() &&
        in.count(query(std::string(the_copy))) == 0)
        make_copy(life, in);
    else
        erase_copy(life, in);
}

} // namespace

void live_by_chance(recorded_life& life, std::uint64_t seed)
{
    std::mt19937_64 random(seed);
    for (auto openings = 1 + random() % 3; openings > 0; --openings) {
        const auto opened = life.open();
        writer by_chance(*opened, "agent", random(), [&](const ledger_entry& entry) { life.note(entry); });
        by_chance.resume();
        for (auto operations = 2 + random() % 8; operations > 0; --operations) {
            by_chance.act();
            if (random() % 5 == 0)
                copy_or_erase(life, *opened);
        }
        if (random() % 3 == 0)
            opened->compact();
        if (random() % 2 == 0)
            life.kill();
    }
    life.end();
}

} // namespace waymark::faults
