#include "sqlite_database.hpp"

#include <waymark/sqlite_store.hpp>

namespace waymark {

sqlite_options& sqlite_options::with_durability(waymark::durability level) & noexcept
{
    durability_ = level;
    return *this;
}

sqlite_options&& sqlite_options::with_durability(waymark::durability level) && noexcept
{
    return std::move(with_durability(level));
}

sqlite_options& sqlite_options::with_busy_timeout(std::chrono::milliseconds timeout) & noexcept
{
    busy_timeout_ = timeout;
    return *this;
}

sqlite_options&& sqlite_options::with_busy_timeout(std::chrono::milliseconds timeout) && noexcept
{
    return std::move(with_busy_timeout(timeout));
}

sqlite_options& sqlite_options::with_secure_erase(bool erase) & noexcept
{
    secure_erase_ = erase;
    return *this;
}

sqlite_options&& sqlite_options::with_secure_erase(bool erase) && noexcept
{
    return std::move(with_secure_erase(erase));
}

sqlite_options& sqlite_options::with_limits(waymark::limits bounds) & noexcept
{
    limits_ = bounds;
    return *this;
}

sqlite_options&& sqlite_options::with_limits(waymark::limits bounds) && noexcept
{
    return std::move(with_limits(bounds));
}

namespace {

std::unique_ptr<tables::database> open_file(const std::filesystem::path& path, const sqlite_options& options)
{
    if (path.empty())
        throw error(errc::invalid_argument, "the path of a database is empty; name a file");
    return std::make_unique<sqlite::sqlite_database>(path, options);
}

} // namespace

sqlite_store::sqlite_store(const std::filesystem::path& path, const sqlite_options& options)
    : sqlite_store(open_file(path, options), options.limits())
{
}

sqlite_store::sqlite_store(std::unique_ptr<tables::database> database, const waymark::limits& bounds)
    : table_store(std::move(database), bounds)
{
}

sqlite_store::~sqlite_store() = default;

std::shared_ptr<sqlite_store> sqlite_store::in_memory(const sqlite_options& options)
{
    return std::shared_ptr<sqlite_store>(new sqlite_store(
        std::make_unique<sqlite::sqlite_database>(std::filesystem::path(), options), options.limits()));
}

} // namespace waymark
