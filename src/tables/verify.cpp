#include "verify.hpp"

#include "../values/text.hpp"
#include "body.hpp"
#include "checkpoints.hpp"
#include "checksums.hpp"
#include "digest.hpp"
#include "large_parts.hpp"
#include "steps.hpp"
#include "transactions.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace waymark::tables {

using detail::quoted;

namespace {

constexpr std::uint64_t rows_between_reports = 512;

class verification {
public:
    explicit verification(const upkeep_control& control) : control_(&control) {}

    void begin(std::uint64_t total) { done_.total = total; }

    void count_one()
    {
        if (++done_.done % rows_between_reports != 0)
            return;
        control_->require_wanted();
        if (done_.done < done_.total)
            control_->report(done_);
    }

    void report(checkpoint_key key, std::string what)
    {
        damages_.push_back({std::move(key), std::move(what)});
    }

    verify_report end()
    {
        done_.total = done_.done; // what came and went while we looked
        control_->report(done_);
        return {done_.done, std::move(damages_)};
    }

private:
    const upkeep_control* control_;
    upkeep_progress done_;
    std::vector<verify_report::damage> damages_;
};

//! One agent, as one view shows it.
class agent_verification {
public:
    agent_verification(transaction& from, const agent_row& agent, verification& to)
        : tables_(from), agent_(agent), out_(to)
    {
    }

    void run()
    {
        if (!is_intact(agent_))
            out_.report({agent_.id, {}, {}}, "the checksum of the agent's record differs");
        read_objects();
        read_messages(); // whose large parts are objects
        const auto scopes = tables_.scopes_of(agent_.number);
        if (static_cast<std::int64_t>(scopes.size()) != agent_.scopes)
            out_.report({agent_.id, {}, {}}, "the agent should have " + std::to_string(agent_.scopes) +
                                                 " scopes and has " + std::to_string(scopes.size()));
        for (const auto& scope : scopes)
            scopes_.emplace(scope.scope, counted{scope, {}, 0, 0});
        check_checkpoints();
        check_steps();
        check_scopes();
    }

private:
    struct counted {
        scope_row record;
        std::int64_t head = 0;
        std::int64_t checkpoints = 0;
        std::int64_t steps = 0;
    };

    //! By number, in the order in which they are read: in one piece of memory, however many there are.
    template <class Value>
    using numbered = std::vector<std::pair<std::int64_t, Value>>;

    //! Not what damaged rows have twice.
    template <class Value>
    static void add(numbered<Value>& to, std::int64_t number, const Value& value)
    {
        if (to.empty() || to.back().first < number)
            to.emplace_back(number, value);
    }
    template <class Value>
    static const Value* find(const numbered<Value>& in, std::int64_t number)
    {
        const auto found = std::lower_bound(
            in.begin(), in.end(), number, [](const auto& pair, auto wanted) { return pair.first < wanted; });
        return found == in.end() || found->first != number ? nullptr : &found->second;
    }

    void read_messages()
    {
        const extent everything{0, std::numeric_limits<std::int64_t>::max()};
        tables_.read_messages(
            agent_.number, std::span(&everything, 1), [this](std::size_t, message_row&& row) {
                out_.count_one();
                if (row.count() == 0)
                    out_.report({agent_.id, {}, {}}, "a row of messages has lost their hashes");
                const auto damaged_before = damaged_messages_.size();
                try {
                    row_parts parts(row);
                    split_row(row, [&](std::int64_t number, std::string_view line, std::string_view stored) {
                        const auto value = sha256(line);
                        if (view(value) != stored)
                            damaged_messages_.emplace(number, "is damaged (its stored hash differs)");
                        else if (const auto lost = lost_part(stored_line(line), parts))
                            damaged_messages_.emplace(number, "has lost a large part (stored object " +
                                                                  std::to_string(*lost) +
                                                                  " is missing or damaged)");
                        else
                            add(messages_, number, value);
                    });
                    parts.require_end();
                    // Loads look at each hash then, and work.
                    if (row.count() > 0 && has_checksum(row) && !is_intact(row) &&
                        damaged_messages_.size() == damaged_before)
                        out_.report({agent_.id, {}, {}}, "the checksum of the row that begins with message " +
                                                             std::to_string(row.first) +
                                                             " differs; the messages themselves are intact");
                } catch (const error& failure) {
                    for (auto number = row.first; number < row.numbers().end(); ++number)
                        damaged_messages_.emplace(number, "is damaged (" + failure.details().message() + ")");
                }
            });
    }

    //! An object that should hold a large part of that message, and does not.
    std::optional<std::int64_t> lost_part(const stored_line& line, row_parts& parts) const
    {
        const auto numbers = parts.take(line);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const auto* const found = find(objects_, numbers[i]);
            if (found == nullptr || *found != reference_check(line.holes()[i].hash))
                return numbers[i];
        }
        return std::nullopt;
    }

    void read_objects()
    {
        tables_.scan_objects(agent_.number, [this](object_row&& row) {
            out_.count_one();
            if (view(sha256(row.body)) == row.hash)
                add(objects_, row.number, reference_check(row.hash));
            return true;
        });
    }

    void check_checkpoints()
    {
        tables_.scan_checkpoints(agent_.number, {}, [this](checkpoint_row&& row) {
            out_.count_one();
            auto& scope = scopes_[row.scope];
            ++scope.checkpoints;
            scope.head = std::max(scope.head, row.sequence);
            try {
                check(row);
            } catch (const error& failure) {
                if (failure.code() != errc::corrupt)
                    throw;
                out_.report({agent_.id, row.scope, row.id}, failure.details().message());
            }
            return true;
        });
    }

    void check(const checkpoint_row& row)
    {
        if (!is_intact(row))
            throw error(errc::corrupt, "the checksum of its row differs");
        const auto needed = read_references(row.body, tables_, agent_.number, groups_);
        for (const auto& object : needed.objects) {
            const auto* const found = find(objects_, object.number);
            if (found == nullptr || *found != object.check)
                throw error(errc::corrupt,
                            "stored object " + std::to_string(object.number) + " is missing or damaged");
        }
        if (needed.messages.size() != row.messages)
            throw error(errc::corrupt, "it holds another number of messages than it should");
        if (view(chain_of(needed.messages)) != row.chain)
            throw error(errc::corrupt, "the hash of its conversation differs");
    }

    //! The digest of a conversation. What it shares with the one before is not computed again.
    digest chain_of(const extent_list& messages)
    {
        const auto common = last_.common_prefix(messages);
        last_ = last_.truncated(common);
        chains_.resize(static_cast<std::size_t>(common));
        auto running = chains_.empty() ? digest{} : chains_.back();
        std::int64_t position = 0;
        for (const auto& range : messages.all()) {
            for (auto number = range.first + std::clamp<std::int64_t>(common - position, 0, range.count);
                 number < range.end(); ++number) {
                const auto* const found = find(messages_, number);
                const auto damage = damaged_messages_.find(number);
                if (found == nullptr || damage != damaged_messages_.end())
                    throw error(errc::corrupt,
                                "stored message " + std::to_string(number) + " " +
                                    (damage == damaged_messages_.end() ? "is missing" : damage->second));
                running = chain(running, *found);
                chains_.push_back(running);
                last_.append({number, 1});
            }
            position += range.count;
        }
        return running;
    }

    void check_steps()
    {
        tables_.scan_steps(agent_.number, std::nullopt, [this](step_row&& row) {
            out_.count_one();
            ++scopes_[row.scope].steps;
            try {
                read_step(row, agent_);
            } catch (const error& failure) {
                out_.report({agent_.id, row.scope, {}}, failure.details().message());
            }
            return true;
        });
    }

    void check_scopes()
    {
        for (const auto& [name, seen] : scopes_) {
            const auto report = [&, &scope_name = name](const std::string& what) {
                out_.report({agent_.id, scope_name, {}}, what);
            };
            if (seen.record.agent == 0)
                report("the record of the scope is missing");
            else if (!is_intact(seen.record))
                report("the checksum of the scope's record differs");
            else if (seen.record.checkpoints != seen.checkpoints || seen.record.head != seen.head)
                report("the scope should have " + std::to_string(seen.record.checkpoints) +
                       " checkpoints and has " + std::to_string(seen.checkpoints) +
                       ", or its newest is another");
            else if (seen.record.steps != seen.steps)
                report("the scope should have " + std::to_string(seen.record.steps) + " steps and has " +
                       std::to_string(seen.steps));
        }
    }

    transaction& tables_;
    const agent_row& agent_;
    verification& out_;
    numbered<digest> messages_;
    std::unordered_map<std::int64_t, std::string> damaged_messages_;
    numbered<std::uint64_t> objects_;
    object_map groups_;
    std::map<std::string, counted> scopes_;
    extent_list last_;
    std::vector<digest> chains_;
};

//! Verifies the agent behind that one. Returns its id, none if there are no more.
std::optional<std::string> verify_next(transaction& from, const std::string& last, verification& found)
{
    const auto next = from.agents_after(last, 1);
    if (next.empty())
        return std::nullopt;
    const auto& id = next.front().id;
    if (id <= last) { // nothing is behind it, and it would be found for ever
        found.report({id, {}, {}}, "the id of the agent is damaged: it is out of order");
        return std::nullopt;
    }
    try {
        agent_verification(from, next.front(), found).run();
    } catch (const error& failure) { // a page that cannot be read; the other agents follow
        if (failure.code() != errc::corrupt)
            throw;
        found.report({id, {}, {}}, failure.details().message());
    }
    return id;
}

} // namespace

verify_report verify(database& in, const upkeep_control& control)
{
    verification result(control);
    const auto [rows, complaints] = read(in, {}, [&](transaction& from) {
        const auto all = from.count_all();
        const auto rows_about = all.checkpoints + all.steps + from.estimate_content();
        return std::pair(rows_about, from.check_structure(control));
    });
    result.begin(rows);
    for (const auto& complaint : complaints)
        result.report({}, complaint);
    for (std::optional<std::string> last = ""; last;) {
        control.require_wanted();
        auto looked_at = read(in, {}, [&](transaction& from) {
            verification so_far = result; // what was found before a view was lost is found again
            auto next = verify_next(from, *last, so_far);
            return std::pair(std::move(next), std::move(so_far));
        });
        last = std::move(looked_at.first);
        result = std::move(looked_at.second);
    }
    return result.end();
}

} // namespace waymark::tables
