//! One workload, one contender, results as JSON Lines. scripts/bench runs them all.
#include "workload.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <map>

namespace waymark::bench {

void make_texts(const arguments& given)
{
    const auto path = given.required("out");
    const auto bytes = given.count("bytes", 100'000'000);
    given.refuse_others();
    std::ofstream file(path, std::ios::binary);
    file << random_text(bytes);
    file.close();
    if (!file)
        throw std::runtime_error("'" + path + "' could not be written");
}

} // namespace waymark::bench

namespace {

constexpr const char* usage =
    "waymark_bench WORKLOAD [--key value]...\n"
    "  growth     --contender NAME --folder DIR [--turns N] [--limit SECONDS]\n"
    "  fleet      --contender NAME --folder DIR [--agents N] [--turns N] [--in-flight K] [--limit SECONDS] "
    "[--message-bytes N]\n"
    "  resume     --contender NAME --folder DIR [--agents N] [--turns N] [--loads N] [--in-flight K]\n"
    "  first-load --contender NAME --folder DIR [--messages N] [--prepare yes]\n"
    "  heavy      --contender NAME --folder DIR [--turns N] [--limit SECONDS]\n"
    "  event-loop --contender NAME --folder DIR [--bytes N] [--seconds N]\n"
    "  limits     --folder DIR [--seconds N]\n"
    "  transfer   --contender NAME --folder DIR [--turns N,N,...] [--message-bytes N]\n"
    "  upkeep     --contender NAME --folder DIR [--checkpoints N] [--savers N] [--seconds N] "
    "[--message-bytes N] [--only copy|verify|export|compact]\n"
    "  steps      --contender NAME --folder DIR [--agents N] [--in-flight K] [--saves N] "
    "[--message-bytes N]\n"
    "  texts      --out FILE [--bytes N]\n"
    "contenders: waymark-sqlite, waymark-postgres, waymark-memory, waymark-file, seed-sqlite, seed-file, "
    "bare-sqlite\n"
    "also: --durability full|relaxed|default, --texts FILE, --postgres URI, --lanes N, --prepared yes, "
    "--partitions N, --observed yes\n";

} // namespace

int main(int argc, char** argv)
try {
    using namespace waymark::bench;
    const std::map<std::string, void (*)(const arguments&)> workloads = {
        {"growth", run_growth},         {"fleet", run_fleet},       {"resume", run_resume},
        {"first-load", run_first_load}, {"heavy", run_heavy},       {"event-loop", run_event_loop},
        {"limits", run_limits},         {"transfer", run_transfer}, {"upkeep", run_upkeep},
        {"steps", run_steps},           {"texts", make_texts}};
    if (argc == 2 && std::string(argv[1]) == "--help") {
        std::fputs(usage, stdout);
        return 0;
    }
    const arguments given(argc, argv);
    const auto found = workloads.find(given.workload());
    if (found == workloads.end())
        throw usage_error("there is no workload '" + given.workload() + "'");
    found->second(given);
    return 0;
} catch (const waymark::bench::usage_error& failure) {
    std::fprintf(stderr, "%s\n%s", failure.what(), usage);
    return 2;
} catch (const waymark::bench::missing_error& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 77; // cannot be measured here
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
