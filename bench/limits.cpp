//! What the machine gives, whoever asks.
#include "measure.hpp"
#include "peers/sqlite_handle.hpp"
#include "workload.hpp"

#include <boost/json/parse.hpp>

#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace waymark::bench {

namespace fs = std::filesystem;

namespace {

//! How often it can be done in a second: the median of five rounds.
double rate(double seconds, const std::function<void()>& once)
{
    std::vector<double> rates;
    for (int round = 0; round < 5; ++round) {
        const auto begin = wall_seconds();
        double count = 0, now = begin;
        for (; now - begin < seconds / 5; now = wall_seconds()) {
            once();
            ++count;
        }
        rates.push_back(count / (now - begin));
    }
    return median(rates);
}

double syncs(const fs::path& file, bool appends, double seconds)
{
    const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (opened < 0)
        throw std::system_error(errno, std::system_category(), file.string());
    const std::string page(4'096, 'x');
    off_t at = 0;
    const auto result = rate(seconds, [&] {
        if (::pwrite(opened, page.data(), page.size(), at) != static_cast<ssize_t>(page.size()) ||
            ::fdatasync(opened) != 0)
            throw std::system_error(errno, std::system_category(), file.string());
        if (appends)
            at += static_cast<off_t>(page.size());
    });
    ::close(opened);
    return result;
}

double sqlite_rows(const fs::path& file, int per_commit, texts& source, double seconds)
{
    sqlite_handle db(file);
    db.set_durability("full");
    db.run("CREATE TABLE rows (row INTEGER PRIMARY KEY, body BLOB)");
    sqlite_statement insert(db, "INSERT INTO rows (body) VALUES (?)");
    const auto body = source.next(2'048);
    return per_commit * rate(seconds, [&] {
               db.run("BEGIN IMMEDIATE");
               for (int i = 0; i < per_commit; ++i)
                   insert.bind_blob(1, body).step();
               db.run("COMMIT");
           });
}

//! How often two threads can wake each other in a second, there and back: what any library pays that keeps
//! its work off the caller's thread.
double hand_overs(double seconds)
{
    std::mutex mutex;
    std::condition_variable changed;
    enum class turn { caller, worker, nobody } whose = turn::caller;
    const auto pass = [&](std::unique_lock<std::mutex>& lock, turn from, turn to) {
        changed.wait(lock, [&] { return whose == from || whose == turn::nobody; });
        if (whose == from)
            whose = to;
        changed.notify_one();
        return whose == to;
    };
    std::thread worker([&] {
        std::unique_lock lock(mutex);
        while (pass(lock, turn::worker, turn::caller)) {
        }
    });
    const auto result = rate(seconds, [&] {
        std::unique_lock lock(mutex);
        pass(lock, turn::caller, turn::worker);
        changed.wait(lock, [&] { return whose == turn::caller; });
    });
    {
        const std::lock_guard lock(mutex);
        whose = turn::nobody;
        changed.notify_one();
    }
    worker.join();
    return result;
}

void print_limit(const char* name, const char* unit, double value)
{
    print({{"workload", "limits"}, {"limit", name}, {unit, value}});
}

} // namespace

void run_limits(const arguments& given)
{
    const fs::path folder = given.required("folder");
    const auto seconds = given.number("seconds", 1.5);
    auto source = source_of(given);
    given.refuse_others();
    fs::create_directories(folder);

    print_limit("hand_overs", "per_second", hand_overs(seconds));
    print_limit("fdatasync_append", "per_second", syncs(folder / "append", true, seconds));
    print_limit("fdatasync_overwrite", "per_second", syncs(folder / "overwrite", false, seconds));
    print_limit("sqlite_commits_1", "per_second", sqlite_rows(folder / "one.db", 1, source, seconds));
    print_limit("sqlite_rows_64", "per_second", sqlite_rows(folder / "many.db", 64, source, seconds));

    boost::json::array messages;
    for (int i = 0; i < 10'000; ++i)
        messages.push_back(boost::json::value_from(message::user(source.next(1'024))));
    const auto text = boost::json::serialize(messages);
    const auto size = static_cast<double>(text.size());
    std::string copy(text.size(), ' ');
    print_limit("memory_copy", "bytes_per_second", size * rate(seconds, [&] {
                                                       std::memcpy(copy.data(), text.data(), text.size());
                                                       if (copy.back() != ']')
                                                           throw std::runtime_error("a copy differs");
                                                   }));
    print_limit("json_serialize", "bytes_per_second",
                size * rate(seconds, [&] {
                    if (boost::json::serialize(messages).size() != text.size())
                        throw std::runtime_error("a serialisation differs");
                }));
    print_limit("json_parse", "bytes_per_second",
                size * rate(seconds, [&] {
                    if (boost::json::parse(text).as_array().size() != messages.size())
                        throw std::runtime_error("a parser lost messages");
                }));
}

} // namespace waymark::bench
