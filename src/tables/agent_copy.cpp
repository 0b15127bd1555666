#include "agent_copy.hpp"

#include "../store/request_checks.hpp"
#include "../values/text.hpp"
#include "agent_records.hpp"
#include "checkpoints.hpp"
#include "checksums.hpp"
#include "retention_sweep.hpp"
#include "transactions.hpp"

#include <waymark/checkpoint.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace waymark::tables {

namespace {

// What one transaction copies: some milliseconds.
constexpr std::int64_t bytes_per_transaction = std::int64_t{256} * 1024;

//! One attempt. The origin may be saved to meanwhile: rows are only added then, and what came after the
//! beginning is not part of the copy. If one was replaced or removed, the attempt is in vain.
class copy_attempt {
public:
    copy_attempt(database& in, std::string_view from, std::string_view to, const upkeep_control& control)
        : database_(in), from_(from), to_(to), control_(control)
    {
    }

    //! None if the origin was changed under it.
    std::optional<std::uint64_t> run()
    {
        look_at_origin();
        require_free_target();
        hidden_ = write(database_, {}, [&](transaction& in) { return in.add_hidden_agent(to_, time()); });
        try {
            copy_messages();
            copy_objects();
            copy_checkpoints();
            copy_steps();
            put_scopes();
            if (publish())
                return checkpoints_;
        } catch (...) {
            discard();
            throw;
        }
        discard();
        return std::nullopt;
    }

private:
    static std::int64_t time() { return to_number(now()); }

    template <class Body>
    auto look(Body body)
    {
        return read(database_, agent_ids(&from_, 1), [&](transaction& in) {
            const auto agent = in.find_agent(from_);
            if (!agent || agent->number != origin_.number)
                throw error(errc::busy, "agent " + detail::quoted(from_) + " was erased while it was copied");
            return body(in);
        });
    }

    //! A transaction that adds rows to the copy.
    template <class Body>
    void add(Body body)
    {
        write(database_, {}, [&](transaction& in) {
            if (!in.keep_hidden_agent(hidden_, time()))
                fail_condemned();
            body(in);
        });
        control_.report(progress_);
        control_.give_way();
    }

    [[noreturn]] void fail_condemned() const
    {
        throw error(errc::busy,
                    "the copy of agent " + detail::quoted(from_) +
                        " stood still for so long that another process has removed it; try again");
    }

    void look_at_origin()
    {
        read(database_, agent_ids(&from_, 1), [&](transaction& in) {
            const auto found = intact_agent(in.find_agent(from_));
            scopes_ = found ? in.scopes_of(found->number) : std::vector<scope_row>();
            if (scopes_.empty())
                detail::fail_nothing_to_copy(from_);
            origin_ = *found;
        });
        for (const auto& scope : scopes_) {
            intact_scope(scope);
            checkpoints_ += static_cast<std::uint64_t>(scope.checkpoints);
            progress_.total += static_cast<std::uint64_t>(1 + scope.checkpoints + scope.steps);
        }
    }

    void require_free_target()
    {
        read(database_, agent_ids(&to_, 1), [&](transaction& in) {
            if (const auto target = intact_agent(in.find_agent(to_));
                target && !in.scopes_of(target->number).empty())
                detail::fail_copy_onto(to_);
        });
    }

    void copy_messages()
    {
        struct chunk {
            extent numbers;
            std::int64_t bytes = 0;
        };
        std::vector<chunk> chunks;
        look([&](transaction& in) {
            chunks.clear();
            const extent all{1, origin_.next_message - 1};
            in.message_sizes(
                origin_.number, std::span(&all, 1), [&](std::size_t, transaction::message_size row) {
                    if (chunks.empty() || chunks.back().bytes + row.bytes > bytes_per_transaction)
                        chunks.push_back({row.numbers, 0});
                    auto& last = chunks.back();
                    last.numbers.count = row.numbers.end() - last.numbers.first;
                    last.bytes += row.bytes;
                });
        });
        progress_.total += chunks.size();
        for (const auto& next : chunks) {
            std::vector<message_row> rows;
            look([&](transaction& in) {
                rows.clear();
                in.read_messages(origin_.number, std::span(&next.numbers, 1),
                                 [&](std::size_t, message_row&& row) { rows.push_back(std::move(row)); });
            });
            ++progress_.done;
            add([&](transaction& in) {
                for (auto& row : rows) {
                    row.agent = hidden_.number;
                    in.insert_messages(row);
                }
            });
        }
    }

    void copy_objects()
    {
        std::vector<std::vector<std::int64_t>> chunks;
        look([&](transaction& in) {
            chunks.clear();
            std::int64_t bytes = 0;
            in.object_sizes(origin_.number, [&](transaction::object_size&& row) {
                if (row.number >= origin_.next_object)
                    return true;
                if (chunks.empty() || bytes + row.bytes > bytes_per_transaction) {
                    chunks.emplace_back();
                    bytes = 0;
                }
                chunks.back().push_back(row.number);
                bytes += row.bytes;
                return true;
            });
        });
        progress_.total += chunks.size();
        for (const auto& numbers : chunks) {
            std::vector<object_row> rows;
            look([&](transaction& in) {
                rows.clear();
                in.read_objects(origin_.number, numbers, [&](object_row&& row) {
                    rows.push_back(std::move(row));
                    return true;
                });
            });
            ++progress_.done;
            add([&](transaction& in) {
                for (auto& row : rows) {
                    row.agent = hidden_.number;
                    in.insert_object(row);
                }
            });
        }
    }

    //! Writes these rows in as many transactions as it takes.
    template <class Row, class Put>
    void add_rows(std::vector<Row>& rows, Put put)
    {
        for (std::size_t at = 0; at < rows.size();) {
            std::size_t next = at;
            add([&](transaction& in) {
                const transaction_budget budget(in);
                const auto end = std::min(rows.size(), at + rows_per_transaction);
                for (next = at; next < end && (next == at || !budget.is_spent()); ++next)
                    put(in, rows[next]);
            });
            progress_.done += next - at;
            at = next;
        }
    }

    //! A damaged row is copied as it is: sealing it anew would hide the damage.
    template <class Row>
    Row moved(Row row) const
    {
        const bool intact = is_intact(row);
        row.agent = hidden_.number;
        return intact ? seal(row) : row;
    }

    void copy_checkpoints()
    {
        scan_range range;
        range.below = origin_.last_sequence + 1;
        for (;;) {
            std::vector<checkpoint_row> rows;
            look([&](transaction& in) {
                rows.clear();
                in.scan_checkpoints(origin_.number, range, [&](checkpoint_row&& row) {
                    rows.push_back(std::move(row));
                    return rows.size() < rows_per_transaction;
                });
            });
            if (rows.empty())
                return;
            range.above = rows.back().sequence;
            add_rows(rows,
                     [&](transaction& in, const checkpoint_row& row) { in.insert_checkpoint(moved(row)); });
        }
    }

    void copy_steps()
    {
        std::vector<step_row> rows;
        look([&](transaction& in) {
            rows.clear();
            in.scan_steps(origin_.number, std::nullopt, [&](step_row&& row) {
                if (row.made_on <= origin_.last_sequence) // otherwise on a checkpoint that is not copied
                    rows.push_back(std::move(row));
                return true;
            });
        });
        for (const auto& row : rows)
            ++steps_[row.scope];
        add_rows(rows, [&](transaction& in, const step_row& row) { in.put_step(moved(row)); });
    }

    //! As they were in the beginning: if a row is missing, it is missing in the copy, too, and is noticed.
    void put_scopes()
    {
        add_rows(scopes_, [&](transaction& in, scope_row row) {
            row.agent = hidden_.number;
            in.put_scope(seal(row));
        });
    }

    //! Steps may have been begun and ended by others meanwhile: then the copy has those that were read.
    void put_counts_of_steps(transaction& in)
    {
        for (auto row : scopes_) {
            if (row.steps == steps_[row.scope])
                continue;
            row.agent = hidden_.number;
            row.steps = steps_[row.scope];
            in.put_scope(seal(row));
        }
    }

    bool publish()
    {
        control_.require_wanted();
        const std::string_view both[] = {from_, to_};
        const bool is_published = write(database_, both, [&](transaction& in) {
            const auto agent = intact_agent(in.find_agent(from_));
            if (!agent || agent->number != origin_.number || agent->changes != origin_.changes ||
                agent->sweeps != origin_.sweeps)
                return false;
            const auto target = intact_agent(in.find_agent(to_));
            if (target && !in.scopes_of(target->number).empty())
                detail::fail_copy_onto(to_);
            if (!in.keep_hidden_agent(hidden_, time()))
                fail_condemned();
            auto copy = origin_;
            if (target) {
                // It was there once: its sequences are not used again. Its rows may still wait to be swept.
                copy.last_sequence = std::max(copy.last_sequence, target->last_sequence);
                in.erase_agent(*target);
            }
            if (agent->stamp != origin_.stamp)
                put_counts_of_steps(in);
            copy.number = hidden_.number;
            copy.id = to_;
            copy.stamp = new_mark();
            in.publish_agent(hidden_, seal(copy));
            return true;
        });
        if (is_published)
            control_.report({progress_.total, progress_.total});
        return is_published;
    }

    //! What cannot be removed now is removed by a sweep, when it has been left alone for long enough.
    void discard() noexcept
    {
        try {
            remove_erased(database_, hidden_, {});
        } catch (...) { // NOLINT(bugprone-empty-catch): see above
        }
    }

    database& database_;
    const std::string_view from_;
    const std::string_view to_;
    const upkeep_control& control_;
    agent_row origin_; // as it was in the beginning
    std::vector<scope_row> scopes_;
    std::map<std::string, std::int64_t> steps_; // that were copied, by scope
    std::uint64_t checkpoints_ = 0;
    erased_agent hidden_;
    upkeep_progress progress_;
};

} // namespace

std::uint64_t copy_agent(database& in, std::string_view from, std::string_view to,
                         const upkeep_control& control)
{
    constexpr int most_attempts = 5;
    for (int attempt = 0; attempt < most_attempts; ++attempt)
        if (const auto copied = copy_attempt(in, from, to, control).run())
            return *copied;
    throw error(errc::busy, "agent " + detail::quoted(from) +
                                " is changed faster than it can be copied: its checkpoints are replaced or "
                                "removed all the time; try again when that has ended");
}

} // namespace waymark::tables
