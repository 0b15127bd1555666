//! An agent is killed at every point between two durable writes, and resumed.
#include "catch.hpp"
#include "child_process.hpp"
#include "temporary_folder.hpp"

#include <fstream>
#include <map>

using namespace waymark;

namespace {

constexpr int killed = 128 + SIGKILL;

struct run_result {
    int status = 0;
    std::size_t doubts = 0;
    std::string conversation;
};

class agent_on_disk {
public:
    explicit agent_on_disk(std::string kind) : kind_(std::move(kind)) {}

    run_result run(int point) const
    {
        test::child_process process({WAYMARK_MORTAL_AGENT, kind_, (folder_.path() / "store").native(),
                                     effects().native(), std::to_string(point)});
        run_result result;
        for (std::string line; process.read_line(line);) {
            if (line.starts_with("in doubt: "))
                ++result.doubts;
            else
                result.conversation = line;
        }
        result.status = process.wait();
        return result;
    }

    std::map<std::string, int> effects_made() const
    {
        std::map<std::string, int> made;
        std::ifstream file(effects());
        for (std::string line; std::getline(file, line);)
            ++made[line];
        return made;
    }

private:
    std::filesystem::path effects() const { return folder_.path() / "effects"; }

    std::string kind_;
    test::temporary_folder folder_;
};

} // namespace

TEST_CASE("wherever an agent is killed, it gets to the same end and makes each side effect once")
{
    for (const std::string kind : {"sqlite", "files"}) {
        INFO(kind);
        const agent_on_disk undisturbed(kind);
        const auto expected = undisturbed.run(0);
        REQUIRE(expected.status == 0);
        REQUIRE(expected.doubts == 0);
        const auto effects = undisturbed.effects_made();
        REQUIRE(effects.size() == 4);

        int points = 0;
        std::size_t doubts = 0;
        for (int point = 1;; ++point) {
            INFO("killed at point " << point);
            const agent_on_disk agent(kind);
            const auto first = agent.run(point);
            if (first.status == 0)
                break; // past the last one
            REQUIRE(first.status == killed);
            ++points;
            // A second crash, somewhere on the way from there.
            const auto second = agent.run(1 + point * 7 % 13);
            const auto last = agent.run(0);
            REQUIRE(last.status == 0);
            CHECK(last.conversation == expected.conversation);
            CHECK(agent.effects_made() == effects);
            doubts += second.doubts + last.doubts;
        }
        // Two around each write: a step begins and ends, a save, a failed attempt begins and is withdrawn;
        // and two around each effect.
        CHECK(points == 4 * (2 * 2 + 2) + 6 * 2 + 2 * 2);
        CHECK(doubts > 0);
    }
}
