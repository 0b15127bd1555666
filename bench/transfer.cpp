//! Export, import, and import once more: what they take for a conversation that grows, at several lengths.
#include "../test/support/forwarding_store.hpp"
#include "contender.hpp"
#include "measure.hpp"
#include "workload.hpp"

#include <waymark/transfer.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace waymark::bench {

namespace {

//! Times the transactions that others have to wait for.
class timed_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        const auto begin = wall_seconds();
        auto outcomes = forwarding_store::save(batch);
        save_ms.push_back((wall_seconds() - begin) * 1e3);
        return outcomes;
    }

    std::vector<load_outcome> load_some(std::span<const checkpoint_key> keys,
                                        std::span<const checkpoint> earlier, std::size_t about_bytes) override
    {
        return inner().load_some(keys, earlier, about_bytes);
    }

    std::vector<double> save_ms;
};

std::vector<std::size_t> sizes_of(const arguments& given)
{
    std::vector<std::size_t> sizes;
    std::istringstream list(given.text("turns", "1000,4000,16000"));
    for (std::string size; std::getline(list, size, ',');)
        sizes.push_back(std::stoul(size));
    return sizes;
}

} // namespace

void run_transfer(const arguments& given)
{
    const auto sizes = sizes_of(given);
    const auto message_bytes = given.count("message-bytes", 1'024); // two a turn
    const std::filesystem::path folder = given.required("folder");
    auto source = source_of(given);
    std::map<std::string, double> before; // seconds, at the size before
    for (const auto turns : sizes) {
        const auto file = folder / "export.jsonl";
        const auto origin = open_store(given, "origin-" + std::to_string(turns));
        timed_store copy(open_store(given, "copy-" + std::to_string(turns)));
        given.refuse_others();
        fill(*origin, "planner", turns, message_bytes, source);

        const auto measure = [&](const std::string& what, auto transfer) {
            copy.save_ms.clear();
            const auto begin = wall_seconds();
            const transfer_result done = transfer();
            const auto seconds = wall_seconds() - begin;
            auto result = result_of(given);
            result["turns"] = turns;
            result["what"] = what;
            result["seconds"] = seconds;
            if (const auto known = before.find(what); known != before.end())
                result["times_the_size_before"] = seconds / known->second;
            before[what] = seconds;
            if (!copy.save_ms.empty())
                result["save_ms"] = boost::json::object{{"p50", median(copy.save_ms)},
                                                        {"p90", percentile(copy.save_ms, 0.9)},
                                                        {"most", percentile(copy.save_ms, 1)}};
            result["written"] = done.checkpoints();
            result["skipped"] = done.skipped();
            result["peak_rss_bytes"] = peak_memory();
            print(result);
        };
        measure("export", [&] {
            std::ofstream to(file, std::ios::binary);
            return export_lines(*origin, to);
        });
        const auto import = [&](existing mode) {
            std::ifstream from(file, std::ios::binary);
            return import_lines(copy, from, import_options().when_exists(mode));
        };
        measure("import", [&] { return import(existing::skip); });
        measure("import again, skip", [&] { return import(existing::skip); });
        measure("import again, replace", [&] { return import(existing::replace); });
        measure("import again, fail", [&] { return import(existing::fail); });
    }
}

} // namespace waymark::bench
