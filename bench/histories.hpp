//! What the benchmarks save: the same work for every contender.
#pragma once

#include <waymark/checkpoint.hpp>

#include <cstdint>
#include <random>
#include <string>

namespace waymark::bench {

//! Text that looks like words and does not compress to nothing.
class text_source {
public:
    explicit text_source(std::uint64_t seed = 1) : random_(seed) {}

    std::string text(std::size_t bytes)
    {
        static constexpr char letters[] = "abcdefghijklmnopqrstuvwxyz      ";
        std::string result(bytes, ' ');
        for (std::size_t i = 0; i < bytes; i += 8) {
            auto bits = random_();
            for (std::size_t j = i; j < bytes && j < i + 8; ++j, bits >>= 5)
                result[j] = letters[bits & 31];
        }
        return result;
    }

private:
    std::mt19937_64 random_;
};

//! The checkpoints of one agent, each the child of the one before.
class agent_history {
public:
    explicit agent_history(std::string agent, std::uint64_t seed = 1) : agent_(std::move(agent)), texts_(seed)
    {
    }

protected:
    checkpoint next_checkpoint()
    {
        checkpoint made(agent_, chat_, turn_);
        made.with_parent(last_);
        last_ = made.id();
        return made;
    }

    text_source& texts() { return texts_; }

    conversation chat_;
    std::int64_t turn_ = 0;

private:
    std::string agent_;
    text_source texts_;
    std::optional<std::string> last_;
};

//! A conversation that grows by two messages of 1 KiB a turn, a checkpoint each turn.
class growth : public agent_history {
public:
    using agent_history::agent_history;

    checkpoint next()
    {
        ++turn_;
        chat_.push(message::user(texts().text(1024)));
        chat_.push(message::assistant(texts().text(1024)));
        return next_checkpoint();
    }
};

//! A coding agent: each turn two files of 8 KB added to an object in `state`, a tool result of 5 KB and 800
//! bytes of the assistant; every fifth turn a result of 100 KB that is put into `state` as a file.
class heavy : public agent_history {
public:
    explicit heavy(std::string agent) : agent_history(std::move(agent)) { state_["files"].emplace_object(); }

    checkpoint next()
    {
        ++turn_;
        auto& files = state_["files"].get_object();
        for (const auto* kind : {"source", "test"})
            files[std::string(kind) + "/module_" + std::to_string(turn_) + ".cpp"] = texts().text(8'000);
        const auto call = "call-" + std::to_string(turn_);
        chat_.push(message::assistant(texts().text(800), {tool_call(call, "run", {{"turn", turn_}})}));
        chat_.push(message::tool_result(call, texts().text(5'000)));
        if (turn_ % 5 == 0)
            files["result_" + std::to_string(turn_) + ".txt"] = texts().text(100'000);
        return next_checkpoint().with_state(state_);
    }

private:
    boost::json::object state_;
};

} // namespace waymark::bench
