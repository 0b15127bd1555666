//! An agent whose old checkpoints are pruned by age while others save them anew.
#pragma once

#include "claims.hpp"
#include "conversation_pool.hpp"

#include <waymark/store.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace waymark::faults {

inline checkpoint made(const std::string& agent, const std::string& id, conversation chat, timestamp at)
{
    return checkpoint(agent, std::move(chat)).with_id(id).with_created_at(at);
}

inline constexpr timestamp long_ago{std::chrono::hours(400'000)};

class aging_agent {
public:
    aging_agent(std::string name, std::mt19937_64& random, std::size_t size)
        : name_(std::move(name)), pool_(random), size_(size)
    {
    }

    //! Its checkpoints, new or in place of those that are there. Only the head is not old.
    void grow_old(store& in)
    {
        std::vector<save_request> batch;
        auto chat = pool_.fresh(2);
        for (std::size_t i = 0; i < size_; ++i) {
            batch.emplace_back(made(name_, id(i), chat, long_ago));
            chat.push(pool_.fresh(1)[0]);
        }
        batch.emplace_back(made(name_, "head", chat, now()));
        fresh_.clear();
        save(in, batch);
    }
    void erase(store& in)
    {
        in.erase_agent(name_);
        fresh_.clear();
    }

    void prune(store& in) { in.prune(name_, retention().max_age(std::chrono::hours(1)), dry_run::no); }

    //! The same keys with other content, which is not old.
    void save_again(store& in, std::size_t which)
    {
        const auto renewed = made(name_, id(which), pool_.fresh(3), now());
        save(in, {save_request(renewed)});
    }
    void replace(store& in, std::size_t which)
    {
        in.erase(name_, "", id(which));
        save_again(in, which);
    }
    void make_anew(store& in)
    {
        erase(in);
        std::vector<save_request> batch;
        for (std::size_t i = 0; i < size_; ++i)
            batch.emplace_back(made(name_, id(i), pool_.fresh(1), now()));
        batch.emplace_back(made(name_, "head", pool_.fresh(1), now()));
        save(in, batch);
    }

    void was_backed_up() { in_backup_ = fresh_; }
    void was_restored() { fresh_ = in_backup_; }

    //! What was acknowledged and is not old is there.
    void judge(store& in, const std::string& story, claims& to) const
    {
        to.expect(story, [&] {
            for (const auto& [id, wanted] : fresh_) {
                const auto found = in.load(name_, "", id);
                if (found == wanted)
                    continue;
                const auto* const fate =
                    found ? "is not what was saved last" : "was saved just now and is gone";
                return to.fail(story + ": '" + id + "' " + fate);
            }
        });
    }

private:
    static std::string id(std::size_t which) { return "c" + std::to_string(which); }

    //! Throws if one is not acknowledged.
    void save(store& in, const std::vector<save_request>& batch)
    {
        for (const auto& outcome : in.save(batch))
            outcome.value_or_throw();
        for (const auto& each : batch)
            if (each.checkpoint().created_at() != long_ago)
                fresh_.insert_or_assign(each.checkpoint().id(), each.checkpoint());
    }

    std::string name_;
    conversation_pool pool_;
    std::size_t size_;
    std::map<std::string, checkpoint> fresh_;
    std::map<std::string, checkpoint> in_backup_;
};

} // namespace waymark::faults
