#include "writer.hpp"

#include <algorithm>

namespace waymark::faults {

writer::writer(store& to, std::string agent_id, std::uint64_t seed, note_taker note)
    : store_(to),
      agent_id_(std::move(agent_id)),
      life_(std::to_string(seed)),
      random_(seed),
      note_(std::move(note))
{
}

void writer::resume()
{
    if (const auto head = store_.load_latest(agent_id_)) {
        chat_ = head->conversation();
        head_ = head->id();
        iteration_ = head->iteration();
    }
}

void writer::forget()
{
    recent_.clear();
    head_.reset();
    chat_ = {};
}

void writer::act()
{
    switch (random_() % 16) {
    case 0:
        return replace();
    case 1:
    case 2:
        return record_step();
    case 3:
        return prune();
    case 4:
        return erase();
    case 5:
    case 6:
        return save_batch();
    default:
        return save();
    }
}

checkpoint writer::next_checkpoint()
{
    ++iteration_;
    if (one_in(12))
        chat_.truncate(random_() % (chat_.size() + 1));
    for (auto left = random_() % 3; left > 0; --left)
        chat_.push(message::user("turn " + std::to_string(iteration_) + " " +
                                 std::string(random_() % (one_in(10) ? 9000 : 300), 'x')));
    auto next = checkpoint(agent_id_, chat_, iteration_)
                    .with_id(life_ + "-" + std::to_string(iteration_))
                    .with_parent(head_);
    if (one_in(4))
        next.with_scope("side");
    if (one_in(4))
        next.with_name(one_in(2) ? "start" : "end");
    if (one_in(3))
        next.with_state({{"n", iteration_}, {"file", std::string(one_in(2) ? 3000 : 20, 'f')}});
    return next;
}

void writer::save(const std::vector<save_request>& batch)
{
    using kind = ledger_entry::kind;
    for (const auto& request : batch)
        note_({.what = kind::trying,
               .key = request.checkpoint().key(),
               .content = content_of(request.checkpoint())});
    const auto outcomes = store_.save(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto& done = outcomes[i].value_or_throw();
        const auto& saved = batch[i].checkpoint();
        note_({.what = kind::saved,
               .key = saved.key(),
               .content = content_of(saved),
               .sequence = done.sequence()});
        std::erase_if(recent_, [&](const auto& other) { return other.key() == saved.key(); });
        recent_.push_back(saved);
        if (saved.scope().empty())
            head_ = saved.id();
    }
    if (recent_.size() > 6)
        recent_.erase(recent_.begin());
}

void writer::save()
{
    save({save_request(next_checkpoint())});
}

void writer::save_batch()
{
    std::vector<save_request> batch;
    for (auto left = 2 + random_() % 3; left > 0; --left)
        batch.emplace_back(next_checkpoint());
    save(batch);
}

void writer::replace()
{
    if (recent_.empty())
        return save();
    auto again = recent_[random_() % recent_.size()];
    again.with_metadata("again", iteration_);
    save({save_request(again)});
}

void writer::record_step()
{
    using kind = ledger_entry::kind;
    step record(agent_id_, "", "step-" + std::to_string(random_() % 5));
    record.with_started_at(timestamp(std::chrono::hours(400'000)));
    if (one_in(2))
        record.with_result("done in life " + life_ + ", " + std::to_string(iteration_));
    const ledger_entry entry{
        .what = kind::trying_step, .key = {agent_id_, "", record.key()}, .content = content_of(record)};
    note_(entry);
    const std::vector<step_request> batch = {step_request(record)};
    store_.put_steps(batch).at(0).value_or_throw();
    auto done = entry;
    done.what = kind::step_saved;
    note_(done);
}

void writer::remove(const std::vector<checkpoint_key>& keys, const std::function<void()>& action)
{
    for (const auto& key : keys)
        note_({.what = ledger_entry::kind::removing, .key = key});
    action();
    for (const auto& key : keys) {
        note_({.what = ledger_entry::kind::removed, .key = key});
        std::erase_if(recent_, [&](const auto& other) { return other.key() == key; });
    }
}

void writer::prune()
{
    const auto policies = retention{}.keep_last(3 + random_() % 5);
    const auto goes = store_.prune(agent_id_, policies, dry_run::yes).removed();
    remove(goes, [&] { store_.prune(agent_id_, policies, dry_run::no); });
}

void writer::erase()
{
    // Not the last of its scope: the steps would go along.
    std::vector<checkpoint_key> older;
    for (auto it = recent_.begin(); it != recent_.end(); ++it)
        if (std::any_of(it + 1, recent_.end(),
                        [&](const auto& later) { return later.scope() == it->scope(); }))
            older.push_back(it->key());
    if (older.empty())
        return save();
    const auto key = older[random_() % older.size()];
    remove({key}, [&] { store_.erase(key.agent_id(), key.scope(), key.id()); });
}

} // namespace waymark::faults
