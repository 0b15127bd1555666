//! The disk is full, at a place in an operation that chance decides; later there is room again.
#include "attack.hpp"
#include "contents.hpp"
#include "forwarding_store.hpp"
#include "temporary_folder.hpp"
#include "worker.hpp"
#include "writer.hpp"

#include <fcntl.h>
#include <functional>
#include <random>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace waymark::faults {

namespace {

//! A file system in memory with two megabytes, and a file that takes what shall not be free.
class small_disk {
public:
    small_disk()
    {
        if (::mount("waymark", folder_.path().c_str(), "tmpfs", 0, "size=2m") != 0)
            throw not_possible_here("mounting a file system needs root");
    }
    small_disk(const small_disk&) = delete;
    small_disk& operator=(const small_disk&) = delete;
    ~small_disk() { ::umount(folder_.path().c_str()); }

    const std::filesystem::path& path() const noexcept { return folder_.path(); }

    void leave_free(std::uint64_t bytes)
    {
        struct statvfs found {};
        ::statvfs(path().c_str(), &found);
        const auto free = static_cast<std::uint64_t>(found.f_bavail) * found.f_bsize;
        const int file = ::open(ballast().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0 || (free > bytes && ::posix_fallocate(file, 0, static_cast<off_t>(free - bytes)) != 0))
            throw std::runtime_error("the small disk cannot be filled");
        ::close(file);
    }
    void make_room() { std::filesystem::remove(ballast()); }

private:
    std::filesystem::path ballast() const { return path() / "ballast"; }

    test::temporary_folder folder_;
};

//! A store that keeps a part of a batch for which there was no room.
class half_store final : public test::forwarding_store {
public:
    using forwarding_store::forwarding_store;

    using store::save;
    std::vector<save_outcome> save(std::span<const save_request> batch) override
    {
        try {
            return forwarding_store::save(batch);
        } catch (const error&) {
            make_room_();
            forwarding_store::save(batch.first(1));
            throw;
        }
    }
    void on_failure(std::function<void()> make_room) { make_room_ = std::move(make_room); }

private:
    std::function<void()> make_room_;
};

//! Writes until there is no room, then makes room, again and again. Returns what is wrong.
std::vector<std::string> fill_and_free(store_kind kind, std::uint64_t seed, int times, bool broken)
{
    std::mt19937_64 random(seed);
    small_disk disk;
    std::shared_ptr<store> opened = open_store(kind, disk.path());
    if (broken) {
        auto half = std::make_shared<half_store>(opened);
        half->on_failure([&] { disk.make_room(); });
        opened = half;
    }
    writer life(*opened, "agent", seed, [](const ledger_entry&) {});
    for (int i = 0; i < 4; ++i)
        life.act();
    std::vector<std::string> wrong;
    for (int time = 0; time < times && wrong.empty(); ++time) {
        disk.leave_free(random() % (96 << 10));
        std::string before;
        try {
            for (int i = 0; i < 500; ++i) {
                before = everything_in(*opened);
                life.act();
            }
            wrong.emplace_back("500 operations found room on a full disk");
        } catch (const error& failure) {
            if (failure.code() != errc::io)
                wrong.push_back(std::string("a full disk is another error: ") + failure.what());
            else if (everything_in(*opened) != before)
                wrong.push_back(std::string("something has changed: ") + failure.what());
        }
        disk.make_room();
        for (int i = 0; i < 3; ++i)
            life.act(); // all is well again, without opening the store anew
        opened->erase_agent("agent");
        opened->compact();
        life.forget();
    }
    return wrong;
}

class full_disk_attack final : public attack {
public:
    std::string_view name() const override { return "full-disk"; }
    std::string_view promise() const override
    {
        return "a full disk is an error that changes nothing, and goes when there is room";
    }
    std::string_view unit() const override { return "full disks"; }
    std::uint64_t full_size() const override { return 400; }
    std::uint64_t small_size() const override { return 40; }

    void check_harness(report& to) override
    {
        for (const auto kind : both_kinds)
            to.self_check(name_of(kind) + " that keeps half of a batch",
                          !fill_and_free(kind, 1, 10, true).empty());
    }

    void round(std::uint64_t seed, report& to) override
    {
        constexpr int times = 10;
        const auto kind = both_kinds[seed % 2];
        to.attacked(times);
        for (const auto& wrong : fill_and_free(kind, seed, times, false))
            to.violation(name_of(kind) + ": " + wrong);
    }
};

} // namespace

std::unique_ptr<attack> make_full_disk_attack()
{
    return std::make_unique<full_disk_attack>();
}

} // namespace waymark::faults
