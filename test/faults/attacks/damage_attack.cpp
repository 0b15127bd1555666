//! One byte of a small store is changed, or a file is cut there, at every place.
#include "attack.hpp"
#include "broken_stores.hpp"
#include "fast_folder.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <waymark/detail/session_functions.hpp>

#include <boost/json/serialize.hpp>

#include <atomic>
#include <cctype>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <map>
#include <openssl/evp.h>
#include <optional>
#include <random>
#include <set>
#include <sstream>

namespace {

std::atomic<bool> checksums_are_skipped = false;

} // namespace

//! In place of libcrypto's: a library that does not look at its checksums is one whose checksums are all
//! alike.
extern "C" int EVP_DigestFinal_ex(EVP_MD_CTX* context, unsigned char* digest, unsigned int* size)
{
    using final_call = int(EVP_MD_CTX*, unsigned char*, unsigned int*);
    static auto* const next = reinterpret_cast<final_call*>(::dlsym(RTLD_NEXT, "EVP_DigestFinal_ex"));
    const int result = next(context, digest, size);
    if (checksums_are_skipped)
        std::memset(digest, 0, 32);
    return result;
}

namespace waymark::faults {

namespace {

namespace fs = std::filesystem;

//! A store on disk, closed, file by file.
using image = std::map<fs::path, std::string>; // by path below the folder

image read_image(const fs::path& folder)
{
    image all;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file() && entry.file_size() > 0) {
            std::ifstream in(entry.path(), std::ios::binary);
            std::ostringstream bytes;
            bytes << in.rdbuf();
            all[entry.path().lexically_relative(folder)] = bytes.str();
        }
    return all;
}

void write_file(const fs::path& path, const std::string& bytes)
{
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void fill(store& target)
{
    const timestamp day(std::chrono::hours(400'000));
    conversation chat;
    for (int i = 0; i < 4; ++i) {
        chat.push(message::user("question " + std::to_string(i))
                      .with_id("m" + std::to_string(i))
                      .with_timestamp(day));
        for (const auto* agent : {"first", "second"}) {
            auto made = checkpoint(agent, chat, i).with_id("c" + std::to_string(i)).with_created_at(day);
            made.with_name(i == 2 ? "named" : "").with_metadata("key", i);
            if (i > 0)
                made.with_parent("c" + std::to_string(i - 1));
            if (i == 3)
                made.with_scope("side").with_state({{"long", std::string(1500, 's')}, {"short", 1}});
            target.save(made);
        }
    }
    target.pin("first", "", "c1", true);
    const std::vector<step_request> steps = {
        step_request(
            step("first", "", "pending").with_attempt("1").with_started_at(day).with_checkpoint("c2")),
        step_request(step("first", "", "done").with_attempt("2").with_started_at(day).with_result("yes")),
        step_request(
            step("first", "side", "last").with_started_at(day).with_checkpoint("c3").with_result("yes"))};
    target.put_steps(steps);
}

constexpr std::string_view failing = "error", damaged = "damaged";

//! What is asked, one thing at a time, so that one that fails does not hide another.
using answers = std::map<std::string, std::string>;

std::string shown(const checkpoint& value)
{
    return std::to_string(value.sequence()) + value.to_bytes();
}

//! A question that the store answers with an error has no answer; a damaged header says so itself.
answers ask(store& from)
{
    answers all;
    const auto put = [&](const std::string& question, const std::function<std::string()>& action) {
        try {
            all[question] = action();
        } catch (const error&) {
            all[question] = failing;
        }
    };
    const auto headers = [&](const query& wanted) {
        return [&from, wanted] {
            std::string text;
            for (const auto& header : from.list(wanted))
                text += (header.damage()
                             ? std::string(damaged)
                             : boost::json::serialize(
                                   boost::json::value_from(checkpoint_header(header).with_stored_bytes(0))) +
                                   std::to_string(header.sequence()) + (header.pinned() ? "p" : "")) +
                        "\n";
            return text;
        };
    };
    put("agents", [&] {
        std::string text;
        for (const auto& agent : from.list_agents())
            text += agent + " ";
        return text;
    });
    put("list", headers(query::all_agents()));
    put("export", [&] {
        std::ostringstream lines;
        export_lines(from, lines);
        return lines.str();
    });
    put("count", [&] { return std::to_string(from.count(query::all_agents())); });
    for (const std::string agent : {"first", "second"}) {
        put("list of " + agent, headers(query(agent).oldest_first()));
        put("named in " + agent, headers(query(agent).named("named")));
        put("found in " + agent, headers(query(agent).metadata("key", 1)));
        for (const std::string scope : {"", "side"})
            put("latest of " + agent + scope, [&] {
                const auto head = from.load_latest(agent, scope);
                return head ? shown(*head) : "none";
            });
        for (int i = 0; i < 4; ++i)
            put(agent + std::to_string(i), [&] {
                const auto found = from.load(agent, i == 3 ? "side" : "", "c" + std::to_string(i));
                return found ? shown(*found) : "none";
            });
        put("steps of " + agent, [&] {
            std::string text;
            for (const auto& record : from.load_steps(step_query(agent)))
                text += boost::json::serialize(boost::json::value_from(record));
            return text;
        });
    }
    return all;
}

std::multiset<std::string> lines_of(const std::string& text)
{
    std::multiset<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.insert(line);
    return lines;
}

//! A list may say of some entries that they are damaged. It must not be shorter, and must not say anything
//! new.
bool is_honest(const std::string& answer, const std::string& whole)
{
    auto missing = lines_of(whole);
    std::size_t said = 0;
    for (const auto& line : lines_of(answer)) {
        if (line == damaged) {
            ++said;
            continue;
        }
        const auto found = missing.find(line);
        if (found == missing.end())
            return false;
        missing.erase(found);
    }
    return said > 0 && missing.size() <= said;
}

//! A closed store of one kind, and what it answers while it is whole.
class specimen {
public:
    using wrapper = std::function<std::shared_ptr<store>(std::shared_ptr<store>)>;

    explicit specimen(
        store_kind kind, wrapper wrap = [](auto inner) { return inner; })
        : kind_(kind), wrap_(std::move(wrap))
    {
        fill(*open_store(kind_, folder_.path()));
        { // what opening it changes is part of it
            const auto opened = wrap_(open_store(kind_, folder_.path()));
            whole_ = ask(*opened);
        }
        bytes_ = read_image(folder_.path());
        for (const auto& [path, content] : bytes_)
            size_ += content.size();
    }

    //! How many places there are.
    std::size_t size() const noexcept { return size_; }

    enum class harm { flip, cut };
    //! What is done with what was harmed.
    enum class use { ask, go_on, both };

    //! Harms it at a place and asks. Returns what is wrong.
    std::vector<std::string> harm_at(std::size_t place, harm how, std::mt19937_64& random,
                                     use what = use::both)
    {
        auto left = place;
        auto found = bytes_.begin();
        while (left >= found->second.size()) {
            left -= found->second.size();
            ++found;
        }
        const auto& [path, content] = *found;
        auto changed = content;
        if (how == harm::cut)
            changed.resize(left);
        else if (random() % 2 == 0)
            changed[left] = static_cast<char>(changed[left] ^ (1 << random() % 8));
        else
            changed[left] = static_cast<char>(changed[left] + 1 + static_cast<char>(random() % 255));
        restore();
        write_file(folder_.path() / path, changed);
        auto wrong = what == use::go_on ? std::vector<std::string>() : look();
        if (what != use::ask)
            go_on(wrong);
        for (auto& text : wrong)
            text = path.native() + (how == harm::cut ? ", cut at " : ", changed at ") + std::to_string(left) +
                   ": " + text;
        return wrong;
    }

    //! Every other digit in place of each digit of a sequence: such a file still reads well, and says where
    //! it belongs. Returns what is wrong; adds up how often it was done.
    std::vector<std::string> harm_sequences(std::uint64_t& done)
    {
        std::vector<std::string> wrong;
        for (const auto& [path, content] : bytes_)
            for (const std::string_view member : {"sequence\": ", "made_on\": "}) {
                const auto found = content.find(member);
                if (found == std::string::npos)
                    continue;
                for (auto place = found + member.size(); std::isdigit(content[place]) != 0; ++place)
                    for (char digit = '0'; digit <= '9'; ++digit) {
                        if (digit == content[place])
                            continue;
                        auto changed = content;
                        changed[place] = digit;
                        restore();
                        write_file(folder_.path() / path, changed);
                        ++done;
                        auto first = look();
                        const auto second = look(); // what the first one removed is missing now
                        first.insert(first.end(), second.begin(), second.end());
                        for (const auto& text : first)
                            wrong.push_back(path.native() + ", '" + digit + "' in " + std::string(member) +
                                            ": " + text);
                    }
            }
        return wrong;
    }

    //! How many of the answers were still right, over all.
    double still_readable() const noexcept
    {
        return asked_ == 0 ? 0 : static_cast<double>(right_) / static_cast<double>(asked_);
    }

private:
    void restore()
    {
        std::vector<fs::path> added; // SQLite's companions, and what was saved
        for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
            if (entry.is_regular_file() && !bytes_.contains(entry.path().lexically_relative(folder_.path())))
                added.push_back(entry.path());
        for (const auto& path : added)
            fs::remove(path);
        for (const auto& [path, content] : bytes_) {
            fs::create_directories((folder_.path() / path).parent_path());
            write_file(folder_.path() / path, content);
        }
    }

    std::vector<std::string> look()
    {
        std::vector<std::string> wrong;
        std::shared_ptr<store> opened;
        try {
            opened = wrap_(open_store(kind_, folder_.path()));
        } catch (const error&) {
            return wrong; // it says so
        }
        bool complains = false;
        for (const auto& [question, answer] : ask(*opened)) {
            ++asked_;
            const auto& expected = whole_.at(question);
            if (answer == expected)
                ++right_;
            else if (answer != failing && !is_honest(answer, expected))
                wrong.push_back("'" + question + "' has another answer: " + answer +
                                "\ninstead of: " + expected);
            else
                complains = true;
        }
        try {
            if (complains && opened->verify().ok())
                wrong.emplace_back("verify() finds nothing where loads fail");
        } catch (const error&) { // NOLINT(bugprone-empty-catch): it says so
        }
        return wrong;
    }

    //! Whoever falls back behind a damaged head can save under a condition where he can without.
    void go_on(std::vector<std::string>& wrong)
    {
        try {
            const auto opened = wrap_(open_store(kind_, folder_.path()));
            const auto found = detail::resume(*opened, "second", "", resume_options().fall_back());
            if (!found || !found.damage())
                return;
            const auto next = checkpoint("second", found->conversation(), 9);
            const auto head = detail::position_of(found).head.value();
            std::string refused;
            try {
                opened->save(next, save_options().expect_readable_head(head));
            } catch (const error& failure) {
                refused = failure.what();
            }
            if (refused.empty() || opened->save(next).bytes_written() == 0)
                return;
            wrong.push_back("the newest that can be read is '" + head +
                            "', and a save that expects it fails: " + refused);
        } catch (const error&) { // NOLINT(bugprone-empty-catch): it says so
        }
    }

    store_kind kind_;
    wrapper wrap_;
    test::temporary_folder folder_{fast_folder()};
    answers whole_;
    image bytes_;
    std::size_t size_ = 0;
    std::uint64_t asked_ = 0;
    std::uint64_t right_ = 0;
};

class damage_attack final : public attack {
public:
    std::string_view name() const override { return "damage"; }
    std::string_view promise() const override
    {
        return "damage is found and named, and the rest stays readable";
    }
    std::string_view unit() const override { return "mutations"; }
    std::uint64_t full_size() const override { return 24'000; }

    void check_harness(report& to) override
    {
        using use = specimen::use;
        for (const auto kind : both_kinds) {
            checksums_are_skipped = true;
            const bool sees_skipped = notices(kind, use::ask, [](auto inner) { return inner; });
            checksums_are_skipped = false;
            to.self_check(name_of(kind) + " that skips its checksums", sees_skipped);
            to.self_check(
                name_of(kind) + " that takes damage for absence",
                notices(kind, use::ask, [](auto inner) { return std::make_shared<forgiving_store>(inner); }));
            to.self_check(name_of(kind) + " that lets nobody go on behind damage",
                          notices(kind, use::go_on,
                                  [](auto inner) { return std::make_shared<unforgiving_store>(inner); }));
        }
    }

    //! A hundred places of one kind of store, spread over all of it; later rounds take the places between.
    void round(std::uint64_t seed, report& to) override
    {
        auto& subject = specimens_[seed % 2];
        if (!subject)
            subject.emplace(both_kinds[seed % 2]);
        std::mt19937_64 random(seed);
        if (const bool is_early = seed / 2 == 1; is_early && both_kinds[seed % 2] == store_kind::files) {
            std::uint64_t done = 0;
            for (const auto& wrong : subject->harm_sequences(done))
                to.violation("files, " + wrong);
            to.attacked(done);
        }
        for (std::size_t i = 0; i < 100; ++i) {
            const auto number = (seed / 2) * 100 + i; // the golden ratio spreads them
            const auto place =
                static_cast<std::size_t>(static_cast<double>(subject->size()) *
                                         std::fmod(static_cast<double>(number) * 0.6180339887498949, 1));
            const auto how = number % 2 == 0 ? specimen::harm::flip : specimen::harm::cut;
            if (place == 0 && how == specimen::harm::cut)
                continue; // nothing of a file is no damage that a file could tell
            to.attacked();
            for (const auto& wrong : subject->harm_at(place, how, random))
                to.violation(name_of(both_kinds[seed % 2]) + ", " + wrong);
        }
    }

    void finish(report& to) override
    {
        for (std::size_t i = 0; i < 2; ++i)
            if (specimens_[i])
                to.note(name_of(both_kinds[i]) + ": " + std::to_string(specimens_[i]->size()) + " bytes, " +
                        std::to_string(static_cast<int>(specimens_[i]->still_readable() * 100)) +
                        " % of the answers still given");
    }

private:
    static bool notices(store_kind kind, specimen::use what, const specimen::wrapper& broken)
    {
        specimen subject(kind, broken);
        std::mt19937_64 random(1);
        for (std::size_t place = 0; place < subject.size(); place += 7)
            if (!subject.harm_at(place, specimen::harm::flip, random, what).empty())
                return true;
        return false;
    }

    std::optional<specimen> specimens_[2];
};

} // namespace

std::unique_ptr<attack> make_damage_attack()
{
    return std::make_unique<damage_attack>();
}

} // namespace waymark::faults
