//! Conditions are there for those who come at the same time. A backend that looks and then writes, with
//! nothing that holds the two together, keeps every promise to a single thread.
#include "case_list.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace waymark::testing {

namespace {

constexpr std::size_t contenders = 4;
constexpr std::size_t rounds_an_agent = 4; // then a new one: to be the first is a race of its own
// A store that is fast is wrong for a short while only, and has time for more rounds.
constexpr std::size_t least_rounds = 12;
constexpr std::size_t most_rounds = 100;
constexpr auto enough = std::chrono::milliseconds(80);

//! Long enough that a write, which checks and copies it, takes a while after the look at the condition.
const std::string& ballast()
{
    static const std::string text(20'000, 'b');
    return text;
}

//! How one contender fared: no code, if it has won.
struct ending {
    std::error_code code;
    std::string problem; // something else than an answer of the store
};

using contender = std::function<std::error_code(store&)>;

//! Some threads on one store, or each with an object of its own.
class contest {
public:
    contest(const backend_under_test& backend, bool on_several_objects)
        : where_(on_several_objects ? " (each thread with an object of its own)" : " (threads on one object)")
    {
        objects_[0] = backend.make_empty();
        for (std::size_t i = 1; i < contenders; ++i)
            objects_[i] = on_several_objects ? backend.open_beside(objects_[0]) : objects_[0];
    }

    store& judge() const { return *objects_[0]; }

    //! Runs all of them at once. What each needs is to be made before.
    std::array<ending, contenders> run(const std::array<contender, contenders>& all) const
    {
        std::array<ending, contenders> endings;
        std::atomic<std::size_t> ready = 0;
        std::array<std::jthread, contenders> threads;
        try {
            for (std::size_t i = 0; i < contenders; ++i)
                threads[i] = std::jthread([&, i] {
                    // Threads that wake each other start microseconds apart, which is how long a save takes.
                    for (++ready; ready < contenders;)
                        std::this_thread::yield();
                    try {
                        endings[i].code = all[i](*objects_[i]);
                    } catch (const error& failure) {
                        endings[i].code = failure.code();
                    } catch (const std::exception& failure) {
                        endings[i].problem = failure.what();
                    }
                });
        } catch (...) {
            ready = contenders;
            throw;
        }
        for (auto& thread : threads)
            thread.join();
        for (const auto& each : endings)
            if (!each.problem.empty())
                fail(__FILE__, __LINE__, each.problem + where_);
        return endings;
    }

    //! One of them must win; the others must be told that they came too late.
    std::size_t winner_of(const std::array<contender, contenders>& all,
                          std::initializer_list<errc> losing = {errc::conflict}) const
    {
        const auto endings = run(all);
        std::size_t wins = 0;
        std::size_t winner = 0;
        for (std::size_t i = 0; i < contenders; ++i) {
            const auto code = endings[i].code;
            if (!code) {
                ++wins;
                winner = i;
            } else if (std::none_of(losing.begin(), losing.end(), [&](errc one) { return code == one; })) {
                fail(__FILE__, __LINE__, "one who came too late was told '" + code.message() + "'" + where_);
            }
        }
        if (wins != 1)
            fail(__FILE__, __LINE__,
                 std::to_string(wins) + " of " + std::to_string(contenders) + " won where one may" + where_);
        return winner;
    }

    //! All of them must succeed.
    void run_together(const std::array<contender, contenders>& all) const
    {
        for (const auto& each : run(all))
            if (each.code)
                fail(__FILE__, __LINE__,
                     "'" + each.code.message() + "' where nobody was in the way" + where_);
    }

    void expect(bool holds, const char* what) const
    {
        if (!holds)
            fail(__FILE__, __LINE__, std::string("expected: ") + what + where_);
    }

private:
    const char* where_;
    std::array<std::shared_ptr<store>, contenders> objects_;
};

//! Makes a number of rounds on one object, and on several if the backend can be opened twice.
template <class Round>
void race(const backend_under_test& backend, Round round)
{
    for (const bool on_several_objects : {false, true}) {
        if (on_several_objects && !backend.can_open_beside())
            continue;
        const contest all(backend, on_several_objects);
        const auto end = std::chrono::steady_clock::now() + enough;
        for (std::size_t number = 0; number < most_rounds; ++number)
            if (number < least_rounds || std::chrono::steady_clock::now() < end)
                round(all, number);
    }
}

std::string agent_of(std::size_t round)
{
    return "agent-" + std::to_string(round / rounds_an_agent);
}

checkpoint of_contender(std::size_t round, std::string id, std::size_t i)
{
    return checkpoint_of(agent_of(round), std::move(id))
        .with_state({{"contender", i}, {"ballast", ballast()}});
}

step step_of_contender(std::size_t round, std::size_t i)
{
    return step(agent_of(round), "", "call-" + std::to_string(round))
        .with_result(boost::json::object{{"contender", i}, {"ballast", ballast()}});
}

std::vector<step> steps_of(store& from, std::size_t round)
{
    return from.load_steps(step_query(agent_of(round)).scope("").key("call-" + std::to_string(round)));
}

contender saving(checkpoint what, save_options options = {})
{
    return [request = save_request(std::move(what), std::move(options))](store& store) {
        return store.save(std::span(&request, 1)).at(0).code();
    };
}

contender putting(step_request request)
{
    return [request = std::move(request)](store& store) {
        return store.put_steps(std::span(&request, 1)).at(0).code();
    };
}

//! Comes a little later: an erasure takes so little that it would be over before anyone else has looked.
contender erasing(const step& what, const std::optional<std::string>& attempt,
                  std::chrono::microseconds later)
{
    return [=](store& store) {
        for (const auto end = std::chrono::steady_clock::now() + later;
             std::chrono::steady_clock::now() < end;)
            std::this_thread::yield();
        return store.erase_step(what.agent_id(), what.scope(), what.key(), attempt)
                   ? std::error_code()
                   : make_error_code(errc::conflict);
    };
}

void one_moves_the_head(const backend_under_test& backend)
{
    race(backend, [](const contest& all, std::size_t round) {
        const auto before = all.judge().load_latest(agent_of(round));
        const auto head = before ? std::optional(before->id()) : std::nullopt;
        std::vector<checkpoint> rivals;
        std::array<contender, contenders> moves;
        for (std::size_t i = 0; i < contenders; ++i) {
            rivals.push_back(of_contender(round, std::to_string(round) + "-" + std::to_string(i), i));
            moves[i] = saving(rivals[i], save_options().expect_head(head));
        }
        const auto winner = all.winner_of(moves);
        all.expect(all.judge().load_latest(agent_of(round)) == rivals[winner], "the head is the winner's");
        all.expect(all.judge().count(query(agent_of(round))) == round % rounds_an_agent + 1,
                   "nothing is there of those who came too late");
    });
}

void one_creates_a_checkpoint(const backend_under_test& backend)
{
    race(backend, [](const contest& all, std::size_t round) {
        std::vector<checkpoint> rivals;
        std::array<contender, contenders> moves;
        for (std::size_t i = 0; i < contenders; ++i) {
            rivals.push_back(of_contender(round, std::to_string(round), i));
            moves[i] = saving(rivals[i], save_options().create_only());
        }
        const auto winner = all.winner_of(moves);
        all.expect(all.judge().load(agent_of(round), "", std::to_string(round)) == rivals[winner],
                   "the checkpoint is the winner's");
    });
}

void one_begins_a_step(const backend_under_test& backend)
{
    race(backend, [](const contest& all, std::size_t round) {
        std::vector<step> rivals;
        std::array<contender, contenders> moves;
        for (std::size_t i = 0; i < contenders; ++i) {
            rivals.push_back(step_of_contender(round, i));
            moves[i] = putting({rivals[i], true});
        }
        const auto winner = all.winner_of(moves);
        all.expect(steps_of(all.judge(), round) == std::vector{rivals[winner]}, "the step is the winner's");
    });
}

void one_replaces_a_step(const backend_under_test& backend)
{
    race(backend, [](const contest& all, std::size_t round) {
        const auto begun = step(agent_of(round), "", "call-" + std::to_string(round));
        all.expect(!putting({begun, true})(all.judge()), "a step is begun");
        std::vector<step> rivals;
        std::array<contender, contenders> moves;
        for (std::size_t i = 0; i < contenders; ++i) {
            rivals.push_back(step_of_contender(round, i));
            moves[i] = putting(step_request(rivals[i]).replacing(begun.attempt()));
        }
        const auto winner = all.winner_of(moves);
        all.expect(steps_of(all.judge(), round) == std::vector{rivals[winner]}, "the step is the winner's");
    });
}

void one_ends_or_erases_a_step(const backend_under_test& backend)
{
    race(backend, [](const contest& all, std::size_t round) {
        const auto begun = step(agent_of(round), "", "call-" + std::to_string(round));
        all.expect(!putting({begun, true})(all.judge()), "a step is begun");
        const auto ended = step_of_contender(round, 0);
        std::array<contender, contenders> moves;
        for (std::size_t i = 0; i < contenders; ++i)
            moves[i] = erasing(begun, begun.attempt(), std::chrono::microseconds(i * (round % 5) * 10));
        const bool has_an_end = round % 2 == 0;
        if (has_an_end)
            moves[round % contenders] = putting(step_request(ended).replacing(begun.attempt()));
        const auto winner = all.winner_of(moves, {errc::conflict, errc::not_found});
        const bool was_ended = has_an_end && winner == round % contenders;
        all.expect(steps_of(all.judge(), round) == (was_ended ? std::vector{ended} : std::vector<step>()),
                   "the step is as the winner left it");
    });
}

void one_copies_onto_an_agent(const backend_under_test& backend)
{
    race(backend, [](const contest& all, std::size_t round) {
        const auto to = "copy-" + std::to_string(round);
        std::array<contender, contenders> moves;
        for (std::size_t i = 0; i < contenders; ++i) {
            const auto from = "origin-" + std::to_string(i);
            if (round == 0)
                all.judge().save(checkpoint_of(from, "of " + from).with_state({{"ballast", ballast()}}));
            moves[i] = [=](store& store) {
                store.copy_agent(from, to);
                return std::error_code();
            };
        }
        const auto winner = all.winner_of(moves);
        all.expect(ids(all.judge().list(query(to))) == id_list{"of origin-" + std::to_string(winner)},
                   "the copy is the winner's");
    });
}

void nothing_done_at_once_is_lost(const backend_under_test& backend)
{
    race(backend, [](const contest& all, std::size_t round) {
        const auto id = std::to_string(round);
        const auto agent = agent_of(round);
        all.judge().save(of_contender(round, id, 0));
        const auto replacement = of_contender(round, id, 1);
        const auto another = of_contender(round, "beside " + id, 2);
        const auto begun = step(agent, "", "call-" + id).with_checkpoint(id);
        const contender pin = [=](store& store) {
            return store.pin(agent, "", id, true) ? std::error_code() : make_error_code(errc::not_found);
        };
        std::array<contender, contenders> moves = {saving(replacement), pin, saving(another), putting(begun)};
        std::rotate(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(round % contenders),
                    moves.end());
        all.run_together(moves); // each is the first to start in some rounds
        all.expect(all.judge().load(agent, "", id) == replacement, "the replacement is there");
        all.expect(all.judge().load(agent, "", "beside " + id) == another, "the other checkpoint is there");
        all.expect(steps_of(all.judge(), round) == std::vector{begun}, "the step is there");
        all.expect(all.judge().list(query(agent).before("beside " + id).limit(1)).at(0).pinned(),
                   "the checkpoint is pinned");
    });
}

} // namespace

std::vector<conformance_case> race_cases()
{
    return {
        {"of many who expect the same head, one saves", one_moves_the_head},
        {"of many who create the same checkpoint, one does", one_creates_a_checkpoint},
        {"of many who begin the same step, one does", one_begins_a_step},
        {"of many who replace the same attempt, one does", one_replaces_a_step},
        {"of many who end or erase the same attempt, one does", one_ends_or_erases_a_step},
        {"of many who copy onto the same agent, one does", one_copies_onto_an_agent},
        {"what is done at once is all there", nothing_done_at_once_is_lost},
    };
}

} // namespace waymark::testing
