//! The older design on files: a pretty JSON file a save, not synced, and the latest found by looking at all.
#include "../contender.hpp"
#include "plain_json.hpp"

#include <asio/post.hpp>
#include <boost/json/serialize.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

namespace waymark::bench {

namespace fs = std::filesystem;

namespace {

//! Two spaces for each level, as the usual serialisers do.
void print_pretty(const boost::json::value& value, std::string& to, std::size_t depth = 0)
{
    const auto line = [&](std::size_t level) { to.append(1, '\n').append(2 * level, ' '); };
    if (const auto* object = value.if_object(); object != nullptr && !object->empty()) {
        to += '{';
        for (const auto& [key, member] : *object) {
            to += to.back() == '{' ? "" : ",";
            line(depth + 1);
            to += boost::json::serialize(boost::json::string(key)) + ": ";
            print_pretty(member, to, depth + 1);
        }
        line(depth);
        to += '}';
    } else if (const auto* array = value.if_array(); array != nullptr && !array->empty()) {
        to += '[';
        for (const auto& member : *array) {
            to += to.back() == '[' ? "" : ",";
            line(depth + 1);
            print_pretty(member, to, depth + 1);
        }
        line(depth);
        to += ']';
    } else {
        to += boost::json::serialize(value);
    }
}

class seed_files : public contender {
public:
    seed_files(fs::path folder, asio::io_context& io) : folder_(std::move(folder)), io_(io) {}

    void save(const checkpoint& next, saved_callback saved) override
    {
        std::string text;
        print_pretty(boost::json::value_from(next), text);
        const auto folder = folder_ / next.agent_id();
        fs::create_directories(folder);
        std::ofstream file(folder / (next.id() + ".json"), std::ios::binary);
        file << text;
        file.close();
        if (!file)
            throw std::runtime_error("a file could not be written");
        asio::post(io_, [saved = std::move(saved)] { saved(1); });
    }

    void load_latest(const std::string& agent, loaded_callback loaded) override
    {
        fs::path newest;
        fs::file_time_type newest_time;
        for (const auto& entry : fs::directory_iterator(folder_ / agent))
            if (const auto time = entry.last_write_time(); // ids of one tick of the clock are in order
                newest.empty() || std::tie(time, entry.path()) > std::tie(newest_time, newest)) {
                newest = entry.path();
                newest_time = time;
            }
        std::ifstream file(newest, std::ios::binary);
        const std::string text(std::istreambuf_iterator<char>(file), {});
        const auto messages = plain_messages(text).size();
        asio::post(io_, [=, loaded = std::move(loaded)] { loaded(messages); });
    }

    std::optional<std::uint64_t> close_and_measure() override { return bytes_below(folder_); }

private:
    fs::path folder_;
    asio::io_context& io_;
};

} // namespace

std::unique_ptr<contender> open_seed_files(const arguments& given, asio::io_context& io)
{
    if (const auto level = given.text("durability", "default"); level != "default")
        throw usage_error("seed-file does not sync: its --durability is default");
    return std::make_unique<seed_files>(fs::path(given.text("folder")) / "checkpoints", io);
}

} // namespace waymark::bench
