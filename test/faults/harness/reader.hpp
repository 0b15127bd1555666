//! A reader beside a writer whose agent always has a head: what it may be told, whatever moment it asks at.
#pragma once

#include <waymark/store.hpp>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace waymark::faults {

//! What the writer was told so far, in memory that processes share.
class acknowledged {
public:
    //! Opens the file, or makes it.
    explicit acknowledged(const std::filesystem::path& file);
    acknowledged(const acknowledged&) = delete;
    acknowledged& operator=(const acknowledged&) = delete;
    ~acknowledged();

    struct values {
        std::atomic<std::int64_t> heads[2]; // the iteration of the head of each scope
        std::atomic<std::int64_t> step;     // the result of the step that is always there
        std::atomic<std::uint64_t> questions;
        std::atomic<bool> is_over;
    };
    values* operator->() const noexcept { return values_; }

private:
    values* values_ = nullptr;
};

//! The agent that always has a head in each of its scopes, and a step.
inline constexpr const char* steady_agent = "steady";
inline constexpr const char* steady_scopes[] = {"", "side"};
inline constexpr const char* steady_step = "always";
//! One that is erased and made anew. Its name is too long for a folder.
std::string fleeting_agent();

//! A checkpoint that tells by itself whether it is whole.
checkpoint telling_checkpoint(const std::string& agent_id, const std::string& scope, const std::string& id,
                              std::int64_t iteration);

//! Asks one question after the other.
class reader {
public:
    reader(store& from, const acknowledged& said, std::uint64_t seed)
        : store_(from), said_(said), random_(seed)
    {
    }

    //! Returns what is wrong with the answer.
    std::optional<std::string> ask();

private:
    void ask_latest();
    void ask_list();
    void ask_load_all();
    void ask_agents();
    void ask_steps();
    void ask_counts();
    void ask_verify();
    void ask_fleeting();

    store& store_;
    const acknowledged& said_;
    std::mt19937_64 random_;
};

//! Asks until the writer is done. Returns what was wrong, at most a few.
std::vector<std::string> read_until_over(store& from, const acknowledged& said, std::uint64_t seed);

} // namespace waymark::faults
