//! A real file system loses its power: an ext4 in a file, shut down without writing its journal, mounted
//! again.
#include "attack.hpp"
#include "fast_folder.hpp"
#include "ledger.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/ioctl.h>
#include <unistd.h>

namespace waymark::faults {

namespace {

constexpr unsigned long shut_down = 0x8004587d; // FS_IOC_SHUTDOWN
constexpr int without_the_journal = 2;

bool run(const std::string& command)
{
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0; // NOLINT(concurrency-mt-unsafe)
}

class cuttable_disk {
public:
    //! @throws not_possible_here
    cuttable_disk()
    {
        if (::geteuid() != 0)
            throw not_possible_here("mounting a file system needs root");
        std::ofstream(image()).flush();
        std::filesystem::resize_file(image(), 48 << 20);
        std::filesystem::create_directory(mounted());
        if (!run("mkfs.ext4 -q -F " + image().native()))
            throw not_possible_here("mkfs.ext4 is missing (package e2fsprogs)");
        mount();
    }
    cuttable_disk(const cuttable_disk&) = delete;
    cuttable_disk& operator=(const cuttable_disk&) = delete;
    ~cuttable_disk() { unmount(); }

    std::filesystem::path mounted() const { return folder_.path() / "disk"; }

    void cut()
    {
        const int root = ::open(mounted().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        auto how = without_the_journal;
        const int result = ::ioctl(root, shut_down, &how);
        ::close(root);
        if (result != 0)
            throw not_possible_here("the file system cannot be shut down");
    }

    //! The power is back. Nobody has a file open there.
    void mount_again()
    {
        unmount();
        mount();
    }

private:
    std::filesystem::path image() const { return folder_.path() / "image"; }

    void mount()
    {
        if (!run("mount -o loop " + image().native() + " " + mounted().native()))
            throw not_possible_here("a file cannot be mounted here (no loop devices)");
    }
    void unmount() { run("umount " + mounted().native()); }

    test::temporary_folder folder_{fast_folder()};
};

//! Lives and cuts on one disk.
class life_on_a_disk {
public:
    explicit life_on_a_disk(store_kind kind, flaw broken = flaw::none) : kind_(kind), broken_(broken) {}

    //! Cuts the power under a writer at some moment. Returns what is wrong afterwards.
    std::vector<std::string> cut(std::mt19937_64& random)
    {
        {
            auto process = writer_process{.kind = kind_,
                                          .folder = disk_.mounted(),
                                          .agent_id = "agent",
                                          .seed = random(),
                                          .broken = broken_}
                               .start();
            std::string line;
            for (auto left = 1 + random() % 60; left > 0 && process.read_line(line); --left)
                add(line, false);
            disk_.cut();
            process.kill();
            // A machine without power acknowledges nothing. This process ran on for a moment, and the system
            // may have told it that a sync was done which the cut had overtaken.
            while (process.read_line(line))
                add(line, true);
        }
        disk_.mount_again();
        return notes_.check(*open_store(kind_, disk_.mounted()));
    }

    std::size_t acknowledged() const noexcept { return notes_.acknowledged(); }

private:
    void add(const std::string& line, bool is_late)
    {
        if (line == "open" || line.starts_with(failed)) // without power it has to fail
            return;
        const auto entry = ledger_entry::from_line(line);
        notes_.add(is_late ? entry.only_tried() : entry);
    }

    store_kind kind_;
    flaw broken_;
    cuttable_disk disk_;
    ledger notes_;
};

class power_cut_attack final : public attack {
public:
    std::string_view name() const override { return "power-cuts"; }
    std::string_view promise() const override { return "an acknowledged save survives a power cut, on ext4"; }
    std::string_view unit() const override { return "cuts"; }
    std::uint64_t full_size() const override { return 200; } // half of them for each store
    std::uint64_t small_size() const override { return 20; }

    void check_harness(report& to) override
    {
        expect_loss(to, "WAL with synchronous=NORMAL", store_kind::sqlite, flaw::relaxed);
        expect_loss(to, "files without syncs of folders", store_kind::files, flaw::skips_folder_syncs);
        expect_loss(to, "files without any sync", store_kind::files, flaw::skips_all_syncs);
    }

    void round(std::uint64_t seed, report& to) override
    {
        std::mt19937_64 random(seed);
        const auto kind = both_kinds[seed % 2];
        life_on_a_disk life(kind);
        for (int i = 0; i < 10; ++i) {
            to.attacked();
            for (const auto& wrong : life.cut(random))
                to.violation(name_of(kind) + ", cut " + std::to_string(i) + ": " + wrong);
        }
        acknowledged_ += life.acknowledged();
    }

    void finish(report& to) override { to.note(std::to_string(acknowledged_) + " acknowledged changes"); }

private:
    static void expect_loss(report& to, const std::string& broken, store_kind kind, flaw how)
    {
        std::mt19937_64 random(1);
        bool noticed = false;
        for (int disk = 0; disk < 40 && !noticed; ++disk) {
            life_on_a_disk life(kind, how);
            for (int i = 0; i < 3 && !noticed; ++i)
                noticed = !life.cut(random).empty();
        }
        to.self_check(broken, noticed);
    }

    std::size_t acknowledged_ = 0;
};

} // namespace

std::unique_ptr<attack> make_power_cut_attack()
{
    return std::make_unique<power_cut_attack>();
}

} // namespace waymark::faults
