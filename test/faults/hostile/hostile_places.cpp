#include "hostile_places.hpp"

#include "fast_folder.hpp"
#include "hostile_text.hpp"
#include "sqlite_probe.hpp"

#include <waymark/file_store.hpp>
#include <waymark/memory_store.hpp>
#include <waymark/sqlite_store.hpp>

#ifdef WAYMARK_WITH_POSTGRES
#include "postgres_probe.hpp"

#include <waymark/postgres_store.hpp>
#endif

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

namespace waymark::faults {

namespace fs = std::filesystem;

namespace {

void write_sentinel(const fs::path& folder)
{
    std::ofstream(folder / "sentinel") << "nothing may happen to me";
}

std::string text_of(const fs::path& file)
{
    std::ifstream from(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(from), {}};
}

fs::perms permissions_of(const fs::path& path)
{
    return fs::symlink_status(path).permissions();
}

} // namespace

// The ground

guarded_ground::guarded_ground() : folder_(fast_folder()), here_before_(fs::current_path())
{
    constexpr int levels = 10; // more than the hostile paths go up
    fs::create_directory(outside());
    write_sentinel(outside());
    auto level = folder_.path();
    for (int i = 0; i < levels; ++i) {
        write_sentinel(level);
        level /= "level" + std::to_string(i);
        fs::create_directory(level);
    }
    stores_ = level / "stores";
    fs::create_directory(stores_);
    fs::create_directory(level / "here");
    write_sentinel(level / "here");
    at_first_ = guarded();
    fs::current_path(level / "here");
    mask_before_ = ::umask(0);
}

guarded_ground::~guarded_ground()
{
    ::umask(mask_before_);
    std::error_code ignored;
    fs::current_path(here_before_, ignored);
}

bool guarded_ground::contains(const fs::path& path) const
{
    const auto below = path.lexically_normal().lexically_relative(folder_.path());
    return !below.empty() && *below.begin() != "..";
}

//! Everything but what is in the stores, with permissions and content.
guarded_ground::listing guarded_ground::guarded() const
{
    listing found;
    for (fs::recursive_directory_iterator at(folder_.path()), end; at != end; ++at) {
        const auto mode = std::to_string(static_cast<unsigned>(permissions_of(at->path())));
        found[at->path().native()] = mode + (at->is_regular_file() ? " " + text_of(at->path()) : "");
        if (at->path() == stores_)
            at.disable_recursion_pending();
    }
    return found;
}

void guarded_ground::look_into_stores(std::vector<std::string>& complaints) const
{
    for (const auto& entry : fs::recursive_directory_iterator(stores_)) {
        const auto status = entry.symlink_status();
        const auto wanted =
            fs::is_directory(status) ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write;
        if (!fs::is_directory(status) && !fs::is_regular_file(status))
            complaints.push_back(shown(entry.path().native()) + " is neither a file nor a folder");
        else if (status.permissions() != wanted)
            complaints.push_back(shown(entry.path().native()) + " is not for the owner alone");
    }
}

std::vector<std::string> guarded_ground::complaints() const
{
    std::vector<std::string> result;
    const auto now_there = guarded();
    for (const auto& [path, what] : now_there)
        if (const auto known = at_first_.find(path); known == at_first_.end())
            result.push_back(shown(path) + " appeared outside of the stores");
        else if (known->second != what)
            result.push_back(shown(path) + " was changed");
    for (const auto& [path, what] : at_first_)
        if (!now_there.contains(path))
            result.push_back(shown(path) + " disappeared");
    look_into_stores(result);
    return result;
}

// The stores

hostile_target memory_target()
{
    return {"memory", std::make_shared<memory_store>(), {}, [] { return std::vector<std::string>(); }};
}

hostile_target file_target(const guarded_ground& ground)
{
    const auto folder = ground.place_of("files");
    const auto reopen = [folder](std::shared_ptr<store> current) -> std::shared_ptr<store> {
        current.reset(); // it has one writer
        return std::make_shared<file_store>(folder);
    };
    // The agents have folders that come and go; the store's own are always the same.
    const auto structure = [folder] {
        std::vector<std::string> own;
        for (const auto& entry : fs::directory_iterator(folder / ".waymark"))
            own.push_back(entry.path().filename().native());
        std::sort(own.begin(), own.end());
        return own;
    };
    return {"files", std::make_shared<file_store>(folder), reopen, structure};
}

hostile_target sqlite_target(const guarded_ground& ground)
{
    const auto file = ground.place_of("sqlite") / "store.db";
    const auto reopen = [file](std::shared_ptr<store> current) -> std::shared_ptr<store> {
        current.reset();
        return std::make_shared<sqlite_store>(file);
    };
    auto backend = std::make_shared<sqlite_store>(file);
    const auto probe = std::make_shared<test::other_connection>(file);
    const auto structure = [file, probe] {
        auto found = probe->run("SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master "
                                "UNION ALL SELECT 'database ' || name FROM pragma_database_list");
        for (const auto& entry : fs::directory_iterator(file.parent_path()))
            if (const auto name = entry.path().filename().native();
                name != "store.db" && name != "store.db-wal" && name != "store.db-shm")
                found.push_back("file " + name);
        return found;
    };
    return {"SQLite", std::move(backend), reopen, structure};
}

#ifdef WAYMARK_WITH_POSTGRES

hostile_target postgres_target(const std::string& conninfo, const std::string& schema)
{
    // Nobody cuts the power here, and to wait for the disk would take most of the time.
    const auto open = [=]() -> std::shared_ptr<store> {
        return std::make_shared<postgres_store>(conninfo, postgres_options()
                                                              .with_schema(schema)
                                                              .with_durability(durability::relaxed)
                                                              .with_prepared_statements());
    };
    const auto reopen = [=](std::shared_ptr<store> current) {
        current.reset();
        return open();
    };
    const auto probe = std::make_shared<test::server_connection>(conninfo);
    // Others may be making schemas for tests at the same time.
    const auto structure = [=] {
        return probe->run("SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^(test|pg)_' "
                          "UNION ALL SELECT relkind::text || ' ' || nspname || '.' || relname FROM pg_class "
                          "JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname IN ('public', '" +
                          schema + "') UNION ALL SELECT 'role ' || rolname FROM pg_roles ORDER BY 1");
    };
    return {"PostgreSQL", open(), reopen, structure};
}

#endif

} // namespace waymark::faults
