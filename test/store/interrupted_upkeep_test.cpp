//! Long work on a SQLite file: what it leaves when it is stopped, what others see of it, and how much it does
//! before it gives way.
#include "backends/sqlite/sqlite_database.hpp"
#include "catch.hpp"
#include "forwarding_tables.hpp"
#include "sqlite_probe.hpp"
#include "temporary_folder.hpp"

#include <waymark/sqlite_store.hpp>
#include <waymark/transfer.hpp>

#include <barrier>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stop_token>
#include <thread>

using namespace waymark;

namespace {

constexpr int all_turns = 600; // more than one transaction of any kind
constexpr int kept = 10;

struct long_agent {
    test::temporary_folder folder;
    std::filesystem::path file = folder.path() / "store.db";
    sqlite_store store{file};
    sqlite_store others{file}; // as another process would
    conversation chat;

    long_agent() : long_agent(all_turns) {}
    explicit long_agent(int checkpoints)
    {
        std::vector<save_request> batch;
        for (int i = 0; i < checkpoints; ++i)
            batch.emplace_back(next(std::to_string(i)));
        for (const auto& outcome : store.save(batch))
            outcome.value_or_throw();
        std::vector<step_request> steps;
        for (int i = 0; i < 20; ++i)
            steps.emplace_back(step("agent", "", "call-" + std::to_string(i)).with_result(i));
        for (const auto& outcome : store.put_steps(steps))
            outcome.value_or_throw();
    }

    checkpoint next(const std::string& id)
    {
        chat.push(message::user("turn " + id + std::string(1'000, '.')));
        return checkpoint("agent", chat).with_id(id).with_state({{"file", std::string(2'000, 'f') + id}});
    }

    std::int64_t rows(const std::string& table)
    {
        return test::other_connection(file).number("SELECT count(*) FROM " + table);
    }
    //! Of every table.
    std::map<std::string, std::int64_t> all_rows()
    {
        std::map<std::string, std::int64_t> counts;
        for (const auto* table : {"agents", "scopes", "checkpoints", "messages", "objects", "steps"})
            counts[table] = rows(table);
        return counts;
    }

    bool sees(const std::string& agent)
    {
        const auto listed = others.list_agents();
        const bool is_listed = std::find(listed.begin(), listed.end(), agent) != listed.end();
        CHECK(others.load_latest(agent).has_value() == is_listed);
        CHECK((others.count(query(agent)) > 0) == is_listed);
        CHECK(others.list(query(agent).limit(3)).empty() == !is_listed);
        CHECK(others.load_steps(step_query(agent)).empty() == !is_listed);
        CHECK((others.stats(agent).checkpoints > 0) == is_listed);
        CHECK(others.stats().agents == listed.size());
        return is_listed;
    }
};

//! Stops the work when it reports for the nth time.
class stop_at {
public:
    explicit stop_at(int report)
    {
        control_.on_progress([this, report](const upkeep_progress&) {
            if (++reports_ == report)
                source_.request_stop();
        });
        control_.stop_with(source_.get_token());
    }
    const upkeep_control& control() const noexcept { return control_; }

private:
    std::stop_source source_;
    upkeep_control control_;
    int reports_ = 0;
};

//! Whether it was stopped.
bool was_stopped(const std::function<void()>& work)
{
    try {
        work();
        return false;
    } catch (const error& failure) {
        CHECK(failure.code() == std::errc::operation_canceled);
        return true;
    }
}

std::error_code code_of(const std::function<void()>& work)
{
    try {
        work();
        return {};
    } catch (const error& failure) {
        return failure.code();
    }
}

upkeep_control at_each_report(std::function<void(int report)> what)
{
    return [what = std::move(what), report = 0](const upkeep_progress&) mutable { what(++report); };
}

const retention keep_some = retention().keep_last(kept);

} // namespace

TEST_CASE("a prune that is stopped keeps what it has removed, and the next one does the rest")
{
    long_agent f;
    stop_at stop(1);
    REQUIRE(was_stopped([&] { f.store.prune("agent", keep_some, dry_run::no, stop.control()); }));
    const auto left = f.store.count(query("agent"));
    CHECK(left < all_turns);
    CHECK(left > kept);
    CHECK(f.others.verify().ok());
    CHECK(f.store.prune("agent", keep_some, dry_run::no).count() == left - kept);
    CHECK(f.store.count(query("agent")) == kept);
    CHECK(f.rows("objects") == kept); // what the first one left behind is swept, too
    CHECK(f.store.load_latest("agent")->conversation() == f.chat);
    CHECK(f.store.verify().ok());
}

TEST_CASE("a removal of a scope that is stopped keeps what it has removed, and the next one does the rest")
{
    long_agent f;
    stop_at stop(1);
    REQUIRE(was_stopped([&] { f.store.erase_scope("agent", "", stop.control()); }));
    const auto left = f.store.count(query("agent"));
    CHECK(left < all_turns);
    CHECK(left > 0);
    CHECK(f.others.load_latest("agent")->conversation() == f.chat); // the oldest go first
    CHECK(f.others.verify().ok());
    CHECK(f.store.erase_scope("agent", "") == left);
    CHECK_FALSE(f.sees("agent"));
    CHECK(f.rows("messages") + f.rows("objects") + f.rows("steps") == 0);
    CHECK(f.store.verify().ok());
}

TEST_CASE("a sweep that is stopped keeps what it has removed, and the next one does the rest")
{
    long_agent f;
    for (int i = 0; i < all_turns - 1; ++i) // leaves the state of each, and sweeps nothing
        f.others.erase("agent", "", std::to_string(i));
    REQUIRE(f.rows("objects") == all_turns);
    stop_at stop(1);
    const bool by_compacting = GENERATE(false, true);
    const auto sweep = [&](const upkeep_control& control) {
        if (by_compacting)
            f.store.compact(control);
        else
            f.store.sweep("agent", control);
    };
    REQUIRE(was_stopped([&] { sweep(stop.control()); }));
    CHECK(f.rows("objects") < all_turns);
    CHECK(f.rows("objects") > 1);
    CHECK(f.others.verify().ok());
    sweep({});
    CHECK(f.rows("objects") == 1);
    CHECK(f.store.load_latest("agent")->conversation() == f.chat);
    CHECK(f.store.verify().ok());
}

TEST_CASE("a verification that is stopped says nothing")
{
    long_agent f;
    stop_at stop(1);
    CHECK(was_stopped([&] { f.store.verify(stop.control()); }));
    CHECK(f.store.verify().ok());
}

TEST_CASE("an import that is stopped keeps what it has written, and the next one does the rest")
{
    long_agent f;
    std::stringstream lines;
    export_lines(f.store, lines);
    std::stop_source source;
    auto options = import_options().as_agent("imported").stop_with(source.get_token());
    options.with_progress([&](const transfer_result&) { source.request_stop(); });
    REQUIRE(was_stopped([&] { import_lines(f.store, lines, options); }));
    const auto there = f.store.count(query("imported"));
    CHECK(there > 0);
    CHECK(there < all_turns);
    lines.clear();
    lines.seekg(0);
    const auto rest = import_lines(f.store, lines, import_options().as_agent("imported"));
    CHECK(rest.skipped() == there);
    CHECK(rest.checkpoints() == all_turns - there);
    CHECK(f.store.load_latest("imported")->conversation() == f.chat);
    CHECK(f.store.verify().ok());
}

TEST_CASE("an export can be stopped")
{
    long_agent f;
    std::stringstream lines;
    std::stop_source source;
    auto options = export_options().stop_with(source.get_token());
    options.with_progress([&](const transfer_result&) { source.request_stop(); });
    REQUIRE(was_stopped([&] { export_lines(f.store, lines, options); }));
    CHECK(
        code_of([&] { import_lines(f.store, lines, import_options().as_agent("cut")); })); // it is not whole
}

TEST_CASE("a copy that is stopped anywhere leaves nothing")
{
    long_agent f;
    const auto before = f.all_rows();
    int report = 1;
    for (; report < 1'000; ++report) {
        stop_at stop(report);
        if (!was_stopped([&] { f.store.copy_agent("agent", "copy", stop.control()); }))
            break;
        CHECK(f.all_rows() == before);
        CHECK_FALSE(f.sees("copy"));
    }
    CHECK(report > 5); // it was stopped in several places
    CHECK(f.sees("copy"));
    CHECK(f.store.verify().ok());
}

TEST_CASE("work that takes long says how far it is, and when it is done")
{
    long_agent f;
    std::vector<upkeep_progress> seen;
    const upkeep_control control = [&](const upkeep_progress& now) { seen.push_back(now); };
    const auto require_progress = [&] {
        REQUIRE(seen.size() > 1);
        for (std::size_t i = 1; i < seen.size(); ++i)
            CHECK(seen[i - 1].done <= seen[i].done);
        CHECK(seen.front().done < seen.back().done);
        CHECK(seen.back().done == seen.back().total);
        seen.clear();
    };
    f.store.verify(control);
    require_progress();
    f.store.copy_agent("agent", "copy", control);
    require_progress();
    for (int i = 0; i < all_turns - 1; ++i)
        f.store.erase("agent", "", std::to_string(i));
    f.store.sweep("agent", control);
    require_progress();
    f.others.copy_agent("copy", "another");
    f.store.prune("another", keep_some, dry_run::no, control); // and what only they needed
    require_progress();

    f.store.erase_scope("copy", "", control);
    REQUIRE(seen.size() > 1);
    CHECK(seen.front().done < all_turns);
}

TEST_CASE("nobody sees a copy before it is whole")
{
    long_agent f;
    std::vector<bool> seen;
    f.store.copy_agent("agent", "copy", at_each_report([&](int) { seen.push_back(f.sees("copy")); }));
    REQUIRE(seen.size() > 5);
    CHECK(seen.back());
    seen.pop_back();
    CHECK(std::find(seen.begin(), seen.end(), true) == seen.end());
    CHECK(f.store.count(query("copy")) == all_turns);
    CHECK(f.store.load_steps(step_query("copy")).size() == 20);
}

TEST_CASE("what is saved to an agent while it is copied is not part of the copy")
{
    long_agent f;
    int saved = 0;
    f.store.copy_agent("agent", "copy", at_each_report([&](int report) {
                           f.others.save(f.next("later " + std::to_string(report)));
                           ++saved;
                       }));
    REQUIRE(saved > 5);
    CHECK(f.store.count(query("agent")) == static_cast<std::uint64_t>(all_turns + saved));
    CHECK(f.store.count(query("copy")) == all_turns);
    CHECK(f.store.load_latest("copy")->id() == std::to_string(all_turns - 1));
    CHECK(f.store.verify().ok());
}

TEST_CASE("an agent that changes while it is copied is copied anew")
{
    long_agent f;
    const auto change = GENERATE(0, 1, 2);
    f.store.copy_agent("agent", "copy", at_each_report([&](int report) {
                           if (report != 3)
                               return;
                           if (change == 0)
                               f.others.erase("agent", "", "7");
                           else if (change == 1)
                               f.others.prune("agent", keep_some, dry_run::no);
                           else
                               f.others.save(checkpoint("agent").with_id("7").with_name("replaced"));
                       }));
    const auto originals = f.store.list(query("agent"));
    const auto copies = f.store.list(query("copy"));
    REQUIRE(originals.size() == copies.size());
    for (std::size_t i = 0; i < copies.size(); ++i)
        CHECK((originals[i].id() == copies[i].id() && originals[i].name() == copies[i].name()));
    f.store.compact();
    CHECK(f.rows("agents") == 2);
    CHECK(f.store.verify().ok());
}

TEST_CASE("an agent that is erased while it is copied leaves no copy")
{
    for (int when = 1;; ++when) {
        long_agent f(100);
        int reports = 0;
        const auto code = code_of([&] {
            f.store.copy_agent("agent", "copy", at_each_report([&](int report) {
                                   reports = report;
                                   if (report == when)
                                       f.others.erase_agent("agent");
                               }));
        });
        if (!code) { // the erasure came after it
            CHECK(when >= reports);
            CHECK(f.sees("copy"));
            CHECK(f.store.verify().ok());
            break;
        }
        CHECK((code == errc::busy || code == errc::not_found));
        CHECK_FALSE(f.sees("copy"));
        f.store.compact();
        CHECK(f.rows("agents") == 0);
        CHECK(f.rows("messages") == 0);
    }
}

TEST_CASE("of two copies onto one agent, one succeeds")
{
    for (int when = 1;; ++when) {
        long_agent f(100);
        bool was_second = false;
        const auto code = code_of([&] {
            f.store.copy_agent("agent", "copy", at_each_report([&](int report) {
                                   if (report != when || f.sees("copy"))
                                       return;
                                   was_second = true;
                                   f.others.copy_agent("agent", "copy");
                               }));
        });
        CHECK(f.store.count(query("copy")) == 100);
        CHECK(f.rows("agents") == 2);
        CHECK(f.rows("checkpoints") == 200); // nothing is left of the other
        CHECK(f.store.verify().ok());
        if (!was_second) {
            CHECK_FALSE(code);
            CHECK(when > 3);
            break;
        }
        CHECK(code == errc::conflict);
    }
}

TEST_CASE("two prunes, sweeps and compactions of one agent do each other no harm")
{
    long_agent f;
    const std::function<void(sqlite_store&, const upkeep_control&)> kinds[] = {
        [](sqlite_store& in, const upkeep_control& control) {
            in.prune("agent", keep_some, dry_run::no, control);
        },
        [](sqlite_store& in, const upkeep_control& control) { in.sweep("agent", control); },
        [](sqlite_store& in, const upkeep_control& control) { in.compact(control); },
        [](sqlite_store& in, const upkeep_control& control) {
            in.prune("agent", retention().keep_last(2 * kept), dry_run::no, control);
        },
    };
    SECTION("one in the middle of another")
    {
        const auto& inner = kinds[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
        int reports = 0;
        f.store.prune("agent", keep_some, dry_run::no, at_each_report([&](int report) {
                          if (report % 2 == 1)
                              inner(f.others, {});
                          reports = report;
                      }));
        CHECK(reports > 0);
    }
    SECTION("all of them at once")
    {
        std::barrier begin(4);
        std::vector<std::jthread> threads;
        std::vector<std::error_code> codes(4);
        for (std::size_t i = 0; i < 4; ++i)
            threads.emplace_back([&, i] {
                auto& in = i % 2 == 0 ? f.store : f.others;
                begin.arrive_and_wait();
                codes[i] = code_of([&] { kinds[i](in, {}); });
            });
        threads.clear();
        for (const auto& code : codes)
            CHECK_FALSE(code);
    }
    CHECK(f.store.count(query("agent")) == kept);
    f.store.sweep("agent");
    CHECK(f.rows("objects") == kept);
    CHECK(f.store.load_latest("agent")->conversation() == f.chat);
    CHECK(f.store.verify().ok());
}

TEST_CASE("an erased agent is gone at once, and one of the same name survives the sweep of its rows")
{
    long_agent f;
    CHECK(f.store.erase_agent("agent") == all_turns);
    CHECK_FALSE(f.sees("agent"));
    CHECK(f.rows("checkpoints") == all_turns); // erasing is short: they are removed later

    f.store.save(checkpoint("agent", f.chat).with_id("anew"));
    CHECK(f.others.count(query("agent")) == 1);
    CHECK(f.others.load_steps(step_query("agent")).empty());
    int reports = 0;
    f.store.sweep("agent", at_each_report([&](int report) { reports = report; }));
    CHECK(f.rows("checkpoints") == 1);
    CHECK(f.rows("agents") == 1);
    CHECK(f.store.load_latest("agent")->conversation() == f.chat);
    CHECK(f.store.verify().ok());
}

namespace {

//! Notes how many rows each transaction changes.
class change_counting_tables final : public test::forwarding_tables {
public:
    change_counting_tables(std::unique_ptr<tables::transaction> inner, std::vector<std::size_t>& changes)
        : forwarding_tables(std::move(inner)), changes_(changes)
    {
    }
    void commit() override
    {
        forwarding_tables::commit();
        if (count_ > 0)
            changes_.push_back(count_);
    }
    bool insert_checkpoint(const tables::checkpoint_row& row) override
    {
        ++count_;
        return forwarding_tables::insert_checkpoint(row);
    }
    void remove_checkpoint(std::int64_t agent, std::string_view scope, std::string_view id) override
    {
        ++count_;
        forwarding_tables::remove_checkpoint(agent, scope, id);
    }
    void insert_messages(const tables::message_row& row) override
    {
        ++count_;
        forwarding_tables::insert_messages(row);
    }
    void remove_messages(std::int64_t agent, std::int64_t first) override
    {
        ++count_;
        forwarding_tables::remove_messages(agent, first);
    }
    void insert_object(const tables::object_row& row) override
    {
        ++count_;
        forwarding_tables::insert_object(row);
    }
    void remove_object(std::int64_t agent, std::int64_t number) override
    {
        ++count_;
        forwarding_tables::remove_object(agent, number);
    }

private:
    std::vector<std::size_t>& changes_;
    std::size_t count_ = 0;
};

class change_counting_database final : public test::forwarding_database {
public:
    change_counting_database(std::unique_ptr<tables::database> inner, std::vector<std::size_t>& changes)
        : forwarding_database(std::move(inner)), changes_(changes)
    {
    }

protected:
    std::unique_ptr<tables::transaction> behind(std::unique_ptr<tables::transaction> begun) override
    {
        return std::make_unique<change_counting_tables>(std::move(begun), changes_);
    }

private:
    std::vector<std::size_t>& changes_;
};

} // namespace

TEST_CASE("no transaction of upkeep changes many rows")
{
    long_agent f(2'000);
    std::vector<std::size_t> changes; // of each transaction
    test::store_on_database store(std::make_unique<change_counting_database>(
        std::make_unique<sqlite::sqlite_database>(f.file, sqlite_options()), changes));
    const auto require_small = [&](std::size_t all) {
        std::size_t sum = 0;
        for (const auto rows : changes) {
            CHECK(rows <= 256);
            sum += rows;
        }
        CHECK(sum >= all);
        changes.clear();
    };
    store.copy_agent("agent", "copy");
    require_small(2'000 * 2); // checkpoints and objects; messages share rows
    store.prune("copy", keep_some, dry_run::no);
    require_small(2 * (2'000 - kept));
    store.erase_scope("copy", "");
    require_small(2 * kept);
    CHECK(store.erase_agent("agent") == 2'000);
    CHECK(changes.empty());
    CHECK(store.verify().ok());
}

TEST_CASE("the log becomes short again after a long read")
{
    long_agent f(10);
    const auto log = f.file.native() + "-wal";
    const auto save_some = [&](int mebibytes) {
        for (int i = 0; i < mebibytes; ++i)
            f.store.save(checkpoint("other").with_state(
                {{"file", std::string(std::size_t{1} << 20, 'x') + std::to_string(i)}, {"number", i}}));
    };
    {
        test::other_connection reader(f.file);
        reader.run("BEGIN; SELECT count(*) FROM agents");
        save_some(60);
        REQUIRE(std::filesystem::file_size(log) > std::size_t{48} << 20);
    }
    const auto is_long = [&] { return std::filesystem::file_size(log) > std::size_t{33} << 20; };
    for (int i = 0; i < 300 && is_long(); ++i)
        save_some(1);
    CHECK_FALSE(is_long());
    CHECK(f.others.count(query("other")) >= 60);
    CHECK(f.others.verify().ok());
}
